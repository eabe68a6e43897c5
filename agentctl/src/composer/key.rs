//! Keys and pastes, as far as the client uses them.

use std::time::Instant;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Key or paste at the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    /// Inserts a line break: Alt-Enter, Ctrl-J.
    Break,
    Tab,
    /// Selects the next mode of the session: Shift-Tab.
    Mode,
    Up,
    Down,
    Left,
    Right,
    /// Moves by a word: Alt or Ctrl with an arrow, Alt-B and Alt-F.
    WordLeft,
    WordRight,
    /// Moves to the start or end of the row; also Ctrl-A and Ctrl-E.
    Home,
    End,
    Backspace,
    Delete,
    /// Cuts the word before the cursor: Ctrl-W, Alt-Backspace.
    Word,
    /// Cuts the word after the cursor: Alt-D.
    WordAfter,
    /// Cuts the row before the cursor: Ctrl-U.
    Erase,
    /// Cuts the row after the cursor: Ctrl-K.
    Rest,
    /// Inserts the text that was cut last: Ctrl-Y.
    Yank,
    /// Reverts an edit: Ctrl-_, which terminals also send for Ctrl-/.
    Undo,
    /// Reverts an undo: Alt-_, Alt-/.
    Redo,
    /// Searches the history: Ctrl-R.
    Search,
    /// Starts a sequence of two keys: Ctrl-X.
    Prefix,
    /// Opens the text in the user's editor: Alt-E.
    Open,
    /// Inserts the picture of the clipboard: Ctrl-V, or the paste without text that some terminals send for a picture.
    Picture,
    /// Shows the last result: Ctrl-O.
    Show,
    /// Clears the screen: Ctrl-L.
    Clear,
    Escape,
    /// Leaves, or deletes a character: Ctrl-D.
    Leave,
    /// Stops the process until it is continued: Ctrl-Z.
    Suspend,
    /// No key: the size of the window changed.
    Resize,
    /// No key: the process was continued, and the cursor is somewhere else.
    Resume,
    /// Paste, as marked by the terminal.
    Paste(String),
}

/// Key with the time at which it was pressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Press {
    pub(crate) key: Key,
    pub(crate) at: Instant,
}

impl Key {
    /// Returns the key of a terminal event, or `None` if the client does not use it.
    pub(crate) fn of(event: Event) -> Option<Self> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => plain(&key),
            Event::Paste(text) if text.is_empty() => Some(Self::Picture),
            Event::Paste(text) => Some(Self::Paste(text)),
            Event::Resize(..) => Some(Self::Resize),
            _ => None,
        }
    }
}

fn plain(key: &KeyEvent) -> Option<Key> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    Some(match key.code {
        KeyCode::Char(c) if control && !alt => return with_control(c),
        KeyCode::Char(c) if alt && !control => return with_alt(c),
        KeyCode::Char(c) if !control && !alt && !c.is_control() => Key::Char(c),
        KeyCode::Enter if alt => Key::Break,
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace if alt => Key::Word,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Esc => Key::Escape,
        KeyCode::BackTab => Key::Mode,
        KeyCode::Tab => Key::Tab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left if control || alt => Key::WordLeft,
        KeyCode::Right if control || alt => Key::WordRight,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Delete => Key::Delete,
        _ => return None,
    })
}

/// The keys of Emacs, as line editors use them.
fn with_control(letter: char) -> Option<Key> {
    Some(match letter {
        'a' => Key::Home,
        'b' => Key::Left,
        'd' => Key::Leave,
        'e' => Key::End,
        'f' => Key::Right,
        'h' => Key::Backspace,
        'j' => Key::Break,
        'k' => Key::Rest,
        'l' => Key::Clear,
        'n' => Key::Down,
        'o' => Key::Show,
        'p' => Key::Up,
        'r' => Key::Search,
        'u' => Key::Erase,
        'v' => Key::Picture,
        'w' => Key::Word,
        'x' => Key::Prefix,
        'y' => Key::Yank,
        'z' => Key::Suspend,
        // The code of Ctrl-_ is read as Ctrl-7.
        '7' | '_' | '/' => Key::Undo,
        _ => return None,
    })
}

fn with_alt(letter: char) -> Option<Key> {
    Some(match letter {
        'b' => Key::WordLeft,
        'd' => Key::WordAfter,
        'e' => Key::Open,
        'f' => Key::WordRight,
        '_' | '/' => Key::Redo,
        _ => return None,
    })
}

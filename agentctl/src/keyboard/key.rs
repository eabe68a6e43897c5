//! A key, as far as the client cares, and when it was pressed.

use std::time::Instant;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key, as far as the client cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    /// Alt-Enter: a line break within a message.
    Break,
    /// Keeps a message until the turn has ended.
    Tab,
    /// Shift-Tab: the next mode of the session.
    Mode,
    /// Takes back what waits.
    Up,
    /// Goes down in a list.
    Down,
    Left,
    Right,
    /// To the start of the row, also by Ctrl-A.
    Home,
    /// To the end of the row, also by Ctrl-E.
    End,
    Backspace,
    /// The character under the cursor.
    Delete,
    /// Ctrl-W: the last word.
    Word,
    /// Ctrl-U: the whole line.
    Erase,
    Escape,
    /// Ctrl-D: leaves.
    Leave,
    /// Ctrl-Z: the process shall stop until it is continued.
    Suspend,
    /// A paste, as the terminal marks it.
    Paste(String),
}

/// A key that was pressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Press {
    pub(crate) key: Key,
    pub(crate) at: Instant,
}

impl Key {
    /// A report of the terminal as a key, if the client cares for it.
    pub(crate) fn of(event: Event) -> Option<Self> {
        match event {
            Event::Key(key) => plain(&key),
            Event::Paste(text) => Some(Self::Paste(text)),
            _ => None,
        }
    }
}

fn plain(key: &KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    match key.code {
        KeyCode::Char('u') if control => Some(Key::Erase),
        KeyCode::Char('d') if control => Some(Key::Leave),
        KeyCode::Char('a') if control => Some(Key::Home),
        KeyCode::Char('e') if control => Some(Key::End),
        KeyCode::Char('h') if control => Some(Key::Backspace),
        KeyCode::Char('w') if control => Some(Key::Word),
        KeyCode::Char('z') if control => Some(Key::Suspend),
        // Where the terminal sends a line feed and not a carriage return.
        KeyCode::Char('j') if control => Some(Key::Enter),
        KeyCode::Char(c) if !control && !alt && !c.is_control() => Some(Key::Char(c)),
        KeyCode::Enter if alt => Some(Key::Break),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Backspace if alt => Some(Key::Word),
        KeyCode::Backspace => Some(Key::Backspace),
        KeyCode::Esc => Some(Key::Escape),
        KeyCode::BackTab => Some(Key::Mode),
        KeyCode::Tab => Some(Key::Tab),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::Left => Some(Key::Left),
        KeyCode::Right => Some(Key::Right),
        KeyCode::Home => Some(Key::Home),
        KeyCode::End => Some(Key::End),
        KeyCode::Delete => Some(Key::Delete),
        _ => None,
    }
}

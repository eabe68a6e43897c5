//! Text of one or more rows with a cursor, edited key by key. Pure.

use unicode_segmentation::UnicodeSegmentation as _;

use super::Key;
use crate::input::MAX_PROMPT_BYTES;

/// Maximum number of states that can be undone, and of their bytes in total.
const MAX_UNDO: usize = 200;
const MAX_UNDO_BYTES: usize = 4 << 20;

/// Text with a cursor.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    state: TextState,
    /// Text that was cut last.
    cut: String,
    undo: Vec<TextState>,
    redo: Vec<TextState>,
    /// True while characters are typed in a row, which are undone together.
    is_typing: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct TextState {
    text: String,
    /// Cursor as an offset in bytes, between two graphemes.
    at: usize,
}

impl Buffer {
    pub(crate) fn text(&self) -> &str {
        &self.state.text
    }

    /// Returns the cursor as an offset in bytes.
    pub(crate) fn cursor(&self) -> usize {
        self.state.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.text.is_empty()
    }

    /// Returns the text before the cursor.
    pub(crate) fn before(&self) -> &str {
        &self.state.text[..self.state.at]
    }

    /// Returns the text after the cursor.
    pub(crate) fn after(&self) -> &str {
        &self.state.text[self.state.at..]
    }

    /// Replaces the text, and moves the cursor to its end.
    pub(crate) fn set(&mut self, text: String) {
        self.save();
        self.state = TextState { at: text.len(), text };
    }

    /// Returns the text, and starts over with an empty one that has nothing to undo.
    pub(crate) fn take(&mut self) -> String {
        let cut = std::mem::take(&mut self.cut);
        std::mem::replace(self, Self { cut, ..Self::default() }).state.text
    }

    /// Inserts text at the cursor, unless the whole would exceed the limit for prompts.
    pub(crate) fn insert(&mut self, text: &str) {
        self.save();
        self.put(text);
    }

    /// Replaces the text from an offset up to the cursor.
    pub(crate) fn complete(&mut self, start: usize, text: &str) {
        self.save();
        self.state.text.replace_range(start..self.state.at, "");
        self.state.at = start;
        self.put(text);
    }

    /// Handles an editing key. Returns false for any other key.
    pub(crate) fn edit(&mut self, key: &Key) -> bool {
        match key {
            Key::Char(c) => {
                if !std::mem::replace(&mut self.is_typing, true) {
                    self.push_undo();
                }
                self.put(c.encode_utf8(&mut [0; 4]));
            }
            Key::Break => self.insert("\n"),
            Key::Left => self.go(self.left()),
            Key::Right => self.go(self.right()),
            Key::WordLeft => self.go(self.word_left()),
            Key::WordRight => self.go(self.word_right()),
            Key::Home => self.go(self.row_start()),
            Key::End => self.go(self.row_end()),
            Key::Backspace => self.remove(self.left(), self.state.at),
            Key::Delete => self.remove(self.state.at, self.right()),
            Key::Word => self.cut(self.word_left(), self.state.at),
            Key::WordAfter => self.cut(self.state.at, self.word_right()),
            // At the start or end of a row, the line break is cut.
            Key::Erase => self.cut(self.row_start_or_left(), self.state.at),
            Key::Rest => self.cut(self.state.at, if self.is_at_row_end() { self.right() } else { self.row_end() }),
            Key::Yank => self.insert(&self.cut.clone()),
            Key::Undo => self.step_back(),
            Key::Redo => self.step_forward(),
            _ => return false,
        }
        true
    }

    /// Moves the cursor to the row above or below. Returns false if there is none.
    pub(crate) fn move_row(&mut self, is_up: bool) -> bool {
        let (start, end) = (self.row_start(), self.row_end());
        let text = &self.state.text;
        let column = text[start..self.state.at].graphemes(true).count();
        let row = if is_up {
            let Some(end) = start.checked_sub(1) else { return false };
            text[..end].rfind('\n').map_or(0, |at| at + 1)..end
        } else {
            if end == text.len() {
                return false;
            }
            let start = end + 1;
            start..text[start..].find('\n').map_or(text.len(), |at| start + at)
        };
        let offset: usize = text[row.clone()].graphemes(true).take(column).map(str::len).sum();
        self.go(row.start + offset);
        true
    }

    fn go(&mut self, at: usize) {
        self.is_typing = false;
        self.state.at = at;
    }

    fn put(&mut self, text: &str) {
        if self.state.text.len() + text.len() <= MAX_PROMPT_BYTES {
            self.state.text.insert_str(self.state.at, text);
            self.state.at += text.len();
        }
    }

    fn remove(&mut self, start: usize, end: usize) {
        if start < end {
            self.save();
            self.state.text.replace_range(start..end, "");
            self.state.at = start;
        }
    }

    fn cut(&mut self, start: usize, end: usize) {
        if start < end {
            self.cut = self.state.text[start..end].to_owned();
            self.remove(start, end);
        }
    }

    /// Stores the state before a change.
    fn save(&mut self) {
        self.is_typing = false;
        self.push_undo();
    }

    fn push_undo(&mut self) {
        self.redo.clear();
        if self.undo.last() != Some(&self.state) {
            self.undo.push(self.state.clone());
        }
        let size = |states: &[TextState]| states.iter().map(|state| state.text.len()).sum::<usize>();
        while self.undo.len() > MAX_UNDO || size(&self.undo) > MAX_UNDO_BYTES {
            self.undo.remove(0);
        }
    }

    fn step_back(&mut self) {
        self.is_typing = false;
        if let Some(state) = self.undo.pop() {
            self.redo.push(std::mem::replace(&mut self.state, state));
        }
    }

    fn step_forward(&mut self) {
        self.is_typing = false;
        if let Some(state) = self.redo.pop() {
            self.undo.push(std::mem::replace(&mut self.state, state));
        }
    }

    fn left(&self) -> usize {
        self.before().grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn right(&self) -> usize {
        self.state.at + self.after().graphemes(true).next().map_or(0, str::len)
    }

    fn word_left(&self) -> usize {
        let words = self.before().trim_end();
        words.rfind(char::is_whitespace).map_or(0, |at| at + width_at(words, at))
    }

    fn word_right(&self) -> usize {
        let after = self.after();
        let word = after.trim_start();
        let end = word.find(char::is_whitespace).unwrap_or(word.len());
        self.state.at + (after.len() - word.len()) + end
    }

    fn row_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    fn row_end(&self) -> usize {
        self.after().find('\n').map_or(self.state.text.len(), |at| self.state.at + at)
    }

    /// Returns the start of the row, or the place before the line break if the cursor is there already.
    fn row_start_or_left(&self) -> usize {
        let start = self.row_start();
        if start == self.state.at { self.left() } else { start }
    }

    fn is_at_row_end(&self) -> bool {
        self.after().is_empty() || self.after().starts_with('\n')
    }
}

/// Returns the length in bytes of the character at an offset.
fn width_at(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keys as text: arrows move, `⇠` and `⇢` by a word, `⇱` and `⇲` to the ends of the row, `⌫` is Backspace, `✗` Delete,
    /// `⇤` cuts the word before the cursor, `⇥` the word after it, `⌦` the row before it, `⌧` the row after it, `⎘` inserts
    /// what was cut, `↶` and `↷` undo and redo, `↵` breaks the row, and `↑` and `↓` change it.
    fn edited(keys: &str) -> Buffer {
        let mut buffer = Buffer::default();
        for c in keys.chars() {
            press(&mut buffer, c);
        }
        buffer
    }

    fn press(buffer: &mut Buffer, c: char) {
        let key = match c {
            '←' => Key::Left,
            '→' => Key::Right,
            '⇠' => Key::WordLeft,
            '⇢' => Key::WordRight,
            '⇱' => Key::Home,
            '⇲' => Key::End,
            '⌫' => Key::Backspace,
            '✗' => Key::Delete,
            '⇤' => Key::Word,
            '⇥' => Key::WordAfter,
            '⌦' => Key::Erase,
            '⌧' => Key::Rest,
            '⎘' => Key::Yank,
            '↶' => Key::Undo,
            '↷' => Key::Redo,
            '↵' => Key::Break,
            '↑' | '↓' => {
                buffer.move_row(c == '↑');
                return;
            }
            c => Key::Char(c),
        };
        assert!(buffer.edit(&key));
    }

    #[test]
    fn keys_edit_at_the_cursor() {
        let cases = [
            ("bd←c⇱a⇲e", "abcde"),
            ("字x漢←←⌫y", "yx漢"),
            ("ab←✗✗c", "ac"),
            ("e\u{301}a←⌫", "a"),
            ("one two three←←←←←⇤", "one three"),
            ("one two⇠⇠⇥!", "! two"),
            ("one two⇠⇱⇢!", "one! two"),
            ("a↵bc⌦⌦d", "ad"),
            ("a↵bc↑⌧", "abc"),
            ("one two⇤⇱⎘", "twoone "),
            ("first↵second⇱>⇲!←←←←←←←←←<", "first<\n>second!"),
            ("long↵x↵last↑↑!", "l!ong\nx\nlast"),
            ("ab↵c↑↓!", "ab\nc!"),
            ("one↶↷", "one"),
            ("one ⇤two↶↶", "one "),
            ("one↶two↷", "two"),
        ];
        for (keys, text) in cases {
            assert_eq!(edited(keys).text(), text, "{keys}");
        }
    }

    #[test]
    fn undo_survives_neither_sending_nor_the_limit() {
        let mut buffer = edited("sent⌦⎘");
        assert_eq!(buffer.take(), "sent");
        buffer.edit(&Key::Undo);
        assert_eq!(buffer.text(), "");
        buffer.edit(&Key::Yank);
        assert_eq!(buffer.text(), "sent", "cut text survives");
        (0..MAX_UNDO * 2).for_each(|_| buffer.insert("x"));
        assert_eq!(buffer.undo.len(), MAX_UNDO);
        buffer.insert(&"x".repeat(MAX_PROMPT_BYTES));
        assert!(buffer.text().len() < MAX_PROMPT_BYTES);
    }

    proptest! {
        #[test]
        fn cursor_is_always_between_graphemes(keys in "[ab 字é←→⇠⇢⇱⇲⌫✗⇤⇥⌦⌧⎘↶↷↵↑↓]{0,60}") {
            let mut buffer = Buffer::default();
            for c in keys.chars() {
                press(&mut buffer, c);
                let edges: Vec<usize> = buffer.text().grapheme_indices(true).map(|(at, _)| at).collect();
                prop_assert!(buffer.cursor() == buffer.text().len() || edges.contains(&buffer.cursor()));
            }
        }
    }
}

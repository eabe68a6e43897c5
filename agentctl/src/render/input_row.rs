//! Rows of the input while a turn runs, and in a transcript.

use crate::{
    keyboard::TypeAhead,
    report::count,
    terminal::{paint::clip, sanitize::clean_line},
};

/// Keys of the input, shown while it is empty.
const KEYS: &str = "(Enter speaks to the turn, Tab waits for its end, Esc cancels it)";
/// Maximum number of rows of an input while a turn runs.
const MAX_ROWS: usize = 6;
/// Columns for the first waiting message: at most the end of the range, and none if less than its start are free.
const WAITING: std::ops::RangeInclusive<usize> = 8..=40;

/// Returns the rows of the input, which follow the messages that wait.
pub(crate) fn rows(typed: &TypeAhead, columns: usize) -> Vec<String> {
    let waiting = match typed.waiting() {
        0 => String::new(),
        1 => format!("1 message waits{} ", first(typed, columns)),
        more => format!("{more} messages wait{} ", first(typed, columns)),
    };
    let placeholder = match typed.waiting() {
        _ if typed.can_take_back() => "(Up takes back)",
        0 => KEYS,
        _ => "",
    };
    // The mark of the cursor needs a column.
    let size = (columns.saturating_sub(1), MAX_ROWS);
    let view = typed.composer.view(size, &clip(&waiting, columns.saturating_sub(4)), placeholder, false);
    if typed.is_writing() { view.with_cursor_mark() } else { view.rows }
}

/// Returns the start of the message that is read next, if there is space for it.
fn first(typed: &TypeAhead, columns: usize) -> String {
    let room = (columns / 3).min(*WAITING.end());
    match typed.first_waiting() {
        Some(message) if room >= *WAITING.start() => format!(": {}", clip(clean_line(message).trim(), room)),
        _ => String::new(),
    }
}

/// Returns an input in one row: the text that the user typed, and the number of lines that were added to it.
pub(crate) fn said(text: &str, typed_bytes: Option<u64>) -> String {
    let typed = typed_bytes.and_then(|bytes| text.split_at_checked(usize::try_from(bytes).ok()?));
    match typed.filter(|(typed, rest)| !(typed.trim().is_empty() || rest.trim().is_empty())) {
        Some((typed, rest)) => {
            let lines = count(rest.trim().lines().count() as u64, "line");
            format!("{} (and {lines} with it)", clean_line(typed))
        }
        None => clean_line(text),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::keyboard::{Key, Press};

    fn typed(keys: impl IntoIterator<Item = Key>) -> TypeAhead {
        let mut typed = TypeAhead::default();
        keys.into_iter().for_each(|key| typed.press(Press { key, at: Instant::now() }));
        typed
    }

    fn words(text: &str) -> impl Iterator<Item = Key> {
        text.chars().map(Key::Char)
    }

    #[test]
    fn input_rows_show_queued_messages_and_the_draft() {
        assert_eq!(rows(&typed([]), 80), [format!("› {KEYS}")]);
        let one = || words("what about the other one?").chain([Key::Tab]);
        assert_eq!(rows(&typed(one()), 80), ["1 message waits: what about the other one? › (Up takes back)"]);
        let two = typed(one().chain(words("two")).chain([Key::Tab]).chain(words("three")));
        assert_eq!(rows(&two, 80), ["2 messages wait: what about the other one? › three"]);
        assert_eq!(rows(&two, 50), ["2 messages wait: what about the… › three"]);
        let hostile = typed(words("a\u{202e}b").chain([Key::Tab]));
        assert!(!rows(&hostile, 80).concat().contains('\u{202e}'));
        let moved = typed(words("hello").chain([Key::Break]).chain(words("world")).chain([Key::Left, Key::Left]));
        assert_eq!(rows(&moved, 80), ["› hello", "… wor▏ld"]);
    }

    #[test]
    fn typed_text_is_shown_and_other_lines_counted() {
        assert_eq!(said("Why?\n\nran: make\nerror\n", Some(4)), "Why? (and 2 lines with it)");
        assert_eq!(said("Why?\nReally?", None), "Why? Really?");
        assert_eq!(said("piped", Some(0)), "piped");
        assert_eq!((said("Why?", Some(4)).as_str(), said("é", Some(1)).as_str()), ("Why?", "é"));
    }
}

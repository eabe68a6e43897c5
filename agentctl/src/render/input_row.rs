//! The input line while a turn runs, and in a transcript.

use crate::{
    keyboard::TypeAhead,
    report::count,
    terminal::{
        paint::{clip, tail, width},
        sanitize::clean_line,
    },
};

/// The keys of the input line, shown while it is empty.
const KEYS: &str = "(Enter speaks to the turn, Tab waits for its end, Esc cancels it)";
/// Stands where the next key writes, where that is not the end of the line.
const CURSOR: &str = "▏";
/// The columns of the first message that waits: so many at the most, and none where there would be fewer.
const WAITING: std::ops::RangeInclusive<usize> = 8..=40;

/// The line in one row: messages that wait, and the one that is being written.
pub(crate) fn of(typed: &TypeAhead, columns: usize) -> String {
    let waiting = match typed.waiting() {
        0 => String::new(),
        1 => format!("1 message waits{} ", first(typed, columns)),
        more => format!("{more} messages wait{} ", first(typed, columns)),
    };
    let room = columns.saturating_sub(width(&waiting) + 3);
    let line = if typed.is_writing() {
        written(typed, room)
    } else if typed.can_take_back() {
        clip("(Up takes back)", room)
    } else if typed.waiting() == 0 {
        clip(KEYS, room)
    } else {
        String::new()
    };
    format!("{waiting}› {line}")
}

/// The first words of the message that is read next, where there is room for them.
fn first(typed: &TypeAhead, columns: usize) -> String {
    let room = (columns / 3).min(*WAITING.end());
    match typed.first_waiting() {
        Some(message) if room >= *WAITING.start() => format!(": {}", clip(clean_line(message).trim(), room)),
        _ => String::new(),
    }
}

/// The row that is being written, in so many columns around the place at which the next key writes.
pub(crate) fn written(typed: &TypeAhead, room: usize) -> String {
    let (before, behind) = typed.row();
    let (before, behind) = (clean_line(before), clean_line(behind));
    if behind.is_empty() {
        return tail(&before, room).to_owned();
    }
    // Some of what follows is in sight, too.
    let room = room.saturating_sub(width(CURSOR));
    let behind = clip(&behind, (room / 2).max(room.saturating_sub(width(&before))));
    format!("{}{CURSOR}{behind}", tail(&before, room.saturating_sub(width(&behind))))
}

/// An input in one row: the words that a person typed, and how much came with them.
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
    fn input_row_shows_queued_messages_and_the_draft() {
        assert_eq!(of(&typed([]), 80), format!("› {KEYS}"));
        let one = || words("what about the other one?").chain([Key::Tab]);
        assert_eq!(of(&typed(one()), 80), "1 message waits: what about the other one? › (Up takes back)");
        let two = typed(one().chain(words("two")).chain([Key::Tab]).chain(words("three")));
        assert_eq!(of(&two, 80), "2 messages wait: what about the other one? › three");
        assert_eq!(of(&two, 50), "2 messages wait: what about the… › three");
        assert_eq!(of(&two, 20), "2 messages wait › e");
        let hostile = typed(words("a\u{202e}b").chain([Key::Tab]));
        assert!(!of(&hostile, 80).contains('\u{202e}'));
    }

    #[test]
    fn input_row_scrolls_with_the_cursor() {
        let at = |text: &str, left: usize| typed(words(text).chain((0..left).map(|_| Key::Left)));
        assert_eq!(written(&at("hello", 0), 10), "hello");
        assert_eq!(written(&at("hello", 2), 10), "hel▏lo");
        assert_eq!(written(&at("hello", 5), 10), "▏hello");
        for room in 1..20 {
            for left in 0..20 {
                let row = written(&at("a 漢字 long line of words", left), room);
                assert!(width(&row) <= room.max(2), "{room} {left}: {row:?}");
            }
        }
    }

    #[test]
    fn typed_text_is_shown_and_other_lines_counted() {
        assert_eq!(said("Why?\n\nran: make\nerror\n", Some(4)), "Why? (and 2 lines with it)");
        assert_eq!(said("Why?\nReally?", None), "Why? Really?");
        assert_eq!(said("piped", Some(0)), "piped");
        assert_eq!((said("Why?", Some(4)).as_str(), said("é", Some(1)).as_str()), ("Why?", "é"));
    }
}

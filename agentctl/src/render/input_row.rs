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

/// The line in one row: messages that wait, and the one that is being written.
pub(crate) fn of(typed: &TypeAhead, columns: usize) -> String {
    let waiting = match typed.waiting() {
        0 => String::new(),
        1 => "1 message waits ".to_owned(),
        more => format!("{more} messages wait "),
    };
    let row = clean_line(typed.row());
    let room = columns.saturating_sub(width(&waiting) + 3);
    let line = if typed.is_writing() {
        tail(&row, room).to_owned()
    } else if typed.can_take_back() {
        clip("(Up takes back)", room)
    } else if typed.waiting() == 0 {
        clip(KEYS, room)
    } else {
        String::new()
    };
    format!("{waiting}› {line}")
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
    use super::*;

    #[test]
    fn what_was_typed_is_shown_and_the_rest_counted() {
        assert_eq!(said("Why?\n\nran: make\nerror\n", Some(4)), "Why? (and 2 lines with it)");
        assert_eq!(said("Why?\nReally?", None), "Why? Really?");
        assert_eq!(said("piped", Some(0)), "piped");
        assert_eq!((said("Why?", Some(4)).as_str(), said("é", Some(1)).as_str()), ("Why?", "é"));
    }
}

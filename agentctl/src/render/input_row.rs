//! The input line while a turn runs.

use crate::{
    keyboard::TypeAhead,
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

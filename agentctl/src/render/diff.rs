//! The effect of a call, for a person to approve: a coloured diff, or a command line as it is. Every character of it can be
//! seen ([`agentd_core::visible`]).

use agentd_core::visible;

use crate::terminal::paint::{BAD, CODE, GOOD, QUIET, STRONG, clip, paint, width};

/// The room that a preview may take on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Rows, one that says how much more there is among them.
    pub(crate) rows: usize,
    /// The columns of a row.
    pub(crate) columns: usize,
}

impl Room {
    /// As much as it takes.
    pub(crate) const WITHOUT_END: Self = Self { rows: usize::MAX, columns: usize::MAX };
}

/// The lines of a preview, as many as there is room for; the last one then says how many more there are. A line is shown
/// whole or not at all, but for the first of all, whose end may be left out with the rest.
pub(crate) fn preview(text: &str, room: Room, color: bool) -> Vec<String> {
    let is_diff = is_diff(text);
    let text = if is_diff { text.strip_suffix('\n').unwrap_or(text) } else { text };
    let total = text.split('\n').count();
    let mut left = room.rows;
    let mut shown = Vec::new();
    for (at, line) in text.split('\n').enumerate() {
        let line = seen(line, is_diff);
        let rows = width(&line).div_ceil(room.columns.max(1)).max(1);
        // Saying how much is left out takes a row, where anything is.
        let left_out = total - at - 1;
        let free = left.saturating_sub(usize::from(left_out > 0));
        if rows <= free {
            left -= rows;
            shown.push(painted(&line, is_diff, color));
            continue;
        }
        let more = if shown.is_empty() {
            let room = left.saturating_sub(1).max(1).saturating_mul(room.columns);
            shown.push(painted(&clip(&line, room), is_diff, color));
            match left_out {
                0 => "… this line continues".to_owned(),
                _ => format!("… this line continues, and {}", more_lines(left_out)),
            }
        } else {
            format!("… {}", more_lines(left_out + 1))
        };
        shown.push(paint(color, QUIET, &more));
        break;
    }
    shown
}

fn more_lines(number: usize) -> String {
    format!("{number} more {}", if number == 1 { "line" } else { "lines" })
}

/// True for a text that is a unified diff. Nothing else begins like one: commands have a prompt before them.
fn is_diff(text: &str) -> bool {
    text.starts_with("--- ") || text.starts_with("rename from ")
}

/// A line with every character to be seen. The sign of a line in a diff is no part of the file.
fn seen(line: &str, is_diff: bool) -> String {
    let sign = line.chars().next().filter(|sign| is_diff && matches!(sign, '+' | '-' | ' '));
    match sign {
        Some(sign) => format!("{sign}{}", visible::line(&line[1..])),
        None => visible::line(line),
    }
}

fn painted(line: &str, is_diff: bool, color: bool) -> String {
    if !is_diff {
        return paint(color, STRONG, line);
    }
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => STRONG,
        [b'+', ..] => GOOD,
        [b'-', ..] => BAD,
        [b'@', b'@', ..] => CODE,
        [b'\\' | b'(', ..] => QUIET,
        _ => return line.to_owned(),
    };
    paint(color, style, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n same\n-old\n+new \u{1b}[2J\n";

    fn rows(rows: usize) -> Room {
        Room { rows, columns: 20 }
    }

    #[test]
    fn a_diff_is_coloured_and_every_character_of_it_is_seen() {
        let lines = preview(DIFF, rows(10), true);
        let expected = [
            "\u{1b}[1m--- a/notes.txt\u{1b}[0m",
            "\u{1b}[1m+++ b/notes.txt\u{1b}[0m",
            "\u{1b}[36m@@ -1,2 +1,2 @@\u{1b}[0m",
            " same",
            "\u{1b}[31m-old\u{1b}[0m",
            "\u{1b}[32m+new \\u{1b}[2J\u{1b}[0m",
        ];
        assert_eq!(lines, expected);
        assert_eq!(preview("--- a/x\n \n+\ta \n+\r\n", rows(9), false), ["--- a/x", " ", "+⇥a␣", "+\\u{d}"]);
        assert_eq!(preview("$ ls \n(here)", rows(9), false), ["$ ls␣", "(here)"]);
    }

    #[test]
    fn the_height_is_bounded_and_the_rest_counted() {
        assert_eq!(preview(DIFF, rows(3), false), ["--- a/notes.txt", "+++ b/notes.txt", "… 4 more lines"]);
        assert_eq!(preview(DIFF, rows(6), false).len(), 6);
        assert_eq!(preview("cargo test", rows(3), false), ["cargo test"]);
        let long: String = (1..=900).map(|number| format!("+line {number}\n")).collect();
        let shown = preview(&format!("--- /dev/null\n{long}"), rows(22), false);
        assert_eq!((shown.len(), shown[21].as_str()), (22, "… 880 more lines"));
        let all = preview(&format!("--- /dev/null\n{long}"), Room::WITHOUT_END, false);
        assert_eq!((all.len(), all[900].as_str()), (901, "+line 900"));
    }

    #[test]
    fn long_lines_take_the_rows_that_they_take() {
        let text = format!("{}\nb\nc\nd", "a".repeat(50));
        assert_eq!(preview(&text, rows(5), false), [&"a".repeat(50), "b", "… 2 more lines"]);
        assert_eq!(preview(&text, rows(6), false).len(), 4);
        assert_eq!(
            preview(&text, rows(3), false),
            [format!("{}…", "a".repeat(39)), "… this line continues, and 3 more lines".to_owned()]
        );
        assert_eq!(preview(&"a".repeat(99), rows(3), false)[1], "… this line continues");
    }
}

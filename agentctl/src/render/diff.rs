//! The effect of a call, for a person to approve: a coloured diff, or a command line as it is. Every character of it can be
//! seen ([`agentd_core::visible`]). Lines of a diff have their numbers before them where there is room for it.

use agentd_core::visible;
use anstyle::Style;

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

    /// As many rows as it takes.
    pub(crate) const fn of_columns(columns: usize) -> Self {
        Self { rows: usize::MAX, columns }
    }
}

/// Fewer columns than these have no room for numbers.
const LEAST_FOR_NUMBERS: usize = 60;

/// The lines of a preview, as many as there is room for; the last one then says how many more there are. A line is shown
/// whole or not at all, but for the first of all, whose end may be left out with the rest.
pub(crate) fn preview(text: &str, room: Room, color: bool) -> Vec<String> {
    let is_diff = is_diff(text);
    let text = if is_diff { text.strip_suffix('\n').unwrap_or(text) } else { text };
    let total = text.split('\n').count();
    let mut numbers = is_diff.then(|| Numbers::of(text, room.columns));
    let mut left = room.rows;
    let mut shown = Vec::new();
    for (at, line) in text.split('\n').enumerate() {
        let place = numbers.as_mut().map(|numbers| numbers.next(line));
        let gutter = place.as_ref().map(|place| place.gutter.as_str()).unwrap_or_default();
        let line = seen(line, is_diff);
        let paint_line = |line: &str| match &place {
            Some(place) => format!("{}{}", paint(color, QUIET, gutter), paint(color, place.style, line)),
            None => paint(color, STRONG, line),
        };
        let rows = (width(gutter) + width(&line)).div_ceil(room.columns.max(1)).max(1);
        // Saying how much is left out takes a row, where anything is.
        let left_out = total - at - 1;
        let free = left.saturating_sub(usize::from(left_out > 0));
        if rows <= free {
            left -= rows;
            shown.push(paint_line(&line));
            continue;
        }
        let more = if shown.is_empty() {
            let room = left.saturating_sub(1).max(1).saturating_mul(room.columns);
            shown.push(paint_line(&clip(&line, room.saturating_sub(width(gutter)))));
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

/// The way through a diff: which line of which file is next.
struct Numbers {
    /// Columns of a number; none where there is no room for them.
    digits: usize,
    old: u64,
    new: u64,
    /// Lines that the hunk has still, of the old file and of the new one; none before the first hunk.
    left: Option<(u64, u64)>,
}

/// Place of a line in a diff.
struct Place {
    /// The columns before it, with its number.
    gutter: String,
    style: Style,
}

impl Numbers {
    fn of(text: &str, columns: usize) -> Self {
        let last = text.lines().filter_map(hunk).map(|[old, olds, new, news]| (old + olds).max(new + news)).max();
        let digits = last.filter(|_| columns >= LEAST_FOR_NUMBERS).map_or(0, |last| last.to_string().len());
        Self { digits, old: 0, new: 0, left: None }
    }

    /// Goes on by a line: a removed one has its number in the old file, any other that in the new one.
    fn next(&mut self, line: &str) -> Place {
        let is_within = self.left.is_none_or(|(olds, news)| olds + news > 0);
        let (number, style) = match (line.as_bytes().first(), hunk(line)) {
            (Some(b'@'), Some([old, olds, new, news])) => {
                (self.old, self.new, self.left) = (old, new, Some((olds, news)));
                (None, CODE)
            }
            // Lines above the first hunk, and between those of two files.
            _ if self.left.is_none_or(|left| left == (0, 0)) && is_head(line) => (None, STRONG),
            (Some(b'+'), _) if is_within => (Some(self.count(false, true)), GOOD),
            (Some(b'-'), _) if is_within => (Some(self.count(true, false)), BAD),
            (Some(b' ') | None, _) if is_within => (Some(self.count(true, true)), Style::new()),
            (Some(b'\\' | b'('), _) => (None, QUIET),
            _ => (None, Style::new()),
        };
        let digits = self.digits;
        let number = number.filter(|_| self.left.is_some()).map(|number| number.to_string()).unwrap_or_default();
        Place { gutter: if digits == 0 { String::new() } else { format!("{number:>digits$} ") }, style }
    }

    /// Counts a line of these files, and tells its number.
    fn count(&mut self, in_old: bool, in_new: bool) -> u64 {
        let number = if in_new { self.new } else { self.old };
        self.old += u64::from(in_old);
        self.new += u64::from(in_new);
        if let Some((olds, news)) = &mut self.left {
            *olds = olds.saturating_sub(u64::from(in_old));
            *news = news.saturating_sub(u64::from(in_new));
        }
        number
    }
}

/// First line and number of lines of a hunk, in the old file and in the new one.
fn hunk(line: &str) -> Option<[u64; 4]> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| -> Option<[u64; 2]> {
        let (first, lines) = text.split_once(',').unwrap_or((text, "1"));
        // More lines than this has no file.
        let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
        Some([number(first)?, number(lines)?])
    };
    let ([old, olds], [new, news]) = (range(old)?, range(new)?);
    Some([old, olds, new, news])
}

fn is_head(line: &str) -> bool {
    line.starts_with("--- ") || line.starts_with("+++ ")
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

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n same\n-old\n+new \u{1b}[2J\n";

    fn rows(rows: usize) -> Room {
        Room { rows, columns: 20 }
    }

    #[test]
    fn diff_is_coloured_and_shows_every_character() {
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
    fn diff_lines_are_numbered_if_there_is_room() {
        let two = "--- a/x\n+++ b/x\n@@ -8,3 +8,3 @@ fn\n same\n--- was a rule\n+++ is one\n same\n@@ -99 +99,2 @@\n \u{1b}[2Jx\n\
                   +y\n\\ No newline at end of file\n--- a/z\n+++ b/z\n@@ -1 +0,0 @@\n-gone\n";
        let wide = Room { rows: 99, columns: 60 };
        let expected = [
            "    --- a/x",
            "    +++ b/x",
            "    @@ -8,3 +8,3 @@ fn",
            "  8  same",
            "  9 --- was a rule",
            "  9 +++ is one",
            " 10  same",
            "    @@ -99 +99,2 @@",
            r" 99  \u{1b}[2Jx",
            "100 +y",
            r"    \ No newline at end of file",
            "    --- a/z",
            "    +++ b/z",
            "    @@ -1 +0,0 @@",
            "  1 -gone",
        ];
        assert_eq!(preview(two, wide, false), expected);
        let narrow = preview(two, Room { columns: 59, ..wide }, false);
        assert_eq!((narrow[3].as_str(), narrow[4].as_str()), (" same", "--- was a rule"));
        // A line that only looks like the head of a file is a change.
        assert_eq!(preview(two, wide, true)[4], "\u{1b}[2m  9 \u{1b}[0m\u{1b}[31m--- was a rule\u{1b}[0m");
        // Numbers take room, and what is left out is counted as before.
        let long = format!("--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n {}\n+b\n", "a".repeat(58));
        assert_eq!(preview(&long, Room { rows: 5, columns: 60 }, false).last().unwrap(), "… 2 more lines");
        assert_eq!(preview(&long, Room { rows: 6, columns: 60 }, false).last().unwrap(), "2 +b");
        // No number of a hunk is trusted.
        let odd = "--- a/x\n+++ b/x\n@@ -99999999999999999999 +1 @@\n+a\n@@ -1,4294967295 +1,4294967295 @@\n+b\n";
        assert_eq!(preview(odd, wide, false)[5], "         1 +b");
    }

    #[test]
    fn diff_height_is_bounded_and_the_rest_counted() {
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
    fn wrapped_lines_count_all_their_rows() {
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

//! Preview or report of the effect of a call: a coloured diff, or a command line verbatim.
//! Every character is visible ([`agentd_core::visible`]). Lines of a diff have their numbers before them if there is
//! room for it, and the name of a file is followed by the numbers of added and removed lines.

use std::{collections::HashMap, fmt};

use agentd_core::{tool::PrintedText, visible};
use anstyle::Style;

use crate::terminal::paint::{BAD, CODE, GOOD, QUIET, STRONG, clip, number, paint, width};

/// Space for a preview on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Number of rows, including the row that counts omitted lines.
    pub(crate) rows: usize,
    /// Number of columns of a row.
    pub(crate) columns: usize,
}

impl Room {
    /// Unlimited space.
    pub(crate) const WITHOUT_END: Self = Self { rows: usize::MAX, columns: usize::MAX };

    /// Unlimited rows of `columns`.
    pub(crate) const fn of_columns(columns: usize) -> Self {
        Self { rows: usize::MAX, columns }
    }
}

/// Minimum number of columns for line numbers.
const LEAST_FOR_NUMBERS: usize = 60;

/// Numbers of lines that a change adds and removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineCounts {
    pub(crate) added: u64,
    pub(crate) removed: u64,
}

impl LineCounts {
    fn add(&mut self, line: &ShownLine) {
        self.added += u64::from(line.style == GOOD);
        self.removed += u64::from(line.style == BAD);
    }
}

impl fmt::Display for LineCounts {
    /// Writes `+2 −1`, without a number that is 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [('+', self.added), ('−', self.removed)].into_iter().filter(|(_, lines)| *lines > 0);
        let shown: Vec<String> = counts.map(|(sign, lines)| format!("{sign}{}", number(lines))).collect();
        f.write_str(&shown.join(" "))
    }
}

/// Counts the lines of a stored diff. `None` if a part is missing, except for a new file, whose only hunk has its size.
pub(crate) fn counts(diff: &PrintedText, is_one_file: bool) -> Option<LineCounts> {
    if diff.cut {
        let [_, old_lines, _, added] = diff.text.lines().find_map(hunk)?;
        return (is_one_file && old_lines == 0).then_some(LineCounts { added, removed: 0 });
    }
    let (mut numbers, mut counts) = (Numbers::of(&diff.text, 0), LineCounts::default());
    diff.text.lines().for_each(|line| counts.add(&numbers.next(line)));
    numbers.left.is_none_or(|left| left == (0, 0)).then_some(counts)
}

/// Counts the lines of each file of a stored diff, by its path without a leading slash. The last file of a diff that is
/// cut is left out.
pub(crate) fn counts_by_file(diff: &PrintedText) -> HashMap<&str, LineCounts> {
    let (mut numbers, mut name) = (Numbers::of(&diff.text, 0), "");
    let mut files: HashMap<&str, LineCounts> = HashMap::new();
    for line in diff.text.lines() {
        let shown = numbers.next(line);
        let named = line.strip_prefix("--- a/").or_else(|| line.strip_prefix("+++ b/"));
        name = named.filter(|_| shown.style == STRONG).unwrap_or(name);
        files.entry(name).or_default().add(&shown);
    }
    let incomplete = if diff.cut { name } else { "" };
    files.retain(|name, _| !name.is_empty() && *name != incomplete);
    files
}

/// Returns the lines of a preview, as many as there is room for; the last one then counts the others. A line is shown
/// whole or not at all, except for the first of all, whose end may be left out with the rest.
pub(crate) fn preview(text: &str, room: Room, color: bool) -> Vec<String> {
    // Previews other than unified diffs start differently, because commands follow a prompt.
    let lines = if text.starts_with("--- ") || text.starts_with("rename from ") {
        diff_lines(text, room.columns)
    } else {
        let shown = |line: &str| ShownLine { gutter: String::new(), style: STRONG, text: visible::line(line) };
        text.split('\n').map(shown).collect()
    };
    let total = lines.len();
    let mut left = room.rows;
    let mut shown = Vec::new();
    for (at, line) in lines.into_iter().enumerate() {
        let rows = (width(&line.gutter) + width(&line.text)).div_ceil(room.columns.max(1)).max(1);
        // The row that counts the other lines needs room as well.
        let left_out = total - at - 1;
        let free = left.saturating_sub(usize::from(left_out > 0));
        if rows <= free {
            left -= rows;
            shown.push(line.painted(color));
            continue;
        }
        let more = if shown.is_empty() {
            let room = left.saturating_sub(1).max(1).saturating_mul(room.columns);
            shown.push(line.clipped(room).painted(color));
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

/// Maximum number of lines of a diff that are shown below the line of its call.
const EXCERPT_LINES: usize = 20;

/// Returns the first lines of a stored diff, each in one row of at most `columns`. The last row counts the other lines
/// and ends with `hint`. The names of a single file are left out, because the line of its call has its name.
pub(crate) fn excerpt(diff: &PrintedText, columns: usize, hint: &str, color: bool) -> Vec<String> {
    let lines = diff_lines(&diff.text, columns);
    let is_one_file = lines.iter().filter(|line| line.is_file_name()).count() < 2;
    let mut lines = lines.into_iter().filter(|line| !is_one_file || line.style != STRONG);
    let mut rows: Vec<String> =
        lines.by_ref().take(EXCERPT_LINES).map(|line| line.clipped(columns).painted(color)).collect();
    let rest = match (lines.count(), diff.cut) {
        (0, false) => return rows,
        (0, true) => "the rest".to_owned(),
        (lines, false) => more_lines(lines),
        (lines, true) => format!("over {}", more_lines(lines)),
    };
    rows.push(paint(color, QUIET, &clip(&format!("… {rest}{hint}"), columns)));
    rows
}

/// Returns the lines of a diff with the counts of each file after its name.
fn diff_lines(text: &str, columns: usize) -> Vec<ShownLine> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut numbers = Numbers::of(text, columns);
    let mut lines: Vec<ShownLine> = text.split('\n').map(|line| numbers.next(line)).collect();
    let mut counts = LineCounts::default();
    for line in lines.iter_mut().rev() {
        counts.add(line);
        if line.is_file_name() {
            line.text = format!("{}  {}", line.text, std::mem::take(&mut counts)).trim_end().to_owned();
        }
    }
    lines
}

/// Line numbers while a diff is read.
struct Numbers {
    /// Columns of a number; 0 without numbers.
    digits: usize,
    old: u64,
    new: u64,
    /// Remaining lines of the hunk, in the old and in the new file; `None` before the first hunk.
    left: Option<(u64, u64)>,
}

/// Line of a preview, with every character visible.
struct ShownLine {
    /// Columns before the text, with its number in the file.
    gutter: String,
    style: Style,
    text: String,
}

impl ShownLine {
    /// Returns true for the second of the two lines above the first hunk of a file.
    fn is_file_name(&self) -> bool {
        self.style == STRONG && self.text.starts_with("+++ ")
    }

    fn clipped(self, columns: usize) -> Self {
        let text = clip(&self.text, columns.saturating_sub(width(&self.gutter)));
        Self { text, ..self }
    }

    fn painted(&self, color: bool) -> String {
        format!("{}{}", paint(color, QUIET, &self.gutter), paint(color, self.style, &self.text))
    }
}

impl Numbers {
    fn of(text: &str, columns: usize) -> Self {
        let last = text.lines().filter_map(hunk).map(|[old, olds, new, news]| (old + olds).max(new + news)).max();
        let digits = last.filter(|_| columns >= LEAST_FOR_NUMBERS).map_or(0, |last| last.to_string().len());
        Self { digits, old: 0, new: 0, left: None }
    }

    /// Reads the next line. A removed line has its number in the old file, and others have that in the new file.
    fn next(&mut self, line: &str) -> ShownLine {
        let is_within = self.left.is_none_or(|(olds, news)| olds + news > 0);
        let (number, style) = match (line.as_bytes().first(), hunk(line)) {
            (Some(b'@'), Some([old, olds, new, news])) => {
                (self.old, self.new, self.left) = (old, new, Some((olds, news)));
                (None, CODE)
            }
            // Header lines, above the first hunk and between files.
            _ if self.left.is_none_or(|left| left == (0, 0)) && is_head(line) => (None, STRONG),
            (Some(b'+'), _) if is_within => (Some(self.count(false, true)), GOOD),
            (Some(b'-'), _) if is_within => (Some(self.count(true, false)), BAD),
            (Some(b' ') | None, _) if is_within => (Some(self.count(true, true)), Style::new()),
            (Some(b'\\' | b'('), _) => (None, QUIET),
            _ => (None, Style::new()),
        };
        let digits = self.digits;
        let number = number.filter(|_| self.left.is_some()).map(|number| number.to_string()).unwrap_or_default();
        let gutter = if digits == 0 { String::new() } else { format!("{number:>digits$} ") };
        ShownLine { gutter, style, text: seen(line) }
    }

    /// Counts a line of the old or new file, and returns its number.
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

/// Returns the first line and the number of lines of a hunk, in the old and in the new file.
fn hunk(line: &str) -> Option<[u64; 4]> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| -> Option<[u64; 2]> {
        let (first, lines) = text.split_once(',').unwrap_or((text, "1"));
        // Larger numbers are invalid.
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

/// Returns a line of a diff with every character visible. The sign is not a part of the file.
fn seen(line: &str) -> String {
    match line.chars().next().filter(|sign| matches!(sign, '+' | '-' | ' ')) {
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
            "\u{1b}[1m+++ b/notes.txt  +1 −1\u{1b}[0m",
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
            "    +++ b/x  +2 −1",
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
            "    +++ b/z  −1",
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
        let wide = |rows| Room { rows, columns: 30 };
        assert_eq!(preview(DIFF, wide(3), false), ["--- a/notes.txt", "+++ b/notes.txt  +1 −1", "… 4 more lines"]);
        assert_eq!(preview(DIFF, wide(6), false).len(), 6);
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

    fn stored(text: &str) -> PrintedText {
        PrintedText { text: text.into(), bytes: text.len() as u64, ..PrintedText::default() }
    }

    #[test]
    fn diff_lines_are_counted() {
        let check = |diff: &PrintedText, expected: Option<&str>| {
            assert_eq!(counts(diff, true).map(|counts| counts.to_string()).as_deref(), expected, "{diff:?}");
        };
        check(&stored(DIFF), Some("+1 −1"));
        let new = "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+one\n+++ two\n\\ No newline at end of file\n";
        check(&stored(new), Some("+2"));
        let two = format!("{DIFF}--- a/z\n+++ /dev/null\n@@ -1,2 +0,0 @@\n--- gone\n-gone\n");
        check(&stored(&two), Some("+1 −3"));
        check(&stored("--- a/x\n+++ b/x\n(binary content: 2 bytes after)\n"), Some(""));
        check(&stored("rename from a\nrename to b\n"), Some(""));
        let block = "--- a/x\n+++ b/x\n@@ -1,9 +1 @@\n(9 lines with 1.5 MB removed; version 12 is replaced)\n+new\n";
        check(&stored(block), None);
        let cut = |text: &str| PrintedText { cut: true, tail: "+end\n".into(), ..stored(text) };
        let new = cut("--- /dev/null\n+++ b/x\n@@ -0,0 +1,1200 @@\n+one\n+tw");
        check(&new, Some("+1,200"));
        assert_eq!(counts(&new, false), None);
        check(&cut("--- a/x\n+++ b/x\n@@ -1,900 +1,900 @@\n-one\n+tw"), None);
    }

    #[test]
    fn diff_lines_are_counted_by_file() {
        let all = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+one\n+++ b/x\n--- a/b/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
                   --- a/p\n+++ b/p\n(binary content: 2 bytes after)\n";
        let check = |diff: &PrintedText, expected: &[(&str, &str)]| {
            let counts = counts_by_file(diff);
            let mut shown: Vec<_> = counts.iter().map(|(name, counts)| (*name, counts.to_string())).collect();
            shown.sort();
            let shown: Vec<(&str, &str)> = shown.iter().map(|(name, counts)| (*name, counts.as_str())).collect();
            assert_eq!(shown, expected);
        };
        check(&stored(all), &[("b/gone", "−1"), ("new", "+2"), ("p", "")]);
        check(&PrintedText { cut: true, ..stored(all) }, &[("b/gone", "−1"), ("new", "+2")]);
        check(&stored(""), &[]);
    }

    #[test]
    fn excerpt_clips_lines_and_counts_the_others() {
        let one = stored(DIFF);
        let expected = ["  @@ -1,2 +1,2 @@", "1  same", "2 -old", r"2 +new \u{1b}[2J"];
        assert_eq!(excerpt(&one, 60, "", false), expected);
        assert_eq!(excerpt(&one, 8, "", false), ["@@ -1,2…", " same", "-old", r"+new \u…"]);
        let two = stored(&format!("{DIFF}--- a/z\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n"));
        let shown = excerpt(&two, 60, "", false);
        assert_eq!((shown[1].as_str(), shown[7].as_str()), ("  +++ b/notes.txt  +1 −1", "  +++ b/z  +1 −1"));
        let lines: String = (1..=54).map(|number| format!("+line {number}\n")).collect();
        let long = stored(&format!("--- /dev/null\n+++ b/x\n@@ -0,0 +1,54 @@\n{lines}"));
        let shown = excerpt(&long, 50, " · /diff", false);
        assert_eq!((shown.len(), shown[20].as_str()), (21, "… 35 more lines · /diff"));
        let cut = PrintedText { cut: true, ..long };
        assert_eq!(excerpt(&cut, 50, "", false).last().unwrap(), "… over 35 more lines");
        // A single line that is longer than what is stored, in wide letters.
        let huge = format!("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+{}", "漢字".repeat(5_000));
        let huge = PrintedText { cut: true, tail: "漢字".into(), ..stored(&huge) };
        let shown = excerpt(&huge, 50, "", true);
        assert!(shown.iter().all(|row| width(&crate::terminal::sanitize::clean(row)) <= 50), "{shown:?}");
        assert_eq!(excerpt(&huge, 50, "", false).last().unwrap(), "… the rest");
    }
}

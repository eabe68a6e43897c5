//! What would happen, for a person to approve: a coloured diff, or a command line as it is.

use super::{
    paint::{BAD, CODE, GOOD, QUIET, STRONG, paint},
    sanitize::clean,
};

/// The lines of a preview, at most `height` of them; the last one then says how many more there are.
///
/// No line is cut in its width: what is not seen must not be approved.
pub(crate) fn preview(text: &str, height: usize, color: bool) -> Vec<String> {
    let text = clean(text);
    let text = text.trim_end_matches('\n');
    let is_diff = is_diff(text);
    let total = text.lines().count();
    // Leaving out a single line would take a line to say so.
    let kept = if total <= height { total } else { height.saturating_sub(1) };
    let mut lines: Vec<String> = text
        .lines()
        .take(kept)
        .map(|line| if is_diff { diff_line(line, color) } else { paint(color, STRONG, line) })
        .collect();
    if kept < total {
        lines.push(paint(color, QUIET, &format!("… {} more lines", total - kept)));
    }
    lines
}

/// Whether a text is a unified diff.
fn is_diff(text: &str) -> bool {
    text.starts_with("--- ") || text.starts_with("diff ") || text.lines().take(8).any(|line| line.starts_with("@@ "))
}

fn diff_line(line: &str, color: bool) -> String {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => STRONG,
        [b'+', ..] => GOOD,
        [b'-', ..] => BAD,
        [b'@', b'@', ..] => CODE,
        [b'\\', ..] => QUIET,
        _ => return line.to_owned(),
    };
    paint(color, style, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n same\n-old\n+new \u{1b}[2J\n";

    #[test]
    fn a_diff_is_coloured_and_cleaned() {
        let lines = preview(DIFF, 10, true);
        let expected = [
            "\u{1b}[1m--- a/notes.txt\u{1b}[0m",
            "\u{1b}[1m+++ b/notes.txt\u{1b}[0m",
            "\u{1b}[36m@@ -1,2 +1,2 @@\u{1b}[0m",
            " same",
            "\u{1b}[31m-old\u{1b}[0m",
            "\u{1b}[32m+new \u{1b}[0m",
        ];
        assert_eq!(lines, expected);
        assert_eq!(preview(DIFF, 10, false), DIFF.replace("\u{1b}[2J", "").lines().collect::<Vec<_>>());
    }

    #[test]
    fn the_height_is_bounded_and_the_rest_counted() {
        assert_eq!(preview(DIFF, 3, false), ["--- a/notes.txt", "+++ b/notes.txt", "… 4 more lines"]);
        assert_eq!(preview(DIFF, 6, false).len(), 6);
        assert_eq!(preview("cargo test", 3, false), ["cargo test"]);
    }
}

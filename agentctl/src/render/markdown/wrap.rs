//! Breaks styled text into rows.

use anstyle::Style;
use unicode_width::UnicodeWidthChar as _;

use super::inline::Span;
use crate::terminal::paint::{columns_of, paint, width};

/// Breaks spans into rows of at most `columns`. The first row begins with `first`, the others with `next`.
///
/// Rows break at spaces, on either side of a wide character, and within a word only if it fits on no row.
pub(crate) fn wrap(spans: &[Span], columns: usize, first: &str, next: &str) -> Vec<String> {
    let room = |prefix: &str| columns.saturating_sub(width(prefix)).max(2);
    let text: Vec<(char, Style)> = spans.iter().flat_map(|span| span.text.chars().map(|c| (c, span.style))).collect();
    let mut rows = Vec::new();
    let mut start = 0;
    loop {
        let prefix = if rows.is_empty() { first } else { next };
        let (end, resume) = cut(text.len(), |at| text[at].0, start, room(prefix), columns_of);
        rows.push(format!("{prefix}{}", styled(&text[start..end])));
        if resume >= text.len() {
            return rows;
        }
        start = resume;
    }
}

/// Returns the end of the row that starts at `start`, and the start of the next row, for any measure of a character's
/// columns.
pub(crate) fn cut(
    length: usize,
    char_at: impl Fn(usize) -> char,
    start: usize,
    room: usize,
    measure: impl Fn(char) -> usize,
) -> (usize, usize) {
    let mut used = 0;
    let mut best = None;
    for at in start..length {
        let c = char_at(at);
        let wide = is_wide(c);
        if at > start && (wide || is_wide(char_at(at - 1))) && !clings(c) {
            best = Some((at, at));
        }
        if c == ' ' {
            best = Some((at, at + 1));
        }
        used += measure(c);
        if used > room {
            return best.filter(|(end, _)| *end > start).unwrap_or((at.max(start + 1), at.max(start + 1)));
        }
    }
    (length, length)
}

fn is_wide(c: char) -> bool {
    c.width() == Some(2)
}

/// Returns true if the character may not begin a row.
fn clings(c: char) -> bool {
    c.width() == Some(0) || "。、，．！？：；」』）】”’….,!?):;".contains(c)
}

fn styled(text: &[(char, Style)]) -> String {
    text.chunk_by(|a, b| a.1 == b.1)
        .map(|chunk| paint(true, chunk[0].1, &chunk.iter().map(|(c, _)| *c).collect::<String>()))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(text: &str, columns: usize) -> Vec<String> {
        wrap(&[Span { text: text.to_owned(), style: Style::new() }], columns, "- ", "  ")
    }

    #[test]
    fn rows_break_at_natural_points() {
        assert_eq!(rows("the quick brown fox", 11), ["- the quick", "  brown fox"]);
        assert_eq!(rows("漢字漢字漢字", 8), ["- 漢字漢", "  字漢字"]);
        assert_eq!(rows("漢字漢。字", 8), ["- 漢字", "  漢。字"]);
        assert_eq!(rows("unbreakable", 8), ["- unbrea", "  kable"]);
        assert_eq!(rows("", 8), ["- "]);
    }

    proptest! {
        #[test]
        fn wrapped_rows_fit_and_lose_only_spaces(text in "[a-c 漢é👩❤\u{fe0f}]{0,60}", columns in 0_usize..30) {
            let rows = rows(&text, columns);
            for row in &rows {
                prop_assert!(width(row) <= columns.max(4), "{row:?}");
            }
            let joined: String = rows.iter().map(|row| &row[2..]).collect();
            prop_assert_eq!(joined.replace(' ', ""), text.replace(' ', ""));
        }
    }
}

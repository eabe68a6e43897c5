//! Markdown, a block at a time: a line, or a whole table.
//!
//! Models write one paragraph or list item a line, so that a line is all one needs to know to show it:
//! what came before matters only for fences and tables. That keeps the stretch that must be repainted
//! when its end is known ([`super::stream`]) as short as it can be.
//!
//! - [`inline`] finds emphasis, code and links within a line.
//! - [`mod@wrap`] breaks styled text into rows.
//! - [`table`] lines up the columns of tables.

pub(crate) mod inline;
pub(crate) mod table;
pub(crate) mod wrap;

use anstyle::Style;

use self::{inline::Span, wrap::wrap};
use crate::terminal::paint::{CODE, QUIET, paint};

/// State between blocks: an open code fence.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    fence: Option<Fence>,
}

#[derive(Debug)]
struct Fence {
    mark: char,
    length: usize,
}

impl Markdown {
    /// Returns whether the next line is code, as long as it does not end the fence.
    pub(crate) fn in_fence(&self) -> bool {
        self.fence.is_some()
    }

    /// The rows of a finished block: a line, or the lines of a table, without the last newline.
    pub(crate) fn block(&mut self, source: &str, columns: usize) -> Vec<String> {
        if let Some(fence) = &self.fence {
            if fence.ends_with(source) {
                self.fence = None;
                return vec![paint(true, QUIET, source)];
            }
            return vec![paint(true, CODE, source)];
        }
        if let Some(fence) = Fence::starts_with(source) {
            self.fence = Some(fence);
            return vec![paint(true, QUIET, source)];
        }
        if table::is_row(source) {
            return table::render(source, columns).unwrap_or_else(|| {
                source.lines().flat_map(|line| text(line, Style::new(), columns, "", "")).collect()
            });
        }
        line(source, columns)
    }
}

impl Fence {
    fn starts_with(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        (length >= 3 && !info.contains('`')).then_some(Self { mark, length })
    }

    fn ends_with(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|c| c == self.mark)
    }
}

fn text(line: &str, style: Style, columns: usize, first: &str, next: &str) -> Vec<String> {
    wrap(&inline::parse(line, style), columns, first, next)
}

/// One line outside of fences and tables.
fn line(source: &str, columns: usize) -> Vec<String> {
    let content = source.trim_start();
    // Deep nesting on a narrow terminal must leave room for the text.
    let indent = " ".repeat((source.len() - content.len()).min(columns / 4));
    if content.trim_end().is_empty() {
        return vec![String::new()];
    }
    if let Some(title) = heading(content) {
        return text(title, Style::new().bold().underline(), columns, "", "");
    }
    if is_rule(content) {
        return vec![paint(true, QUIET, &"─".repeat(columns.min(40)))];
    }
    if let Some(quoted) = content.strip_prefix('>') {
        let bar = format!("{indent}{}", paint(true, QUIET, "│ "));
        return quote(quoted.trim_start(), columns.saturating_sub(indent.len() + 2), &bar);
    }
    if let Some((marker, rest)) = list_marker(content) {
        let shown = if marker.ends_with(['-', '*', '+']) { "•" } else { marker };
        let first = format!("{indent}{shown} ");
        let next = " ".repeat(crate::terminal::paint::width(&first));
        return text(rest, Style::new(), columns, &first, &next);
    }
    text(content.trim_end(), Style::new(), columns, &indent, &indent)
}

fn quote(quoted: &str, columns: usize, bar: &str) -> Vec<String> {
    let spans: Vec<Span> = inline::parse(quoted, Style::new().italic());
    wrap(&spans, columns, "", "").into_iter().map(|row| format!("{bar}{row}")).collect()
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let title = title.strip_prefix(' ')?.trim();
    ((1..=6).contains(&level) && !title.is_empty()).then_some(title)
}

fn is_rule(line: &str) -> bool {
    let marks: String = line.split_whitespace().collect();
    marks.len() >= 3 && ["-", "*", "_"].iter().any(|mark| marks.replace(mark, "").is_empty())
}

/// The marker of a list item, without the space after it, and what follows.
fn list_marker(line: &str) -> Option<(&str, &str)> {
    let (marker, rest) = line.split_once(' ')?;
    let number = marker.strip_suffix(['.', ')']);
    let numbered = number.is_some_and(|n| (1..=9).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()));
    (matches!(marker, "-" | "*" | "+") || numbered).then(|| (marker, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::sanitize::clean;

    #[track_caller]
    fn check(blocks: &[&str], expected: &[&str]) {
        let mut markdown = Markdown::default();
        let rows: Vec<String> = blocks.iter().flat_map(|block| markdown.block(block, 20)).map(|r| clean(&r)).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn blocks_are_told_apart() {
        check(&["# A title", "", "plain"], &["A title", "", "plain"]);
        check(&["- one of **many** words here"], &["• one of many words", "  here"]);
        check(&["  12) deep"], &["  12) deep"]);
        check(&["> said a man of many words"], &["│ said a man of many", "│ words"]);
        check(&["---"], &["────────────────────"]);
        check(&["#hash", "-dash", "1.5 apples"], &["#hash", "-dash", "1.5 apples"]);
    }

    #[test]
    fn code_is_not_touched() {
        check(
            &["```rust", "# not a **title**", "~~~", "    a * b * c", "```", "*end*"],
            &["```rust", "# not a **title**", "~~~", "    a * b * c", "```", "end"],
        );
        check(&["~~~~", "~~~", "~~~~", "**b**"], &["~~~~", "~~~", "~~~~", "b"]);
    }
}

//! Renders Markdown block by block: a line, or a complete table.
//!
//! Models write each paragraph and list item on one line, so a line can be rendered by itself. Previous lines matter
//! only for fences and tables. This keeps the text that must be repainted at the end of a block ([`super::stream`])
//! short.
//!
//! - [`code`] highlights the lines of a code fence in one of the [`languages`].
//! - [`inline`] finds emphasis, code and links within a line.
//! - [`mod@wrap`] breaks styled text into rows.
//! - [`table`] aligns the columns of tables.

pub(crate) mod code;
pub(crate) mod inline;
mod languages;
pub(crate) mod table;
pub(crate) mod wrap;

use anstyle::Style;

use self::{code::Highlighter, wrap::wrap};
use crate::terminal::paint::{CODE, QUIET, clip, paint};

/// Maximum number of columns of text, because longer lines are hard to read.
pub(crate) const WIDEST: usize = 110;
/// Maximum number of columns of a language's name above its code.
const LANGUAGE: usize = 24;

/// State between blocks: an open code fence.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    fence: Option<Fence>,
}

#[derive(Debug)]
struct Fence {
    mark: char,
    length: usize,
    /// Name of the language after the fence.
    language: String,
    highlighter: Option<Highlighter>,
}

impl Markdown {
    /// Returns true within a fence: the next line is code, unless it ends the fence.
    pub(crate) fn in_fence(&self) -> bool {
        self.fence.is_some()
    }

    /// Returns the style of an incomplete line of code: plain if the complete line will be highlighted.
    pub(crate) fn code_style(&self) -> Style {
        match &self.fence {
            Some(Fence { highlighter: None, .. }) => CODE,
            _ => Style::new(),
        }
    }

    /// Renders a complete block: a line, or the lines of a table, without the last newline. The lines of a fence itself
    /// have no rows, except for the name of its language.
    pub(crate) fn block(&mut self, source: &str, columns: usize) -> Vec<String> {
        if let Some(fence) = &mut self.fence {
            if fence.ends_with(source) {
                self.fence = None;
                return Vec::new();
            }
            return vec![match &mut fence.highlighter {
                Some(highlighter) => highlighter.line(source),
                None => paint(true, CODE, source),
            }];
        }
        if let Some(fence) = Fence::starts_with(source) {
            let name = clip(&fence.language, LANGUAGE.min(columns));
            self.fence = Some(fence);
            return if name.is_empty() { Vec::new() } else { vec![paint(true, QUIET, &name)] };
        }
        let of_text = columns.min(WIDEST);
        if table::is_row(source) {
            return table::render(source, columns).unwrap_or_else(|| {
                source.lines().flat_map(|line| text(line, Style::new(), of_text, "", "")).collect()
            });
        }
        line(source, of_text)
    }
}

impl Fence {
    fn starts_with(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        let language = info.trim_start().split([' ', '\t', ',', '{', ':']).next().unwrap_or_default().to_owned();
        let highlighter = Highlighter::of(&language);
        (length >= 3 && !info.contains('`')).then_some(Self { mark, length, language, highlighter })
    }

    fn ends_with(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|c| c == self.mark)
    }
}

/// Returns the indent of further rows of a block that is being written: the columns of its marker.
pub(crate) fn hanging(block: &str, columns: usize) -> usize {
    let content = block.trim_start();
    let indent = block.len() - content.len();
    if indent > columns / 4 {
        return 0;
    }
    let marker = match (content.starts_with("> "), list_marker(content)) {
        (true, _) => 2,
        (false, Some((marker, _))) => marker.len() + 1,
        (false, None) => 0,
    };
    indent + marker
}

fn text(line: &str, style: Style, columns: usize, first: &str, next: &str) -> Vec<String> {
    wrap(&inline::parse(line, style), columns, first, next)
}

/// Renders a line outside of fences and tables.
fn line(source: &str, columns: usize) -> Vec<String> {
    let content = source.trim_start();
    // Deep nesting on a narrow terminal must leave space for the text.
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
        let columns = columns.saturating_sub(indent.len() + 2);
        let rows = text(quoted.trim_start(), Style::new().italic(), columns, "", "");
        return rows.iter().map(|row| format!("{bar}{row}")).collect();
    }
    if let Some((marker, rest)) = list_marker(content) {
        let bullet = marker.ends_with(['-', '*', '+']);
        let (shown, rest) = match (bullet, task(rest)) {
            (true, Some((mark, rest))) => (mark, rest),
            (true, None) => ("•", rest),
            (false, _) => (marker, rest),
        };
        let first = format!("{indent}{shown} ");
        let next = " ".repeat(crate::terminal::paint::width(&first));
        return text(rest, Style::new(), columns, &first, &next);
    }
    text(content.trim_end(), Style::new(), columns, &indent, &indent)
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

/// Returns the marker of a list item without the space after it, and the rest.
fn list_marker(line: &str) -> Option<(&str, &str)> {
    let (marker, rest) = line.split_once(' ')?;
    let number = marker.strip_suffix(['.', ')']);
    let numbered = number.is_some_and(|n| (1..=9).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()));
    (matches!(marker, "-" | "*" | "+") || numbered).then(|| (marker, rest.trim_start()))
}

/// Returns the mark of a task, and its text.
fn task(item: &str) -> Option<(&'static str, &str)> {
    let marks = [("[ ] ", "☐"), ("[x] ", "☑"), ("[X] ", "☑")];
    marks.iter().find_map(|(written, shown)| Some((*shown, item.strip_prefix(written)?.trim_start())))
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
    fn markdown_blocks_are_recognised() {
        check(&["# A title", "", "plain"], &["A title", "", "plain"]);
        check(&["- one of **many** words here"], &["• one of many words", "  here"]);
        check(
            &["- [ ] one of **many** words", "* [x] done", "- [y] no"],
            &["☐ one of many words", "☑ done", "• [y] no"],
        );
        check(&["  12) deep"], &["  12) deep"]);
        check(&["> said a man of many words"], &["│ said a man of many", "│ words"]);
        check(&["---"], &["────────────────────"]);
        check(&["#hash", "-dash", "1.5 apples"], &["#hash", "-dash", "1.5 apples"]);
    }

    #[test]
    fn code_is_verbatim_and_fences_are_hidden() {
        check(
            &["```rust,ignore", "# not a **title**", "~~~", "    a * b * c", "```", "*end*"],
            &["rust", "# not a **title**", "~~~", "    a * b * c", "end"],
        );
        check(&["~~~~", "~~~", "~~~~", "**b**"], &["~~~", "b"]);
    }

    #[test]
    fn wrapped_rows_have_a_hanging_indent() {
        for (block, columns) in
            [("words", 0), ("- item", 2), ("  12) deep", 6), ("> said", 2), ("  set in", 2), ("-dash", 0)]
        {
            assert_eq!(hanging(block, 40), columns, "{block}");
        }
    }
}

//! The rows of the composer on the screen.

use agentd_core::visible;
use unicode_segmentation::UnicodeSegmentation as _;

use super::Composer;
use crate::terminal::{
    paint::{CODE, QUIET, clip, number, paint, widest, width},
    sanitize::clean_line,
};

/// Mark before an input, and before its further lines. Both have two columns.
const MARK: &str = "› ";
const NEXT_MARK: &str = "… ";
const WRAPPED: &str = "  ";
/// Cursor in rows that do not have the terminal's.
const CURSOR: char = '▏';
/// Columns of a mark.
const INDENT: usize = 2;
/// Maximum number of completions that are shown at once.
const MENU_ROWS: usize = 6;
/// Maximum number of columns of a completed word.
const WORD: usize = 40;

/// Rows on the screen, and the cursor in them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ComposerView {
    pub(crate) rows: Vec<String>,
    /// Row and column of the cursor, counted from zero.
    pub(crate) cursor: (usize, usize),
}

impl Composer {
    /// Returns the rows for a window of this size. `lead` precedes the first row; `placeholder` is shown without text.
    pub(crate) fn view(
        &self,
        (columns, height): (usize, usize),
        lead: &str,
        placeholder: &str,
        color: bool,
    ) -> ComposerView {
        if let Some(search) = &self.search {
            let found = search.found.and_then(|at| self.history.input(at)).map(clean_line).unwrap_or_default();
            let start = clip(&format!("search {}", clean_line(&search.text)), columns.saturating_sub(4));
            let row = clip(&format!("{start}› {found}"), columns.saturating_sub(1));
            return ComposerView { rows: vec![row], cursor: (0, width(&start)) };
        }
        let mut view = self.text_view(columns, lead);
        if self.buffer.is_empty() {
            let room = columns.saturating_sub(view.cursor.1 + 1);
            view.rows[0].push_str(&paint(color, QUIET, &clip(placeholder, room)));
        } else if let Some(hint) = self.hint() {
            let (row, column) = view.cursor;
            let room = columns.saturating_sub(column + 2);
            view.rows[row].push_str(&paint(color, QUIET, &clip(&cleaned(hint), room)));
        }
        view.limit(height);
        view.rows.extend(self.menu_rows(columns, color));
        view
    }

    /// Wraps the text by the widest measure of its characters, so that the terminal never wraps a row itself.
    fn text_view(&self, columns: usize, lead: &str) -> ComposerView {
        let columns = columns.saturating_sub(1).max(INDENT + 2);
        let mut view = ComposerView { rows: vec![format!("{lead}{MARK}")], cursor: (0, 0) };
        let mut used = width(lead) + INDENT;
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        for (at, grapheme) in text.grapheme_indices(true) {
            if at == cursor {
                view.mark_cursor();
            }
            if grapheme == "\n" {
                view.rows.push(NEXT_MARK.to_owned());
                used = INDENT;
                continue;
            }
            let shown = cleaned(grapheme);
            let wide: usize = shown.chars().map(widest).sum();
            if used + wide > columns {
                view.rows.push(WRAPPED.to_owned());
                used = INDENT;
            }
            used += wide;
            if let Some(row) = view.rows.last_mut() {
                row.push_str(&shown);
            }
        }
        if cursor == text.len() {
            view.mark_cursor();
        }
        view
    }

    fn menu_rows(&self, columns: usize, color: bool) -> Vec<String> {
        let (suggestions, others) = self.menu.rows(MENU_ROWS);
        let mut rows: Vec<String> = suggestions
            .map(|(suggestion, is_selected)| {
                let word = clip(&clean_line(&suggestion.word), WORD);
                let row =
                    clip(&format!("{word}  {}", clean_line(&suggestion.about)), columns.saturating_sub(INDENT + 1));
                let (mark, style) = if is_selected { (MARK, CODE) } else { (WRAPPED, QUIET) };
                paint(color, style, &format!("{mark}{}", row.trim_end()))
            })
            .collect();
        if others > 0 {
            rows.push(paint(color, QUIET, &format!("  … {} more", number(others as u64))));
        }
        rows
    }
}

impl ComposerView {
    /// Places the cursor at the end of the last row.
    fn mark_cursor(&mut self) {
        let row = self.rows.len().saturating_sub(1);
        self.cursor = (row, width(&self.rows[row]));
    }

    /// Keeps the rows around the cursor, if there are more than this.
    fn limit(&mut self, height: usize) {
        let height = height.max(1);
        let start = (self.cursor.0 + 1).saturating_sub(height);
        self.rows.drain(..start);
        self.rows.truncate(height);
        self.cursor.0 -= start;
    }

    /// Adds rows above the view.
    pub(crate) fn below(mut self, above: Vec<String>) -> Self {
        self.cursor.0 += above.len();
        self.rows.splice(0..0, above);
        self
    }

    /// Returns the rows with a mark at the cursor, unless it is at the end of its row. For rows above which others are
    /// written, so that the terminal's own cursor is elsewhere.
    pub(crate) fn with_cursor_mark(mut self) -> Vec<String> {
        let (row, column) = self.cursor;
        if let Some(text) = self.rows.get_mut(row) {
            let at = text.char_indices().map(|(at, _)| at).find(|at| width(&text[..*at]) >= column);
            if let Some(at) = at {
                text.insert(at, CURSOR);
            }
        }
        self.rows
    }
}

/// Replaces characters that are invisible or change the text around them.
pub(crate) fn cleaned(text: &str) -> String {
    // Parts of an emoji are invisible on their own.
    let is_part = |c: char| matches!(c, '\u{200d}' | '\u{fe0f}');
    text.replace(|c: char| visible::is_hidden(c) && !is_part(c), "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::composer::Key;

    fn composer(text: &str, left: usize) -> Composer {
        let mut composer = Composer::default();
        composer.write(text);
        for _ in 0..left {
            composer.press(Key::Left);
        }
        composer
    }

    #[test]
    fn text_is_wrapped_around_the_cursor() {
        let view = |text: &str, left: usize| composer(text, left).view((12, 3), "", "type here", false);
        assert_eq!(view("", 0), ComposerView { rows: vec!["› type here".to_owned()], cursor: (0, 2) });
        let rows =
            |rows: &[&str], cursor| ComposerView { rows: rows.iter().map(|row| (*row).to_owned()).collect(), cursor };
        assert_eq!(view("one\ntwo", 5), rows(&["› one", "… two"], (0, 4)));
        assert_eq!(view("漢字漢字漢字", 0), rows(&["› 漢字漢字", "  漢字"], (1, 6)));
        assert_eq!(view("a\nb\nc\nd", 0), rows(&["… b", "… c", "… d"], (2, 3)));
        assert_eq!(view("a\nb\nc\nd", 6), rows(&["› a", "… b", "… c"], (0, 3)));
        assert_eq!(view("a\u{202e}b", 0), rows(&["› a\u{fffd}b"], (0, 5)));
        let led = composer("x", 0).view((40, 3), "1 message waits ", "", false);
        assert_eq!(led, rows(&["1 message waits › x"], (0, 19)));
    }

    proptest! {
        #[test]
        fn rows_fit_and_the_cursor_is_in_them(
            text in "[a-c 漢é\u{1f469}\u{200d}❤\u{fe0f}\n]{0,60}", left in 0_usize..60,
            columns in 6_usize..30, height in 1_usize..6,
        ) {
            let view = composer(&text, left).view((columns, height), "", "", false);
            prop_assert!(view.rows.len() <= height && view.cursor.0 < view.rows.len());
            prop_assert!(view.rows.iter().all(|row| width(row) < columns), "{view:?}");
            prop_assert!(view.cursor.1 < columns);
        }
    }
}

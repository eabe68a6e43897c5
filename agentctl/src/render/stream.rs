//! Streams text of the model to a terminal.
//!
//! The incomplete block is echoed as plain text. At its end it is repainted as Markdown, but only if its rows on the
//! screen are known. To count them, rows are broken by the client, by the widest measure of each character, so that the
//! terminal never wraps a line. If the block is larger than the screen, or the window has changed its width, the plain
//! text stays. In both cases, every character is shown once.
//!
//! A word that does not fit into its row is moved to the next one, as in the final layout, so that a paragraph does not
//! jump. A table is not echoed, because its rows can only be drawn once all of them are known. Until then, the number
//! of its rows is shown below.

use std::io::{self, Write};

use super::markdown::{Markdown, WIDEST, hanging, table, wrap::cut};
use crate::{
    report::count,
    terminal::{
        look::TerminalStyle,
        paint::{widest, without_colors},
        sanitize::{Sanitizer, clean},
    },
};

/// Replacement for a tab while its line is incomplete, because the width of a tab depends on the terminal.
const TAB: &str = "    ";

/// Moves to the row below and erases it.
const NEXT_ROW: &str = "\x1b[B\r\x1b[K";
/// Stores the position of the cursor, and restores it.
const STORE_CURSOR: &str = "\x1b7";
const RESTORE_CURSOR: &str = "\x1b8";
/// Erases the rows below.
const ERASE_BELOW: &str = "\x1b7\x1b[B\r\x1b[J\x1b8";

/// Writer of streamed text.
#[derive(Debug)]
pub(crate) struct TextStream<W> {
    out: W,
    look: TerminalStyle,
    sanitizer: Sanitizer,
    markdown: Markdown,
    /// Source of the incomplete block.
    block: String,
    /// Part of the block on the screen, with the line breaks of the client.
    echo: Echo,
    /// True while a style is active, which must be reset before other output.
    inked: bool,
    /// Rows below the text while it streams: status and input.
    below: Vec<String>,
    /// True while the rows below are on the screen.
    has_below: bool,
    /// True while more text may arrive.
    is_streaming: bool,
}

#[derive(Debug, Default)]
struct Echo {
    text: String,
    /// Offset of the last row in the text.
    row: usize,
    /// Number of rows above the cursor.
    rows: usize,
    /// Upper limit of the cursor's column.
    column: usize,
    /// Columns and rows of the window at the start of the block.
    window: (usize, usize),
    /// True if the block can no longer be repainted.
    fixed: bool,
    /// True if a part of the block is not on the screen, so that it must be repainted.
    partial: bool,
    /// Maximum number of rows below so far, which have scrolled the block up.
    below: usize,
}

impl<W: Write> TextStream<W> {
    pub(crate) fn new(out: W, look: TerminalStyle) -> Self {
        Self {
            out,
            look,
            sanitizer: Sanitizer::default(),
            markdown: Markdown::default(),
            block: String::new(),
            echo: Echo::default(),
            inked: false,
            below: Vec::new(),
            has_below: false,
            is_streaming: false,
        }
    }

    /// Returns true while text streams, so that no other output may be written.
    pub(crate) fn is_open(&self) -> bool {
        self.is_streaming || !self.block.is_empty()
    }

    /// Shows the next part of the text.
    pub(crate) fn push(&mut self, text: &str) -> io::Result<()> {
        self.is_streaming = true;
        let text = self.sanitizer.push(text);
        let mut painted = String::with_capacity(text.len() + 16);
        self.follow_width(&mut painted);
        for c in text.chars() {
            self.character(c, &mut painted);
        }
        self.end_ink(&mut painted);
        // The number of rows of a table is shown below.
        if self.echo.partial && text.contains('\n') { self.draw(&painted) } else { self.write(&painted) }
    }

    /// Begins a row if the window has become too narrow for the current row, because the terminal has wrapped it.
    fn follow_width(&mut self, painted: &mut String) {
        if self.block.is_empty() || !self.paints() || self.echo.partial {
            return;
        }
        let window = (self.look.size)();
        if window.0 != self.echo.window.0 {
            let narrowest = window.0.min(self.echo.window.0);
            self.echo.fixed = true;
            self.echo.window = window;
            if self.echo.column >= narrowest {
                self.echo.newline();
                painted.push('\n');
            }
        }
    }

    /// Draws the incomplete row and the rows below again at the cursor. Rows above it cannot be repainted.
    pub(crate) fn draw_again(&mut self) -> io::Result<()> {
        if !(self.is_open() && self.paints()) {
            return Ok(());
        }
        self.has_below = false;
        self.echo.fixed = !self.block.is_empty();
        let row = format!("\r{}", &self.echo.text[self.echo.row..]);
        self.draw(&row)
    }

    /// Shows rows below the text while it streams. The rows must be clean and fit the window.
    pub(crate) fn below(&mut self, rows: Vec<String>) -> io::Result<()> {
        if !self.look.out_terminal || rows == self.below && self.has_below == self.is_open() {
            return Ok(());
        }
        self.below = rows;
        self.draw("")
    }

    /// Writes painted text above the rows below. They are not redrawn while the cursor stays in its row.
    fn write(&mut self, painted: &str) -> io::Result<()> {
        if self.has_below && self.is_open() && !painted.contains(['\n', '\r']) && !self.echo.is_overwide() {
            self.out.write_all(painted.as_bytes())?;
            return self.out.flush();
        }
        self.draw(painted)
    }

    fn draw(&mut self, painted: &str) -> io::Result<()> {
        let mut all = String::with_capacity(painted.len() + 256);
        if std::mem::take(&mut self.has_below) {
            all.push_str(ERASE_BELOW);
        }
        all.push_str(painted);
        if self.is_open() && !self.below.is_empty() && !self.echo.is_overwide() {
            // A vertical tab scrolls if there is no room below, and keeps the column.
            let table = self.echo.partial.then(|| format!("… a table, {}", count(self.block.lines().count(), "row")));
            let height = self.below.len() + usize::from(table.is_some());
            self.echo.below = self.echo.below.max(height);
            all.push_str(&"\x0b".repeat(height));
            all.push_str(&format!("\x1b[{height}A{STORE_CURSOR}"));
            table.iter().chain(&self.below).for_each(|row| all.extend([NEXT_ROW, row]));
            all.push_str(RESTORE_CURSOR);
            self.has_below = true;
        }
        self.out.write_all(all.as_bytes())?;
        self.out.flush()
    }

    /// Finishes the incomplete block before other output. The text may continue, in the same code fence.
    pub(crate) fn pause(&mut self) -> io::Result<()> {
        self.close("")
    }

    /// Returns true within a code fence, also while the text is paused.
    pub(crate) fn in_fence(&self) -> bool {
        self.markdown.in_fence()
    }

    /// Ends the text: finishes the incomplete block, and resets the state of Markdown.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.pause()?;
        (self.sanitizer, self.markdown) = Default::default();
        Ok(())
    }

    /// Writes a line that is not part of the model's text.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.close(&format!("{line}\n"))
    }

    /// Finishes the block in progress, and writes a text below it.
    fn close(&mut self, below: &str) -> io::Result<()> {
        self.is_streaming = false;
        let mut painted = String::new();
        self.end_block(&mut painted);
        painted.push_str(below);
        self.write(&painted)
    }

    /// Writes a complete text verbatim, for files and pipes. Terminal escapes are removed, because a pipe may lead to a
    /// terminal.
    pub(crate) fn whole(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(clean(text).as_bytes())?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    /// Returns true if Markdown is rendered. Without colours it is rendered, too, with its layout and attributes.
    fn paints(&self) -> bool {
        self.look.out_terminal
    }

    fn character(&mut self, c: char, painted: &mut String) {
        if self.block.ends_with('\n') && c != '|' {
            // A table ends before the first line that does not begin with a bar.
            self.end_block(painted);
        }
        if c == '\n' {
            if self.paints() && !self.markdown.in_fence() && table::is_row(&self.block) {
                self.block.push('\n');
            } else {
                self.end_line(painted);
            }
            return;
        }
        if self.block.is_empty() && self.paints() {
            self.echo.window = (self.look.size)();
        }
        self.block.push(c);
        if self.paints() {
            self.echo_painted(c, painted);
        } else {
            painted.push(c);
        }
    }

    /// Echoes a character of a block that may be repainted.
    fn echo_painted(&mut self, c: char, painted: &mut String) {
        let mut letters = [0; 4];
        let code = self.markdown.in_fence();
        if !code && table::is_row(&self.block) {
            self.echo.partial = true;
            return;
        }
        let shown = if c == '\t' { TAB } else { c.encode_utf8(&mut letters) };
        // One column is left free: a terminal that counts a character as wide must not break the line.
        let columns = self.echo.window.0.saturating_sub(1);
        if code && !self.inked {
            let style = self.markdown.code_style();
            if !style.is_plain() && self.look.out_color {
                painted.push_str(&style.render().to_string());
                self.inked = true;
            }
        }
        for c in shown.chars() {
            let limit = if code { columns } else { columns.min(WIDEST) };
            if self.echo.column + widest(c) > limit {
                if code {
                    // Users copy code from the screen, so its lines are not broken.
                    self.echo.fixed = true;
                } else if self.break_row(c, limit, painted) {
                    continue;
                }
            }
            self.echo.column += widest(c);
            self.echo.text.push(c);
            painted.push(c);
        }
    }

    /// Begins a row before a character that does not fit, and moves its word to the row. Returns true if the character
    /// was a space, which ends the previous row.
    fn break_row(&mut self, c: char, limit: usize, painted: &mut String) -> bool {
        let hang = hanging(&self.block, limit);
        let row: Vec<char> = self.echo.text[self.echo.row..].chars().collect();
        let start = hang.min(row.len());
        let room = limit.saturating_sub(hang).max(2);
        let (end, resume) = cut(row.len() + 1, |at| row.get(at).copied().unwrap_or(c), start, room, widest);
        let carried = row.get(resume..).unwrap_or_default();
        if end < row.len() {
            let kept: String = row[..end].iter().collect();
            self.echo.text.truncate(self.echo.row + kept.len());
            if !carried.is_empty() {
                painted.push_str(&format!("\r{kept}\x1b[K"));
            }
        }
        self.echo.newline();
        painted.push('\n');
        let indent = " ".repeat(hang);
        for c in indent.chars().chain(carried.iter().copied()) {
            self.echo.column += widest(c);
            self.echo.text.push(c);
            painted.push(c);
        }
        c == ' ' && resume > row.len()
    }

    /// Resets the active style.
    fn end_ink(&mut self, painted: &mut String) {
        if std::mem::take(&mut self.inked) {
            painted.push_str("\x1b[0m");
        }
    }

    /// Ends the line after a newline was read. An empty line in a fence is code, too.
    fn end_line(&mut self, painted: &mut String) {
        if !self.block.is_empty() {
            return self.end_block(painted);
        }
        if self.paints() {
            let _ = self.markdown.block("", 80);
            self.end_ink(painted);
        }
        painted.push('\n');
    }

    /// Finishes the incomplete block, if any, and moves the cursor to the start of a row.
    fn end_block(&mut self, painted: &mut String) {
        let block = std::mem::take(&mut self.block);
        let echo = std::mem::take(&mut self.echo);
        self.end_ink(painted);
        if block.is_empty() {
            return;
        }
        if !self.paints() {
            painted.push('\n');
            return;
        }
        let window = (self.look.size)();
        // As for the echo, one column is left free.
        let rows = self.markdown.block(block.trim_end_matches('\n'), window.0.saturating_sub(1));
        let rendered = rows.join("\n");
        let mut rendered = if self.look.out_color { rendered } else { without_colors(&rendered) };
        if !rows.is_empty() {
            rendered.push('\n');
        }
        let at_start = echo.text.ends_with('\n');
        let is_shown = if at_start { echo.text == rendered } else { format!("{}\n", echo.text) == rendered };
        let is_moved = echo.fixed || window != echo.window || echo.rows + echo.below + 2 > window.1;
        // No part of a table is on the screen, so none is out of reach.
        let out_of_reach = is_moved && !echo.text.is_empty();
        if out_of_reach || is_shown && !echo.partial {
            if !at_start {
                painted.push('\n');
            }
            // The echo stays. If it is only a part of the block, the complete block follows.
            if echo.partial {
                painted.push_str(&rendered);
            }
            return;
        }
        painted.push('\r');
        if echo.rows > 0 {
            painted.push_str(&format!("\x1b[{}A", echo.rows));
        }
        painted.push_str("\x1b[J");
        painted.push_str(&rendered);
    }
}

impl Echo {
    /// Returns true if the terminal may have wrapped the last row, over the rows below.
    fn is_overwide(&self) -> bool {
        self.column > self.window.0.saturating_sub(1)
    }

    fn newline(&mut self) {
        self.text.push('\n');
        self.rows += 1;
        self.column = 0;
        self.row = self.text.len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::render::screen::{Screen, TERMINAL};

    const COLUMNS: usize = 20;
    const ROWS: usize = 8;

    fn look() -> TerminalStyle {
        TerminalStyle { size: || (COLUMNS, ROWS), ..TERMINAL }
    }

    /// Screen and scrollback after the pieces were shown one by one.
    fn shown(pieces: &[&str]) -> Vec<String> {
        let mut bytes = Vec::new();
        let mut stream = TextStream::new(&mut bytes, look());
        for piece in pieces {
            stream.push(piece).unwrap();
        }
        stream.finish().unwrap();
        Screen::new(COLUMNS, ROWS).feed(&String::from_utf8(bytes).unwrap()).lines()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(shown(&pieces.iter().map(String::as_str).collect::<Vec<_>>()), expected, "by the letter");
        assert_eq!(shown(&[text]), expected, "at once");
    }

    #[test]
    fn typed_input_below_the_stream_leaves_no_trace() {
        let text = "One line of words.\n\n# Title\nA long line that takes three rows or so in all.\n```\nx\n```\nend";
        let mut bytes = Vec::new();
        let mut stream = TextStream::new(&mut bytes, look());
        for (at, c) in text.chars().enumerate() {
            stream.push(c.encode_utf8(&mut [0; 4])).unwrap();
            let rows = [format!("status {at}"), format!("› typed {at}")];
            stream.below(rows.into_iter().skip(at % 7 % 3).collect()).unwrap();
        }
        let open = String::from_utf8(stream.out.clone()).unwrap();
        assert_eq!(
            Screen::new(COLUMNS, ROWS).feed(&open).lines().last().unwrap(),
            &format!("› typed {}", text.len() - 1)
        );
        stream.finish().unwrap();
        let with = Screen::new(COLUMNS, ROWS).feed(&String::from_utf8(bytes).unwrap()).lines();
        assert_eq!(with, shown(&[text]));
    }

    #[test]
    fn code_wider_than_the_window_is_not_mixed_with_the_rows_below() {
        let mut bytes = Vec::new();
        let mut stream = TextStream::new(&mut bytes, look());
        for piece in ["```\n", "xxxxx", &"x".repeat(COLUMNS), "yyyyy", "\nend"] {
            stream.push(piece).unwrap();
            stream.below(vec!["status ".repeat(2), "input ".repeat(2)]).unwrap();
        }
        let lines = |bytes: Vec<u8>| Screen::new(COLUMNS, ROWS).feed(&String::from_utf8(bytes).unwrap()).lines();
        let open = ["x".repeat(COLUMNS), "xxxxxyyyyy".into(), "end".into(), "status ".repeat(2), "input ".repeat(2)];
        assert_eq!(lines(stream.out.clone()), open);
        stream.finish().unwrap();
        assert_eq!(lines(bytes), open[..3]);
    }

    #[test]
    fn finished_blocks_are_repainted_with_styles() {
        check("# Title\n\nA **bold** word.\n", &["Title", "", "A bold word."]);
        check(
            "A long line that takes three rows or so in all",
            &["A long line that", "takes three rows or", "so in all"],
        );
        check("- one\n- two `x`\n", &["• one", "• two x"]);
        check("漢字**漢字**漢字漢字漢字漢字\nend", &["漢字漢字漢字漢字漢", "字漢字", "end"]);
    }

    #[test]
    fn tables_are_repainted_as_one() {
        check("| a | b |\n|---|---|\n| 10 | 2 |\nafter", &["a  │ b", "───┼──", "10 │ 2", "after"]);
        check("| a | b |\n|---|---|\n| 10 | 2 |\n\nafter", &["a  │ b", "───┼──", "10 │ 2", "", "after"]);
        check("| a | b |\n|---|---|\n| 10 | 2 |", &["a  │ b", "───┼──", "10 │ 2"]);
        check("| no | table\nafter", &["| no | table", "after"]);
        check("| no | table |\n", &["| no | table |"]);
    }

    #[test]
    fn streaming_table_is_counted_below_and_drawn_whole_after_a_resize() {
        use std::sync::atomic::{AtomicUsize, Ordering};

        static WIDTH: AtomicUsize = AtomicUsize::new(COLUMNS);
        let look = TerminalStyle { size: || (WIDTH.load(Ordering::Relaxed), ROWS), ..look() };
        let mut bytes = Vec::new();
        let mut stream = TextStream::new(&mut bytes, look);
        stream.push("Sizes:\n| a | b |\n|---|---|\n| 10 | 2").unwrap();
        stream.below(vec!["status".to_owned()]).unwrap();
        let open = Screen::new(COLUMNS, ROWS).feed(&String::from_utf8(stream.out.clone()).unwrap()).lines();
        assert_eq!(open, ["Sizes:", "", "… a table, 3 rows", "status"]);
        WIDTH.store(COLUMNS - 5, Ordering::Relaxed);
        stream.push(" |\n| 3 | 4 |\n").unwrap();
        let open = Screen::new(COLUMNS, ROWS).feed(&String::from_utf8(stream.out.clone()).unwrap()).lines();
        assert_eq!(open, ["Sizes:", "", "… a table, 4 rows", "status"]);
        stream.finish().unwrap();
        let shown = Screen::new(COLUMNS, ROWS).feed(&String::from_utf8(bytes).unwrap()).lines();
        assert_eq!(shown, ["Sizes:", "a  │ b", "───┼──", "10 │ 2", "3  │ 4"]);
    }

    #[test]
    fn overwide_table_is_never_shown_raw() {
        let rows: String = (1..=9).map(|row| format!("| row {row} | of words that need more room |\n")).collect();
        let table = format!("| name | about |\n|---|---|\n{rows}");
        let shown =
            shown(&table.chars().map(String::from).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
        let records: Vec<String> = (1..=9)
            .flat_map(|row| {
                let rows =
                    [&format!("name: row {row}"), "about: of words", "  that need more", "  room", "────────────"];
                rows.map(str::to_owned)
            })
            .collect();
        assert_eq!(shown, records[..records.len() - 1]);
    }

    #[test]
    fn streamed_paragraph_keeps_its_final_layout() {
        for text in [
            "A long line that takes three rows or so in all",
            "- an item of a list that is long enough to be broken, twice",
            "an unbreakableunbreakableunbreakable word",
            "漢字漢字漢字漢字漢字漢字。漢字漢字漢字",
        ] {
            let mut bytes = Vec::new();
            let mut stream = TextStream::new(&mut bytes, look());
            for c in text.chars() {
                stream.push(c.encode_utf8(&mut [0; 4])).unwrap();
            }
            let open = String::from_utf8(stream.out.clone()).unwrap();
            stream.finish().unwrap();
            let open = Screen::new(COLUMNS, ROWS).feed(&open).lines();
            let finished = Screen::new(COLUMNS, ROWS).feed(&String::from_utf8(bytes).unwrap()).lines();
            let bullets: Vec<String> = open.iter().map(|row| row.replace("- ", "• ")).collect();
            assert_eq!(bullets, finished);
        }
    }

    #[test]
    fn streamed_code_keeps_its_lines() {
        check("```\nlet x = 1; // 漢字 *y*\n\n| a |\n```\n*z*", &["let x = 1; // 漢字 *", "y*", "", "| a |", "z"]);
        check("```rust\nlet x = 1;\n\n```\n", &["rust", "let x = 1;", ""]);
    }

    #[test]
    fn text_taller_than_the_screen_stays_plain() {
        let words = "**word** ".repeat(40);
        let text: String = shown(&[&words, "\nend"]).concat();
        assert_eq!(text.replace(' ', ""), format!("{words}end").replace(' ', ""));
    }

    #[test]
    fn plain_terminal_shows_markdown_as_written() {
        let mut bytes = Vec::new();
        let plain = TerminalStyle { out_terminal: false, out_color: false, ..look() };
        let mut stream = TextStream::new(&mut bytes, plain);
        stream.push("# A **long** title that is not broken\n| a |\n\nend\u{1b}[31m").unwrap();
        stream.finish().unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "# A **long** title that is not broken\n| a |\n\nend\n");
    }

    #[test]
    fn terminal_without_colours_keeps_layout_and_attributes() {
        let text =
            "# Title\n\nA **bold** `word`.\n- one\n```rust\nlet x = 1;\n```\n| a | b |\n|---|---|\n| 1 | 2 |\nend";
        let mut bytes = Vec::new();
        let mut stream = TextStream::new(&mut bytes, TerminalStyle { out_color: false, ..look() });
        for c in text.chars() {
            stream.push(c.encode_utf8(&mut [0; 4])).unwrap();
        }
        stream.finish().unwrap();
        let written = String::from_utf8(bytes).unwrap();
        assert_eq!(Screen::new(COLUMNS, ROWS).feed(&written).lines(), shown(&[text]));
        assert!(written.contains("\x1b[1mbold\x1b[0m"), "{written:?}");
        let colors = written.split("\x1b[").skip(1).filter_map(|code| code.split_once('m'));
        let colors = colors.filter(|(code, _)| code.len() == 2 && code.starts_with(['3', '9']));
        assert_eq!(colors.count(), 0, "{written:?}");
    }

    proptest! {
        #[test]
        fn streaming_neither_loses_nor_repeats_letters(
            pieces in proptest::collection::vec("[a-c漢 \n|#>*`-]{0,12}", 0..20),
        ) {
            let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            // Of what stands behind a fence only the language is shown, which is its first word.
            let more_than_language = |line: &str| {
                let line = line.trim_start();
                line.starts_with("```") && line.trim_start_matches('`').trim().contains(' ')
            };
            prop_assume!(!pieces.concat().lines().any(more_than_language));
            prop_assert_eq!(letters(&shown(&pieces).concat()), letters(&pieces.concat()));
        }
    }
}

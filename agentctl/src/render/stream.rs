//! Text of the model on its way to a terminal.
//!
//! The block under way is echoed plainly as it comes. When its end is known it is repainted as Markdown,
//! but only where that is sure to hit the right rows: rows are counted by the widest measure, with line
//! breaks of our own, so that the terminal never breaks a line where we did not. Where the block grew
//! beyond the screen or the window changed its width meanwhile, its plain text stays. Every character is
//! shown once, whichever way.

use std::io::{self, Write};

use super::markdown::{Markdown, table};
use crate::terminal::{
    look::TerminalStyle,
    paint::{CODE, clip, widest},
    sanitize::{Sanitizer, clean},
};

/// Stand-in for a tab while its line is incomplete: the width of a real one is the terminal's affair.
const TAB: &str = "    ";

/// Goes to the row below, scrolling where there is none, and remembers where it came from.
const MAKE_ROOM_BELOW: &str = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[K";
/// Goes back from there.
const COME_BACK: &str = "\x1b8";
/// Takes off what stands in the row below.
const ERASE_BELOW: &str = "\x1b7\x1b[B\r\x1b[J\x1b8";

/// Writes text that comes in pieces.
#[derive(Debug)]
pub(crate) struct TextStream<W> {
    out: W,
    look: TerminalStyle,
    sanitizer: Sanitizer,
    markdown: Markdown,
    /// The source of the block under way.
    block: String,
    /// The part that is on the screen, with our line breaks.
    echo: Echo,
    /// The row below the block under way: words that a person types meanwhile.
    below: Option<String>,
    /// It is on the screen.
    has_below: bool,
}

#[derive(Debug, Default)]
struct Echo {
    text: String,
    /// Rows above the cursor.
    rows: usize,
    /// The cursor's column, or more where the terminal counts less.
    column: usize,
    /// The window's columns and rows when the block began.
    window: (usize, usize),
    /// The block may not be repainted any more.
    fixed: bool,
}

impl<W: Write> TextStream<W> {
    pub(crate) fn new(out: W, look: TerminalStyle) -> Self {
        Self {
            out,
            look,
            sanitizer: Sanitizer::new(),
            markdown: Markdown::default(),
            block: String::new(),
            echo: Echo::default(),
            below: None,
            has_below: false,
        }
    }

    /// Returns whether the cursor is within a line, so that no other output may be written now.
    pub(crate) fn is_open(&self) -> bool {
        !self.block.is_empty()
    }

    /// Shows more of the text.
    pub(crate) fn push(&mut self, text: &str) -> io::Result<()> {
        let text = self.sanitizer.push(text);
        let mut painted = String::with_capacity(text.len() + 16);
        for c in text.chars() {
            self.character(c, &mut painted);
        }
        self.write(&painted)
    }

    /// Shows this in a row below the block under way, and below those to come; none for nothing. The text must be clean.
    pub(crate) fn below(&mut self, text: Option<String>) -> io::Result<()> {
        if !self.look.out_terminal {
            return Ok(());
        }
        self.below = text.map(|text| clip(&text, (self.look.size)().0.saturating_sub(1)));
        self.write("")
    }

    /// Writes what is painted, above the row below.
    fn write(&mut self, painted: &str) -> io::Result<()> {
        let mut all = String::with_capacity(painted.len() + 32);
        if std::mem::take(&mut self.has_below) {
            all.push_str(ERASE_BELOW);
        }
        all.push_str(painted);
        if let Some(below) = self.below.as_ref().filter(|_| self.is_open()) {
            all.push_str(&format!("{MAKE_ROOM_BELOW}{below}{COME_BACK}"));
            self.has_below = true;
        }
        self.out.write_all(all.as_bytes())?;
        self.out.flush()
    }

    /// Ends the text: the block under way is finished, the next text starts in plain Markdown.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let mut painted = String::new();
        self.end_block(&mut painted);
        self.sanitizer = Sanitizer::new();
        self.markdown = Markdown::default();
        self.write(&painted)
    }

    /// Writes a line that is no text of the model's.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        let mut painted = String::new();
        self.end_block(&mut painted);
        painted.push_str(line);
        painted.push('\n');
        self.write(&painted)
    }

    /// Writes a whole text without any form, for files and pipes. A pipe may lead to a terminal.
    pub(crate) fn whole(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(clean(text).as_bytes())?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    /// Returns whether Markdown is rendered. Without colours its marks are all that is left of it.
    fn paints(&self) -> bool {
        self.look.out_terminal && self.look.out_color
    }

    fn character(&mut self, c: char, painted: &mut String) {
        if self.block.ends_with('\n') && c != '|' {
            // A table lasts as long as its lines begin with a bar.
            self.end_block(painted);
        }
        if c == '\n' {
            if self.paints() && !self.markdown.in_fence() && table::is_row(&self.block) {
                self.block.push('\n');
                self.echo.newline();
                painted.push('\n');
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
        let shown = if c == '\t' { TAB } else { c.encode_utf8(&mut letters) };
        for c in shown.chars() {
            let columns = widest(c);
            if self.echo.column + columns >= self.echo.window.0 {
                if code {
                    // Code is copied from the screen, so that its lines get no breaks of ours.
                    self.echo.fixed = true;
                } else {
                    self.echo.newline();
                    painted.push('\n');
                }
            }
            self.echo.column += columns;
            self.echo.text.push(c);
        }
        if code {
            painted.push_str(&crate::terminal::paint::paint(true, CODE, shown));
        } else {
            painted.push_str(shown);
        }
    }

    /// A newline was read: the line is a block, maybe an empty one.
    fn end_line(&mut self, painted: &mut String) {
        if self.paints() {
            if self.block.is_empty() {
                // Still told: an empty line in a fence is code.
                let _ = self.markdown.block("", 80);
                painted.push('\n');
            } else {
                self.end_block(painted);
            }
        } else {
            self.block.clear();
            painted.push('\n');
        }
    }

    /// Finishes the block under way, if there is one, and leaves the cursor at the start of a row.
    fn end_block(&mut self, painted: &mut String) {
        let block = std::mem::take(&mut self.block);
        let mut echo = std::mem::take(&mut self.echo);
        if block.is_empty() {
            return;
        }
        if !self.paints() {
            painted.push('\n');
            return;
        }
        let table = block.ends_with('\n');
        let window = (self.look.size)();
        // One column is left free: a terminal that counts a character as wide must not break the line.
        let rows = self.markdown.block(block.trim_end_matches('\n'), window.0.saturating_sub(1).min(WIDEST));
        if table {
            echo.text.pop();
            echo.rows = echo.rows.saturating_sub(1);
        }
        let rendered = rows.join("\n");
        let out_of_reach = echo.fixed || window != echo.window || echo.rows + 2 > window.1;
        if rendered == echo.text || out_of_reach {
            if !table {
                painted.push('\n');
            }
            return;
        }
        let up = echo.rows + usize::from(table);
        painted.push('\r');
        if up > 0 {
            painted.push_str(&format!("\x1b[{up}A"));
        }
        painted.push_str("\x1b[J");
        painted.push_str(&rendered);
        painted.push('\n');
    }
}

/// Lines of text longer than this are hard to read, however wide the window.
const WIDEST: usize = 110;

impl Echo {
    fn newline(&mut self) {
        self.text.push('\n');
        self.rows += 1;
        self.column = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::render::screen::Screen;

    const COLUMNS: usize = 20;
    const ROWS: usize = 8;

    fn look() -> TerminalStyle {
        TerminalStyle {
            out_terminal: true,
            out_color: true,
            err_terminal: false,
            err_color: false,
            size: || (COLUMNS, ROWS),
        }
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
    fn what_is_typed_stands_below_what_streams_and_leaves_no_trace() {
        let text = "One line of words.\n\n# Title\nA long line that takes three rows or so in all.\n```\nx\n```\nend";
        let mut bytes = Vec::new();
        let mut stream = TextStream::new(&mut bytes, look());
        for (at, c) in text.chars().enumerate() {
            stream.push(c.encode_utf8(&mut [0; 4])).unwrap();
            stream.below((at % 7 != 3).then(|| format!("› typed {at}"))).unwrap();
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
    fn finished_blocks_are_repainted() {
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
    fn code_keeps_its_lines() {
        check(
            "```\nlet x = 1; // 漢字 *y*\n\n| a |\n```\n*z*",
            &["```", "let x = 1; // 漢字 *", "y*", "", "| a |", "```", "z"],
        );
    }

    #[test]
    fn what_outgrew_the_screen_stays_plain_and_is_shown_once() {
        let words = "**word** ".repeat(40);
        let text: String = shown(&[&words, "\nend"]).concat();
        assert_eq!(text, format!("{words}end"));
    }

    #[test]
    fn without_colours_text_is_left_as_it_is() {
        let mut bytes = Vec::new();
        let mut stream = TextStream::new(&mut bytes, TerminalStyle { out_color: false, ..look() });
        stream.push("# A **long** title that is not broken\n| a |\n\nend\u{1b}[31m").unwrap();
        stream.finish().unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "# A **long** title that is not broken\n| a |\n\nend\n");
    }

    proptest! {
        #[test]
        fn no_letter_is_lost_or_shown_twice(
            pieces in proptest::collection::vec("[a-c漢 \n|#>*`-]{0,12}", 0..20),
        ) {
            let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(letters(&shown(&pieces).concat()), letters(&pieces.concat()));
        }
    }
}

//! Terminal emulator for tests: rows that scroll away, and the few sequences that the client uses.

use unicode_width::UnicodeWidthChar as _;

use crate::terminal::look::TerminalStyle;

/// Terminal that shows standard output only, with colours.
pub(crate) const TERMINAL: TerminalStyle = TerminalStyle {
    out_shown: true,
    out_terminal: true,
    out_color: true,
    err_shown: false,
    err_terminal: false,
    err_color: false,
    size: || (60, 12),
};

pub(crate) struct Screen {
    columns: usize,
    rows: usize,
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Stored position of the cursor.
    saved: (usize, usize),
}

impl Screen {
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        Self { columns, rows, lines: vec![Vec::new()], row: 0, column: 0, saved: (0, 0) }
    }

    pub(crate) fn feed(mut self, text: &str) -> Self {
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\n' => self.newline(),
                '\r' => self.column = 0,
                // Moves one row down, in the same column.
                '\u{b}' => {
                    let column = self.column;
                    self.newline();
                    self.column = column;
                }
                '\u{1b}' => {
                    match rest.next() {
                        Some('[') => {}
                        Some('7') => {
                            self.saved = (self.row, self.column);
                            continue;
                        }
                        Some('8') => {
                            (self.row, self.column) = self.saved;
                            continue;
                        }
                        other => panic!("the client does not write ESC {other:?}"),
                    }
                    let mut parameters = String::new();
                    let last = rest.by_ref().find(|c| {
                        parameters.push(*c);
                        c.is_ascii_alphabetic()
                    });
                    parameters.pop();
                    self.sequence(&parameters, last.expect("a sequence ends"));
                }
                _ => self.put(c),
            }
        }
        self
    }

    fn sequence(&mut self, parameters: &str, last: char) {
        match last {
            'm' => {}
            // The cursor stops at the top of the screen, where a wrong repaint would show.
            'A' => {
                let top = self.lines.len().saturating_sub(self.rows);
                let up = if parameters.is_empty() { 1 } else { parameters.parse().expect("a number") };
                self.row = self.row.saturating_sub(up).max(top);
            }
            // It also stops at the bottom.
            'B' => self.row = (self.row + 1).min(self.lines.len() - 1),
            'J' => {
                self.lines.truncate(self.row + 1);
                self.lines[self.row].truncate(self.column);
            }
            'K' => self.lines[self.row].truncate(self.column),
            other => panic!("the client does not write CSI {parameters}{other}"),
        }
    }

    fn newline(&mut self) {
        self.row += 1;
        self.column = 0;
        if self.row == self.lines.len() {
            self.lines.push(Vec::new());
        }
    }

    fn put(&mut self, c: char) {
        let width = c.width().unwrap_or(0);
        if self.column + width > self.columns {
            self.newline();
        }
        let line = &mut self.lines[self.row];
        let after = line.split_off((self.column + width).min(line.len()));
        line.resize(self.column, ' ');
        line.push(c);
        // The second half of a wide character.
        line.extend(std::iter::repeat_n('\0', width.saturating_sub(1)));
        line.extend(after);
        self.column += width;
    }

    /// Returns all rows that were shown, without the empty row of the cursor.
    pub(crate) fn lines(mut self) -> Vec<String> {
        if self.lines.last().is_some_and(Vec::is_empty) {
            self.lines.pop();
        }
        self.lines.iter().map(|line| line.iter().filter(|c| **c != '\0').collect()).collect()
    }
}

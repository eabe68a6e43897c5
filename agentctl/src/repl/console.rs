//! The place where questions are asked, and the way of keys to them.
//!
//! A key is an answer only where the person has seen the question: it comes some time after the question was shown and after
//! the last key that was typed for something else, and while no line is being written. All others are typed ahead, which
//! the row below the question shows.

use std::{
    io::{self, Write as _},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{own_editor, pager};
pub(crate) use crate::keyboard::Key;
use crate::{
    failure::Failure,
    keyboard::{Keyboard, Press, TypeAhead},
    render::status::SharedStatus,
    terminal::{
        look::TerminalStyle,
        paint::{QUIET, paint, width},
    },
};

/// Interval at which it is checked that the question still stands.
const GLANCE: Duration = Duration::from_millis(20);

/// Said where keys are typed ahead while a question waits.
const HELD: &str = "  (no answer: Enter sends it, Ctrl-U drops it)";
/// The columns that words have beside it; where there are fewer it is left out.
const LEAST_ROOM: usize = 12;

/// Where questions are asked.
pub(crate) trait Console {
    /// The next key that is meant for the question; none once the question was dropped.
    fn key(&mut self) -> io::Result<Option<Key>>;

    /// Takes keys back that were not meant for the question: they are typed ahead.
    fn keep(&mut self, keys: &[Key]) -> io::Result<()>;

    /// Writes to the terminal. Newlines start at the left edge whatever mode the terminal is in.
    fn write(&mut self, text: &str) -> io::Result<()>;

    /// The columns and rows of the window now.
    fn size(&self) -> (usize, usize);

    /// Has the person change a text in their editor, in a file with this suffix; none where there is no editor or the question was dropped.
    fn edit(&mut self, text: &str, suffix: &str) -> io::Result<Option<String>>;

    /// Reads a line that begins with this text, where a terminal reads lines and no keys; none elsewhere. The line is none
    /// where the person leaves it, or the question was dropped.
    fn read_line(&mut self, _prompt: &str, _initial: &str) -> Option<io::Result<Option<String>>> {
        None
    }

    /// Returns whether the terminal shows whatever is typed, so that no secret can be asked for.
    fn shows_typed(&self) -> bool {
        false
    }

    /// Shows a long text page by page, in the person's own program; false where there is none.
    fn page(&mut self, _text: &str) -> io::Result<bool> {
        Ok(false)
    }
}

/// Terminal with the keyboard held.
///
/// The last row of a question lists its keys, and is shown only while they are accepted. A chat has its status line below.
#[derive(Debug)]
pub(crate) struct TerminalConsole {
    dropped: Arc<AtomicBool>,
    keyboard: Keyboard,
    look: TerminalStyle,
    status: Option<SharedStatus>,
    /// Since when the question is on the screen; none before it waits for its first key.
    shown: Option<Instant>,
    /// The question has had a key: then the person is at it, and goes on with it.
    is_begun: bool,
    /// The last row of the question.
    row: String,
    /// The text that stands in its place.
    printed: String,
    /// Status line that is on the screen below it.
    footer: String,
}

impl TerminalConsole {
    /// Asks on this terminal until `dropped` is set, with a status line if there is one.
    pub(crate) fn new(
        dropped: Arc<AtomicBool>,
        keyboard: Keyboard,
        look: TerminalStyle,
        status: Option<SharedStatus>,
    ) -> Self {
        let (row, printed, footer) = (String::new(), String::new(), String::new());
        Self { dropped, keyboard, look, status, shown: None, is_begun: false, row, printed, footer }
    }

    fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Gives a key to the question or to what is typed ahead.
    fn admit(&self, press: Press, shown: Instant) -> Option<Key> {
        let is_begun = self.is_begun;
        let is_words = matches!(press.key, Key::Paste(_)) && !is_begun;
        self.keyboard.typed(|typed| {
            if !is_words && is_open(typed, is_begun, press.at, shown) {
                return Some(press.key);
            }
            typed.press(press);
            None
        })
    }

    /// Shows the last row of the question while it accepts keys, else the text typed ahead, and the status line below.
    fn refresh(&mut self, shown: Instant) -> io::Result<()> {
        let columns = self.columns();
        let (is_begun, row) = (self.is_begun, self.row.clone());
        let wanted = self.keyboard.typed(|typed| match typed {
            typed if typed.is_writing() => typed_row(typed, columns),
            typed if is_open(typed, is_begun, Instant::now(), shown) => row,
            _ => String::new(),
        });
        if wanted != self.printed {
            self.erase()?;
            print(&wanted)?;
            self.printed = wanted;
        }
        let footer = self.status_line();
        if footer != self.footer {
            // The vertical tab scrolls if there is no row below, and keeps the column.
            print(&format!("\x0b\x1b[A\x1b7\x1b[B\r\x1b[K{footer}\x1b8"))?;
            self.footer = footer;
        }
        Ok(())
    }

    /// Returns the status line, with the number of queued messages; empty without a status.
    fn status_line(&self) -> String {
        let Some(status) = &self.status else { return String::new() };
        let messages = self.keyboard.typed(|typed| typed.waiting());
        let status = status.lock().unwrap_or_else(PoisonError::into_inner);
        paint(self.look.err_color, QUIET, &status.line_above(messages, self.columns().saturating_sub(1)))
    }

    /// Erases the last row, including the rows into which the terminal wrapped it, and the status line.
    fn erase(&mut self) -> io::Result<()> {
        let plain = anstream::adapter::strip_str(&self.printed).to_string();
        let up = width(&plain).saturating_sub(1) / self.columns();
        let up = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
        self.printed.clear();
        self.footer.clear();
        print(&format!("{up}\r\x1b[J"))
    }

    fn columns(&self) -> usize {
        (self.look.size)().0.max(1)
    }
}

/// Writes to the terminal at once.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

/// Returns the failure of a terminal that cannot be written.
pub(super) fn unwritten(error: io::Error) -> Failure {
    Failure::usage(format!("cannot write to the terminal: {error}"))
}

/// Returns true if keys pressed at this time are meant for a question.
fn is_open(typed: &TypeAhead, is_begun: bool, at: Instant, shown: Instant) -> bool {
    typed.leaves(at, shown) || is_begun && !typed.is_writing()
}

/// The words typed ahead, in one row.
fn typed_row(typed: &TypeAhead, columns: usize) -> String {
    let rest = if columns >= HELD.len() + LEAST_ROOM { HELD } else { "" };
    let view = typed.composer.view((columns - rest.len(), 1), "", "", false);
    format!("{}{rest}", view.with_cursor_mark().concat())
}

impl Console for TerminalConsole {
    fn key(&mut self) -> io::Result<Option<Key>> {
        let shown = *self.shown.get_or_insert_with(Instant::now);
        while !self.is_dropped() {
            self.refresh(shown)?;
            let Some(press) = self.keyboard.wait(GLANCE) else { continue };
            match press.key {
                Key::Resize => self.erase()?,
                Key::Resume => {
                    // The cursor has moved, so the rows are drawn again at its new position.
                    self.printed.clear();
                    self.footer.clear();
                }
                _ => {
                    if let Some(key) = self.admit(press, shown) {
                        self.is_begun = true;
                        self.refresh(shown)?;
                        return Ok(Some(key));
                    }
                }
            }
        }
        Ok(None)
    }

    fn keep(&mut self, keys: &[Key]) -> io::Result<()> {
        let at = Instant::now();
        self.keyboard.typed(|typed| keys.iter().for_each(|key| typed.press(Press { key: key.clone(), at })));
        // The next key begins anew, after the same stillness.
        self.is_begun = false;
        Ok(())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let (above, row) = match text.rfind(['\n', '\r']) {
            Some(at) => text.split_at(at + 1),
            None => ("", text),
        };
        if above.is_empty() {
            self.row.push_str(row);
            return Ok(());
        }
        let row = row.trim_start_matches("\x1b[K").to_owned();
        if above == "\r" {
            if row.starts_with("\x1b[J") {
                // The question is over: its last row goes now, before anything else is written.
                self.row.clear();
                return self.erase();
            }
            // The same row with another text is shown by the next refresh.
            self.row = row;
            return Ok(());
        }
        if above.starts_with('\r') || self.printed != self.row {
            self.erase()?;
        }
        // The status line goes before the cursor leaves the row above it.
        let erase_footer = if std::mem::take(&mut self.footer).is_empty() { "" } else { "\x1b[J" };
        print(&format!("{erase_footer}{above}"))?;
        if above.contains('\n') {
            self.printed.clear();
        }
        self.row = row;
        Ok(())
    }

    fn size(&self) -> (usize, usize) {
        let (columns, rows) = (self.look.size)();
        (columns, rows.saturating_sub(usize::from(self.status.is_some())))
    }

    fn edit(&mut self, text: &str, suffix: &str) -> io::Result<Option<String>> {
        let Some(editor) = own_editor::name() else { return Ok(None) };
        self.keyboard.lend(|| own_editor::edit(&editor, text, suffix, || self.is_dropped()))
    }

    fn page(&mut self, text: &str) -> io::Result<bool> {
        self.keyboard.lend(|| pager::show(text, || self.is_dropped()))
    }
}

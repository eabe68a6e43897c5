//! Console of a question, which decides which keys are answers.
//!
//! A key is an answer only if the user has seen the question: the key must come some time after the question was shown
//! and after the last key that was typed for something else, and while no line is being written. All other keys are
//! typed ahead, as the row below the question shows.

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

/// Interval at which the console checks whether the question was dropped.
const GLANCE: Duration = Duration::from_millis(20);

/// Hint beside text that is typed ahead while a question waits.
const HELD: &str = "  (no answer: Enter sends it, Ctrl-U drops it)";
/// Minimum number of columns for the text beside the hint. With fewer columns, the hint is omitted.
const LEAST_ROOM: usize = 12;

/// Terminal on which questions are asked.
pub(crate) trait Console {
    /// Returns the next key that is meant for the question, or `None` once the question was dropped.
    fn key(&mut self) -> io::Result<Option<Key>>;

    /// Waits for a choice again, after which nothing typed is lost if the question is dropped.
    fn rest(&mut self) {}

    /// Queues keys that were not meant for the question as typed ahead.
    fn keep(&mut self, keys: &[Key]) -> io::Result<()>;

    /// Writes to the terminal. After a newline, text starts at the left edge in any mode of the terminal.
    fn write(&mut self, text: &str) -> io::Result<()>;

    /// Returns the current columns and rows of the window.
    fn size(&self) -> (usize, usize);

    /// Opens a text in the user's editor, in a file with this suffix, and returns the edited text. Returns `None` if
    /// there is no editor, or the question was dropped.
    fn edit(&mut self, text: &str, suffix: &str) -> io::Result<Option<String>>;

    /// Reads a line on a terminal that reads lines instead of keys, and returns `None` on other terminals. The inner
    /// value is `None` if the user leaves the line, or the question was dropped. An empty line keeps `initial`.
    fn read_line(&mut self, _prompt: &str, _initial: &str) -> Option<io::Result<Option<String>>> {
        None
    }

    /// Returns true if the terminal echoes all input, so that it cannot ask for secrets.
    fn shows_typed(&self) -> bool {
        false
    }

    /// Shows a long text in the user's pager. Returns false if there is none.
    fn page(&mut self, _text: &str) -> io::Result<bool> {
        Ok(false)
    }
}

/// Console on a terminal whose keyboard is held.
///
/// The last row of a question lists its keys, and is shown only while they are accepted. In a chat, the status line is
/// below it.
#[derive(Debug)]
pub(crate) struct TerminalConsole {
    dropped: Arc<AtomicBool>,
    keyboard: Keyboard,
    look: TerminalStyle,
    status: Option<SharedStatus>,
    /// Time at which the question was shown; `None` before it waits for its first key.
    shown: Option<Instant>,
    /// Last row of the question.
    row: String,
    /// Text on the screen in place of the last row.
    printed: String,
    /// Status line on the screen below the last row.
    footer: String,
}

impl TerminalConsole {
    /// Creates a console that asks until `dropped` is set.
    pub(crate) fn new(
        dropped: Arc<AtomicBool>,
        keyboard: Keyboard,
        look: TerminalStyle,
        status: Option<SharedStatus>,
    ) -> Self {
        let (row, printed, footer) = (String::new(), String::new(), String::new());
        Self { dropped, keyboard, look, status, shown: None, row, printed, footer }
    }

    fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns a key that is meant for the question, and queues any other key as typed ahead.
    fn admit(&self, press: Press, shown: Instant) -> Option<Key> {
        self.keyboard.typed(|typed| {
            let is_words = matches!(press.key, Key::Paste(_)) && !typed.is_answering;
            if !is_words && is_open(typed, press.at, shown) {
                typed.is_answering = true;
                return Some(press.key);
            }
            typed.press(press);
            None
        })
    }

    /// Shows the last row of the question while it accepts keys, else the text typed ahead, and the status line below.
    fn refresh(&mut self, shown: Instant) -> io::Result<()> {
        let columns = self.columns();
        let row = self.row.clone();
        let wanted = self.keyboard.typed(|typed| match typed {
            typed if typed.is_writing() => typed_row(typed, columns),
            typed if is_open(typed, Instant::now(), shown) => row,
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

/// Returns true if keys pressed at this time are meant for a question. Only the first one needs a pause before it.
fn is_open(typed: &TypeAhead, at: Instant, shown: Instant) -> bool {
    typed.leaves(at, shown) || typed.is_answering && !typed.is_writing()
}

/// Returns the text that is typed ahead, in one row.
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
                        self.refresh(shown)?;
                        return Ok(Some(key));
                    }
                }
            }
        }
        Ok(None)
    }

    fn rest(&mut self) {
        self.keyboard.typed(|typed| typed.is_answering = false);
    }

    fn keep(&mut self, keys: &[Key]) -> io::Result<()> {
        let at = Instant::now();
        self.keyboard.typed(|typed| keys.iter().for_each(|key| typed.press(Press { key: key.clone(), at })));
        // The next key must come after a typing pause again.
        self.rest();
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
                // The question is over, so its last row is erased before other output.
                self.row.clear();
                return self.erase();
            }
            // The next refresh shows the row with its new text.
            self.row = row;
            return Ok(());
        }
        if above.starts_with('\r') || self.printed != self.row {
            self.erase()?;
        }
        // The status line is erased before the cursor leaves the row above it.
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

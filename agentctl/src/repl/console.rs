//! Keys from the terminal while a question is on the screen.

use std::{
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossterm::{
    event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    terminal,
};
use nix::sys::signal::{Signal, raise};

/// How often it is looked whether the question was dropped.
const GLANCE: Duration = Duration::from_millis(20);

/// A key, as far as questions care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Backspace,
    /// Ctrl-U: the whole line.
    Erase,
    Escape,
}

/// Where questions are asked.
pub(crate) trait Console {
    /// The next key; none once the question was dropped.
    fn key(&mut self) -> io::Result<Option<Key>>;

    /// Writes to the terminal. Newlines start at the left edge whatever mode the terminal is in.
    fn write(&mut self, text: &str) -> io::Result<()>;

    /// The columns and rows of the window now.
    fn size(&self) -> (usize, usize);

    /// Has the person change a text in their editor; none where there is no editor or the question was dropped.
    fn edit(&mut self, text: &str) -> io::Result<Option<String>>;
}

/// The terminal in raw mode. Dropping it puts the terminal back.
#[derive(Debug)]
pub(crate) struct RawConsole {
    dropped: Arc<AtomicBool>,
    size: fn() -> (usize, usize),
}

impl RawConsole {
    /// Takes the terminal over. What was typed before is thrown away: it was no answer to a question that
    /// nobody had seen.
    pub(crate) fn open(dropped: Arc<AtomicBool>, size: fn() -> (usize, usize)) -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let console = Self { dropped, size };
        while event::poll(Duration::ZERO)? {
            event::read()?;
        }
        Ok(console)
    }

    fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Runs the editor on a file, and ends it when the question is dropped.
    fn run_editor(&self, editor: &std::ffi::OsStr, file: &std::path::Path) -> io::Result<bool> {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", r#"eval "$AGENTCTL_EDITOR \"\$1\"""#, "sh"])
            .arg(file)
            .env("AGENTCTL_EDITOR", editor)
            // Standard output may be a pipe; questions are on standard error.
            .stdout(io::stderr())
            .spawn()?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status.success());
            }
            if self.is_dropped() {
                child.kill()?;
                child.wait()?;
                return Ok(false);
            }
            std::thread::sleep(GLANCE);
        }
    }
}

impl Drop for RawConsole {
    fn drop(&mut self) {
        // A terminal that is gone needs no mode.
        let _ = terminal::disable_raw_mode();
    }
}

impl Console for RawConsole {
    fn key(&mut self) -> io::Result<Option<Key>> {
        while !self.is_dropped() {
            if !event::poll(GLANCE)? {
                continue;
            }
            let Event::Key(key) = event::read()? else { continue };
            if is_ctrl_c(&key) {
                // Raw mode keeps the terminal from sending it. Whoever drives the turn cancels it and drops us.
                raise(Signal::SIGINT)?;
            } else if let Some(key) = plain(&key) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let mut err = io::stderr().lock();
        err.write_all(text.replace('\n', "\r\n").as_bytes())?;
        err.flush()
    }

    fn size(&self) -> (usize, usize) {
        (self.size)()
    }

    fn edit(&mut self, text: &str) -> io::Result<Option<String>> {
        let set = |name: &str| std::env::var_os(name).filter(|editor| !editor.is_empty());
        let Some(editor) = set("VISUAL").or_else(|| set("EDITOR")) else { return Ok(None) };
        let mut file = tempfile::Builder::new().prefix("agentctl-").suffix(".json").tempfile()?;
        file.write_all(text.as_bytes())?;
        terminal::disable_raw_mode()?;
        let edited = self.run_editor(&editor, file.path());
        terminal::enable_raw_mode()?;
        if edited? { std::fs::read_to_string(file.path()).map(Some) } else { Ok(None) }
    }
}

fn is_ctrl_c(key: &KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'C'))
}

fn plain(key: &KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    match key.code {
        KeyCode::Char('u') if control => Some(Key::Erase),
        KeyCode::Char('d') if control => Some(Key::Escape),
        KeyCode::Char('h') if control => Some(Key::Backspace),
        KeyCode::Char(c) if !control && !c.is_control() => Some(Key::Char(c)),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Backspace => Some(Key::Backspace),
        KeyCode::Esc => Some(Key::Escape),
        _ => None,
    }
}

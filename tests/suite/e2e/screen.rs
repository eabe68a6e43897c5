//! A simulated user who reads the screen: the cells of a terminal after all escape sequences.

use std::{fs::File, io::Read as _, sync::mpsc, thread, time::Instant};

use agentd_testkit::daemon::PATIENCE;
use rexpect::process::{PtyProcess, WaitStatus};

use super::{terminal::command_at_terminal, *};

/// Columns and rows of a screen.
pub(super) type Size = (u16, u16);

/// A client at a terminal, and the screen of the terminal.
pub(super) struct Screen {
    // Dropped first, while its output is still read.
    process: PtyProcess,
    terminal: File,
    output: mpsc::Receiver<Vec<u8>>,
    parser: vt100::Parser,
}

impl Screen {
    /// Opens a chat on a screen, and waits for its first prompt.
    #[track_caller]
    pub(super) fn ready(home: &TempHome, size: Size, args: &[&str]) -> Self {
        let args: Vec<&str> = ["chat"].iter().chain(args).copied().collect();
        let mut screen = Self::around(home, size, "exec \"$@\"", &args);
        screen.prompt();
        screen
    }

    /// Runs `agentctl` as `"$@"` within a shell line.
    pub(super) fn around(home: &TempHome, (columns, rows): Size, line: &str, args: &[&str]) -> Self {
        let line = format!("stty rows {rows} cols {columns} && {line}");
        let mut process = PtyProcess::new(command_at_terminal(home, &line, args)).unwrap();
        process.set_kill_timeout(Some(5_000));
        let terminal = process.get_file_handle().unwrap();
        let (mut reader, (sender, output)) = (terminal.try_clone().unwrap(), mpsc::channel());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Fails once all programs in the terminal have ended.
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                let _ = sender.send(bytes[..read].to_vec());
            }
        });
        Self { process, terminal, output, parser: vt100::Parser::new(rows, columns, 0) }
    }

    /// Waits until the screen satisfies a condition.
    #[track_caller]
    pub(super) fn wait(&mut self, condition: &str, is_met: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_met(self) {
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(error) => panic!("{error} until {condition}. The screen:\n{}", self.rows().join("\n")),
            }
        }
    }

    /// Waits for a row that contains this text.
    #[track_caller]
    pub(super) fn sees(&mut self, text: &str) {
        self.wait(&format!("{text:?} is in a row"), |screen| screen.count(text) > 0);
    }

    /// Waits until the last row starts with one text and ends with the other.
    #[track_caller]
    pub(super) fn sees_input(&mut self, start: &str, end: &str) {
        self.wait(&format!("the last row is {start:?} … {end:?}"), |screen| {
            screen.rows().last().is_some_and(|row| row.starts_with(start) && row.ends_with(end))
        });
    }

    /// Waits for an empty prompt. Something else must have been awaited since the previous one.
    #[track_caller]
    pub(super) fn prompt(&mut self) {
        self.wait("the prompt is empty", |screen| {
            let (row, column) = screen.parser.screen().cursor_position();
            let is_last = screen.rows().len() == usize::from(row) + 1;
            is_last && column == 2 && screen.rows().last().is_some_and(|row| row == "›")
        });
    }

    /// Sends keys to the terminal.
    #[track_caller]
    pub(super) fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the number of columns.
    #[track_caller]
    pub(super) fn resize(&mut self, columns: u16) {
        let (rows, _) = self.parser.screen().size();
        self.resize_to((columns, rows));
    }

    /// Changes the number of columns and rows. The rows below the window are lost.
    #[track_caller]
    pub(super) fn resize_to(&mut self, (columns, rows): (u16, u16)) {
        self.parser.screen_mut().set_size(rows, columns);
        let terminal = self.terminal.try_clone().unwrap();
        let size = ["cols", &columns.to_string(), "rows", &rows.to_string()];
        let set = Command::new("stty").args(size).stdin(terminal).status().unwrap();
        assert!(set.success());
    }

    #[track_caller]
    pub(super) fn signal(&mut self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    /// Waits until all programs in the terminal have ended, and returns the exit code of the first one.
    #[track_caller]
    pub(super) fn ends(self) -> Option<i32> {
        let end = loop {
            if let Err(error) = self.output.recv_timeout(PATIENCE) {
                break error;
            }
        };
        assert_eq!(end, mpsc::RecvTimeoutError::Disconnected, "the client does not end");
        match self.process.wait() {
            Ok(WaitStatus::Exited(_, code)) => Some(code),
            _ => None,
        }
    }

    /// Returns the rows up to the last one with text, without spaces at their ends.
    pub(super) fn rows(&self) -> Vec<String> {
        let (screen, (_, columns)) = (self.parser.screen(), self.parser.screen().size());
        let mut rows: Vec<String> = screen.rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
        while rows.pop_if(|row| row.is_empty()).is_some() {}
        rows
    }

    /// Counts the rows that contain this text.
    pub(super) fn count(&self, text: &str) -> usize {
        self.rows().iter().filter(|row| row.contains(text)).count()
    }

    /// Asserts that no text was written past the right edge. The spinner's library pads its last row with blanks.
    #[track_caller]
    pub(super) fn fits(&self) {
        let screen = self.parser.screen();
        let (rows, columns) = screen.size();
        let is_full = |row: &u16| screen.cell(*row, columns - 1).is_some_and(|cell| !cell.contents().trim().is_empty());
        let wrapped: Vec<u16> = (0..rows).filter(|row| screen.row_wrapped(*row)).filter(is_full).collect();
        assert!(wrapped.is_empty(), "the terminal wrapped rows {wrapped:?}:\n{}", self.rows().join("\n"));
    }
}

//! Recent log of a server: its standard error, its log messages, and events of its connection.

use std::{collections::VecDeque, sync::Mutex};

use agentd_core::mutex::lock;

use crate::reason::{SecretFilter, line};

/// Maximum number of stored lines, maximum bytes of all lines, and maximum bytes of one line.
const MAX_LINES: usize = 1000;
const MAX_BYTES: usize = 256 * 1024;
const MAX_LINE_LENGTH: usize = 4096;

/// Ring buffer of lines, without secrets.
#[derive(Default)]
pub struct Log {
    ring: Mutex<Ring>,
    clean: SecretFilter,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<String>,
    bytes: usize,
    /// Beginning of an unfinished line.
    open: Vec<u8>,
    /// True while the rest of an overlong line is skipped.
    skipping: bool,
}

impl Log {
    /// Creates an empty log.
    pub(crate) fn new(clean: SecretFilter) -> Self {
        Self { ring: Mutex::default(), clean }
    }

    /// Adds a line from agentd itself.
    pub fn note(&self, line: &str) {
        lock(&self.ring).push(format!("agentd: {}", self.shown(line)));
    }

    /// Adds a line from the server.
    pub fn add(&self, line: &str) {
        lock(&self.ring).push(self.shown(line));
    }

    /// Adds raw output from the server's standard error.
    pub fn append(&self, bytes: &[u8]) {
        let mut ring = lock(&self.ring);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.last() == Some(&b'\n');
            let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
            if !ring.skipping {
                let capacity = MAX_LINE_LENGTH - ring.open.len().min(MAX_LINE_LENGTH);
                let length = piece.len().min(capacity);
                ring.open.extend_from_slice(&piece[..length]);
                ring.skipping = length < piece.len();
            }
            if ends {
                self.close(&mut ring);
            }
        }
    }

    /// Finishes an unfinished line at the end of the output.
    pub fn end(&self) {
        let mut ring = lock(&self.ring);
        if !ring.open.is_empty() {
            self.close(&mut ring);
        }
    }

    /// Returns the last lines, oldest first.
    pub fn last(&self, limit: usize) -> Vec<String> {
        let ring = lock(&self.ring);
        let skipped = ring.lines.len().saturating_sub(limit);
        ring.lines.iter().skip(skipped).cloned().collect()
    }

    /// Returns the last line from the server itself, shortened and cleaned for an error.
    pub fn last_line(&self) -> Option<String> {
        let ring = lock(&self.ring);
        let last = ring.lines.iter().rev().find(|line| !line.starts_with("agentd: ") && !line.trim().is_empty())?;
        Some(line(last, &self.clean))
    }

    /// Finishes the current line.
    fn close(&self, ring: &mut Ring) {
        let mut line = self.shown(&String::from_utf8_lossy(&ring.open));
        if ring.skipping {
            line.push_str(" […]");
        }
        ring.open.clear();
        ring.skipping = false;
        ring.push(line);
    }

    /// Removes terminal sequences and secrets from a line.
    fn shown(&self, line: &str) -> String {
        self.clean.redact(&strip_terminal_sequences(line))
    }
}

impl Ring {
    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.len());
        }
    }
}

/// Removes terminal sequences as a whole, so that no part of one remains as text.
fn strip_terminal_sequences(line: &str) -> String {
    let mut stripped = String::with_capacity(line.len().min(MAX_LINE_LENGTH));
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            skip_sequence(&mut letters);
        } else if stripped.len() < MAX_LINE_LENGTH {
            stripped.push(letter);
        }
    }
    agentd_core::untrusted::plain(&stripped).replace('\n', " ")
}

fn skip_sequence(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.next() {
        Some('[') => while letters.next().is_some_and(|letter| !('\u{40}'..='\u{7e}').contains(&letter)) {},
        Some(']') => while letters.next().is_some_and(|letter| letter != '\u{7}' && letter != '\u{1b}') {},
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_joined_and_sanitised() {
        let log = Log::default();
        log.append(b"one\ntw");
        log.append(b"o\x1b[31mred\x1b[0m\x1b]0;title\x07 \xff\n");
        log.append(b"three");
        assert_eq!(log.last(9), ["one", "twored \u{fffd}"]);
        log.end();
        log.note("it ended\nat last");
        assert_eq!(log.last(2), ["three", "agentd: it ended at last"]);
        assert_eq!(log.last_line().as_deref(), Some("three"));
    }

    #[test]
    fn log_flood_drops_the_oldest_lines() {
        let log = Log::default();
        for _ in 0..40 {
            log.append(&[b'x'; 1 << 20]);
        }
        log.append(b"\nlast\n");
        let lines = log.last(9);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() < MAX_LINE_LENGTH + 10 && lines[0].ends_with("[…]"));
        for number in 0..5000 {
            log.add(&format!("{number} {}", "y".repeat(1000)));
        }
        let lines = log.last(usize::MAX);
        assert!(lines.iter().map(String::len).sum::<usize>() <= MAX_BYTES && lines.len() <= MAX_LINES);
        assert!(lines.last().unwrap().starts_with("4999 "));
    }
}

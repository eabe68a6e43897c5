//! The last lines of a stream, told while the command runs: what a person looks at while they wait. The model gets the whole
//! stream later, and none of this.

use std::{collections::VecDeque, future::pending, time::Duration};

use agentd_core::ports::CallProgress;
use tokio::time::{Instant, sleep_until};

/// Lines that are told at once: what came before them in the same moment nobody could have read.
const LINES: usize = 3;
/// Bytes of a line that are told.
const LONGEST: usize = 300;
/// Pause between two tellings, so that a command that writes without end costs nobody anything.
const PAUSE: Duration = Duration::from_millis(200);

/// The last lines that were not told yet.
#[derive(Debug)]
pub(super) struct LiveTail {
    progress: CallProgress,
    /// The line that is being written.
    line: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
    /// When the next may be told.
    due: Instant,
}

impl LiveTail {
    pub(super) fn new(progress: CallProgress) -> Self {
        Self { progress, line: Vec::new(), lines: VecDeque::new(), due: Instant::now() }
    }

    /// Takes in what was read.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if !self.progress.is_heard() {
            return;
        }
        // A carriage return begins a line anew, as progress bars do.
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, is_whole) = match piece.split_last() {
                Some((b'\n' | b'\r', text)) => (text, true),
                _ => (piece, false),
            };
            let room = LONGEST.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if is_whole {
                let line = std::mem::take(&mut self.line);
                if !line.trim_ascii().is_empty() {
                    self.lines.push_back(line);
                }
                if self.lines.len() > LINES {
                    self.lines.pop_front();
                }
            }
        }
        if Instant::now() >= self.due {
            self.tell();
        }
    }

    /// Waits until what was taken in may be told, and tells it; for ever where there is nothing. May be dropped.
    pub(super) async fn told(&mut self) {
        if self.lines.is_empty() {
            return pending().await;
        }
        sleep_until(self.due).await;
        self.tell();
    }

    fn tell(&mut self) {
        for line in self.lines.drain(..) {
            self.progress.tell(&String::from_utf8_lossy(&line));
            self.due = Instant::now() + PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn heard() -> (LiveTail, Arc<Mutex<String>>) {
        let heard = Arc::new(Mutex::new(String::new()));
        let tell = Arc::clone(&heard);
        let tail = LiveTail::new(CallProgress::new(move |line| tell.lock().unwrap().push_str(&line)));
        (tail, heard)
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_lines_are_told_at_once_and_then_now_and_then() {
        let (mut tail, heard) = heard();
        let said = || std::mem::take(&mut *heard.lock().unwrap());
        tail.push(b"one\ntw");
        assert_eq!(said(), "one\n");
        tail.push(b"o\n\nthree\nfour\nfive\n 10%\r 20%\r");
        assert_eq!(said(), "", "too soon");
        let begun = Instant::now();
        tail.told().await;
        assert_eq!((said().as_str(), begun.elapsed() <= PAUSE), ("five\n 10%\n 20%\n", true));
        tail.push("x".repeat(2 * LONGEST).as_bytes());
        tail.push(b"\n");
        tail.told().await;
        assert_eq!(said().len(), LONGEST + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_writes_without_end_is_told_of_five_times_a_second() {
        let (mut tail, heard) = heard();
        for _ in 0..1000 {
            tail.push(&b"line\n".repeat(1000));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(heard.lock().unwrap().lines().count() <= LINES * 6);
    }
}

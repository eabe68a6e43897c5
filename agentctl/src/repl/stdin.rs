//! Inputs from a pipe or a file, one per line.

use std::io::{BufRead, Read as _};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::conversation::{Input, Lines};
use crate::{
    failure::Failure,
    input::{MAX_PROMPT_BYTES, SilenceNotice},
};

/// Lines of standard input.
///
/// A separate thread reads them, because a blocked read cannot be cancelled, and must not keep the process from ending.
#[derive(Debug)]
pub(crate) struct StdinLines {
    lines: mpsc::Receiver<Result<String, Failure>>,
}

impl StdinLines {
    /// Starts reading, one line ahead. `first` precedes all lines.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub(crate) fn open(first: Option<String>) -> std::io::Result<Self> {
        let (sender, lines) = mpsc::channel(1);
        std::thread::Builder::new().name("agentctl-stdin".to_owned()).spawn(move || {
            if first.is_some_and(|first| sender.blocking_send(Ok(first)).is_err()) {
                return;
            }
            let mut source = std::io::stdin().lock();
            let mut number = 0;
            let mut notice = SilenceNotice::watch("lines");
            while let Some(line) = read_line(&mut source, MAX_PROMPT_BYTES, &mut number).transpose() {
                let failed = line.is_err();
                drop(notice.take());
                if sender.blocking_send(line).is_err() || failed {
                    break;
                }
            }
        })?;
        Ok(Self { lines })
    }
}

impl Lines for StdinLines {
    fn next(&mut self) -> BoxFuture<'_, Result<Input, Failure>> {
        Box::pin(async { self.lines.recv().await.transpose().map(|line| line.map_or(Input::End, Input::Text)) })
    }
}

/// Returns the next line of at most `limit` bytes, without its line break, or `None` after the last line.
fn read_line(source: &mut impl BufRead, limit: usize, number: &mut usize) -> Result<Option<String>, Failure> {
    *number += 1;
    let mut bytes = Vec::new();
    let read = source.take(limit as u64 + 2).read_until(b'\n', &mut bytes);
    read.map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    if bytes.len() > limit {
        return Err(Failure::usage(format!(
            "line {number} of standard input is longer than {} MiB",
            limit / 1024 / 1024
        ))
        .hint("write it to a file and use `agentctl run --file`, so that the model can read it in parts"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| {
        Failure::usage(format!("line {number} of standard input is not UTF-8 text"))
            .hint("convert it first, for example with `iconv -t UTF-8`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut source: &[u8], limit: usize) -> Result<Vec<String>, Failure> {
        let mut number = 0;
        std::iter::from_fn(|| read_line(&mut source, limit, &mut number).transpose()).collect()
    }

    #[test]
    fn stdin_lines_have_no_line_endings() {
        assert_eq!(read(b"one\r\n\ntwo", 10).unwrap(), ["one", "", "two"]);
        assert_eq!(read(b"", 10).unwrap(), [""; 0]);
        assert_eq!(read(b"1234\n", 4).unwrap(), ["1234"]);
    }

    #[test]
    fn invalid_stdin_lines_are_rejected_by_number() {
        assert!(read(b"good\n\xff\n", 10).unwrap_err().message.contains("line 2"));
        assert!(read(b"12345\n", 4).unwrap_err().message.contains("longer"));
    }
}

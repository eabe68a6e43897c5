//! Messages to a program and from it, a line each. What it writes is hostile: lines are bounded, what is no message is
//! passed over, and who writes nothing else is let go.

use std::{io, sync::Arc};

use futures_util::future::BoxFuture;
use rmcp::{
    RoleClient,
    model::{ErrorData, NumberOrString, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
    sync::Mutex,
};

use crate::log::Log;

/// The longest message that is taken, in bytes.
const LONGEST: usize = 16 << 20;
/// Bytes that are stored of a message that is too long, to see what it answers: its head, and as much of its tail.
const KEPT: usize = 512;
/// Maximum size of output that is no message before the server is given up.
const MOST_NOISE: usize = 32 << 20;
/// Maximum number of lines that are no message and are noted.
const NOTED: usize = 20;

/// Both pipes of a server.
pub(super) struct Pipes {
    read: BufReader<ChildStdout>,
    /// None when it is closed, which asks the server to end.
    write: Arc<Mutex<Option<ChildStdin>>>,
    line: Line,
    /// Size of the output since the last message.
    noise: usize,
    noted: usize,
    log: Arc<Log>,
}

impl Pipes {
    pub(super) fn new(stdout: ChildStdout, stdin: ChildStdin, log: Arc<Log>) -> Self {
        let write = Arc::new(Mutex::new(Some(stdin)));
        let read = BufReader::with_capacity(64 * 1024, stdout);
        Self { read, write, line: Line::default(), noise: 0, noted: 0, log }
    }

    /// Takes in what is there. It can be dropped between two reads, and nothing is lost. None at the end.
    async fn next_line(&mut self) -> Option<ReadOutcome> {
        loop {
            let available = match self.read.fill_buf().await {
                Ok([]) | Err(_) => return None,
                Ok(available) => available,
            };
            let (used, taken) = self.line.take(available);
            self.read.consume(used);
            if taken.is_some() {
                return taken;
            }
        }
    }

    fn read_message(&mut self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let text = line.trim_ascii();
        if text.is_empty() {
            return None;
        }
        match serde_json::from_slice(text) {
            Ok(message) => {
                self.noise = 0;
                Some(message)
            }
            Err(error) => {
                self.noise += text.len();
                if self.noted < NOTED {
                    self.noted += 1;
                    let shown = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
                    self.log.said(&format!("stdout, which is no message: {shown} ({error})"));
                }
                None
            }
        }
    }
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = Arc::clone(&self.write);
        let sent: BoxFuture<'static, io::Result<()>> = Box::pin(async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            match write.lock().await.as_mut() {
                Some(stdin) => stdin.write_all(&line).await,
                None => Err(io::ErrorKind::NotConnected.into()),
            }
        });
        sent
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.next_line().await? {
                ReadOutcome::Line(line) => {
                    if let Some(message) = self.read_message(&line) {
                        return Some(message);
                    }
                }
                ReadOutcome::TooLong { head, tail, length } => {
                    self.log.note(&format!("a message of {length} bytes was not taken: the most is {LONGEST}"));
                    let message =
                        format!("the answer has {length} bytes, and at most {LONGEST} are taken; ask for less at once");
                    // Whoever waits for it is told. Where nobody knows whom it answers, the time of the call runs out.
                    if let Some(id) = answered(&head).or_else(|| answered(&tail)) {
                        return Some(ServerJsonRpcMessage::error(ErrorData::internal_error(message, None), Some(id)));
                    }
                    self.noise += length;
                }
            }
            if self.noise > MOST_NOISE {
                self.log.note("it writes what is no message to its standard output, and nothing else");
                return None;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // A message that the server does not read may be under way; it is not waited for.
        let write = Arc::clone(&self.write);
        if let Ok(mut write) = tokio::time::timeout(std::time::Duration::from_millis(200), write.lock()).await {
            drop(write.take());
        }
        Ok(())
    }
}

/// A line while it comes.
#[derive(Default)]
struct Line {
    begun: Vec<u8>,
    /// Size of a line that is too long, and its tail.
    dropped: usize,
    tail: Vec<u8>,
}

enum ReadOutcome {
    Line(Vec<u8>),
    TooLong { head: Vec<u8>, tail: Vec<u8>, length: usize },
}

impl Line {
    /// Takes what belongs to the line; says how much that was, and the line when it is whole.
    fn take(&mut self, available: &[u8]) -> (usize, Option<ReadOutcome>) {
        let end = available.iter().position(|byte| *byte == b'\n');
        let piece = &available[..end.unwrap_or(available.len())];
        if self.dropped == 0 && self.begun.len() + piece.len() <= LONGEST {
            self.begun.extend_from_slice(piece);
        } else {
            if self.dropped == 0 {
                self.dropped = self.begun.len();
                self.begun.truncate(KEPT);
                self.begun.shrink_to_fit();
            }
            self.dropped += piece.len();
            self.tail.extend_from_slice(&piece[piece.len().saturating_sub(KEPT)..]);
            let excess = self.tail.len().saturating_sub(KEPT);
            self.tail.drain(..excess);
        }
        let Some(end) = end else { return (available.len(), None) };
        let Self { begun, dropped, tail } = std::mem::take(self);
        let taken = if dropped > 0 {
            ReadOutcome::TooLong { head: begun, tail, length: dropped }
        } else {
            ReadOutcome::Line(begun)
        };
        (end + 1, Some(taken))
    }
}

/// Whom a message answers, read from a part of it: `"id":7` or `"id":"seven"`, at its head or its tail.
fn answered(part: &[u8]) -> Option<NumberOrString> {
    let text = String::from_utf8_lossy(part);
    let (_, rest) = text.rsplit_once("\"id\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    if let Some(text) = rest.strip_prefix('"') {
        return Some(NumberOrString::String(text.split('"').next()?.into()));
    }
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(NumberOrString::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_and_those_that_are_too_long_are_known_by_their_ends() {
        let mut line = Line::default();
        assert!(matches!(line.take(b"{\"a\""), (4, None)));
        let (used, Some(ReadOutcome::Line(whole))) = line.take(b":1}\nrest") else { panic!("no line") };
        assert_eq!((used, whole.as_slice()), (4, &b"{\"a\":1}"[..]));
        line.take(b"{\"result\":\"");
        for _ in 0..20 {
            line.take(&vec![b'x'; 1 << 20]);
        }
        let (_, Some(ReadOutcome::TooLong { head, tail, length })) = line.take(b"\",\"jsonrpc\":\"2.0\",\"id\":17}\n")
        else {
            panic!("it was taken")
        };
        assert!(head.len() <= KEPT && tail.len() <= KEPT && length > 20 << 20);
        assert_eq!(answered(&head).or_else(|| answered(&tail)), Some(NumberOrString::Number(17)));
        assert!(matches!(line.take(b"{}\n"), (3, Some(ReadOutcome::Line(_)))));
    }

    #[test]
    fn whom_a_message_answers_is_read_from_a_part_of_it() {
        let check = |part: &str, expected: Option<NumberOrString>| assert_eq!(answered(part.as_bytes()), expected);
        check(r#"{"jsonrpc":"2.0","id":5,"result":{"#, Some(NumberOrString::Number(5)));
        check(r#"{"jsonrpc":"2.0", "id" : "a-1", "result":{"#, Some(NumberOrString::String("a-1".into())));
        check(r#"xxx","id":nothing}"#, None);
        check("xxxx", None);
    }
}

//! Local servers: started under a [guard](crate::guard) in a clean environment, with one message per line. Their
//! output is untrusted: lines are limited, invalid messages are skipped, and a server that sends only invalid messages
//! is disconnected.

use std::{
    io,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use rmcp::{
    RoleClient,
    model::{ErrorData, NumberOrString, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::Mutex,
    task::JoinHandle,
};

use crate::log::Log;

/// Time for a server to exit after the end of its input, before its guard gets a signal. The guard itself acts earlier.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for reading a server's last output.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for the guard to clean up. It needs less, unless a disk is unresponsive.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(6);

/// Running server under its guard.
pub(super) struct Process {
    guard: Child,
    /// Process group of the guard and the server.
    group: Option<Pid>,
    /// Task that reads the standard error.
    draining: JoinHandle<()>,
    log: Arc<Log>,
}

impl Process {
    /// Starts the guard with the program. If the program is not found, the guard exits immediately, and the log has the
    /// reason.
    pub(super) fn start(mut guard: Command, log: &Arc<Log>) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        guard.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut guard = guard.spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let stdout = guard.stdout.take().ok_or_else(missing)?;
        let stdin = guard.stdin.take().ok_or_else(missing)?;
        let stderr = guard.stderr.take().ok_or_else(missing)?;
        let draining = tokio::spawn(drain(stderr, Arc::clone(log)));
        let group = guard.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 1).map(Pid::from_raw);
        Ok((Self { guard, group, draining, log: Arc::clone(log) }, stdout, stdin))
    }

    /// Returns the process ID of the guard, for display.
    pub(super) fn id(&self) -> Option<u32> {
        self.guard.id()
    }

    /// Waits, after the input was closed, until no process of the server is left. Returns the exit status.
    pub(super) async fn wait_for_exit(mut self) -> Option<ExitStatus> {
        let mut status = self.wait_within(EXIT_TIMEOUT).await;
        if status.is_none() {
            // The server's input may still be open, because a message that the server does not read cannot be
            // cancelled.
            if let Some(guard) = self.group {
                let _ = kill(guard, Signal::SIGTERM);
            }
            status = self.wait_within(CLEANUP_TIMEOUT).await;
        }
        if status.is_none() {
            self.log.note("it did not exit and was killed");
            self.kill();
            status = self.wait_within(CLEANUP_TIMEOUT).await;
        }
        // If the guard itself was killed, the group may have members left.
        self.kill();
        // There are no writers left, so the rest of the output is available immediately.
        let _ = tokio::time::timeout(LAST_OUTPUT_TIMEOUT, &mut self.draining).await;
        self.log.end();
        status.flatten()
    }

    async fn wait_within(&mut self, limit: Duration) -> Option<Option<ExitStatus>> {
        tokio::time::timeout(limit, self.guard.wait()).await.ok().map(Result::ok)
    }

    fn kill(&self) {
        if let Some(group) = self.group {
            // The group may be empty.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Reads the server's standard error until it is closed, so that the server never blocks on it, but at a limited rate.
async fn drain(mut stderr: ChildStderr, log: Arc<Log>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        log.append(&buffer[..read]);
        if read == buffer.len() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    log.end();
}

/// Describes the exit of a server.
pub(super) fn exit_reason(status: Option<ExitStatus>) -> String {
    match status.and_then(|status| status.code()) {
        Some(0) => "it exited".to_owned(),
        Some(127) => "its program was not found".to_owned(),
        Some(code @ 129..=192) => format!("it was killed by signal {}", code - 128),
        Some(code) => format!("it exited with exit code {code}"),
        None => "it was killed".to_owned(),
    }
}

/// Maximum size of a message, in bytes.
const MAX_MESSAGE: usize = 16 << 20;
/// Number of bytes stored from each end of an overlong message, to find the request that it answers.
const MAX_END_BYTES: usize = 512;
/// Maximum size of invalid output before the server is disconnected, in bytes.
const MAX_INVALID_BYTES: usize = 32 << 20;
/// Maximum number of invalid lines that are logged.
const MAX_LOGGED: usize = 20;

/// Transport over the pipes of a server.
pub(super) struct Pipes {
    read: BufReader<ChildStdout>,
    /// Input of the server; `None` once it is closed. Closing it asks the server to exit.
    write: Arc<Mutex<Option<ChildStdin>>>,
    line: Line,
    /// Size of the invalid output since the last message.
    invalid_bytes: usize,
    logged: usize,
    log: Arc<Log>,
}

impl Pipes {
    pub(super) fn new(stdout: ChildStdout, stdin: ChildStdin, log: Arc<Log>) -> Self {
        let write = Arc::new(Mutex::new(Some(stdin)));
        let read = BufReader::with_capacity(64 * 1024, stdout);
        Self { read, write, line: Line::default(), invalid_bytes: 0, logged: 0, log }
    }

    /// Reads the next line, or `None` at the end. Cancel safe.
    async fn next_line(&mut self) -> Option<ReadOutcome> {
        loop {
            let available = match self.read.fill_buf().await {
                Ok([]) | Err(_) => return None,
                Ok(available) => available,
            };
            let (used, line) = self.line.consume(available);
            self.read.consume(used);
            if line.is_some() {
                return line;
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
                self.invalid_bytes = 0;
                Some(message)
            }
            Err(error) => {
                self.invalid_bytes += text.len();
                if self.logged < MAX_LOGGED {
                    self.logged += 1;
                    let shown = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
                    self.log.add(&format!("stdout, not a message: {shown} ({error})"));
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
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            match write.lock().await.as_mut() {
                Some(stdin) => stdin.write_all(&line).await,
                None => Err(io::ErrorKind::NotConnected.into()),
            }
        }
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
                    self.log.note(&format!("a message of {length} bytes was dropped: the limit is {MAX_MESSAGE}"));
                    let message =
                        format!("the answer has {length} bytes, the limit is {MAX_MESSAGE}; request less at once");
                    // Fails the call that the message answers. If the call is unknown, it times out.
                    if let Some(id) = answered_id(&head).or_else(|| answered_id(&tail)) {
                        return Some(ServerJsonRpcMessage::error(ErrorData::internal_error(message, None), Some(id)));
                    }
                    self.invalid_bytes += length;
                }
            }
            if self.invalid_bytes > MAX_INVALID_BYTES {
                self.log.note("it writes only invalid messages to its standard output");
                return None;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // Does not wait for a pending message that the server does not read.
        let write = Arc::clone(&self.write);
        if let Ok(mut write) = tokio::time::timeout(std::time::Duration::from_millis(200), write.lock()).await {
            drop(write.take());
        }
        Ok(())
    }
}

/// Line that is being read.
#[derive(Default)]
struct Line {
    head: Vec<u8>,
    /// Size of an overlong line, and its tail.
    dropped: usize,
    tail: Vec<u8>,
}

enum ReadOutcome {
    Line(Vec<u8>),
    TooLong { head: Vec<u8>, tail: Vec<u8>, length: usize },
}

impl Line {
    /// Consumes bytes of the line. Returns their number, and the line if it is complete.
    fn consume(&mut self, available: &[u8]) -> (usize, Option<ReadOutcome>) {
        let end = available.iter().position(|byte| *byte == b'\n');
        let piece = &available[..end.unwrap_or(available.len())];
        if self.dropped == 0 && self.head.len() + piece.len() <= MAX_MESSAGE {
            self.head.extend_from_slice(piece);
        } else {
            if self.dropped == 0 {
                self.dropped = self.head.len();
                self.head.truncate(MAX_END_BYTES);
                self.head.shrink_to_fit();
            }
            self.dropped += piece.len();
            self.tail.extend_from_slice(&piece[piece.len().saturating_sub(MAX_END_BYTES)..]);
            let excess = self.tail.len().saturating_sub(MAX_END_BYTES);
            self.tail.drain(..excess);
        }
        let Some(end) = end else { return (available.len(), None) };
        let Self { head, dropped, tail } = std::mem::take(self);
        let line =
            if dropped > 0 { ReadOutcome::TooLong { head, tail, length: dropped } } else { ReadOutcome::Line(head) };
        (end + 1, Some(line))
    }
}

/// Returns the ID of the request that a message answers, found in its head or tail: `"id":7` or `"id":"seven"`.
fn answered_id(part: &[u8]) -> Option<NumberOrString> {
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
    fn lines_are_joined_and_overlong_ones_keep_their_ends() {
        let mut line = Line::default();
        assert!(matches!(line.consume(b"{\"a\""), (4, None)));
        let (used, Some(ReadOutcome::Line(whole))) = line.consume(b":1}\nrest") else { panic!("no line") };
        assert_eq!((used, whole.as_slice()), (4, &b"{\"a\":1}"[..]));
        line.consume(b"{\"result\":\"");
        for _ in 0..20 {
            line.consume(&vec![b'x'; 1 << 20]);
        }
        let (_, Some(ReadOutcome::TooLong { head, tail, length })) =
            line.consume(b"\",\"jsonrpc\":\"2.0\",\"id\":17}\n")
        else {
            panic!("the line was not too long")
        };
        assert!(head.len() <= MAX_END_BYTES && tail.len() <= MAX_END_BYTES && length > 20 << 20);
        assert_eq!(answered_id(&head).or_else(|| answered_id(&tail)), Some(NumberOrString::Number(17)));
        assert!(matches!(line.consume(b"{}\n"), (3, Some(ReadOutcome::Line(_)))));
    }

    #[test]
    fn answered_request_id_is_read_from_a_partial_message() {
        let check = |part: &str, expected: Option<NumberOrString>| assert_eq!(answered_id(part.as_bytes()), expected);
        check(r#"{"jsonrpc":"2.0","id":5,"result":{"#, Some(NumberOrString::Number(5)));
        check(r#"{"jsonrpc":"2.0", "id" : "a-1", "result":{"#, Some(NumberOrString::String("a-1".into())));
        check(r#"xxx","id":nothing}"#, None);
        check("xxxx", None);
    }
}

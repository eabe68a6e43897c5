//! A server that is a program of this machine: started behind a [guard](crate::guard), in a clean environment; and the messages
//! to it and from it, a line each. What it writes is hostile: lines are bounded, what is no message is passed over, and who
//! writes nothing else is let go.

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

/// Time for a server to end after its input has ended, before its guard is told that it has to. The guard itself tells
/// it sooner.
const ENDING: Duration = Duration::from_secs(3);
/// Time limit for its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time limit for the guard to clean up. It takes less unless a disk does not answer.
const CLEANING: Duration = Duration::from_secs(6);

/// A server that runs, behind its guard.
pub(super) struct Process {
    guard: Child,
    /// The guard leads the group that the server is in.
    group: Option<Pid>,
    /// Reads its last words.
    draining: JoinHandle<()>,
    log: Arc<Log>,
}

impl Process {
    /// Starts the guard with the program. Where the program is not found, it ends at once and its log says why.
    pub(super) fn start(mut guard: Command, log: &Arc<Log>) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        guard.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut guard = guard.spawn()?;
        let taken = || io::Error::other("a pipe is missing");
        let stdout = guard.stdout.take().ok_or_else(taken)?;
        let stdin = guard.stdin.take().ok_or_else(taken)?;
        let stderr = guard.stderr.take().ok_or_else(taken)?;
        let draining = tokio::spawn(drain(stderr, Arc::clone(log)));
        let group = guard.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 1).map(Pid::from_raw);
        Ok((Self { guard, group, draining, log: Arc::clone(log) }, stdout, stdin))
    }

    /// The guard's number, for people who look for it.
    pub(super) fn id(&self) -> Option<u32> {
        self.guard.id()
    }

    /// Waits until nothing of it is left, its input having been closed, and says how it ended.
    pub(super) async fn gone(mut self) -> Option<ExitStatus> {
        let mut status = self.ended_within(ENDING).await;
        if status.is_none() {
            // Its input may be open still: a message that it does not read cannot be taken back.
            if let Some(guard) = self.group {
                let _ = kill(guard, Signal::SIGTERM);
            }
            status = self.ended_within(CLEANING).await;
        }
        if status.is_none() {
            self.log.note("it did not end, and was killed");
            self.kill();
            status = self.ended_within(CLEANING).await;
        }
        // Where the guard itself was killed, the group may have members.
        self.kill();
        // Nobody writes any more, so that its last words are there at once.
        let _ = tokio::time::timeout(LAST_WORDS, &mut self.draining).await;
        self.log.end();
        status.flatten()
    }

    async fn ended_within(&mut self, limit: Duration) -> Option<Option<ExitStatus>> {
        tokio::time::timeout(limit, self.guard.wait()).await.ok().map(Result::ok)
    }

    fn kill(&self) {
        if let Some(group) = self.group {
            // There may be nobody left.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Reads what the server writes to its standard error, as long as it is open, so that it never waits for us; but not
/// faster than it is worth.
async fn drain(mut stderr: ChildStderr, log: Arc<Log>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        log.take(&buffer[..read]);
        if read == buffer.len() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    log.end();
}

/// Describes how a server ended.
pub(super) fn told(status: Option<ExitStatus>) -> String {
    match status.and_then(|status| status.code()) {
        Some(0) => "it ended".to_owned(),
        Some(127) => "its program was not found".to_owned(),
        Some(code @ 129..=192) => format!("it was ended by signal {}", code - 128),
        Some(code) => format!("it ended with exit code {code}"),
        None => "it was killed".to_owned(),
    }
}

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

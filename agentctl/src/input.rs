//! Reads the prompt from the command line and standard input.

use std::{
    io::{self, IsTerminal as _, Read, Write as _},
    os::fd::AsFd as _,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use agentd_core::error::ErrorKind;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{exit::Exit, failure::Failure};

/// Maximum size of a prompt in bytes. Longer texts belong in files, because no model accepts them as a single prompt.
pub(crate) const MAX_PROMPT_BYTES: usize = 8 * 1024 * 1024;

/// Time after which a notice is printed if an open pipe sends no data.
const SILENCE_LIMIT: Duration = Duration::from_secs(3);

/// Prints a notice on standard error if standard input stays open without data. Dropping this value cancels the notice.
#[derive(Debug)]
pub(crate) struct SilenceNotice(
    #[expect(dead_code, reason = "dropping it ends the wait of the thread")] mpsc::SyncSender<()>,
);

impl SilenceNotice {
    /// Starts to watch standard input while `what` is read. Returns `None` if standard input is a terminal.
    pub(crate) fn watch(what: &'static str) -> Option<Self> {
        if io::stdin().is_terminal() {
            return None;
        }
        let (sender, ended) = mpsc::sync_channel(1);
        thread::spawn(move || {
            while ended.recv_timeout(SILENCE_LIMIT) == Err(RecvTimeoutError::Timeout) {
                let stdin = io::stdin();
                if poll(&mut [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(0) {
                    let _ = writeln!(io::stderr(), "waiting for {what} on standard input");
                    return;
                }
            }
        });
        Some(Self(sender))
    }
}

/// Returns the prompt among positional arguments, if any. The second value is true if a dash requests standard input
/// even if it is a terminal.
///
/// # Errors
/// Fails if there is more than one prompt.
pub(crate) fn split_prompt(args: &[String]) -> Result<(Option<String>, bool), Failure> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => Ok((None, false)),
        ["-"] => Ok((None, true)),
        [prompt] => Ok((Some(prompt.to_owned()), false)),
        [prompt, "-"] => Ok((Some(prompt.to_owned()), true)),
        _ => Err(Failure::usage("more than one prompt on the command line")
            .hint(format!("put it in quotes: agentctl run '{}'", args.join(" ")))),
    }
}

/// Reads standard input. Returns `None` if it is a terminal or empty. Must be called before signal handlers are
/// installed, so that signals end the process.
///
/// # Errors
/// Fails if standard input cannot be read, is not UTF-8, is longer than [`MAX_PROMPT_BYTES`], or does not end within
/// `limit`.
pub(crate) fn piped(dash: bool, limit: Option<Duration>) -> Result<Option<String>, Failure> {
    if io::stdin().is_terminal() && !dash {
        return Ok(None);
    }
    let _notice = SilenceNotice::watch("the prompt (use </dev/null without input)");
    let (done, reading) = mpsc::sync_channel(1);
    // A blocking read of a pipe that is never closed cannot time out, so another thread reads.
    thread::spawn(move || done.send(read_text(io::stdin().lock(), MAX_PROMPT_BYTES)));
    let text = reading.recv_timeout(limit.unwrap_or(Duration::MAX)).unwrap_or_else(|_| {
        let timeout_failure = Failure::new(ErrorKind::Timeout, "standard input did not end within --timeout");
        Err(Failure { exit: Exit::Limit, ..timeout_failure }.hint("close it, or use </dev/null without input"))
    })?;
    Ok((!text.trim().is_empty()).then_some(text))
}

/// Reads at most `limit` bytes of text.
fn read_text(source: impl Read, limit: usize) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    source
        .take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("could not read standard input: {error}")))?;
    if bytes.len() > limit {
        return Err(too_long("standard input"));
    }
    String::from_utf8(bytes).map_err(|error| {
        Failure::usage(format!(
            "standard input is not UTF-8 text (byte {} cannot be read)",
            error.utf8_error().valid_up_to() + 1
        ))
        .hint("convert it first, for example with `iconv -t UTF-8`, or pass the file with --file")
    })
}

/// The prompt of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    /// Number of bytes at the start that were typed, if piped text follows them.
    pub(crate) typed_bytes: Option<u64>,
}

impl Prompt {
    /// Replaces the typed text. `typed` is the number of bytes of the new text that the user typed, if not all.
    pub(crate) fn replace_typed(&mut self, text: &str, typed: Option<usize>) {
        let piped = self.text.split_off(self.typed_bytes.map_or(self.text.len(), |bytes| bytes as usize));
        let typed = typed.or((!piped.is_empty()).then_some(text.len()));
        *self = Self { text: format!("{text}{piped}"), typed_bytes: typed.map(|bytes| bytes as u64) };
    }

    /// Appends a list of files to the prompt.
    pub(crate) fn with_file_list(self, files: &[String]) -> Self {
        if files.is_empty() {
            return self;
        }
        let text = self.text.trim_end();
        let typed_bytes = self.typed_bytes.or(Some(text.len() as u64));
        Self { text: format!("{text}\n\nFiles: {}", files.join("; ")), typed_bytes }
    }
}

/// Joins the prompt: the typed text, a blank line, and the piped text.
///
/// # Errors
/// Fails if both together are longer than [`MAX_PROMPT_BYTES`].
pub(crate) fn join(prompt: Option<String>, piped: Option<String>) -> Result<Option<Prompt>, Failure> {
    let prompt = prompt.filter(|prompt| !prompt.trim().is_empty());
    let joined = match (prompt, piped) {
        (Some(prompt), Some(piped)) => {
            let typed = prompt.trim_end();
            Some(Prompt { typed_bytes: Some(typed.len() as u64), text: format!("{typed}\n\n{piped}") })
        }
        // Piped text alone is the prompt; scripts use it this way.
        (prompt, piped) => prompt.or(piped).map(|text| Prompt { text, typed_bytes: None }),
    };
    match joined {
        Some(joined) if joined.text.len() > MAX_PROMPT_BYTES => Err(too_long("the prompt")),
        joined => Ok(joined),
    }
}

fn too_long(name: &str) -> Failure {
    Failure::usage(format!("{name} is longer than {} MiB", MAX_PROMPT_BYTES / 1024 / 1024))
        .hint("write it to a file and pass that with --file, so that the model can read it in parts")
}

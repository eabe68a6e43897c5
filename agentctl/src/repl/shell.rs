//! `!command`: a command of the user, run by their shell in the current folder. Its output is shown live, and sent to
//! the model with the next message.

use std::{
    io::{self, PipeReader, Read as _, Write as _},
    process::{Child, Command, ExitStatus},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use nix::sys::termios::{SetArg, tcgetattr, tcsetattr};
use tokio::sync::oneshot;

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    exit::Exit,
    failure::Failure,
    terminal::{
        paint::duration,
        sanitize::{Sanitizer, clean_line},
    },
    turn::signals::EndSignal,
};

/// Maximum number of bytes of the start and of the end of an output that the model receives.
const HEAD: usize = 8 * 1024;
const TAIL: usize = 8 * 1024;
/// Number of bytes per read.
const CHUNK: usize = 16 * 1024;
/// Interval at which the command's status is checked.
const GLANCE: Duration = Duration::from_millis(20);
/// Time for the remaining output of an ended command. Its background processes are not awaited.
const LAST_WORDS: Duration = Duration::from_millis(200);

impl Chat {
    /// Runs a command of the user.
    ///
    /// # Errors
    /// Fails if the command cannot be started, or the client receives a signal to end.
    pub(super) async fn shell(&mut self, command: String) -> anyhow::Result<Exit> {
        // A killed program may leave the terminal in a wrong mode.
        let before = tcgetattr(io::stdin()).ok();
        self.signals.forget();
        let begun = Instant::now();
        let (stop, mut ended) = start(&command).map_err(|error| {
            Failure::usage(format!("cannot run the shell: {error}")).hint("$SHELL names the shell that runs it")
        })?;
        let mut presses = 0;
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut ended => break ended,
                signal = self.signals.next() => match signal {
                    // The terminal sent the command the same signal. If it ignores the first one, the second one kills
                    // it.
                    EndSignal::Interrupt => {
                        presses += 1;
                        // The terminal has echoed `^C`.
                        self.print("\n")?;
                        if presses > 1 {
                            let _ = stop.try_send(());
                        }
                    }
                    other => {
                        let _ = stop.try_send(());
                        self.left(other)?;
                    }
                },
            }
        };
        self.signals.forget();
        if let Some(before) = before {
            let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &before);
        }
        let CommandEnd { status, output } = ended.map_err(|_| io::Error::other("the command's output was lost"))??;
        let how = how_it_ended(status);
        let took = duration(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        let folder =
            std::env::current_dir().map(|folder| clean_line(&folder.display().to_string())).unwrap_or_default();
        self.extras.add_output(block(&command, &folder, &how, &output));
        self.note(&format!("{how} · {took} · the model is told with your next message"));
        Ok(Exit::Done)
    }
}

/// Exit status and output of a command.
#[derive(Debug)]
struct CommandEnd {
    status: ExitStatus,
    output: KeptOutput,
}

/// Starts a command that reads from the terminal, and shows its output. Anything sent to the sender stops the command.
fn start(command: &str) -> io::Result<(mpsc::SyncSender<()>, oneshot::Receiver<io::Result<CommandEnd>>)> {
    let (reader, writer) = io::pipe()?;
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let mut shell = Command::new(shell);
    shell.arg("-c").arg(command).stdout(writer.try_clone()?).stderr(writer);
    let child = shell.spawn()?;
    // From now on, only the command has the write ends of the pipe.
    drop(shell);
    let (sender, ended) = oneshot::channel();
    let (stop, stopped) = mpsc::sync_channel(1);
    thread::Builder::new().name("agentctl-shell".to_owned()).spawn(move || {
        // The receiver is dropped if the chat has ended.
        let _ = sender.send(follow(child, reader, &stopped));
    })?;
    Ok((stop, ended))
}

/// Shows and collects the output of a command until the command has ended.
fn follow(mut child: Child, mut reader: PipeReader, stopped: &mpsc::Receiver<()>) -> io::Result<CommandEnd> {
    let (sender, chunks) = mpsc::sync_channel(1);
    thread::Builder::new().name("agentctl-output".to_owned()).spawn(move || {
        let mut buffer = vec![0; CHUNK];
        while let Ok(read @ 1..) = reader.read(&mut buffer) {
            if sender.send(buffer[..read].to_vec()).is_err() {
                break;
            }
        }
    })?;
    let (mut text, mut output) = (OutputText::default(), KeptOutput::default());
    let mut status = None;
    let mut until = None;
    loop {
        match chunks.recv_timeout(GLANCE) {
            Ok(chunk) => output.push(&show(&text.push(&chunk))?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stopped.try_recv().is_ok() {
            // Fails if the command has already ended.
            let _ = child.kill();
        }
        if status.is_none() {
            status = child.try_wait()?;
            until = status.map(|_| Instant::now() + LAST_WORDS);
        }
        if until.is_some_and(|until| Instant::now() > until) {
            break;
        }
    }
    output.push(&show(&text.end())?);
    let status = match status {
        Some(status) => status,
        None => super::pager::wait(child, || stopped.try_recv().is_ok())?.unwrap_or_default(),
    };
    Ok(CommandEnd { status, output })
}

fn show(text: &str) -> io::Result<String> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(text.to_owned())
}

/// Converts output to text without terminal escapes, in chunks of any size.
#[derive(Debug, Default)]
struct OutputText {
    sanitizer: Sanitizer,
    /// Start of an incomplete character.
    begun: Vec<u8>,
    /// True if the last line has no line break.
    is_within_line: bool,
}

impl OutputText {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        // The missing bytes of an incomplete character at the end may still arrive.
        let rest = self.begun.utf8_chunks().last().map_or(&[][..], |last| last.invalid());
        let is_incomplete = std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none());
        let pending = if is_incomplete { rest.len() } else { 0 };
        let text: Vec<u8> = self.begun.drain(..self.begun.len() - pending).collect();
        self.clean(&String::from_utf8_lossy(&text))
    }

    fn end(&mut self) -> String {
        let rest = std::mem::take(&mut self.begun);
        let mut text = self.clean(&String::from_utf8_lossy(&rest));
        if self.is_within_line {
            text.push('\n');
        }
        text
    }

    /// Removes terminal escapes. A line that is overwritten becomes several lines.
    fn clean(&mut self, text: &str) -> String {
        let text = self.sanitizer.push(&text.replace("\r\n", "\n").replace('\r', "\n"));
        if let Some(last) = text.chars().next_back() {
            self.is_within_line = last != '\n';
        }
        text
    }
}

/// Start and end of an output.
#[derive(Debug, Default)]
struct KeptOutput {
    head: String,
    tail: String,
    /// Number of bytes between them.
    left_out: usize,
}

impl KeptOutput {
    fn push(&mut self, text: &str) {
        let room = HEAD.saturating_sub(self.head.len());
        let cut = if self.left_out == 0 && self.tail.is_empty() { text.floor_char_boundary(room) } else { 0 };
        self.head.push_str(&text[..cut]);
        self.tail.push_str(&text[cut..]);
        if self.tail.len() > 2 * TAIL {
            let surplus = self.surplus();
            self.left_out += surplus;
            self.tail.drain(..surplus);
        }
    }

    /// Returns the number of surplus bytes at the start of the tail.
    fn surplus(&self) -> usize {
        self.tail.ceil_char_boundary(self.tail.len().saturating_sub(TAIL))
    }

    fn text(&self) -> String {
        let surplus = self.surplus();
        let between = match self.left_out + surplus {
            0 => String::new(),
            bytes => format!("\n[… {bytes} bytes left out …]\n"),
        };
        format!("{}{between}{}", self.head, &self.tail[surplus..])
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Formats the command and its output for the model, in a fence longer than any in the output.
fn block(command: &str, folder: &str, how: &str, output: &KeptOutput) -> String {
    let output = output.text();
    let shown = match output.trim_end() {
        "" => "(no output)",
        output => output,
    };
    let inside = format!("$ {command}\n{shown}");
    let longest_run = inside.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest_run.max(2) + 1);
    format!("The person ran this command in their own shell, in {folder}: {how}\n{fence}\n{inside}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_shell_output_keeps_both_ends() {
        let mut output = KeptOutput::default();
        for number in 0..20_000 {
            output.push(&format!("line {number} é\n"));
        }
        let text = output.text();
        assert!(text.starts_with("line 0 é\n") && text.ends_with("line 19999 é\n"), "{}", &text[..20]);
        assert!(text.contains(" bytes left out …]") && text.len() <= HEAD + TAIL + 100, "{}", text.len());
        let (mut output, whole) = (KeptOutput::default(), "x".repeat(HEAD + TAIL));
        output.push(&whole);
        assert_eq!(output.text(), whole);
    }

    #[test]
    fn shell_output_is_clean_text_in_any_chunking() {
        let mut text = OutputText::default();
        let shown: Vec<String> =
            [&b"caf\xc3"[..], b"\xa9 \xff\x1b[2", b"Jdone\r", b"50%\r"].map(|piece| text.push(piece)).into();
        assert_eq!(shown.concat() + &text.end(), "café \u{fffd}done\n50%\n");
        assert_eq!(OutputText::default().push(b"ab"), "ab");
        let mut open = OutputText::default();
        open.push(b"no end");
        assert_eq!(open.end(), "\n");
    }

    #[test]
    fn shell_command_is_followed_until_it_exits() {
        let run = |command: &str| {
            let (_stop, ended) = start(command).unwrap();
            let CommandEnd { status, output } = ended.blocking_recv().unwrap().unwrap();
            (how_it_ended(status), output.text())
        };
        assert_eq!(run("echo out; echo err >&2; exit 3"), ("exit 3".to_owned(), "out\nerr\n".to_owned()));
        assert_eq!(run("kill -TERM $$").0, "ended by signal 15");
        // What it leaves behind holds its output open.
        let (how, pid) = run("sleep 600 & echo $!");
        assert_eq!(how, "exit 0");
        let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
}

//! A program at a pseudo-terminal, for several subjects.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::Child,
    sync::mpsc,
};

use nix::{
    pty::{Winsize, openpty},
    sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr},
};

use super::*;

/// Time limit for more output.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running program and the output of its terminal.
pub(super) struct Terminal {
    started: Instant,
    process: Child,
    keys: File,
    output: mpsc::Receiver<(Instant, String)>,
    /// End of the output that was read.
    seen: String,
}

impl Terminal {
    /// Starts `agentctl` at a terminal.
    pub(super) fn agentctl(home: &Home, args: &[&str]) -> anyhow::Result<Self> {
        let mut command = home.command("agentctl")?;
        Self::start(command.args(args), true)
    }

    /// Starts `/bin/cat` at a terminal that does not echo, so that all output is that of the program.
    pub(super) fn cat() -> anyhow::Result<Self> {
        Self::start(&Command::new("/bin/cat"), false)
    }

    /// Starts a program as a session leader, with a new terminal as its controlling terminal.
    fn start(program: &Command, is_echoing: bool) -> anyhow::Result<Self> {
        let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None)?;
        if !is_echoing {
            let mut mode = tcgetattr(&pty.slave)?;
            mode.local_flags.remove(LocalFlags::ECHO);
            tcsetattr(&pty.slave, SetArg::TCSANOW, &mode)?;
        }
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        command.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("TERM", "xterm-256color");
        let end = || pty.slave.try_clone().map(Stdio::from);
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        let keys = File::from(pty.master);
        let output = watch(keys.try_clone()?)?;
        let started = Instant::now();
        let process = command.spawn().context("requires setsid (util-linux)")?;
        Ok(Self { started, process, keys, output, seen: String::new() })
    }

    /// Types keys, and returns the time just before. Only later output is searched from now on.
    pub(super) fn types(&mut self, keys: &str) -> anyhow::Result<Instant> {
        self.seen.clear();
        let pressed = Instant::now();
        self.keys.write_all(keys.as_bytes())?;
        Ok(pressed)
    }

    /// Waits until this text appears, and returns the time of arrival.
    pub(super) fn sees(&mut self, text: &str) -> anyhow::Result<Instant> {
        loop {
            let (at, piece) = self.output.recv_timeout(PATIENCE).with_context(|| format!("{text:?} did not appear"))?;
            self.seen.push_str(&piece);
            if self.seen.contains(text) {
                return Ok(at);
            }
            // The last 64 characters suffice to find text that is split across two pieces.
            let keep = self.seen.char_indices().rev().nth(64).map_or(0, |(at, _)| at);
            self.seen.drain(..keep);
        }
    }

    /// Waits until this text appears, ends the program, and returns the time from its start to the text.
    pub(super) fn time_to(mut self, text: &str) -> anyhow::Result<Duration> {
        let seen = self.sees(text);
        self.process.kill()?;
        self.process.wait()?;
        Ok(seen?.saturating_duration_since(self.started))
    }

    /// Waits until the program has ended with success, and returns its duration.
    pub(super) fn ends(mut self) -> anyhow::Result<Duration> {
        while self.output.recv().is_ok() {}
        let status = self.process.wait()?;
        ensure!(status.success(), "the program exited with {status}");
        Ok(self.started.elapsed())
    }
}

/// Reads the terminal's output in a thread, and sends each piece with its time of arrival.
fn watch(mut terminal: File) -> anyhow::Result<mpsc::Receiver<(Instant, String)>> {
    let (sender, pieces) = mpsc::channel();
    std::thread::Builder::new().name("bench-screen".to_owned()).spawn(move || {
        let mut bytes = [0; 64 * 1024];
        while let Ok(read @ 1..) = terminal.read(&mut bytes) {
            let piece = String::from_utf8_lossy(&bytes[..read]).into_owned();
            if sender.send((Instant::now(), piece)).is_err() {
                break;
            }
        }
    })?;
    Ok(pieces)
}

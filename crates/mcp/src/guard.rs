//! Process between agentd and a server. It is single-threaded, starts the server, and leaves no server processes
//! behind.
//!
//! Servers are started by wrappers (`npx`, `uvx`), and start other processes themselves. The guard is their subreaper,
//! so the kernel reparents orphans to the guard, inside and outside the server's process group. The guard watches the
//! server's standard input: the kernel reports when agentd closes it or is killed. The server then has time to exit,
//! gets a signal, and is finally killed with everything that it started. The guard neither reads nor forwards the
//! input: bytes go directly to the server.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd as _,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl::set_child_subreaper,
        signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, dup2_stderr, dup2_stdout, getpid},
};

/// First argument of a guard process. The command of the server follows.
pub const GUARD_ARGUMENT: &str = "mcp-guard";

/// Time for a server to exit after its input was closed, which requests the exit.
const EXIT_GRACE: Duration = Duration::from_millis(1500);
/// Time for a server to exit after a signal.
const TERM_GRACE: Duration = Duration::from_millis(1000);
/// Time for the server's child processes to exit after the server.
const ORPHAN_GRACE: Duration = Duration::from_millis(200);
/// Time limit for the end of killed processes. Only an unresponsive disk takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a server until it exits. The exit code is that of the server, as a shell would report it.
pub fn run_guard(command: &[OsString]) -> ExitCode {
    let code = match guard(command) {
        Ok(code) => code,
        Err((code, message)) => {
            let _ = writeln!(io::stderr(), "{message}");
            code
        }
    };
    ExitCode::from(code)
}

fn guard(command: &[OsString]) -> Result<u8, (u8, String)> {
    let setup_error = |action: &str, error: &dyn std::fmt::Display| (125, format!("could not {action}: {error}"));
    let [program, args @ ..] = command else { return Err((125, "missing command".to_owned())) };
    set_child_subreaper(true).map_err(|error| setup_error("adopt orphans", &error))?;
    let mut handled_signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        handled_signals.add(signal);
    }
    let set_mask = |mask: &SigSet| {
        let set = sigprocmask(SigmaskHow::SIG_SETMASK, Some(mask), None);
        set.map_err(|error| setup_error("block signals", &error))
    };
    set_mask(&handled_signals)?;
    let signals = SignalFd::with_flags(&handled_signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(|error| setup_error("receive signals", &error))?;
    // Children inherit blocked signals, but the server must receive all signals, so they are unblocked for a moment. If
    // the server exits in that moment, the first `collect` notices it.
    set_mask(&SigSet::empty())?;
    let started = Command::new(program).args(args).spawn();
    set_mask(&handled_signals)?;
    let child = started.map_err(|error| {
        let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
        (code, format!("could not start `{}`: {error}", program.display()))
    })?;
    let server = Pid::from_raw(i32::try_from(child.id()).map_err(|error| setup_error("identify the server", &error))?);
    // Readers of the server's output must see its end when the server exits, not when the guard exits.
    let null = File::options().write(true).open("/dev/null").map_err(|error| setup_error("free the output", &error))?;
    dup2_stdout(&null).and_then(|()| dup2_stderr(&null)).map_err(|error| setup_error("free the output", &error))?;
    let mut guard = Guard { signals, server, exit_code: None, input_ended: None, terminated: None };
    guard.until_server_ends();
    guard.wait_for_all();
    Ok(guard.exit_code.unwrap_or(137))
}

struct Guard {
    signals: SignalFd,
    server: Pid,
    /// Exit code of the server.
    exit_code: Option<u8>,
    /// Time at which the server's input ended.
    input_ended: Option<Instant>,
    /// Time at which the server was signalled.
    terminated: Option<Instant>,
}

impl Guard {
    fn until_server_ends(&mut self) {
        while !self.collect() && self.exit_code.is_none() {
            let step = match (self.input_ended, self.terminated) {
                (_, Some(terminated)) => Some(terminated + TERM_GRACE),
                (Some(input_ended), None) => Some(input_ended + EXIT_GRACE),
                (None, None) => None,
            };
            let remaining = step.map(|step| step.saturating_duration_since(Instant::now()));
            if remaining == Some(Duration::ZERO) {
                if self.terminated.is_some() {
                    return;
                }
                self.terminate();
                continue;
            }
            self.wait(remaining);
        }
    }

    /// Gives the remaining processes a moment to exit, then kills them repeatedly until none is left.
    fn wait_for_all(&mut self) {
        let grace = Instant::now() + if self.exit_code.is_some() { ORPHAN_GRACE } else { Duration::ZERO };
        let limit = grace + KILL_TIMEOUT;
        while !self.collect() && Instant::now() < limit {
            let remaining = grace.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                self.signal(Signal::SIGKILL);
            }
            self.wait(Some(remaining.clamp(Duration::from_millis(5), Duration::from_millis(50))));
        }
    }

    fn terminate(&mut self) {
        self.terminated = Some(Instant::now());
        self.signal(Signal::SIGTERM);
    }

    /// Collects exited processes. Returns true if none is left.
    fn collect(&mut self) -> bool {
        loop {
            match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(process, code)) if process == self.server => {
                    self.exit_code = Some(u8::try_from(code & 0xff).unwrap_or(1));
                }
                Ok(WaitStatus::Signaled(process, signal, _)) if process == self.server => {
                    self.exit_code = Some(u8::try_from(128 + signal as i32).unwrap_or(137));
                }
                Ok(WaitStatus::StillAlive) => return false,
                Err(Errno::EINTR) | Ok(_) => {}
                Err(_) => return true,
            }
        }
    }

    /// Waits for a signal, the end of the server's input, or the time limit.
    fn wait(&mut self, limit: Option<Duration>) {
        let timeout = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::from(u16::try_from(limit.as_millis().max(1)).unwrap_or(u16::MAX))
        });
        let stdin = io::stdin();
        // No events are requested for the input, since a closed other end is always reported.
        let mut sources =
            [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN), PollFd::new(stdin.as_fd(), PollFlags::empty())];
        let watched = if self.input_ended.is_some() { 1 } else { 2 };
        let _ = poll(&mut sources[..watched], timeout);
        let hangup_flags = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        if self.input_ended.is_none() && sources[1].revents().is_some_and(|events| events.intersects(hangup_flags)) {
            self.input_ended = Some(Instant::now());
        }
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo != Signal::SIGCHLD as u32 && self.terminated.is_none() {
                self.terminate();
            }
        }
    }

    /// Signals the server and all of its descendants.
    fn signal(&self, signal: Signal) {
        for process in descendants() {
            // The process may have exited already.
            let _ = kill(process, signal);
        }
    }
}

/// Returns all descendants of the guard. Orphans are reparented to it, so none is missing.
fn descendants() -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.filter_map(|process| process.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in numbers {
        if let Some(parent) = parent(process) {
            children.entry(parent).or_default().push(process);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![getpid().as_raw()]);
    while let Some(process) = next.pop() {
        let direct = children.remove(&process).unwrap_or_default();
        found.extend(direct.iter().copied().map(Pid::from_raw));
        next.extend(direct);
    }
    found
}

fn parent(process: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program name may contain anything, including parentheses.
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

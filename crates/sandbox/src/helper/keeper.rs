//! The keeper waits for the command, reaps orphans, owns the control socket, and kills remaining processes. For a
//! command that may only reach listed hosts, the keeper creates a network with one address, on which the daemon's proxy
//! accepts connections.

use std::{
    io::{IoSlice, Read as _},
    net::{Ipv4Addr, TcpListener},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, SigmaskHow, Signal, kill, killpg, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
        socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socket},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, getpid},
};

use super::{
    Program, Step, command, fork_alone, release_output,
    root::{Namespaces, limit_processes, mount_proc},
    send_report, step,
};
use crate::config::{END_REQUEST, GATEWAY_PORT, Report, SOCKET_MARK};

/// Time for remaining children to exit on their own, as the last processes of a pipeline do.
const ORPHANS_GRACE: Duration = Duration::from_millis(200);

/// Time limit for killed children to end. Only a hung disk exceeds it.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for killing children one by one, while they may fork new ones.
const SLOW_KILL_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the command to its end and reports the outcome.
pub(super) fn run(socket: &UnixStream, program: &Program, namespaces: Option<Namespaces>) -> Step<()> {
    let namespaces = namespaces.map(|namespaces| {
        let own_proc = mount_proc();
        let own_limit = own_proc && program.policy.limits.processes.is_some_and(limit_processes);
        Namespaces { own_proc, own_limit, ..namespaces }
    });
    // Blocked before the fork, so that the end of every child is detected.
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&ends), None).map_err(step("block signals"))?;
    let signals =
        SignalFd::with_flags(&ends, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(step("receive signals"))?;
    let keeper = getpid();
    let child = match fork_alone()? {
        ForkResult::Child => command::run_command(socket, keeper, program, namespaces),
        ForkResult::Parent { child } => child,
    };
    release_output()?;
    socket.set_nonblocking(true).map_err(step("make the control socket non-blocking"))?;
    let mut keeper = Keeper { socket, signals, child, is_isolated: namespaces.is_some(), ended: None, killed: 0 };
    keeper.until_command_ends();
    keeper.wait_for_all();
    if let Some((code, signal)) = keeper.ended {
        send_report(socket, &Report::Ended { code, signal, strays: keeper.killed });
    }
    Ok(())
}

struct Keeper<'a> {
    socket: &'a UnixStream,
    signals: SignalFd,
    child: Pid,
    /// True if all visible processes belong to the command, so that all of them may be killed.
    is_isolated: bool,
    /// Exit code or signal of the command, once it has ended.
    ended: Option<(Option<i32>, Option<i32>)>,
    /// Number of processes that were killed after the command had ended.
    killed: usize,
}

impl Keeper<'_> {
    fn until_command_ends(&mut self) {
        loop {
            self.reap(false);
            if self.ended.is_some() {
                return;
            }
            self.wait(None);
            match self.requested_signal() {
                None => {}
                Some(Signal::SIGKILL) => return self.signal(Signal::SIGKILL),
                Some(signal) => self.signal(signal),
            }
        }
    }

    /// Waits briefly for remaining processes to exit, then kills them repeatedly until none remain.
    fn wait_for_all(&mut self) {
        let grace = Instant::now() + ORPHANS_GRACE;
        while self.ended.is_some() && self.reap(false) {
            let remaining = grace.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            self.wait(Some(remaining));
            if self.requested_signal() == Some(Signal::SIGKILL) {
                break;
            }
        }
        let limit = Instant::now() + if self.is_isolated { KILL_TIMEOUT } else { SLOW_KILL_TIMEOUT };
        while self.reap(true) && Instant::now() < limit {
            self.signal(Signal::SIGKILL);
            self.wait(Some(Duration::from_millis(10)));
        }
    }

    /// Reaps all processes that have ended. Returns true if other processes remain.
    fn reap(&mut self, killing: bool) -> bool {
        while let Ok(Some(_)) = self.signals.read_signal() {}
        loop {
            match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(process, code)) if process == self.child => self.ended = Some((Some(code), None)),
                Ok(WaitStatus::Signaled(process, signal, _)) if process == self.child => {
                    self.ended = Some((None, Some(signal as i32)));
                }
                Ok(WaitStatus::Signaled(_, Signal::SIGKILL, _)) if killing => self.killed += 1,
                Ok(WaitStatus::StillAlive) => return true,
                Err(nix::errno::Errno::EINTR) | Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    fn wait(&self, limit: Option<Duration>) {
        let timeout = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::from(u16::try_from(limit.as_millis().max(1)).unwrap_or(u16::MAX))
        });
        let mut sources =
            [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN), PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        // A closed control socket is always ready, so after the command's end the loops only wait for signals.
        let sources = if self.ended.is_some() { &mut sources[..1] } else { &mut sources[..] };
        let _ = poll(sources, timeout);
    }

    /// Returns the signal that the daemon requests, if any.
    fn requested_signal(&self) -> Option<Signal> {
        let mut byte = [0];
        match (&mut &*self.socket).read(&mut byte) {
            Ok(1) if byte[0] == END_REQUEST => Some(Signal::SIGTERM),
            Ok(1) => None,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {
                None
            }
            // The daemon has closed the control socket or has exited.
            Ok(_) | Err(_) => Some(Signal::SIGKILL),
        }
    }

    /// Signals the command's processes, which may already have exited.
    fn signal(&self, signal: Signal) {
        if self.is_isolated {
            // When sent by the first process in a namespace, this signal reaches all other processes in the namespace
            // and no process outside.
            let _ = kill(Pid::from_raw(-1), signal);
            return;
        }
        let _ = killpg(self.child, signal);
        if signal == Signal::SIGKILL {
            // Orphans are reparented to the keeper, so that their children are found in a later round.
            for process in children() {
                let _ = kill(process, signal);
            }
        }
    }
}

/// Returns the processes whose parent is the keeper.
fn children() -> Vec<Pid> {
    let own = getpid().to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.filter_map(|process| process.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_ours = |process: &i32| {
        std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| {
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(own.as_str())
        })
    };
    numbers.filter(is_ours).map(Pid::from_raw).collect()
}

/// Opens the listener that is the only exit of this network, and passes it to the daemon.
pub(super) fn open_gateway(socket: &UnixStream) -> Step<()> {
    raise_loopback().map_err(step("open a private network"))?;
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, GATEWAY_PORT)).map_err(step("open the port of the proxy"))?;
    let descriptors = [listener.as_raw_fd()];
    let controls = [ControlMessage::ScmRights(&descriptors)];
    let message = [SOCKET_MARK];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&message)], &controls, MsgFlags::empty(), None)
        .map(drop)
        .map_err(step("pass the proxy's socket"))
}

#[allow(unsafe_code, reason = "no safe wrapper exists")]
fn raise_loopback() -> nix::Result<()> {
    let any: OwnedFd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let up = libc::c_short::try_from(libc::IFF_UP).unwrap_or_default();
    let mut request =
        libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: up } };
    for (slot, letter) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = letter.cast_signed() as libc::c_char;
    }
    // SAFETY: the structure is the one that this request expects, its name is NUL-terminated, and it outlives the call,
    // which stores no pointer. The descriptor is open.
    nix::errno::Errno::result(unsafe {
        libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw mut request)
    })
    .map(drop)
}

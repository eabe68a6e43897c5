//! The process group of a command, and children that it left running, in that group or out of it.

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// Kills the group when it is dropped, so that a call that is abandoned leaves nothing running.
///
/// The group's number stays taken while it has a member. Once it is empty the number could be given to a new
/// session of someone else, but only after the kernel has gone through all numbers, so signalling a group shortly
/// after its leader has ended reaches its own members or none.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
}

impl Group {
    /// The group that the child leads, having called `setsid`.
    pub(super) fn led_by(child: &tokio::process::Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 1).map(Pid::from_raw);
        Self { leader }
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // There is nobody left to signal if it fails.
            let _ = killpg(leader, signal);
        }
    }

    /// Kills what is left and forgets the group.
    pub(super) fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.leader = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// Kills every process that carries the mark. Returns how many there were. It reads `/proc`, so it may block.
#[cfg(target_os = "linux")]
pub(super) fn kill_strays(mark: &str) -> usize {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    /// A process can fork while we look, but each round kills all that the last one saw.
    const ROUNDS: usize = 20;
    /// Number of further looks at processes that show no environment. Most of them just never had one.
    const PATIENCE: usize = 3;
    let mark = format!("{}={mark}", crate::environment::MARK);
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..ROUNDS {
        let seen_now = look(mark.as_bytes());
        if seen_now.carriers.is_empty() && (!seen_now.undecided || round >= PATIENCE) {
            break;
        }
        for process in seen_now.carriers {
            seen.insert(process);
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        // The dying carry their mark for a moment.
        std::thread::sleep(std::time::Duration::from_millis(1 + round as u64));
    }
    seen.len()
}

/// Without `/proc`, the group is all that is known of a command's children.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill_strays(_mark: &str) -> usize {
    0
}

/// Result of one look at all processes.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Look {
    carriers: Vec<i32>,
    /// Some process showed no environment: it has none, or it is just becoming another program and will show one.
    undecided: bool,
}

#[cfg(target_os = "linux")]
fn look(mark: &[u8]) -> Look {
    let mut look = Look::default();
    let Ok(processes) = std::fs::read_dir("/proc") else { return look };
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    for process in processes.filter_map(|process| process.ok()?.file_name().to_str()?.parse::<i32>().ok()) {
        if process <= 1 || process == own {
            continue;
        }
        // Processes of other users cannot be read.
        let Ok(environment) = std::fs::read(format!("/proc/{process}/environ")) else { continue };
        if environment.is_empty() {
            // Those that have ended, and threads of the kernel, have no program either.
            look.undecided |= std::fs::read_link(format!("/proc/{process}/exe")).is_ok();
        } else if environment.split(|byte| *byte == 0).any(|variable| variable == mark) {
            look.carriers.push(process);
        }
    }
    look
}

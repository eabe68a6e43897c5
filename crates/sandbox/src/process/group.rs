//! The process group of a command.

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

//! What the end of a worker says about the document that it read, where the worker itself could no longer say it.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

use nix::sys::signal::Signal;

use crate::{failure::Failure, kind::Kind, limits::Limits};

/// The runtime's words when it gets no more memory, before it ends the process.
const NO_MEMORY: &str = "memory allocation of";
/// The runtime's words when a stack is used up.
const NO_STACK: &str = "has overflowed its stack";

/// Why a worker ended that did not say why. `stderr` is the last of what it said to people.
pub(super) fn examine(status: ExitStatus, stderr: &str, kind: Option<Kind>, limits: &Limits) -> Failure {
    let broken = |why: &str| match kind {
        Some(kind) => Failure::Broken { kind, parts: 0, why: why.to_owned() },
        None => Failure::Worker(format!("its reader crashed: {why}")),
    };
    if stderr.contains(NO_MEMORY) {
        return Failure::OutOfMemory { limit: limits.memory, parts: 0 };
    }
    if stderr.contains(NO_STACK) {
        return broken("what it holds is nested too deeply");
    }
    match status.signal().map(Signal::try_from) {
        Some(Ok(Signal::SIGXCPU)) => Failure::TookTooLong { limit: limits.time, parts: 0 },
        // No limit of its own ends it so: an administrator, a service manager, or a machine without memory.
        Some(Ok(Signal::SIGKILL)) => Failure::Worker("its reader was ended by another program".to_owned()),
        Some(Ok(signal)) => broken(&format!("its reader crashed with {}", signal.as_str())),
        Some(Err(_)) => broken("its reader crashed"),
        None => {
            let said = stderr.lines().last().unwrap_or("it said nothing").trim();
            Failure::Worker(format!("its reader ended without a word ({said})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_worker_is_told_in_words() {
        let limits = Limits::default();
        let signal = |number: i32| ExitStatus::from_raw(number);
        let cases = [
            (signal(6), "memory allocation of 99 bytes failed", "out_of_memory"),
            (signal(6), "thread 'extract' has overflowed its stack", "broken"),
            (signal(6), "", "broken"),
            (signal(11), "", "broken"),
            (signal(24), "", "took_too_long"),
            (signal(9), "", "worker"),
            (ExitStatus::from_raw(1 << 8), "no rights to give up", "worker"),
        ];
        for (status, stderr, code) in cases {
            assert_eq!(examine(status, stderr, Some(Kind::Pdf), &limits).code(), code, "{status:?} {stderr}");
        }
    }
}

//! Children that left the process group of their command.
//!
//! `setsid` and double forks leave a group, but the environment is inherited: each command has a mark of its own in
//! it, and `/proc` shows who carries it. A child that clears its environment and leaves the group escapes; only a
//! sandbox with its own process table can hold that one.

/// Kills every process that carries the mark. Returns how many there were. It reads `/proc`, so it may block.
#[cfg(target_os = "linux")]
pub(super) fn kill(mark: &str) -> usize {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    /// A process can fork while we look, but each round kills all that the last one saw.
    const ROUNDS: usize = 20;
    let mark = format!("{}={mark}", super::environment::MARK);
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..ROUNDS {
        let found = carriers(mark.as_bytes());
        if found.is_empty() {
            break;
        }
        for process in found {
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
pub(super) fn kill(_mark: &str) -> usize {
    0
}

#[cfg(target_os = "linux")]
fn carriers(mark: &[u8]) -> Vec<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    processes
        .filter_map(|process| process.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|process| *process > 1 && *process != own)
        .filter(|process| {
            // Processes of other users cannot be read, and those that have ended have no environment.
            std::fs::read(format!("/proc/{process}/environ"))
                .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == mark))
        })
        .collect()
}

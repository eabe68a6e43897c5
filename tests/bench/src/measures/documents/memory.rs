//! The memory of the daemon and of the processes that it starts, looked at while it works.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread::JoinHandle,
};

use super::*;

/// Between two looks. Each costs the machine that is measured something, and the kernel keeps
/// the most of a process for as long as it lives: only what a worker takes in its last moments is not seen.
const EVERY: Duration = Duration::from_millis(25);

/// The most that was held, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peaks {
    /// The daemon alone, as the kernel kept it.
    pub(super) daemon: u64,
    /// One process that it started, as the kernel had kept it when it was last looked at.
    pub(super) worker: u64,
    /// All of them at one moment that was looked at. What they share, such as the program itself, counts in each.
    pub(super) together: u64,
}

impl Peaks {
    /// The most of either.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            daemon: self.daemon.max(other.daemon),
            worker: self.worker.max(other.worker),
            together: self.together.max(other.together),
        }
    }
}

/// Looks again and again until it is asked.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    looking: JoinHandle<Peaks>,
}

impl Watch {
    pub(super) fn of(daemon: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let looking = std::thread::spawn(move || {
            let mut peaks = Peaks::default();
            while !stopped.load(Ordering::Acquire) {
                look(daemon, &mut peaks);
                std::thread::sleep(EVERY);
            }
            peaks
        });
        Self { stop, looking }
    }

    pub(super) fn peaks(self) -> Peaks {
        self.stop.store(true, Ordering::Release);
        self.looking.join().unwrap_or_default()
    }
}

fn look(daemon: u32, peaks: &mut Peaks) {
    let own = Held::of(daemon);
    let mut together = own.now;
    for worker in children(daemon).into_iter().map(Held::of) {
        together += worker.now;
        peaks.worker = peaks.worker.max(worker.most);
    }
    peaks.daemon = peaks.daemon.max(own.most);
    peaks.together = peaks.together.max(together);
}

/// Processes whose parent this is.
pub(super) fn children(of: u32) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Behind the name, which stands in parentheses and may hold any: the state, then the parent.
    let parent = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    ids.filter(|id| parent(id) == Some(of)).collect()
}

/// The resident memory of a process, in bytes; none of one that is gone.
#[derive(Debug, Clone, Copy)]
struct Held {
    now: u64,
    /// Since it began.
    most: u64,
}

impl Held {
    fn of(process: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or_default() * 1024
        };
        Self { now: bytes("VmRSS:"), most: bytes("VmHWM:") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory() {
        let held = Held::of(std::process::id());
        assert!(held.now > 100_000 && held.most >= held.now, "{held:?}");
        assert_eq!(Held::of(u32::MAX).most, 0);
    }
}

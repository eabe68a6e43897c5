//! The memory of the daemon and of the processes that it starts, looked at while it works.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Between two looks. A worker lives for a part of a second at least.
const EVERY: Duration = Duration::from_millis(25);

/// The most that was seen, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peaks {
    /// The daemon alone.
    pub(super) daemon: u64,
    /// One process that it started.
    pub(super) worker: u64,
    /// All of them at one moment. What they share, such as the program itself, counts in each.
    pub(super) together: u64,
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
    let own = resident(daemon);
    let workers = children(daemon).into_iter().map(resident);
    let (mut sum, mut most) = (0, 0);
    for worker in workers {
        sum += worker;
        most = worker.max(most);
    }
    peaks.daemon = peaks.daemon.max(own);
    peaks.worker = peaks.worker.max(most);
    peaks.together = peaks.together.max(own + sum);
}

/// Processes whose parent this is.
fn children(of: u32) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Behind the name, which stands in parentheses and may hold any: the state, then the parent.
    let parent = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    ids.filter(|id| parent(id) == Some(of)).collect()
}

fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory() {
        assert!(resident(std::process::id()) > 100_000);
        assert_eq!(resident(u32::MAX), 0);
    }
}

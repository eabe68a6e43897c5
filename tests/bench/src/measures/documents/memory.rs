//! Samples the memory of the daemon and its child processes while the daemon works.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread::JoinHandle,
};

use super::*;

/// Sampling interval. Sampling slows the measured work down, and the kernel records a process's peak while the process
/// exists. Only memory that a worker allocates in its last moments is missed.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(25);

/// Peak memory, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peaks {
    /// Peak of the daemon alone, as recorded by the kernel.
    pub(super) daemon: u64,
    /// Peak of any single child process, as recorded by the kernel at its last sample.
    pub(super) worker: u64,
    /// Peak of the sum over all processes in one sample. Shared pages, such as those of the binary, count once per
    /// process.
    pub(super) together: u64,
}

impl Peaks {
    /// Returns the maximum of each peak.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            daemon: self.daemon.max(other.daemon),
            worker: self.worker.max(other.worker),
            together: self.together.max(other.together),
        }
    }
}

/// Samples memory in the background until stopped.
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
                std::thread::sleep(SAMPLE_INTERVAL);
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
    // A process that has exited has no memory.
    let memory = |process| world::memory_of(process).unwrap_or_default();
    let own = memory(daemon);
    let mut together = own.resident;
    for worker in children(daemon).into_iter().map(memory) {
        together += worker.resident;
        peaks.worker = peaks.worker.max(worker.peak);
    }
    peaks.daemon = peaks.daemon.max(own.peak);
    peaks.together = peaks.together.max(together);
}

/// Returns the IDs of the processes with this parent.
pub(super) fn children(of: u32) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // The process name is in parentheses and may itself contain parentheses. The state and the parent follow.
    let parent = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    ids.filter(|id| parent(id) == Some(of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_is_measured() {
        let memory = world::memory_of(std::process::id()).unwrap();
        assert!(memory.resident > 100_000 && memory.peak >= memory.resident, "{memory:?}");
        assert!(world::memory_of(u32::MAX).is_err());
    }
}

//! Memory footprint: when the daemon becomes idle, it returns memory that only the finished work needed.

use std::{fs, io, path::Path, time::Duration};

use agentd_engine::Activity;
use nix::libc;
use tokio::{
    sync::watch::{self, error::RecvError},
    time::sleep,
};

/// Returns memory that is no longer needed: freed heap memory, and code pages.
fn release_memory() {
    crate::documents::release_memory();
    if let Err(error) = release_code() {
        tracing::debug!(%error, "could not unmap unused code");
    }
}

/// Unmaps the pages that contain the binary's code. Most mapped pages were only needed by finished work, and the kernel
/// maps sixteen pages around each accessed page. Pages that are needed again are mapped from the page cache, at about a
/// microsecond for sixteen pages.
///
/// # Errors
/// Fails if the kernel does not report the mappings, or refuses to unmap them. The only effect is higher memory use.
fn release_code() -> io::Result<()> {
    // A debugger has written breakpoints into these pages, which unmapping would remove.
    if is_traced(&fs::read_to_string("/proc/self/status")?) {
        return Ok(());
    }
    let program = fs::read_link("/proc/self/exe")?;
    for (start, length) in code_mappings(&fs::read_to_string("/proc/self/maps")?, &program) {
        unmap(start, length)?;
    }
    Ok(())
}

/// Returns true if a debugger is attached.
fn is_traced(status: &str) -> bool {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_none_or(|tracer| tracer.trim() != "0")
}

/// Maximum number of heaps that threads share. By default, the C library creates up to eight per core and returns
/// little of their memory: indexing documents, which moves data between threads, retained three times the memory it
/// needed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAX_HEAPS: libc::c_int = 2;

/// Size in bytes from which a block is mapped separately and returned to the kernel when it is freed. Without this
/// setting, the C library raises its threshold, up to 32 MB, each time such a block is freed. Later blocks then leave
/// holes in the heaps: indexing needed a quarter more memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: libc::c_int = 1 << 20;

/// Limits the number of heaps, and allocates large blocks outside of them. Must be called before any thread is started.
#[allow(unsafe_code, reason = "no safe wrapper exists")]
pub(crate) fn bound_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (setting, value) in [
        (libc::M_ARENA_MAX, MAX_HEAPS),
        (libc::M_MMAP_THRESHOLD, LARGE_BLOCK),
        // Amount of free memory at the end of a heap that triggers a trim: twice the block size, as in the C library.
        (libc::M_TRIM_THRESHOLD, 2 * LARGE_BLOCK),
    ] {
        // SAFETY: the call takes two numbers and sets one of the allocator's parameters under the allocator's own lock.
        // An unknown parameter is rejected and changes nothing.
        unsafe {
            libc::mallopt(setting, value);
        }
    }
}

/// Returns the mappings of a program's code, as address and length in bytes: readable, executable, private and not
/// writable.
fn code_mappings<'a>(maps: &'a str, program: &'a Path) -> impl Iterator<Item = (usize, usize)> + 'a {
    maps.lines().filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace();
        let (range, rights) = (fields.next()?, fields.next()?);
        // The fields between are offset, device and inode. A path with blanks does not match, so the code at that path
        // stays mapped.
        if rights != "r-xp" || Path::new(fields.nth(3)?) != program || fields.next().is_some() {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        Some((start, end.checked_sub(start)?))
    })
}

#[allow(unsafe_code, reason = "an address is a number, and only this function knows what is mapped there")]
fn unmap(start: usize, length: usize) -> io::Result<()> {
    // SAFETY: the range is a private file mapping without write permission, and code has no relocations. No page
    // therefore differs from the file, except for a debugger's breakpoints, which are checked for above. The kernel
    // reads pages that are accessed later from the file again, with the same bytes, so other threads may execute code
    // in the range in the meantime. The kernel refuses a range that is no longer mapped.
    let outcome = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Time without activity after which the daemon is idle. Longer than the gap between two turns of a script.
const IDLE_AFTER: Duration = Duration::from_secs(5);
/// Interval between checks, after work has begun.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Returns memory after the start, and each time the daemon becomes idle after work. Ends when the engine is dropped.
pub(crate) async fn follow(activity: watch::Receiver<Activity>) {
    on_each_idle(activity, || async {
        // Trimming runs on a blocking thread: it holds the allocator's locks, and takes milliseconds if much memory was
        // freed.
        let _ = tokio::task::spawn_blocking(release_memory).await;
    })
    .await;
}

/// Runs `action` immediately, and each time nothing has changed for [`IDLE_AFTER`] and no turn is running. Further work
/// delays `action`, and each idle period triggers it once. Ends when the engine is dropped.
async fn on_each_idle<Done: Future<Output = ()>>(mut activity: watch::Receiver<Activity>, action: impl Fn() -> Done) {
    loop {
        action().await;
        if activity.changed().await.is_err() || wait_until_idle(&mut activity).await.is_err() {
            return;
        }
    }
}

/// Returns when the daemon is idle, or fails when the engine is dropped. Polls instead of waiting for changes: each
/// turn causes two changes, and waking up for them would delay the turn's first token.
async fn wait_until_idle(activity: &mut watch::Receiver<Activity>) -> Result<(), RecvError> {
    let mut idle_time = Duration::ZERO;
    while idle_time < IDLE_AFTER {
        sleep(CHECK_INTERVAL).await;
        let has_changed = activity.has_changed()?;
        let is_idle = activity.borrow_and_update().is_quiet() && !has_changed;
        idle_time = if is_idle { idle_time + CHECK_INTERVAL } else { Duration::ZERO };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    #[test]
    fn only_own_executable_mappings_are_found() {
        let maps = "\
            1000-2000 r--p 00000000 fe:00 12 /bin/agentd\n\
            2000-5000 r-xp 00001000 fe:00 12 /bin/agentd\n\
            5000-6000 rwxp 00004000 fe:00 12 /bin/agentd\n\
            6000-7000 rw-p 00005000 fe:00 12 /bin/agentd\n\
            7000-8000 r-xp 00001000 fe:00 13 /lib/libc.so.6\n\
            8000-9000 r-xp 00001000 fe:00 12 /bin/agentd (deleted)\n\
            9000-a000 r-xp 00000000 00:00 0 [vdso]\n\
            nonsense\n";
        let found: Vec<_> = code_mappings(maps, Path::new("/bin/agentd")).collect();
        assert_eq!(found, [(0x2000, 0x3000)]);
    }

    #[test]
    fn attached_debugger_is_detected() {
        assert!(!is_traced("Name:\tagentd\nTracerPid:\t0\n"));
        assert!(is_traced("TracerPid:\t12\n") && is_traced("Name:\tagentd\n"));
    }

    #[test]
    fn released_code_still_runs() {
        release_code().unwrap();
        assert_eq!(fs::read_link("/proc/self/exe").unwrap(), std::env::current_exe().unwrap());
    }

    const WORKING: Activity = Activity { sessions: 1, open_turns: 1, waiting_turns: 0 };
    const WAITING: Activity = Activity { sessions: 1, open_turns: 1, waiting_turns: 1 };
    const LOADED: Activity = Activity { sessions: 1, open_turns: 0, waiting_turns: 0 };

    struct World {
        activity: watch::Sender<Activity>,
        releases: Arc<AtomicUsize>,
    }

    impl World {
        async fn new() -> Self {
            let (activity, receiver) = watch::channel(Activity::default());
            let releases = Arc::<AtomicUsize>::default();
            let counter = releases.clone();
            tokio::spawn(on_each_idle(receiver, move || {
                let counter = counter.clone();
                async move {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }));
            let world = Self { activity, releases };
            world.after(Duration::from_millis(1)).await;
            world
        }

        /// Advances the paused clock by `time` and returns the number of idle periods so far.
        async fn after(&self, time: Duration) -> usize {
            sleep(time).await;
            self.releases.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn releases_once_after_start_and_after_work_has_ended() {
        let world = World::new().await;
        assert_eq!(world.after(IDLE_AFTER * 100).await, 1);
        world.activity.send_replace(WORKING);
        assert_eq!(world.after(IDLE_AFTER * 100).await, 1, "a running turn is not idle time");
        world.activity.send_replace(LOADED);
        assert_eq!(world.after(IDLE_AFTER / 2).await, 1, "the next turn may start right away");
        assert_eq!(world.after(IDLE_AFTER * 100).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn consecutive_turns_postpone_the_release() {
        let world = World::new().await;
        for _ in 0..20 {
            world.activity.send_replace(WORKING);
            sleep(IDLE_AFTER / 4).await;
            world.activity.send_replace(LOADED);
            assert_eq!(world.after(IDLE_AFTER / 2).await, 1);
        }
        assert_eq!(world.after(IDLE_AFTER * 2).await, 2);
        world.activity.send_replace(WORKING);
        sleep(IDLE_AFTER).await;
        world.activity.send_replace(WAITING);
        assert_eq!(world.after(IDLE_AFTER * 2).await, 3, "a turn that waits for the user counts as idle");
    }

    #[tokio::test(start_paused = true)]
    async fn release_task_ends_with_the_engine() {
        for next in [None, Some(WORKING), Some(LOADED)] {
            let (activity, receiver) = watch::channel(Activity::default());
            let task = tokio::spawn(on_each_idle(receiver, || async {}));
            sleep(IDLE_AFTER * 2).await;
            if let Some(next) = next {
                activity.send_replace(next);
                sleep(IDLE_AFTER / 2).await;
            }
            drop(activity);
            task.await.unwrap();
        }
    }
}

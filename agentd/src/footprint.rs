//! Memory footprint: when the daemon becomes idle, it returns memory that only the previous work needed.

use std::{fs, io, path::Path, time::Duration};

use agentd_engine::Activity;
use nix::libc;
use tokio::{
    sync::watch::{self, error::RecvError},
    time::sleep,
};

/// Returns memory that the next work does not need: freed heap memory, and code pages of the previous work.
fn release_memory() {
    crate::documents::release_memory();
    if let Err(error) = forget_code() {
        tracing::debug!(%error, "could not unmap unused code");
    }
}

/// Unmaps the pages of the program's code. Most mapped pages were only needed by the previous work, and the kernel maps
/// sixteen around each that is touched. Pages that are needed again are mapped from the page cache, at about a
/// microsecond for sixteen pages.
///
/// # Errors
/// Fails if the kernel does not report the mappings, or refuses. The only effect is higher memory use.
fn forget_code() -> io::Result<()> {
    // A debugger has written its breakpoints into these pages.
    if is_traced(&fs::read_to_string("/proc/self/status")?) {
        return Ok(());
    }
    let program = fs::read_link("/proc/self/exe")?;
    for (start, length) in code(&fs::read_to_string("/proc/self/maps")?, &program) {
        forget(start, length)?;
    }
    Ok(())
}

/// Returns true if a debugger is attached.
fn is_traced(status: &str) -> bool {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_none_or(|tracer| tracer.trim() != "0")
}

/// Maximum number of heaps that threads share. The C library creates up to eight per core and returns little of them:
/// indexing documents, whose parts move between threads, retained three times the memory it needed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: libc::c_int = 2;

/// Size in bytes from which a block is mapped separately and returned to the kernel when it is freed. The C library
/// raises its own threshold up to 32 MB with each such block that is freed, and later blocks then leave holes in the
/// heaps: indexing needed a quarter more.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: libc::c_int = 1 << 20;

/// Limits the number of heaps, and keeps large blocks out of them. Must be called before any thread is started.
#[allow(unsafe_code, reason = "there is no wrapper")]
pub(crate) fn bound_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (setting, value) in [
        (libc::M_ARENA_MAX, HEAPS),
        (libc::M_MMAP_THRESHOLD, LARGE_BLOCK),
        // Free memory at the end of a heap that triggers a trim: twice the block size, as in the C library.
        (libc::M_TRIM_THRESHOLD, 2 * LARGE_BLOCK),
    ] {
        // SAFETY: the call takes two numbers and sets one of the allocator's parameters under the allocator's own lock.
        // It refuses a parameter that it does not know, and then nothing changes.
        unsafe {
            libc::mallopt(setting, value);
        }
    }
}

/// Mappings of a program's code, as address and length in bytes: readable, executable, private and not writable.
fn code<'a>(maps: &'a str, program: &'a Path) -> impl Iterator<Item = (usize, usize)> + 'a {
    maps.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        // Offset, device and inode come between. A path with blanks does not match, and its code stays mapped.
        if rights != "r-xp" || Path::new(words.nth(3)?) != program || words.next().is_some() {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        Some((start, end.checked_sub(start)?))
    })
}

#[allow(unsafe_code, reason = "an address is a number, and only we can say what lies there")]
fn forget(start: usize, length: usize) -> io::Result<()> {
    // SAFETY: the range is a private file mapping without write permission, and code has no relocations. So no page
    // differs from the file, except for a debugger's breakpoints, which are checked for before. The kernel reads pages
    // that are touched later from the file again, with the same bytes, so other threads may run in the range meanwhile.
    // The kernel refuses a range that is no longer mapped.
    let outcome = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Time without a change after which the daemon counts as idle. Longer than the gap between two turns of a script.
const PAUSE: Duration = Duration::from_secs(5);
/// Interval of the check, after work has begun.
const LOOK: Duration = Duration::from_secs(1);

/// Returns memory now, after the start, and each time the daemon becomes idle after work. Ends when the engine is gone.
pub(crate) async fn follow(activity: watch::Receiver<Activity>) {
    each_rest(activity, || async {
        // Trimming takes the allocator's locks, and milliseconds if much was freed.
        let _ = tokio::task::spawn_blocking(release_memory).await;
    })
    .await;
}

/// Runs `action` at once, and each time nothing has changed for [`PAUSE`] and no turn is running. Further work delays
/// it, and one idle period triggers it once. Ends with the engine.
async fn each_rest<Done: Future<Output = ()>>(mut activity: watch::Receiver<Activity>, action: impl Fn() -> Done) {
    loop {
        action().await;
        if activity.changed().await.is_err() || until_rest(&mut activity).await.is_err() {
            return;
        }
    }
}

/// Returns when the daemon is idle, or fails when the engine is gone. It polls instead of waiting for changes: each
/// turn causes two, and waking up would delay the turn's first token.
async fn until_rest(activity: &mut watch::Receiver<Activity>) -> Result<(), RecvError> {
    let mut still = Duration::ZERO;
    while still < PAUSE {
        sleep(LOOK).await;
        let has_changed = activity.has_changed()?;
        let is_still = activity.borrow_and_update().is_quiet() && !has_changed;
        still = if is_still { still + LOOK } else { Duration::ZERO };
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
        let found: Vec<_> = code(maps, Path::new("/bin/agentd")).collect();
        assert_eq!(found, [(0x2000, 0x3000)]);
    }

    #[test]
    fn attached_debugger_is_detected() {
        assert!(!is_traced("Name:\tagentd\nTracerPid:\t0\n"));
        assert!(is_traced("TracerPid:\t12\n") && is_traced("Name:\tagentd\n"));
    }

    #[test]
    fn released_code_still_runs() {
        forget_code().unwrap();
        assert_eq!(fs::read_link("/proc/self/exe").unwrap(), std::env::current_exe().unwrap());
    }

    const WORKING: Activity = Activity { sessions: 1, open_turns: 1, waiting_turns: 0 };
    const WAITING: Activity = Activity { sessions: 1, open_turns: 1, waiting_turns: 1 };
    const LOADED: Activity = Activity { sessions: 1, open_turns: 0, waiting_turns: 0 };

    struct World {
        activity: watch::Sender<Activity>,
        rests: Arc<AtomicUsize>,
    }

    impl World {
        async fn new() -> Self {
            let (activity, receiver) = watch::channel(Activity::default());
            let rests = Arc::<AtomicUsize>::default();
            let counter = rests.clone();
            tokio::spawn(each_rest(receiver, move || {
                let counter = counter.clone();
                async move {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }));
            let world = Self { activity, rests };
            world.after(Duration::from_millis(1)).await;
            world
        }

        /// Number of idle periods so far, after this time on the paused clock.
        async fn after(&self, time: Duration) -> usize {
            sleep(time).await;
            self.rests.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn releases_once_after_start_while_idle() {
        let world = World::new().await;
        assert_eq!(world.after(PAUSE * 100).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn releases_once_after_work_has_ended() {
        let world = World::new().await;
        world.activity.send_replace(WORKING);
        assert_eq!(world.after(PAUSE * 100).await, 1, "a turn at work is no rest");
        world.activity.send_replace(LOADED);
        assert_eq!(world.after(PAUSE / 2).await, 1, "it may go on at once");
        assert_eq!(world.after(PAUSE * 100).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn consecutive_turns_postpone_the_release() {
        let world = World::new().await;
        for _ in 0..20 {
            world.activity.send_replace(WORKING);
            sleep(PAUSE / 4).await;
            world.activity.send_replace(LOADED);
            assert_eq!(world.after(PAUSE / 2).await, 1);
        }
        assert_eq!(world.after(PAUSE * 2).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn turn_waiting_for_the_user_counts_as_idle() {
        let world = World::new().await;
        world.activity.send_replace(WORKING);
        sleep(PAUSE).await;
        world.activity.send_replace(WAITING);
        assert_eq!(world.after(PAUSE * 2).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn release_task_ends_with_the_engine() {
        for at in [None, Some(WORKING), Some(LOADED)] {
            let (activity, receiver) = watch::channel(Activity::default());
            let following = tokio::spawn(each_rest(receiver, || async {}));
            sleep(PAUSE * 2).await;
            if let Some(at) = at {
                activity.send_replace(at);
                sleep(PAUSE / 2).await;
            }
            drop(activity);
            following.await.unwrap();
        }
    }
}

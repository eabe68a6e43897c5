//! Memory footprint of the program: whenever the daemon comes to rest, it gives back what only the work before needed.

use std::{fs, io, path::Path, time::Duration};

use agentd_engine::Activity;
use nix::libc;
use tokio::{
    sync::watch::{self, error::RecvError},
    time::sleep,
};

/// Gives back what the next piece of work may do without: freed memory, and the code that the last one ran.
fn give_back() {
    crate::documents::give_back();
    if let Err(error) = forget_code() {
        tracing::debug!(%error, "the code that was needed stays mapped");
    }
}

/// Lets go of the pages of the program's code: most of those that are mapped by now only the work before needed, and
/// the kernel maps sixteen around each that is touched. What is needed again is mapped again from the page cache, at
/// about a microsecond for sixteen pages.
///
/// # Errors
/// If the kernel does not report the mappings, or refuses. Then only memory is lost.
fn forget_code() -> io::Result<()> {
    // Whoever looks on has put its marks into these pages.
    if is_traced(&fs::read_to_string("/proc/self/status")?) {
        return Ok(());
    }
    let program = fs::read_link("/proc/self/exe")?;
    for (start, length) in code(&fs::read_to_string("/proc/self/maps")?, &program) {
        forget(start, length)?;
    }
    Ok(())
}

/// Returns whether a debugger is attached.
fn is_traced(status: &str) -> bool {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_none_or(|tracer| tracer.trim() != "0")
}

/// Maximum number of heaps that threads share. The C library makes up to eight for each core and gives little of them
/// back: indexing documents, whose pieces go from thread to thread, left three times as much as it needed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: libc::c_int = 2;

/// Size in bytes from which a block stands alone and goes back to the kernel once it is freed. The C library raises its own limit
/// up to 32 MB with each such block that is freed, and later ones then leave holes in the heaps: indexing needed a quarter more.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: libc::c_int = 1 << 20;

/// Makes all threads share few heaps, and keeps large blocks out of them. To be called before there are any.
#[allow(unsafe_code, reason = "there is no wrapper")]
pub(crate) fn bound_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (setting, value) in [
        (libc::M_ARENA_MAX, HEAPS),
        (libc::M_MMAP_THRESHOLD, LARGE_BLOCK),
        // What is free at the end of a heap and goes back: twice as much, as the C library has it.
        (libc::M_TRIM_THRESHOLD, 2 * LARGE_BLOCK),
    ] {
        // SAFETY: it takes two numbers and sets one of the allocator's own, under the allocator's own lock. One that it
        // does not know it refuses, and then everything stays as it is.
        unsafe {
            libc::mallopt(setting, value);
        }
    }
}

/// The mappings of a program's code, as address and length in bytes: readable, executable, private, and never written
/// to.
fn code<'a>(maps: &'a str, program: &'a Path) -> impl Iterator<Item = (usize, usize)> + 'a {
    maps.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        // Offset, device and inode stand between. A name with blanks is not found, and stays mapped.
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
    // SAFETY: the range is a private mapping of a file without the right to write, and code has no relocations, so no
    // page of it differs from the file, but where a debugger has put its marks, which is looked at before. The kernel
    // reads what is touched later from the file again, with the same bytes; other threads may run in it meanwhile. A
    // range that is not mapped any more is refused by the kernel.
    let outcome = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Time without a change until the daemon counts as idle. Between two turns of a script it is at work.
const PAUSE: Duration = Duration::from_secs(5);
/// Interval of the check, after work has begun.
const LOOK: Duration = Duration::from_secs(1);

/// Gives memory back now, after the start, and each time when the daemon has come to rest after work. Returns when the
/// engine is gone.
pub(crate) async fn follow(activity: watch::Receiver<Activity>) {
    each_rest(activity, || async {
        // The allocator's part takes its locks, and milliseconds where much was freed.
        let _ = tokio::task::spawn_blocking(give_back).await;
    })
    .await;
}

/// Does something at once, and each time when nothing has changed for [`PAUSE`] and no turn is running. Further work
/// delays it, and a lasting rest triggers it once. Ends with the engine.
async fn each_rest<Done: Future<Output = ()>>(mut activity: watch::Receiver<Activity>, action: impl Fn() -> Done) {
    loop {
        action().await;
        if activity.changed().await.is_err() || until_rest(&mut activity).await.is_err() {
            return;
        }
    }
}

/// Returns when the daemon rests, or fails when the engine is gone. It looks from time to time and is not woken by what
/// changes meanwhile: each turn changes something twice, and its first word would wait for that.
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
    fn only_the_code_of_the_program_itself_is_found() {
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
    fn a_debugger_is_known() {
        assert!(!is_traced("Name:\tagentd\nTracerPid:\t0\n"));
        assert!(is_traced("TracerPid:\t12\n") && is_traced("Name:\tagentd\n"));
    }

    #[test]
    fn what_was_let_go_runs_on() {
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

        /// Number of times the daemon was idle until then, on the paused clock.
        async fn after(&self, time: Duration) -> usize {
            sleep(time).await;
            self.rests.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn once_after_the_start_and_never_again_while_nothing_happens() {
        let world = World::new().await;
        assert_eq!(world.after(PAUSE * 100).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn once_when_work_has_ended_for_a_while() {
        let world = World::new().await;
        world.activity.send_replace(WORKING);
        assert_eq!(world.after(PAUSE * 100).await, 1, "a turn at work is no rest");
        world.activity.send_replace(LOADED);
        assert_eq!(world.after(PAUSE / 2).await, 1, "it may go on at once");
        assert_eq!(world.after(PAUSE * 100).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn turn_after_turn_puts_it_off() {
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
    async fn who_waits_for_a_person_rests() {
        let world = World::new().await;
        world.activity.send_replace(WORKING);
        sleep(PAUSE).await;
        world.activity.send_replace(WAITING);
        assert_eq!(world.after(PAUSE * 2).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_engine() {
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

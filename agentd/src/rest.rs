//! Work done whenever the daemon comes to rest: it gives back the memory that only the work before needed.

use std::time::Duration;

use agentd_engine::Activity;
use tokio::{
    sync::watch::{self, error::RecvError},
    time::sleep,
};

use crate::footprint;

/// Time without a change until the daemon counts as idle. Between two turns of a script it is at work.
const PAUSE: Duration = Duration::from_secs(5);
/// Interval of the check, after work has begun.
const LOOK: Duration = Duration::from_secs(1);

/// Gives memory back now, after the start, and each time when the daemon has come to rest after work. Returns when the
/// engine is gone.
pub(crate) async fn follow(activity: watch::Receiver<Activity>) {
    each_rest(activity, || async {
        // The allocator's part takes its locks, and milliseconds where much was freed.
        let _ = tokio::task::spawn_blocking(footprint::give_back).await;
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
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

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

//! Tests of the schedule: the minutes between checks pass on the paused clock, the days are set by the test.

use tokio::{task::JoinHandle, time};

use super::*;

/// Lets the schedule check for this many minutes.
async fn looks(minutes: u64) {
    time::pause();
    time::sleep(Duration::from_secs(60 * minutes)).await;
    // The cleanup itself takes real time.
    time::resume();
}

impl World {
    fn follow(&self) -> JoinHandle<()> {
        tokio::spawn(follow(Arc::clone(&self.retention), self.engine.activity()))
    }

    async fn removed(&self, id: SessionId, file: &str) {
        until("it is removed", async || (!self.holds(id, file)).then_some(())).await;
        let told = || fs::read_to_string(self.path("audit.jsonl")).unwrap_or_default();
        until("the audit log tells who did it", async || told().contains("\"by\":\"schedule\"").then_some(())).await;
    }
}

#[tokio::test]
async fn schedule_cleans_repeatedly() {
    let world = World::new(RetentionSettings { sessions: Limit(None), ..settings() });
    let first = world.session().await;
    let following = world.follow();
    // The clock decides, not the number of checks.
    looks(100).await;
    assert!(world.holds(first, "uploads/notes.txt"), "nothing is too old");
    world.set_day(4);
    looks(1).await;
    world.removed(first, "uploads/notes.txt").await;
    assert!(world.holds(first, "outputs/report.txt"), "that is kept for longer");

    let second = world.session().await;
    world.set_day(8);
    looks(1).await;
    world.removed(second, "uploads/notes.txt").await;
    world.removed(first, "outputs/report.txt").await;
    assert!(!following.is_finished(), "it never ends");
    following.abort();
}

#[tokio::test]
async fn schedule_follows_settings_and_can_be_disabled() {
    let never = RetentionSettings { every: Limit(None), sessions: Limit(None), ..settings() };
    let world = World::new(never.clone());
    let id = world.session().await;
    let following = world.follow();
    looks(1).await;
    world.set_day(4);
    looks(100).await;
    assert!(world.holds(id, "uploads/notes.txt"), "nobody wants it");
    world.retention.follow_settings(RetentionSettings { every: days(1), ..never });
    looks(1).await;
    world.removed(id, "uploads/notes.txt").await;
    following.abort();
}

//! Tests for the schedule. The minutes between checks pass on a paused clock; the test sets the days.

use tokio::{task::JoinHandle, time};

use super::*;

/// Advances the paused clock by `minutes`, so that the schedule runs its checks.
async fn run_checks(minutes: u64) {
    time::pause();
    time::sleep(Duration::from_secs(60 * minutes)).await;
    // The cleanup itself runs in real time.
    time::resume();
}

impl World {
    fn follow(&self) -> JoinHandle<()> {
        tokio::spawn(follow(Arc::clone(&self.retention), self.engine.activity()))
    }

    async fn wait_until_removed(&self, id: SessionId, file: &str) {
        until("the file is removed", async || (!self.has_file(id, file)).then_some(())).await;
        let audit_log = || fs::read_to_string(self.path("audit.jsonl")).unwrap_or_default();
        until("the audit log names the schedule", async || audit_log().contains("\"by\":\"schedule\"").then_some(()))
            .await;
    }
}

#[tokio::test]
async fn schedule_cleans_repeatedly_and_follows_settings() {
    let world = World::new(RetentionSettings { sessions: Limit(None), ..settings() });
    let first = world.session().await;
    let task = world.follow();
    // Due times depend on the wall clock, not on the number of checks.
    run_checks(100).await;
    assert!(world.has_file(first, "uploads/notes.txt"), "nothing is expired");
    world.set_day(4);
    run_checks(1).await;
    world.wait_until_removed(first, "uploads/notes.txt").await;
    assert!(world.has_file(first, "outputs/report.txt"), "outputs are retained longer");

    let second = world.session().await;
    world.set_day(8);
    run_checks(1).await;
    world.wait_until_removed(second, "uploads/notes.txt").await;
    world.wait_until_removed(first, "outputs/report.txt").await;
    assert!(!task.is_finished(), "the schedule keeps running");

    let never = RetentionSettings { every: Limit(None), sessions: Limit(None), ..settings() };
    world.retention.follow_settings(never.clone());
    let third = world.session().await;
    world.set_day(12);
    run_checks(100).await;
    assert!(world.has_file(third, "uploads/notes.txt"), "the schedule is disabled");
    world.retention.follow_settings(RetentionSettings { every: days(1), ..never });
    run_checks(1).await;
    world.wait_until_removed(third, "uploads/notes.txt").await;
    task.abort();
}

//! The history file contains everything that compactions replaced, once and in order, despite intermediate failures.

use agentd_core::context::CompactionStrategy;
use agentd_engine::SessionHandle;
use agentd_testkit::scripted::says;

use crate::{
    compaction::{SUMMARY, compact, compactions, run_turns},
    world::World,
};

/// Runs turns and a compaction. If `full` is set, the disk is full and the file cannot be written.
async fn round(world: &World, session: &SessionHandle, turns: std::ops::Range<usize>, full: bool) {
    run_turns(world, turns, session).await;
    world.model.then(says(SUMMARY));
    world.workspaces.set_full(full);
    compact(session, CompactionStrategy::Auto).await;
    world.workspaces.set_full(false);
}

/// Returns the numbers of the questions in the history file with this name, in order.
fn questions(world: &World, session: &SessionHandle, name: &str) -> Vec<usize> {
    let path = format!("conversation_history/{name}.md");
    let text = String::from_utf8(world.workspaces.kept(session.id(), &path).unwrap()).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("Question "));
    lines.map(|number| number.parse().unwrap()).collect()
}

#[tokio::test]
async fn failed_history_write_is_retried_at_next_compaction() {
    let (world, session) = World::new([]).begun().await;
    round(&world, &session, 0..10, true).await;
    round(&world, &session, 10..20, true).await;
    let failed = compactions(&world, &session);
    for done in failed.iter().filter(|done| !done.summary.is_empty()) {
        assert_eq!(done.report.path, None);
        assert!(done.report.problem.as_deref().unwrap().contains("the disk is full"), "{:?}", done.report);
    }

    // The missing part is written after a restart.
    let (world, session) = world.restarted_with_files([]).with_session(session.id()).await;
    round(&world, &session, 20..30, false).await;
    let done = compactions(&world, &session).pop().unwrap();
    assert_eq!(done.report.problem, None);
    let name = session.id().to_string();
    let numbers = questions(&world, &session, &name);
    assert!(numbers.len() > 20 && numbers.iter().copied().eq(0..numbers.len()), "{numbers:?}");

    // A later failure leaves the written part unchanged.
    round(&world, &session, 30..40, true).await;
    session.undo_compaction().await.unwrap();
    round(&world, &session, 40..50, true).await;
    round(&world, &session, 50..60, false).await;
    let numbers = questions(&world, &session, &name);
    assert!(numbers.len() > 50 && numbers.iter().copied().eq(0..numbers.len()), "{numbers:?}");
}

#[tokio::test]
async fn retry_after_reset_does_not_extend_the_older_file() {
    let (world, session) = World::new([]).begun().await;
    round(&world, &session, 0..10, false).await;
    session.reset().await.unwrap();
    let reset = session.show().await.unwrap().session.window.after;
    round(&world, &session, 10..20, true).await;
    round(&world, &session, 20..30, false).await;
    let id = session.id();
    let before = questions(&world, &session, &id.to_string());
    assert!(before.iter().all(|number| *number < 10), "{before:?}");
    let questions_after_reset = questions(&world, &session, &format!("{id}-{reset}"));
    assert!(
        questions_after_reset.len() > 10
            && questions_after_reset.iter().copied().eq(10..10 + questions_after_reset.len()),
        "{questions_after_reset:?}"
    );
    assert_eq!(world.workspaces.kept_paths(id).len(), 2);
}

#[tokio::test]
async fn recompacted_turns_occur_once_in_the_history_file() {
    let (world, session) = World::new([]).begun().await;
    round(&world, &session, 0..10, false).await;
    for _ in 0..3 {
        session.undo_compaction().await.unwrap();
        round(&world, &session, 10..10, false).await;
    }
    let name = session.id().to_string();
    let first = questions(&world, &session, &name);
    assert!(first.len() > 3 && first.iter().copied().eq(0..first.len()), "{first:?}");
    round(&world, &session, 10..20, false).await;
    let numbers = questions(&world, &session, &name);
    assert!(numbers.len() > 11 && numbers.iter().copied().eq(0..numbers.len()), "after the first piece: {numbers:?}");
}

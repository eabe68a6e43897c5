//! A damaged, missing or replaced journal: losses are reported, and all other data is preserved. [`lost`]: files that
//! disappear, with the log or while no daemon was running.

mod lost;

use super::*;

/// Damages the journal as a bad disk would. The daemon must be stopped.
pub(super) fn damage_journal(world: &World, sql: &str) {
    let run = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as journal: journal.execute(sys.argv[2])";
    let journal = world.data().join("agentd.db");
    let output = Command::new("python3").args(["-c", run]).arg(journal).arg(sql).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn damage(world: &World, session: &str, seq: u64) {
    let id = session.replace('-', "");
    damage_journal(
        world,
        &format!(
            "UPDATE events SET payload = substr(payload, 1, 20)
             WHERE seq = {seq} AND session = (SELECT key FROM sessions WHERE id = '{id}')"
        ),
    );
}

/// Runs a turn with a call that changes the session's own state.
async fn run_state_turn(world: &World) -> (String, u64) {
    world.model.reply(Reply::tool_call("todo_write", json!({"todos": [{"content": "Tidy", "status": "pending"}]})));
    world.model.reply(Reply::text("It is noted."));
    let session = world.ok(["run", "Note it", "--output", "json"]).await.session();
    let shown = world.json(["sessions", "show", &session]).await;
    (session, shown["last_seq"].as_u64().unwrap())
}

#[tokio::test]
async fn damaged_event_is_marked_and_its_session_stays_usable() {
    let mut world = World::start().await;
    // Some sessions get more text than the first one.
    let mut sessions = vec![run_state_turn(&world).await];
    while (sessions.len() as u64) < sessions[0].1 {
        sessions.push(run_state_turn(&world).await);
    }
    assert_eq!(world.daemon.sigterm().await, Some(0));
    for ((session, _), seq) in sessions.iter().zip(1..) {
        damage(&world, session, seq);
    }
    world.daemon.restart().await;
    world.model.default_reply(Reply::text("I am still here."));
    let doctor = world.agentctl(["doctor"]).await.exits(2).stdout;
    for ((session, last_seq), seq) in sessions.iter().zip(1_u64..) {
        assert!(doctor.contains(&format!("session {session} has damaged events: {seq}")), "{doctor}");
        let daemon = &world.daemon;
        let output = daemon.ok(["attach", session, "--after", "0", "--output", "stream-json"]).await;
        let numbers = |lines: &[Value]| -> Vec<u64> { lines.iter().filter_map(|line| line["seq"].as_u64()).collect() };
        let lines = output.json_lines();
        assert_eq!(numbers(&lines), (1..=*last_seq).collect::<Vec<_>>(), "event {seq}");
        let marked = lines.iter().find(|line| line["seq"] == seq).unwrap();
        holds(marked, json!({"type": "warning", "code": "damaged_event"}));

        daemon.ok(["sessions", "show", session]).await;
        daemon.ok(["context", session]).await;
        let ran = daemon.ok(["run", "Are you there?", "--session", session]).await;
        assert_eq!(ran.stdout, "I am still here.\n", "event {seq}");
        let fork = daemon.json(["sessions", "fork", session]).await;
        daemon.ok(["run", "And you?", "--session", fork["session_id"].as_str().unwrap()]).await;
        daemon.ok(["sessions", "reset", session]).await;
        daemon.ok(["sessions", "delete", session, "--yes"]).await;
        daemon.agentctl(["sessions", "show", session]).await.exits(2);
    }
    assert_eq!(world.model.refusals(), Vec::<String>::new(), "every call has a result");
}

/// If the question is unreadable, nothing is approved.
#[tokio::test]
async fn turn_with_a_damaged_event_ends_and_runs_nothing() {
    for (kind, is_asked) in [("turn_started", true), ("interrupt_raised", true), ("interrupt_resolved", false)] {
        let mut world = World::start().await;
        world.model.reply(Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"})));
        let mut running = world.spawn_agentctl(["run", "Write", "--on-interrupt", "wait", "--output", "stream-json"]);
        let (raised, _) = running.event("interrupt_raised").await;
        let session = raised["session_id"].as_str().unwrap().to_owned();
        let interrupt = raised["interrupt"]["id"].as_str().unwrap().to_owned();
        if !is_asked {
            world.model.reply(Reply::never());
            world.ok(["answer", &interrupt, "reject"]).await;
            world.model.wait_until(|counts| counts.requests >= 2).await;
        }
        world.daemon.kill9().await;
        drop(running);
        damage_journal(&world, &format!("UPDATE events SET payload = substr(payload, 1, 20) WHERE kind = '{kind}'"));
        world.daemon.restart().await;
        assert_ne!(world.agentctl(["answer", &interrupt, "approve"]).await.code, Some(0), "{kind}");
        assert_eq!(world.json(["interrupts"]).await, json!([]), "{kind}");
        let shown = world.ok(["sessions", "show", &session, "--json"]).await.stdout;
        assert!(!shown.contains("never ran"), "{kind}: {shown}");
        assert!(!world.data().join("workspace").join(&session).join("outputs/a.txt").exists(), "{kind}");
        world.model.reply(Reply::text("I am still here."));
        world.ok(["run", "Go on", "--session", &session]).await;
    }
}

#[tokio::test]
async fn removed_or_replaced_journal_refuses_turns() {
    let world = World::start().await;
    let daemon = &world.daemon;
    daemon.ok(["run", "before"]).await;
    for name in ["agentd.db", "agentd.db-wal"] {
        let (file, aside) = (daemon.data().join(name), daemon.data().join("aside"));
        fs::rename(&file, &aside).unwrap();
        daemon.agentctl(["run", "lost"]).await.exits(1).says(&[name, "was removed", "docs/operations.md"]);
        daemon.agentctl(["doctor"]).await.exits(2).shows(&["was removed"]);
        has_all(&daemon.json(["status"]).await["problems"].to_string(), &["was removed"]);
        fs::write(&file, "another one").unwrap();
        daemon.agentctl(["run", "lost"]).await.exits(1).says(&[name, "was replaced"]);
        until_true("the log reports the changed journal", || daemon.log().contains("was re")).await;
        fs::rename(&aside, &file).unwrap();
        daemon.ok(["run", "after"]).await;
    }
}

#[tokio::test]
async fn lost_journal_is_reported_at_start() {
    for is_removed in [true, false] {
        let mut world = World::start().await;
        run_state_turn(&world).await;
        assert_eq!(world.daemon.sigterm().await, Some(0));
        let journal = world.data().join("agentd.db");
        if is_removed { fs::remove_file(&journal) } else { fs::write(&journal, "") }.unwrap();
        world.daemon.restart().await;
        let daemon = &world.daemon;
        until("the log reports the loss", || async {
            let log = daemon.log();
            (log.contains("workspace/ has files of sessions") && log.contains("newer than the audit log")).then_some(())
        })
        .await;
        daemon.ok(["doctor"]).await.shows(&["that are not in the journal"]);
    }
}

/// A damaged page does not prevent the deletion of its session. The content of the page is not reported as erased.
#[tokio::test]
async fn deleted_session_that_cannot_be_erased_is_reported() {
    let mut world = World::with_reply("So be it.").await;
    let long_text = "the walnut is in the drawer; ".repeat(100);
    let session = world.ok(["run", &long_text, "--output", "json"]).await.session();
    // Keeps content of the other session off the damaged page.
    world.ok(["run", &long_text, "--session", &session]).await;
    let (other, _) = run_state_turn(&world).await;
    assert_eq!(world.daemon.sigterm().await, Some(0));
    let journal = world.data().join("agentd.db");
    let mut bytes = fs::read(&journal).unwrap();
    // Finds the first page with rows that contain the text.
    let holds = |page: &[u8]| page[0] == 0x0d && page.windows(long_text.len()).any(|part| part == long_text.as_bytes());
    bytes.chunks_mut(4096).find(|page| holds(page)).unwrap().fill(0xa5);
    fs::write(&journal, bytes).unwrap();

    for round in 0..2 {
        world.daemon.restart().await;
        if round == 0 {
            // Before the deletion, the session only lacks the content of the damaged page, and can be continued.
            for command in [&["sessions", "show"][..], &["run", "Go on", "--session"]] {
                world.ok([command, &[session.as_str()]].concat()).await;
            }
        }
        for session in [&session, &other] {
            // The second deletion erases the events.
            world.agentctl(["sessions", "delete", session, "--yes"]).await;
        }
        assert_eq!(world.json(["sessions", "list"]).await, json!([]));
        until("every action was tried", || async {
            let storage = world.json(["storage"]).await;
            (storage["stuck_sessions"] == 1 && storage["removed_sessions"] == 0).then_some(())
        })
        .await;
        world.ok(["storage"]).await.says(&["1 deleted session cannot be overwritten"]);
        world.agentctl(["doctor"]).await.exits(2).shows(&["1 deleted session is still in agentd.db"]);
        assert_eq!(world.daemon.sigterm().await, Some(0));
    }
    world.daemon.restart().await;
    world.still_serves().await;
}

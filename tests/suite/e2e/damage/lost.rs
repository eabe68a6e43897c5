//! Missing journal files: the loss is reported for each session that had data in them.

use std::fs::OpenOptions;

use super::*;

/// Message that reports a missing log.
const LOST: &str = "the journal lost its newest part";

fn set_length(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

async fn doctor(world: &World, code: i32) -> String {
    world.agentctl(["doctor"]).await.exits(code).stdout
}

/// Function that removes data from a data folder.
type LossMethod = fn(&Path);

/// A session without tool calls has no folder that would reveal the loss, and all its events may still be in the log.
#[tokio::test]
async fn lost_wal_after_a_kill_is_reported_until_acknowledged() {
    let cases: [(&str, LossMethod); 3] = [
        ("was missing", |log| fs::remove_file(log).unwrap()),
        ("empty", |log| set_length(log, 0)),
        ("shorter", |log| set_length(log, 2_000)),
    ];
    for (text, lose) in cases {
        let mut world = World::start().await;
        world.ok(["run", "before"]).await;
        world.daemon.restart().await;
        world.ok(["run", "Remember the walnut"]).await;
        world.daemon.kill9().await;
        lose(&world.daemon.data().join("agentd.db-wal"));
        world.daemon.restart().await;
        until_true("the log reports the loss", || world.log().contains(LOST)).await;

        // The loss is also reported after the next start, and everything else works.
        world.still_serves().await;
        world.daemon.restart().await;
        let report = doctor(&world, 2).await;
        assert!(
            report.contains(LOST) && report.contains(text) && report.contains("agentd.db-lost"),
            "{text}: {report}"
        );
        let status = world.json(["status"]).await;
        assert!(status["problems"].to_string().contains(LOST), "{text}: {status}");

        fs::remove_file(world.data().join("agentd.db-lost")).unwrap();
        let report = doctor(&world, 0).await;
        assert!(!report.contains(LOST), "{text}: reported again after it was seen: {report}");
    }
}

#[tokio::test]
async fn kill_alone_reports_no_loss() {
    let mut world = World::start().await;
    // Long enough that deleting the session takes a while.
    let text: String = (0..100_000).map(|number| format!("{number} ")).collect();
    let pieces = text.as_bytes().chunks(1 << 16).map(|piece| String::from_utf8_lossy(piece).into_owned());
    world.model.default_reply(Reply::deltas(pieces));
    for text in ["", "Say something", ""] {
        if !text.is_empty() {
            let result = world.ok(["run", text, "--output", "json"]).await.json();
            // A deletion truncates the log while the daemon runs.
            let session = result["session_id"].as_str().unwrap();
            world.ok(["sessions", "delete", session, "--yes"]).await;
            let log = world.data().join("agentd.db-wal");
            until_true("the log is empty", || log.metadata().unwrap().len() == 0).await;
        }
        world.daemon.crash().await;
        assert!(!doctor(&world, 0).await.contains(LOST), "{text:?}");
    }
    assert_eq!(world.daemon.sigterm().await, Some(0));
    assert!(!world.data().join("agentd.db-open").exists(), "a clean stop removes the marker file");
}

/// All data of a new journal is in its log, which SQLite would discard along with an empty database.
#[tokio::test]
async fn wal_without_its_database_is_kept() {
    let mut world = World::start().await;
    let (session, _) = run_state_turn(&world).await;
    world.daemon.kill9().await;
    let (journal, log) = (world.data().join("agentd.db"), world.data().join("agentd.db-wal"));
    let (stored, logged) = (fs::read(&journal).unwrap(), fs::read(&log).unwrap());
    for is_removed in [false, true] {
        if is_removed {
            fs::remove_file(&journal).unwrap()
        } else {
            set_length(&journal, 0)
        }
        world.agentctl(["start"]).await.fails().says(&["agentd.db", "agentd.db-wal", "hint:"]);
        assert!(fs::read(&log).unwrap() == logged, "the log is unchanged");
    }
    fs::write(&journal, stored).unwrap();
    world.daemon.restart().await;
    world.ok(["sessions", "show", &session]).await;
    doctor(&world, 0).await;
}

#[tokio::test]
async fn missing_data_folder_refuses_all_changes() {
    let mut world = World::start().await;
    let (session, last_seq) = run_state_turn(&world).await;
    world.model.default_reply(Reply::text("I am still here."));
    let (data, aside) = (world.data(), world.path().join("aside"));
    let note = world.write("note.txt", "words").display().to_string();
    fs::rename(&data, &aside).unwrap();
    for args in [
        &["run", "lost"][..],
        &["run", "lost", "--session", &session],
        &["sessions", "rename", &session, "lost"],
        &["sessions", "fork", &session],
        &["sessions", "reset", &session],
        &["sessions", "delete", &session, "--yes"],
        &["files", "put", &session, "uploads/note.txt", &note],
        &["grants", "add", "run_bash_command: make"],
    ] {
        let output = world.agentctl(args).await;
        assert!(output.code.is_some_and(|code| code != 0), "{args:?} was acknowledged: {output:?}");
    }
    has_all(&doctor(&world, 2).await, &["was removed"]);
    let status = world.json(["status"]).await;
    assert!(status["problems"].to_string().contains("was removed"), "{status}");

    let left: Vec<_> = fs::read_dir(&data).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new(), "no file is created in place of the lost folder");
    let _ = fs::remove_dir(&data);
    fs::rename(&aside, &data).unwrap();
    let shown = world.json(["sessions", "show", &session]).await;
    assert_eq!(shown["last_seq"], last_seq, "a rejected request stores no event");
    world.ok(["run", "after", "--session", &session]).await;
    world.daemon.crash().await;
    doctor(&world, 0).await;
    let listed = world.json(["sessions", "list"]).await;
    let ids: Vec<&Value> = listed.as_array().unwrap().iter().map(|session| &session["id"]).collect();
    assert_eq!(ids, [&json!(session)], "a rejected request has no effect");
    assert_eq!(world.json(["grants", "list"]).await, json!([]));
}

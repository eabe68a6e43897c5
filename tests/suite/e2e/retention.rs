//! Removal of data that has not been used for a long time, by command and across crashes, and the reported disk usage.

use super::*;

/// Settings that make sessions old after a second.
const SHORT_RETENTION: &str = "sessions: {idle_unload: 50ms}
retention: {every: never, workspaces: 1s, outputs: 1s, results: 1s, undo: 1s}
";

/// Starts a daemon whose model writes a report on request.
async fn world() -> World {
    World::configured(SHORT_RETENTION).await
}

/// Creates a session with a report. Returns the session and the path of the report.
async fn session_with_report(world: &World) -> (String, PathBuf) {
    world.model.respond_with(|request| match request.last_role() {
        "user" if request.last_user().contains("report") => {
            Reply::tool_call("write_file", json!({"path": "outputs/report.txt", "content": "the report\n"}))
        }
        _ => Reply::text("So be it."),
    });
    let id = world.ok(["run", "Write a report", "--on-interrupt", "approve", "--output", "json"]).await.session();
    let report = world.data().join("workspace").join(&id).join("outputs/report.txt");
    assert!(report.exists(), "{}", world.log());
    (id, report)
}

async fn clean(world: &World, args: &[&str]) -> Value {
    world.ok(["clean", "--json"].iter().chain(args)).await.json()
}

fn parts(report: &Value) -> Vec<&str> {
    report["parts"].as_array().unwrap().iter().map(|part| part["part"].as_str().unwrap()).collect()
}

/// Waits until `sessions` sessions have data that is old enough.
async fn wait_until_old(world: &World, sessions: u64) {
    until("the files are old enough", || async {
        let report = clean(world, &["--dry-run"]).await;
        let outputs = report["parts"].as_array()?.iter().find(|part| part["part"] == "outputs")?.clone();
        (outputs["sessions"].as_u64()? == sessions).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clean_removes_old_files_and_the_session_stays_usable() {
    let world = world().await;
    let (id, report) = session_with_report(&world).await;
    let storage = world.json(["storage"]).await;
    let bytes = |part: &str| {
        let parts = storage["parts"].as_array().unwrap();
        parts.iter().find(|known| known["part"] == part).unwrap()["bytes"].as_u64().unwrap()
    };
    assert!(bytes("journal") > 0 && bytes("audit") > 0 && bytes("workspaces") > 0, "{storage}");
    world.ok(["storage"]).await.shows(&["workspaces", "in total", "free on the disk"]);

    wait_until_old(&world, 1).await;
    assert!(report.exists(), "a dry run removes nothing");
    let cleaned = clean(&world, &[]).await;
    assert_eq!(parts(&cleaned), ["outputs", "undo"], "{cleaned}");
    assert!(!report.exists());
    let again = world.ok(["clean"]).await.stdout;
    assert!(again.contains("nothing is old enough to be removed"), "{again}");

    // The complete history is still available, and reports the removal to the user and the model.
    let shown = world.ok(["sessions", "show", &id]).await.stdout;
    assert!(shown.contains("were removed to save space: outputs/ (1 file)"), "{shown}");
    assert!(shown.contains("Write a report") && shown.contains("So be it."), "{shown}");
    world.ok(["run", "--session", &id, "Go on"]).await;
    has_all(&world.model.requests().last().unwrap().body.to_string(), &["outputs/ (1 file)"]);
    // Writing another report creates the session's files again.
    world.ok(["run", "--session", &id, "Another report", "--on-interrupt", "approve"]).await;
    assert_eq!(fs::read_to_string(&report).unwrap(), "the report\n");

    let audit = world.json(["audit"]).await;
    let record = audit.as_array().unwrap().iter().find(|record| record["kind"] == "cleaned").unwrap();
    assert_eq!((&record["by"], &record["parts"][0]["part"]), (&json!("agentctl"), &json!("outputs")));
    world.ok(["audit", "verify"]).await;
    assert!(world.ok(["audit"]).await.stdout.contains("cleaned"));
}

#[tokio::test]
async fn clean_skips_pinned_and_waiting_sessions() {
    let world = world().await;
    let (pinned, report) = session_with_report(&world).await;
    world.ok(["sessions", "pin", &pinned]).await;
    world.ok(["sessions", "show", &pinned]).await.shows(&["pinned"]);
    let (waiting, other) = session_with_report(&world).await;
    let client = world.client().await;
    world.model.respond_with(|_| Reply::tool_call("write_file", json!({"path": "outputs/x", "content": "x"})));
    let session = SessionChoice::Existing(waiting.clone());
    let mut events = client.turn(turn(session, "Ask me")).await.unwrap();
    events.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
    drop((events, client));
    let (_, third) = session_with_report(&world).await;
    wait_until_old(&world, 1).await;
    let cleaned = clean(&world, &[]).await;
    assert!(!third.exists() && report.exists() && other.exists(), "{cleaned}");
    // The daemon detects that the session is waiting without loading it.
    assert_eq!(cleaned["kept_sessions"], 1, "{cleaned}");
    assert_eq!(world.json(["interrupts"]).await.as_array().unwrap().len(), 1);

    world.ok(["sessions", "unpin", &pinned]).await;
    wait_until_old(&world, 1).await;
    clean(&world, &[]).await;
    assert!(!report.exists() && other.exists());
}

#[tokio::test]
async fn kill_during_cleaning_does_no_harm() {
    let mut world = world().await;
    for round in 0..4_u32 {
        let (id, report) = session_with_report(&world).await;
        let folder = report.parent().unwrap().to_owned();
        for file in 0..300 {
            fs::write(folder.join(format!("{file}.txt")), "words").unwrap();
        }
        wait_until_old(&world, 1).await;
        let cleaning = world.spawn_agentctl(["clean"]);
        // The daemon is killed during the removal, at a later point in each round.
        let left = 300 - 80 * round as usize;
        until("removal has started or finished", || async {
            let files = fs::read_dir(&folder).map_or(0, Iterator::count);
            (files <= left).then_some(())
        })
        .await;
        world.daemon.kill9().await;
        drop(cleaning);
        world.daemon.restart().await;
        until("all files are removed", || async {
            clean(&world, &[]).await;
            (!report.exists() && fs::read_dir(&folder).map_or(0, Iterator::count) == 0).then_some(())
        })
        .await;
        world.ok(["sessions", "show", &id]).await.shows(&["were removed to save space"]);
        world.ok(["audit", "verify"]).await;
        world.ok(["run", "--session", &id, "Go on"]).await;
    }
    world.still_serves().await;
}

/// If the daemon is killed during a deletion, no partial session and none of its files remain after the next start.
#[tokio::test]
async fn interrupted_deletion_is_finished_at_the_next_start() {
    let mut world = world().await;
    for _ in 0..4 {
        let (id, report) = session_with_report(&world).await;
        for file in 0..300 {
            fs::write(report.with_file_name(format!("{file}.txt")), "words").unwrap();
        }
        let data = world.data();
        let workspace = data.join("workspace").join(&id);
        let deleting = world.spawn_agentctl(["sessions", "delete", &id, "--yes"]);
        until_true("the first files are removed", || !workspace.exists()).await;
        world.daemon.kill9().await;
        drop(deleting);
        world.daemon.restart().await;
        assert_eq!(world.json(["sessions", "list"]).await, json!([]), "a partial session is listed");
        until("all data of the session is removed", || async {
            let mut left = ["workspace", "undo"].iter().flat_map(|folder| fs::read_dir(data.join(folder)).into_iter());
            let belongs_to_session = |entry: fs::DirEntry| entry.file_name().to_string_lossy().contains(&id);
            (!left.any(|entries| entries.flatten().any(belongs_to_session))).then_some(())
        })
        .await;
    }
    world.still_serves().await;
}

#[tokio::test]
async fn truncated_audit_log_is_detected_without_its_head_file() {
    let mut world = world().await;
    session_with_report(&world).await;
    world.ok(["audit", "verify"]).await;
    world.daemon.sigterm().await;
    let path = world.data().join("audit.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&path, lines[..lines.len() - 4].concat()).unwrap();
    fs::remove_file(world.data().join("audit.head")).unwrap();
    world.daemon.restart().await;
    world.agentctl(["audit", "verify"]).await.exits(1).shows(&["missing"]);
    has_all(&world.log(), &["WARN", "the audit log changed since the last run: lines "]);

    // A damaged log is reported as damaged, regardless of later entries.
    world.daemon.restart().await;
    world.agentctl(["audit", "verify"]).await.exits(1);
}

#[tokio::test]
async fn audit_log_verifies_after_removing_its_oldest_files() {
    let world = World::configured("audit: {max_file_bytes: 4096}\nretention: {every: never, audit_bytes: 12000}").await;
    world.model.respond_with(|request| {
        let count = tool_texts(request).lines().filter(|line| line.contains("20")).count();
        if count < 30 { unique_call(request) } else { Reply::text("It is late.") }
    });
    world.ok(["run", "What time is it?"]).await;
    let before = world.json(["audit", "verify"]).await;
    let cleaned = clean(&world, &[]).await;
    assert_eq!(parts(&cleaned), ["audit"], "{cleaned}");
    let after = world.json(["audit", "verify"]).await;
    let files = |report: &Value| report["files"].as_array().unwrap().len();
    assert!(files(&after) < files(&before) && after["lines"].as_u64() < before["lines"].as_u64(), "{after}");
    // Removing another file is detected.
    fs::remove_file(world.data().join(after["files"][0].as_str().unwrap())).unwrap();
    world.agentctl(["audit", "verify"]).await.exits(1);
}

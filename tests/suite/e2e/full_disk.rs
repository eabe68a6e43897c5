//! A full disk: existing data can be read, data can be removed to free space, and clients are notified.

use fs::File;

use super::*;

/// Returns the path of a folder inside the daemon's mount namespace.
fn seen_by(daemon: &TempDaemon, path: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{}", daemon.pid(), path.display()))
}

/// Fills the disk completely.
fn fill(folder: &Path) {
    let mut filler = File::create(folder.join("filler")).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while filler.write_all(&vec![0; size]).is_ok() {}
    }
}

#[tokio::test]
async fn on_a_full_disk_sessions_can_be_read_and_removed() {
    let Some(world) = World::on_disk("data", "32m").await else { return };
    let daemon = &world.daemon;
    let data = seen_by(daemon, &daemon.data());
    let large = daemon.write("large.bin", vec![7; 3_000_000]);

    let in_the_way = daemon.ok(["run", "Take this", "--output", "json"]).await.session();
    daemon.ok(["files", "put", &in_the_way, "uploads/large.bin", large.to_str().unwrap()]).await;
    // The disk fills up while a turn in another session is running.
    let folder = data.clone();
    world.model.respond_with(move |request| {
        if tool_texts(request).is_empty() {
            return Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "kept words"}));
        }
        fill(&folder);
        Reply::text("Nobody can store this. ".repeat(2000))
    });
    let cut = daemon.agentctl(["run", "Find the walnut", "--on-interrupt", "approve", "--output", "json"]).await;
    assert_eq!(cut.code, Some(1), "{cut:?}");
    let listed = daemon.json(["sessions", "list"]).await;
    let id = listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned());
    let session = id.into_iter().find(|id| *id != in_the_way).unwrap();

    daemon.ok(["sessions", "show", &session]).await;
    daemon.ok(["attach", &session, "--after", "0", "--output", "stream-json"]).await.shows(&["Find the walnut"]);
    daemon.ok(["context", &session]).await;
    daemon.ok(["files", "ls", &session, "outputs"]).await.shows(&["a.txt"]);
    assert_eq!(daemon.ok(["files", "get", &session, "outputs/a.txt"]).await.stdout, "kept words");
    let preview = daemon.agentctl(["undo", &session, "--preview"]).await;
    assert!(!preview.stderr.contains("full"), "{preview:?}");
    daemon.ok(["sessions", "search", "walnut"]).await;

    // All clients are notified.
    let doctor = daemon.agentctl(["doctor"]).await.exits(2).stdout;
    assert!(doctor.contains("cannot write to") && doctor.contains("free some space"), "{doctor}");
    daemon.ok(["status"]).await.shows(&["cannot write to"]);
    daemon.agentctl(["run", "More", "--session", &session]).await.exits(1).says(&["full", "hint:"]);

    // Removing data frees space for other writes, even though the filler file still exists.
    daemon.ok(["sessions", "delete", &in_the_way, "--yes"]).await;
    world.model.respond_with(|_| Reply::text("There is room again."));
    assert_eq!(daemon.ok(["run", "More", "--session", &session]).await.stdout, "There is room again.\n");
    let output = daemon.ok(["attach", &session, "--after", "0", "--output", "stream-json"]).await;
    let lines = output.json_lines();
    let numbers: Vec<u64> =
        lines.iter().filter(|line| line["type"] != "item_delta").filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    fs::remove_file(data.join("filler")).unwrap();
    daemon.ok(["doctor"]).await;
}

/// A session with little text has no files to free. Reserved space makes its removal possible.
#[tokio::test]
async fn on_a_full_disk_a_session_without_files_can_be_removed() {
    let Some(world) = World::on_disk("data", "32m").await else { return };
    let daemon = &world.daemon;
    let data = seen_by(daemon, &daemon.data());
    world.model.default_reply(Reply::text((0..8000).map(|n| format!("word {n} ")).collect::<String>()));
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(daemon.ok(["run", "Say much", "--output", "json"]).await.session());
    }
    fill(&data);
    daemon.agentctl(["run", "More"]).await.exits(1).says(&["full"]);
    for session in &sessions {
        daemon.ok(["sessions", "delete", session, "--yes"]).await;
    }
    assert_eq!(daemon.json(["sessions", "list"]).await, json!([]));
}

#[tokio::test]
async fn saving_a_document_on_a_full_disk_leaves_nothing() {
    let Some(world) = World::on_disk("data/workspace", "4m").await else { return };
    let daemon = &world.daemon;
    let folder = seen_by(daemon, &daemon.data().join("workspace"));
    let text = daemon.write("notes.rtf", format!("{{\\rtf1 {}}}", "a line of notes ".repeat(20_000)));
    let full = folder.clone();
    world.model.respond_with(move |request| {
        if tool_texts(request).is_empty() {
            fill(&full);
            return Reply::tool_call("read_file", json!({"path": "uploads/notes.rtf", "save_to": "temp/copy.txt"}));
        }
        Reply::text("It did not fit.")
    });
    daemon.ok(["run", "Save it", "--file", text.to_str().unwrap(), "--on-interrupt", "approve"]).await;
    has_all(&tool_texts(world.model.requests().last().unwrap()), &["temp/copy.txt", "the disk is full"]);
    fs::remove_file(folder.join("filler")).unwrap();
    let session = &world.last_session().await;
    assert_eq!(fs::read_dir(folder.join(session).join("temp")).unwrap().count(), 0);
}

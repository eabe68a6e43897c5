//! Password-protected documents: the password is only passed from the user to the reader.

use super::{documents::fixture, *};

/// A document with the password `secret`.
struct LockedFile {
    fixture: &'static str,
    /// Path of the document below `uploads/`, or of a document inside it.
    path: &'static str,
    /// Text in the document, and text that names the location where it is found.
    words: &'static str,
    found: (&'static str, &'static str),
}

#[tokio::test]
async fn password_reaches_only_the_reader() {
    for (fixture, path, text, found) in [
        ("password.pdf", "password.pdf", "QUARTZ-2", ("QUARTZ-3", " p. 3")),
        ("password.xlsx", "password.xlsx", "first", ("first", " Totals!A2:D3")),
        ("locked/zipcrypto.zip", "zipcrypto.zip!/papers/rules.odt", "north pier", ("bring ropes", "")),
    ] {
        password_stays_private(LockedFile { fixture, path, words: text, found }).await;
    }
}

async fn password_stays_private(LockedFile { fixture: name, path, words, found: (query, place) }: LockedFile) {
    let world = World::start().await;
    let path = format!("uploads/{path}");
    let call = json!({"path": path});
    world.model.respond_with(move |request| {
        let result = tool_texts(request);
        if result.is_empty() { Reply::tool_call("read_file", call.clone()) } else { Reply::text("Read.") }
    });
    let file = fixture(name);
    let args = ["run", "What?", "--file", &file, "--on-interrupt", "wait", "--output", "stream-json"];
    let mut running = world.spawn_agentctl(args);
    // The first answer is wrong, since the fixture has a different password.
    for (password, again) in [("vermilion-0", ""), ("secret", "Wrong password (attempt 2 of 3)")] {
        let (raised, _) = running.event("interrupt_raised").await;
        let interrupt = &raised["interrupt"];
        holds(interrupt, json!({"kind": "question", "secret": true}));
        assert!(interrupt["context"].as_str().unwrap().contains(again), "{interrupt}");
        let id = interrupt["id"].as_str().unwrap();
        world.agentctl(["answer", id, password]).await.exits(2).says(&["must not be an argument"]);
        world.agentctl_with(["answer", id], format!("{password}\n")).await.exits(0);
        let (resolved, _) = running.event("interrupt_resolved").await;
        assert!(!resolved.to_string().contains(password) && resolved.to_string().contains("(not shown)"), "{resolved}");
    }
    let output = running.output(Vec::new()).await.exits(0);
    assert!(!output.stdout.contains("vermilion-0"), "{}", output.stdout);
    let messages = world.model.requests().iter().map(|request| request.messages().to_vec()).collect::<Vec<_>>();
    let messages = format!("{messages:?}");
    assert!(messages.contains(words) && !messages.contains("vermilion-0"), "{messages}");
    // By now, the session has stored the password.
    let (results, _) = world
        .call_all(
            vec![("search_file", json!({"path": path, "query": query})), ("search_documents", json!({"query": query}))],
            &["--continue"],
        )
        .await;
    assert!(results[0].contains(&format!("1. {path}{place}\n")), "{}", results[0]);
    assert!(!results[1].contains("1. uploads/") && results[1].contains("password"), "{}", results[1]);
    world.agentctl(["docs", "show", &path]).await.exits(2).says(&["run this in a terminal"]);
    world.daemon.sigterm().await;
    // The data folder contains neither the typed password nor the indexed text.
    assert!(!is_in(&world.daemon.data(), b"vermilion-0"), "a password was stored");
    assert!(!is_in(&world.daemon.data().join("index"), query.as_bytes()), "the text was indexed");
    assert!(!world.log().contains("vermilion-0"), "a password was logged");
}

/// Returns true if a file in a folder or its subfolders contains these bytes.
fn is_in(folder: &Path, bytes: &[u8]) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => is_in(&entry.path(), bytes),
        _ => fs::read(entry.path()).is_ok_and(|content| content.windows(bytes.len()).any(|part| part == bytes)),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn password_is_asked_at_the_terminal_without_echo() {
    let world = World::start().await;
    let files = ["password.xlsx", "locked/aes.zip", "latin.pdf", "locked/libreoffice.odt"].map(fixture);
    world.agentctl(["docs", "add", &files[0], &files[1], &files[2], &files[3]]).await.exits(1);
    let found = world.ok(["docs", "search", "QUARTZ-2"]).await;
    assert!(found.stdout.starts_with("uploads/latin.pdf  p. 2\n"), "{}", found.stdout);
    found.says(&[
        "uploads/aes.zip, uploads/password.xlsx need a password and were not searched; `agentctl docs show FILE`",
    ]);
    // Passwords for OpenDocument files are not requested.
    let output = world.agentctl(["docs", "show", "uploads/libreoffice.odt"]).await;
    output.says(&["requires a password", "save it without a password"]);
    let mut terminal = Terminal::around(&world.daemon, "exec \"$@\"", &["docs", "show", "uploads/password.xlsx"]);
    for (typed, answer) in [("vermilion-0", "wrong password"), ("secret", "first")] {
        terminal.answers("Password of uploads/password.xlsx (not shown): ", &format!("{typed}\r"));
        let shown = terminal.sees(answer);
        assert!(!shown.contains(typed), "{shown}");
    }
    terminal.ends();
    // The file names in this archive are not encrypted.
    world.ok(["docs", "show", "uploads/aes.zip"]).await.shows(&["papers/rules.odt (1 KB), requires a password"]);
}

//! Sessions that continue from a copy of another session's history.

use super::*;

impl World {
    /// Runs one turn in an existing session or a new one. Returns the session's ID.
    async fn run_turn(&self, session: Option<&str>, text: &str, replies: &[Reply]) -> String {
        for reply in replies {
            self.model.reply(reply.clone());
        }
        let in_session = session.map(|id| ["--session", id]);
        let args = ["run", text, "--output", "json", "--on-interrupt", "approve"];
        self.ok(args.iter().chain(in_session.iter().flatten())).await.session()
    }

    /// Forks a session, and returns the ID of the fork.
    async fn fork(&self, session: &str, options: &[&str]) -> String {
        let output = self.ok(["sessions", "fork", session].iter().chain(options)).await;
        output.stdout.trim().to_owned()
    }

    async fn content_of(&self, session: &str, path: &str) -> Option<String> {
        let output = self.daemon.agentctl(["files", "get", session, path]).await;
        (output.code == Some(0)).then_some(output.stdout)
    }

    async fn show(&self, session: &str) -> Value {
        self.json(["sessions", "show", session]).await
    }

    /// Returns the messages in the last request.
    fn last_request(&self) -> String {
        self.model.requests().last().unwrap().body["messages"].to_string()
    }
}

fn writes(path: &str, content: &str) -> Reply {
    Reply::tool_call("write_file", json!({"path": path, "content": content}))
}

#[tokio::test]
async fn fork_and_origin_continue_independently() {
    let mut world = World::start().await;
    let todo = json!({"todos": [{"content": "Paint the fence", "status": "pending"}]});
    let first = [writes("/state/plan.md", "dig\n"), Reply::tool_call("todo_write", todo), Reply::text("Noted.")];
    let origin = world.run_turn(None, "Plan the garden", &first).await;
    let second =
        [writes("/state/plan.md", "dig, then sow\n"), writes("outputs/list.txt", "seeds\n"), Reply::text("Done.")];
    world.run_turn(Some(&origin), "Now the secret of the shed", &second).await;
    world.ok(["grants", "add", "write_file", "--session", &origin]).await;

    // Forks of the current state, and of the state after the first turn.
    let now = world.fork(&origin, &[]).await;
    let forking = world.agentctl(["sessions", "fork", &origin, "--at-turn", "1", "--name", "Another  way", "--json"]);
    let fork_report = forking.await.exits(0).json();
    assert_eq!(keys(&fork_report), ["files", "forked_from", "session_id", "title", "turn"]);
    holds(&fork_report, json!({"forked_from": origin, "turn": 1, "title": "Another way"}));
    let early = fork_report["session_id"].as_str().unwrap().to_owned();
    let shown = world.show(&now).await;
    holds(&shown, json!({"title": "Plan the garden (fork)", "turns": 2}));
    assert_eq!((&shown["usage"]["prompt_tokens"], &shown["status"]), (&json!(0), &json!("idle")), "{shown:#}");
    assert_eq!(shown["todos"][0]["content"], "Paint the fence");
    let grant_count = |shown: &Value| shown["settings"]["grants"].as_array().map_or(0, Vec::len);
    assert_eq!(
        (grant_count(&world.show(&origin).await), grant_count(&shown)),
        (1, 0),
        "grants are not copied into the fork"
    );
    assert_eq!(world.content_of(&now, "/state/plan.md").await.as_deref(), Some("dig, then sow\n"));
    assert_eq!(world.content_of(&now, "outputs/list.txt").await.as_deref(), Some("seeds\n"));
    assert_eq!(world.content_of(&early, "/state/plan.md").await.as_deref(), Some("dig\n"));

    // Both sessions continue independently, even after a kill.
    world.daemon.crash().await;
    let sows =
        [writes("/state/plan.md", "dig, then rest\n"), writes("outputs/list.txt", "a chair\n"), Reply::text("Rest.")];
    world.run_turn(Some(&early), "Let us rest instead", &sows).await;
    let request_text = world.last_request();
    assert!(request_text.contains("Plan the garden") && !request_text.contains("secret of the shed"), "{request_text}");
    assert!(request_text.contains("This session is a fork"), "{request_text}");
    world.run_turn(Some(&now), "And water", &[Reply::text("Water.")]).await;
    let request_text = world.last_request();
    assert!(request_text.contains("secret of the shed") && !request_text.contains("rest instead"), "{request_text}");
    world.run_turn(Some(&origin), "And the path?", &[Reply::text("Gravel.")]).await;
    let request_text = world.last_request();
    assert!(
        !request_text.contains("rest instead")
            && !request_text.contains("And water")
            && !request_text.contains("is a fork"),
        "{request_text}"
    );
    world.daemon.crash().await;
    for (id, plan, list) in [
        (&origin, "dig, then sow\n", "seeds\n"),
        (&now, "dig, then sow\n", "seeds\n"),
        (&early, "dig, then rest\n", "a chair\n"),
    ] {
        assert_eq!(world.content_of(id, "/state/plan.md").await.as_deref(), Some(plan));
        assert_eq!(world.content_of(id, "outputs/list.txt").await.as_deref(), Some(list));
    }

    // Undo in a session only reverts the session's own changes.
    let undo = world.agentctl(["undo", &now]).await;
    undo.exits(2).says(&["not undone yet"]);
    world.agentctl(["undo", &now, "--turn", "2"]).await.exits(2).says(&["turn 2 is a copy", "hint:", &origin]);
    world.ok(["undo", &early]).await;
    assert_eq!(world.content_of(&early, "/state/plan.md").await.as_deref(), Some("dig\n"));
    assert_eq!(world.content_of(&origin, "/state/plan.md").await.as_deref(), Some("dig, then sow\n"));

    // A fork outlives its origin. Search finds it by text from before the fork.
    world.ok(["sessions", "delete", &origin, "--yes"]).await;
    let found = world.json(["sessions", "search", "secret shed"]).await;
    assert_eq!(found[0]["session_id"], now);
    world.run_turn(Some(&now), "Still there?", &[Reply::text("Yes.")]).await;
    assert!(world.last_request().contains("secret of the shed"));
}

#[tokio::test]
async fn invalid_fork_is_refused_with_a_hint() {
    let world = World::start().await;
    let origin = world.run_turn(None, "Hello", &[Reply::text("Hello.")]).await;
    let fork = async |args: &[&str]| world.agentctl(["sessions", "fork"].iter().chain(args)).await;
    fork(&["ffffffff"]).await.exits(2).says(&["no such session", "hint:"]);
    for turn in ["0", "2"] {
        fork(&[&origin, "--at-turn", turn]).await.exits(2).says(&[&format!("no turn {turn}; it has 1"), "hint:"]);
    }
    fork(&[&origin, "--at-turn", "-1"]).await.exits(2);
    fork(&[&origin, "--name", " "]).await.exits(2).says(&["cannot be empty"]);
    let listed = world.json(["sessions", "list"]).await;
    assert_eq!(listed.as_array().unwrap().len(), 1, "a rejected fork leaves no session");
}

#[tokio::test]
async fn fork_excludes_the_open_turn() {
    let mut world = World::start().await;
    let origin = world.run_turn(None, "Hello", &[Reply::text("Hello.")]).await;
    world.model.reply(writes("outputs/a.txt", "a\n"));
    let waiting = world.spawn_agentctl(["run", "Write it", "--session", &origin, "--on-interrupt", "wait"]);
    let pending = world.first_question().await;
    let output = world.agentctl(["sessions", "fork", &origin, "--at-turn", "2"]).await;
    output.exits(75).says(&["turn 2 of this session has not ended", "hint:"]);
    let fork = world.fork(&origin, &[]).await;
    drop(waiting);
    world.daemon.crash().await;

    let shown = world.show(&fork).await;
    holds(&shown, json!({"turns": 1, "status": "idle", "interrupts": []}));
    world.run_turn(Some(&fork), "How are you?", &[Reply::text("Well.")]).await;
    assert!(!world.last_request().contains("Write it"), "{}", world.last_request());
    // The origin is still waiting, and continues once it is answered.
    assert_eq!(world.json(["interrupts"]).await.as_array().unwrap().len(), 1);
    world.ok(["answer", pending["id"].as_str().unwrap(), "approve"]).await;
    let done = || async { (world.show(&origin).await["status"] == "idle").then_some(()) };
    until("the origin's turn has ended", done).await;
    assert_eq!(world.content_of(&origin, "outputs/a.txt").await.as_deref(), Some("a\n"));
    assert_eq!(world.content_of(&fork, "outputs/a.txt").await, None);
}

#[tokio::test]
async fn fork_of_a_compacted_session_can_read_the_compacted_messages() {
    let world = World::start().await;
    let mut origin = None;
    for number in 0..10 {
        // Compaction preserves all user messages, and removes answers such as this one from the context.
        let answer = Reply::text(format!("Done: the number is 47{number}1"));
        origin = Some(world.run_turn(origin.as_deref(), &format!("Piece of work {number}"), &[answer]).await);
    }
    let origin = origin.unwrap();
    let before = world.fork(&origin, &[]).await;
    world.model.reply(Reply::text("## What the person wants\nPieces of work."));
    world.ok(["compact", &origin]).await;
    let behind = world.fork(&origin, &[]).await;
    let early = world.fork(&origin, &["--at-turn", "9"]).await;

    // The summary names the path of the file with the replaced messages, which only contains the fork's own past.
    let file = format!("/conversation_history/{origin}.md");
    assert!(world.content_of(&behind, &file).await.unwrap().contains("the number is 4701"));
    for fork in [&before, &early] {
        assert_eq!(world.content_of(fork, &file).await, None);
    }
    let search = Reply::tool_call("grep", json!({"path": file, "pattern": "number is 4701"}));
    world.run_turn(Some(&behind), "Which number had the first piece?", &[search, Reply::text("4701.")]).await;
    let requests = world.model.requests();
    let (request_text, found) = (&requests[requests.len() - 2], &requests[requests.len() - 1]);
    let request_text = request_text.body["messages"].to_string();
    assert!(request_text.contains("Pieces of work.") && !request_text.contains("4701"), "{request_text}");
    assert!(tool_texts(found).contains("the number is 4701"), "{}", tool_texts(found));

    // Undoing a compaction only affects the fork.
    world.ok(["compact", &behind, "--undo"]).await;
    world.run_turn(Some(&behind), "And now?", &[Reply::text("All of it.")]).await;
    assert!(world.last_request().contains("the number is 4701"));
    world.run_turn(Some(&origin), "And here?", &[Reply::text("A summary.")]).await;
    assert!(!world.last_request().contains("the number is 4701"));
}

#[tokio::test]
async fn fork_undoes_only_its_own_edits() {
    let world = World::start().await;
    let origin = world.run_turn(None, "Write it", &[writes("outputs/new.txt", "one\n"), Reply::text("Done.")]).await;
    let fork = world.fork(&origin, &[]).await;
    let undoes = || Reply::tool_call("undo_patch", json!({}));
    world.run_turn(Some(&fork), "Take it back", &[undoes(), Reply::text("I cannot.")]).await;
    assert!(world.last_request().contains("there is no edit left to revert"), "{}", world.last_request());
    assert_eq!(world.content_of(&fork, "outputs/new.txt").await.as_deref(), Some("one\n"));
    let own = [writes("outputs/own.txt", "two\n"), undoes(), Reply::text("Gone.")];
    world.run_turn(Some(&fork), "Write and take back", &own).await;
    assert_eq!(world.content_of(&fork, "outputs/own.txt").await, None);
}

/// With `--files`, the fork's own files are reverted, and project files are written to a separate folder.
#[tokio::test]
async fn fork_with_files_restores_the_files_of_its_turn() {
    let world = World::start().await;
    world.write("project/a.txt", "before\n");
    let first = [writes("outputs/plan.md", "dig\n"), writes("outputs/gone.md", "soon\n"), Reply::text("Noted.")];
    for reply in &first {
        world.model.reply(reply.clone());
    }
    let args = ["run", "Plan it", "-C", &world.mount(), "--output", "json", "--on-interrupt", "approve"];
    let origin = world.ok(args).await.session();
    let second = [
        writes("outputs/plan.md", "dig, then sow\n"),
        Reply::tool_call("run_bash_command", json!({"command": "rm outputs/gone.md"})),
        writes("outputs/new.md", "later\n"),
        writes("/project/a.txt", "after\n"),
        writes("/project/new.txt", "after\n"),
        Reply::text("Done."),
    ];
    world.run_turn(Some(&origin), "Now do it", &second).await;
    let third = [writes("outputs/mine.md", "model\n"), Reply::text("Done.")];
    world.run_turn(Some(&origin), "And mine", &third).await;
    // Another process changes a file in between.
    let own = world.write("own.md", "by hand\n");
    world.ok(["files", "put", &origin, "outputs/mine.md", own.to_str().unwrap()]).await;

    let report = world.json(["sessions", "fork", &origin, "--at-turn", "1", "--files"]).await;
    let early = report["session_id"].as_str().unwrap().to_owned();
    let content = async |path: &str| world.content_of(&early, path).await;
    assert_eq!(content("outputs/plan.md").await.as_deref(), Some("dig\n"), "{report:#}");
    assert_eq!(content("outputs/gone.md").await.as_deref(), Some("soon\n"));
    assert_eq!(content("outputs/new.md").await, None);
    let files = &report["earlier_files"];
    holds(files, json!({"folder": "outputs/at-turn-1", "shared": 1}));
    assert_eq!(content("outputs/at-turn-1/project/a.txt").await.as_deref(), Some("before\n"));
    assert_eq!(content("outputs/at-turn-1/project/new.txt").await, None);
    // External changes are preserved and reported. The project and the other session are unchanged.
    assert_eq!(content("outputs/mine.md").await.as_deref(), Some("by hand\n"));
    let left = files["left"].as_array().unwrap();
    assert!(left.len() == 1 && left[0].as_str().unwrap().starts_with("outputs/mine.md: "), "{report:#}");
    assert_eq!(world.read("project/a.txt"), "after\n");
    assert_eq!(world.content_of(&origin, "outputs/plan.md").await.as_deref(), Some("dig, then sow\n"));
    world.run_turn(Some(&early), "Where are we?", &[Reply::text("At the plan.")]).await;
    has_all(&world.last_request(), &["outputs/at-turn-1/ holds the earlier content of their files"]);
    let output = world.ok(["sessions", "fork", &origin, "--at-turn", "1", "--files"]).await;
    output.says(&["restored to that turn", "the project is unchanged", "not restored: outputs/mine.md"]);
    // Without this option, the files keep their current content.
    let now = world.fork(&origin, &["--at-turn", "1"]).await;
    assert_eq!(world.content_of(&now, "outputs/plan.md").await.as_deref(), Some("dig, then sow\n"));
}

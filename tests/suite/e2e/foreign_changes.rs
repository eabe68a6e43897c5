//! Files that a session has read and that others change: another session, or the user. The model is informed once, before
//! its next step, with the size of the change; never of the session's own changes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{worktrees::git, *};

const NOTICE: &str = "Changed by others since it was read here";

/// Returns the number of notices in a request.
fn notices(request: &Recorded) -> usize {
    request.body["messages"].to_string().matches(NOTICE).count()
}

fn reads(path: &str) -> Reply {
    Reply::tool_call("read_file", json!({ "path": path }))
}

impl World {
    /// Runs a turn and returns its session and its last request.
    async fn turn_of(&self, prompt: &str, args: &[&str]) -> (String, Recorded) {
        let approving = ["--on-interrupt", "approve", "--output", "json"];
        let output = self.daemon.agentctl(["run", prompt].iter().chain(args).chain(&approving)).await.exits(0);
        (output.session(), self.model.requests().pop().unwrap())
    }
}

#[tokio::test]
async fn change_by_another_session_is_reported_once_with_its_size() {
    let world = World::start().await;
    world.write("project/a.txt", "one\ntwo\nthree\n");
    let mount = world.mount();
    world.model.reply(reads("/project/a.txt")).reply(Reply::text("Read."));
    let (first, _) = world.turn_of("Read it", &["-C", &mount]).await;
    let edit = json!({"path": "/project/a.txt", "old_string": "two\n", "new_string": "2\nII\n"});
    world.model.reply(Reply::tool_call("edit_file", edit)).reply(Reply::text("Edited."));
    let (second, request) = world.turn_of("Edit it", &["-C", &mount]).await;
    assert_eq!(notices(&request), 0, "{:#}", request.body);

    world.model.default_reply(Reply::text("Noted."));
    let (_, request) = world.turn_of("And now?", &["--session", &first]).await;
    has_all(&request.body["messages"].to_string(), &["/project/a.txt (+2 −1 lines)"]);
    for _ in 0..2 {
        let (_, request) = world.turn_of("And now?", &["--session", &first]).await;
        assert_eq!(notices(&request), 1, "{:#}", request.body);
    }
    let (_, request) = world.turn_of("And now?", &["--session", &second]).await;
    assert_eq!(notices(&request), 0, "the change is its own: {:#}", request.body);

    // A file that is only written again has not changed.
    world.write("project/a.txt", "one\n2\nII\nthree\n");
    let (_, request) = world.turn_of("And now?", &["--session", &first]).await;
    assert_eq!(notices(&request), 1, "{:#}", request.body);
    fs::remove_file(world.path().join("project/a.txt")).unwrap();
    let (_, request) = world.turn_of("And now?", &["--session", &first]).await;
    has_all(&request.body["messages"].to_string(), &["/project/a.txt (removed)"]);
    assert_eq!(notices(&request), 2);
}

#[tokio::test]
async fn edit_by_the_user_is_reported_before_the_next_step() {
    let world = World::start().await;
    let file = world.write("project/src/a.txt", "one\n");
    let big = world.write("project/big.txt", "x\n".repeat(1 << 20));
    world.model.respond_with(move |request| {
        match request.messages().iter().filter(|message| message["role"] == "tool").count() {
            0 => reads("src/a.txt").and_call("read_file", json!({"path": "/project/big.txt", "limit": 1})),
            2 => {
                fs::write(&file, "zero\none\n\u{1b}[2J\n").unwrap();
                fs::write(&big, "y\n").unwrap();
                Reply::tool_call("now", json!({}))
            }
            _ => Reply::text("Noted."),
        }
    });
    let project = world.path().join("project").display().to_string();
    let (_, last) = world.turn_of("Read them", &["-C", &project]).await;
    let expected = "/project/big.txt (size of the change unknown), /project/src/a.txt (+2 −0 lines). Read again";
    has_all(&last.body["messages"].to_string(), &[expected]);
    let counts: Vec<usize> = world.model.requests().iter().map(notices).collect();
    assert_eq!(counts, [0, 0, 1]);
}

#[tokio::test]
async fn own_changes_are_silent_and_foreign_ones_are_known_after_a_restart() {
    let mut world = World::start().await;
    let project = world.path().join("project");
    for (name, content) in [("a.txt", "one\n"), (".gitignore", "made/\n"), ("made/log.txt", "log\n")] {
        world.write(&format!("project/{name}"), content);
    }
    git(&project, &["init", "--quiet"]);
    let calls = vec![
        ("read_file", json!({"path": "/project/a.txt"})),
        ("read_file", json!({"path": "/project/made/log.txt"})),
        ("edit_file", json!({"path": "/project/a.txt", "old_string": "one", "new_string": "two"})),
        ("run_bash_command", json!({"command": "echo three >> a.txt; echo more >> made/log.txt; echo new > b.txt"})),
    ];
    let args = ["-C", &world.mount(), "--on-interrupt", "approve", "--output", "json"];
    let (results, output) = world.call_all(calls, &args).await;
    assert!(results[3].starts_with("exit code 0"), "{results:#?}");
    let session = output.exits(0).session();
    assert_eq!(fs::read_to_string(project.join("a.txt")).unwrap(), "two\nthree\n");
    world.model.respond_with(|_| Reply::text("Noted."));
    let (_, request) = world.turn_of("And now?", &["--session", &session]).await;
    assert_eq!(notices(&request), 0, "{:#}", request.body);
    world.ok(["undo", &session]).await;
    let (_, request) = world.turn_of("And now?", &["--session", &session]).await;
    assert_eq!(notices(&request), 0, "an undo has its own notice: {:#}", request.body);

    world.daemon.crash().await;
    world.write("project/a.txt", "one\nfour\n");
    let (_, request) = world.turn_of("And now?", &["--session", &session]).await;
    has_all(&request.body["messages"].to_string(), &["here: /project/a.txt (+1 −0 lines). Read again"]);
    assert_eq!(notices(&request), 1);
    // The user's change comes before an edit of the session itself, which does not hide it.
    let edit = json!({"path": "/project/a.txt", "old_string": "five", "new_string": "5"});
    let file = project.join("a.txt");
    let is_written = AtomicBool::new(false);
    world.model.respond_with(move |_| match is_written.swap(true, Ordering::Relaxed) {
        true => Reply::text("Edited."),
        false => {
            fs::write(&file, "one\nfive\n").unwrap();
            Reply::tool_call("edit_file", edit.clone())
        }
    });
    let (_, request) = world.turn_of("Edit it", &["--session", &session]).await;
    has_all(&request.body["messages"].to_string(), &["/project/a.txt (+1 −1 lines)"]);
    assert_eq!(notices(&request), 2);
}

#[tokio::test]
async fn command_does_not_hide_a_change_to_the_memories() {
    let world = World::start().await;
    let memory = world.data().join("memories/plan.md");
    fs::create_dir_all(memory.parent().unwrap()).unwrap();
    fs::write(&memory, "one\n").unwrap();
    world.model.respond_with(move |request| {
        match request.messages().iter().filter(|message| message["role"] == "tool").count() {
            0 => reads("/memories/plan.md"),
            1 => {
                fs::write(&memory, "one\ntwo\n").unwrap();
                Reply::tool_call("run_bash_command", json!({"command": "echo x > made.txt"}))
            }
            _ => Reply::text("Noted."),
        }
    });
    let (_, last) = world.turn_of("Read it", &[]).await;
    has_all(&last.body["messages"].to_string(), &["/memories/plan.md (+1 −0 lines)"]);
}

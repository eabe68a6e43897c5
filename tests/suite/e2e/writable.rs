//! A read-only project becomes writable: by a question at the first edit, and by `/project` in the chat. Pictures that are
//! pasted into the chat.

use super::{parts::RED, *};

fn write(path: &str) -> Reply {
    Reply::tool_call("write_file", json!({"path": path, "content": "new"}))
}

/// Returns the path of a project, which `-C` mounts read-only.
fn project(world: &World) -> String {
    let folder = world.path().join("project");
    fs::create_dir_all(&folder).unwrap();
    folder.display().to_string()
}

/// Starts a run in a read-only project that waits for the answer to its question.
async fn asked(world: &World, mode: &str) -> (Running, Value) {
    let (running, question) = world.run_until_question(&["Write it", "-C", &project(world), "--mode", mode]).await;
    holds(&question, json!({"kind": "approval", "tool": "make_writable", "risk": "medium"}));
    assert_eq!(question["args"], json!({"folder": project(world)}));
    has_all(question["reason"].as_str().unwrap(), &["write_file", "/project/a.txt", "read-only"]);
    assert_eq!(world.read("project/a.txt"), "", "the call ran before the answer");
    (running, question)
}

async fn answer(world: &World, question: &Value, args: &[&str]) -> Output {
    world.agentctl(["answer", question["id"].as_str().unwrap()].iter().chain(args)).await
}

/// Returns true if the project of the last session is writable.
async fn is_writable(world: &World) -> bool {
    world.json(["sessions", "list"]).await[0]["project"]["writable"] == json!(true)
}

#[tokio::test]
async fn approval_makes_the_project_writable_for_the_session() {
    let world = World::start().await;
    world.model.reply(write("/project/a.txt")).reply(write("/project/b.txt")).reply(Reply::text("Written."));
    let (running, question) = asked(&world, "accept-edits").await;
    answer(&world, &question, &["edit", "--args", r#"{"folder": "/"}"#]).await.exits(2).says(&["approve or reject"]);
    answer(&world, &question, &["always"]).await.exits(2);
    let id = question["id"].as_str().unwrap();
    world.ok(["interrupts", id]).await.shows(&["becomes writable", "makes the folder writable", "approve|reject\n"]);
    assert!(!is_writable(&world).await);
    answer(&world, &question, &["approve"]).await.exits(0);
    let result = running.output(Vec::new()).await.exits(0).json_lines().pop().unwrap();
    assert_eq!(result["text"], "Written.");
    assert_eq!((world.read("project/a.txt"), world.read("project/b.txt")), ("new".to_owned(), "new".to_owned()));
    assert!(is_writable(&world).await);
    // The model learns of it, and later turns change the project, too.
    let requests = world.model.requests();
    let system = |at: usize| requests[at].messages()[0]["content"].as_str().unwrap_or_default().to_owned();
    assert!(!system(0).contains("read and change") && system(1).contains("read and change"), "{}", system(1));
    world.model.reply(write("/project/c.txt")).reply(Reply::text("Again."));
    world.ok(["run", "Again", "--session", &world.last_session().await]).await;
    assert_eq!(world.read("project/c.txt"), "new");
    world.ok(["audit"]).await.shows(&["made writable", "project"]);
    world.ok(["audit", "verify"]).await;
}

#[tokio::test]
async fn edit_still_asks_as_the_mode_says() {
    let world = World::start().await;
    world.model.reply(write("/project/a.txt")).reply(Reply::text("Then not."));
    let (running, question) = asked(&world, "ask").await;
    answer(&world, &question, &["approve"]).await.exits(0);
    let edit = world.first_question().await;
    holds(&edit, json!({"tool": "write_file"}));
    has_all(edit["preview"].as_str().unwrap(), &["/project/a.txt", "+new"]);
    assert_eq!(world.read("project/a.txt"), "");
    answer(&world, &edit, &["reject", "--reason", "not this one"]).await.exits(0);
    running.output(Vec::new()).await.exits(5);
    assert!(tool_texts(world.model.requests().last().unwrap()).contains("not this one"));
    assert_eq!(world.read("project/a.txt"), "");
    assert!(is_writable(&world).await, "the folder was approved, the edit was not");
}

#[tokio::test]
async fn rejection_holds_for_the_rest_of_the_turn() {
    let mut world = World::start().await;
    for restarts in [false, true] {
        let refused: &[&str] = &["not here"];
        let twice: &[&str] = &["/project/b.txt cannot be changed"];
        let steps = vec![(refused, write("/project/a.txt")), (twice, write("/project/b.txt"))];
        script_steps(&world.model, steps, Reply::text("Then not."));
        let (running, question) = asked(&world, "accept-edits").await;
        if restarts {
            drop(running);
            world.daemon.crash().await;
        }
        answer(&world, &question, &["reject", "--reason", "not here"]).await.exits(0);
        let session = question["session_id"].as_str().unwrap();
        let attached = world.agentctl(["attach", session, "--after", "0", "--output", "stream-json"]).await;
        let lines = attached.json_lines();
        assert_eq!(lines.last().unwrap()["text"], "Then not.", "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line["type"] == "interrupt_raised").count(), 1);
        // The user's reason belongs to the edit that asked.
        let results = tool_texts(world.model.requests().last().unwrap());
        has_all(&results, &["E_PATH", "in this turn: not here. Write", "b.txt cannot", "in this turn. Write"]);
        assert_eq!((world.read("project/a.txt"), world.read("project/b.txt")), (String::new(), String::new()));
        assert!(!is_writable(&world).await);
    }
    // The next turn asks again.
    world.model.respond_with(|request| match request.last_role() {
        "tool" => Reply::text("over"),
        _ => write("/project/a.txt"),
    });
    let session = world.last_session().await;
    let (running, question) = world.run_until_question(&["Write it after all", "--session", &session]).await;
    answer(&world, &question, &["approve"]).await.exits(0);
    running.output(Vec::new()).await.exits(0);
    assert_eq!(world.read("project/a.txt"), "new");
}

#[tokio::test]
async fn approval_after_a_restart_writes_the_file() {
    let mut world = World::start().await;
    script_steps(&world.model, vec![(&["a.txt"], write("/project/a.txt"))], Reply::text("Written."));
    let (running, question) = asked(&world, "accept-edits").await;
    drop(running);
    world.daemon.crash().await;
    assert_eq!(world.asked().await, question);
    answer(&world, &question, &["approve"]).await.exits(0);
    let session = question["session_id"].as_str().unwrap();
    let attached = world.ok(["attach", session, "--after", "0", "--output", "stream-json"]).await;
    let result = attached.json_lines().pop().unwrap();
    holds(&result, json!({"type": "result", "stop_reason": "completed", "text": "Written."}));
    assert_eq!(world.read("project/a.txt"), "new");
    assert!(is_writable(&world).await);
}

#[tokio::test]
async fn unattended_edit_is_refused_with_a_hint() {
    let world = World::start().await;
    for on_interrupt in ["approve", "deny"] {
        world.script_reply(write("/project/a.txt"));
        let folder = project(&world);
        let mode = ["--mode", "accept-edits", "--on-interrupt", on_interrupt];
        world.ok(["run", "Write it", "-C", &folder].iter().chain(&mode)).await;
        has_all(&tool_texts(world.model.requests().last().unwrap()), &["E_PATH", "`/project rw`", "-C DIR:rw"]);
        assert!(!is_writable(&world).await && world.questions().await.is_empty());
    }
    // A question that no user answers in time keeps the folder read-only, whatever else is approved then.
    let deadline = "interrupts:\n  deadline: 1s\n  on_deadline: approve\n";
    let world = World::configured(deadline).await;
    script_steps(&world.model, vec![(&["a.txt"], write("/project/a.txt"))], Reply::text("Then not."));
    let (running, question) = asked(&world, "accept-edits").await;
    assert_eq!(question["on_deadline"]["answer"], "reject");
    running.output(Vec::new()).await.exits(0);
    assert_eq!(world.read("project/a.txt"), "");
    assert!(!is_writable(&world).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_makes_its_folder_writable() {
    let world = World::start().await;
    let mut terminal = Terminal::open(&world.daemon, &["-C", &project(&world)]);
    terminal.prompt_below("project ro");
    terminal.hears("/mode accept-edits", "the folder is read-only");
    terminal.hears("/project", "read-only;");
    world.model.reply(write("/project/a.txt")).reply(says("It is written."));
    terminal.says_for("write", "Make this folder writable?");
    terminal.answers("y yes", "y");
    terminal.sees("It is written.");
    terminal.prompt_below("project rw");
    assert_eq!(world.read("project/a.txt"), "new");
    assert!(is_writable(&world).await);
    terminal.hears("/project ro", "read-only;");
    assert!(!is_writable(&world).await);
    terminal.hears("/project rw", "writable,");
    assert!(is_writable(&world).await);
    terminal.hears("/project up", "/project takes rw or ro");
    terminal.leaves();

    // Before the first message, the choice is that of the new session.
    let mut terminal = Terminal::ready(&world.daemon, &["-C", &project(&world), "--mode", "accept-edits"]);
    terminal.hears("/project rw", "writable,");
    world.model.reply(write("/project/b.txt")).reply(says("And this one."));
    terminal.says("write");
    terminal.sees_last("And this one.");
    assert_eq!(world.read("project/b.txt"), "new");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_of_the_clipboard_and_dragged_ones_are_attached() {
    let world = World::start().await;
    let red = world.write("my pictures/red.png", RED);
    let folder = world.path().join("bin");
    fs::create_dir_all(&folder).unwrap();
    let line = format!("export PATH='{}'; exec \"$@\"", folder.display());
    let mut terminal = Terminal::around(&world.daemon, &line, &["chat", "-C", "none"]);
    terminal.prompt();
    terminal.control('v');
    terminal.sees("pasting a picture needs wl-paste");

    let script = format!(
        "#!/bin/sh\n[ \"$*\" = '-selection clipboard -t image/png -o' ] && exec /bin/cat '{}'\n",
        red.display()
    );
    let xclip = world.write("bin/xclip", script);
    fs::set_permissions(&xclip, fs::Permissions::from_mode(0o755)).unwrap();
    terminal.control('v');
    terminal.sees("[picture 1]");
    // Some terminals send an empty paste for a picture.
    terminal.presses_for("\u{1b}[200~\u{1b}[201~", "[picture 2]");
    let dragged = red.display().to_string().replace(' ', "\\ ");
    terminal.presses_for(&format!("\u{1b}[200~{dragged} \u{1b}[201~"), "[picture 3]");
    world.model.reply(says("They are red."));
    terminal.presses_last("what is it?\r", "They are red.");

    let request = world.model.requests().pop().unwrap();
    let session = world.last_session().await;
    for name in ["picture-1.png", "picture-2.png", "red.png"] {
        let copy = format!("uploads/{name}");
        assert!(request.body.to_string().contains(&copy), "{copy} is missing in {:#}", request.body["messages"]);
        assert_eq!(fs::read(world.path().join(format!("data/workspace/{session}/{copy}"))).unwrap(), RED);
    }
    terminal.leaves();
}

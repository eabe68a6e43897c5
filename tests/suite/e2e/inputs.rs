//! Piped input and messages that exceed the window: they are stored in a file from which the model can read more, and
//! never truncated silently.

use agentd_testkit::daemon::PATIENCE;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{Events as _, *};

/// Returns a diff of about 126 KB, whose last line matters.
fn diff() -> String {
    let lines: String = (1..=2600).map(|n| format!("+ line {n:05} of a change that somebody made\n")).collect();
    format!("{lines}+ the needle is a walrus\n")
}

/// Replies as a careful model that continues to read where the excerpt in the message ends.
fn reads_on(request: &Recorded) -> Reply {
    let result = tool_texts(request);
    if result.contains("walrus") {
        return Reply::text("The needle is a walrus.");
    }
    let asked = request.body["messages"].to_string();
    assert!(asked.contains("All of it is in uploads/stdin.txt") && !asked.contains("walrus"), "{asked}");
    Reply::tool_call("read_file", json!({"path": "uploads/stdin.txt", "offset": 2595, "limit": 10}))
}

#[tokio::test]
async fn oversized_input_is_stored_and_read_in_parts() {
    let world = World::start().await;
    world.model.respond_with(reads_on);
    let args = ["run", "Review this", "--output", "json"];
    let output = world.agentctl_with(args, diff()).await.exits(0);
    let output =
        output.says(&["KB of input do not fit into the window", "stored as uploads/stdin.txt", "lines are in view"]);
    let result = output.json();
    assert_eq!(result["text"], "The needle is a walrus.");
    let input = &result["input"];
    holds(input, json!({"stored_as": "uploads/stdin.txt", "bytes": diff().len()}));
    // The window has 32,768 tokens, and the excerpt uses much of it.
    assert!(input["shown_bytes"].as_u64().unwrap() > 20_000, "{input}");
    let session = result["session_id"].as_str().unwrap();
    let path = world.data().join("workspace").join(session).join("uploads/stdin.txt");
    assert_eq!(fs::read_to_string(path).unwrap(), diff());
    assert_eq!(world.model.requests().len(), 2, "no summary was requested");

    // Input that fits is not stored in a file, and no result mentions one.
    world.model.respond_with(|_| Reply::text("Short."));
    let output = world.agentctl_with(args, "+ one line\n").await.exits(0);
    assert!(output.json().get("input").is_none() && output.stderr.is_empty(), "{}", output.stderr);
}

#[tokio::test]
async fn whole_option_refuses_oversized_input_without_a_request() {
    let world = World::start().await;
    let args = ["run", "Review this", "--whole", "--output", "json"];
    let output = world.agentctl_with(args, diff()).await.exits(6).says(&["does not fit", "tokens", "hint:"]);
    assert_eq!(output.json()["error"]["kind"], "context_overflow");
    assert!(world.model.requests().is_empty());
    assert_eq!(world.json(["sessions", "list"]).await, json!([]), "a session was created");
    world.agentctl_with(["run", "Review this", "--whole"], "+ one line\n").await.exits(0);
}

#[tokio::test]
async fn stored_input_is_durable_before_the_turn_is_acknowledged() {
    let model = ModelServer::start().await;
    let mut daemon = TempDaemon::start(&model.base_url()).await;
    model.respond_with(|_| Reply::never());
    let world_client = agentd_proto::client::Client::connect(&daemon.socket()).await.unwrap();
    let project = daemon.path().join("project");
    fs::create_dir_all(&project).unwrap();
    let mut start = turn(trusting_session(&project), &format!("Review this\n\n{}", diff()));
    start.start.typed_bytes = Some("Review this".len() as u64);
    let mut events = world_client.turn(start).await.unwrap();
    let is_input = |kind: &EventKind| {
        matches!(kind, EventKind::ItemCompleted { item, .. }
            if matches!(&item.body, ItemBody::UserMessage { stored: Some(_), .. }))
    };
    let seen = events.stored_until(is_input).await;
    daemon.signal(Signal::SIGKILL);
    daemon.ended().await;
    let session = seen[0].session_id.to_string();
    let path = daemon.data().join("workspace").join(&session).join("uploads/stdin.txt");
    assert_eq!(fs::read_to_string(path).unwrap(), diff());
    daemon.restart().await;
    model.respond_with(reads_on);
    assert_eq!(daemon.ok(["run", "--session", &session]).await.stdout.trim(), "The needle is a walrus.");
}

#[tokio::test]
async fn oversized_input_is_refused_on_a_full_disk() {
    let Some(world) = World::on_disk("data/workspace", "256k").await else { return };
    let long = diff().repeat(5);
    let refused = world.agentctl_with(["run", "Review this"], long.as_str()).await.exits(1);
    refused.says(&["the disk is full", "hint:"]);
    assert!(world.model.requests().is_empty());
    assert_eq!(world.json(["sessions", "list"]).await, json!([]));
    world.agentctl_with(["run", "Review this"], "+ one line\n").await.exits(0);
    world.still_serves().await;
}

/// Starts a command whose standard input stays open and silent. Returns the command and the pipe's write end.
fn on_open_pipe(world: &World, args: &[&str]) -> (tokio::process::Child, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = tokio::process::Command::from(world.agentctl_command(args));
    command.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    (command.spawn().unwrap(), writer)
}

#[tokio::test]
async fn open_silent_pipe_is_reported_and_ends_by_timeout_or_ctrl_c() {
    let world = World::start().await;
    let session = &world.ok(["run", "Hello", "--output", "json"]).await.session();
    let put = ["files", "put", session, "uploads/a.txt"];
    let commands: [(&[&str], &str); 4] = [
        (&["run", "Go"], "the prompt"),
        (&["chat"], "lines"),
        (&["sessions", "import", "-"], "the history"),
        (&put, "the content"),
    ];
    for (args, expected) in commands {
        let (mut child, _open) = on_open_pipe(&world, args);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let hint = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains(&format!("waiting for {expected}")) && line.contains("standard input") {
                    break;
                }
            }
        };
        tokio::time::timeout(PATIENCE, hint).await.unwrap_or_else(|_| panic!("{args:?} prints no hint"));
        assert!(child.try_wait().unwrap().is_none(), "{args:?} exited early");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        nix::sys::signal::kill(pid, Signal::SIGINT).unwrap();
        assert!(!child.wait().await.unwrap().success(), "{args:?}");
    }
    for args in
        [&["run", "Go", "--timeout", "1", "--output", "json"][..], &["run", "--timeout", "1", "--output", "json"]]
    {
        let (child, _open) = on_open_pipe(&world, args);
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
            .await
            .expect("the time limit ends the command")
            .unwrap();
        assert_eq!(output.status.code(), Some(6));
        let output_json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output_json["error"]["kind"], "timeout", "{output_json}");
    }
    assert_eq!(world.model.requests().len(), 1, "a model was called without the input");
}

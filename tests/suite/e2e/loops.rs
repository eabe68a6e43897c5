//! Models that repeat themselves: the model is warned, and then the turn is stopped with a specific reason. Calls with
//! changing arguments do not count as a loop, and unchanged files are not sent twice.

use super::*;

/// Function that returns the call at an index, from 0.
type CallSequence = fn(usize) -> Reply;

fn results(request: &Recorded) -> usize {
    request.messages().iter().filter(|message| message["role"] == "tool").count()
}

/// Makes the model repeat these calls until no more tools are offered.
fn repeat_calls(world: &World, call_at: CallSequence) {
    world.model.respond_with(move |request| match request.text.contains("Do not call any more tools") {
        true => Reply::text("I went in circles."),
        false => call_at(results(request)),
    });
}

fn list(path: &str) -> Reply {
    Reply::tool_call("list_dir", json!({ "path": path }))
}

fn read() -> Reply {
    Reply::tool_call("read_file", json!({"path": "uploads/notes.txt"}))
}

fn bash(command: &str) -> Reply {
    Reply::tool_call("run_bash_command", json!({ "command": command }))
}

async fn run(world: &World, more: &[&str], code: i32) -> Vec<Value> {
    let args = ["run", "Look", "--output", "stream-json", "--on-interrupt", "approve"];
    world.agentctl(args.iter().chain(more)).await.exits(code).json_lines()
}

fn warnings(lines: &[Value], code: &str) -> usize {
    lines.iter().filter(|line| line["type"] == "warning" && line["code"] == code).count()
}

/// Creates a note that is too long to be sent twice.
fn note(world: &World) -> (String, String) {
    let content: String = (0..60).map(|n| format!("the line number {n} of the note\n")).collect();
    (world.write("notes.txt", &content).to_str().unwrap().to_owned(), content)
}

#[tokio::test]
async fn repeated_calls_warn_at_three_and_end_the_turn_at_six() {
    let world = World::start().await;
    let (file, _) = note(&world);
    let cases: [(&str, CallSequence, usize); 7] = [
        ("one", |_| read(), 1),
        ("two", |n| if n % 2 == 0 { read() } else { list(".") }, 2),
        ("three", |n| [read(), list("."), list("uploads")].into_iter().nth(n % 3).unwrap(), 3),
        ("unknown", |n| Reply::tool_call(format!("no_such_tool_{n}"), json!({"n": n})), 1),
        ("timed", |_| bash("printf '2 failed in 0.%ss\\n' $(date +%N); exit 1"), 1),
        ("slow", |_| bash("sleep 0.$((RANDOM % 3)); cat uploads/notes.txt"), 1),
        ("at once", |_| read().and_call("list_dir", json!({"path": "."})), 1),
    ];
    for (name, call_at, period) in cases {
        repeat_calls(&world, call_at);
        let before = world.model.requests().len();
        let lines = run(&world, &["--file", &file], 6).await;
        let result = lines.last().unwrap();
        holds(result, json!({"stop_reason": "loop", "text": "I went in circles."}));
        assert_eq!((warnings(&lines, "repeated_call"), warnings(&lines, "loop")), (1, 1), "{name}");
        let requests = world.model.requests().split_off(before);
        assert_eq!(requests.len(), 6 * period + 1, "{name}");
        let is_noted = |request: &Recorded| request.text.contains("Repeating them");
        assert_eq!(requests.iter().position(is_noted), Some(3 * period), "{name}");
        super::stream_schema::check_lines(&lines);
    }
    let output = world.agentctl(["run", "Look", "--file", &file]).await.exits(6);
    output.says(&["stopped: the model repeated the same calls", "hint:"]);
}

#[tokio::test]
async fn calls_with_changing_results_are_not_a_loop() {
    let world = World::start().await;
    let polls: [CallSequence; 3] = [
        |n| if n < 9 { bash("echo built >> log.txt") } else { Reply::text("Built.") },
        |n| if n < 9 { bash("echo built >> log.txt; wc -l < log.txt") } else { Reply::text("Built.") },
        |n| match n {
            0..18 if n % 2 == 0 => bash("sleep 0.01"),
            0..18 => bash("echo built >> log.txt; wc -l < log.txt"),
            _ => Reply::text("Built."),
        },
    ];
    for poll in polls {
        repeat_calls(&world, poll);
        let lines = run(&world, &[], 0).await;
        assert_eq!(lines.last().unwrap()["text"], "Built.");
        assert_eq!(warnings(&lines, "repeated_call"), 0);
    }
}

#[tokio::test]
async fn unchanged_file_is_read_once_while_in_context() {
    let mut world = World::start().await;
    let (file, content) = note(&world);
    let shown = |request: &Recorded| tool_texts(request).matches(content.lines().next().unwrap()).count();
    world.model.reply(read()).reply(read()).reply(Reply::text("Read."));
    let lines = run(&world, &["--file", &file], 0).await;
    let session = lines.last().unwrap()["session_id"].as_str().unwrap().to_owned();
    let request = world.model.requests().pop().unwrap();
    assert_eq!(shown(&request), 1, "{}", tool_texts(&request));
    assert!(tool_texts(&request).contains("unchanged since"), "{}", tool_texts(&request));
    // The daemon still has this information after a restart. Other lines and changed lines are shown.
    world.daemon.crash().await;
    world.model.reply(read());
    world.model.reply(Reply::tool_call("read_file", json!({"path": "uploads/notes.txt", "limit": 30})));
    world.model.reply(bash("echo more >> uploads/notes.txt")).reply(read());
    // The file is restored, so it differs from the last version that was read.
    world.model.reply(bash("sed -i '$d' uploads/notes.txt")).reply(read()).reply(Reply::text("Read."));
    run(&world, &["--session", &session], 0).await;
    let request = world.model.requests().pop().unwrap();
    assert_eq!(shown(&request), 4, "{}", tool_texts(&request));
    assert_eq!(tool_texts(&request).matches("unchanged since").count(), 2, "{}", tool_texts(&request));
    // Compaction removes all messages except the last ten from the context.
    world.model.default_reply(Reply::text("A summary of what was done so far."));
    for _ in 0..6 {
        run(&world, &["--session", &session], 0).await;
    }
    world.ok(["compact", &session, "--strategy", "summarize"]).await;
    world.model.reply(read()).reply(Reply::text("Read."));
    run(&world, &["--session", &session], 0).await;
    let requests = world.model.requests();
    let [.., before, after] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((shown(before), shown(after)), (0, 1), "{}", tool_texts(after));
    assert!(!tool_texts(after).contains("unchanged since"), "{}", tool_texts(after));
}

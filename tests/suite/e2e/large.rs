//! Command output that exceeds the window: it is stored completely and shown in part, and the model reads the relevant
//! lines.

use super::{Events as _, *};

/// Command that prints 80,000 lines, about two megabytes, with an error message in the middle.
const COMMAND: &str = r#"seq -f 'this is line %06.0f' 1 40000; echo 'error: the walrus is gone'; seq -f 'this is line %06.0f' 40001 80000"#;

/// Returns the path of the stored output, as sent to the model.
fn stored_path(result: &str) -> &str {
    let start = result.find("large_tool_results/").unwrap_or_else(|| panic!("no path in {result}"));
    let end = result[start..].find(".txt").unwrap();
    &result[start..start + end + 4]
}

/// Replies as a careful model that runs the command, reads around the middle, and searches for a line.
fn reads_on(request: &Recorded) -> Reply {
    let result = tool_texts(request);
    if !result.contains("large_tool_results/") {
        return Reply::tool_call("run_bash_command", json!({"command": COMMAND}));
    }
    let path = stored_path(&result);
    if !result.contains("this is line 040003") {
        return Reply::tool_call("read_file", json!({"path": path, "offset": 40_000, "limit": 10}));
    }
    if !result.contains("077777") {
        return Reply::tool_call("grep", json!({"path": path, "pattern": "07777[7]$"}));
    }
    Reply::text("The walrus is gone.")
}

fn home(model: &ModelServer, agentd_yaml: &str) -> TempHome {
    let home = TempHome::with_model(&model.base_url());
    home.write("config/models.yaml", "base: {context_window: 16384}\n");
    home.write("config/agentd.yaml", agentd_yaml);
    home.write("project/a.txt", "a");
    home
}

fn approving_start(daemon: &TempDaemon) -> StartRequest {
    let mut start = turn(trusting_session(&daemon.path().join("project")), "Find the walrus");
    start.start.on_interrupt = OnInterrupt::Approve;
    start
}

/// Checks that no request exceeds the window, by any token count.
#[track_caller]
fn assert_requests_fit(model: &ModelServer) {
    for request in model.requests() {
        let bytes = request.body["messages"].to_string().len();
        assert!(bytes < 16_384 * 3, "request {} has {bytes} bytes", request.number);
    }
}

async fn assert_line_found_despite_kill(agentd_yaml: &str, shown: &[&str]) {
    let model = ModelServer::start().await;
    model.respond_with(reads_on);
    let mut daemon = TempDaemon::start_in(home(&model, agentd_yaml)).await;
    let client = Client::connect(&daemon.socket()).await.unwrap();
    let mut events = client.turn(approving_start(&daemon)).await.unwrap();
    let is_result = |kind: &EventKind| matches!(kind, EventKind::ItemCompleted { item, .. } if matches!(item.body, ItemBody::ToolResult(_)));
    let seen = events.stored_until(is_result).await;
    daemon.signal(Signal::SIGKILL);
    daemon.ended().await;
    let EventKind::ItemCompleted { item, .. } = &seen.last().unwrap().kind else { panic!() };
    let ItemBody::ToolResult(result) = &item.body else { panic!() };
    has_all(&result.text, shown);
    assert!(result.text.len() < 12_000, "{} bytes are in the journal", result.text.len());
    let session = seen[0].session_id.to_string();

    daemon.restart().await;
    let path = daemon.data().join("workspace").join(&session).join(stored_path(&result.text));
    assert!(fs::read_to_string(path).unwrap().contains("\nerror: the walrus is gone\n"));
    let args = ["run", "--session", &session, "--on-interrupt", "approve", "--output", "json"];
    let ended = daemon.agentctl(args).await.json();
    let text = tool_texts(model.requests().last().unwrap());
    assert_eq!(ended["text"], "The walrus is gone.", "{text}");
    has_all(&text, &["this is line 040000\nerror: the walrus is gone\nthis is line 040001\n", "this is line 077777"]);
    assert_requests_fit(&model);
}

#[tokio::test]
async fn large_output_shows_the_decisive_lines_at_once() {
    let decides =
        ["exit code 0", "040000\nerror: the walrus is gone\nthis is line 040001\n", "line 080000", "left out"];
    assert_line_found_despite_kill("", &decides).await;
    // With `feedback_tokens: never`, only the head and the tail of the output are shown.
    let parts = ["exit code 0", "this is line 000010\n", "this is line 080000\n", "80,003 lines", "offset="];
    assert_line_found_despite_kill("tools: {feedback_tokens: never}\n", &parts).await;
}

/// The workspaces are on a disk that is nearly full.
#[tokio::test]
async fn turn_continues_with_lost_output_on_a_full_disk() {
    let model = ModelServer::start().await;
    let home = home(&model, "");
    let Some(command) = on_small_disk(&home, "data/workspace", "512k") else { return };
    let world = World { daemon: TempDaemon::start_with(home, command).await, model };
    world.model.respond_with(|request| match tool_texts(request).contains("could not be stored") {
        true => Reply::text("So be it."),
        false => Reply::tool_call("run_bash_command", json!({"command": COMMAND})),
    });
    let client = world.client().await;
    let mut events = client.turn(approving_start(&world.daemon)).await.unwrap();
    let seen = events.to_the_end().await;
    let result = tool_texts(world.model.requests().last().unwrap());
    has_all(
        &result,
        &["exit code 0", "this is line 000010\n", "this is line 080000\n", "The rest could not be stored and is lost"],
    );
    let warned =
        seen.iter().any(|event| matches!(&event.kind, EventKind::Warning { code, .. } if code == "result_lost"));
    assert!(warned, "{seen:#?}");
    assert_requests_fit(&world.model);
    world.still_serves().await;
}

/// The bytes of the image are not in the prompt, the journal or the audit log, but the next command can read all of
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn image_output_of_a_command_is_stored_and_named() {
    let world = World::start().await;
    let image: Vec<u8> = b"\x89PNG\r\n\x1a\n".iter().copied().chain((0..=255).cycle().take(40_000)).collect();
    world.write("project/logo.png", &image);
    let project = world.path().join("project");
    let size = image.len();
    world.model.respond_with(move |request| {
        let result = tool_texts(request);
        let Some(start) = result.find("/large_tool_results/") else {
            return Reply::tool_call("run_bash_command", json!({"command": "cat $PROJECT/logo.png"}));
        };
        let path = &result[start..start + result[start..].find(".png").unwrap() + 4];
        if !result.contains("could not read") {
            return Reply::tool_call("read_file", json!({ "path": path }));
        }
        if !result.contains("bytes are there") {
            let command = format!("cmp {path} $PROJECT/logo.png && echo $(stat -c %s {path}) bytes are there");
            return Reply::tool_call("run_bash_command", json!({ "command": command }));
        }
        Reply::text("It is all there.")
    });
    let mut events = world.client().await.turn(turn(trusting_session(&project), "Show me the logo")).await.unwrap();
    events.to_the_end().await;
    let result = tool_texts(world.model.requests().last().unwrap());
    assert!(result.contains("[stdout, a PNG image of 40,008 bytes, is not shown: it is stored in "), "{result}");
    assert!(result.contains("could not read the picture: its text was not recognised"), "{result}");
    assert!(result.contains(&format!("{size} bytes are there")), "{result}");
    assert!(!result.contains('\u{fffd}') && result.len() < 2_000, "{result}");
}

#[tokio::test]
async fn progress_reaches_the_model_in_its_last_state() {
    let world = World::start().await;
    let command = r"printf '\033]0;title\007'; for i in 10 50 100; do printf '\r%s%% of it' $i; done; \
        printf '\r\n\033[32mgreen\033[0m\r\nplain\n'; echo whole >&2";
    let plain = ("run_bash_command", json!({"command": "printf 'a\\r\\nb\\n'"}));
    let calls = vec![("run_bash_command", json!({"command": command})), plain];
    let (results, _) = world.call_all(calls, &["--on-interrupt", "approve"]).await;
    has_all(&results[0], &["stdout:\n100% of it\r\ngreen\r\nplain\nstderr:\nwhole\n[Overwritten lines"]);
    assert!(results[1].ends_with("stdout:\na\r\nb"), "{}", results[1]);
    // The original is in the session's files, for `/show` and for the model.
    let path = world.data().join("workspace").join(world.last_session().await).join(stored_path(&results[0]));
    let original = fs::read_to_string(path).unwrap();
    has_all(&original, &["\u{1b}]0;title\u{7}\r10% of it\r50% of it\r100% of it\r\n\u{1b}[32mgreen\u{1b}[0m\r\n"]);
}

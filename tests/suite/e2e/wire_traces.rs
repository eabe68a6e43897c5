//! Model requests and responses as sent over the wire: they are recorded, displayed and compared.

use super::*;

/// Setting that records the requests of all sessions.
const ON: &str = "trace: {requests: true}\n";

/// An API key, as found in a configuration.
const KEY: &str = "key-of-the-test-4711";

/// Text that a terminal would interpret.
const HOSTILE: &str = "look\u{1b}]0;owned\u{7}\u{202e}";

/// Runs a turn in a new session. Returns the session's ID.
async fn session_of_turn(daemon: &TempDaemon, args: &[&str]) -> String {
    daemon.ok([&["run", "--output", "json"], args].concat()).await.session()
}

async fn run_turn(daemon: &TempDaemon, session: &str, text: &str) {
    daemon.ok(["run", text, "--session", session]).await;
}

async fn shown(daemon: &TempDaemon, args: &[&str]) -> Value {
    daemon.ok([&["trace", "--json"], args].concat()).await.json()
}

async fn listed(daemon: &TempDaemon, session: &str) -> Vec<Value> {
    shown(daemon, &[session, "--requests"]).await["requests"].as_array().unwrap().clone()
}

fn folder(daemon: &TempDaemon, session: &str) -> PathBuf {
    daemon.data().join("traces").join(session)
}

/// Returns all files of a trace, starting with the current one.
fn files(folder: &Path) -> Vec<PathBuf> {
    let older = (1..).map(|number| folder.join(format!("trace.{number}.jsonl")));
    std::iter::once(folder.join("trace.jsonl")).chain(older).take_while(|path| path.exists()).collect()
}

fn bytes(folder: &Path) -> u64 {
    files(folder).iter().map(|path| path.metadata().unwrap().len()).sum()
}

/// Checks that each received request is shown unchanged, and that the new parts of later requests are marked.
async fn assert_shown_unchanged(daemon: &TempDaemon, session: &str, wire: &str, requests: &[Recorded]) {
    assert!(requests.len() >= 2, "{requests:#?}");
    for (at, recorded) in requests.iter().enumerate() {
        let number = (at + 1).to_string();
        let record = shown(daemon, &[session, "--request", &number]).await;
        assert_eq!(record["request"]["body"], recorded.sent(), "{wire} {number}");
        assert_eq!(record["request"]["bytes"], recorded.text.len(), "{wire} {number}");
        assert_eq!(record["request"]["wire"], wire);
        let url = record["request"]["url"].as_str().unwrap();
        assert!(url.starts_with("http://127.0.0.1:") && url.ends_with(&recorded.path), "{url} {}", recorded.path);
        let (answer, new) = (&record["answer"], &record["new"]);
        holds(answer, json!({"status": 200, "outcome": "whole"}));
        assert!(answer["first_token_us"].as_u64() <= answer["duration_us"].as_u64() && !answer["body"].is_null());
        holds(&record, json!({"purpose": "turn", "step": at + 1, "session_id": session}));
        assert!(record["trace_id"].is_string() && record["turn_id"].is_string(), "{record:#}");
        assert_eq!(new.is_null(), at == 0, "{new}");
    }
}

#[tokio::test]
async fn chat_completions_are_shown_as_they_were_sent() {
    let world = World::configured(ON).await;
    let usage = json!({"prompt_tokens": 900, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 800}});
    world.model.reply(Reply::tool_call("list_workspace_files", json!({})));
    world.model.reply(Reply::text("Done.").with_usage(UsagePlace::Tail, usage));
    let session = session_of_turn(&world.daemon, &["List my files: {\"é\": \"漢\\u0041\"}"]).await;
    let wire = shown(&world.daemon, &[&session, "--request", "1"]).await["request"]["wire"].clone();
    assert_shown_unchanged(&world.daemon, &session, wire.as_str().unwrap(), &world.model.requests()).await;
    let second = shown(&world.daemon, &[&session, "--request", "2"]).await;
    let usage = &second["answer"]["usage"];
    holds(usage, json!({"prompt_tokens": 900, "cached_tokens": 800}));
    assert!(!second["new"].as_array().unwrap().is_empty() && second["before"] == 1, "{second:#}");
    let of_turn = shown(&world.daemon, &[&session, "--turn", "1", "--request", "2"]).await;
    assert_eq!(of_turn["number"], 2);
    world.agentctl(["trace", "--turn", "1", "--request", "3"]).await.exits(2).says(&["no request 3", "hint:"]);
    world.agentctl(["trace", "--request", "3"]).await.exits(2).says(&["no request 3", "1 to 2 are stored"]);
}

#[tokio::test]
async fn other_wires_are_shown_as_they_were_sent() {
    for provider in [Provider::Anthropic, Provider::OpenAi] {
        let mut world = wires::World::with(provider, &format!(", api_key: {KEY}"), ON).await;
        world.turn("Look at it", wires::steps(2)).await;
        let session = world.session.clone().unwrap();
        assert_shown_unchanged(&world.daemon, &session, provider.wire(), &world.model.requests()).await;
        let first = shown(&world.daemon, &[&session, "--request", "1"]).await;
        assert!(first["request"]["headers"].to_string().contains("[redacted]"), "{}", first["request"]["headers"]);
        assert!(!fs::read_to_string(folder(&world.daemon, &session).join("trace.jsonl")).unwrap().contains(KEY));
    }
}

#[tokio::test]
async fn every_attempt_has_its_own_trace_entry() {
    let world = World::configured(ON).await;
    world.model.reply(Reply::refusal(503, "come back later"));
    world.model.reply(Reply::text("Here I am."));
    let session = session_of_turn(&world.daemon, &["Hello"]).await;
    let failed = shown(&world.daemon, &[&session, "--request", "1"]).await;
    let answer = &failed["answer"];
    holds(answer, json!({"status": 503, "outcome": "failed"}));
    assert!(answer["body"].as_str().unwrap().contains("come back later"), "{failed:#}");
    assert!(answer["error"].as_str().unwrap().contains("come back later"), "{failed:#}");
    let again = shown(&world.daemon, &[&session, "--request", "2"]).await;
    assert_eq!((&again["request"]["attempt"], &again["new"]), (&json!(2), &json!([])), "{again:#}");
    world.ok(["trace", "--requests"]).await.shows(&["failed 503", "(attempt 2)", "whole 200"]);
}

#[tokio::test]
async fn cancelled_request_is_recorded_as_abandoned() {
    let world = World::configured(ON).await;
    world.model.reply(Reply::never());
    let session = world.ok(["run", "Hello", "--detach", "--output", "json"]).await.session();
    let requests = || async { (!world.model.requests().is_empty()).then_some(()) };
    until("the model is called", requests).await;
    // While the request is in flight, it is listed without a response.
    assert_eq!(listed(&world.daemon, &session).await[0]["answer"], Value::Null);
    world.client().await.cancel_turn(&session, None).await.unwrap();
    let ended =
        || async { Some(listed(&world.daemon, &session).await[0]["answer"].clone()).filter(|end| !end.is_null()) };
    let answer = until("the end of the answer is stored", ended).await;
    holds(&answer, json!({"outcome": "abandoned", "status": null}));
}

#[tokio::test]
async fn traces_contain_no_secrets() {
    let (model, home) = TempHome::with_server().await;
    let url = model.base_url();
    home.write(
        "config/models.yaml",
        format!("base: {{base_url: \"{url}\", api_key: {KEY}, headers: {{x-team: team-secret-0815}}}}\n"),
    );
    home.write("config/agentd.yaml", ON);
    let daemon = TempDaemon::start_in(home).await;
    model.lenient().respond_with(|request| match request.last_role() {
        "tool" => Reply::text(format!("It is {KEY}, as you said.")),
        _ => Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": format!("say \"{KEY}\"\n")})),
    });
    let session = session_of_turn(&daemon, &[&format!("My key is \"{KEY}\", yes"), "--on-interrupt", "approve"]).await;
    let requests = model.requests();
    assert!(
        requests.iter().all(|request| request.text.contains(KEY) && request.headers["x-team"] == "team-secret-0815")
    );
    let trace = fs::read_to_string(folder(&daemon, &session).join("trace.jsonl")).unwrap();
    assert!(!trace.contains(KEY) && !trace.contains("team-secret"), "{trace}");
    let record = shown(&daemon, &[&session, "--request", "2"]).await;
    // The record is still valid JSON with all other content.
    let text = record["request"]["body"].to_string();
    assert!(
        text.contains("My key is") && text.contains("[redacted]") && record["request"]["body"].is_object(),
        "{record:#}"
    );
    assert!(record["request"]["headers"].to_string().contains("[redacted]"), "{record:#}");
}

#[tokio::test]
async fn files_are_private_rotated_and_removed_with_the_session() {
    let limits = "trace: {requests: true, max_file_bytes: 65536, max_files: 2}\n";
    let world = World::configured(limits).await;
    world.model.respond_with(|request| Reply::text(format!("answer {} ", request.number).repeat(200)));
    let long_text = |turn: usize| (0..3000).map(|word| format!("{turn}-{word} ")).collect::<String>();
    let session = session_of_turn(&world.daemon, &[&long_text(0)]).await;
    for turn in 1..8 {
        run_turn(&world.daemon, &session, &long_text(turn)).await;
    }
    let listed = listed(&world.daemon, &session).await;
    let folder = folder(&world.daemon, &session);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((files(&folder).len(), mode(&folder)), (2, 0o700));
    assert!(files(&folder).iter().all(|path| mode(path) == 0o600));
    // The limit on the trace is exceeded by at most one request, which may be larger than a file.
    assert!(bytes(&folder) < 600_000, "{}", bytes(&folder));
    let (first, last) = (listed[0]["number"].as_u64().unwrap(), listed.last().unwrap()["number"].as_u64().unwrap());
    assert!(first > 1 && last == 8, "{first} {last}");
    for number in first..=last {
        let shown_record = shown(&world.daemon, &[&session, "--request", &number.to_string()]).await;
        let recorded = &world.model.requests()[usize::try_from(number).unwrap() - 1];
        assert_eq!(shown_record["request"]["body"], recorded.sent(), "{number}");
    }
    world.agentctl(["trace", "--request", "1"]).await.exits(2).says(&["no request 1", "are stored"]);
    has_all(&shown(&world.daemon, &[&session, "--requests"]).await["remarks"].to_string(), &["no longer stored"]);
    world.ok(["sessions", "delete", &session, "--yes"]).await;
    agentd_testkit::daemon::until_true("the trace is removed", || !folder.exists()).await;
}

#[tokio::test]
async fn trace_continues_after_a_kill_and_skips_cut_lines() {
    let mut world = World::configured(ON).await;
    world.model.default_reply(Reply::text("Yes."));
    let session = session_of_turn(&world.daemon, &["One"]).await;
    run_turn(&world.daemon, &session, "Two").await;
    let path = folder(&world.daemon, &session).join("trace.jsonl");
    let ends = || async {
        let text = fs::read_to_string(&path).ok()?;
        (text.matches("\"type\":\"answer\"").count() == 2).then_some(text.len())
    };
    let length = until("both answers are written", ends).await;
    world.daemon.kill9().await;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(u64::try_from(length).unwrap() - 20).unwrap();
    world.daemon.restart().await;
    run_turn(&world.daemon, &session, "Three").await;
    let record = shown(&world.daemon, &[&session, "--requests"]).await;
    let numbers: Vec<u64> =
        record["requests"].as_array().unwrap().iter().map(|request| request["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(record["remarks"].to_string().contains("1 line of the trace: truncated"), "{}", record["remarks"]);
    assert!(
        record["requests"][1]["answer"].is_null() && record["requests"][2]["answer"]["status"] == 200,
        "{record:#}"
    );
    for number in 1..=3 {
        let one = shown(&world.daemon, &[&session, "--request", &number.to_string()]).await;
        assert_eq!(one["request"]["body"], world.model.requests()[number - 1].sent());
    }
    world.ok(["trace", "--request", "2"]).await.shows(&["its outcome is unknown"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_of_fifty_steps_stores_only_new_parts() {
    let world = World::configured(ON).await;
    world.model.respond_with(|request| {
        let done = request.messages().iter().filter(|message| message["role"] == "tool").count();
        if done >= 50 {
            return Reply::text("Done.");
        }
        let content = format!("the words of step {done}: ").repeat(40);
        Reply::tool_call("run_bash_command", json!({"command": format!("echo '{content}'")}))
    });
    let options = ["Do it", "--on-interrupt", "approve", "--max-steps", "100", "--output", "json"];
    let session = &world.ok([&["run"][..], &options].concat()).await.session();
    let requests = world.model.requests();
    assert!(requests.len() > 50, "{}", requests.len());
    let listed = listed(&world.daemon, session).await;
    let sum = |key: &str| listed.iter().map(|one| one[key]["bytes"].as_u64().unwrap()).sum::<u64>();
    let (sent, received, largest) = (sum("request"), sum("answer"), requests.last().unwrap().text.len() as u64);
    let stored = bytes(&folder(&world.daemon, session));
    // The limit allows for new parts once, the responses, and metadata for each exchange. Escapes add a little.
    let linear = 2 * largest + 2 * received + 3000 * listed.len() as u64;
    assert!(stored < linear && stored < sent / 4, "{stored} of {sent}; {linear}");
    let last = shown(&world.daemon, &[session, "--request", &listed.len().to_string()]).await;
    assert_eq!(last["request"]["body"], requests.last().unwrap().sent());
}

#[tokio::test]
async fn requests_are_traced_only_if_enabled_for_the_session() {
    let world = World::with_reply("Yes.").await;
    let quiet = session_of_turn(&world.daemon, &["Hello"]).await;
    for args in [["--request", "1"], ["--diff", "1"]] {
        let args: Vec<&str> =
            [&["trace", quiet.as_str()][..], &args, if args[0] == "--diff" { &["2"] } else { &[] }].concat();
        world.agentctl(args).await.exits(2).says(&["no requests of this session are stored", "hint:", "--trace"]);
    }
    assert!(!world.data().join("traces").exists());
    let traced = session_of_turn(&world.daemon, &["Hello", "--trace"]).await;
    run_turn(&world.daemon, &traced, "Again").await;
    run_turn(&world.daemon, &quiet, "Again").await;
    assert_eq!(listed(&world.daemon, &traced).await.len(), 2);
    world.agentctl(["trace", &quiet, "--requests"]).await.exits(2).says(&["no requests"]);
    world.ok(["run", "From now on", "--session", &quiet, "--trace"]).await;
    assert_eq!(listed(&world.daemon, &quiet).await.len(), 1);
    world.write("config/agentd.yaml", ON);
    world.ok(["reload"]).await;
    let third = session_of_turn(&world.daemon, &["Hello"]).await;
    assert_eq!(listed(&world.daemon, &third).await.len(), 1);
    let storage = world.json(["storage"]).await;
    let part = storage["parts"].as_array().unwrap().iter().find(|part| part["part"] == "traces").unwrap();
    assert_eq!(part["files"], 3, "{storage:#}");
}

#[tokio::test]
async fn subagent_and_summary_requests_are_distinguished() {
    let world = World::configured(ON).await;
    world.model.respond_with(|request| match (is_subagent(request), request.last_role()) {
        (true, _) => Reply::text("Looked at it, and found all of it in order. ".repeat(5)),
        (false, "tool") => Reply::text("Done."),
        _ if request.last_user().contains("Have it done") => {
            Reply::tool_call("delegate_task", json!({"task": "Look at it"}))
        }
        _ => Reply::text("## What the person wants\nTo have it done.\n## Next steps\nNone."),
    });
    let session = session_of_turn(&world.daemon, &["Have it done"]).await;
    for turn in 0..10 {
        run_turn(&world.daemon, &session, &format!("And this, {turn}. {}", "More words. ".repeat(400))).await;
    }
    world.ok(["compact", &session]).await;
    let listed = listed(&world.daemon, &session).await;
    let of = |purpose: &str, own: bool| {
        let fits = |one: &&Value| one["purpose"] == purpose && (one["session_id"] == *session) == own;
        listed.iter().filter(fits).count()
    };
    assert_eq!((of("turn", true), of("turn", false)), (12, 1), "{listed:#?}");
    assert!(of("summary", true) >= 1, "{listed:#?}");
    let child = listed.iter().find(|one| one["session_id"] != *session).unwrap();
    holds(child, json!({"before": null, "owner": session}));
    world.ok(["trace", &session, "--requests"]).await.shows(&["subagent", ": summary"]);
    let of_child = self::listed(&world.daemon, child["session_id"].as_str().unwrap()).await;
    assert_eq!(of_child.len(), 1, "{of_child:#?}");
}

#[tokio::test]
async fn trace_marks_new_lines_and_escapes_terminal_codes() {
    let world = World::configured(ON).await;
    world.model.default_reply(Reply::text(HOSTILE));
    let session = session_of_turn(&world.daemon, &[&format!("{HOSTILE}\nfirst line\nsecond line")]).await;
    run_turn(&world.daemon, &session, "And now?").await;
    let second = world.ok(["trace", "--request", "2"]).await.stdout;
    let marked = |phrase: &str| second.lines().find(|line| line.contains(phrase)).map(|line| line.chars().next());
    assert_eq!((marked("And now?"), marked("second line")), (Some(Some('+')), Some(Some('|'))), "{second}");
    assert!(second.contains("+ is new since request 1") && second.contains("answer · whole 200"), "{second}");
    let diff = world.ok(["trace", "--diff", "1", "2"]).await.stdout;
    assert!(diff.starts_with("--- request 1\n+++ request 2\n@@") && diff.contains("And now?"), "{diff}");
    assert!(diff.lines().any(|line| line.starts_with('+')), "{diff}");
    for text in [&second, &diff] {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
    }
    world.ok(["trace", "--diff", "2", "2"]).await.says(&["the same body"]);
}

#[tokio::test]
async fn full_disk_skips_tracing_and_not_the_turn() {
    let (model, home) = TempHome::with_server().await;
    home.write("config/agentd.yaml", ON);
    let Some(command) = on_small_disk(&home, "data/traces", "16k") else { return };
    let daemon = TempDaemon::start_with(home, command).await;
    model.default_reply(Reply::text("Yes."));
    // The instructions and tools alone are larger than the disk.
    let session = session_of_turn(&daemon, &["Hello"]).await;
    run_turn(&daemon, &session, "And again").await;
    // The command waits until everything that fits has been written.
    daemon.agentctl(["trace", &session, "--requests"]).await.exits(2).says(&["no requests of this session are stored"]);
    let log = daemon.log();
    assert_eq!(log.matches("could not record model requests").count(), 1, "{log}");
}

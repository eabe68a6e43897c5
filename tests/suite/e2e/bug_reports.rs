//! Exports of a session in one file. On another host, which has neither the session's project nor its model, the import
//! has the same history and figures, and its turns can be replayed exactly. Imports are included in usage and in the
//! audit log.

use super::{travel::events_of, *};

/// Starts a host without a model, for imported sessions.
async fn host_without_model() -> TempDaemon {
    TempDaemon::start("http://127.0.0.1:9/v1").await
}

/// Replies like a model that reads, edits, runs a command, and delegates another read to a subagent.
fn answer(request: &Recorded) -> Reply {
    if is_subagent(request) {
        return Reply::text("The report. Each thing was looked at and found in order. ".repeat(6)).and_reasoning("Hm.");
    }
    let result = tool_texts(request);
    let asked = request.messages().iter().filter(|message| message["role"] == "user").count();
    let edit = json!({"path": "/project/notes.txt", "old_string": "old", "new_string": "new"});
    let steps = [
        (
            "old words",
            Reply::tool_call("read_file", json!({"path": "/project/notes.txt"})).and_reasoning("First I look."),
        ),
        ("Edited", Reply::tool_call("edit_file", edit)),
        ("it ran", Reply::tool_call("run_bash_command", json!({"command": "echo it ran; echo x > made"}))),
    ];
    let next = steps.into_iter().find(|(done, _)| !result.contains(done)).map(|(_, reply)| reply);
    let delegates = || Reply::tool_call("delegate_task", json!({"task": "Look at all of it once more."}));
    match (next, asked > 1 && result.contains("it ran"), result.contains("The report.")) {
        (Some(reply), ..) => reply,
        (None, true, false) if request.last_role() == "user" => delegates(),
        _ => Reply::text("It is done."),
    }
}

/// Creates a session with a project and three turns. The first turn asks the user twice.
async fn recorded_session(world: &World) -> String {
    world.write("project/notes.txt", "old words\n");
    world.write("project/AGENTS.md", "Be brief.\n");
    world.model.respond_with(answer);
    let args = ["run", "Go on", "-C", &world.mount(), "--on-interrupt", "wait", "--output", "json"];
    let running = world.spawn_agentctl(args);
    for tool in ["edit_file", "run_bash_command"] {
        let asked = async || world.questions().await.into_iter().find(|asked| asked["tool"] == tool);
        let asked = until("a question is pending", asked).await;
        world.ok(["answer", asked["id"].as_str().unwrap(), "approve"]).await;
    }
    let id = running.output(Vec::new()).await.exits(0).session();
    for prompt in ["Now look once more", "And what else?"] {
        world.ok(["run", prompt, "--session", &id, "--on-interrupt", "deny"]).await;
    }
    id
}

async fn move_session(world: &World, session: &str, to: &TempDaemon) -> Value {
    let file = world.path().join("report.tar.gz").display().to_string();
    world.ok(["sessions", "export", session, "-o", &file]).await;
    to.json(["sessions", "import", &file]).await
}

/// Returns the session events that a replay repeats, without times and facts about the host, and with IDs replaced by
/// their order. Subagents are represented by their results.
fn repeated(events: &[Value]) -> Vec<String> {
    let own = &events[0]["session_id"];
    let mut ids = Vec::new();
    let repeated = events.iter().filter(|event| is_repeated(event) && event["session_id"] == *own);
    repeated.map(|event| normalized(event, &mut ids).to_string()).collect()
}

/// Returns true if a replay repeats the event. Deltas are not stored. Project guides, facts about the host and the fill
/// level of the window differ between hosts.
fn is_repeated(event: &Value) -> bool {
    let state = event["change"]["state"].as_str().unwrap_or_default();
    let kind = event["item"]["kind"].as_str().unwrap_or_default();
    !["item_delta", "result"].contains(&event["type"].as_str().unwrap())
        && kind != "notice"
        && !["surroundings", "token_level", "title"].contains(&state)
}

fn normalized(value: &Value, ids: &mut Vec<String>) -> Value {
    match value {
        Value::Object(fields) => {
            let fields_left = fields.iter().filter(|(name, _)| !VARYING_FIELDS.contains(&name.as_str()));
            fields_left.map(|(name, value)| (name.clone(), normalized(value, ids))).collect()
        }
        Value::Array(values) => values.iter().map(|value| normalized(value, ids)).collect(),
        Value::String(text) => json!(with_indices(text, ids)),
        other => other.clone(),
    }
}

/// Event fields that differ in a replay: times, sequence numbers, facts about the host, and the reason for a slot.
const VARYING_FIELDS: [&str; 17] = [
    "at",
    "seq",
    "raised_at",
    "deadline",
    "duration_ms",
    "timing",
    "trace_id",
    "prompt",
    "environment",
    "by",
    "asked_by",
    "origin",
    "project",
    "reason",
    "rule",
    "for_good",
    "folder",
];

/// Replaces every ID in the text with its index.
fn with_indices(text: &str, ids: &mut Vec<String>) -> String {
    let is_id_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let pieces = text.split_inclusive(|letter| !is_id_letter(letter));
    let mut named = |word: &str| {
        let id = word.trim_end_matches(|letter| !is_id_letter(letter));
        if !is_id(id) {
            return word.to_owned();
        }
        let index = ids.iter().position(|other| other == id).unwrap_or_else(|| {
            ids.push(id.to_owned());
            ids.len() - 1
        });
        word.replace(id, &format!("id {index}"))
    };
    pieces.map(&mut named).collect()
}

fn is_id(text: &str) -> bool {
    let is_uuid = text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4;
    is_uuid || text.strip_prefix("call_").is_some_and(|rest| rest.len() == 24)
}

#[tokio::test]
async fn exported_session_replays_on_another_machine() {
    let world = World::start().await;
    let id = recorded_session(&world).await;
    let (events, figures) = (events_of(&world.daemon, &id).await, world.json(["context", &id]).await);
    let other = host_without_model().await;
    let report = move_session(&world, &id, &other).await;
    holds(&report, json!({"turns": 3, "subagents": 1}));
    let [page, traced] = ["page.html", "trace.html"].map(|name| world.path().join(name).display().to_string());
    world.ok(["sessions", "export", &id, "--format", "html", "-o", &page]).await;
    world.ok(["trace", &id, "--html", &traced]).await;
    assert_eq!(fs::read_to_string(&page).unwrap(), fs::read_to_string(&traced).unwrap(), "both pages are equal");
    fs::remove_dir_all(world.path().join("project")).unwrap();
    let page = ["sessions", "export", &id, "--format", "html", "--redact"];
    let output = world.ok(page).await;
    output.shows(&["<!", "Go on", "Now look once more", "it ran", "Look at all of it once more.", "The report."]);

    // The history and figures are the same, even after a restart.
    let mut other = other;
    assert_eq!(events_of(&other, &id).await, events);
    other.crash().await;
    let mut imported = other.json(["context", &id]).await;
    assert_eq!(imported.as_object_mut().unwrap().remove("imported"), Some(json!(true)));
    assert_eq!(imported, figures);
    other.ok(["context", &id]).await.shows(&["figures of the machine that it comes from"]);

    // Every turn can be replayed, without a model and without the project.
    let file = other.path().join("report.jsonl").display().to_string();
    other.ok(["sessions", "record", &id, "-o", &file]).await;
    let played = other.ok(["run", "--replay", &file, "--output", "stream-json"]).await.json_lines();
    let (then, now) = (repeated(&events), repeated(&played));
    let others = then.iter().zip(&now).filter(|(then, now)| then != now);
    let others: Vec<String> = others.map(|(then, now)| format!("- {then}\n+ {now}")).collect();
    assert!(others.is_empty() && then.len() == now.len(), "{} and {}\n{}", then.len(), now.len(), others.join("\n"));
    assert_eq!(other.json(["sessions", "list"]).await.as_array().unwrap().len(), 1, "the session is deleted");
}

#[tokio::test]
async fn reimported_usage_counts_once_and_imports_are_audited() {
    let world = World::start().await;
    let id = recorded_session(&world).await;
    let total = async || world.json(["usage"]).await["total"].clone();
    let before = total().await;
    let early = world.path().join("early.tar.gz").display().to_string();
    world.ok(["sessions", "export", &id, "-o", &early]).await;
    let imports = async || {
        let lines = world.json(["audit"]).await;
        lines
            .as_array()
            .unwrap()
            .iter()
            .filter(|line| line.to_string().contains("session_imported"))
            .cloned()
            .collect::<Vec<_>>()
    };
    for times in 1..=2 {
        world.ok(["sessions", "delete", &id, "--yes"]).await;
        world.json(["sessions", "import", &early]).await;
        assert_eq!(total().await, before, "usage is not counted again");
        assert_eq!(imports().await.len(), times);
    }
    has_all(&imports().await[0].to_string(), &[&id, "agentd ", "agentctl"]);
    world.ok(["audit"]).await.shows(&["session imported"]);
    // The session can be continued, and new usage is added, including on the host that the session is exported to.
    world.ok(["run", "And then?", "--session", &id]).await;
    let grown = total().await;
    assert!(grown["calls"].as_u64() > before["calls"].as_u64(), "{grown}");
    let other = host_without_model().await;
    move_session(&world, &id, &other).await;
    assert_eq!(other.json(["usage"]).await["total"], grown);
}

#[tokio::test]
async fn fork_of_an_imported_session_describes_this_machine() {
    let world = World::start().await;
    world.model.respond_with(|_| Reply::text("Hello."));
    let id = json_of_run(&world, &["run", "Hello"]).await;
    json_of_run(&world, &["run", "Again", "--session", &id]).await;
    let file = world.path().join("session.tar.gz").display().to_string();
    world.ok(["sessions", "export", &id, "-o", &file]).await;
    // Text from another host, in an archive with valid hashes.
    let other = TempDaemon::start(&world.model.base_url()).await;
    let folder = other.path().join("unpacked");
    fs::create_dir(&folder).unwrap();
    let script = "tar xzf \"$0\" && sed -i 's/This machine runs [^.]*/This machine runs Elsewhere/' journal/*/*.jsonl && \
                  sha256sum manifest.json journal/*/*.jsonl > SHA256SUMS && \
                  tar czf ../elsewhere.tar.gz --format=gnu manifest.json journal/*/*.jsonl SHA256SUMS";
    let packed = Command::new("sh").args(["-c", script, &file]).current_dir(&folder).status().unwrap();
    assert!(packed.success());
    let file = other.path().join("elsewhere.tar.gz").display().to_string();
    other.json(["sessions", "import", &file]).await;
    assert!(events_of(&other, &id).await.iter().any(|event| event.to_string().contains("runs Elsewhere")));
    let forks =
        async |turn: &str| other.ok(["sessions", "fork", &id, "--at-turn", turn]).await.stdout.trim().to_owned();
    let early = forks("1").await;
    // The imported events of the early fork end at the cut. Later events are from this host.
    let origin = async |session: &str| {
        let shown = other.json(["sessions", "show", session]).await;
        (shown["settings"]["imported"]["events"].as_u64().unwrap(), shown["last_seq"].as_u64().unwrap())
    };
    let ((whole, _), (part, last)) = (origin(&id).await, origin(&early).await);
    assert!(part < whole && part < last, "{part} of {whole}, and {last} in the fork");
    for session in [&id, &early] {
        other.ok(["run", "Where are you?", "--session", session]).await;
        let asked = world.model.requests().last().unwrap().body.to_string();
        assert!(!asked.contains("runs Elsewhere"), "{asked}");
    }
    // The same applies to a fork that is made later, at a turn from the other host.
    let late = forks("1").await;
    other.ok(["run", "Where are you?", "--session", &late]).await;
    let asked = world.model.requests().last().unwrap().body.to_string();
    assert!(!asked.contains("runs Elsewhere"), "{asked}");
}

async fn json_of_run(world: &World, args: &[&str]) -> String {
    let all = args.iter().chain(&["--output", "json", "--on-interrupt", "approve"]);
    world.ok(all).await.session()
}

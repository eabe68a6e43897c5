//! Agents: defined in `agents.yaml`, listed, delegated to, and active in a session.

use agentd_core::interrupt::Interrupt;

use super::{Events as _, *};

const AGENTS: &str = "agents:
  poet: {description: Writes verse., prompt: You rhyme., tools: [read_file, gerp], slot: code}
  critic: {description: Judges verse., prompt: You judge.}
";

/// Configuration of an agent that can only read and delegate.
const CLERK: &str = "agents:
  clerk: {description: Files verse., prompt: You file., tools: [read_file, delegate_task]}
  critic: {description: Judges verse., prompt: You judge.}
";

async fn world() -> World {
    world_of(AGENTS).await
}

async fn world_of(agents: &str) -> World {
    World::with_files(&[("config/agents.yaml", agents)]).await
}

/// Returns the name of the agent whose request this is.
fn agent_of(request: &Recorded) -> &'static str {
    let system = request.messages()[0]["content"].as_str().unwrap();
    let prompts = ["poet", "critic", "clerk"].map(|id| (format!("You are the agent `{id}`"), id));
    prompts.into_iter().find(|(text, _)| system.contains(text.as_str())).map_or("main", |(_, id)| id)
}

fn tools_of(request: &Recorded) -> Vec<&str> {
    let tools = request.body["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn transfer(to: &str) -> Reply {
    Reply::tool_call(format!("transfer_to_{to}"), json!({"task": "Go on"}))
}

/// Returns the changes to the agent stack in these lines.
fn stack_changes(lines: &[Value]) -> Vec<Value> {
    lines.iter().filter(|line| line["change"]["state"] == "agent").map(|line| line["change"]["stack"].clone()).collect()
}

#[tokio::test]
async fn agents_are_listed_and_shown_and_unknown_tools_are_logged() {
    let world = world().await;
    let listed = world.json(["agents", "list"]).await;
    let ids = texts(&listed, "id");
    assert_eq!(ids, ["critic", "poet", "researcher", "reviewer"]);
    let listed = world.ok(["agents", "list"]).await.stdout;
    assert!(["poet", "code", "Writes verse.", "by mention"].iter().all(|text| listed.contains(text)), "{listed}");
    let shown = world.ok(["agents", "show", "poet"]).await.stdout;
    assert!(["You rhyme.", "read_file", "code"].iter().all(|text| shown.contains(text)), "{shown}");
    let shown = world.json(["agents", "show", "poet"]).await;
    holds(&shown, json!({"slot": "code", "tools": ["read_file", "gerp"]}));
    world.agentctl(["agents", "show", "peot"]).await.exits(2).says(&["no such agent", "poet"]);
    has_all(&world.log(), &["poet names an unknown tool `gerp`, did you mean `grep`?"]);
}

#[tokio::test]
async fn handoff_switches_prompt_tools_and_slot_until_the_answer() {
    let world = world().await;
    world.model.respond_with(|request| match agent_of(request) {
        "main" => transfer("poet"),
        _ => Reply::text("Roses are red."),
    });
    let output = world.ok(["run", "Write a poem", "--output", "stream-json"]).await;
    let lines = output.json_lines();
    assert_eq!(lines.last().unwrap()["text"], "Roses are red.");
    assert_eq!(stack_changes(&lines), [json!(["poet"]), json!([])]);
    let ended = lines.iter().position(|line| line["type"] == "turn_ended").unwrap();
    assert_eq!(lines[ended - 1]["change"]["stack"], json!([]), "the main agent is active before the turn ends");

    let requests = world.model.requests();
    let [main, poet] = requests.as_slice() else { panic!("{requests:#?}") };
    assert!(tools_of(main).contains(&"transfer_to_poet") && !tools_of(main).contains(&"transfer_to_main"));
    let tools = tools_of(poet);
    assert!(
        tools.contains(&"read_file") && tools.contains(&"transfer_to_main") && tools.contains(&"transfer_to_critic")
    );
    for not in ["transfer_to_poet", "run_bash_command", "edit_file", "delegate_task"] {
        assert!(!tools.contains(&not), "{tools:?}");
    }
    // The general instructions come first, unchanged.
    let text = |request: &Recorded| request.messages()[0]["content"].as_str().unwrap().to_owned();
    let general = text(main).split("\n\nThis machine runs").next().unwrap().to_owned();
    assert!(text(poet).starts_with(&general) && text(poet).contains("You rhyme."), "{}", text(poet));
    assert!(tool_texts(poet).contains("has transferred the conversation to you, `poet`"));
    let usage: Vec<&Value> = lines.iter().filter(|line| line["type"] == "usage_updated").collect();
    assert_eq!((&usage[1]["slot"], &usage[1]["prompt"]["broken_by"]), (&json!("code"), &json!("agent")));
    // The next turn is run by the main agent.
    let session = lines[0]["session_id"].as_str().unwrap();
    world.model.respond_with(|request| Reply::text(agent_of(request)));
    assert_eq!(world.ok(["run", "And now?", "--session", session]).await.stdout.trim(), "main");
}

#[tokio::test]
async fn handoff_ring_is_refused_and_handing_back_is_allowed() {
    let world = world().await;
    world.model.respond_with(|request| {
        let result = tool_texts(request);
        match agent_of(request) {
            "main" if result.contains("transferred the conversation back") => Reply::text("Judged and done."),
            "main" => transfer("poet"),
            "poet" => transfer("critic"),
            "critic" if result.contains("would be a loop") => transfer("main"),
            _ => transfer("poet"),
        }
    });
    let output = world.ok(["run", "Write a poem", "--output", "stream-json"]).await;
    let lines = output.json_lines();
    assert_eq!(lines.last().unwrap()["text"], "Judged and done.");
    assert_eq!(stack_changes(&lines), [json!(["poet"]), json!(["poet", "critic"]), json!([])]);
    assert!(tool_texts(world.model.requests().last().unwrap()).contains("main → poet → critic"));
}

/// Runs a turn until an agent asks a question. Returns the session, the number of the last event, and the question.
async fn asked(world: &World) -> (String, u64, Interrupt) {
    let request = turn(SessionChoice::New(NewSession::default()), "Judge");
    let mut stream = world.client().await.turn(request).await.unwrap();
    let events = stream.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
    let last = events.last().unwrap();
    let EventKind::InterruptRaised { interrupt } = &last.kind else { unreachable!() };
    (stream.session_id().to_string(), last.seq, (**interrupt).clone())
}

#[tokio::test]
async fn waiting_agent_stays_active_after_a_crash() {
    let mut world = world().await;
    world.model.respond_with(|request| match (agent_of(request), tool_texts(request)) {
        ("main", _) => transfer("critic"),
        (_, result) if result.contains("verse") => Reply::text("It is good."),
        _ => Reply::tool_call("ask_human", json!({"question": "Which verse?"})),
    });
    let (session, seen, interrupt) = asked(&world).await;
    assert_eq!(interrupt.asked_by.agent, "critic");
    world.daemon.crash().await;
    let client = world.client().await;
    assert_eq!(client.session(&session).await.unwrap().session.agents, ["critic"]);
    let mut attached = client.subscribe(&session, seen, false).await.unwrap();
    let answer = Answer::Text { text: "the first verse".to_owned() };
    client.answer(interrupt.id, &answer, "phone").await.unwrap();
    attached.to_the_end().await;
    let last = world.model.requests().last().unwrap().clone();
    assert_eq!(agent_of(&last), "critic");
    assert!(client.session(&session).await.unwrap().session.agents.is_empty());
}

#[tokio::test]
async fn task_is_delegated_to_an_agent_by_name() {
    let world = world().await;
    world.model.respond_with(|request| {
        let long = "Roses are red, and violets are blue, and so the day goes on. ".repeat(5);
        match (agent_of(request), tool_texts(request)) {
            ("poet", _) => Reply::text(long),
            (_, text) if text.contains("Roses") => Reply::text("Done."),
            (_, text) if text.contains("no such agent: \"peot\"") => {
                Reply::tool_call("delegate_task", json!({"task": "Rhyme", "agent": "poet"}))
            }
            _ => Reply::tool_call("delegate_task", json!({"task": "Rhyme", "agent": "peot"})),
        }
    });
    let output = world.ok(["run", "Write a poem", "--output", "stream-json"]).await;
    let lines = output.json_lines();
    let subagent =
        lines.iter().find(|line| line["change"]["state"] == "subagent").unwrap_or_else(|| panic!("{lines:#?}"));
    assert_eq!(subagent["change"]["name"], "poet");
    let child = subagent["change"]["session_id"].as_str().unwrap();
    // The child's events are among the events of the turn, before the result of the call.
    let of_child: Vec<usize> = (0..lines.len()).filter(|at| lines[*at]["session_id"] == child).collect();
    assert_eq!(lines[*of_child.last().unwrap()]["type"], "turn_ended");
    let is_result = |line: &Value| {
        line["type"] == "item_completed"
            && line["item"]["name"] == "delegate_task"
            && line["item"]["kind"] == "tool_result"
    };
    let result = lines.iter().rposition(is_result).unwrap();
    assert!(of_child.iter().all(|at| *at < result), "{lines:#?}");
    let asked = world.model.requests().into_iter().find(|request| agent_of(request) == "poet").unwrap();
    let tools = tools_of(&asked);
    assert!(tools.contains(&"read_file") && !tools.iter().any(|tool| tool.starts_with("transfer_to_")), "{tools:?}");
    assert!(!tools.contains(&"delegate_task") && !tools.contains(&"run_bash_command"), "{tools:?}");
    let shown = world.json(["sessions", "show", child]).await;
    assert_eq!(shown["settings"]["parent"]["agent"], "poet", "{shown:#}");
}

/// Extracts the `context_id` from a result.
fn context_id(result: &str) -> Option<&str> {
    result.split("\"context_id\":\"").nth(1)?.split('"').next()
}

/// Returns a reply that is long enough to be accepted without a request for more detail.
fn long_report(text: &str) -> Reply {
    Reply::text(format!("{text} {}", "Roses are red, and violets are blue, and so the day goes on. ".repeat(5)))
}

#[tokio::test]
async fn agent_gains_no_tools_through_subagents() {
    let world = world_of(CLERK).await;
    world.model.respond_with(|request| {
        let result = tool_texts(request);
        match (is_subagent(request), agent_of(request)) {
            (true, _) => long_report("A part."),
            (false, "main") if result.is_empty() => Reply::tool_call("delegate_task", json!({"task": "Do all"})),
            (false, "main") => transfer("clerk"),
            (false, _) if result.contains("can do more than") && result.matches("A part.").count() > 1 => {
                Reply::text("It is filed.")
            }
            (false, _) if result.contains("can do more than") => {
                Reply::tool_call("delegate_task", json!({"task": "Do as I do"}))
            }
            (false, _) => {
                Reply::tool_call("delegate_task", json!({"task": "Go on", "context_id": context_id(&result).unwrap()}))
            }
        }
    });
    assert_eq!(world.ok(["run", "File it"]).await.stdout.trim(), "It is filed.");
    let requests = world.model.requests();
    let of_subagents: Vec<&Recorded> = requests.iter().filter(|request| is_subagent(request)).collect();
    let [of_main, of_clerk] = of_subagents.as_slice() else { panic!("{of_subagents:#?}") };
    assert_eq!((agent_of(of_main), agent_of(of_clerk)), ("main", "clerk"));
    assert!(tools_of(of_main).contains(&"run_bash_command"));
    let tools = tools_of(of_clerk);
    assert!(tools.contains(&"read_file"), "{tools:?}");
    assert!(!tools.contains(&"run_bash_command") && !tools.contains(&"write_file"), "{tools:?}");
}

#[tokio::test]
async fn subagent_without_its_definition_cannot_continue() {
    let world = world().await;
    world.model.respond_with(|request| {
        let result = tool_texts(request);
        match (agent_of(request), request.last_role(), context_id(&result)) {
            ("poet", ..) => long_report("A verse."),
            (_, "tool", _) => Reply::text("Done."),
            (_, _, None) => Reply::tool_call("delegate_task", json!({"task": "Rhyme", "agent": "poet"})),
            (_, _, Some(id)) => Reply::tool_call("delegate_task", json!({"task": "Rhyme on", "context_id": id})),
        }
    });
    let lines = world.ok(["run", "Write a poem", "--output", "stream-json"]).await.json_lines();
    let session = lines[0]["session_id"].as_str().unwrap();
    let result = |world: &World| tool_texts(world.model.requests().last().unwrap());
    let poem = result(&world);
    let child = context_id(&poem).unwrap();
    world.write("config/agents.yaml", CLERK);
    world.client().await.reload().await.unwrap();
    let asked = world.model.requests().len();
    world.ok(["run", "--session", session, "Write more"]).await;
    assert_eq!(world.model.requests().len(), asked + 2, "only the main agent calls the model");
    assert!(result(&world).contains("no such agent: \"poet\""), "{}", result(&world));
    world.agentctl(["run", "--session", child, "Write more"]).await.exits(2).says(&["`poet`", "agents.yaml", "hint:"]);
    let shown = world.json(["tools", "--session", child]).await;
    let visible =
        |name: &str| shown.as_array().unwrap().iter().any(|tool| tool["name"] == name && tool["visible"] == true);
    assert!(!visible("run_bash_command") && !visible("write_file"), "{shown:#}");
}

/// Runs a turn in which the agent `poet` reaches its step limit.
async fn reach_step_limit(world: &World, project: &str) -> String {
    world.model.respond_with(|request| {
        match (agent_of(request), request.last_user().contains("Answer the user now")) {
            ("main", _) => transfer("poet"),
            (_, true) => Reply::text("Roses are"),
            (_, false) => Reply::tool_call("read_file", json!({"path": "outputs/none.txt"})),
        }
    });
    let args = ["run", "Write a poem", "-C", project, "--max-steps", "2", "--output", "stream-json"];
    let lines = world.agentctl(args).await.exits(6).json_lines();
    assert_eq!(stack_changes(&lines), [json!(["poet"])]);
    lines[0]["session_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn turn_that_fails_to_start_changes_no_agent() {
    let mut world = world().await;
    let project = world.path().join("project");
    fs::create_dir(&project).unwrap();
    let session = reach_step_limit(&world, project.to_str().unwrap()).await;
    // After a restart, the daemon has to look up the project's location again.
    world.daemon.restart().await;
    let away = project.with_file_name("away");
    fs::rename(&project, &away).unwrap();
    world.agentctl(["run", "--session", &session, "And now?"]).await.exits(2);
    fs::rename(&away, &project).unwrap();
    world.model.respond_with(|request| Reply::text(agent_of(request)));
    let lines = world.ok(["run", "--session", &session, "And now?", "--output", "stream-json"]).await.json_lines();
    assert_eq!(lines.last().unwrap()["text"], "main");
    assert_eq!(stack_changes(&lines), [json!([])], "the active agent is restored from the journal");
    assert!(world.client().await.session(&session).await.unwrap().session.agents.is_empty());
}

#[tokio::test]
async fn active_agent_and_its_slot_survive_a_compaction() {
    let world = world().await;
    let project = world.path().join("project");
    fs::create_dir(&project).unwrap();
    let session = reach_step_limit(&world, project.to_str().unwrap()).await;
    world.agentctl(["compact", &session]).await;
    world.model.respond_with(|request| match agent_of(request) {
        "main" => Reply::text("I am back."),
        _ => transfer("main"),
    });
    let lines = world.ok(["run", "--session", &session, "--output", "stream-json"]).await.json_lines();
    assert_eq!(lines.last().unwrap()["text"], "I am back.");
    assert_eq!(stack_changes(&lines), [json!([])]);
    let slots: Vec<&Value> =
        lines.iter().filter(|line| line["type"] == "usage_updated").map(|line| &line["slot"]).collect();
    assert_eq!(slots, [&json!("code"), &json!("base")]);
}

#[tokio::test]
async fn pending_question_survives_removal_of_its_agent() {
    let mut world = world().await;
    world.model.respond_with(|request| match (agent_of(request), request.last_role()) {
        ("critic", _) => Reply::tool_call("ask_human", json!({"question": "Which verse?"})),
        (_, "tool") => Reply::text("Done."),
        _ => Reply::tool_call("delegate_task", json!({"task": "Judge", "agent": "critic"})),
    });
    let (session, seen, interrupt) = asked(&world).await;
    world.daemon.kill9().await;
    world.write("config/agents.yaml", "agents: {}\n");
    world.daemon.restart().await;
    let client = world.client().await;
    let pending = client.interrupts(Some(&session)).await.unwrap();
    assert_eq!(
        pending.iter().map(|pending| pending.id).collect::<Vec<_>>(),
        [interrupt.id],
        "the interrupt is still pending"
    );
    let mut attached = client.subscribe(&session, seen, false).await.unwrap();
    client.answer(interrupt.id, &Answer::Text { text: "the first".to_owned() }, "phone").await.unwrap();
    let rest = attached.to_the_end().await;
    let EventKind::TurnEnded { result } = &rest.last().unwrap().kind else { unreachable!() };
    assert_eq!(result.text, "Done.");
    has_all(&tool_texts(world.model.requests().last().unwrap()), &["`critic`", "agents.yaml"]);
    assert!(client.interrupts(None).await.unwrap().is_empty());
}

/// Agents with one letter as their name.
const CHAIN: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[tokio::test]
async fn handoff_depth_and_count_are_limited() {
    let cards = CHAIN.map(|id| format!("  {id}: {{description: One., prompt: You are one.}}\n")).concat();
    let world = world_of(&format!("agents:\n{cards}")).await;
    let index = |request: &Recorded| {
        let system = request.messages()[0]["content"].as_str().unwrap();
        CHAIN.iter().position(|id| system.contains(&format!("You are the agent `{id}`")))
    };
    // Each agent hands over to the next one, until the limit is reached.
    world.model.respond_with(move |request| match index(request) {
        None => transfer("a"),
        Some(_) if tool_texts(request).contains("5 agents are already stacked") => Reply::text("Five."),
        Some(index) => transfer(CHAIN[index + 1]),
    });
    let lines = world.ok(["run", "Go", "--output", "stream-json"]).await.json_lines();
    assert_eq!(lines.last().unwrap()["text"], "Five.");
    assert_eq!(stack_changes(&lines)[4], json!(["a", "b", "c", "d", "e"]));
    // Two agents hand over to each other, until the limit is reached.
    world.model.respond_with(move |request| match index(request) {
        _ if tool_texts(request).contains("changed 10 times") => Reply::text("Ten."),
        None => transfer("a"),
        Some(_) => transfer("main"),
    });
    let lines = world.ok(["run", "Go", "--output", "stream-json"]).await.json_lines();
    assert_eq!(lines.last().unwrap()["text"], "Ten.");
    assert_eq!(stack_changes(&lines).len(), 10);
}

/// `clerk` may only hand over to `poet`. `critic` has all tools.
const CONFINED: &str = "agents:
  clerk: {description: Files verse., prompt: You file., tools: [read_file, delegate_task, transfer_to_poet]}
  poet: {description: Writes verse., prompt: You rhyme., tools: [read_file]}
  critic: {description: Judges verse., prompt: You judge.}
";

/// Tries each way to leave an agent in turn, and then tries to write a file.
fn leave_attempts(request: &Recorded) -> Reply {
    let result = tool_texts(request);
    let write = |path: &str| Reply::tool_call("write_file", json!({"path": path, "content": "x"}));
    match (is_subagent(request), agent_of(request), result.matches("this agent cannot transfer to that one").count()) {
        (true, ..) if result.is_empty() => write("outputs/of-subagent"),
        (true, ..) => long_report("A part."),
        (_, "clerk", 0) => transfer("main"),
        (_, "clerk", 1) => transfer("critic"),
        (_, "clerk", _) if !result.contains("A part.") => {
            Reply::tool_call("delegate_task", json!({"task": "Write it"}))
        }
        (_, "clerk", _) if !result.contains("to you, `poet`") => transfer("poet"),
        (_, "clerk", _) => Reply::text("It is filed."),
        (_, "poet", 2) => transfer("critic"),
        (_, "poet", 3) if !result.contains("the agent poet does not name it") => write("outputs/of-poet"),
        (_, "poet", _) => transfer("clerk"),
        (_, agent, _) => Reply::text(format!("I am {agent}.")),
    }
}

#[tokio::test]
async fn user_selected_agent_cannot_be_left_by_a_model() {
    let mut world = world_of(CONFINED).await;
    world.model.respond_with(leave_attempts);
    let args = ["run", "File it", "--agent", "clerk", "--on-interrupt", "approve", "--output", "stream-json"];
    let lines = world.ok(args).await.json_lines();
    assert_eq!(lines.last().unwrap()["text"], "It is filed.");
    assert_eq!(stack_changes(&lines), [json!(["clerk"]), json!(["clerk", "poet"]), json!(["clerk"])]);
    let requests = world.model.requests();
    let transfers = |request: &Recorded| {
        let tools = tools_of(request).into_iter().filter(|tool| tool.starts_with("transfer_to_"));
        tools.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(transfers(&requests[0]), ["transfer_to_poet"]);
    let of_poet = requests.iter().find(|request| agent_of(request) == "poet").unwrap();
    assert_eq!(transfers(of_poet), ["transfer_to_clerk"]);
    let session = lines[0]["session_id"].as_str().unwrap();
    let written = world.data().join("workspace").join(session).join("outputs");
    for file in ["of-subagent", "of-poet"] {
        assert!(!written.join(file).exists(), "{file}");
    }
    let shown = world.ok(["sessions", "show", session]).await;
    shown.stdout.lines().find(|line| line.starts_with("agent ") && line.contains("clerk")).unwrap();

    // The agent remains active in later turns, and after a restart, a fork and an import.
    world.model.respond_with(|request| Reply::text(agent_of(request)));
    world.daemon.crash().await;
    let active_agent = async |world: &World, session: &str, more: &[&str]| {
        let args: Vec<&str> = ["run", "Who?", "--session", session].iter().chain(more).copied().collect();
        world.ok(args).await.stdout.trim().to_owned()
    };
    assert_eq!(active_agent(&world, session, &[]).await, "clerk");
    world.ok(["sessions", "reset", session]).await;
    assert_eq!(active_agent(&world, session, &[]).await, "clerk");
    let fork = world.ok(["sessions", "fork", session]).await.stdout.trim().to_owned();
    assert_eq!(active_agent(&world, &fork, &[]).await, "clerk");
    let archive = world.path().join("work.tar.gz");
    let archive = archive.to_str().unwrap();
    world.ok(["sessions", "export", session, "-o", archive]).await;
    let imported = world.json(["sessions", "import", archive, "--as-new"]).await;
    let imported = imported["session_id"].as_str().unwrap_or_else(|| panic!("{imported}")).to_owned();
    assert_eq!(active_agent(&world, &imported, &[]).await, "clerk");

    // The agent stays active until the user selects another one. An agent without a definition is not replaced.
    assert_eq!(active_agent(&world, session, &["--agent", "main"]).await, "main");
    assert_eq!(active_agent(&world, session, &[]).await, "main");
    world.write("config/agents.yaml", "agents: {}\n");
    world.client().await.reload().await.unwrap();
    let output = world.agentctl(["run", "Who?", "--session", &fork]).await.exits(2);
    output.says(&["`clerk`", "agents.yaml", "--agent main"]);
}

#[tokio::test]
async fn chat_command_selects_the_agent() {
    let world = world().await;
    world.model.respond_with(|request| Reply::text(format!("I am {}.", agent_of(request))));
    let lines = "/agent poet\nWho?\nAnd now?\n/agent main\nWho?\n";
    let output = world.agentctl_with(["chat"], lines).await.exits(0);
    let names: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("I am")).collect();
    assert_eq!(names, ["I am poet.", "I am poet.", "I am main."]);
    output.says(&["poet works here"]);
}

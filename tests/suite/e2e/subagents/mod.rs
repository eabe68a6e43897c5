//! Subagents: they work in separate sessions, through restarts, questions and cancellations.

mod killed;

use agentd_core::{
    agent::Subagent,
    grant::GrantScope,
    session::{SessionSettings, SessionStatus},
};

use super::{Events as _, *};

/// Returns a reply that is long enough to be accepted without a request for more detail.
fn report(of: &str) -> Reply {
    Reply::text(format!("The report of {of}. {}", "Each thing was looked at and found in order. ".repeat(6)))
}

/// Returns the task of the subagent that sent the request, or `None` for the main agent.
fn task_of(request: &Recorded) -> Option<String> {
    let system = request.messages()[0]["content"].as_str().unwrap();
    let users = request.messages().iter().filter(|message| message["role"] == "user");
    let text = users.filter_map(|message| message["content"].as_str()).next().unwrap();
    system.contains("You are a subagent").then(|| text.to_owned())
}

/// Makes the main agent delegate these tasks in one step, and answer after all reports. Subagents use the given
/// function to reply.
fn delegates(
    world: &World,
    tasks: &'static [&'static str],
    subagent: impl Fn(&str, &Recorded) -> Reply + Send + Sync + 'static,
) {
    world.model.respond_with(move |request| match task_of(request) {
        Some(task) => subagent(&task, request),
        None if request.last_role() == "tool" => Reply::text("All parts are done."),
        None => {
            tasks.iter().fold(Reply::default(), |reply, task| reply.and_call("delegate_task", json!({"task": task})))
        }
    });
}

/// Returns the results that the main agent received.
fn results(world: &World) -> Vec<Value> {
    let requests = world.model.requests();
    let last = requests.iter().rev().find(|request| task_of(request).is_none()).unwrap();
    let results = last.messages().iter().filter(|message| message["role"] == "tool");
    // Messages from the daemon are appended to the result that they follow.
    let texts = results.filter_map(|message| message["content"].as_str()?.split("\n\n<system_reminder>").next());
    texts
        .map(|text| serde_json::from_str(text.trim_start_matches(|c| c != '{')).unwrap_or_else(|_| json!(text)))
        .collect()
}

fn subagents(events: &[Event]) -> Vec<Subagent> {
    let found = events.iter().filter_map(|event| match &event.kind {
        EventKind::StateChanged { change: StateChange::Subagent(subagent) } => Some(subagent.clone()),
        _ => None,
    });
    found.collect()
}

fn session_of(events: &[Event]) -> String {
    events[0].session_id.to_string()
}

/// Returns a new session that writes and runs commands without approval.
fn unconfirmed_session() -> SessionChoice {
    SessionChoice::New(NewSession { confirm_write: Some(false), confirm_exec: Some(false), ..NewSession::default() })
}

#[tokio::test]
async fn parallel_subagents_share_files_and_return_their_answers() {
    let world = World::start().await;
    // Each subagent waits for a file that the other one writes. If they ran one after the other, they would reach their
    // step limit.
    delegates(&world, &["Be left", "Be right"], |task, request| {
        let (own, other) = if task.contains("left") { ("left", "right") } else { ("right", "left") };
        let text = tool_texts(request);
        if !text.contains(&format!("outputs/{own}.txt")) {
            let content = format!("{own} was here");
            return Reply::tool_call("write_file", json!({"path": format!("outputs/{own}.txt"), "content": content}));
        }
        if !text.contains(&format!("{other} was here")) {
            return Reply::tool_call("read_file", json!({"path": format!("outputs/{other}.txt")})).delay_ms(5);
        }
        report(own)
    });
    let client = world.client().await;
    let events = client.turn(turn(unconfirmed_session(), "Have it done")).await.unwrap().to_the_end().await;
    let EventKind::TurnEnded { result } = &events.last().unwrap().kind else { panic!("{events:#?}") };
    assert_eq!(result.text, "All parts are done.");
    let mut files: Vec<&str> = result.files.iter().map(|file| file.path.as_str()).collect();
    files.sort_unstable();
    assert_eq!(files, ["outputs/left.txt", "outputs/right.txt"], "the turn's result lists the subagents' files");

    let results = results(&world);
    let children = subagents(&events);
    assert_eq!((results.len(), children.len()), (2, 2));
    for result in &results {
        assert_eq!(result["ok"], true, "{result:#}");
        assert!(result["result"].as_str().unwrap().starts_with("The report of"), "{result:#}");
        assert!(result["loops"].as_u64().unwrap() >= 3, "{result:#}");
        assert!(children.iter().any(|child| result["context_id"] == child.session_id.to_string()), "{result:#}");
    }
    // Subagents cannot delegate, and do not receive any part of the conversation.
    for request in world.model.requests() {
        let is_child = task_of(&request).is_some();
        assert_eq!(tool_names(&request).contains(&"delegate_task".to_owned()), !is_child);
        assert_eq!(request.body.to_string().contains("Have it done"), !is_child);
    }
    // The subagents' usage counts towards the turn.
    let own: u64 = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::UsageUpdated { usage, prompt: Some(_), .. } => Some(usage.tokens()),
            _ => None,
        })
        .sum();
    assert!(result.usage.tokens() > 2 * own, "{} of {own}", result.usage.tokens());

    // The subagents' changes are undone with the turn.
    let session = session_of(&events);
    let left = format!("data/workspace/{session}/outputs/left.txt");
    assert_eq!(world.read(&left), "left was here");
    world.ok(["undo", &session]).await;
    assert!(!world.path().join(&left).exists());
    world.ok(["undo", &session, "--redo"]).await;
    assert_eq!(world.read(&left), "left was here");

    // Subagents are listed on request, can be read and found, and are deleted with their parent.
    assert_eq!(world.json(["sessions", "list"]).await.as_array().unwrap().len(), 1);
    let all = world.json(["sessions", "list", "--all"]).await;
    assert_eq!(all.as_array().unwrap().len(), 3);
    assert_eq!(
        (&all[0]["id"], &all[1]["parent"], &all[2]["parent"]),
        (&json!(session), &json!(session), &json!(session))
    );
    let child = children[0].session_id.to_string();
    world.ok(["attach", &child, "--after", "0"]).await.shows(&["The report of"]);
    let found = world.ok(["sessions", "search", "looked", "at", "and", "found", "--json"]).await;
    assert!(found.stdout.contains(&child), "{found:?}");
    world.ok(["sessions", "delete", &session, "--yes"]).await;
    world.agentctl(["sessions", "show", &child]).await.exits(2);
    world.still_serves().await;
}

#[tokio::test]
async fn subagent_question_is_answered_once_at_the_parent() {
    let world = World::start().await;
    delegates(&world, &["Write it"], |_, request| {
        let output = tool_texts(request);
        if !output.contains("blue") {
            Reply::tool_call("ask_human", json!({"question": "Which colour?"}))
        } else if !output.contains("outputs/a.txt") {
            Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "blue"}))
        } else {
            report("colour")
        }
    });
    let (client, other) = (world.client().await, world.client().await);
    let mut stream = client.turn(turn(SessionChoice::New(NewSession::default()), "Have it done")).await.unwrap();
    let is_raised = |kind: &EventKind| matches!(kind, EventKind::InterruptRaised { .. });
    for answer in [Answer::Text { text: "blue".to_owned() }, Answer::Approve] {
        let events = stream.stored_until(is_raised).await;
        let EventKind::InterruptRaised { interrupt } = &events.last().unwrap().kind else { unreachable!() };
        assert_eq!(interrupt.asked_by.agent, "subagent");
        let parent = events[0].session_id;
        assert_ne!(interrupt.session_id, parent);
        // All clients see that the parent is waiting.
        let pending = other.interrupts(Some(&parent.to_string())).await.unwrap();
        assert_eq!(pending.iter().map(|pending| pending.id).collect::<Vec<_>>(), [interrupt.id]);
        let view = other.session(&parent.to_string()).await.unwrap();
        assert_eq!((view.session.summary.status, view.pending.len()), (SessionStatus::Waiting, 1));
        other.answer(interrupt.id, &answer, "phone").await.unwrap();
        assert!(client.answer(interrupt.id, &answer, "desk").await.is_err(), "a second answer is rejected");
        stream.stored_until(|kind| matches!(kind, EventKind::InterruptResolved { .. })).await;
    }
    let events = stream.to_the_end().await;
    let EventKind::TurnEnded { result } = &events.last().unwrap().kind else { unreachable!() };
    assert_eq!(result.text, "All parts are done.");
    assert_eq!(results(&world)[0]["ok"], true);
    assert_eq!(world.read(&format!("data/workspace/{}/outputs/a.txt", session_of(&events))), "blue");
}

#[tokio::test]
async fn cancel_reaches_subagents_and_is_reported_to_the_parent() {
    let world = World::start().await;
    delegates(&world, &["One", "Two", "Three"], |_, _| Reply::never());
    let client = world.client().await;
    let mut stream = client.turn(turn(unconfirmed_session(), "Have it done")).await.unwrap();
    let mut events = Vec::new();
    while subagents(&events).len() < 3 {
        events.push(stream.event().await.unwrap());
    }
    world.model.wait_until(|counts| counts.requests >= 4).await;
    // When another client cancels one subagent, its call ends and the others continue.
    let children = subagents(&events);
    client.cancel_turn(&children[0].session_id.to_string(), None).await.unwrap();
    let cancelled = |kind: &EventKind| {
        serde_json::to_value(kind).unwrap()["item"]["error"] == "E_CANCELLED"
            && matches!(kind, EventKind::ItemCompleted { .. })
    };
    stream.stored_until(cancelled).await;
    stream.sender().cancel().await.unwrap();
    let events = stream.to_the_end().await;
    let EventKind::TurnEnded { result } = &events.last().unwrap().kind else { unreachable!() };
    assert_eq!(result.stop_reason, StopReason::Cancelled);
    assert_eq!(events.iter().filter(|event| cancelled(&event.kind)).count(), 2);
    for child in children {
        let session = child.session_id.to_string();
        let ended = until("the turn has ended", || async {
            let view = client.session(&session).await.unwrap();
            view.session.open_turn.is_none().then_some(())
        });
        ended.await;
    }
    world.still_serves().await;
}

/// Returns the reply of a subagent that will be killed: quick subagents finish immediately, slow ones never finish, and
/// others wait for an answer.
fn reply_by_task(task: &str, request: &Recorded) -> Reply {
    let result = tool_texts(request);
    match task {
        "Be quick" if !result.contains("quick.txt") => {
            Reply::tool_call("run_bash_command", json!({"command": "echo once >> outputs/quick.txt; echo quick.txt"}))
        }
        "Be slow" if !request.last_user().contains("Go on") => Reply::never(),
        "Ask first" if !result.contains("green") => Reply::tool_call("ask_human", json!({"question": "Which colour?"})),
        _ => report(task),
    }
}

fn is_result(event: &Event) -> bool {
    let event = serde_json::to_value(event).unwrap();
    event["type"] == "item_completed" && event["item"]["kind"] == "tool_result"
}

#[tokio::test]
async fn after_a_crash_only_the_unfinished_subagent_continues() {
    let mut world = World::start().await;
    world.model.respond_with(|request| match (task_of(request), tool_texts(request)) {
        (Some(task), _) => reply_by_task(&task, request),
        (None, text) if text.is_empty() => Reply::tool_call("delegate_task", json!({"task": "Be quick"}))
            .and_call("delegate_task", json!({"task": "Be slow"})),
        (None, text) if text.contains("The report of Be slow") => Reply::text("All parts are done."),
        (None, text) => {
            // The main agent continues the interrupted subagent, as instructed.
            let cut_off = text.split('{').find(|result| result.contains("to continue it")).unwrap();
            let id = cut_off.split("\"context_id\":\"").nth(1).unwrap().split('"').next().unwrap();
            Reply::tool_call("delegate_task", json!({"task": "Go on", "context_id": id}))
        }
    });
    let client = world.client().await;
    let mut stream = client.turn(turn(unconfirmed_session(), "Have it done")).await.unwrap();
    let mut events = Vec::new();
    while !events.iter().any(is_result) {
        events.push(stream.event().await.unwrap());
    }
    world.daemon.crash().await;
    let session = session_of(&events);
    let settled = stored(&world, &session).await;
    assert_eq!(settled.last().unwrap()["result"]["stop_reason"], "interrupted");
    let codes: Vec<&Value> = settled
        .iter()
        .filter(|event| event["item"]["kind"] == "tool_result" && event["type"] == "item_completed")
        .map(|event| &event["item"]["error"])
        .collect();
    assert_eq!(codes, [&Value::Null, &json!("E_UNKNOWN_OUTCOME")]);
    assert_eq!(subagent_usage_count(&settled), 1, "usage of the finished subagent is counted once");

    let result = world.ok(["run", "--session", &session, "--output", "json"]).await.json();
    assert_eq!(result["text"], "All parts are done.");
    assert_eq!(world.read(&format!("data/workspace/{session}/outputs/quick.txt")), "once\n");
    let all = world.json(["sessions", "list", "--all"]).await;
    assert_eq!(all.as_array().unwrap().len(), 3, "the interrupted subagent is continued, not replaced: {all:#}");
}

#[tokio::test]
async fn subagent_question_survives_a_crash_and_a_stop() {
    for killed in [true, false] {
        let mut world = World::start().await;
        delegates(&world, &["Be quick", "Ask first"], reply_by_task);
        let client = world.client().await;
        let mut stream = client.turn(turn(unconfirmed_session(), "Have it done")).await.unwrap();
        let (mut events, mut asked) = (Vec::new(), None);
        while asked.is_none() || !events.iter().any(is_result) {
            let event = stream.event().await.unwrap();
            if let EventKind::InterruptRaised { interrupt } = &event.kind {
                asked = Some((**interrupt).clone());
            }
            events.push(event);
        }
        let (asked, session) = (asked.unwrap(), session_of(&events));
        if killed {
            world.daemon.kill9().await;
        } else {
            world.daemon.sigterm().await;
        }
        world.daemon.restart().await;
        let client = world.client().await;
        let pending = client.interrupts(Some(&session)).await.unwrap();
        assert_eq!(pending.iter().map(|pending| pending.id).collect::<Vec<_>>(), [asked.id], "killed: {killed}");
        let mut attached = client.subscribe(&session, events.last().unwrap().seq, false).await.unwrap();
        client.answer(asked.id, &Answer::Text { text: "green".to_owned() }, "phone").await.unwrap();
        let rest = attached.to_the_end().await;
        let EventKind::TurnEnded { result } = &rest.last().unwrap().kind else { unreachable!() };
        assert_eq!((result.text.as_str(), result.stop_reason), ("All parts are done.", StopReason::Completed));
        assert_eq!(world.read(&format!("data/workspace/{session}/outputs/quick.txt")), "once\n");
        assert!(results(&world).iter().all(|result| result["ok"] == true), "{:#?}", results(&world));
        assert!(client.interrupts(None).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn short_answers_are_expanded_once_and_failures_reported() {
    let world = World::start().await;
    delegates(&world, &["Be short", "Never end", "Fail", " ", "Delegate"], |task, request| match task {
        "Be short" if request.last_user().contains("repeat it unchanged") => {
            Reply::text("Yes, and that is all there is.")
        }
        "Be short" => Reply::text("Yes."),
        "Never end" => unique_call(request),
        "Delegate" if tool_texts(request).is_empty() => Reply::tool_call("call_subagent", json!({"task": "You do it"})),
        "Delegate" => report(&tool_texts(request)),
        _ => Reply::refusal(400, "this model does not like it"),
    });
    world.ok(["run", "Have it done"]).await;
    let results = results(&world);
    holds(&results[0], json!({"ok": true, "loops": 2}));
    assert_eq!(results[0]["result"], "Yes, and that is all there is.");
    assert_eq!(results[1]["ok"], false);
    assert!(results[1]["error"].as_str().unwrap().contains("reached its step limit"), "{results:#?}");
    assert!(results[2]["error"].as_str().unwrap().contains("does not like it"), "{results:#?}");
    assert!(results[3].as_str().unwrap().contains("E_INVALID_ARGS"), "{results:#?}");
    assert!(results[4]["result"].as_str().unwrap().contains("E_UNKNOWN_TOOL"), "{results:#?}");
}

#[tokio::test]
async fn subagent_inherits_the_interrupt_policy() {
    let world = World::start().await;
    delegates(&world, &["Write it"], |_, request| match tool_texts(request).contains("E_DENIED") {
        true => report("a refusal"),
        false => Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "x"})),
    });
    for (on_interrupt, stop_reason) in [("deny", "completed"), ("fail", "denied")] {
        let args = ["run", "Have it done", "--on-interrupt", on_interrupt, "--output", "stream-json"];
        let lines = world.agentctl(args).await.exits(5).json_lines();
        let result = lines.last().unwrap();
        assert_eq!(result["stop_reason"], stop_reason, "{result:#}");
        assert_eq!(result["denials"][0]["tool"], "write_file of subagent", "{result:#}");
        let of_parent: Vec<Value> =
            lines.iter().filter(|line| line["session_id"] == lines[0]["session_id"]).cloned().collect();
        assert_eq!(subagent_usage_count(&of_parent), 1, "usage of the subagent is counted: {on_interrupt}");
    }
}

/// Returns the number of usage events for a subagent.
fn subagent_usage_count(events: &[Value]) -> usize {
    events.iter().filter(|event| event["type"] == "usage_updated" && event["prompt"].is_null()).count()
}

#[tokio::test]
async fn subagent_question_is_withdrawn_with_its_turn() {
    // In the first case, the turn is cancelled. In the second, a crash interrupts it and its project is missing, so it
    // cannot continue.
    for crashes in [false, true] {
        let mut world = World::start().await;
        delegates(&world, &["Ask first"], reply_by_task);
        let project = world.path().join("project");
        fs::create_dir(&project).unwrap();
        let mut stream = world.client().await.turn(turn(trusting_session(&project), "Have it done")).await.unwrap();
        let events = stream.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
        if crashes {
            world.daemon.kill9().await;
            fs::rename(&project, project.with_file_name("away")).unwrap();
            world.daemon.restart().await;
        } else {
            stream.sender().cancel().await.unwrap();
            stream.to_the_end().await;
        }
        let client = world.client().await;
        let child = subagents(&events)[0].session_id.to_string();
        until("no question is pending and no turn is running", || async {
            let asked = client.interrupts(None).await.unwrap();
            let (parent, child) = (client.session(&session_of(&events)).await, client.session(&child).await);
            let is_over = parent.unwrap().session.open_turn.is_none() && child.unwrap().session.open_turn.is_none();
            (asked.is_empty() && is_over).then_some(())
        })
        .await;
    }
}

/// Returns the stored events of a session, as sent to clients.
async fn stored(world: &World, session: &str) -> Vec<Value> {
    let lines = world.ok(["attach", session, "--after", "0", "--output", "stream-json"]).await.json_lines();
    lines
        .into_iter()
        .filter(|line| line["session_id"] == session && line["type"] != "result" && line["type"] != "item_delta")
        .collect()
}

#[tokio::test]
async fn session_grant_applies_to_all_its_subagents() {
    let world = World::start().await;
    // The second subagent writes once the file `go.txt` exists.
    delegates(&world, &["First", "Second"], |task, request| {
        let result = tool_texts(request);
        let own = if task == "First" { "first" } else { "second" };
        if own == "second" && !result.contains("it is there") {
            let command = "until [ -e outputs/go.txt ]; do sleep 0.05; done; echo it is there";
            Reply::tool_call("run_bash_command", json!({"command": command}))
        } else if !result.contains(&format!("outputs/{own}.txt")) {
            let content = format!("written by {own}");
            Reply::tool_call("write_file", json!({"path": format!("outputs/{own}.txt"), "content": content}))
        } else {
            report(own)
        }
    });
    let client = world.client().await;
    let mut stream = client
        .turn(turn(
            SessionChoice::New(NewSession { confirm_exec: Some(false), ..NewSession::default() }),
            "Have it done",
        ))
        .await
        .unwrap();
    let (mut events, mut asked) = (Vec::new(), None);
    while asked.is_none() || subagents(&events).len() < 2 {
        let event = stream.event().await.unwrap();
        if let EventKind::InterruptRaised { interrupt } = &event.kind {
            asked = Some(interrupt.id);
        }
        events.push(event);
    }
    client.answer(asked.unwrap(), &Answer::Always { scope: GrantScope::Session }, "desk").await.unwrap();
    let waits = subagents(&events).into_iter().find(|child| child.task == "Second").unwrap().session_id.to_string();
    let allowed = until("the grant is visible in the other session", || async {
        let view = client.session(&waits).await.unwrap();
        (!view.session.settings.grants.is_empty()).then_some(())
    });
    allowed.await;
    world.write(&format!("data/workspace/{}/outputs/go.txt", session_of(&events)), "go");
    let rest = stream.to_the_end().await;
    assert!(!rest.iter().any(|event| matches!(event.kind, EventKind::InterruptRaised { .. })), "{rest:#?}");
    let settings = client.session(&session_of(&events)).await.unwrap().session.settings;
    assert_eq!(settings.grants.iter().map(|grant| grant.rule.as_str()).collect::<Vec<_>>(), ["write_file"]);
}

#[tokio::test]
async fn continued_subagent_has_the_sessions_current_permissions() {
    let world = World::start().await;
    // The last word of the input is the name of the file, for the main agent and for subagents.
    world.model.respond_with(|request| {
        let result = tool_texts(request);
        let input = request.last_user();
        match (task_of(request).is_some(), request.last_role() == "tool") {
            (true, true) => report("the file"),
            (true, false) => {
                let path = format!("outputs/{}.txt", input.split_whitespace().last().unwrap());
                Reply::tool_call("write_file", json!({"path": path, "content": "x"}))
            }
            (false, true) => Reply::text("It is written."),
            (false, false) => match result.split("\"context_id\":\"").nth(1) {
                None => Reply::tool_call("delegate_task", json!({"task": input})),
                Some(id) => {
                    let id = id.split('"').next().unwrap();
                    Reply::tool_call("delegate_task", json!({"task": input, "context_id": id}))
                }
            },
        }
    });
    let client = world.client().await;
    let is_raised = |kind: &EventKind| matches!(kind, EventKind::InterruptRaised { .. });
    let asked = |events: &[Event]| match &events.last().unwrap().kind {
        EventKind::InterruptRaised { interrupt } => interrupt.id,
        other => panic!("{other:?}"),
    };
    let session = SessionChoice::New(NewSession::default());
    let mut stream = client.turn(turn(session, "Write one")).await.unwrap();
    let events = stream.stored_until(is_raised).await;
    client.answer(asked(&events), &Answer::Always { scope: GrantScope::Session }, "desk").await.unwrap();
    stream.to_the_end().await;

    // If a permission is revoked, the user has to approve again.
    let id = session_of(&events);
    world.ok(["grants", "revoke", "--session", &id, "write_file"]).await;
    let mut stream = client.turn(turn(SessionChoice::Existing(id.clone()), "Write two")).await.unwrap();
    let events = stream.stored_until(is_raised).await;
    client.answer(asked(&events), &Answer::Approve, "desk").await.unwrap();
    stream.to_the_end().await;

    // A question that is no longer necessary is withdrawn.
    let settings = client.session(&id).await.unwrap().session.settings;
    client.configure_session(&id, &SessionSettings { confirm_write: false, ..settings }, false).await.unwrap();
    let mut stream = client.turn(turn(SessionChoice::Existing(id.clone()), "Write three")).await.unwrap();
    let events = stream.to_the_end().await;
    assert!(!events.iter().any(|event| is_raised(&event.kind)), "{events:#?}");
    for name in ["one", "two", "three"] {
        assert_eq!(world.read(&format!("data/workspace/{id}/outputs/{name}.txt")), "x");
    }
    assert_eq!(client.filtered_sessions("", 10, true, &Default::default()).await.unwrap().0.len(), 2);
}

#[tokio::test]
async fn subagent_tokens_count_towards_the_turn_budget() {
    let world = World::configured("turns: {token_budget: 5000}\n").await;
    delegates(&world, &["Spend"], |_, _| {
        let usage = json!({"prompt_tokens": 2000, "completion_tokens": 1, "total_tokens": 2001});
        Reply { usage: Some(usage), ..Reply::tool_call("now", json!({})) }
    });
    let output = world.agentctl(["run", "Have it done", "--output", "json"]).await;
    assert_eq!(output.json()["stop_reason"], "budget", "{output:?}");
    let results = results(&world);
    assert_eq!(results[0]["ok"], false);
    assert!(results[0]["error"].as_str().unwrap().contains("turn's token budget"), "{results:#?}");
    let asked = world.model.requests().iter().filter(|request| task_of(request).is_some()).count();
    assert!(asked <= 4, "too many requests after the budget was spent: {asked}");
}

#[tokio::test]
async fn attach_replays_history_without_waiting_for_a_busy_subagent() {
    let world = World::start().await;
    delegates(&world, &["Report"], |task, request| {
        if request.last_user().contains("yourself") { Reply::never() } else { report(task) }
    });
    let client = world.client().await;
    let events = client.turn(turn(unconfirmed_session(), "Have it done")).await.unwrap().to_the_end().await;
    let child = subagents(&events)[0].session_id;
    // The user sends a message to the subagent directly.
    let mut own = client.turn(turn(SessionChoice::Existing(child.to_string()), "And you yourself?")).await.unwrap();
    let began = own.stored_until(|kind| matches!(kind, EventKind::TurnStarted { .. })).await.last().unwrap().seq;
    let args = ["attach", &session_of(&events), "--after", "0", "--output", "stream-json"];
    let lines = world.ok(args).await.json_lines();
    let stored_of = |session: String| -> Vec<u64> {
        let is_stored =
            |line: &&Value| line["session_id"] == session && line["type"] != "item_delta" && line["type"] != "result";
        lines.iter().filter(is_stored).filter_map(|line| line["seq"].as_u64()).collect()
    };
    let mut child_seqs = stored_of(child.to_string());
    child_seqs.retain(|seq| *seq < began);
    assert_eq!(child_seqs, (1..began).collect::<Vec<_>>(), "every action of the subagent is reported");
    assert_eq!(stored_of(session_of(&events)), (1..=events.len() as u64).collect::<Vec<_>>());
}

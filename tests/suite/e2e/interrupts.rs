//! Approvals and questions: they outlive clients and daemons, and are answered exactly once, from any client.

use agentd_core::{Timestamp, interrupt::Interrupt};

use super::{Events as _, *};

fn write(content: &str) -> Reply {
    Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": content}))
}

/// Starts a turn that waits for approval. Returns its client and the interrupt.
async fn waiting(world: &World) -> (Running, Value) {
    world.run_until_question(&["Write it"]).await
}

async fn answer(world: &World, id: &Value, args: &[&str]) -> Output {
    world.agentctl(["answer", id.as_str().unwrap()].iter().chain(args)).await
}

fn written(world: &World, session: &Value) -> String {
    world.read(&format!("data/workspace/{}/outputs/a.txt", session.as_str().unwrap()))
}

#[tokio::test]
async fn answer_from_another_client_works_after_a_crash() {
    let mut world = World::start().await;
    script_steps(&world.model, vec![(&["outputs/a.txt"], write("approved"))], Reply::text("It is written."));
    let (client, interrupt) = waiting(&world).await;
    drop(client);
    world.daemon.crash().await;

    let listed = world.questions().await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0], interrupt, "every client lists the same interrupt");
    for key in ["id", "session_id", "turn_id", "kind", "tool", "args", "risk", "raised_at", "deadline"] {
        assert!(keys(&listed[0]).contains(&key), "{key} is missing in {:#}", listed[0]);
    }
    holds(&listed[0], json!({"kind": "approval", "tool": "write_file"}));
    assert_eq!(listed[0]["args"], json!({"path": "outputs/a.txt", "content": "approved"}));
    assert_eq!(written(&world, &interrupt["session_id"]), "", "the call ran before the answer");
    world.ok(["interrupts"]).await.shows(&["write_file", "medium"]);

    answer(&world, &interrupt["id"], &["approve"]).await.exits(0);
    let session = interrupt["session_id"].as_str().unwrap();
    let attached = world.ok(["attach", session, "--after", "0", "--output", "stream-json"]).await;
    let result = attached.json_lines().pop().unwrap();
    holds(&result, json!({"type": "result", "stop_reason": "completed"}));
    assert_eq!(result["text"], "It is written.");
    assert_eq!(written(&world, &interrupt["session_id"]), "approved");
    assert!(world.questions().await.is_empty());
    // A second answer fails.
    answer(&world, &interrupt["id"], &["approve"]).await.exits(1).says(&["answer"]);
    world.still_serves().await;
}

#[tokio::test]
async fn file_changed_during_a_question_is_not_overwritten() {
    for restarts in [false, true] {
        let mut world = World::start().await;
        script_steps(&world.model, vec![(&["has changed since"], write("ours"))], Reply::text("Then not."));
        let (client, interrupt) = waiting(&world).await;
        drop(client);
        let session = interrupt["session_id"].as_str().unwrap();
        world.write(&format!("data/workspace/{session}/outputs/a.txt"), "theirs");
        if restarts {
            world.daemon.crash().await;
        }
        answer(&world, &interrupt["id"], &["approve"]).await.exits(0);
        let attached = world.agentctl(["attach", session, "--after", "0", "--output", "stream-json"]).await;
        let lines = attached.exits(0).json_lines();
        assert_eq!(lines.last().unwrap()["text"], "Then not.");
        assert!(lines.iter().any(|line| line.to_string().contains("changed_since_asked")), "{lines:#?}");
        assert_eq!(written(&world, &interrupt["session_id"]), "theirs");
    }
}

#[tokio::test]
async fn answer_to_an_unknown_question_is_refused() {
    let world = World::start().await;
    let unknown = json!("0193a5b2-7c1d-7000-8000-000000000001");
    answer(&world, &unknown, &["approve"]).await.exits(2).says(&["hint:"]);
    answer(&world, &json!("0193a5b2"), &["approve"]).await.exits(2).says(&["0193a5b2", "hint:"]);
    world.still_serves().await;
}

#[tokio::test]
async fn rejection_and_edited_arguments_reach_the_model() {
    let world = World::start().await;
    // A rejection is sent to the model with a reason.
    world.model.reply(write("rejected")).reply(Reply::text("Then not."));
    let (running, interrupt) = waiting(&world).await;
    answer(&world, &interrupt["id"], &["reject", "--reason", "not on a Friday"]).await.exits(0);
    let result = running.output(Vec::new()).await.exits(5).json_lines().pop().unwrap();
    assert_eq!((&result["text"], &result["denials"][0]["tool"]), (&json!("Then not."), &json!("write_file")));
    assert!(tool_texts(world.model.requests().last().unwrap()).contains("not on a Friday"));
    assert_eq!(written(&world, &interrupt["session_id"]), "");

    // Edited arguments replace the model's, and the model is notified.
    world.model.reply(write("draft")).reply(Reply::text("Edited."));
    let (running, interrupt) = waiting(&world).await;
    let misfit = answer(&world, &interrupt["id"], &["edit", "--args", "[1]"]).await;
    misfit.exits(2).says(&["JSON object", "hint:"]);
    answer(&world, &interrupt["id"], &["some", "words"]).await.exits(2).says(&["approve, reject", "hint:"]);
    let edited = r#"{"path": "outputs/a.txt", "content": "edited"}"#;
    answer(&world, &interrupt["id"], &["edit", "--args", edited]).await.exits(0);
    running.output(Vec::new()).await.exits(0);
    assert_eq!(written(&world, &interrupt["session_id"]), "edited");
    assert!(tool_texts(world.model.requests().last().unwrap()).contains("changed the arguments"));
}

#[tokio::test]
async fn question_can_be_answered_after_a_restart() {
    let mut world = World::start().await;
    let ask = Reply::tool_call("ask_human", json!({"question": "Which colour?", "context": "For the wall."}));
    script_steps(&world.model, vec![(&["green"], ask)], Reply::text("Green it is."));
    let (client, interrupt) = waiting(&world).await;
    drop(client);
    holds(&interrupt, json!({"kind": "question", "question": "Which colour?"}));
    world.daemon.crash().await;
    answer(&world, &interrupt["id"], &["  "]).await.exits(2).says(&["hint:"]);
    answer(&world, &interrupt["id"], &["green", "please"]).await.exits(0);
    let session = interrupt["session_id"].as_str().unwrap();
    let text = until("the turn has ended", || async {
        let shown = world.json(["sessions", "show", session]).await;
        let items = shown["items"].as_array().unwrap();
        let answers = items.iter().rfind(|item| item["item"]["kind"] == "agent_message");
        answers.filter(|_| shown["status"] == "idle").map(|item| item["item"]["text"].clone())
    })
    .await;
    assert_eq!(text, "Green it is.");
}

#[tokio::test]
async fn two_clients_see_the_same_events_and_one_answers_for_both() {
    let world = World::start().await;
    world.model.reply(write("both")).reply(Reply::text("Written."));
    let (one, other) = (world.client().await, world.client().await);
    let mut first = one.turn(turn(SessionChoice::New(NewSession::default()), "Write")).await.unwrap();
    let is_raised = |kind: &EventKind| matches!(kind, EventKind::InterruptRaised { .. });
    let mut seen_by_one = first.stored_until(is_raised).await;
    let mut second = other.subscribe(&first.session_id().to_string(), 0, true).await.unwrap();
    let mut seen_by_other = second.stored_until(is_raised).await;
    let EventKind::InterruptRaised { interrupt } = &seen_by_other.last().unwrap().kind else { panic!() };
    let Interrupt { id, .. } = **interrupt;
    other.answer(id, &Answer::Approve, "the other").await.unwrap();
    // The client that was showing the question is notified of the answer.
    let is_resolved = |kind: &EventKind| matches!(kind, EventKind::InterruptResolved { .. });
    seen_by_one.extend(first.stored_until(is_resolved).await);
    first.sender().answer(id, &Answer::Reject { reason: None }).await.unwrap();
    let mut refused = false;
    while let Some(event) = first.event().await {
        refused |= matches!(&event.kind, EventKind::Warning { code, .. } if code == "command_refused");
        let is_refusal = matches!(&event.kind, EventKind::Warning { code, .. } if code == "command_refused");
        if event.kind.is_stored() && !is_refusal {
            seen_by_one.push(event);
        }
    }
    assert!(refused, "a second answer is rejected");
    seen_by_other.extend(second.to_the_end().await);
    assert_eq!(seen_by_one, seen_by_other);
    let seqs: Vec<u64> = seen_by_one.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn deadline_answers_with_its_default_and_stores_no_rule() {
    for (default, code, content) in [("reject", 5, ""), ("approve", 0, "late")] {
        let world = World::configured(&format!("interrupts: {{deadline: 200ms, on_deadline: {default}}}")).await;
        world.model.reply(write("late")).reply(Reply::text("Nobody answered."));
        let (running, interrupt) = waiting(&world).await;
        assert!(interrupt["deadline"].is_string(), "{interrupt:#}");
        assert_eq!(
            (&interrupt["grants"], &interrupt["on_deadline"]["answer"]),
            (&json!(["write_file"]), &json!(default))
        );
        let result = running.output(Vec::new()).await.exits(code).json_lines().pop().unwrap();
        assert_eq!(result["text"], "Nobody answered.", "{default}");
        assert_eq!(written(&world, &interrupt["session_id"]), content, "{default}");
        answer(&world, &interrupt["id"], &["approve"]).await.exits(1);
        assert_eq!(world.json(["grants", "list"]).await, json!([]), "{default}");
    }
}

#[tokio::test]
async fn deadline_passed_without_a_daemon_applies_at_next_start() {
    let mut world = World::configured("interrupts: {deadline: 1s, on_deadline: reject}").await;
    world.model.reply(write("late")).reply(Reply::text("Nobody answered."));
    let (client, interrupt) = waiting(&world).await;
    drop(client);
    world.daemon.kill9().await;
    let deadline: Timestamp = interrupt["deadline"].as_str().unwrap().parse().unwrap();
    until_true("the deadline has passed", || Timestamp::now() > deadline).await;
    world.daemon.restart().await;
    until("the turn continues", || async { world.questions().await.is_empty().then_some(()) }).await;
    let session = interrupt["session_id"].as_str().unwrap();
    let attached = world.ok(["attach", session, "--after", "0", "--output", "stream-json"]).await;
    let lines = attached.json_lines();
    let resolved = lines.iter().find(|line| line["type"] == "interrupt_resolved").unwrap();
    assert!(resolved.to_string().contains("deadline"), "{resolved:#}");
    assert_eq!(written(&world, &interrupt["session_id"]), "");
    answer(&world, &interrupt["id"], &["approve"]).await.exits(1).says(&["hint:"]);
}

#[tokio::test]
async fn questions_are_listed_by_session_and_answered_in_any_order() {
    let world = World::start().await;
    let mut turns = Vec::new();
    for content in ["one", "two"] {
        world.model.reply(write(content));
        turns.push(waiting(&world).await);
    }
    let all = world.questions().await;
    assert_eq!(all, [turns[0].1.clone(), turns[1].1.clone()], "oldest first");
    let session = all[1]["session_id"].as_str().unwrap();
    assert_eq!(world.json(["interrupts", "--session", session]).await, json!([all[1]]));
    // The turns continue one by one as their questions are answered.
    for (running, interrupt) in turns.into_iter().rev() {
        answer(&world, &interrupt["id"], &["approve"]).await.exits(0);
        running.output(Vec::new()).await.exits(0);
    }
    let files = [0, 1].map(|at: usize| written(&world, &all[at]["session_id"]));
    assert_eq!(files, ["one", "two"]);
}

#[tokio::test]
async fn two_clients_follow_a_turn_across_a_restart() {
    let mut world = World::start().await;
    script_steps(&world.model, vec![(&["outputs/a.txt"], write("approved"))], Reply::text("It is written."));
    let (one, interrupt) = waiting(&world).await;
    let session = interrupt["session_id"].as_str().unwrap();
    let mut other = world.spawn_agentctl(["attach", session, "--after", "0", "--output", "stream-json"]);
    let (seen, mut lines) = other.event("interrupt_raised").await;
    assert_eq!(seen["interrupt"], interrupt);
    lines.push(seen);
    world.daemon.crash().await;
    answer(&world, &interrupt["id"], &["approve"]).await.exits(0);
    let ended =
        [one.output(Vec::new()).await, other.output(Vec::new()).await].map(|output| output.exits(0).json_lines());
    for lines in &ended {
        let result = lines.last().unwrap();
        holds(result, json!({"type": "result", "text": "It is written."}));
    }
    // Every stored event occurs once and in order, across the restart.
    let stored = lines.iter().chain(&ended[1]).filter(|line| line["type"] != "item_delta");
    let seqs: Vec<u64> = stored.filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(written(&world, &interrupt["session_id"]), "approved");
}

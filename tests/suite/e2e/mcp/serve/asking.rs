//! Turns that need an answer: a missing answer is not consent, and no model consents on behalf of the user.

use crate::e2e::mcp::{fake_server, world};

use super::*;

/// Sets up a model that writes a file, and then reports the result.
fn writes(world: &World) {
    let call = Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "hello"}));
    script_steps(&world.model, vec![(&["outputs/a.txt", "refused", "denied", "rejected"], call)], Reply::text("Done."));
}

fn written(world: &World, session: &Value) -> String {
    world.read(&format!("data/workspace/{}/outputs/a.txt", session.as_str().unwrap()))
}

#[tokio::test]
async fn only_the_user_approves_and_the_caller_gets_the_result() {
    let world = World::start().await;
    writes(&world);
    let caller = Caller::start(&world, &[]).await;
    let waiting = caller.gives("ask", json!({"prompt": "Write it"})).await;
    holds(&waiting, json!({"status": "waiting", "stop_reason": null}));
    let interrupt = &waiting["interrupts"][0];
    holds(interrupt, json!({"kind": "approval", "tool": "write_file"}));
    assert_eq!(interrupt["args"], json!({"path": "outputs/a.txt", "content": "hello"}));
    assert!(interrupt["preview"].as_str().unwrap().contains("+hello"), "{waiting:#}");

    let id = interrupt["id"].as_str().unwrap();
    for decision in [json!({"decision": "approve"}), json!({"decision": "edit", "args": {"path": "b", "content": "c"}})]
    {
        let mut arguments = decision;
        arguments["interrupt_id"] = json!(id);
        has_all(&caller.fails("answer", arguments).await, &["only the user can approve this", "agentctl answer"]);
    }
    let waits = json!({"interrupt_id": id, "decision": "wait", "wait_seconds": 0});
    assert_eq!(caller.gives("answer", waits).await["interrupts"][0]["id"], id);
    let listed = caller.gives("list_sessions", json!({})).await;
    assert_eq!(listed["sessions"][0]["interrupts"][0]["id"], id, "{listed:#}");
    assert_eq!(written(&world, &waiting["session_id"]), "");

    // A caller can wait while the question is pending, and after the turn has ended.
    let rest = caller.begin("answer", json!({"interrupt_id": id, "decision": "wait", "wait_seconds": 600})).await;
    world.ok(["answer", id, "approve"]).await;
    let rest = super::result(rest).await.structured_content.unwrap();
    holds(&rest, json!({"status": "ended", "text": "Done."}));
    assert_eq!(written(&world, &waiting["session_id"]), "hello");
    let again = caller.gives("answer", json!({"interrupt_id": id, "decision": "wait"})).await;
    assert_eq!(again["text"], "Done.", "{again:#}");
    has_all(&caller.fails("answer", json!({"interrupt_id": id, "decision": "reject"})).await, &["answer"]);
}

#[tokio::test]
async fn approval_is_asked_in_a_form_of_the_client() {
    let answers = [
        (ElicitationAction::Accept, json!({"decision": "approve"}), "ended", "hello"),
        (ElicitationAction::Accept, json!({"decision": "reject", "reason": "no"}), "ended", ""),
        (ElicitationAction::Decline, json!({}), "ended", ""),
        // A form that is accepted without its fields does not count as approval.
        (ElicitationAction::Accept, json!({}), "waiting", ""),
        (ElicitationAction::Cancel, json!({"decision": "approve"}), "waiting", ""),
    ];
    for (is_newer, (action, content, status, file)) in
        [false, true].into_iter().flat_map(|is_newer| answers.iter().map(move |answer| (is_newer, answer.clone())))
    {
        let world = World::start().await;
        writes(&world);
        let agent = Agent { person: Some((action.clone(), content.clone())), ..Agent::default() };
        let caller =
            if is_newer { Caller::newer(&world, &[], agent).await } else { Caller::with(&world, &[], agent).await };
        let came = caller.gives("ask", json!({"prompt": "Write it"})).await;
        assert_eq!(
            (&came["status"], written(&world, &came["session_id"]).as_str()),
            (&json!(status), file),
            "{content}"
        );
        let questions = caller.heard.questions.lock().unwrap().clone();
        assert_eq!(questions.len(), 1, "{questions:?}");
        assert!(questions[0].contains("write_file") && questions[0].contains("+hello"), "{questions:?}");
        assert!(questions[0].contains("started by mcp: tester") && !questions[0].contains('\u{1b}'), "{questions:?}");
        let denied = came["denials"].as_array().unwrap().len();
        assert_eq!(denied, usize::from(status == "ended" && file.is_empty()), "{came:#}");
    }
}

#[tokio::test]
async fn form_answer_counts_only_if_the_form_was_shown() {
    for (args, says) in [(&[][..], true), (&["--approvals", "agentctl"], false)] {
        let world = World::start().await;
        writes(&world);
        let mut raw = Raw::silent(&world, args);
        let mut number = 0;
        let mut call = async |more: Value| {
            number += 1;
            let mut params = json!({"name": "ask", "arguments": {"prompt": "Write it"}, "_meta": newer_meta()});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            raw.request(number, "tools/call", params).await
        };
        let first = call(json!({})).await["result"].clone();
        let id = if says {
            assert_eq!(first["resultType"], "input_required", "{first:#}");
            first["requestState"].clone()
        } else {
            first["structuredContent"]["interrupts"][0]["id"].clone()
        };
        let approve = json!({"action": "accept", "content": {"decision": "approve"}});
        let answered = |name: &Value| json!({"requestState": &id, "inputResponses": {name.as_str().unwrap(): approve}});
        // If the response is missing or belongs to another question, the question is repeated.
        for missing in [answered(&json!("x")), json!({"requestState": &id})] {
            let again = call(missing).await["result"].clone();
            assert_eq!(again["resultType"] == "input_required", says, "{again:#}");
        }
        for forged in ["1", "ffff", ""] {
            let refused = call(json!({"requestState": forged, "inputResponses": {forged: approve}})).await;
            assert_eq!(refused["result"]["isError"], true, "{refused:#}");
        }
        let rest = call(answered(&id)).await["result"].clone();
        assert_eq!(rest["structuredContent"]["status"], if says { "ended" } else { "waiting" }, "{rest:#}");
        let session = rest["structuredContent"]["session_id"].clone();
        assert_eq!(written(&world, &session), if says { "hello" } else { "" });
    }
}

#[tokio::test]
async fn question_of_an_mcp_server_is_answered_by_the_user_by_default() {
    for (approvals, may) in [("person", false), ("agentctl", false), ("caller", true)] {
        let mut fake = fake_server("asks_once");
        fake["tools"]["act"]["effect"] = json!("read");
        let world = world(json!({"fake": fake})).await;
        world.model.respond_with(|request| match tool_texts(request) {
            result if result.is_empty() => Reply::tool_call("mcp_fake_act", json!({})),
            result => Reply::text(result),
        });
        let caller = Caller::start(&world, &["--approvals", approvals]).await;
        let waiting = caller.gives("ask", json!({"prompt": "Go"})).await;
        assert_eq!(waiting["interrupts"][0]["question"], "The MCP server fake asks: Who are you?", "{waiting:#}");
        let id = waiting["interrupts"][0]["id"].as_str().unwrap();
        let content = r#"{"name": "Ada", "age": 36}"#;
        let text = json!({"interrupt_id": id, "decision": "text", "text": content});
        let rest = if may {
            caller.gives("answer", text).await
        } else {
            for answer in [text, json!({"interrupt_id": id, "decision": "approve"})] {
                let refused = caller.fails("answer", answer).await;
                assert!(refused.contains("only the user can approve this"), "{approvals}: {refused}");
            }
            world.ok(["answer", id, content]).await;
            caller.gives("answer", json!({"interrupt_id": id, "decision": "wait", "wait_seconds": 600})).await
        };
        assert!(rest["text"].as_str().unwrap().contains("\"accept\""), "{approvals}: {rest:#}");
    }
}

#[tokio::test]
async fn approvals_by_agentctl_show_no_forms() {
    let world = World::start().await;
    writes(&world);
    let person = Some((ElicitationAction::Accept, json!({"decision": "approve"})));
    let caller = Caller::with(&world, &["--approvals", "agentctl"], Agent { person, ..Agent::default() }).await;
    let waiting = caller.gives("ask", json!({"prompt": "Write it"})).await;
    let id = &waiting["interrupts"][0]["id"];
    has_all(
        &caller.fails("answer", json!({"interrupt_id": id, "decision": "approve"})).await,
        &["only the user can approve this"],
    );
    assert_eq!(caller.heard.questions.lock().unwrap().len(), 0);
    let rejected = caller.gives("answer", json!({"interrupt_id": id, "decision": "reject", "reason": "not now"})).await;
    holds(&rejected, json!({"status": "ended", "text": "Done."}));
    assert!(tool_texts(world.model.requests().last().unwrap()).contains("not now"));
    assert_eq!(written(&world, &waiting["session_id"]), "");
}

#[tokio::test]
async fn caller_may_approve_if_configured_and_is_audited() {
    let world = World::start().await;
    writes(&world);
    let caller = Caller::start(&world, &["--approvals", "caller"]).await;
    let waiting = caller.gives("ask", json!({"prompt": "Write it"})).await;
    let id = waiting["interrupts"][0]["id"].as_str().unwrap();
    // A unique prefix of an ID is sufficient.
    has_all(
        &caller.fails("answer", json!({"interrupt_id": id, "decision": "text", "text": "yes"})).await,
        &["a request for approval"],
    );
    let rest = caller.gives("answer", json!({"interrupt_id": &id[..id.len() - 1], "decision": "approve"})).await;
    holds(&rest, json!({"status": "ended", "text": "Done."}));
    assert_eq!(written(&world, &waiting["session_id"]), "hello");
    world.ok(["audit", "--json"]).await.shows(&["mcp: tester"]);
}

#[tokio::test]
async fn question_can_be_answered_by_another_server_after_restart() {
    let mut world = World::start().await;
    let question = Reply::tool_call("ask_human", json!({"question": "Which colour?", "context": "For the door."}));
    script_steps(&world.model, vec![(&["green"], question)], Reply::text("Green it is."));
    let caller = Caller::start(&world, &[]).await;
    let waiting = caller.gives("ask", json!({"prompt": "Paint the door"})).await;
    let interrupt = &waiting["interrupts"][0];
    holds(interrupt, json!({"kind": "question", "question": "Which colour?"}));
    assert_eq!(interrupt["context"], "For the door.");
    drop(caller);
    world.daemon.crash().await;

    let caller = Caller::start(&world, &["--sessions", "all"]).await;
    let answer = json!({"interrupt_id": interrupt["id"], "decision": "text", "text": "green"});
    let rest = caller.gives("answer", answer).await;
    holds(&rest, json!({"status": "ended", "text": "Green it is."}));
    assert_eq!(rest["session_id"], waiting["session_id"]);
}

#[tokio::test]
async fn denials_without_a_question_are_in_the_result() {
    let world = World::start().await;
    writes(&world);
    let caller = Caller::start(&world, &[]).await;
    let denied = caller.gives("ask", json!({"prompt": "Write it", "on_interrupt": "deny"})).await;
    assert_eq!((&denied["stop_reason"], &denied["denials"][0]["tool"]), (&json!("completed"), &json!("write_file")));
    let failed = caller.gives("ask", json!({"prompt": "Write it", "on_interrupt": "fail"})).await;
    assert_eq!(failed["stop_reason"], "denied", "{failed:#}");
}

#[tokio::test]
async fn answer_to_a_subagent_returns_the_parents_result() {
    let world = World::start().await;
    world.model.respond_with(|request| {
        let is_subagent = is_subagent(request);
        let result = tool_texts(request);
        match (is_subagent, result.as_str()) {
            (true, result) if result.contains("blue") => Reply::text("It shall be blue, and this is why. ".repeat(10)),
            (true, _) => Reply::tool_call("ask_human", json!({"question": "Which colour?"})),
            (false, result) if result.contains("shall be blue") => Reply::text("All parts are done."),
            (false, _) => Reply::tool_call("delegate_task", json!({"task": "Choose a colour"})),
        }
    });
    let caller = Caller::start(&world, &[]).await;
    let waiting = caller.gives("ask", json!({"prompt": "Paint the door"})).await;
    let interrupt = &waiting["interrupts"][0];
    holds(interrupt, json!({"question": "Which colour?", "asked_by": "subagent"}));
    // Another server process has no record of how the turn started.
    for caller in [Caller::start(&world, &["--sessions", "all"]).await, caller] {
        let listed = caller.gives("list_sessions", json!({})).await;
        let Some(interrupt) = listed["sessions"][0]["interrupts"].get(0) else {
            let wait = json!({"interrupt_id": interrupt["id"], "decision": "wait"});
            assert_eq!(caller.gives("answer", wait).await["text"], "All parts are done.");
            continue;
        };
        let answer = json!({"interrupt_id": interrupt["id"], "decision": "text", "text": "blue"});
        let rest = caller.gives("answer", answer).await;
        holds(&rest, json!({"status": "ended", "text": "All parts are done."}));
        assert_eq!(rest["session_id"], waiting["session_id"]);
    }
}

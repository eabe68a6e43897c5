//! Access of a caller to sessions, and its limits in a user's own sessions.

use super::*;

/// Starts a user's turn that waits for an answer, and returns it with its interrupt. The model sends no further
/// replies.
async fn waiting_user_turn(world: &World) -> (Running, Value) {
    world.model.respond_with(|request| match request.last_user() {
        "Ask me" if tool_texts(request).is_empty() => Reply::tool_call("ask_human", json!({"question": "Which?"})),
        "Ask me" => Reply::never(),
        _ => Reply::text("Here."),
    });
    let mut running = world.spawn_agentctl(["run", "Ask me", "--on-interrupt", "wait", "--output", "stream-json"]);
    running.event("interrupt_raised").await;
    let listed = world.json(["interrupts"]).await;
    (running, listed[0].clone())
}

#[tokio::test]
async fn other_sessions_are_indistinguishable_from_missing_ones() {
    let world = World::start().await;
    let (_running, pending) = waiting_user_turn(&world).await;
    let (session, interrupt) = (pending["session_id"].as_str().unwrap(), pending["id"].as_str().unwrap());
    let caller = Caller::start(&world, &[]).await;
    let own = caller.gives("ask", json!({"prompt": "Hello"})).await;
    let listed = caller.gives("list_sessions", json!({})).await["sessions"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["session_id"]), (1, &own["session_id"]), "{listed:#}");
    let requests = world.model.counts().requests;

    let nothing = unused_id();
    let start = |id: &str| id[..id.len() - 1].to_owned();
    let check = async |tool: &'static str, mut arguments: Value, key: &str, ids: [&str; 2]| {
        let mut errors = Vec::new();
        for id in ids {
            arguments[key] = json!(id);
            errors.push(caller.fails(tool, arguments.clone()).await.replace(id, "ID"));
        }
        assert_eq!(errors[0], errors[1], "{tool} {arguments}");
        errors.remove(0)
    };
    for ids in [[session, &nothing], [&start(session), &start(&nothing)]] {
        for (tool, arguments) in
            [("ask", json!({"prompt": "Go on"})), ("ask", json!({})), ("search_documents", json!({"query": "x"}))]
        {
            has_all(&check(tool, arguments, "session_id", ids).await, &["--sessions all"]);
        }
    }
    for ids in [[interrupt, &nothing], [&start(interrupt), &start(&nothing)]] {
        for decision in ["approve", "reject", "text", "edit", "wait"] {
            let arguments = json!({"decision": decision, "text": "x", "args": {}, "wait_seconds": 0});
            check("answer", arguments, "interrupt_id", ids).await;
        }
    }
    assert_eq!(world.model.counts().requests, requests);
    let listed = world.json(["interrupts"]).await;
    assert_eq!(listed[0]["id"], interrupt, "{listed:#}");
}

#[tokio::test]
async fn session_of_one_server_is_hidden_from_another() {
    let world = World::start().await;
    let first = Caller::start(&world, &[]).await;
    let session = first.gives("ask", json!({"prompt": "Hello"})).await["session_id"].clone();
    let second = Caller::start(&world, &[]).await;
    assert_eq!(second.gives("list_sessions", json!({})).await["sessions"], json!([]));
    has_all(
        &second.fails("ask", json!({"prompt": "Hello", "session_id": session})).await,
        &["no session of this caller"],
    );
    let all = Caller::start(&world, &["--sessions", "all"]).await;
    assert_eq!(all.gives("list_sessions", json!({})).await["sessions"][0]["session_id"], session);
}

#[tokio::test]
async fn caller_cannot_change_the_folder_of_a_user_session() {
    let world = World::start().await;
    world.model.respond_with(|_| Reply::text("Here."));
    world.write("given/inner/note.txt", "x");
    let given = world.path().join("given").display().to_string();
    world.ok(["run", "Hello"]).await;
    let listed = world.json(["sessions", "list"]).await;
    let session = listed[0]["id"].as_str().unwrap();

    let caller = Caller::start(&world, &["-C", &given, "--sessions", "all"]).await;
    let with_folder = json!({"prompt": "And now?", "session_id": session, "folder": "inner"});
    has_all(&caller.fails("ask", with_folder).await, &["was not started here"]);
    assert_eq!(caller.gives("ask", json!({"prompt": "And now?", "session_id": session})).await["text"], "Here.");
    let shown = world.ok(["sessions", "show", session, "--json"]).await.stdout;
    assert!(!shown.contains("given"), "{shown}");

    let own = caller.gives("ask", json!({"prompt": "Mine"})).await["session_id"].clone();
    caller.gives("ask", json!({"prompt": "Further down", "session_id": own, "folder": "inner"})).await;
    world.ok(["sessions", "show", own.as_str().unwrap(), "--json"]).await.shows(&["given/inner"]);
}

#[tokio::test]
async fn user_turn_survives_the_caller_that_answered() {
    let world = World::start().await;
    let (_running, pending) = waiting_user_turn(&world).await;
    let mut raw = Raw::with(&world, &["--sessions", "all"]).await;
    let answer = json!({"interrupt_id": pending["id"], "decision": "text", "text": "this"});
    raw.ask(1, "tools/call", json!({"name": "answer", "arguments": answer})).await;
    world.model.wait_until(|counts| counts.requests == 2).await;
    raw.running.end_input();
    raw.running.output(Vec::new()).await.exits(0);
    let listed = world.json(["sessions", "list"]).await;
    assert_eq!(listed[0]["status"], "running", "{listed:#}");
}

//! Additional data of an answer: stored, sent back unchanged to its server, and to no other.

use agentd_core::origin::MAX_SERVER_FIELDS;

use super::{anthropic::request_after, *};

/// Returns an event with this delta.
fn event(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

#[tokio::test]
async fn echoed_reasoning_is_blank_if_there_is_none() {
    let server = ModelServer::start().await;
    let model = connect(&ModelConfig { echo_reasoning: true, ..config(&server) }).unwrap();
    let calls = vec![("now".to_owned(), "{}".to_owned())];
    let fields = vec![ServerFields::default()];
    let mut request = request_after("m@elsewhere/v1", &Outcome { calls, fields, ..Outcome::default() });
    for thinker in [None, Some(model.info().origin()), Some("m@elsewhere/v1".to_owned())] {
        let mut request = request.clone();
        let Message::Assistant { origin, .. } = &mut request.messages[2] else { panic!("{request:?}") };
        (origin.unsent_reasoning, origin.thinker) = (Some("hm".to_owned()), thinker);
        ask(&model, request).await;
    }
    request.messages.extend([Message::answer("Noon.", Vec::new()), user("Thanks")]);
    ask(&model, request).await;
    let reasoning =
        |number: usize, at: usize| server.requests()[number].body["messages"][at]["reasoning_content"].clone();
    assert_eq!((reasoning(0, 2), reasoning(3, 2), reasoning(3, 5)), (json!("hm"), json!(""), json!(null)));
    assert_eq!((reasoning(1, 2), reasoning(2, 2)), (json!("hm"), json!("")), "reasoning is not sent to another model");
}

#[tokio::test]
async fn oversized_server_fields_are_dropped_without_failing() {
    let server = ModelServer::start().await;
    let large = "s".repeat(MAX_SERVER_FIELDS);
    let call = format!(
        r#"{{"tool_calls":[{{"index":0,"id":"a","extra_content":"{large}","function":{{"name":"now","arguments":"{{}}"}}}}]}}"#
    );
    let details = format!(r#"{{"reasoning_details":[{{"type":"reasoning.encrypted","data":"{large}"}}]}}"#);
    server.reply(Reply::events([event(&details), event(&call), "[DONE]".to_owned()]));
    let outcome = ask_server(&server).await;
    assert_eq!((outcome.whole.clone(), outcome.calls.len()), (None, 1), "{:?}", outcome.error);
    assert_eq!(outcome.fields, [ServerFields { call_id: "a".to_owned(), ..ServerFields::default() }]);
}

#[tokio::test]
async fn errors_in_arrays_and_bare_lines_are_recognised() {
    let overloaded = r#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#;
    let line = r#"{"code":500,"message":"the slot is out of memory","type":"server_error"}"#;
    let stream = |body: &str| Reply::status(200, body).header("content-type", "text/event-stream");
    // A 500 may be a refusal of the tools, so it is retried once without their field.
    for (reply, message, requests) in [
        (Reply::status(200, overloaded), "The model is overloaded.", 2),
        (stream(&format!("data: {overloaded}\n\n")), "The model is overloaded.", 2),
        (stream(&format!("error: {line}\n\n")), "the slot is out of memory", 3),
    ] {
        let server = ModelServer::start().await;
        server.default_reply(reply);
        let outcome = ask_config(&ModelConfig { retries: 1, ..config(&server) }).await;
        assert_eq!((outcome.kind(), server.requests().len()), (Some(ErrorKind::Provider), requests), "{outcome:?}");
        assert!(outcome.message().contains(message), "{outcome:?}");
    }
    let server = ModelServer::start().await;
    let refusal = r#"[{"error":{"code":400,"message":"Corrupted thought signature.","status":"INVALID_ARGUMENT"}}]"#;
    server.default_reply(Reply::status(400, refusal));
    let outcome = ask_server(&server).await;
    assert!(outcome.message().ends_with("Corrupted thought signature. (400)"), "{outcome:?}");
}

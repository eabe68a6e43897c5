//! What a server sent beside words and calls: kept, sent back to it as it came, and to nobody else.

use agentd_core::origin::{AnswerOrigin, ItemOrigin, MAX_SERVER_FIELDS};

use super::*;

/// An event with this delta.
fn event(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

/// A conversation in which a model of that origin has made this call.
fn called(origin: &str, outcome: &Outcome) -> ModelRequest {
    let mut request = request_with_tools("Hi");
    let call = tool_call("call_1", "{}");
    let fields = outcome.fields[0].clone();
    let origin_of = |fields: ServerFields| Arc::new(ItemOrigin { model: origin.to_owned(), fields });
    let details = outcome.whole.clone().unwrap_or_default();
    let origin = AnswerOrigin {
        calls: vec![(call.call_id.clone(), origin_of(fields))],
        whole: Some(origin_of(details)),
        unsent_reasoning: Some("hm".to_owned()),
        thinker: None,
    };
    request.messages.push(Message::Assistant { text: String::new(), reasoning: None, tool_calls: vec![call], origin });
    request.messages.push(result("call_1", "noon"));
    request
}

#[tokio::test]
async fn thoughts_are_there_for_a_server_that_wants_them_and_blank_where_there_are_none() {
    let server = ModelServer::start().await;
    let model = connect(&ModelConfig { echo_reasoning: true, ..config(&server) }).unwrap();
    let mut request =
        called("m@elsewhere/v1", &Outcome { fields: vec![ServerFields::default()], ..Outcome::default() });
    ask(&model, request.clone()).await;
    let of = |request: &mut ModelRequest| match &mut request.messages[2] {
        Message::Assistant { origin, .. } => std::mem::take(origin),
        other => panic!("{other:?}"),
    };
    let mut origin = of(&mut request);
    for thinker in [model.info().origin(), "m@elsewhere/v1".to_owned()] {
        origin.thinker = Some(thinker);
        let mut request = request.clone();
        let Message::Assistant { origin: place, .. } = &mut request.messages[2] else { panic!("{request:?}") };
        *place = origin.clone();
        ask(&model, request).await;
    }
    request.messages.extend([Message::answer("Noon.", Vec::new()), Message::User { text: "Thanks".to_owned() }]);
    ask(&model, request).await;
    let thoughts =
        |number: usize, at: usize| server.requests()[number].body["messages"][at]["reasoning_content"].clone();
    assert_eq!((thoughts(0, 2), thoughts(3, 2), thoughts(3, 4)), (json!("hm"), json!(""), json!(null)));
    assert_eq!((thoughts(1, 2), thoughts(2, 2)), (json!("hm"), json!("")), "nobody's thoughts go to another model");
}

#[tokio::test]
async fn what_is_too_large_does_not_go_back_and_fails_nothing() {
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
async fn reasons_in_capitals_are_those_in_small_letters() {
    for (reason, end) in [
        ("MAX_TOKENS", Finish::Length),
        ("SAFETY", Finish::Filtered),
        ("RECITATION", Finish::Filtered),
        ("STOP", Finish::Stop),
    ] {
        let server = ModelServer::start().await;
        server.reply(Reply::text("Hi").finish(reason));
        assert_eq!(ask_server(&server).await.end, Some(end), "{reason}");
    }
}

#[tokio::test]
async fn an_error_in_an_array_and_a_line_of_an_older_server_are_errors_like_others() {
    let overloaded = r#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#;
    let line = r#"{"code":500,"message":"the slot is out of memory","type":"server_error"}"#;
    let stream = |body: &str| Reply::status(200, body).header("content-type", "text/event-stream");
    // A 500 may be a refusal of the tools, so it is asked once more without their field.
    for (reply, words, requests) in [
        (Reply::status(200, overloaded), "The model is overloaded.", 2),
        (stream(&format!("data: {overloaded}\n\n")), "The model is overloaded.", 2),
        (stream(&format!("error: {line}\n\n")), "the slot is out of memory", 3),
    ] {
        let server = ModelServer::start().await;
        server.default_reply(reply);
        let outcome = ask_config(&ModelConfig { retries: 1, ..config(&server) }).await;
        assert_eq!((outcome.kind(), server.requests().len()), (Some(ErrorKind::Provider), requests), "{outcome:?}");
        assert!(outcome.message().contains(words), "{outcome:?}");
    }
    let server = ModelServer::start().await;
    let refusal = r#"[{"error":{"code":400,"message":"Corrupted thought signature.","status":"INVALID_ARGUMENT"}}]"#;
    server.default_reply(Reply::status(400, refusal));
    let outcome = ask_server(&server).await;
    assert!(outcome.message().ends_with("Corrupted thought signature. (400)"), "{outcome:?}");
}

//! Tests of the requests that are sent.

use agentd_testkit::validator::chat_completions;
use secrecy::SecretString;

use super::*;

async fn body_of(change: impl FnOnce(&mut ModelConfig), request: ModelRequest) -> Value {
    let server = ModelServer::start().await;
    let mut config = config(&server);
    change(&mut config);
    ask(&connect(&config).unwrap(), request).await;
    server.requests().remove(0).body
}

#[tokio::test]
async fn plain_request_has_only_required_fields() {
    let body = body_of(|_| {}, request("Hi")).await;
    assert_eq!(
        body,
        json!({
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn settings_tools_and_extra_fields_are_sent() {
    let change = |config: &mut ModelConfig| {
        config.temperature = Some(0.5);
        config.max_tokens = Some(7);
        config.body = json!({"top_k": 3, "stream_options": {"include_usage": false}}).as_object().unwrap().clone();
    };
    let body = body_of(change, request_with_tools("Hi")).await;
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["max_tokens"], 7);
    assert_eq!(body["top_k"], 3);
    assert_eq!(body["stream_options"]["include_usage"], false);
    assert_eq!(
        body["tools"][0],
        json!({"type": "function", "function": {
            "name": "now", "description": "Does now.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        }})
    );
}

#[tokio::test]
async fn placeholders_are_added_only_where_required() {
    let call = |id: &str| Message::answer(String::new(), vec![tool_call(id, "{}")]);
    let answer = |text: &str| Message::answer(text, Vec::new());
    let system = Message::System { text: "Be brief.".to_owned() };
    for (history, expected) in [
        (vec![user("a"), answer("b"), user("c")], 0),
        (vec![user("a"), call("1"), result("1", "x"), answer("b"), user("c"), user("d")], 0),
        (vec![user("a"), call("1"), result("1", "x"), call("2"), result("2", "y")], 0),
        (vec![user("a"), call("1"), result("1", "x"), answer(" "), user("b"), user("c")], 0),
        (vec![user("a"), call("1"), result("1", ""), user("b"), call("2"), result("2", "y"), user("c")], 1),
        (vec![answer("a"), call("1"), result("1", "x")], 1),
        (vec![user("a"), answer("b")], 1),
        (vec![], 1),
    ] {
        let messages = [vec![system.clone()], history].concat();
        let body = body_of(|_| {}, ModelRequest { messages, ..request_with_tools("") }).await;
        let is_refused = |body: &Value| chat_completions(body.to_string().as_bytes()).is_err();
        assert!(!is_refused(&body), "{body:#}");
        let mut found = 0;
        for (at, message) in body["messages"].as_array().unwrap().iter().enumerate() {
            let mut without = body.clone();
            match message["content"].as_str() {
                Some("(go on)") => drop(without["messages"].as_array_mut().unwrap().remove(at)),
                Some("(no output)") => without["messages"][at]["content"] = json!(""),
                _ => continue,
            }
            found += 1;
            assert!(is_refused(&without), "message {at} is not needed in {body:#}");
        }
        assert_eq!(found, expected, "{body:#}");
    }
}

#[tokio::test]
async fn key_and_headers_are_sent_but_never_shown() {
    let server = ModelServer::start().await;
    server.reply(Reply::refusal(401, "the key sk-hunter2 is wrong, and so is deep-secret"));
    let mut config = config(&server);
    config.api_key = Some(SecretString::from("sk-hunter2"));
    config.headers.insert("x-extra".to_owned(), SecretString::from("deep-secret"));
    let model = connect(&config).unwrap();
    let outcome = ask(&model, request("Hi")).await;
    let sent = server.requests().remove(0);
    assert_eq!(sent.headers["authorization"], "Bearer sk-hunter2");
    assert_eq!(sent.headers["x-extra"], "deep-secret");
    let shown = format!("{outcome:?} {config:?} {:?}", model.info());
    assert!(!shown.contains("hunter2") && !shown.contains("deep-secret"), "{shown}");
    assert_eq!(outcome.kind(), Some(ErrorKind::Auth));
    assert!(outcome.hint.unwrap().contains("api_key"));
}

#[tokio::test]
async fn lower_of_model_and_request_answer_limit_applies() {
    for (of_model, of_request, expected) in
        [(Some(7), Some(5), json!(5)), (Some(5), Some(7), json!(5)), (None, Some(7), json!(7))]
    {
        let limited = ModelRequest { max_tokens: of_request, ..request("Hi") };
        let body = body_of(|config| config.max_tokens = of_model, limited).await;
        assert_eq!(body["max_tokens"], expected);
    }
}

/// Returns the last request of a turn: the tools are sent, but calls are not allowed.
fn last_request() -> ModelRequest {
    ModelRequest { may_call: false, ..request_with_tools("Hi") }
}

#[tokio::test]
async fn final_request_keeps_the_prefix_of_the_previous_one() {
    let previous = body_of(|_| {}, request_with_tools("Hi")).await;
    let last = body_of(|_| {}, last_request()).await;
    assert_eq!((&previous["tool_choice"], &last["tool_choice"]), (&json!(null), &json!("none")));
    assert_eq!(previous["tools"], last["tools"]);
    assert_eq!(body_of(|_| {}, ModelRequest { may_call: false, ..request("Hi") }).await["tool_choice"], json!(null));
    // Tools in the system message are kept, so that the start of the request does not change.
    let in_text = |config: &mut ModelConfig| config.native_tools = Some(false);
    let (previous, last) = (body_of(in_text, request_with_tools("Hi")).await, body_of(in_text, last_request()).await);
    assert_eq!(previous, last);
}

#[tokio::test]
async fn refused_tool_choice_none_is_retried_without_tools() {
    for refusal in ["tool_choice: only 'auto' is supported", "Extra inputs are not permitted", "Bad Request"] {
        let server = ModelServer::start().await;
        let model = connect(&ModelConfig { retries: 0, ..config(&server) }).unwrap();
        server.reply(Reply::refusal(400, refusal)).reply(Reply::text("Fine."));
        assert!(model.can_forbid_calls());
        let outcome = ask(&model, last_request()).await;
        assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Fine.", 1), "{refusal}");
        assert!(outcome.without_tools, "the caller is notified");
        assert!(!model.can_forbid_calls(), "the refusal is remembered");
        ask(&model, request_with_tools("Hi")).await;
        let bodies: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
        assert_eq!((&bodies[1]["tools"], &bodies[1]["tool_choice"]), (&json!(null), &json!(null)), "{refusal}");
        // Everything else is unchanged.
        assert_eq!(bodies[2]["tools"].as_array().unwrap().len(), 2);
        assert_eq!(bodies[2]["stream_options"]["include_usage"], true);
    }
}

#[tokio::test]
async fn tool_choice_refusal_is_learnt_after_success_only() {
    const EXTRA: &str = "stream_options: Extra inputs are not permitted";
    let server = ModelServer::start().await;
    let mut config = config(&server);
    config.retries = 0;
    let model = connect(&config).unwrap();
    ask(&model, request_with_tools("Hi")).await;
    // The reason was something else, which cannot be fixed or is unknown.
    for (reply, kind) in [
        (Reply::refusal(500, "out of order"), ErrorKind::Provider),
        (Reply::text("Hello there").without_done().cut_after(200), ErrorKind::CutStream),
    ] {
        server.reply(Reply::refusal(400, "Bad Request")).reply(reply);
        assert_eq!(ask(&model, last_request()).await.kind(), Some(kind));
        assert!(model.can_forbid_calls());
    }
    server.reply(Reply::refusal(400, "Bad Request")).reply(Reply::refusal(400, "Bad Request"));
    assert_eq!(ask(&model, last_request()).await.kind(), Some(ErrorKind::Rejected));
    assert!(model.can_forbid_calls());
    // The reason was another field: the tools are sent again.
    server.reply(Reply::refusal(400, EXTRA)).reply(Reply::refusal(400, EXTRA)).reply(Reply::text("Fine."));
    let outcome = ask(&model, last_request()).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len(), outcome.without_tools), ("Fine.", 2, false));
    assert!(model.can_forbid_calls());
    let last = server.requests().pop().unwrap().body;
    assert_eq!((&last["tool_choice"], &last["stream_options"]), (&json!("none"), &json!(null)));
    // Both fields were the reason.
    config.max_tokens = Some(9);
    let model = connect(&config).unwrap();
    ask(&model, request_with_tools("Hi")).await;
    for _ in 0..3 {
        server.reply(Reply::refusal(400, EXTRA));
    }
    server.reply(Reply::text("Fine."));
    let outcome = ask(&model, last_request()).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len(), outcome.without_tools), ("Fine.", 3, true));
    assert!(!model.can_forbid_calls());
    // The notice is also sent for a new request, even if the server then refuses something else.
    assert!(ask(&model, last_request()).await.without_tools);
    assert_eq!(server.requests().pop().unwrap().body["tools"], json!(null));
    server.reply(Reply::refusal(400, "use max_completion_tokens")).reply(Reply::text("Fine."));
    let outcome = ask(&model, last_request()).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len(), outcome.without_tools), ("Fine.", 1, true));
}

#[tokio::test]
async fn model_that_ignores_tool_choice_none_is_remembered() {
    let server = ModelServer::start().await;
    for native in [true, false] {
        let model = connect(&ModelConfig { native_tools: Some(native), ..config(&server) }).unwrap();
        server.reply(match native {
            true => Reply::tool_call("now", json!({})),
            false => Reply::text("{\"tool\": \"now\", \"args\": {}}"),
        });
        let outcome = ask(&model, last_request()).await;
        assert_eq!(outcome.calls.len(), 1, "the caller decides how to handle the call");
        assert!(!model.can_forbid_calls());
    }
}

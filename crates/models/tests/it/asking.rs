//! What is sent.

use agentd_core::{ids::CallId, tool::ToolCall};
use agentd_models::ModelConfig;
use agentd_testkit::model_server::{MODEL_ID, ModelServer, Reply};
use secrecy::SecretString;

use super::*;

async fn body_of(change: impl FnOnce(&mut ModelConfig), request: ModelRequest) -> serde_json::Value {
    let server = ModelServer::start().await;
    let mut config = config(&server);
    change(&mut config);
    ask(&connect(&config).unwrap(), request).await;
    server.requests().remove(0).body
}

#[tokio::test]
async fn a_plain_request_holds_only_what_is_needed() {
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
async fn history_goes_back_byte_for_byte_and_reasoning_where_wanted() {
    let mut request = request_with_tools("Hi");
    let call = ToolCall {
        call_id: CallId::from("c1".to_owned()),
        name: "now".to_owned(),
        arguments: "{ \"b\":1,  \"a\":2}".to_owned(),
    };
    request.messages.push(Message::Assistant {
        text: String::new(),
        reasoning: Some("I should look.".to_owned()),
        tool_calls: vec![call],
    });
    request.messages.push(Message::Tool {
        call_id: CallId::from("c1".to_owned()),
        name: "now".to_owned(),
        text: "noon".to_owned(),
    });
    for echo in [false, true] {
        let body = body_of(|config| config.echo_reasoning = echo, request.clone()).await;
        let mut expected = json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{ \"b\":1,  \"a\":2}"}}]});
        if echo {
            expected["reasoning_content"] = json!("I should look.");
        }
        assert_eq!(body["messages"][2], expected);
        assert_eq!(body["messages"][3], json!({"role": "tool", "tool_call_id": "c1", "content": "noon"}));
    }
}

#[tokio::test]
async fn the_key_and_headers_are_sent_and_never_shown() {
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
async fn a_model_without_an_id_is_the_first_that_the_server_lists() {
    let server = ModelServer::start().await;
    let mut config = config(&server);
    config.id = String::new();
    let model = connect(&config).unwrap();
    ask(&model, request("Hi")).await;
    assert_eq!(server.requests()[0].body["model"], MODEL_ID);
}

#[tokio::test]
async fn what_a_server_refuses_is_not_sent_again() {
    let server = ModelServer::start().await;
    server
        .reply(Reply::refusal(400, "Unrecognized request argument supplied: stream_options"))
        .reply(Reply::refusal(400, "Unsupported parameter: use 'max_completion_tokens' instead"))
        .reply(Reply::text("Fine."));
    let mut config = config(&server);
    config.max_tokens = Some(9);
    config.retries = 0;
    let model = connect(&config).unwrap();
    let outcome = ask(&model, request("Hi")).await;
    assert_eq!(outcome.text, "Fine.");
    let retries: Vec<_> = outcome.retries.iter().map(|(attempt, delay, _)| (*attempt, *delay)).collect();
    assert_eq!(retries, [(2, 0), (3, 0)]);
    ask(&model, request("Hi")).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    for request in &requests[2..] {
        assert_eq!(request.body["stream_options"], json!(null));
        assert_eq!(request.body["max_tokens"], json!(null));
        assert_eq!(request.body["max_completion_tokens"], 9);
    }
}

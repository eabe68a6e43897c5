//! Anthropic's Messages API: requests, and all kinds of answers.

use agentd_core::{
    model::WindowSource,
    origin::{AnswerOrigin, ItemOrigin, MAX_SERVER_FIELDS},
};
use agentd_models::{Effort, Thinking};
use agentd_testkit::model_server::Provider;
use secrecy::SecretString;

use super::*;

fn messages_config(server: &ModelServer) -> ModelConfig {
    ModelConfig { wire: Wire::Anthropic, ..config(server) }
}

async fn ask_messages(server: &ModelServer) -> Outcome {
    ask_config(&messages_config(server)).await
}

/// Returns a stream with these events around blocks.
fn stream(events: &[Value], stop_reason: &str) -> Reply {
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}});
    let usage = json!({"input_tokens": null, "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage});
    let stop = json!({"type": "message_stop"});
    let all = std::iter::once(&start).chain(events).chain([&end, &stop]);
    Reply::events(all.map(ToString::to_string))
}

fn block_start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn block_delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text_delta(index: u64, text: &str) -> Value {
    block_delta(index, json!({"type": "text_delta", "text": text}))
}

/// Returns a request whose conversation contains this answer, as given by a model with that origin.
pub(super) fn request_after(origin: &str, outcome: &Outcome) -> ModelRequest {
    let mut request = request_with_tools("Hi");
    let whole = outcome.whole.clone().unwrap_or_default();
    let origin_of = |fields: ServerFields| Arc::new(ItemOrigin { model: origin.to_owned(), fields });
    let calls: Vec<ToolCall> = (outcome.calls.iter().enumerate())
        .map(|(at, (name, arguments))| ToolCall {
            call_id: CallId::from(format!("call_{at}")),
            name: name.clone(),
            arguments: arguments.clone(),
        })
        .collect();
    let of_calls = calls.iter().zip(&outcome.fields);
    let origin = AnswerOrigin {
        calls: of_calls.map(|(call, fields)| (call.call_id.clone(), origin_of(fields.clone()))).collect(),
        whole: Some(origin_of(whole)),
        unsent_reasoning: None,
        thinker: None,
    };
    request.messages.push(Message::Assistant {
        text: outcome.text.clone(),
        reasoning: None,
        tool_calls: calls.clone(),
        origin,
    });
    for call in calls {
        let (name, text) = (call.name, "noon".to_owned());
        request.messages.push(Message::Tool { call_id: call.call_id, name, text, pictures: Vec::new() });
    }
    request.messages.push(Message::User { text: "Go on".to_owned() });
    request
}

#[tokio::test]
async fn request_follows_the_messages_format() {
    let server = ModelServer::start().await;
    for base in [server.root_url(), server.base_url(), format!("{}/v1/messages", server.root_url())] {
        let mut config = ModelConfig { base_url: base.clone(), ..messages_config(&server) };
        config.api_key = Some(SecretString::from("sk-ant-1"));
        let outcome = ask_config(&config).await;
        assert_eq!(
            (outcome.text.as_str(), outcome.end),
            ("Hello from the model server.", Some(Finish::Stop)),
            "{base}"
        );
        let sent = last(&server);
        assert_eq!(sent.path, "/v1/messages");
        assert_eq!((sent.headers["x-api-key"].as_str(), sent.headers.get("authorization")), ("sk-ant-1", None));
        assert_eq!(sent.headers["anthropic-version"], "2023-06-01");
    }
    let sent = last(&server).body;
    assert_eq!(sent["system"][0]["text"], "Be brief.");
    assert_eq!(sent["messages"][0]["content"][0]["text"], "Hello");
    assert_eq!(sent["tools"][1]["name"], "read_file");
    assert_eq!((&sent["max_tokens"], &sent["stream"]), (&json!(8192), &json!(true)));
    for absent in ["temperature", "thinking", "output_config", "tool_choice", "stop_sequences"] {
        assert!(sent[absent].is_null(), "{absent}: {sent:#}");
    }
    // Two of the four positions: the last tool, the instructions, and the last messages.
    let marked = |value: &Value| value["cache_control"]["type"] == "ephemeral";
    assert!(marked(&sent["system"][0]) && marked(&sent["tools"][1]) && !marked(&sent["tools"][0]), "{sent:#}");
    assert!(marked(&sent["messages"][0]["content"][0]), "{sent:#}");
}

#[tokio::test]
async fn settings_map_to_messages_fields() {
    let server = ModelServer::start().await;
    let mut config = messages_config(&server);
    (config.thinking, config.effort) = (Some(Thinking::Adaptive), Some(Effort::Low));
    config.max_tokens = Some(1_000);
    config.body = json!({"metadata": {"user_id": "u"}}).as_object().unwrap().clone();
    let mut request = request_with_tools("Hi");
    request.may_call = false;
    ask(&connect(&config).unwrap(), request).await;
    let sent = last(&server).body;
    assert_eq!(sent["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!((&sent["output_config"]["effort"], &sent["max_tokens"]), (&json!("low"), &json!(1_000)));
    assert_eq!((&sent["tool_choice"]["type"], &sent["metadata"]["user_id"]), (&json!("none"), &json!("u")));
}

#[tokio::test]
async fn capabilities_are_fetched_before_the_first_request() {
    let server = ModelServer::start().await;
    server.acts_as(Provider::Anthropic);
    let mut config = ModelConfig { id: "the-model".to_owned(), ..messages_config(&server) };
    config.max_tokens = Some(100_000);
    let model = connect(&config).unwrap();
    ask(&model, request("Hi")).await;
    let sent = last(&server).body;
    assert_eq!((&sent["thinking"]["type"], &sent["max_tokens"]), (&json!("adaptive"), &json!(64_000)));
    let info = model.info();
    assert_eq!((info.context_window, info.window_source), (200_000, WindowSource::Server));
    assert!(info.sees_pictures);
    config.sees_pictures = Some(false);
    config.thinking = Some(Thinking::Off);
    let model = connect(&config).unwrap();
    ask(&model, request("Hi")).await;
    assert_eq!(last(&server).body["thinking"], json!({"type": "disabled"}));
    assert!(!model.info().sees_pictures);
}

#[tokio::test]
async fn content_blocks_and_deltas_form_an_answer() {
    let outcome = ask_over(
        Wire::Anthropic,
        stream(
            &[
                json!({"type": "ping"}),
                block_start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
                block_delta(0, json!({"type": "thinking_delta", "thinking": "Let me "})),
                block_delta(0, json!({"type": "thinking_delta", "thinking": "look."})),
                block_delta(0, json!({"type": "signature_delta", "signature": "E/8"})),
                block_delta(0, json!({"type": "signature_delta", "signature": "=\u{e9}"})),
                json!({"type": "content_block_stop", "index": 0}),
                block_start(1, json!({"type": "text", "text": "", "citations": []})),
                text_delta(1, "I "),
                block_delta(1, json!({"type": "citations_delta", "citation": {"cited_text": "x"}})),
                json!({"type": "some_new_event", "index": 9, "content_block": 7}),
                text_delta(1, "look."),
                json!({"type": "content_block_stop", "index": 1}),
                block_start(2, json!({"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}})),
                block_delta(2, json!({"type": "input_json_delta", "partial_json": ""})),
                json!({"type": "content_block_stop", "index": 2}),
                block_start(3, json!({"type": "tool_use", "id": "toolu_2", "name": "read_file", "input": {}})),
                block_delta(3, json!({"type": "input_json_delta", "partial_json": "{\"path\": "})),
                block_delta(3, json!({"type": "input_json_delta", "partial_json": "\"a\"}"})),
                json!({"type": "content_block_stop", "index": 3}),
            ],
            "tool_use",
        )
        .bytes_per_write(7),
    )
    .await;
    assert_eq!((outcome.text.as_str(), outcome.reasoning.as_str()), ("I look.", "Let me look."), "{outcome:?}");
    let calls = [("now".to_owned(), "{}".to_owned()), ("read_file".to_owned(), "{\"path\": \"a\"}".to_owned())];
    assert_eq!((outcome.calls.as_slice(), outcome.end), (calls.as_slice(), Some(Finish::Stop)));
    let ids: Vec<&str> = outcome.fields.iter().map(|fields| fields.call_id.as_str()).collect();
    assert_eq!(ids, ["toolu_1", "toolu_2"]);
    let blocks: Value = serde_json::from_str(outcome.whole.unwrap().blocks.as_ref().unwrap()).unwrap();
    let thinking = json!({"type": "thinking", "thinking": "Let me look.", "signature": "E/8=\u{e9}"});
    assert_eq!(blocks["blocks"], json!([thinking, 7, "toolu_1", "toolu_2"]));
    let usage = outcome.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens), (10, 5, 2));
}

#[tokio::test]
async fn answer_is_replayed_verbatim_only_after_the_same_prefix() {
    let server = ModelServer::start().await;
    server.acts_as(Provider::Anthropic);
    let config = ModelConfig { id: "the-model".to_owned(), ..messages_config(&server) };
    let model = connect(&config).unwrap();
    let odd = json!({"type": "server_tool_use", "id": "srv_1", "name": "search", "input": {"q": "x"}});
    let thinking = |text: &str| json!({"type": "thinking", "thinking": text, "signature": ""});
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = json!({"type": "tool_use", "id": "toolu_9", "name": "now", "input": "{ \"path\" :\"a\\/b\"}"});
    server.reply(Reply::blocks([
        thinking("One \u{201c}"),
        json!({"type": "redacted_thinking", "data": ""}),
        text("First. "),
        odd.clone(),
        thinking(""),
        text("Second."),
        text("\n\n"),
        call,
    ]));
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.text.as_str(), outcome.calls.len()), ("First. Second.\n\n", 1), "{outcome:?}");
    let back = request_after(&model.info().origin(), &outcome);
    assert_eq!(ask(&model, back.clone()).await.error, None);
    let sent = last(&server);
    let blocks = &sent.body["messages"][1]["content"];
    let expected = ["thinking", "redacted_thinking", "text", "server_tool_use", "thinking", "text", "tool_use"];
    assert_eq!(kinds(blocks), expected);
    assert_eq!(blocks[3], odd);
    assert!(sent.text.contains(r#""input":{ "path" :"a\/b"}"#), "{}", sent.text);

    // With another model, other text before it or other tools, only text and calls are sent.
    let changed = |change: fn(&mut ModelRequest)| {
        let mut request = back.clone();
        change(&mut request);
        request
    };
    for request in [
        request_after("the-model@elsewhere/v1", &outcome),
        changed(|request| request.messages[1] = user("Hello")),
        changed(|request| request.tools = request.tools[..1].into()),
        changed(|request| request.messages[0] = Message::System { text: "Be long.".to_owned() }),
    ] {
        assert_eq!(ask(&model, request).await.error, None);
        assert_eq!(kinds(&last(&server).body["messages"][1]["content"]), ["text", "tool_use"]);
    }
    assert_eq!(server.refusals(), [""; 0]);
}

#[tokio::test]
async fn calls_are_sent_as_text_without_tools() {
    let server = ModelServer::start().await;
    let model = connect(&messages_config(&server)).unwrap();
    let mut request = request("Hi");
    request.messages.extend([Message::answer("", vec![tool_call("a", "{}")]), result("a", "noon")]);
    assert_eq!(ask(&model, request).await.error, None);
    assert_eq!(server.refusals(), [""; 0]);
}

#[tokio::test]
async fn paused_answer_is_continued_as_one() {
    let server = ModelServer::start().await;
    server.acts_as(Provider::Anthropic);
    let model = connect(&ModelConfig { id: "the-model".to_owned(), ..messages_config(&server) }).unwrap();
    let text = |text: &str| json!({"type": "text", "text": text});
    let search = json!({"type": "server_tool_use", "id": "srv_1", "name": "search", "input": {"q": "x"}});
    server.reply(Reply::blocks([text("First. "), search.clone()]).finish("pause_turn"));
    server.reply(Reply::blocks([text("Second."), json!({"type": "tool_use", "id": "t", "name": "now", "input": {}})]));
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.text.as_str(), outcome.calls.len(), outcome.end), ("First. Second.", 1, Some(Finish::Stop)));
    assert_eq!(server.refusals(), [""; 0]);
    let requests = server.requests();
    let messages = requests[1].messages();
    assert_eq!((messages.len(), &messages[1]["content"].as_array().unwrap().last().unwrap()), (2, &&search));
    assert_eq!(outcome.usage.map(|usage| usage.prompt_tokens), Some(20));
    // All blocks are sent back.
    assert_eq!(ask(&model, request_after(&model.info().origin(), &outcome)).await.error, None);
    let kinds = kinds(&last(&server).body["messages"][1]["content"]);
    assert!(kinds.contains(&"server_tool_use".to_owned()) && kinds.ends_with(&["tool_use".to_owned()]), "{kinds:?}");
    assert_eq!(server.refusals(), [""; 0]);

    // An answer that breaks off after a pause is requested again.
    server.reply(Reply::blocks([text("Lost. "), search]).finish("pause_turn"));
    server.reply(Reply::text("Lost as well.").cut_after(400)).reply(Reply::text("Whole."));
    let outcome = ask(&model, request("Hi")).await;
    assert_eq!((outcome.text.as_str(), outcome.discarded), ("Whole.", 1), "{outcome:?}");
}

#[tokio::test]
async fn call_truncated_before_its_arguments_does_not_run() {
    let server = ModelServer::start().await;
    let block = |index, id| block_start(index, json!({"type": "tool_use", "id": id, "name": "now", "input": {}}));
    let blank = |index| block_delta(index, json!({"type": "input_json_delta", "partial_json": ""}));
    server.reply(stream(&[block(0, "a"), blank(0), block(1, "b"), blank(1)], "max_tokens"));
    let outcome = ask_messages(&server).await;
    assert_eq!((outcome.calls.len(), outcome.unrun.len(), outcome.end), (1, 1, Some(Finish::Length)), "{outcome:?}");
}

#[tokio::test]
async fn malformed_events_lose_only_reasoning() {
    let server = ModelServer::start().await;
    let thinking = [
        block_start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        block_delta(0, json!({"type": "signature_delta", "signature": "s"})),
    ];
    for odd in [
        text_delta(7, "lost "),
        block_delta(0, json!({"type": "a_new_delta", "x": 1})),
        block_start(1, json!("no block")),
        block_delta(9, json!({"type": "signature_delta", "signature": "s"})),
    ] {
        let events = [
            thinking.to_vec(),
            vec![odd.clone(), block_start(2, json!({"type": "text", "text": ""})), text_delta(2, "Hi")],
        ];
        server.reply(stream(&events.concat(), "end_turn"));
        let outcome = ask_messages(&server).await;
        assert!(outcome.text.ends_with("Hi") && outcome.whole.is_none(), "{odd}: {outcome:?}");
    }
    // Too large to be stored.
    let oversized_text: String = (0..MAX_SERVER_FIELDS / 4).map(|number| format!("{number} ")).collect();
    server.reply(Reply::text("Hi").and_reasoning(oversized_text));
    let outcome = ask_messages(&server).await;
    assert_eq!((outcome.text.as_str(), outcome.whole), ("Hi", None));
}

#[tokio::test]
async fn unsigned_or_trailing_reasoning_is_not_replayed() {
    let server = ModelServer::start().await;
    let model = connect(&messages_config(&server)).unwrap();
    let thinking = |index| block_start(index, json!({"type": "thinking", "thinking": "", "signature": ""}));
    server.reply(stream(&[block_start(0, json!({"type": "text", "text": "Hi"})), thinking(1)], "max_tokens"));
    let cut = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((cut.text.as_str(), &cut.whole), ("Hi", &None));
    let signed = block_delta(1, json!({"type": "signature_delta", "signature": "s"}));
    server.reply(stream(&[block_start(0, json!({"type": "text", "text": "Hi"})), thinking(1), signed], "max_tokens"));
    let ended = ask(&model, request_with_tools("Hi")).await;
    assert!(ended.whole.is_some());
    assert_eq!(ask(&model, request_after(&model.info().origin(), &ended)).await.error, None);
    assert_eq!(last(&server).body["messages"][1]["content"], json!([{"type": "text", "text": "Hi"}]));
    assert_eq!(server.refusals(), [""; 0]);
}

#[tokio::test]
async fn errors_map_to_kinds_and_only_some_are_retried() {
    let check =
        |reply, kind, requests, message, hint| check_failure(Wire::Anthropic, reply, kind, requests, message, hint);
    let error = Reply::messages_error;
    let in_stream = |kind: &str, message: &str| {
        let error = json!({"type": kind, "message": message});
        let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 3}}});
        Reply::events([start.to_string(), json!({"type": "error", "error": error, "request_id": "req_2"}).to_string()])
    };
    check(error(529, "overloaded_error", "Overloaded"), ErrorKind::Provider, 2, "[request req_scripted]", "").await;
    check(error(401, "authentication_error", "invalid x-api-key"), ErrorKind::Auth, 1, "x-api-key", "api_key").await;
    check(error(404, "not_found_error", "model: claude-x"), ErrorKind::Rejected, 1, "claude-x", "model's id").await;
    check(error(402, "billing_error", "pay"), ErrorKind::QuotaExceeded, 1, "pay", "balance").await;
    let exhausted_credit = "Your credit balance is too low to access the Anthropic API.";
    check(
        error(400, "invalid_request_error", exhausted_credit),
        ErrorKind::QuotaExceeded,
        1,
        "balance is too low",
        "console",
    )
    .await;
    check(error(429, "rate_limit_error", "slow down"), ErrorKind::RateLimited, 2, "slow down", "wait").await;
    for code in ["enforced_spend_limit_reached", "contract_spend_limit_reached"] {
        let error = json!({"type": "rate_limit_error", "message": "limit", "details": {"error_code": code}});
        let reply = Reply::status(429, json!({"type": "error", "error": error}).to_string()).header("retry-after", "1");
        check(reply, ErrorKind::QuotaExceeded, 1, "no more requests", "spending limit").await;
    }
    check(in_stream("overloaded_error", "Overloaded"), ErrorKind::Provider, 2, "[request req_2]", "").await;
    check(in_stream("api_error", "broken"), ErrorKind::Provider, 2, "broken", "").await;
    check(in_stream("authentication_error", "no"), ErrorKind::Auth, 1, "no", "").await;
    check(in_stream("invalid_request_error", "bad"), ErrorKind::Rejected, 1, "bad", "").await;
    check(in_stream("rate_limit_error", "slow"), ErrorKind::RateLimited, 2, "slow", "").await;
    check(Reply::text("Hello, world").cut_after(300), ErrorKind::CutStream, 2, "cut off", "").await;
}

#[tokio::test]
async fn max_tokens_limit_is_learnt_from_a_refusal() {
    let server = ModelServer::start().await;
    let refusal = "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for m";
    server.respond_with(move |request| match request.body["max_tokens"].as_u64() {
        Some(..=4096) => Reply::text("Hi"),
        _ => Reply::messages_error(400, "invalid_request_error", refusal),
    });
    let mut config = messages_config(&server);
    let model = connect(&config).unwrap();
    for requests in [2, 3] {
        assert_eq!(ask(&model, request("Hi")).await.error, None);
        assert_eq!((server.requests().len(), &last(&server).body["max_tokens"]), (requests, &json!(4096)));
    }
    // A configured value is not adapted.
    config.max_tokens = Some(8192);
    let outcome = ask_config(&config).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::Rejected), "{outcome:?}");
}

//! OpenAI's Responses API: requests, and all kinds of answers.

use agentd_models::{Effort, Thinking};
use secrecy::SecretString;

use super::{anthropic::request_after, *};

fn responses_config(server: &ModelServer) -> ModelConfig {
    ModelConfig { wire: Wire::Responses, ..config(server) }
}

async fn ask_responses(server: &ModelServer) -> Outcome {
    ask_config(&responses_config(server)).await
}

/// Returns a reply with these events, with sequence numbers.
fn numbered(events: &[Value]) -> Reply {
    let events = events.iter().enumerate().map(|(number, event)| {
        let mut event = event.clone();
        event["sequence_number"] = number.into();
        event.to_string()
    });
    Reply::events(events)
}

/// Returns a stream of these events between the first and the last one.
fn stream(events: &[Value]) -> Vec<Value> {
    let created = json!({"type": "response.created", "response": {"status": "in_progress", "output": []}});
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}});
    let response = json!({"object": "response", "status": "completed", "output": [], "usage": usage});
    let completed = json!({"type": "response.completed", "response": response});
    std::iter::once(created).chain(events.iter().cloned()).chain([completed]).collect()
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn text_delta(index: u64, text: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": text})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
}

fn reasoning(id: &str) -> Value {
    json!({"id": id, "type": "reasoning", "summary": [], "encrypted_content": "gAAA/\u{e9}="})
}

/// Returns the stored part of an answer.
fn stored(outcome: &Outcome) -> Value {
    serde_json::from_str(outcome.whole.as_ref().unwrap().blocks.as_ref().unwrap()).unwrap()
}

#[tokio::test]
async fn request_follows_the_responses_format() {
    let server = ModelServer::start().await;
    for base in [server.base_url(), format!("{}/responses", server.base_url())] {
        let mut config = ModelConfig { base_url: base.clone(), ..responses_config(&server) };
        config.api_key = Some(SecretString::from("sk-1"));
        let outcome = ask_config(&config).await;
        let text = "Hello from the model server.";
        assert_eq!((outcome.text.as_str(), outcome.end), (text, Some(Finish::Stop)), "{base}");
        let sent = last(&server);
        assert_eq!((sent.path.as_str(), sent.headers["authorization"].as_str()), ("/v1/responses", "Bearer sk-1"));
    }
    let sent = last(&server).body;
    assert_eq!(
        (&sent["instructions"], &sent["store"], &sent["stream"]),
        (&json!("Be brief."), &json!(false), &json!(true))
    );
    let input = json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]);
    assert_eq!((&sent["input"], &sent["include"]), (&input, &json!(["reasoning.encrypted_content"])));
    assert_eq!((&sent["tools"][1]["name"], &sent["tools"][1]["strict"]), (&json!("read_file"), &json!(false)));
    for absent in ["temperature", "reasoning", "max_output_tokens", "tool_choice", "previous_response_id", "truncation"]
    {
        assert!(sent[absent].is_null(), "{absent}: {sent:#}");
    }
    assert_eq!(server.refusals(), [""; 0]);
}

#[tokio::test]
async fn settings_map_to_responses_fields_with_one_cache_key() {
    let server = ModelServer::start().await;
    let mut config = responses_config(&server);
    (config.thinking, config.effort) = (Some(Thinking::Adaptive), Some(Effort::Low));
    (config.max_tokens, config.temperature) = (Some(1_000), Some(0.5));
    config.body = json!({"metadata": {"of": "u"}}).as_object().unwrap().clone();
    let mut request = request_with_tools("Hi");
    request.may_call = false;
    let model = connect(&config).unwrap();
    ask(&model, request.clone()).await;
    let sent = last(&server).body;
    assert_eq!(sent["reasoning"], json!({"effort": "low", "summary": "auto"}));
    assert_eq!((&sent["max_output_tokens"], &sent["temperature"]), (&json!(1_000), &json!(0.5)));
    assert_eq!((&sent["tool_choice"], &sent["metadata"]["of"]), (&json!("none"), &json!("u")));
    assert_eq!(sent["prompt_cache_key"], request.session_id.to_string());
    let other = request_with_tools("Hi");
    ask(&model, other.clone()).await;
    assert_eq!(last(&server).body["prompt_cache_key"], other.session_id.to_string());

    (config.thinking, config.max_tokens) = (Some(Thinking::Off), Some(1));
    ask_config(&config).await;
    let sent = last(&server).body;
    assert_eq!((&sent["reasoning"], &sent["max_output_tokens"]), (&json!({"effort": "none"}), &json!(16)));
    assert_eq!(server.refusals(), [""; 0]);
}

#[tokio::test]
async fn items_and_deltas_form_an_answer() {
    let server = ModelServer::start().await;
    let summary = |part: u64, text: &str| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": part, "delta": text});
    let arguments = |index: u64, piece: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": piece});
    let events = stream(&[
        json!({"type": "response.in_progress", "response": {}}),
        added(0, json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "half"})),
        summary(0, "Let me "),
        summary(0, "look."),
        summary(1, "Well."),
        done(0, reasoning("rs_1")),
        added(1, json!({"type": "message", "role": "assistant", "content": [], "phase": "commentary"})),
        text_delta(1, "I "),
        json!({"type": "response.some_new_event", "output_index": 9, "delta": {"x": 7}, "item": 3}),
        json!({"type": "response.output_text.annotation.added", "output_index": 1, "annotation": {}}),
        text_delta(1, "look."),
        done(1, message("I look.")),
        added(2, call("call_1", "now", "")),
        done(2, call("call_1", "now", "")),
        added(3, call("call_2", "read_file", "")),
        arguments(3, "{\"path\": "),
        arguments(3, "\"a\"}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 3, "arguments": "{\"path\": \"a\"}"}),
        done(3, call("call_2", "read_file", "{\"path\": \"a\"}")),
    ]);
    server.reply(numbered(&events).bytes_per_write(7));
    let outcome = ask_responses(&server).await;
    assert_eq!(
        (outcome.text.as_str(), outcome.reasoning.as_str()),
        ("I look.", "Let me look.\n\nWell."),
        "{outcome:?}"
    );
    let calls = [("now".to_owned(), "{}".to_owned()), ("read_file".to_owned(), "{\"path\": \"a\"}".to_owned())];
    assert_eq!((outcome.calls.as_slice(), outcome.end), (calls.as_slice(), Some(Finish::Stop)));
    let ids: Vec<&str> = outcome.fields.iter().map(|fields| fields.call_id.as_str()).collect();
    assert_eq!(ids, ["call_1", "call_2"]);
    assert_eq!(stored(&outcome), json!({"items": [reasoning("rs_1"), ["commentary", 7], "call_1", "call_2"]}));
    let usage = outcome.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens), (10, 4, 5));
}

#[tokio::test]
async fn items_without_deltas_or_out_of_order_are_accepted() {
    let server = ModelServer::start().await;
    let whole = [reasoning("rs_1"), message("I look."), call("call_1", "now", "{}")];
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    let response = json!({"object": "response", "status": "completed", "output": whole, "usage": usage});
    let at_end = json!({"type": "response.completed", "response": response});
    let all_done: Vec<Value> = whole.iter().cloned().zip(0..).map(|(item, index)| done(index, item)).collect();
    // Pieces without the start of their items, and items without a number.
    let piece = json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}"});
    let bare = |item: &Value| json!({"type": "response.output_item.done", "item": item});
    for events in [
        vec![at_end.clone()],
        stream(&all_done),
        stream(&[
            text_delta(1, "I "),
            piece,
            text_delta(1, "look."),
            all_done[0].clone(),
            all_done[1].clone(),
            all_done[2].clone(),
        ]),
        stream(&[text_delta(1, "I"), added(1, message("")), at_end.clone()]),
        whole.iter().map(bare).chain([at_end.clone()]).collect(),
        vec![response.clone()],
    ] {
        server.reply(numbered(&events));
        let outcome = ask_responses(&server).await;
        assert_eq!((outcome.text.as_str(), outcome.error.as_ref()), ("I look.", None), "{events:#?}");
        assert_eq!(outcome.calls, [("now".to_owned(), "{}".to_owned())], "{events:#?}");
        assert_eq!(stored(&outcome)["items"], json!([reasoning("rs_1"), 7, "call_1"]), "{events:#?}");
    }
}

#[tokio::test]
async fn missing_event_is_an_error_and_repeated_one_ignored() {
    let server = ModelServer::start().await;
    let events = stream(&[added(0, message("")), text_delta(0, "one "), text_delta(0, "two "), text_delta(0, "three")]);
    let all = numbered(&events).events.unwrap();
    let without = |at: usize| {
        let mut events = all.clone();
        events.remove(at);
        Reply::events(events)
    };
    server.reply(without(3)).reply(numbered(&events));
    let outcome = ask_responses(&server).await;
    assert_eq!((outcome.text.as_str(), outcome.discarded), ("one two three", 1), "{outcome:?}");
    let mut config = responses_config(&server);
    config.retries = 0;
    server.reply(without(3));
    let outcome = ask_config(&config).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::CutStream));
    assert!(outcome.message().contains("event 3 of the answer"), "{outcome:?}");
    // A stream without its end also counts as cut.
    server.reply(without(all.len() - 1));
    assert_eq!(ask_config(&config).await.kind(), Some(ErrorKind::CutStream));
    let mut with_repeated_event = all.clone();
    with_repeated_event.insert(4, all[3].clone());
    server.reply(Reply::events(with_repeated_event));
    assert_eq!(ask_config(&config).await.text, "one two three");
    // A server without numbers, and one with identical numbers.
    for number in [json!(null), json!(0)] {
        let events = events.iter().map(|event| {
            let mut event = event.clone();
            event["sequence_number"] = number.clone();
            event.to_string()
        });
        server.reply(Reply::events(events));
        assert_eq!(ask_config(&config).await.text, "one two three");
    }
}

#[tokio::test]
async fn answer_is_replayed_verbatim_to_its_own_model_only() {
    let server = ModelServer::start().await;
    let model = connect(&responses_config(&server)).unwrap();
    let raw = r#"{ "id":"rs_1", "type":"reasoning","summary":[{"type":"summary_text","text":"a\/b \u00e9"}],"encrypted_content":"g\/A+é==" }"#;
    let second = r#"{"type":"reasoning","id":"rs_2","encrypted_content":"x","summary":[]}"#;
    let search = r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search"}}"#;
    let commentary = json!({"type": "message", "role": "assistant", "phase": "commentary", "content": [
        {"type": "output_text", "text": "First. "}]});
    let items = [
        raw.to_owned(),
        commentary.to_string(),
        search.to_owned(),
        second.to_owned(),
        call("call_9", "now", "{ \"path\" :\"a\\/b\"}").to_string(),
        message("Second.").to_string(),
    ];
    let events = items.iter().enumerate().map(|(at, item)| {
        format!(r#"{{"type":"response.output_item.done","output_index":{at},"item":{item},"sequence_number":{at}}}"#)
    });
    let end = json!({"type": "response.completed", "response": {"output": []}, "sequence_number": 6}).to_string();
    server.reply(Reply::events(events.chain([end])));
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.text.as_str(), outcome.calls.len()), ("First. \n\nSecond.", 1), "{outcome:?}");
    let back = request_after(&model.info().origin(), &outcome);
    assert_eq!(ask(&model, back.clone()).await.error, None);
    let sent = last(&server);
    let expected = [
        "message",
        "reasoning",
        "message",
        "web_search_call",
        "reasoning",
        "function_call",
        "message",
        "function_call_output",
        "message",
    ];
    assert_eq!(kinds(&sent.body["input"]), expected);
    for part in [raw, second, search, r#""arguments":"{ \"path\" :\"a\\/b\"}""#] {
        assert!(sent.text.contains(part), "{part}: {}", sent.text);
    }
    assert_eq!(sent.body["input"][2]["phase"], "commentary");
    assert!(sent.body["input"][6]["phase"].is_null());

    // Other text before the answer has no effect, unlike another model or a model that gets no reasoning.
    let mut changed = back.clone();
    changed.messages[1] = Message::User { text: "Hello".to_owned() };
    ask(&model, changed).await;
    assert_eq!(kinds(&last(&server).body["input"]), expected);
    ask(&model, request_after("m@elsewhere/v1", &outcome)).await;
    assert_eq!(
        kinds(&last(&server).body["input"]),
        ["message", "message", "function_call", "function_call_output", "message"]
    );
    assert_eq!(server.refusals(), [""; 0]);
}

#[tokio::test]
async fn reasoning_is_replayed_only_before_its_item() {
    let server = ModelServer::start().await;
    let model = connect(&responses_config(&server)).unwrap();
    // The limit cuts the second call, so its reasoning is not sent back. Neither is the reasoning at the end.
    let mut cut = stream(&[
        done(0, reasoning("rs_1")),
        done(1, call("call_1", "now", "{}")),
        done(2, reasoning("rs_2")),
        added(3, call("call_2", "now", "")),
        json!({"type": "response.function_call_arguments.delta", "output_index": 3, "delta": "{\"pa"}),
    ]);
    let response = json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}});
    *cut.last_mut().unwrap() = json!({"type": "response.incomplete", "response": response});
    server.reply(numbered(&cut));
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.calls.len(), outcome.unrun.len(), outcome.end), (1, 1, Some(Finish::Length)), "{outcome:?}");
    ask(&model, request_after(&model.info().origin(), &outcome)).await;
    let sent = last(&server);
    assert_eq!(
        kinds(&sent.body["input"]),
        ["message", "reasoning", "function_call", "function_call_output", "message"]
    );
    assert!(sent.text.contains("rs_1") && !sent.text.contains("rs_2"));

    let unfinished =
        json!({"id": "rs_3", "type": "reasoning", "summary": [], "status": "incomplete", "encrypted_content": "x"});
    let unencrypted = json!({"id": "rs_4", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]});
    for odd in [unfinished, unencrypted] {
        server.reply(numbered(&stream(&[done(0, odd), done(1, message("Hi"))])));
        let outcome = ask(&model, request_with_tools("Hi")).await;
        assert_eq!((outcome.text.as_str(), &outcome.whole), ("Hi", &None));
    }
    server.reply(numbered(&stream(&[done(0, message("Hi")), done(1, reasoning("rs_5"))])));
    let outcome = ask(&model, request_with_tools("Hi")).await;
    ask(&model, request_after(&model.info().origin(), &outcome)).await;
    assert!(outcome.whole.is_some() && !last(&server).text.contains("rs_5"));
    assert_eq!(server.refusals(), [""; 0]);
}

#[tokio::test]
async fn text_out_of_order_loses_only_reasoning() {
    let server = ModelServer::start().await;
    for odd in [
        vec![text_delta(1, "a"), text_delta(2, "b"), text_delta(1, "c")],
        vec![text_delta(2, "b"), text_delta(1, "a")],
        vec![json!({"type": "response.output_text.delta", "output_index": 0, "delta": "lost"}), text_delta(1, "a")],
        vec![added(0, json!("no item")), text_delta(1, "a")],
    ] {
        let events = stream(&[vec![done(0, reasoning("rs_1"))], odd.clone()].concat());
        server.reply(numbered(&events));
        let outcome = ask_responses(&server).await;
        assert!(
            outcome.text.contains('a') && outcome.whole.is_none() && outcome.error.is_none(),
            "{odd:?}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn unknown_incomplete_reason_is_length_and_refusal_filtered() {
    let incomplete = json!({"status": "incomplete", "incomplete_details": {"reason": "a_new_reason"}});
    let mut cut = stream(&[added(0, message("")), text_delta(0, "Hi")]);
    *cut.last_mut().unwrap() = json!({"type": "response.incomplete", "response": incomplete});
    let refusal = json!({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "Hi"}]});
    for (events, end) in [(cut, Finish::Length), (stream(&[done(0, refusal)]), Finish::Filtered)] {
        let outcome = ask_over(Wire::Responses, numbered(&events)).await;
        assert_eq!((outcome.text.as_str(), outcome.end), ("Hi", Some(end)), "{events:#?}");
    }
}

#[tokio::test]
async fn errors_map_to_kinds_and_only_some_are_retried() {
    let check =
        |reply, kind, requests, message, hint| check_failure(Wire::Responses, reply, kind, requests, message, hint);
    let error = Reply::responses_error;
    let created = || json!({"type": "response.created", "response": {}});
    let failed = |code: &str, message: &str| {
        let response = json!({"id": "resp_2", "status": "failed", "error": {"code": code, "message": message}});
        numbered(&[created(), json!({"type": "response.failed", "response": response})])
    };
    let event = |code: &str, message: &str| {
        numbered(&[created(), json!({"type": "error", "code": code, "message": message, "param": null})])
    };
    check(error(500, "server_error", "broken"), ErrorKind::Provider, 2, "[request req_scripted]", "").await;
    check(error(401, "invalid_api_key", "Incorrect API key"), ErrorKind::Auth, 1, "Incorrect", "api_key").await;
    check(error(404, "model_not_found", "no gpt-x"), ErrorKind::Rejected, 1, "gpt-x", "model's id").await;
    check(error(429, "rate_limit_exceeded", "slow down"), ErrorKind::RateLimited, 2, "slow down", "wait").await;
    check(error(429, "insufficient_quota", "pay"), ErrorKind::QuotaExceeded, 1, "pay", "quota").await;
    check(error(400, "context_length_exceeded", "too long"), ErrorKind::ContextOverflow, 1, "too long", "").await;
    for in_stream in [&failed as &dyn Fn(&str, &str) -> Reply, &event] {
        check(in_stream("server_error", "broken"), ErrorKind::Provider, 2, "broken", "").await;
        check(in_stream("server_is_overloaded", "busy"), ErrorKind::Provider, 2, "busy", "").await;
        check(in_stream("rate_limit_exceeded", "slow"), ErrorKind::RateLimited, 2, "slow", "").await;
        check(in_stream("insufficient_quota", "pay"), ErrorKind::QuotaExceeded, 1, "pay", "quota").await;
        check(in_stream("invalid_prompt", "bad"), ErrorKind::Rejected, 1, "bad", "").await;
        check(in_stream("invalid_image", "bad"), ErrorKind::Rejected, 1, "bad", "").await;
        check(in_stream("context_length_exceeded", "too long"), ErrorKind::ContextOverflow, 1, "too long", "").await;
    }
    check(failed("server_error", "broken"), ErrorKind::Provider, 2, "[request resp_2]", "").await;
    let silent = numbered(&[created(), json!({"type": "response.failed", "response": {"status": "failed"}})]);
    check(silent, ErrorKind::Provider, 2, "the answer failed", "").await;
    let whole = json!({"object": "response", "status": "failed", "error": {"code": "invalid_prompt", "message": "no"}});
    check(Reply::status(200, whole.to_string()), ErrorKind::Rejected, 1, "no", "").await;
    check(Reply::text("Hello, world").cut_after(900), ErrorKind::CutStream, 2, "cut off", "").await;
}

#[tokio::test]
async fn items_with_shared_or_changed_index_stay_separate() {
    let event = |mut value: Value, kind: &str| {
        value["type"] = json!(format!("response.{kind}"));
        value.to_string()
    };
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "now", "arguments": "{}"});
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]});
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let server = ModelServer::start().await;
    server.default_reply(Reply::events([
        event(json!({"output_index": 0, "item": item}), "output_item.added"),
        event(json!({"output_index": 0, "item_id": "msg_1", "delta": "I "}), "output_text.delta"),
        event(json!({"output_index": 0, "item_id": "msg_1", "delta": "look."}), "output_text.delta"),
        event(json!({"output_index": 1, "item": call}), "output_item.added"),
        event(json!({"output_index": 1, "item": call}), "output_item.done"),
        event(json!({"response": {"status": "completed", "output": [item, message, call]}}), "completed"),
    ]));
    let outcome = ask(&connect(&responses_config(&server)).unwrap(), request_with_tools("Hi")).await;
    assert_eq!((outcome.text.as_str(), outcome.error.as_ref()), ("I look.", None), "{outcome:?}");
    let names: Vec<&str> = outcome.calls.iter().map(|call| call.0.as_str()).collect();
    assert_eq!(names, ["now"], "{outcome:?}");
}

//! Servers' remarks on a request: requested where supported, and never a reason to fail.

use super::*;

/// Returns a reply whose head has these fields.
fn with_head(head: Value) -> Reply {
    Reply { head: head.as_object().unwrap().clone(), ..Reply::text("Hello.") }
}

fn config_of(server: &ModelServer, wire: Wire, cache_reasons: Option<bool>) -> ModelConfig {
    ModelConfig { wire, cache_reasons, ..config(server) }
}

#[tokio::test]
async fn anthropic_reports_why_its_cache_missed() {
    let server = ModelServer::start().await;
    let model = connect(&config_of(&server, Wire::Anthropic, Some(true))).unwrap();
    let request = request_with_tools("Hi");
    server.reply(with_head(json!({"id": "msg_1"})));
    assert_eq!(ask(&model, request.clone()).await.remarks, []);
    assert_eq!(last(&server).body["diagnostics"], json!({"previous_message_id": null}));

    let reason = json!({"type": "tools_changed", "cache_missed_input_tokens": 4185});
    let dropped = json!([
        {"type": "thinking_dropped", "reason": "prefix_binding_mismatch", "path": "messages.1.content.0"},
        {"type": "thinking_dropped", "reason": "prefix_binding_mismatch", "path": "messages.3.content.0"},
    ]);
    let diagnostics = json!({"cache_miss_reason": reason});
    server.reply(with_head(json!({"id": "msg_2", "diagnostics": diagnostics, "input_transformations": dropped})));
    let remarks = ask(&model, request.clone()).await.remarks;
    let expected = [("tools_changed", 4185), ("thinking_dropped:prefix_binding_mismatch", 0)];
    assert_eq!(remarks, expected.map(|(reason, tokens)| (reason.to_owned(), tokens)));
    assert_eq!(last(&server).body["diagnostics"], json!({"previous_message_id": "msg_1"}));

    // A request without tools is not part of the conversation, and another session is separate.
    server.reply(with_head(json!({"id": "msg_aside"})));
    let without_tools = ModelRequest { tools: Arc::default(), ..request.clone() };
    ask(&model, without_tools).await;
    assert!(last(&server).body["diagnostics"].is_null());
    let other = request_with_tools("Hi");
    ask(&model, ModelRequest { session_id: SessionId::generate(), ..other }).await;
    assert_eq!(last(&server).body["diagnostics"]["previous_message_id"], Value::Null);
    ask(&model, request).await;
    assert_eq!(last(&server).body["diagnostics"], json!({"previous_message_id": "msg_2"}));
}

#[tokio::test]
async fn cache_diagnostics_are_opt_in_and_end_on_refusal() {
    let server = ModelServer::start().await;
    for wire in [Wire::Anthropic, Wire::Responses] {
        let model = connect(&config_of(&server, wire, None)).unwrap();
        for _ in 0..2 {
            ask(&model, request_with_tools("Hi")).await;
            let body = last(&server).body;
            assert!(body["diagnostics"].is_null() && body["prompt_cache_options"].is_null(), "{body:#}");
        }
    }
    let model = connect(&config_of(&server, Wire::Anthropic, Some(true))).unwrap();
    server.reply(Reply::refusal(400, "diagnostics: Extra inputs are not permitted"));
    let first = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((first.retries.len(), first.end), (1, Some(Finish::Stop)));
    let second = ask(&model, request_with_tools("Hi")).await;
    assert!(second.retries.is_empty() && last(&server).body["diagnostics"].is_null());
}

#[tokio::test]
async fn responses_cache_diagnostics_are_requested_if_enabled() {
    let server = ModelServer::start().await;
    let model = connect(&config_of(&server, Wire::Responses, Some(true))).unwrap();
    let request = request_with_tools("Hi");
    server.reply(with_head(json!({"id": "resp_1", "prompt_cache_diagnostics": {"type": "cache_hit"}})));
    assert_eq!(ask(&model, request.clone()).await.remarks, []);
    assert!(last(&server).body["prompt_cache_options"].is_null(), "no earlier response to compare with");
    let miss = json!({"type": "cache_miss", "reason": "context_compacted", "cache_missed_tokens": 900});
    server.reply(with_head(json!({"prompt_cache_diagnostics": miss})));
    assert_eq!(ask(&model, request).await.remarks, [("context_compacted".to_owned(), 900)]);
    assert_eq!(last(&server).body["prompt_cache_options"], json!({"comparison_response_id": "resp_1"}));
}

#[tokio::test]
async fn malformed_diagnostics_are_ignored() {
    let server = ModelServer::start().await;
    for odd in [
        json!({"diagnostics": "no", "input_transformations": 7, "prompt_cache_diagnostics": [1]}),
        json!({"diagnostics": {"cache_miss_reason": null}, "prompt_cache_diagnostics": null}),
        json!({"diagnostics": {"cache_miss_reason": {"type": "unavailable"}}, "input_transformations": [{}]}),
        json!({
            "diagnostics": {"cache_miss_reason": {"type": "\u{1b}[31m words of the server"}},
            "prompt_cache_diagnostics": {"type": "cache_miss", "reason": "a\nb"},
        }),
    ] {
        for wire in [Wire::Anthropic, Wire::Responses] {
            server.reply(with_head(odd.clone()));
            let outcome = ask_config(&config_of(&server, wire, Some(true))).await;
            assert_eq!((outcome.text.as_str(), outcome.remarks), ("Hello.", vec![]), "{odd}");
            assert!(outcome.usage.is_some_and(|usage| usage.prompt_tokens > 0), "{odd}");
        }
    }
    let many_remarks: Vec<Value> =
        (0..100).map(|at| json!({"type": "thinking_dropped", "reason": format!("r{at}")})).collect();
    server.reply(with_head(json!({ "input_transformations": many_remarks })));
    assert_eq!(ask_config(&config_of(&server, Wire::Anthropic, None)).await.remarks.len(), 8);
}

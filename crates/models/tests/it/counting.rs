//! Tests that usage reported by servers is counted for each attempt, with any outcome, and at the right price.

use agentd_core::usage::Prices;
use agentd_testkit::model_server::UsagePlace;

use super::*;

/// Returns a configuration with prices in whole dollars per million tokens, so that each token costs whole millionths.
fn priced(server: &ModelServer, wire: Wire) -> ModelConfig {
    let prices = json!({"input": 10.0, "cached_input": 1.0, "cache_write": 12.0, "output": 50.0});
    let prices: Prices = serde_json::from_value(prices).unwrap();
    ModelConfig { wire, prices: Some(prices), context_window: Some(200_000), ..config(server) }
}

/// Returns the start of a Messages answer with these events, without an end.
fn messages(usage: Value, events: &[Value]) -> Reply {
    let start = json!({"type": "message_start", "message": {"usage": usage}});
    Reply::events(std::iter::once(&start).chain(events).map(ToString::to_string))
}

fn delta() -> Value {
    json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half"}})
}

fn block() -> Value {
    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
}

#[tokio::test]
async fn usage_of_a_broken_answer_is_counted() {
    let start = json!({"input_tokens": 1000, "cache_read_input_tokens": 200, "output_tokens": 1});
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let chat = json!({"prompt_tokens": 1200, "prompt_tokens_details": {"cached_tokens": 200}, "completion_tokens": 1});
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Half"}}], "usage": chat});
    let failed = json!({"choices": [], "usage": chat, "error": {"message": "busy", "code": 503}});
    let input = json!({"input_tokens": 1200, "input_tokens_details": {"cached_tokens": 200}, "output_tokens": 1});
    let response = json!({"status": "failed", "output": [], "usage": input, "error": {"code": "server_error"}});
    let response = json!({"type": "response.failed", "sequence_number": 0, "response": response});
    let cases = [
        (Wire::Anthropic, messages(start.clone(), &[block(), delta(), overloaded])),
        (Wire::Anthropic, messages(start.clone(), &[block(), delta()])),
        (Wire::Anthropic, messages(start.clone(), &[])),
        (Wire::OpenAi, Reply::events([chunk.to_string()])),
        (Wire::OpenAi, Reply::events([failed.to_string()])),
        (Wire::Responses, Reply::events([response.to_string()])),
    ];
    for (wire, broken) in cases {
        let server = ModelServer::start().await;
        let whole =
            json!({"prompt_tokens": 1300, "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens": 2});
        server.reply(broken.clone()).reply(broken.clone());
        server.reply(Reply::text("Whole.").with_usage(UsagePlace::Tail, whole));
        let outcome = ask_config(&priced(&server, wire)).await;
        assert_eq!(outcome.text, "Whole.", "{outcome:?}");
        let paid = outcome.paid();
        assert_eq!((paid.prompt_tokens, paid.cached_tokens, paid.completion_tokens), (3700, 400, 4), "{broken:?}");
        let cost = 2 * (10_000 + 200 + 50) + 13_000 + 100;
        assert_eq!((paid.calls, paid.unpriced_calls, paid.cost_microusd), (3, 0, Some(cost)), "{broken:?}");
    }
}

#[tokio::test]
async fn usage_arrives_before_the_first_text() {
    let server = ModelServer::start().await;
    server.reply(messages(json!({"input_tokens": 1000, "output_tokens": 1}), &[]).hang_after(10_000));
    let mut config = priced(&server, Wire::Anthropic);
    config.idle_timeout_ms = 60_000;
    let model = connect(&config).unwrap();
    let mut stream = model.stream(request("Hello"));
    let first = tokio::time::timeout(std::time::Duration::from_secs(5), stream.next()).await;
    assert!(matches!(first, Ok(Some(Ok(ModelChunk::Usage(usage)))) if usage.prompt_tokens == 1000), "{first:?}");
}

#[tokio::test]
async fn each_pause_of_an_answer_is_counted() {
    let server = ModelServer::start().await;
    let usage = json!({"input_tokens": 1000, "output_tokens": 1});
    let pause = json!({"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 3}});
    let stop = json!({"type": "message_stop"});
    let search = json!({"type": "server_tool_use", "id": "srv_1", "name": "search", "input": {"q": "x"}});
    let search = json!({"type": "content_block_start", "index": 0, "content_block": search});
    server.default_reply(messages(usage, &[search, pause, stop]));
    let outcome = ask_config(&priced(&server, Wire::Anthropic)).await;
    assert!(outcome.message().contains("too many times"), "{outcome:?}");
    let (requests, paid) = (server.requests().len() as u64, outcome.paid());
    assert_eq!((requests, paid.prompt_tokens, paid.completion_tokens), (17, 17_000, 51));
    assert_eq!(paid.cost_microusd, Some(requests * (10_000 + 150)));
}

#[tokio::test]
async fn one_hour_cache_writes_have_their_own_price() {
    let writes = json!({"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 300});
    let total_only = json!({"input_tokens": 10, "cache_creation_input_tokens": 400, "cache_creation": writes});
    let without = json!({"input_tokens": 10, "cache_creation": writes});
    for usage in [total_only, without] {
        let server = ModelServer::start().await;
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}});
        server.reply(messages(usage, &[block(), delta(), end, json!({"type": "message_stop"})]));
        let usage = ask_config(&priced(&server, Wire::Anthropic)).await.usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.cache_write_tokens), (410, 400));
        assert_eq!(usage.cost_microusd, Some(100 + 100 * 12 + 300 * 20 + 150));
    }
}

#[tokio::test]
async fn cache_writes_are_priced_on_chat_completions() {
    for written in [
        json!({"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 300}}),
        json!({"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 200, "cache_creation_tokens": 300}}),
        json!({"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 200}, "cache_creation_input_tokens": 300}),
        json!({"prompt_tokens": 500, "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 800}}),
    ] {
        let server = ModelServer::start().await;
        server.reply(Reply::text("Hi").with_usage(UsagePlace::Tail, written.clone()));
        let usage = ask_config(&priced(&server, Wire::OpenAi)).await.usage.unwrap();
        let uncached_tokens = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens;
        assert_eq!((uncached_tokens, usage.cached_tokens), (500, 200), "{written}");
        assert_eq!(usage.cost_microusd, Some(5000 + 200 + 12 * usage.cache_write_tokens), "{written}");
    }
}

/// xAI's API counts reasoning separately from the answer, OpenAI's as part of it.
#[tokio::test]
async fn separately_counted_reasoning_tokens_are_priced() {
    for (count, answer) in [
        (json!({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 94}}), 103),
        (
            json!({"completion_tokens": 90, "completion_tokens_details": {"reasoning_tokens": 40}, "total_tokens": 1130}),
            130,
        ),
        (
            json!({"completion_tokens": 90, "completion_tokens_details": {"reasoning_tokens": 40}, "total_tokens": 1090}),
            90,
        ),
        (json!({"completion_tokens": 90, "reasoning_tokens": 90}), 90),
    ] {
        let mut usage = count.clone();
        usage["prompt_tokens"] = json!(1000);
        let server = ModelServer::start().await;
        server.reply(Reply::text("Hi").with_usage(UsagePlace::Tail, usage));
        let counted = ask_config(&priced(&server, Wire::OpenAi)).await.usage.unwrap();
        assert_eq!(counted.completion_tokens, answer, "{count}");
    }
}

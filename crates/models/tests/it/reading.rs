//! Successful answers in all formats of servers.

use agentd_testkit::model_server::{UsagePlace, fast_text};
use proptest::prelude::*;

use super::*;

async fn read(reply: Reply) -> Outcome {
    ask_over(Wire::OpenAi, reply).await
}

fn used(prompt_tokens: u64, cached_tokens: u64, completion_tokens: u64, reasoning_tokens: u64) -> Option<Usage> {
    Some(Usage { prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, ..Usage::default() })
}

#[tokio::test]
async fn text_and_reasoning_are_read_from_all_fields() {
    for field in ["reasoning_content", "reasoning", "thinking"] {
        let mut reply = Reply::text("Hello, wörld \u{1F600}.").and_reasoning("Let me\nthink.");
        reply.reasoning_field = field.to_owned();
        let outcome = read(reply).await;
        assert_eq!((outcome.text.as_str(), outcome.reasoning.as_str()), ("Hello, wörld \u{1F600}.", "Let me\nthink."));
        assert_eq!(outcome.end, Some(Finish::Stop));
    }
}

#[tokio::test]
async fn calls_arrive_whole_after_the_text() {
    let raw = "{ \"path\" : \"a\\u00e4\" }";
    for reply in [
        Reply::text("I look.").and_call("read_file", json!(raw)).and_call("now", json!({})),
        Reply {
            argument_bytes: Some(3),
            ..Reply::text("I look.").and_call("read_file", json!(raw)).and_call("now", json!({}))
        },
        Reply::text("I look.").and_call("read_file", json!(raw)).and_call("now", json!({})).without_call_indices(),
        Reply::text("I look.").and_call("read_file", json!(raw)).and_call("now", json!({})).whole(),
    ] {
        let outcome = read(reply).await;
        assert_eq!(outcome.text, "I look.");
        assert_eq!(outcome.calls, [("read_file".into(), raw.into()), ("now".into(), "{}".into())]);
        assert_eq!(outcome.end, Some(Finish::Stop));
    }
}

#[tokio::test]
async fn truncated_call_does_not_run() {
    let outcome = read(Reply::tool_call("now", json!({})).and_call("read_file", json!("{\"pa")).finish("length")).await;
    assert_eq!((outcome.calls.len(), outcome.end), (1, Some(Finish::Length)));
    let outcome = read(Reply::tool_call("now", json!({})).finish("content_filter")).await;
    assert_eq!((outcome.calls.len(), outcome.end), (0, Some(Finish::Filtered)));
}

#[tokio::test]
async fn usage_is_read_from_any_place() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 2}});
    for place in [UsagePlace::Tail, UsagePlace::LastChunk, UsagePlace::InChoice] {
        let outcome = read(Reply::text("Hi").with_usage(place, usage.clone())).await;
        assert_eq!(outcome.usage, used(9, 5, 4, 2), "{place:?}");
    }
    let deepseek = json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 3});
    assert_eq!(read(Reply::text("Hi").with_usage(UsagePlace::Tail, deepseek)).await.usage, used(9, 3, 4, 0));
    let unusual_usage =
        json!({"prompt_tokens": 9.0, "completion_tokens": "4", "prompt_tokens_details": null, "more": {}});
    assert_eq!(
        read(Reply::text("Hi").with_usage(UsagePlace::Tail, unusual_usage).whole()).await.usage,
        used(9, 0, 4, 0)
    );
    let mut reply = Reply::text("Hi").with_usage(UsagePlace::Nowhere, json!(null));
    assert_eq!(read(reply.clone()).await.usage, None);
    reply.timings = Some(json!({"cache_n": 6, "prompt_n": 3, "predicted_n": 4, "prompt_ms": 1.5}));
    assert_eq!(read(reply).await.usage, used(9, 6, 4, 0));
}

#[tokio::test]
async fn answer_end_needs_done_or_a_finish_reason() {
    let outcome = read(Reply::text("Hi").without_done()).await;
    assert_eq!((outcome.end, outcome.text.as_str()), (Some(Finish::Stop), "Hi"));
    let outcome = read(Reply::text("Hi").finish("")).await;
    assert_eq!((outcome.end, outcome.text.as_str()), (Some(Finish::Stop), "Hi"));
    let server = ModelServer::start().await;
    let outcome =
        ask_config(&ModelConfig { retries: 0, ..config(server.reply(Reply::text("Hi").finish("").without_done())) })
            .await;
    assert_eq!((outcome.kind(), outcome.text.as_str()), (Some(ErrorKind::CutStream), "Hi"));
}

#[tokio::test]
async fn ended_answer_does_not_wait_for_connection_close() {
    let server = ModelServer::start().await;
    let head = r#"data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#;
    let reply = Reply::status(200, format!("{head}\n\n")).header("content-type", "text/event-stream");
    server.reply(reply.hang_after(10_000));
    let outcome = ask_config(&ModelConfig { idle_timeout_ms: 20, ..config(&server) }).await;
    assert_eq!((outcome.end, outcome.text.as_str()), (Some(Finish::Stop), "Hi"));
}

#[tokio::test]
async fn content_parts_and_unknown_fields_are_accepted() {
    let outcome = read(Reply::events([
        r#"{"choices":null,"id":7,"nonsense":{"a":[1,{"b":2}]}}"#,
        r#"{"choices":[{"index":0,"delta":null,"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"Hel"},{"type":"image"},"lo"]}}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"another answer"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":null,"tool_calls":null},"finish_reason":""}]}"#,
        r#"{"choices":[{"index":0,"delta":{"refusal":" No."},"finish_reason":"stop"}]}"#,
        "[DONE]",
        "nothing is read here",
    ]))
    .await;
    assert_eq!((outcome.text.as_str(), outcome.end), ("Hello No.", Some(Finish::Stop)));
}

#[tokio::test]
async fn deltas_received_together_are_merged() {
    let server = ModelServer::start().await;
    server.reply(Reply::fast(20_000));
    let model = connect(&config(&server)).unwrap();
    let chunks: Vec<_> = model.stream(request("Hi")).map(Result::unwrap).collect().await;
    let text: String =
        chunks.iter().map(|chunk| if let ModelChunk::Text(text) = chunk { text.as_str() } else { "" }).collect();
    assert!(text == fast_text(20_000));
    assert!(chunks.len() < 5_000, "{} chunks", chunks.len());
}

#[tokio::test]
async fn dropping_the_stream_closes_the_request() {
    let server = ModelServer::start().await;
    server.reply(Reply::text("Hello there").hang_after(400)).reply(Reply::never());
    let model = connect(&config(&server)).unwrap();
    let mut stream = model.stream(request("Hi"));
    assert!(matches!(stream.next().await, Some(Ok(ModelChunk::Text(_)))));
    drop(stream);
    server.wait_until(|counts| counts.dropped == 1).await;
    let stream = model.stream(request("Hi"));
    let waiting = tokio::spawn(stream.collect::<Vec<_>>());
    server.wait_until(|counts| counts.requests == 2).await;
    waiting.abort();
    server.wait_until(|counts| counts.dropped == 2).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn answer_is_independent_of_transfer_chunking(
        text in "[a-zäß\u{1F600}\u{4e2d}\\\\\"\n ]{0,40}", reasoning in "[a-zé ]{0,10}",
        arguments in "[a-zö{}\"]{0,20}", size in 1_usize..700,
    ) {
        let reply = Reply::text(text).and_reasoning(reasoning).and_call("read_file", json!({"path": arguments}));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let whole = read(reply.clone().bytes_per_write(1 << 20)).await;
            let cut = read(reply.bytes_per_write(size)).await;
            assert_eq!(whole, cut);
            assert_eq!(cut.calls.len(), 1);
        });
    }
}

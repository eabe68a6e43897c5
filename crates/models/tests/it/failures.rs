//! Answers that are invalid, late or missing.

use super::*;

/// Sends one request without retries.
async fn fail(reply: Reply) -> Outcome {
    let server = ModelServer::start().await;
    server.default_reply(reply);
    let outcome = ask_config(&ModelConfig { retries: 0, ..config(&server) }).await;
    assert!(outcome.error.is_some() && outcome.calls.is_empty(), "{outcome:?}");
    outcome
}

#[test]
fn servers_on_this_machine_have_longer_for_the_first_byte() {
    let check = |base_url: &str, seconds: u64| {
        assert_eq!(ModelConfig::new(Wire::OpenAi, base_url).first_byte_timeout_ms, seconds * 1000, "{base_url}");
    };
    check("http://127.0.0.1:8080/v1", 600);
    check("http://[::1]:8080/v1", 600);
    check("http://ollama.localhost/v1", 600);
    check("https://api.example.org/v1", 120);
    check("http://192.168.0.7:8080/v1", 120);
    check("nonsense", 120);
}

#[tokio::test]
async fn invalid_bodies_are_protocol_errors() {
    let json = |body: &str| Reply::status(200, body);
    for (reply, kind) in [
        (Reply::garbage(), ErrorKind::Protocol),
        (json("OK"), ErrorKind::Protocol),
        (json("{\"hello\": \"world\"}"), ErrorKind::Protocol),
        (json("{\"choices\": ["), ErrorKind::Protocol),
        (json(""), ErrorKind::CutStream),
        (Reply::half_event(), ErrorKind::CutStream),
        (Reply::events(["{\"choices\": 7}"]), ErrorKind::Protocol),
        (Reply::events(["not json"]), ErrorKind::Protocol),
        (json("{\"error\": {\"message\": \"out of memory\"}}"), ErrorKind::Provider),
        (Reply::events([r#"{"error":{"message":"slow down","code":429}}"#]), ErrorKind::RateLimited),
        (Reply::events([r#"{"object":"error","message":"bad","code":400}"#]), ErrorKind::Rejected),
        (Reply::events([r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#]), ErrorKind::Provider),
    ] {
        let outcome = fail(reply.clone()).await;
        assert_eq!(outcome.kind(), Some(kind), "{reply:?}");
    }
}

#[tokio::test]
async fn cut_answer_is_an_error_and_its_calls_never_run() {
    let reply = Reply::text("Hello there").and_call("now", json!({"path": "a"}));
    let length = 2_000;
    for cut in (0..length).step_by(97) {
        let outcome = {
            let server = ModelServer::start().await;
            server.reply(reply.clone().finish("").without_done().cut_after(cut));
            let config = ModelConfig { retries: 0, ..config(&server) };
            ask_config(&config).await
        };
        assert_eq!(outcome.kind(), Some(ErrorKind::CutStream), "cut after {cut}: {outcome:?}");
        assert_eq!(outcome.calls, []);
        assert!("Hello there".starts_with(&outcome.text));
    }
}

#[tokio::test]
async fn each_deadline_applies_separately() {
    let server = ModelServer::start().await;
    let mut config = config(&server);
    config.retries = 0;
    config.first_byte_timeout_ms = 30;
    server.reply(Reply::never());
    let outcome = ask_config(&config).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::Timeout));
    assert!(outcome.message().contains("did not begin to answer within 30ms"), "{outcome:?}");
    // The head alone does not count as a start.
    server.reply(Reply::text("Hi").hang_after(0));
    let outcome = ask_config(&config).await;
    assert!(outcome.message().contains("did not begin to answer within 30ms"), "{outcome:?}");

    config.first_byte_timeout_ms = 60_000;
    config.idle_timeout_ms = 30;
    server.reply(Reply::text("Hello").hang_after(400));
    let outcome = ask_config(&config).await;
    assert_eq!((outcome.kind(), outcome.text.as_str()), (Some(ErrorKind::Timeout), "Hello"));
    assert!(outcome.message().contains("stalled in the middle of its answer for 30ms"), "{outcome:?}");
}

#[tokio::test]
async fn too_many_calls_are_rejected() {
    let mut reply = Reply::default();
    for _ in 0..10_000 {
        reply = reply.and_call("now", json!({}));
    }
    let numbered = reply.clone().without_call_indices();
    for (wire, reply) in [
        (Wire::OpenAi, numbered),
        (Wire::OpenAi, reply.clone()),
        (Wire::Anthropic, reply.clone()),
        (Wire::Responses, reply),
    ] {
        let server = ModelServer::start().await;
        server.reply(reply);
        let outcome = ask_config(&ModelConfig { wire, retries: 0, ..config(&server) }).await;
        assert_eq!(outcome.kind(), Some(ErrorKind::Protocol));
        assert!(outcome.message().contains("more than 128 tool calls"), "{outcome:?}");
    }
}

#[tokio::test]
async fn oversized_arguments_and_events_are_rejected() {
    let long_text: String = (0..300_000).map(|n| n.to_string()).collect();
    let outcome = fail(Reply::tool_call("now", json!({"path": long_text}))).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::Protocol));
    assert!(outcome.message().contains("1 MiB"), "{outcome:?}");
    let outcome = fail(Reply::deltas([long_text.repeat(3)])).await;
    assert!(outcome.message().contains("4 MiB"), "{outcome:?}");
}

/// Events of a gateway that keeps a connection alive with empty parts of an answer.
const EMPTY: [(Wire, &str); 8] = [
    (Wire::OpenAi, ": still here"),
    (Wire::Anthropic, r#"{"type":"ping"}"#),
    (Wire::OpenAi, r#"{"choices":[{"index":0,"delta":{"content":""}}]}"#),
    (Wire::OpenAi, r#"{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"","tool_calls":[]}}]}"#),
    (Wire::OpenAi, r#"{"choices":[]}"#),
    (Wire::LlamaCpp, r#"{"content":"","stop":false}"#),
    (Wire::Anthropic, r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}"#),
    (Wire::Responses, r#"{"type":"response.output_text.delta","output_index":0,"delta":""}"#),
];

#[tokio::test]
async fn empty_answer_chunks_count_as_keep_alives() {
    let check = async |(wire, event): (Wire, &str)| {
        let server = ModelServer::start().await;
        let mut config = ModelConfig { wire, retries: 0, ..config(&server) };
        (config.first_byte_timeout_ms, config.idle_timeout_ms) = (300, 300);
        let comment = if event.starts_with(':') { "" } else { "data: " };
        let event = format!("{comment}{event}\n\n");
        // The server continues to send long after the time limit.
        let reply = Reply::status(200, event.repeat(1_000)).header("content-type", "text/event-stream");
        server.reply(reply.bytes_per_write(event.len()).delay_ms(10));
        let outcome = ask_config(&config).await;
        assert_eq!(outcome.kind(), Some(ErrorKind::Timeout), "{event}");
        assert!(outcome.message().contains("for 1.5s, only keep-alives"), "{event}: {outcome:?}");
    };
    futures_util::future::join_all(EMPTY.map(check)).await;
}

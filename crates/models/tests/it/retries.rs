//! When calls are retried: before the answer, after it has started, and while a server loads its model.

use super::*;

#[tokio::test]
async fn request_is_retried_until_success_with_notices() {
    let server = ModelServer::start().await;
    server
        .reply(Reply::rate_limited(0.0))
        .reply(Reply::refusal(503, "loading"))
        .reply(Reply::status(200, ""))
        .reply(Reply::text("At last."));
    let outcome = ask_server(&server).await;
    assert_eq!(outcome.text, "At last.");
    let attempts: Vec<u32> = outcome.retries.iter().map(|retry| retry.0).collect();
    assert_eq!(attempts, [2, 3, 4]);
    assert!(outcome.retries[0].2.contains("rate limited") && outcome.retries[1].2.contains("loading"));
}

#[tokio::test]
async fn retry_after_of_the_server_is_respected() {
    let server = ModelServer::start().await;
    server.reply(Reply::rate_limited(0.05)).reply(Reply::text("Hi")).reply(Reply::rate_limited(120.0));
    let outcome = ask_server(&server).await;
    assert!((50..60).contains(&outcome.retries[0].1), "{:?}", outcome.retries);
    let outcome = ask_server(&server).await;
    assert_eq!((outcome.kind(), outcome.retries.len()), (Some(ErrorKind::RateLimited), 0));
    assert!(outcome.hint.unwrap().contains("120 seconds"));
}

#[tokio::test]
async fn partial_answer_is_discarded_before_a_retry() {
    for first in [Reply::text("Hello"), Reply::default().and_reasoning("Hm"), Reply::tool_call("now", json!({}))] {
        let server = ModelServer::start().await;
        server.reply(first.finish("").without_done()).reply(Reply::text("Whole."));
        let outcome = ask_server(&server).await;
        assert_eq!((outcome.discarded, outcome.retries.len(), outcome.calls.len()), (1, 1, 0));
        assert_eq!((outcome.text.as_str(), outcome.reasoning.as_str()), ("Whole.", ""));
    }
}

fn broken_reply() -> Reply {
    Reply::deltas(["Half ", "an answer."]).and_call("now", json!({})).finish("").without_done()
}

#[tokio::test]
async fn broken_answers_fail_after_five_attempts() {
    let server = ModelServer::start().await;
    server.default_reply(broken_reply());
    let outcome = ask_server(&server).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::CutStream));
    assert_eq!((outcome.discarded, server.requests().len(), outcome.calls.len()), (5, 6, 0));
    assert_eq!(outcome.text, "Half an answer.", "the text of the last attempt is kept");
}

#[tokio::test]
async fn unrecoverable_answer_is_not_retried() {
    let outcome =
        ask_over(Wire::OpenAi, Reply::text("Half").finish("").and_call("now", json!({"path": "x".repeat(2 << 20)})))
            .await;
    assert_eq!((outcome.kind(), outcome.discarded), (Some(ErrorKind::Protocol), 0));
}

#[tokio::test]
async fn tokens_per_minute_limit_is_retried_not_an_overflow() {
    const LARGE: &str = "Request too large for model `llama` in organization `org_1` service tier `on_demand` on tokens per \
        minute (TPM): Limit 6000, Requested 7311, please reduce your message size and try again.";
    const USED: &str = "Rate limit reached on tokens per minute (TPM): Limit 6000, Used 5000, Requested 2000. Please try \
        again in 25ms.";
    let server = ModelServer::start().await;
    let model = connect(&config(&server)).unwrap();
    for (status, message) in [(413, USED), (429, USED), (400, USED), (413, LARGE)] {
        server.reply(Reply::refusal(status, message));
        let outcome = ask(&model, request("Hi")).await;
        assert_eq!((outcome.error, outcome.retries.len()), (None, 1), "{status} {message}");
        let (_, delay_ms, reason) = &outcome.retries[0];
        assert!(reason.contains("is rate limited: ") && reason.contains("tokens per minute"), "{reason}");
        assert!(message == LARGE || (25..50).contains(delay_ms), "{delay_ms}");
    }
    server.reply(Reply::refusal(413, LARGE).header("retry-after", "0.04"));
    assert!(ask(&model, request("Hi")).await.retries[0].1 >= 40);
    // If the error persists, it is reported.
    server.reply(Reply::refusal(413, LARGE)).reply(Reply::refusal(413, LARGE));
    let outcome = ask(&model, request("Hi")).await;
    assert_eq!((outcome.kind(), outcome.retries.len()), (Some(ErrorKind::RateLimited), 1));
    assert!(outcome.hint.unwrap().contains("exceeds the provider's token limit per minute"));
}

#[tokio::test]
async fn loading_server_is_waited_for() {
    let server = ModelServer::start().await;
    for _ in 0..10 {
        server.reply(Reply::status(
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        ));
    }
    let model = connect(&ModelConfig { retries: 0, ..config(&server) }).unwrap();
    let outcome = ask(&model, request("Hi")).await;
    assert_eq!((outcome.error, outcome.retries.len()), (None, 1), "the wait is announced once");
    assert!(outcome.retries[0].2.contains("Loading model") && outcome.retries[0].2.contains("5 minutes"));
    assert_eq!(server.counts().requests, 11);
}

#[tokio::test]
async fn unparsable_call_is_retried_twice() {
    const INVALID_CALL: &str = r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error",
        "code":"tool_use_failed","failed_generation":"<function=now{}"}}"#;
    let server = ModelServer::start().await;
    let model = connect(&ModelConfig { retries: 0, ..config(&server) }).unwrap();
    server.reply(Reply::status(400, INVALID_CALL)).reply(Reply::status(400, INVALID_CALL)).reply(Reply::text("Fine."));
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Fine.", 2));
    for _ in 0..3 {
        server.reply(Reply::status(400, INVALID_CALL));
    }
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.kind(), outcome.retries.len()), (Some(ErrorKind::Rejected), 2));
    assert!(outcome.hint.unwrap().contains("could not parse"));
}

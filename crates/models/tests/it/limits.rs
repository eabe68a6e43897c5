//! Servers that need time: limits of a minute, models that are loaded, calls that were spoilt.

use agentd_testkit::model_server::Reply;

use super::*;

#[tokio::test]
async fn a_limit_of_tokens_in_a_minute_is_waited_for_and_is_no_full_window() {
    const LARGE: &str = "Request too large for model `llama` in organization `org_1` service tier `on_demand` on tokens per \
        minute (TPM): Limit 6000, Requested 7311, please reduce your message size and try again.";
    const USED: &str = "Rate limit reached on tokens per minute (TPM): Limit 6000, Used 5000, Requested 2000. Please try \
        again in 25ms.";
    let server = ModelServer::start().await;
    let model = connect(&config(&server)).unwrap();
    for (status, words) in [(413, USED), (429, USED), (400, USED), (413, LARGE)] {
        server.reply(Reply::refusal(status, words));
        let outcome = ask(&model, request("Hi")).await;
        assert_eq!((outcome.error, outcome.retries.len()), (None, 1), "{status} {words}");
        let (_, delay_ms, reason) = &outcome.retries[0];
        assert!(reason.contains("is rate limited: ") && reason.contains("tokens per minute"), "{reason}");
        assert!(words == LARGE || (25..50).contains(delay_ms), "{delay_ms}");
    }
    server.reply(Reply::refusal(413, LARGE).header("retry-after", "0.04"));
    assert!(ask(&model, request("Hi")).await.retries[0].1 >= 40);
    // Where it stays so, that is what is told.
    server.reply(Reply::refusal(413, LARGE)).reply(Reply::refusal(413, LARGE));
    let outcome = ask(&model, request("Hi")).await;
    assert_eq!((outcome.kind(), outcome.retries.len()), (Some(ErrorKind::RateLimited), 1));
    assert!(outcome.hint.unwrap().contains("more tokens than the provider takes in a minute"));
}

#[tokio::test]
async fn a_server_that_loads_its_model_is_waited_for() {
    let server = ModelServer::start().await;
    for _ in 0..10 {
        server.reply(Reply::status(
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        ));
    }
    let model = connect(&ModelConfig { retries: 0, ..config(&server) }).unwrap();
    let outcome = ask(&model, request("Hi")).await;
    assert_eq!((outcome.error, outcome.retries.len()), (None, 1), "it is told once");
    assert!(outcome.retries[0].2.contains("Loading model") && outcome.retries[0].2.contains("5 minutes"));
    assert_eq!(server.counts().requests, 11);
}

#[tokio::test]
async fn a_call_that_the_server_could_not_read_is_asked_for_twice_more() {
    const SPOILT: &str = r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error",
        "code":"tool_use_failed","failed_generation":"<function=now{}"}}"#;
    let server = ModelServer::start().await;
    let model = connect(&ModelConfig { retries: 0, ..config(&server) }).unwrap();
    server.reply(Reply::status(400, SPOILT)).reply(Reply::status(400, SPOILT)).reply(Reply::text("Fine."));
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Fine.", 2));
    for _ in 0..3 {
        server.reply(Reply::status(400, SPOILT));
    }
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.kind(), outcome.retries.len()), (Some(ErrorKind::Rejected), 2));
    assert!(outcome.hint.unwrap().contains("could not read"));
}

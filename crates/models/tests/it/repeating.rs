//! When a call is tried again, and when not.

use agentd_testkit::model_server::{ModelServer, Reply};

use super::*;

#[tokio::test]
async fn a_call_is_tried_again_until_it_succeeds_and_says_so() {
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
async fn it_is_given_up_after_the_configured_tries() {
    let server = ModelServer::start().await;
    server.default_reply(Reply::refusal(500, "oh dear"));
    let mut config = config(&server);
    config.retries = 2;
    let outcome = ask_config(&config).await;
    // And once more with the tools in the text.
    assert_eq!((outcome.kind(), outcome.retries.len(), server.requests().len()), (Some(ErrorKind::Provider), 3, 4));
}

#[tokio::test]
async fn the_servers_wish_to_wait_is_kept() {
    let server = ModelServer::start().await;
    server.reply(Reply::rate_limited(0.05)).reply(Reply::text("Hi")).reply(Reply::rate_limited(120.0));
    let outcome = ask_server(&server).await;
    assert!((50..60).contains(&outcome.retries[0].1), "{:?}", outcome.retries);
    let outcome = ask_server(&server).await;
    assert_eq!((outcome.kind(), outcome.retries.len()), (Some(ErrorKind::RateLimited), 0));
    assert!(outcome.hint.unwrap().contains("120 seconds"));
}

#[tokio::test]
async fn whatever_an_answer_began_with_is_taken_back() {
    for first in [Reply::text("Hello"), Reply::default().and_reasoning("Hm"), Reply::tool_call("now", json!({}))] {
        let server = ModelServer::start().await;
        server.reply(first.finish("").without_done()).reply(Reply::text("Whole."));
        let outcome = ask_server(&server).await;
        assert_eq!((outcome.discarded, outcome.retries.len(), outcome.calls.len()), (1, 1, 0));
        assert_eq!((outcome.text.as_str(), outcome.reasoning.as_str()), ("Whole.", ""));
    }
}

#[tokio::test]
async fn what_cannot_help_is_not_tried_again() {
    for reply in [Reply::refusal(401, "no"), Reply::refusal(403, "no"), Reply::html(), Reply::garbage()] {
        let server = ModelServer::start().await;
        server.reply(reply);
        let outcome = ask_server(&server).await;
        assert!(outcome.error.is_some());
        assert_eq!(server.requests().len(), 1);
    }
}

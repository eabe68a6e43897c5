//! Answers that break off after they have begun.

use agentd_testkit::model_server::{ModelServer, Reply};

use super::*;

fn broken() -> Reply {
    Reply::deltas(["Half ", "an answer."]).and_call("now", json!({})).finish("").without_done()
}

#[tokio::test]
async fn a_broken_answer_is_taken_back_and_asked_for_again() {
    let server = ModelServer::start().await;
    server.reply(broken()).reply(broken()).reply(Reply::text("A whole one."));
    let outcome = ask_server(&server).await;
    assert_eq!((outcome.text.as_str(), outcome.end), ("A whole one.", Some(Finish::Stop)));
    assert_eq!((outcome.discarded, outcome.calls.len()), (2, 0));
    assert_eq!(outcome.retries.iter().map(|(attempt, ..)| *attempt).collect::<Vec<_>>(), [2, 3]);
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.body == requests[0].body), "the same is asked");
}

#[tokio::test]
async fn it_is_given_up_after_five_attempts() {
    let server = ModelServer::start().await;
    server.default_reply(broken());
    let outcome = ask_server(&server).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::CutStream));
    assert_eq!((outcome.discarded, server.requests().len(), outcome.calls.len()), (5, 6, 0));
    assert_eq!(outcome.text, "Half an answer.", "what there was last is kept");
}

#[tokio::test]
async fn a_server_that_is_gone_for_a_while_is_waited_for() {
    let server = ModelServer::start().await;
    server.reply(broken()).reply(Reply::status(503, "restarting")).reply(Reply::text("Back."));
    let outcome = ask_server(&server).await;
    assert_eq!((outcome.text.as_str(), outcome.discarded, outcome.retries.len()), ("Back.", 1, 2));
}

#[tokio::test]
async fn what_cannot_help_is_not_tried() {
    let server = ModelServer::start().await;
    server.reply(Reply::text("Half").finish("").and_call("now", json!({"path": "x".repeat(2 << 20)})));
    let outcome = ask_server(&server).await;
    assert_eq!((outcome.kind(), outcome.discarded), (Some(ErrorKind::Protocol), 0));
}

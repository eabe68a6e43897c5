//! Answers in a required form: announced, checked, retried once, and preserved across steers, restarts and
//! continuations.

use agentd_core::{
    answer_schema::AnswerSchema,
    error::ErrorKind,
    model::{Message, ModelRequest},
    turn::{IfBusy, StartTurn, StopReason},
};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;

use crate::world::{World, continuation, input, run, to_end, turn, with_time_limit};

const SCHEMA: &str = r#"{"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"], "additionalProperties": false}"#;

fn in_form(start: StartTurn) -> StartTurn {
    StartTurn { answer_schema: Some(AnswerSchema::unchecked(SCHEMA.to_owned())), ..start }
}

fn text_of(request: &ModelRequest) -> String {
    request.messages.iter().map(|message| format!("{message:?}\n")).collect()
}

#[tokio::test]
async fn matching_answer_ends_the_turn_with_its_document() {
    let world = World::new([calls(&[("look", json!({}))]), says("Here it is:\n```json\n{\"count\": 7}\n```")]);
    let session = world.session().await;
    let result = turn(&session, in_form(input("How many?"))).await;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::Completed, r#"{"count": 7}"#));
    assert_eq!((result.steps, result.error), (2, None));
    for request in world.model.requests() {
        assert!(request.answer_schema.as_ref().unwrap().text().contains(r#""count":{"type":"integer"}"#));
        assert_eq!(text_of(&request).matches("must be one JSON document that matches").count(), 1);
    }
    // The next turn has no required form, and the model is notified of this once.
    world.model.then_all([says("In words."), says("More.")]);
    assert_eq!(run(&session, "And in words?").await.text, "In words.");
    run(&session, "More?").await;
    let requests = world.model.requests();
    assert!(requests[2..].iter().all(|request| request.answer_schema.is_none()));
    assert_eq!(text_of(requests.last().unwrap()).matches("has no special form").count(), 1);
}

#[tokio::test]
async fn invalid_schema_is_rejected_before_any_request() {
    let (world, session) = World::new([]).begun().await;
    let refused = async |start: StartTurn, part: &str| {
        let error = session.start_turn(in_form(start)).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(part) && error.hint().is_some(), "{error}");
    };
    let compact = Some(agentd_core::context::CompactionStrategy::Auto);
    refused(StartTurn { compact, ..continuation() }, "compacts").await;
    assert!(world.model.requests().is_empty() && world.store.events_of(session.id()).is_empty());

    world.model.then_all([calls(&[("hold", json!({}))]), says("Held.")]);
    let mut started = session.start_turn(input("Hold!")).await.unwrap();
    with_time_limit("the call", world.tools.began(1)).await;
    refused(StartTurn { if_busy: IfBusy::Steer, ..input("And?") }, "cannot be changed").await;
    // A queued turn retains its form.
    let queued = in_form(StartTurn { if_busy: IfBusy::Queue, ..input("How many?") });
    let mut queued = session.start_turn(queued).await.unwrap();
    world.tools.release(1);
    world.model.then(says(r#"{"count": 1}"#));
    to_end(&mut started.events).await;
    assert_eq!(to_end(&mut queued.events).await.1.text, r#"{"count": 1}"#);
}

#[tokio::test]
async fn continued_turn_keeps_the_answer_schema() {
    let world = World::new([Play::Fails(Vec::new(), ErrorKind::Rejected), says("Two."), says(r#"{"count": 2}"#)]);
    let session = world.session().await;
    assert_eq!(turn(&session, in_form(input("How many?"))).await.stop_reason, StopReason::Failed);
    assert_eq!(turn(&session, continuation()).await.text, r#"{"count": 2}"#);
}

#[tokio::test]
async fn steered_turn_keeps_the_answer_schema() {
    let (world, session) = World::new([calls(&[("hold", json!({}))])]).begun().await;
    let mut started = session.start_turn(in_form(input("How many?"))).await.unwrap();
    with_time_limit("the call", world.tools.began(1)).await;
    session.start_turn(StartTurn { if_busy: IfBusy::Steer, ..input("And hurry!") }).await.unwrap();
    [says("Three!"), says(r#"{"count": 3}"#)].into_iter().for_each(|play| world.model.then(play));
    world.tools.release(1);
    assert_eq!(to_end(&mut started.events).await.1.text, r#"{"count": 3}"#);
    let last = world.model.requests().pop().unwrap();
    assert!(last.messages.iter().any(|message| matches!(message, Message::User { text } if text.contains("hurry"))));
}

//! The link `questions`: answers to a model's questions, with and without a user.

use agentd_core::{
    interrupt::Answer,
    turn::{OnInterrupt, StartTurn, StopReason},
};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::{Value, json};

use crate::{
    grants::asked,
    world::{World, answer_and_follow, input, run, turn},
};

fn asks(more: Value) -> Play {
    let mut arguments = json!({"question": "Tea or coffee?"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    calls(&[("ask_human", arguments)])
}

/// Returns the result of the question as the model reads it.
fn asked_result(world: &World) -> String {
    world.results().remove(0)
}

#[tokio::test]
async fn unattended_question_uses_its_default_or_fails_softly() {
    for (on_interrupt, more, expected) in [
        (OnInterrupt::Approve, json!({"default": "tea"}), "tea"),
        (OnInterrupt::Deny, json!({"default": "tea"}), "tea"),
        (OnInterrupt::Approve, json!({}), "E_DENIED: this run cannot ask the user"),
        (OnInterrupt::Deny, json!({}), "E_DENIED: this run cannot ask the user"),
    ] {
        let (world, session) = World::new([asks(more), says("So be it.")]).begun().await;
        let result = turn(&session, StartTurn { on_interrupt, ..input("Drink!") }).await;
        assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::Completed, "So be it."));
        assert!(asked_result(&world).starts_with(expected), "{}", asked_result(&world));
    }
}

#[tokio::test]
async fn question_ends_the_turn_if_set_to_fail() {
    let (_world, session) = World::new([asks(json!({"default": "tea"}))]).begun().await;
    let result = turn(&session, StartTurn { on_interrupt: OnInterrupt::Fail, ..input("Drink!") }).await;
    assert_eq!(result.stop_reason, StopReason::Denied);
    assert_eq!(result.denials[0].reason, "a question needs an answer: Tea or coffee?");
}

#[tokio::test]
async fn user_answer_becomes_the_tool_result() {
    let text = |text: &str| Answer::Text { text: text.to_owned() };
    for (more, given, expected) in [
        (json!({}), text("tea, please"), "tea, please"),
        (json!({"required": false, "default": "tea"}), text(" "), "tea"),
        (json!({"required": false}), text(""), "The user left the answer empty."),
        (
            json!({}),
            Answer::Reject { reason: Some("ask later".to_owned()) },
            "E_DENIED: the user declined to answer: ask later",
        ),
        (json!({"choices": ["red", " green "]}), text("green"), "green"),
        (json!({"choices": ["red", " green "]}), text("neither"), "neither"),
    ] {
        let choices: &[&str] = if more["choices"].is_array() { &["red", "green"] } else { &[] };
        let (world, session) = World::new([asks(more), says("So be it.")]).begun().await;
        let (_started, question) = asked(&session).await;
        assert_eq!(question.ask.choices(), choices);
        answer_and_follow(&session, &question, given).await;
        assert!(asked_result(&world).starts_with(expected), "{}", asked_result(&world));
    }
}

#[tokio::test]
async fn invalid_questions_are_tool_errors_and_not_asked() {
    let ten: Vec<String> = (0..10).map(|n| format!("choice {n}")).collect();
    let chooses = |choices: Value| json!({"question": "Tea or coffee?", "choices": choices});
    let of_choices = [
        (json!(["red"]), "choices has 1 entries; give 2 to 9"),
        (json!(ten), "choices has 10 entries"),
        (json!(["red", "Red "]), "choice 2 repeats an earlier one"),
        (json!(["red", " "]), "choice 2 must be one line"),
        (json!(["red\n[1] yes", "green"]), "choice 1 must be one line"),
        (json!(["red\u{1b}[2J", "green"]), "choice 1 must be one line"),
        (json!(["x".repeat(121), "green"]), "choice 1 must be one line"),
        (json!([1, 2]), "ask_human needs"),
    ];
    let of_choices = of_choices.map(|(choices, expected)| (chooses(choices), expected));
    for (arguments, expected) in of_choices.into_iter().chain([(json!({"query": "?"}), "ask_human needs")]) {
        let world = World::new([calls(&[("ask_human", arguments)]), says("Sorry.")]);
        run(&world.session().await, "Paint!").await;
        assert!(asked_result(&world).starts_with(&format!("E_INVALID_ARGS: {expected}")), "{}", asked_result(&world));
    }
}

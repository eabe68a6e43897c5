//! The history is compacted before the window is full, no message is lost, and a compaction can be undone.

use std::sync::Arc;

use agentd_core::{
    context::{Compaction, CompactionCause, CompactionStrategy},
    error::ErrorKind,
    item::ItemBody,
    model::{Message, ModelChunk, ModelRequest},
    turn::{StartTurn, StopReason, TurnResult},
    usage::Usage,
};
use agentd_engine::{EngineConfig, SessionHandle};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;
use tokio::sync::Notify;

use crate::world::{World, continuation, input, results, run, start_until_question, to_end, turn};

/// Builds a text answer with the server's token count for the request.
pub(crate) fn counted(text: &str, prompt_tokens: u64) -> Play {
    let usage = Usage { prompt_tokens, completion_tokens: 10, ..Usage::default() };
    Play::Chunks(vec![ModelChunk::Text(text.to_owned()), ModelChunk::Usage(usage)])
}

/// A usable summary by a model.
pub(crate) const SUMMARY: &str =
    "## What the person wants\nA tidy house.\n## Decisions and reasons\nThe broom, for it is there.";

pub(crate) fn texts(request: &ModelRequest) -> String {
    let text = |message: &Message| match message {
        Message::System { text }
        | Message::User { text }
        | Message::Pictures { text, .. }
        | Message::Assistant { text, .. } => text.clone(),
        Message::Tool { text, .. } => text.clone(),
    };
    request.messages.iter().map(text).collect::<Vec<_>>().join("\n")
}

pub(crate) fn compactions(world: &World, session: &SessionHandle) -> Vec<Compaction> {
    let compaction = |body| if let ItemBody::Compaction(compaction) = body { Some(compaction) } else { None };
    world.items(session).into_iter().filter_map(compaction).collect()
}

/// Creates a session of ten turns. The first turn states a rule, and the last answer fills the window.
pub(crate) async fn full(world: &World) -> SessionHandle {
    world.model.then(says("All right."));
    for turn in 0..8 {
        world.model.then(says(&format!("Done {turn}.")));
    }
    // The window has 8192 tokens.
    world.model.then(counted("Nearly full.", 7900));
    let session = world.session().await;
    run(&session, "Never delete the file notes.txt! What is up?").await;
    for turn in 0..9 {
        run(&session, &format!("Piece of work {turn} {}", "and more ".repeat(150))).await;
    }
    session
}

async fn full_world() -> (World, SessionHandle) {
    let world = World::new([]);
    let session = full(&world).await;
    (world, session)
}

async fn ten_turns() -> (World, SessionHandle) {
    let (world, session) = World::new([]).begun().await;
    run_turns(&world, 0..10, &session).await;
    (world, session)
}

#[tokio::test]
async fn nearly_full_window_is_compacted_before_the_next_call() {
    let (world, session) = full_world().await;
    world.model.then_all([says(SUMMARY), says("On we go.")]);
    assert_eq!(run(&session, "And now?").await.text, "On we go.");

    let done = &compactions(&world, &session)[0];
    assert_eq!(done.report.cause, CompactionCause::Critical);
    assert_eq!(done.report.strategy, CompactionStrategy::Compact);
    assert_eq!(done.report.pinned[0], "Never delete the file notes.txt! What is up?");
    assert_eq!(done.report.model.as_deref(), Some("scripted"));
    assert_eq!(done.report.problem, None);
    assert!((85..200).contains(&done.report.percent_before), "{:?}", done.report);
    world.all_calls_are_counted().await;
    let last = world.model.requests().pop().unwrap();
    let text = texts(&last);
    for part in ["Never delete the file notes.txt!", "The broom, for it is there.", "And now?"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("Done 0."), "replaced messages are not sent again: {text}");
    let file = world.workspaces.kept(session.id(), done.report.path.as_deref().unwrap()).unwrap();
    let file = String::from_utf8(file).unwrap();
    assert!(file.contains("Piece of work 0 ") && file.contains("Never delete"), "{file}");

    // After a restart, the window is the same.
    let (second, session) = world.restarted([says("Here I am.")]).with_session(session.id()).await;
    run(&session, "Are you there?").await;
    let after = second.model.requests().pop().unwrap();
    assert_eq!(after.messages[..last.messages.len()], last.messages[..]);
}

#[tokio::test]
async fn message_limit_drops_oldest_turns_but_keeps_user_text() {
    let config = EngineConfig { max_message_history: Some(10), ..EngineConfig::default() };
    let (world, session) = World::with(config, []).begun().await;
    run_turns(&world, 0..20, &session).await;
    let done = compactions(&world, &session);
    assert!(done.len() > 1);
    assert!(done.iter().all(|done| done.report.strategy == CompactionStrategy::Truncate), "no model is called for it");
    let requests = world.model.requests();
    assert_eq!(requests.len(), 20);
    for request in &requests {
        assert!(request.messages.len() <= 1 + 1 + 10 + 1, "{}", request.messages.len());
        assert!(texts(request).contains("Question 0"), "the next summary includes the earlier one: {}", texts(request));
    }
    let text = texts(&requests[19]);
    assert!(text.contains("You answered: Answer 5."), "{text}");
}

#[tokio::test]
async fn overflowing_request_is_retried_once_after_compaction() {
    let (world, session) = full_world().await;
    let overflows = || Play::Fails(vec![ModelChunk::Text("Half a".to_owned())], ErrorKind::ContextOverflow);
    // Text before the overflow error is not an answer.
    world.then([says(SUMMARY), overflows(), says("A whole answer.")]);
    assert_eq!(run(&session, "And now?").await.text, "A whole answer.");
    world.then([overflows(), overflows()]);
    let result = run(&session, "And now?").await;
    assert_eq!(result.stop_reason, StopReason::Failed, "the retry is not repeated");
    assert_eq!(result.error.unwrap().kind, ErrorKind::ContextOverflow);
}

#[tokio::test]
async fn steering_during_a_compaction_turn_is_answered() {
    let (world, session) = ten_turns().await;
    let gate = Arc::new(Notify::new());
    world.model.then(Play::Waits(Arc::clone(&gate), vec![ModelChunk::Text(SUMMARY.to_owned())]));
    world.model.then(says("By the way, yes."));
    let start = StartTurn { compact: Some(CompactionStrategy::Compact), ..continuation() };
    let mut started = session.start_turn(start).await.unwrap();
    world.model.asked(11).await;
    session.steer(None, "And by the way?".to_owned()).await.unwrap();
    gate.notify_one();
    let result = to_end(&mut started.events).await.1;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::Completed, "By the way, yes."));
}

#[tokio::test]
async fn cancelled_call_does_not_block_compaction() {
    let (world, session) = World::new([calls(&[("change", json!({"path": "a"}))])]).begun().await;
    let (mut started, _) = start_until_question(&session, input("Never forget this.")).await;
    session.cancel(None).await.unwrap();
    to_end(&mut started.events).await;
    for turn in 0..9 {
        world.model.then(counted(&format!("Done {turn}."), if turn == 8 { 7900 } else { 100 }));
        run(&session, &format!("Piece of work {turn} {}", "and more ".repeat(150))).await;
    }
    world.model.then_all([says(SUMMARY), says("On we go.")]);
    assert_eq!(run(&session, "And now?").await.text, "On we go.");
    assert_eq!(compactions(&world, &session)[0].report.pinned[0], "Never forget this.");
}

/// Returns the results of `compact_context`, in order.
fn compact_results(world: &World, session: &SessionHandle) -> Vec<String> {
    let results = results(&world.store.events_of(session.id())).into_iter();
    results.filter(|result| result.name == "compact_context").map(|result| result.text).collect()
}

#[tokio::test]
async fn compact_tool_announces_only_real_compactions() {
    // With a short history and a nearly full window, the tool is offered, but a compaction would free nothing.
    let (world, session) = World::new([counted("one", 6500)]).begun().await;
    run(&session, "Hi").await;
    let counted_calls = |times: usize| {
        let Play::Chunks(mut chunks) = calls(&vec![("compact_context", json!({})); times]) else { panic!() };
        chunks.push(ModelChunk::Usage(Usage { prompt_tokens: 6600, completion_tokens: 10, ..Usage::default() }));
        Play::Chunks(chunks)
    };
    let asks = || counted_calls(1);
    world.model.then_all([asks(), counted("Well then.", 6600)]);
    assert_eq!(run(&session, "Make room.").await.text, "Well then.");
    let outputs = compact_results(&world, &session);
    assert!(outputs[0].starts_with("nothing is compacted: there is nothing to compact"), "{outputs:?}");
    assert_eq!(compactions(&world, &session), []);

    // With a long history, a compaction requested twice in one answer runs once, and an immediate second request has no
    // effect.
    for turn in 0..8 {
        world.model.then(counted(&format!("Done {turn}."), 6600));
        run(&session, &format!("Piece of work {turn}")).await;
    }
    world.model.then_all([counted_calls(2), says(SUMMARY), asks(), says("There is room.")]);
    let answer = run(&session, "Make room.").await.text;
    let outputs = compact_results(&world, &session).split_off(1);
    assert!(outputs[0].contains("is compacted before your next message"), "{outputs:?}");
    assert!(outputs[1].starts_with("nothing is compacted: already requested"), "{outputs:?}");
    assert!(outputs[2].starts_with("nothing is compacted: the history was compacted"), "{outputs:?}");
    let [done] = &compactions(&world, &session)[..] else { panic!("{outputs:?}") };
    assert_eq!((done.report.cause, answer.as_str()), (CompactionCause::Model, "There is room."), "{outputs:?}");
}

#[tokio::test]
async fn overflowing_final_answer_is_retried_after_compaction() {
    let (world, session) = full_world().await;
    let one_step = || StartTurn { max_steps: Some(1), ..input("Look around") };
    world.model.then_all([says(SUMMARY), calls(&[("look", json!({}))])]);
    world.model.then(Play::Fails(vec![ModelChunk::Text("Half a".to_owned())], ErrorKind::ContextOverflow));
    world.model.then(says("What I saw."));
    let result = turn(&session, one_step()).await;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::MaxSteps, "What I saw."));
    assert_eq!(compactions(&world, &session).pop().unwrap().report.cause, CompactionCause::Overflow);

    // Retries are limited.
    world.model.then_all([calls(&[("look", json!({}))]), Play::Fails(Vec::new(), ErrorKind::ContextOverflow)]);
    world.model.then(Play::Fails(Vec::new(), ErrorKind::ContextOverflow));
    let result = turn(&session, one_step()).await;
    assert_eq!((result.stop_reason, result.error.unwrap().kind), (StopReason::Failed, ErrorKind::ContextOverflow));
}

#[tokio::test]
async fn small_windows_never_loop_and_fail_only_if_nothing_fits() {
    for window in [512, 1024, 2048, 4096] {
        let (world, session) = World::narrow(window, EngineConfig::default()).begun().await;
        let mut asked = 0;
        let mut completed = 0;
        for turn in 0..40 {
            for _ in 0..4 {
                world.model.then(says(&format!("{SUMMARY} {}", "so on ".repeat(turn * 20))));
            }
            let result =
                run(&session, &format!("Always count. Turn {turn} {}", "and more ".repeat(turn % 7 * 10))).await;
            match result.stop_reason {
                StopReason::Completed => completed += 1,
                _ => assert_eq!(result.error.unwrap().kind, ErrorKind::ContextOverflow, "turn {turn} in {window}"),
            }
            let requests = world.model.requests().len();
            assert!(requests - asked <= 4, "{} requests in turn {turn} with {window} tokens", requests - asked);
            asked = requests;
        }
        if window >= 2048 {
            assert_eq!(completed, 40, "in {window} tokens");
        }
        let summaries = compactions(&world, &session);
        for done in &summaries {
            // The summary includes one rule. Its fixed text takes a few hundred bytes at any window size.
            let limit = window * 4 / 2 + 600 + 400;
            assert!(done.summary.len() as u64 <= limit, "{} bytes in {window}", done.summary.len());
        }
    }
}

#[tokio::test]
async fn error_explains_instructions_larger_than_the_window() {
    let (_world, session) = World::narrow(256, EngineConfig::default()).begun().await;
    let result = run(&session, "Hello").await;
    let error = result.error.unwrap();
    assert_eq!((result.stop_reason, error.kind), (StopReason::Failed, ErrorKind::ContextOverflow));
    let hint = error.hint.unwrap();
    assert!(hint.contains("instructions and tools alone take about") && hint.contains("256"), "{hint}");
}

#[tokio::test]
async fn steering_during_compaction_is_answered_not_summarised() {
    let (world, session) = full_world().await;
    let gate = Arc::new(Notify::new());
    world.model.then(Play::Waits(Arc::clone(&gate), vec![ModelChunk::Text(SUMMARY.to_owned())]));
    world.model.then_all([says("On we go."), says("In blue.")]);
    let mut started = session.start_turn(input("And now?")).await.unwrap();
    world.model.asked(11).await;
    session.steer(None, "It must be blue!".to_owned()).await.unwrap();
    gate.notify_one();
    let result = to_end(&mut started.events).await.1;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::Completed, "In blue."));
    // After a restart, the added input is still in the request.
    let (second, session) = world.restarted([says("Still blue.")]).with_session(session.id()).await;
    run(&session, "Which colour?").await;
    let added = Message::User { text: "It must be blue!".to_owned() };
    assert!(second.model.requests()[0].messages.contains(&added));
}

/// Runs turns whose text fills the window according to the estimate, without counts from the server.
async fn session_filled_by_turns(turns: usize) -> (World, SessionHandle) {
    let (world, session) = World::new([]).begun().await;
    for turn in 0..turns {
        world.model.then(says(&format!("Done {turn}.")));
        run(&session, &format!("Piece of work {turn} {}", "and more ".repeat(300))).await;
    }
    (world, session)
}

#[tokio::test]
async fn undone_compaction_is_not_repeated_while_history_fits() {
    // The first automatic compaction happens when the window is 85 percent full.
    let mut turns = 0;
    let (world, session) = session_filled_by_turns(9).await;
    while compactions(&world, &session).is_empty() {
        turns += 1;
        assert!(turns < 10, "the window never fills: {:#?}", session.context().await.unwrap());
        world.model.then_all([says("Done."), says("Done.")]);
        run(&session, &format!("A little {}", "more ".repeat(160))).await;
    }
    let before = session.undo_compaction().await.unwrap().0;
    assert!(before.held > 0, "{before:?}");
    let view = session.context().await.unwrap();
    assert!(view.tokens * 100 >= view.window * 84, "{view:#?}");

    // The limit also applies after a restart, and the model is not asked to compact instead.
    let later = world.restarted([calls(&[("compact_context", json!({}))]), says("Short.")]);
    let (world, session) = later.with_session(session.id()).await;
    assert_eq!(run(&session, "And?").await.text, "Short.");
    assert_eq!(compactions(&world, &session).len(), 1, "the history has not grown");
    assert_eq!(world.model.requests().len(), 2);
    let asked = texts(&world.model.requests()[0]);
    assert!(asked.contains("Piece of work 0 ") && asked.contains("% of the context window is used"), "{asked}");
    let last = asked.rsplit("<system_reminder>").next().unwrap_or_default();
    assert!(!last.contains("Call compact_context"), "{last}");
    let outputs = compact_results(&world, &session);
    assert!(outputs[0].starts_with("nothing is compacted: the user undid the last compaction"), "{outputs:?}");

    // A history that no longer fits is compacted again despite the undo, and a warning is sent.
    world.model.then_all([says(SUMMARY), says("On we go.")]);
    run(&session, &format!("Much {}", "more ".repeat(1400))).await;
    assert_eq!(compactions(&world, &session).len(), 2);
    assert!(world.log(&session).contains("compacted_again"), "{}", world.log(&session));
    assert_eq!(session.show().await.unwrap().session.window.held, 0);
}

#[tokio::test]
async fn restored_turns_stay_after_undoing_a_compaction() {
    let config = EngineConfig { max_message_history: Some(10), ..EngineConfig::default() };
    let (world, session) = World::with(config, []).begun().await;
    let turn = async |number: usize| {
        world.model.then(says(&format!("Answer {number}.")));
        run(&session, &format!("Question {number}")).await;
    };
    for number in 0..6 {
        turn(number).await;
    }
    assert_eq!(compactions(&world, &session).len(), 1);
    session.undo_compaction().await.unwrap();
    let view = session.context().await.unwrap();
    assert!(view.next_cuts[0].ends_with("down to 5 messages."), "{view:#?}");
    turn(6).await;
    assert_eq!(compactions(&world, &session).len(), 1, "the compaction is not repeated at once");
    assert!(texts(world.model.requests().last().unwrap()).contains("Question 0"));
    for number in 7..10 {
        turn(number).await;
    }
    assert_eq!(compactions(&world, &session).len(), 2, "the history has grown");
}

pub(crate) async fn compact(session: &SessionHandle, strategy: CompactionStrategy) -> TurnResult {
    turn(session, StartTurn { compact: Some(strategy), ..continuation() }).await
}

#[tokio::test]
async fn compaction_does_not_change_the_continuable_turn() {
    let (world, session) = ten_turns().await;
    // A completed turn cannot be continued, even after a cancelled compaction.
    world.model.then(Play::Hangs(Vec::new()));
    let start = StartTurn { compact: Some(CompactionStrategy::Compact), ..continuation() };
    let mut started = session.start_turn(start).await.unwrap();
    world.model.asked(11).await;
    session.cancel(None).await.unwrap();
    let result = to_end(&mut started.events).await.1;
    assert_eq!((result.stop_reason, result.only_compacted), (StopReason::Cancelled, true));
    assert_eq!(session.start_turn(continuation()).await.err().unwrap().kind(), ErrorKind::InvalidInput);
    let start = StartTurn { compact: Some(CompactionStrategy::Auto), ..input("and this") };
    assert_eq!(session.start_turn(start).await.err().unwrap().kind(), ErrorKind::InvalidInput);

    // A failed turn can be continued after a compaction, and the model is informed of its input.
    world.model.then(Play::Fails(Vec::new(), ErrorKind::Provider));
    assert_eq!(run(&session, "The long way round").await.stop_reason, StopReason::Failed);
    world.model.then(says(SUMMARY));
    assert_eq!(compact(&session, CompactionStrategy::Auto).await.stop_reason, StopReason::Completed);
    let (second, session) = world.restarted([says("Round it was.")]).with_session(session.id()).await;
    assert_eq!(turn(&session, continuation()).await.text, "Round it was.");
    assert!(texts(&second.model.requests()[0]).contains("The long way round"));
    assert_eq!(session.start_turn(continuation()).await.err().unwrap().kind(), ErrorKind::InvalidInput);
}

pub(crate) async fn run_turns(world: &World, turns: std::ops::Range<usize>, session: &SessionHandle) {
    for turn in turns {
        world.model.then(says(&format!("Answer {turn}.")));
        run(session, &format!("Question {turn}")).await;
    }
}

#[tokio::test]
async fn window_never_shrinks_below_an_accepted_request() {
    let (world, session) = session_filled_by_turns(4).await;
    world.model.then(counted("Yes.", 5000));
    run(&session, "Does that fit?").await;
    for stated in [4000, 100] {
        let window = session.context().await.unwrap().window;
        world.model.then_all([Play::Overflows(stated), says("There.")]);
        assert_eq!(run(&session, "And now?").await.text, "There.");
        assert_eq!(session.context().await.unwrap().window, window);
    }
    assert!(!world.log(&session).contains("window_learned"), "{}", world.log(&session));

    // A server that was restarted with a smaller window is accepted: the refused request is far smaller than
    // earlier accepted ones.
    let other = world.session().await;
    world.model.then_all([Play::Overflows(3000), says("There.")]);
    assert_eq!(run(&other, "And now?").await.text, "There.");
    assert_eq!(other.context().await.unwrap().window, 3000);
    assert_eq!(world.log(&other).matches("window_learned").count(), 1, "{}", world.log(&other));
}

/// Compactions retain the user's instructions in any wording, even if they follow a long introduction.
#[tokio::test]
async fn user_messages_survive_compaction_in_any_wording() {
    let (world, session) = World::new([]).begun().await;
    let messages = [
        "When you touch the database you must\nnot delete any row.",
        "Please leave migrations/ alone.",
        "Fasse migrations/ nicht an.",
        "We use tabs, not spaces.",
    ];
    let request = format!("{}\n\n{}", "It is a long story. ".repeat(20), messages.join("\n\n"));
    world.model.then(says("All right."));
    run(&session, &request).await;
    run_turns(&world, 0..8, &session).await;
    world.model.then(says(SUMMARY));
    compact(&session, CompactionStrategy::Auto).await;
    let done = &compactions(&world, &session)[0];
    assert_eq!(done.report.pinned[0], request);
    for message in messages {
        assert!(done.summary.contains(message), "{message} in {}", done.summary);
    }
}

#[tokio::test]
async fn longest_user_messages_are_dropped_first_and_reported() {
    let (world, session) = World::new([]).begun().await;
    let pasted = |from: usize| (from..from + 1000).map(|number| format!("- line {number}\n")).collect::<String>();
    for message in std::iter::once("Never push.".to_owned()).chain((0..16).map(|n| pasted(n * 1000))) {
        world.model.then(says("All right."));
        run(&session, &message).await;
    }
    run_turns(&world, 0..8, &session).await;
    world.model.then(says(SUMMARY));
    compact(&session, CompactionStrategy::Auto).await;
    let report = &compactions(&world, &session).pop().unwrap().report;
    assert_eq!(report.pinned[0], "Never push.");
    let problem = report.problem.as_deref().unwrap_or_default();
    assert!(problem.contains("of your messages are no longer kept verbatim"), "{report:?}");
}

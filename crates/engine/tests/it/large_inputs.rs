//! Inputs that do not fit into the window are spilled to a file. The model and the user are informed which part is
//! visible.

use std::sync::Arc;

use agentd_core::{
    client_tool::ClientTool,
    error::ErrorKind,
    files::StoredInput,
    item::ItemBody,
    model::{Message, ModelChunk, ModelInfo, Slot},
    ports::Model as _,
    turn::{IfBusy, StartTurn, StopReason, TurnOptions},
};
use agentd_engine::SessionHandle;
use agentd_testkit::scripted::{Play, ScriptedModel, calls, says};
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    compaction::texts,
    world::{TwoModels, World, continuation, input, run, sized, to_end, turn, warnings},
};

/// Generates `count` lines of 39 bytes.
fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("line {n:07} of what somebody piped in\n")).collect()
}

fn piped(typed: &str, given: &str) -> StartTurn {
    StartTurn { typed_bytes: Some(typed.len() as u64), ..input(&format!("{typed}\n\n{given}")) }
}

fn stored(world: &World, session: &SessionHandle) -> Vec<StoredInput> {
    let stored = |body| if let ItemBody::UserMessage { stored, .. } = body { stored } else { None };
    world.items(session).into_iter().filter_map(stored).collect()
}

/// Returns the warnings about spilled inputs.
fn spill_warnings(world: &World, session: &SessionHandle) -> Vec<String> {
    warnings(&world.store.events_of(session.id()), "input_stored")
}

fn upload(world: &World, path: &str) -> String {
    String::from_utf8(world.workspaces.uploads().remove(path).unwrap()).unwrap()
}

#[tokio::test]
async fn long_input_shows_both_ends_and_is_stored_once() {
    let (world, session) = World::new(["one", "two", "three"].map(says)).begun().await;
    let pasted = format!("Here is the log:\n{}\nWhy does it fail?", lines(3000));
    for _ in 0..2 {
        run(&session, &pasted).await;
    }
    let asked = texts(&world.model.requests()[0]);
    assert!(asked.contains("Here is the log:") && asked.contains("Why does it fail?\n\n[This text"), "{asked}");
    assert!(asked.contains("left out …]"), "{asked}");
    assert_eq!(world.workspaces.uploads().keys().collect::<Vec<_>>(), ["uploads/input.txt"]);
    run(&session, &format!("{pasted} Once more.")).await;
    assert_eq!(world.workspaces.uploads().len(), 2);
    for request in world.model.requests() {
        assert!(texts(&request).len() < 8192 * 4, "{}", texts(&request).len());
    }
}

#[tokio::test]
async fn steered_and_queued_long_inputs_are_spilled() {
    let go = Arc::new(Notify::new());
    let world = World::new([Play::Waits(Arc::clone(&go), vec![ModelChunk::Text("So.".to_owned())])]);
    for answer in ["Added.", "Waited."] {
        world.model.then(says(answer));
    }
    let session = world.session().await;
    let mut first = session.start_turn(input("Wait")).await.unwrap();
    world.model.asked(1).await;
    session.steer(None, lines(3000)).await.unwrap();
    assert_eq!(upload(&world, "uploads/input.txt"), lines(3000));
    let queued = StartTurn { if_busy: IfBusy::Queue, ..piped("Then this", &lines(4000)) };
    let mut second = session.start_turn(queued).await.unwrap();
    assert_eq!(upload(&world, "uploads/stdin.txt"), lines(4000), "acknowledged input is on the disk");
    // A queued turn is not rejected if the disk is full when it starts.
    world.workspaces.set_full(true);
    go.notify_one();
    to_end(&mut first.events).await;
    assert_eq!(to_end(&mut second.events).await.1.text, "Waited.", "{}", world.log(&session));
    assert_eq!(stored(&world, &session).len(), 2);
    for request in world.model.requests() {
        assert!(texts(&request).len() < 8192 * 4, "{}", texts(&request).len());
    }
}

/// If a server's refusal reports a smaller window than configured, the new input is spilled instead of summarised.
#[tokio::test]
async fn input_is_spilled_if_the_window_turns_out_smaller() {
    let (world, session) = World::new([Play::Overflows(3000), says("Reviewed.")]).begun().await;
    let given = lines(500);
    let ended = turn(&session, piped("Review this", &given)).await;
    assert_eq!(ended.text, "Reviewed.");
    assert_eq!(upload(&world, "uploads/stdin.txt"), given);
    let last = texts(&world.model.requests().pop().unwrap());
    assert!(
        last.contains("Review this\n\nline 0000001") && last.contains("All of it is in uploads/stdin.txt"),
        "{last}"
    );
    assert_eq!(spill_warnings(&world, &session).len(), 1);
}

#[tokio::test]
async fn long_request_stays_verbatim_through_compactions() {
    // The input is larger than the recent part that a compaction retains, and small enough to be sent whole at first.
    let (world, session) = World::new([]).begun().await;
    let request = format!("Do all of this, step by step:\n{}", lines(420));
    for n in 0..12 {
        world.model.then(calls(&[("look", json!({ "n": n, "text": "x".repeat(1200) }))]));
    }
    world.model.then(says("Done."));
    let ended = run(&session, &request).await;
    assert_eq!(ended.stop_reason, StopReason::Completed, "{}", world.log(&session));
    let compacted = world.log(&session).matches("= compaction").count();
    assert!(compacted > 0, "{}", world.log(&session));
    assert_eq!(upload(&world, "uploads/input.txt"), request);
    let last = texts(&world.model.requests().pop().unwrap());
    assert!(last.contains("Do all of this, step by step:") && last.contains("uploads/input.txt"), "{last}");
}

/// Creates a world with two models, one of which serves the code slot.
fn world_with_two_models(base: Arc<ScriptedModel>, other: Arc<ScriptedModel>) -> World {
    World::with_models(Arc::new(TwoModels { base, slot: Slot::Code, other, listed: false }))
}

#[tokio::test]
async fn queued_input_is_measured_by_its_own_model() {
    let go = Arc::new(Notify::new());
    let small = sized("small", 4096, vec![Play::Waits(Arc::clone(&go), vec![ModelChunk::Text("So.".to_owned())])]);
    let large = sized("large", 64_000, vec![says("All of it.")]);
    let (world, session) = world_with_two_models(Arc::clone(&large), Arc::clone(&small)).begun().await;
    let of_small = TurnOptions { model: Some("small".to_owned()), ..TurnOptions::default() };
    let mut first = session.start_turn(StartTurn { options: of_small.clone(), ..input("Wait") }).await.unwrap();
    small.asked(1).await;
    let waits = |options| StartTurn { if_busy: IfBusy::Queue, options, ..piped("Then this", &lines(1000)) };
    let mut second = session.start_turn(waits(TurnOptions::default())).await.unwrap();
    assert!(world.workspaces.uploads().is_empty(), "the input fits into the large model's window");
    session.start_turn(waits(of_small)).await.unwrap();
    assert_eq!(upload(&world, "uploads/stdin.txt"), lines(1000));
    go.notify_one();
    to_end(&mut first.events).await;
    assert_eq!(to_end(&mut second.events).await.1.text, "All of it.");
}

#[tokio::test]
async fn client_instructions_and_tools_reduce_input_limit() {
    let check = async |instructions: Option<String>, tools: Vec<ClientTool>, fits: bool| {
        let (world, session) =
            world_with_two_models(sized("large", 16_000, [says("Read.")]), sized("small", 16_000, [])).begun().await;
        let options = TurnOptions { instructions, ..TurnOptions::default() };
        turn(&session, StartTurn { options, tools, ..piped("Review this", &lines(800)) }).await;
        assert_eq!(world.workspaces.uploads().is_empty(), fits, "{}", world.log(&session));
    };
    let tool = |at: usize| ClientTool {
        name: format!("tool_{at}"),
        description: lines(100),
        parameters: json!({"type": "object"}),
        only_looks: true,
    };
    check(None, Vec::new(), true).await;
    check(Some(lines(800)), Vec::new(), false).await;
    check(None, (0..8).map(tool).collect(), false).await;
}

#[tokio::test]
async fn unfinished_request_survives_switch_to_a_smaller_model() {
    let large = sized("large", 64_000, [Play::Fails(Vec::new(), ErrorKind::Provider)]);
    let small = sized("small", 4096, [says("Reviewed.")]);
    let (world, session) = world_with_two_models(large, Arc::clone(&small)).begun().await;
    let given = lines(1000);
    turn(&session, piped("Review this", &given)).await;
    assert!(world.workspaces.uploads().is_empty(), "the input fits");
    let ended = turn(&session, StartTurn { slot: Some(Slot::Code), ..continuation() }).await;
    assert_eq!(ended.text, "Reviewed.", "{}", world.log(&session));
    assert_eq!(upload(&world, "uploads/stdin.txt"), given);
    let asked = texts(&small.requests().pop().unwrap());
    assert!(asked.contains("Review this") && asked.contains("uploads/stdin.txt") && asked.len() < 4096 * 4, "{asked}");
}

#[tokio::test]
async fn embedded_model_gets_input_up_to_its_window() {
    let info = ModelInfo {
        id: "tiny".to_owned(),
        embedded: true,
        native_tools: false,
        ..ScriptedModel::new([]).info().clone()
    };
    let tiny = ScriptedModel::with_info(info, [says("A list of lines.")]);
    let (world, session) = world_with_two_models(Arc::clone(&tiny), Arc::clone(&tiny)).begun().await;
    turn(&session, piped("Summarize this", &lines(300))).await;
    assert_eq!(upload(&world, "uploads/stdin.txt"), lines(300));
    let Some(Message::User { text }) = tiny.requests()[0].messages.last().cloned() else { panic!() };
    // The model reads at most 6,000 characters of a request.
    assert!(text.len() < 6000 && text.contains("uploads/stdin.txt"), "{} {text}", text.len());
}

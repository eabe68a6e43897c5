//! Client tools: offered only in the client's turn, judged like other tools, and either answered by the client or
//! ended with a reason.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    client_tool::{ClientTool, ClientToolAnswer},
    event::{Event, EventKind},
    files::PreparedPicture,
    interrupt::Answer,
    model::ModelChunk,
    turn::{IfBusy, OnInterrupt, StartTurn, StopReason, TurnOptions},
};
use agentd_engine::{ClientLine, ClientLines, ClientToolRequest, SessionHandle, StartedTurn, TurnStart};
use agentd_testkit::scripted::{OneModel, Play, calls, says};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    grants::{answer, question},
    world::{
        World, answer_and_follow, continuation, input, results, seeing, shown_in_results, to_end, warnings,
        with_time_limit,
    },
};

type Requests = mpsc::Receiver<ClientToolRequest>;

fn tool(name: &str, only_looks: bool) -> ClientTool {
    let parameters = json!({
        "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false,
    });
    ClientTool { name: name.to_owned(), description: format!("The editor's {name}."), parameters, only_looks }
}

fn offering(tools: Vec<ClientTool>) -> StartTurn {
    StartTurn { tools, ..input("Go!") }
}

fn with_tools(line: ClientLine) -> ClientLines {
    ClientLines { tools: Some(line), ..ClientLines::default() }
}

async fn start(session: &SessionHandle, start: StartTurn) -> (StartedTurn, Requests) {
    let (line, requests) = ClientLine::new();
    let started = session.start_turn(TurnStart { start, lines: with_tools(line) }).await.unwrap();
    (started, requests)
}

fn buffer(args: Value) -> Play {
    calls(&[("client_buffer", args)])
}

async fn next(requests: &mut Requests) -> ClientToolRequest {
    with_time_limit("a call", requests.recv()).await.unwrap()
}

fn reply_to(request: ClientToolRequest, text: &str) {
    let answer = ClientToolAnswer { text: text.to_owned(), ..ClientToolAnswer::default() };
    request.reply.send(answer).unwrap();
}

fn picture(content: &str) -> ClientToolAnswer {
    let (media_type, name) = ("image/png".to_owned(), format!("picture-{}.png", content.len()));
    let picture = PreparedPicture { media_type, width: 30, height: 25, name, content: content.into() };
    ClientToolAnswer { text: String::new(), failed: false, picture: Some(picture) }
}

fn offered(world: &World, at: usize) -> Vec<String> {
    let names = world.model.requests()[at].tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    names.into_iter().filter(|name| name.starts_with("client_")).collect()
}

#[tokio::test]
async fn client_failures_long_and_empty_answers_become_results() {
    let world = World::new([
        buffer(json!({"path": "a"})),
        buffer(json!({"path": "b"})),
        buffer(json!({"path": "c"})),
        says("Well."),
    ]);
    let session = world.session().await;
    let (mut started, mut requests) = start(&session, offering(vec![tool("buffer", true)])).await;
    let failed = ClientToolAnswer { text: "no such buffer".to_owned(), failed: true, picture: None };
    next(&mut requests).await.reply.send(failed).unwrap();
    reply_to(next(&mut requests).await, &"x".repeat(5 << 20));
    reply_to(next(&mut requests).await, "");
    to_end(&mut started.events).await;
    let texts = world.results();
    assert_eq!(texts[0], "E_TOOL: no such buffer");
    // The answer is spilled to a file like any other long result.
    assert!(texts[1].len() < 1 << 20 && texts[1].contains("large_tool_results/"), "{} bytes", texts[1].len());
    assert_eq!(texts[2], "[done; no output]");
}

#[tokio::test]
async fn invalid_arguments_never_reach_the_client() {
    let (world, session) = World::new([buffer(json!({"path": 7})), says("Sorry.")]).begun().await;
    let (mut started, mut requests) = start(&session, offering(vec![tool("buffer", false)])).await;
    to_end(&mut started.events).await;
    assert!(world.results()[0].starts_with("E_INVALID_ARGS: the arguments do not match"), "{:?}", world.results());
    assert!(requests.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn unresponsive_client_tool_times_out() {
    let (world, session) = World::new([buffer(json!({"path": "a"})), says("Too slow.")]).begun().await;
    let (mut started, mut requests) = start(&session, offering(vec![tool("buffer", true)])).await;
    let request = requests.recv().await.unwrap();
    tokio::time::advance(Duration::from_secs(601)).await;
    // Waits without `with_time_limit`, whose limit would use the paused clock.
    let is_end = |event: &Event| matches!(&event.kind, EventKind::TurnEnded { result } if result.text == "Too slow.");
    while !is_end(&started.events.next().await.unwrap().unwrap()) {}
    assert!(request.reply.is_closed(), "no receiver waits for the answer");
    assert_eq!(world.results(), ["E_TIMEOUT: the client did not answer within 10 minutes"]);
}

#[tokio::test]
async fn turn_time_limit_ends_a_client_tool_call() {
    let (_world, session) = World::new([buffer(json!({"path": "a"})), says("In short.")]).begun().await;
    let options = TurnOptions { time_ms: Some(100), ..TurnOptions::default() };
    let (mut started, mut requests) =
        start(&session, StartTurn { options, ..offering(vec![tool("buffer", false)]) }).await;
    let pending_question = question(&mut started.events).await;
    answer(&session, &pending_question, Answer::Approve).await.unwrap();
    let request = next(&mut requests).await;
    let (events, result) = to_end(&mut started.events).await;
    assert_eq!(result.stop_reason, StopReason::TimeLimit);
    let text = &results(&events)[0].text;
    assert!(text.contains("time limit was reached") && text.ends_with("may or may not have taken effect"), "{text}");
    assert!(request.reply.is_closed(), "no receiver waits for the answer");
}

#[tokio::test]
async fn client_picture_survives_a_crash() {
    let shots = calls(&[("client_shot", json!({"path": "a"})), ("client_shot", json!({"path": "b"}))]);
    let world = World::with_models(Arc::new(OneModel(seeing([shots]))));
    let session = world.session().await;
    let start_turn = StartTurn { on_interrupt: OnInterrupt::Approve, ..offering(vec![tool("shot", false)]) };
    let (_started, mut requests) = start(&session, start_turn).await;
    next(&mut requests).await.reply.send(picture("PICTURE one")).unwrap();
    let _request = next(&mut requests).await;
    let eyes = seeing([says("I saw it."), says("Well.")]);
    let next_world = world.restarted_with(Arc::new(OneModel(Arc::clone(&eyes) as _)));
    let (_next_world, session) = next_world.settled(session.id()).await;
    let (_, result) = to_end(&mut session.start_turn(continuation()).await.unwrap().events).await;
    assert_eq!(result.text, "I saw it.");
    // The next turn repeats it in the same place.
    to_end(&mut session.start_turn(input("And now?")).await.unwrap().events).await;
    for request in eyes.requests() {
        assert_eq!(shown_in_results(&request), [&b"PICTURE one"[..]]);
    }
}

#[tokio::test]
async fn client_picture_is_named_to_a_model_without_vision() {
    let world = World::new([calls(&[("client_shot", json!({"path": "a"}))]), says("I cannot see it.")]);
    let session = world.session().await;
    let (mut started, mut requests) = start(&session, offering(vec![tool("shot", true)])).await;
    next(&mut requests).await.reply.send(picture("PICTURE one")).unwrap();
    to_end(&mut started.events).await;
    let text = world.results().remove(0);
    assert!(text.starts_with("[its picture is not shown: you cannot see pictures; it is stored in /"), "{text}");
}

#[tokio::test]
async fn lost_client_tool_call_is_reported_after_restart() {
    // The call waits for the user, and the client is gone when the answer arrives.
    let (world, session) = World::new([buffer(json!({"path": "a"}))]).begun().await;
    let (mut started, _requests) = start(&session, offering(vec![tool("buffer", false)])).await;
    let pending_question = question(&mut started.events).await;
    let (next_world, session) = world.restarted_with_files([says("Without it.")]).settled(session.id()).await;
    assert_eq!(answer_and_follow(&session, &pending_question, Answer::Approve).await.1.text, "Without it.");
    assert!(next_world.results()[0].contains("has disconnected"), "{:?}", next_world.results());
}

#[tokio::test]
async fn queued_turn_keeps_client_tools_while_connected() {
    let (world, session) = World::new([Play::Hangs(vec![ModelChunk::Text("Hm".to_owned())])]).begun().await;
    let mut running = session.start_turn(input("First")).await.unwrap();
    let queued = || StartTurn { if_busy: IfBusy::Queue, ..offering(vec![tool("buffer", true)]) };
    let (mut connected, mut requests) = start(&session, queued()).await;
    let (mut disconnected, dropped_requests) = start(&session, queued()).await;
    drop(dropped_requests);
    // Only text can be added to a running turn.
    let (line, _requests) = ClientLine::new();
    let steered = TurnStart { start: StartTurn { if_busy: IfBusy::Steer, ..queued() }, lines: with_tools(line) };
    assert!(session.start_turn(steered).await.err().unwrap().hint().is_some());
    world.model.then_all([buffer(json!({"path": "a"})), says("Kept."), says("Left.")]);
    session.cancel(Some(running.turn_id)).await.unwrap();
    to_end(&mut running.events).await;
    reply_to(next(&mut requests).await, "text");
    assert_eq!(to_end(&mut connected.events).await.1.text, "Kept.");
    let (events, result) = to_end(&mut disconnected.events).await;
    assert_eq!(result.text, "Left.");
    assert_eq!(warnings(&events, "client_tools_gone").len(), 1);
    assert_eq!(offered(&world, 3), Vec::<String>::new());
}

#[tokio::test]
async fn duplicate_or_invalid_client_tools_are_rejected() {
    let (_world, session) = World::new([]).begun().await;
    let refusal = async |start: StartTurn, part: &str| {
        let (line, _requests) = ClientLine::new();
        let error = session.start_turn(TurnStart { start, lines: with_tools(line) }).await.err().unwrap();
        assert!(error.to_string().contains(part) && error.hint().is_some(), "{error}");
    };
    refusal(offering(vec![tool("todo_write", true)]), "has the name of a tool of the daemon").await;
    refusal(offering(vec![tool("a b", true)]), "invalid tool name").await;
    let compacts = StartTurn {
        text: None,
        compact: Some(agentd_core::context::CompactionStrategy::Auto),
        ..offering(vec![tool("a", true)])
    };
    refusal(compacts, "accepts no parts").await;
    let with = |options: TurnOptions| StartTurn { options, ..input("Go!") };
    let allowed_tools = Some(vec!["todo_write".to_owned(), "no_such_tool".to_owned()]);
    refusal(with(TurnOptions { allowed_tools, ..TurnOptions::default() }), "no such tool").await;
    refusal(with(TurnOptions { instructions: Some(" ".to_owned()), ..TurnOptions::default() }), "are empty").await;
    let long = Some("x".repeat(70_000));
    refusal(with(TurnOptions { instructions: long, ..TurnOptions::default() }), "70000 bytes").await;
    refusal(with(TurnOptions { model: Some("other".to_owned()), ..TurnOptions::default() }), "slot").await;
}

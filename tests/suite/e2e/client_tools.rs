//! Tools that a client provides to a real daemon, such as an editor that returns unsaved text.

use agentd_core::{
    client_tool::{ClientTool, ClientToolCall},
    input::PictureData,
    session::SessionMode,
};
use agentd_proto::{
    client::TurnFrame,
    v1::{
        self,
        turn_request::{Command, Start, ToolAnswer, tool_answer::Outcome},
    },
};

use super::{Events as _, *};

/// A picture of 40 × 20 pixels.
const RED: &[u8] = include_bytes!("fixtures/red.png");

fn tool(name: &str, only_looks: bool) -> ClientTool {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    ClientTool { name: name.to_owned(), description: format!("The editor's {name}."), parameters, only_looks }
}

fn offering(tools: Vec<ClientTool>) -> StartRequest {
    let mut request = turn(SessionChoice::New(NewSession::default()), "Look into the buffer.");
    request.start.tools = tools;
    request
}

/// Waits for the next call to a tool of this client.
async fn call(stream: &mut TurnStream) -> ClientToolCall {
    loop {
        match stream.next_frame().await.unwrap().expect("the stream continues") {
            TurnFrame::ToolRequested(call) => return call,
            TurnFrame::Event(_) | TurnFrame::FileRequested(_) => {}
        }
    }
}

fn buffer() -> Reply {
    Reply::tool_call("client_buffer", json!({"path": "src/main.rs"}))
}

#[tokio::test]
async fn client_tool_answers_reach_the_model() {
    let world = World::start().await;
    world.model.reply(buffer()).reply(Reply::text("It says hello."));
    let mut stream = world.client().await.turn(offering(vec![tool("buffer", true)])).await.unwrap();
    let client_call = call(&mut stream).await;
    assert_eq!((client_call.name.as_str(), client_call.arguments.as_str()), ("buffer", r#"{"path":"src/main.rs"}"#));
    let sender = stream.sender();
    // Neither a response to another call nor a response with an invalid picture ends the call.
    sender.answer_tool("call_of_another", Ok("x".to_owned()), None).await.unwrap();
    let broken = PictureData { media_type: "image/png".to_owned(), content: vec![1, 2], name: None };
    sender.answer_tool(&client_call.call_id, Ok("x".to_owned()), Some(broken)).await.unwrap();
    for phrase in ["no pending call", "its content is not a picture"] {
        let warning = stream.stored_until(|kind| matches!(kind, EventKind::Warning { .. })).await.pop().unwrap();
        let EventKind::Warning { code, message, .. } = warning.kind else { panic!() };
        assert_eq!(code, "command_refused");
        assert!(message.contains(phrase), "{message}");
    }
    let red = PictureData { media_type: "image/png".to_owned(), content: RED.to_vec(), name: None };
    sender
        .answer_tool(&client_call.call_id, Ok("fn main() { \u{1b}[31mhello() }".to_owned()), Some(red))
        .await
        .unwrap();
    let events = stream.to_the_end().await;
    let EventKind::TurnEnded { result } = &events.last().unwrap().kind else { panic!() };
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::Completed, "It says hello."));
    let text = tool_texts(&world.model.requests().pop().unwrap());
    assert!(text.starts_with("fn main() { [31mhello() }") && text.contains("picture"), "{text}");
    let names = |at: usize| world.model.requests()[at].body["tools"].to_string().contains("client_buffer");
    assert!(names(0));
    // The tool only exists in the turn that declared it.
    let session = SessionChoice::Existing(stream.session_id().to_string());
    world.client().await.turn(turn(session, "And now?")).await.unwrap().to_the_end().await;
    assert!(!names(2));
}

#[tokio::test]
async fn oversized_tool_answer_is_refused() {
    let world = World::start().await;
    world.model.reply(buffer()).reply(Reply::text("Without it."));
    let mut stream = world.client().await.turn(offering(vec![tool("buffer", true)])).await.unwrap();
    let client_call = call(&mut stream).await;
    let large = "x".repeat(17 << 20);
    let refused = stream.sender().answer_tool(&client_call.call_id, Ok(large.clone()), None).await.unwrap_err();
    assert!(refused.to_string().contains("16 MiB") && refused.hint.is_some(), "{refused}");
    // The question is still open.
    stream.sender().answer_tool(&client_call.call_id, Ok("small".to_owned()), None).await.unwrap();
    stream.to_the_end().await;
    assert_eq!(tool_texts(&world.model.requests().pop().unwrap()), "small");

    // A client that sends the picture anyway gets an error. Its tools end, and the turn continues without them.
    world.model.reply(buffer()).reply(Reply::text("On my own."));
    let tool = v1::ClientTool {
        name: "buffer".to_owned(),
        description: "The editor's buffer.".to_owned(),
        parameters_json: r#"{"type": "object"}"#.to_owned(),
        effect: v1::ClientToolEffect::Looks.into(),
    };
    let start = Start { text: Some("Look".to_owned()), tools: vec![tool], ..Start::default() };
    let answer = ToolAnswer { call_id: "any".to_owned(), outcome: Some(Outcome::Text(large)), picture: None };
    let frame = |command| v1::TurnRequest { command: Some(command) };
    let frames = vec![frame(Command::Start(start)), frame(Command::ToolAnswer(answer))];
    let events = super::bad_input::frames(&world, frames).await.unwrap();
    has_all(&format!("{events:?}"), &["is larger than 16 MiB", "command_refused"]);
    assert!(tool_texts(&world.model.requests().pop().unwrap()).contains("has disconnected"));
    world.still_serves().await;
}

#[tokio::test]
async fn turn_continues_after_its_tool_client_disconnects() {
    let world = World::start().await;
    world.model.reply(buffer()).reply(buffer()).reply(Reply::text("Without the editor."));
    let mut request = offering(vec![tool("buffer", false)]);
    request.start.on_interrupt = OnInterrupt::Approve;
    let mut stream = world.client().await.turn(request).await.unwrap();
    let session = stream.session_id().to_string();
    call(&mut stream).await;
    drop(stream);
    let mut events = world.client().await.subscribe(&session, 0, true).await.unwrap();
    let events = events.to_the_end().await;
    let EventKind::TurnEnded { result } = &events.last().unwrap().kind else { panic!() };
    assert_eq!(result.text, "Without the editor.");
    let text = tool_texts(&world.model.requests().pop().unwrap());
    assert_eq!(text.matches("has disconnected").count(), 2, "{text}");
}

#[tokio::test]
async fn kill_during_a_client_call_records_unknown_outcome() {
    let mut world = World::start().await;
    world.model.reply(buffer());
    let mut stream = world.client().await.turn(offering(vec![tool("buffer", true)])).await.unwrap();
    let session = stream.session_id().to_string();
    call(&mut stream).await;
    world.daemon.crash().await;
    let items = world.client().await.items(&session, 0, 100).await.unwrap();
    let result = items.iter().find_map(|numbered| match &numbered.item.body {
        ItemBody::ToolResult(result) => Some(result),
        _ => None,
    });
    assert_eq!(result.unwrap().error.unwrap().as_str(), "E_UNKNOWN_OUTCOME");
    world.still_serves().await;
}

#[tokio::test]
async fn cancel_and_plan_mode_apply_to_client_tools() {
    let world = World::start().await;
    world.model.reply(buffer());
    let mut stream = world.client().await.turn(offering(vec![tool("buffer", true)])).await.unwrap();
    let client_call = call(&mut stream).await;
    stream.sender().cancel().await.unwrap();
    let events = stream.to_the_end().await;
    let EventKind::TurnEnded { result } = &events.last().unwrap().kind else { panic!() };
    assert_eq!(result.stop_reason, StopReason::Cancelled);
    // A late response has no effect.
    let _ = stream.sender().answer_tool(&client_call.call_id, Ok(String::new()), None).await;
    assert_eq!(stream.next().await, Ok(None));

    world.model.reply(Reply::tool_call("client_apply", json!({"path": "a"}))).reply(Reply::text("Only a plan."));
    let mut request = offering(vec![tool("apply", false)]);
    request.session = SessionChoice::New(NewSession { mode: Some(SessionMode::Plan), ..NewSession::default() });
    let mut stream = world.client().await.turn(request).await.unwrap();
    let events = stream.to_the_end().await;
    let EventKind::TurnEnded { result } = &events.last().unwrap().kind else { panic!() };
    assert_eq!((result.text.as_str(), result.denials.len()), ("Only a plan.", 1));
}

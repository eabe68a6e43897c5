//! Parts that a client adds to an input, with a real daemon: pictures, files and selections.

use agentd_core::{
    error::ErrorKind,
    input::{InputPart, LineRange, PictureData, Selection},
};
use agentd_proto::{
    client::ClientError,
    v1::{self, input_part},
};

use super::{Events as _, *};

/// A picture of 40 × 20 pixels.
pub(super) const RED: &[u8] = include_bytes!("fixtures/red.png");

/// Starts a daemon with a separate model in the slot `vision`.
pub(super) async fn with_vision_model() -> World {
    World::prepared(|home| home.set("MODEL_MULTIMODAL_ID", "eyes")).await
}

fn picture(media_type: &str, content: &[u8]) -> InputPart {
    InputPart::Picture(PictureData { name: None, media_type: media_type.to_owned(), content: content.to_vec() })
}

fn file(name: &str, content: impl Into<Vec<u8>>) -> InputPart {
    InputPart::File { name: name.to_owned(), content: content.into() }
}

fn selection(uri: &str, lines: Option<(u32, u32)>, text: &str) -> InputPart {
    let lines = lines.map(|(first, last)| LineRange { first, last });
    InputPart::Selection(Selection { uri: uri.to_owned(), lines, text: text.to_owned() })
}

async fn start(world: &World, session: SessionChoice, parts: Vec<InputPart>) -> Result<TurnStream, ClientError> {
    world.client().await.turn_with_parts(turn(session, "Look at these."), parts, Default::default()).await
}

fn new() -> SessionChoice {
    SessionChoice::New(NewSession::default())
}

#[tokio::test]
async fn picture_file_and_selection_reach_the_model_and_persist() {
    let mut world = with_vision_model().await;
    world.model.default_reply(Reply::text("Red."));
    let parts = vec![
        picture("image/png", RED),
        file("notes.txt", "the needle is blue"),
        selection("src/main.rs", Some((10, 12)), "let colour = \"red\";"),
    ];
    let mut started = start(&world, new(), parts).await.unwrap();
    let session = started.session_id().to_string();
    started.to_the_end().await;
    let request = world.model.requests().pop().unwrap();
    assert_eq!(request.body["model"], "eyes", "pictures select the vision model");
    let messages = request.body["messages"].to_string();
    assert_eq!(messages.matches("data:image/png;base64,").count(), 1);
    assert!(
        messages.contains("[Selection: src/main.rs, lines 10 to 12]") && messages.contains("the needle is blue"),
        "{messages}"
    );
    // The picture is stored in an item, and available after a restart.
    world.daemon.crash().await;
    world.ok(["run", "Sure?", "--session", &session]).await;
    let before = request.messages();
    assert_eq!(&world.model.requests().pop().unwrap().messages()[..before.len()], before);
    has_all(
        &world.json(["sessions", "show", &session]).await.to_string(),
        &["src/main.rs:10-12", "uploads/picture.png"],
    );
    assert_eq!(world.read(&format!("data/workspace/{session}/uploads/notes.txt")), "the needle is blue");
}

#[tokio::test]
async fn refused_start_leaves_no_uploaded_files() {
    let world = World::start().await;
    let client = world.client().await;
    let session = client.create_session(&NewSession::default()).await.unwrap().session.summary.id.to_string();
    let existing = || SessionChoice::Existing(session.clone());
    start(&world, existing(), vec![file("notes.txt", "first")]).await.unwrap().to_the_end().await;
    let parts = || vec![file("notes.txt", "second"), picture("image/png", RED)];
    let mut refused = turn(existing(), "Look at these.");
    refused.start.options.allowed_tools = Some(vec!["no_such_tool".to_owned()]);
    let error = client.turn_with_parts(refused, parts(), Default::default()).await.unwrap_err();
    assert!(error.to_string().contains("no_such_tool"), "{error}");
    let uploads = fs::read_dir(world.path().join(format!("data/workspace/{session}/uploads"))).unwrap();
    let names: Vec<_> = uploads.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["notes.txt"], "only the accepted request stored its file");
    assert_eq!(world.read(&format!("data/workspace/{session}/uploads/notes.txt")), "first");
    // The next turn does not include any part of the rejected input.
    client.turn(turn(existing(), "And now?")).await.unwrap().to_the_end().await;
    let messages = world.model.requests().pop().unwrap().body["messages"].to_string();
    assert!(
        messages.contains("first") && !messages.contains("second") && !messages.contains("picture.png"),
        "{messages}"
    );
}

#[tokio::test]
async fn invalid_parts_are_refused_with_a_hint() {
    let world = with_vision_model().await;
    let check = async |parts: Vec<InputPart>, phrase: &str| {
        let error = start(&world, new(), parts).await.unwrap_err();
        assert_eq!(error.answered(), Some(ErrorKind::InvalidInput), "{error}");
        assert!(error.message.contains(phrase) && error.hint.is_some(), "{error} {:?}", error.hint);
    };
    check(vec![picture("image/png", b"no picture")], "its content is not a picture").await;
    check(vec![picture("image/png", &RED[..60])], "unreadable picture").await;
    check(vec![picture("image/svg+xml", b"<svg/>")], "which models do not accept").await;
    check(vec![picture("image/png", b"")], "empty").await;
    check(vec![file("a", vec![7; (8 << 20) + 1])], "at most 8 MiB").await;
    check(vec![selection("a.rs", Some((0, 2)), "x")], "invalid line range").await;
    check(vec![selection("a.rs", None, &"x".repeat(70_000))], "at most 64 KiB").await;
    // An unknown kind is reported, not skipped silently.
    let start = v1::turn_request::Start {
        text: Some("Hi".to_owned()),
        parts: vec![v1::InputPart { part: None }],
        ..Default::default()
    };
    let frame = v1::TurnRequest { command: Some(v1::turn_request::Command::Start(start)) };
    let refused = super::bad_input::frames(&world, vec![frame]).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    // Text in parts is used as the input.
    let text_part = |text: &str| v1::InputPart { part: Some(input_part::Part::Text(text.to_owned())) };
    let start = v1::turn_request::Start { parts: vec![text_part("one"), text_part("two")], ..Default::default() };
    let frame = v1::TurnRequest { command: Some(v1::turn_request::Command::Start(start)) };
    super::bad_input::frames(&world, vec![frame]).await.unwrap();
    assert_eq!(world.model.requests().pop().unwrap().last_user(), "one\ntwo");
    assert!(world.json(["sessions", "list"]).await.as_array().unwrap().len() == 1);
}

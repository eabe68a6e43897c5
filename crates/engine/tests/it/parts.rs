//! Parts of an input in addition to its text: stored, announced once, and rejected if invalid.

use agentd_core::{
    error::ErrorKind,
    input::{InputPart, LineRange, PictureData, Selection},
    turn::{IfBusy, StartTurn, StopReason},
};
use agentd_engine::{CheckedParts, EngineError, SessionHandle, StartedTurn};
use agentd_testkit::scripted::{Play, says};

use crate::world::{World, continuation, input, run, to_end, turn};

fn picture(content: &[u8]) -> InputPart {
    let media_type = "image/png".to_owned();
    InputPart::Picture(PictureData { name: None, media_type, content: content.to_vec() })
}

fn file(name: &str, content: &[u8]) -> InputPart {
    InputPart::File { name: name.to_owned(), content: content.to_vec() }
}

fn selection(uri: &str, lines: Option<(u32, u32)>, text: &str) -> InputPart {
    let lines = lines.map(|(first, last)| LineRange { first, last });
    InputPart::Selection(Selection { uri: uri.to_owned(), lines, text: text.to_owned() })
}

async fn checked(world: &World, parts: Vec<InputPart>) -> CheckedParts {
    world.engine.check_parts(parts).await.unwrap()
}

async fn start(
    world: &World,
    session: &SessionHandle,
    start: StartTurn,
    parts: Vec<InputPart>,
) -> Result<StartedTurn, EngineError> {
    world.engine.start_turn_with(session, start, checked(world, parts).await).await
}

#[tokio::test]
async fn queued_turn_keeps_its_input_parts() {
    let (world, session) = World::new([Play::Hangs(Vec::new())]).begun().await;
    let mut running = session.start_turn(input("First")).await.unwrap();
    let part = || vec![file("a.txt", b"the first needle"), selection("b.rs", None, "the second needle")];
    let queued = StartTurn { if_busy: IfBusy::Queue, ..input("Then") };
    let mut waiting = start(&world, &session, queued.clone(), part()).await.unwrap();
    // Only text can be added to a running turn, and no part of a rejected input is stored.
    for if_busy in [IfBusy::Refuse, IfBusy::Steer] {
        let refused = start(&world, &session, StartTurn { if_busy, ..input("Now") }, part()).await.err().unwrap();
        assert!(refused.hint().is_some(), "{refused}");
    }
    world.model.then(says("done"));
    session.cancel(Some(running.turn_id)).await.unwrap();
    to_end(&mut running.events).await;
    assert_eq!(to_end(&mut waiting.events).await.1.text, "done");
    let sent = world.sent_text();
    assert!(sent.contains("the first needle") && sent.contains("the second needle"), "{sent}");
    // A turn that never runs leaves its files to the next turn.
    world.model.then(Play::Hangs(Vec::new()));
    let mut running = session.start_turn(input("Third")).await.unwrap();
    let waiting = start(&world, &session, queued, vec![file("late.txt", b"the third needle")]).await.unwrap();
    session.cancel(Some(waiting.turn_id)).await.unwrap();
    session.cancel(Some(running.turn_id)).await.unwrap();
    to_end(&mut running.events).await;
    world.model.then(says("seen"));
    run(&session, "And?").await;
    assert!(world.sent_text().contains("the third needle"), "{}", world.sent_text());
}

#[tokio::test]
async fn invalid_parts_are_rejected_before_anything_is_stored() {
    let world = World::new([]);
    let check = async |parts: Vec<InputPart>, expected: &str| {
        let error = world.engine.check_parts(parts).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(expected) && error.hint().is_some(), "{error}");
    };
    check(vec![picture(b"BROKEN")], "the picture is damaged").await;
    let invalid = PictureData { media_type: "image/tiff\u{1b}".to_owned(), content: vec![1], ..PictureData::default() };
    check(vec![InputPart::Picture(invalid)], "\"image/tiff\\u{1b}\"").await;
    check(vec![file("", b"x")], "without a name").await;
    check(vec![file("a", b"")], "empty").await;
    check(vec![selection("a", None, "x"), file("a", &vec![0; (8 << 20) + 1])], "part 2 has 8388609 bytes").await;
    check(vec![selection("", None, "x")], "selection without a `uri`").await;
    check(vec![selection("a", None, " \n")], "empty selection").await;
    check(vec![selection(&"a".repeat(2000), None, "x")], "2000 bytes").await;
    check(vec![selection("a", Some((3, 2)), "x")], "invalid line range").await;
    check((0..21).map(|_| file("a", b"x")).collect(), "21 parts").await;
    // Parts without text are rejected, even if a turn could be continued.
    let failing = world.session().await;
    world.model.then(Play::Fails(Vec::new(), ErrorKind::Provider));
    run(&failing, "Hi").await;
    let refused = start(&world, &failing, continuation(), vec![selection("a", None, "x")]).await.err().unwrap();
    assert!(refused.to_string().contains("no text"), "{refused}");
}

#[tokio::test]
async fn continued_turn_keeps_its_input_parts() {
    let (world, session) = World::new([Play::Fails(Vec::new(), ErrorKind::Provider), says("seen")]).begun().await;
    let parts = vec![selection("a.rs", None, "the needle")];
    let mut started = start(&world, &session, input("Look"), parts).await.unwrap();
    assert_eq!(to_end(&mut started.events).await.1.stop_reason, StopReason::Failed);
    assert_eq!(turn(&session, continuation()).await.text, "seen");
    assert_eq!(world.sent_text().matches("the needle").count(), 1, "{}", world.sent_text());
}

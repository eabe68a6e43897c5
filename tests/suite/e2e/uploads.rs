//! Files that users attach: short texts are included completely, and pictures are shown to models that support them,
//! with a real daemon and client.

use agentd_core::files::UploadReceipt;
use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{
    Events as _,
    parts::{RED, with_vision_model},
    *,
};

/// Picture of 2000 × 1000 pixels that must be rotated by 90°. Its metadata contains the camera model.
const TURNED: &[u8] = include_bytes!("fixtures/turned.jpg");

/// Returns the media types and the bytes of the pictures in a request.
fn pictures_in(request: &Recorded) -> Vec<(String, Vec<u8>)> {
    let parts = request.messages().iter().flat_map(|message| message["content"].as_array().into_iter().flatten());
    let urls = parts.filter_map(|part| part["image_url"]["url"].as_str());
    let picture = |url: &str| {
        let (kind, data) = url.strip_prefix("data:").unwrap().split_once(";base64,").unwrap();
        (kind.to_owned(), BASE64_STANDARD.decode(data).unwrap())
    };
    urls.map(picture).collect()
}

fn body(request: &Recorded) -> String {
    request.body["messages"].to_string()
}

async fn upload(world: &World, session: &str, name: &str, content: &[u8]) -> UploadReceipt {
    world.client().await.upload(session, name, content).await.unwrap()
}

/// Creates a session without turns.
async fn session(world: &World) -> String {
    world.client().await.create_session(&NewSession::default()).await.unwrap().session.summary.id.to_string()
}

#[tokio::test]
async fn picture_is_rotated_scaled_and_shown_to_a_vision_model() {
    let mut world = with_vision_model().await;
    world.model.default_reply(Reply::text("Blue."));
    let session = session(&world).await;
    let small = upload(&world, &session, "red.png", RED).await.picture.unwrap();
    assert_eq!((small.media_type.as_str(), small.width, small.height), ("image/png", 40, 20));
    let large = upload(&world, &session, "turned.jpg", TURNED).await.picture.unwrap();
    assert_eq!((large.media_type.as_str(), large.width, large.height), ("image/jpeg", 784, 1568));
    // The uploaded file is still available after a restart.
    world.daemon.crash().await;
    let lines = world.ok(["run", "Which colour?", "--session", &session, "--output", "stream-json"]).await.json_lines();
    let started = lines.iter().find(|line| line["type"] == "turn_started").unwrap();
    assert_eq!((&started["slot"], &started["reason"]), (&"vision".into(), &"there are pictures".into()));
    let first = world.model.requests().pop().unwrap();
    assert_eq!(first.body["model"], "eyes");
    let pictures = pictures_in(&first);
    assert_eq!(pictures.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["image/png", "image/jpeg"]);
    assert_eq!(pictures[1].1.len() as u64, large.bytes);
    assert!(
        !pictures[1].1.windows(12).any(|bytes| bytes == b"CameraSecret"),
        "the metadata of the picture is not sent"
    );
    // The next turn repeats the message unchanged, with the picture in the same position.
    let lines = world.ok(["run", "Sure?", "--session", &session, "--output", "stream-json"]).await.json_lines();
    let report = lines.iter().find(|line| line["type"] == "usage_updated").unwrap();
    assert_eq!(report["prompt"]["broken_by"], Value::Null);
    let before = first.messages();
    assert_eq!(&world.model.requests().pop().unwrap().messages()[..before.len()], before);
}

#[tokio::test]
async fn missing_vision_model_is_reported_to_user_and_model() {
    let world = World::start().await;
    let red = world.write("red.png", RED);
    world.ok(["run", "Which colour?", "--file", red.to_str().unwrap()]).await.says(&["has no vision"]);
    let request = &world.model.requests()[0];
    assert!(pictures_in(request).is_empty() && body(request).contains("You cannot see pictures"), "{}", body(request));
}

#[tokio::test]
async fn short_texts_are_inlined_in_any_encoding() {
    let world = World::start().await;
    let gbk = world.write(
        "注.txt",
        b"\xbd\xf1\xcc\xec\xcc\xec\xc6\xf8\xba\xdc\xba\xc3\xa1\xa3\xce\xd2\xc3\xc7\xc8\xa5\xb9\xab\xd4\xb0\xa1\xa3\n",
    );
    let long = world.write("long.txt", "word ".repeat(4000));
    let binary = world.write("a.bin", [0, 159, 146, 150, 0]);
    let mut args = vec!["run", "Look"];
    for path in [&gbk, &long, &binary] {
        args.extend(["--file", path.to_str().unwrap()]);
    }
    world.ok(args).await;
    let input = body(&world.model.requests()[0]);
    assert!(input.contains("[File: uploads/注.txt]") && input.contains("今天天气很好"), "{input}");
    assert!(input.contains("- uploads/long.txt: read_file opens it") && !input.contains("word word"), "{input}");
    assert!(input.contains("- uploads/a.bin: read_file opens it"), "{input}");
}

#[tokio::test]
async fn invalid_pictures_are_harmless() {
    let world = with_vision_model().await;
    world.model.default_reply(Reply::text("Fine."));
    let session = session(&world).await;
    // A picture that declares 60,000 × 60,000 pixels in a few bytes, a truncated picture, and a file that is not a
    // picture.
    let huge = [&RED[..16], &60_000u32.to_be_bytes(), &60_000u32.to_be_bytes(), &RED[24..]].concat();
    let many = [&RED[..16], &20_000u32.to_be_bytes(), &20_000u32.to_be_bytes(), &RED[24..]].concat();
    for (name, content, says) in [
        ("huge.png", huge.as_slice(), Some("save it again")),
        ("many.png", many.as_slice(), Some("save it again")),
        ("cut.jpg", &TURNED[..400], Some("save it again")),
        ("none.png", b"not a picture", None),
    ] {
        let uploaded = upload(&world, &session, name, content).await;
        assert_eq!((uploaded.path, uploaded.picture), (format!("uploads/{name}"), None));
        assert_eq!(uploaded.problem.is_some(), says.is_some(), "{name}: {:?}", uploaded.problem);
        assert!(uploaded.problem.unwrap_or_default().contains(says.unwrap_or_default()), "{name}");
    }
    let mut events = world.client().await.turn(turn(SessionChoice::Existing(session), "Which colour?")).await.unwrap();
    let events = events.to_the_end().await;
    let warned = events.iter().any(|event| matches!(&event.kind, EventKind::Warning { .. }));
    assert!(!warned && pictures_in(&world.model.requests()[0]).is_empty(), "{events:#?}");
    world.still_serves().await;
}

#[tokio::test]
async fn chat_mention_uploads_the_file_once() {
    let world = with_vision_model().await;
    world.model.default_reply(Reply::text("Seen."));
    world.write("red one.png", RED);
    world.write("notes.txt", "the cat is out\n");
    world.write(".env", "KEY=hunter2\n");
    let root = world.path().display().to_string();
    let lines = format!(
        "What is in #{root}/red one.png, and what does #{root}/notes.txt say?\nAgain: #{root}/notes.txt and #{root}/.env!\n"
    );
    world.agentctl_with(["chat"], lines.as_bytes()).await.exits(0).says(&["is hidden and was not attached"]);
    let requests = world.model.requests();
    assert_eq!(pictures_in(&requests[0]).len(), 1);
    assert!(body(&requests[0]).contains("the cat is out"), "{}", body(&requests[0]));
    // An unchanged file is not uploaded again, and a hidden file is not uploaded at all.
    assert_eq!(body(&requests[1]).matches("the cat is out").count(), 1);
    assert!(!body(&requests[1]).contains("hunter2"));
}

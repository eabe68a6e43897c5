//! Uploaded files: announced once with the next input, and shown to models with vision.

use std::sync::Arc;

use agentd_core::{
    context::CompactionStrategy,
    error::ErrorKind,
    files::UploadReceipt,
    model::{Message, ModelInfo, Slot},
    ports::Model as _,
    turn::{StartTurn, StopReason},
};
use agentd_engine::SessionHandle;
use agentd_testkit::scripted::{Play, ScriptedModel, says};

use crate::world::{TwoModels, World, continuation, prompts, run, sized, turn};

fn requests(model: &ScriptedModel) -> Vec<Vec<Message>> {
    model.requests().into_iter().map(|request| request.messages).collect()
}

/// Returns the contents of the pictures in a request.
fn shown(messages: &[Message]) -> Vec<Vec<u8>> {
    let pictures = messages.iter().filter_map(|message| match message {
        Message::Pictures { pictures, .. } => Some(pictures),
        _ => None,
    });
    pictures.flatten().map(|shown| shown.content.as_deref().unwrap().to_vec()).collect()
}

async fn upload(world: &World, session: &SessionHandle, name: &str, content: &[u8]) -> UploadReceipt {
    world.engine.upload(session.id(), name.to_owned(), content.to_vec()).await.unwrap()
}

#[tokio::test]
async fn uploads_are_announced_once_with_the_next_input() {
    let (world, session) = World::new([]).begun().await;
    upload(&world, &session, "a.pdf", &[1]).await;
    // Another daemon finds the file in the journal, and a turn that only compacts does not announce it.
    let world = world.restarted_with_files([Play::Fails(Vec::new(), ErrorKind::Provider), says("two"), says("three")]);
    let session = world.engine.session(session.id()).await.unwrap();
    turn(&session, StartTurn { compact: Some(CompactionStrategy::Auto), ..continuation() }).await;
    assert_eq!(run(&session, "What is in it?").await.stop_reason, StopReason::Failed);
    turn(&session, continuation()).await;
    run(&session, "And now?").await;
    for messages in requests(&world.model) {
        let sent = format!("{messages:?}");
        assert_eq!(sent.matches("- uploads/a.pdf").count(), 1, "{sent}");
        let at = messages.iter().position(|message| format!("{message:?}").contains("a.pdf")).unwrap();
        assert_eq!(messages[at + 1], Message::User { text: "What is in it?".to_owned() });
    }
    assert!(prompts(&world, &session).iter().all(|report| report.broken_by.is_none()));
}

#[tokio::test]
async fn pictures_stay_with_the_vision_model() {
    let base = sized("words", 8192, [says("no")]);
    let eyes = ModelInfo { id: "eyes".to_owned(), sees_pictures: true, ..base.info().clone() };
    let vision = ScriptedModel::with_info(eyes, ["one", "two", "three"].map(says));
    let (slot, other) = (Slot::Vision, Arc::clone(&vision));
    let world = World::with_models(Arc::new(TwoModels { base: Arc::clone(&base), slot, other, listed: false }));
    let session = world.session().await;
    let uploaded = upload(&world, &session, "a.png", b"PICTURE one").await;
    assert_eq!(uploaded.picture.unwrap().media_type, "image/png");
    assert_eq!(run(&session, "What is it?").await.text, "one");
    let second = upload(&world, &session, "b.png", b"PICTURE number two").await;
    assert_eq!(run(&session, "And this?").await.text, "two");
    let vision_requests = requests(&vision);
    assert_eq!(shown(&vision_requests[0]), [b"PICTURE one".to_vec()]);
    assert_eq!(shown(&vision_requests[1]), [b"PICTURE one".to_vec(), b"PICTURE number two".to_vec()]);
    // Sent messages are repeated byte for byte.
    assert_eq!(vision_requests[0][..], vision_requests[1][..vision_requests[0].len()]);
    // A missing picture is omitted, and the text says so.
    world.workspaces.lose(&second.picture.unwrap().path);
    assert_eq!(run(&session, "Once more?").await.text, "three");
    assert_eq!(shown(&requests(&vision)[2]), [b"PICTURE one".to_vec()]);
    assert!(format!("{:?}", requests(&vision)[2]).contains("Some of these pictures"));
    // An explicitly named slot is used.
    turn(&session, StartTurn { slot: Some(Slot::Base), text: Some("In words?".to_owned()), ..continuation() }).await;
    let sent = requests(&base);
    assert!(shown(&sent[0]).is_empty() && format!("{sent:?}").contains("You cannot see pictures"), "{sent:?}");
}

//! Uploaded files that are pictures: shown to models with vision only.

use std::sync::Arc;

use agentd_core::{
    files::UploadReceipt,
    model::{Message, ModelInfo, Slot},
    ports::Model as _,
    turn::StartTurn,
};
use agentd_engine::SessionHandle;
use agentd_testkit::scripted::{ScriptedModel, says};

use crate::world::{TwoModels, World, continuation, run, sized, turn};

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

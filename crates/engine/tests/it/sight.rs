//! Pictures in results: shown to models that accept pictures, described for others.

use std::sync::Arc;

use agentd_core::{
    event::EventKind,
    model::{Message, Slot},
    usage::Usage,
};
use agentd_testkit::scripted::{OneModel, Play, ScriptedModel, calls, says};
use serde_json::json;

use crate::world::{TwoModels, World, run, seeing, shown_in_results, sized};

/// Returns a call whose result has two pieces of data with this content.
fn look(content: &str) -> Play {
    calls(&[("look", json!({"data": content}))])
}

fn results(model: &ScriptedModel) -> Vec<String> {
    let messages = model.requests().pop().unwrap().messages;
    let text = |message| if let Message::Tool { text, .. } = message { Some(text) } else { None };
    messages.into_iter().filter_map(text).collect()
}

#[tokio::test]
async fn pictures_of_a_result_are_part_of_it() {
    let eyes = seeing([look("PICTURE of a barn"), look("BROKEN"), look("a film"), says("A barn.")]);
    let world = World::with_models(Arc::new(OneModel(Arc::clone(&eyes) as _)));
    let session = world.session().await;
    assert_eq!(run(&session, "What is it?").await.text, "A barn.");
    assert_eq!(shown_in_results(&eyes.requests().pop().unwrap()), [&b"PICTURE of a barn"[..]; 2]);
    let results = results(&eyes);
    assert!(results[0].contains("and shown as 30 × 25 (/large_tool_results/picture-17.png)]"), "{results:?}");
    assert!(results[1].contains("and not shown: the picture is damaged; save it again]"), "{results:?}");
    assert!(results[2].contains("is not shown: it is stored in /large_tool_results/"), "{results:?}");
}

#[tokio::test]
async fn old_pictures_leave_the_request_in_strides() {
    let pieces = 12;
    let looks = (0..pieces).map(|number| look(&format!("PICTURE{}", "x".repeat(number))));
    let eyes = seeing(looks.chain([says("Seen.")]));
    let world = World::with_models(Arc::new(OneModel(Arc::clone(&eyes) as _)));
    let session = world.session().await;
    run(&session, "Look at all of them.").await;
    // Each result has two pictures. A request has at most 20, and they leave by tens.
    let sent: Vec<usize> = eyes.requests().iter().map(|request| shown_in_results(request).len()).collect();
    assert_eq!(sent, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 12, 14]);
    assert!(results(&eyes)[0].ends_with("(Some of these pictures are no longer shown.)"), "{:?}", results(&eyes));
}

#[tokio::test]
async fn vision_slot_describes_pictures_within_the_turn() {
    let base = sized("words", 8192, [look("PICTURE of a barn"), look("PICTURE of a barn"), says("A barn.")]);
    let eyes = seeing([says("A red barn."), says("A red barn.")]);
    let (slot, other) = (Slot::Vision, Arc::clone(&eyes));
    let world = World::with_models(Arc::new(TwoModels { base: Arc::clone(&base), slot, other, listed: false }));
    let session = world.session().await;
    assert_eq!(run(&session, "What is it?").await.text, "A barn.");
    let results = results(&base);
    assert!(results[0].contains("because you cannot see pictures: A red barn.]"), "{results:?}");
    assert_eq!(
        results[1].matches("and described above (/large_tool_results/picture-17.png)]").count(),
        2,
        "{results:?}"
    );
    assert!(base.requests().iter().all(|request| shown_in_results(request).is_empty()));
    let asked = eyes.requests();
    assert!(asked.len() == 2 && asked[0].messages[1].pictures()[0].content.is_some(), "{asked:?}");
    let of_eyes = world.facts(&session, |kind| match kind {
        EventKind::UsageUpdated { slot: Slot::Vision, usage, .. } => Some(*usage),
        _ => None,
    });
    assert!(of_eyes.len() == 1 && of_eyes[0] != Usage::default(), "{of_eyes:?}");
}

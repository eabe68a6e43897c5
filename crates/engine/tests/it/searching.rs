//! What a model no longer sees of its session it finds by its words, and nothing of other sessions.

use agentd_core::model::Message;
use agentd_testkit::scripted::{calls, says};
use serde_json::{Value, json};

use crate::world::{World, run};

/// What the tool says to these arguments.
async fn said(world: &World, session: &agentd_engine::SessionHandle, arguments: Value) -> String {
    world.model.then(calls(&[("search_history", arguments)]));
    world.model.then(says("I see."));
    run(session, "Look!").await;
    let request = world.model.requests().pop().unwrap();
    let texts = request.messages.iter().rev();
    let mut results = texts.filter_map(|message| match message {
        Message::Tool { text, .. } => Some(text.clone()),
        _ => None,
    });
    results.next().unwrap()
}

#[tokio::test]
async fn the_model_searches_its_own_session_only() {
    let world = World::new([says("Noted."), says("Noted, too.")]);
    let (mine, other) = (world.session().await, world.session().await);
    run(&mine, "The blue door has code 4711.").await;
    run(&other, "The blue house is secret.").await;
    mine.reset().await.unwrap();
    let found = said(&world, &mine, json!({"query": "blue"})).await;
    assert!(found.contains("person] The blue door has code 4711."), "{found}");
    assert!(!found.contains("secret"), "{found}");
    assert!(said(&world, &mine, json!({"query": "nowhere to be found"})).await.contains("nothing was found"));
    assert!(said(&world, &mine, json!({"query": "* ( \""})).await.contains("no word"));
    assert!(said(&world, &mine, json!({"words": "blue"})).await.contains("nothing was searched"));
    let found = said(&world, &mine, json!({"query": "blue", "limit": 1})).await;
    assert_eq!(found.lines().count(), 1, "{found}");
}

//! Models of a session that are chosen by ID from the server of its slot.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use agentd_core::{
    error::ErrorKind,
    model::{Message, ModelInfo, Slot, SlotInfo},
    ports::{Model, Models, Store as _},
    session::SessionSettings,
    turn::{StartTurn, StopReason},
};
use agentd_engine::SessionHandle;
use agentd_testkit::scripted::{ScriptedModel, calls, says};
use serde_json::json;

use crate::world::{World, input, run, sized, to_end, turn};

/// A server with several models in the base slot, another model in `code` and `chat`, and a built-in model for
/// pictures.
struct Servers {
    own: BTreeMap<Slot, Arc<ScriptedModel>>,
    named: BTreeMap<&'static str, Arc<ScriptedModel>>,
    /// True if the server of the base slot has gone down.
    is_gone: AtomicBool,
}

impl Models for Servers {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        Arc::clone(self.own.get(&slot).unwrap_or(&self.own[&Slot::Base])) as _
    }

    fn named(&self, slot: Slot, id: &str) -> Option<Arc<dyn Model>> {
        let has_server = slot == Slot::Base && !self.is_gone.load(Ordering::Relaxed);
        let model = has_server.then(|| self.named.get(id)).flatten()?;
        Some(Arc::clone(model) as _)
    }

    fn list(&self) -> Vec<SlotInfo> {
        let of = |slot| SlotInfo { slot, falls_back_to: None, model: self.get(slot).info().clone() };
        Slot::ALL.into_iter().map(of).collect()
    }
}

async fn world() -> (World, SessionHandle, Arc<Servers>) {
    let own = [("base", Slot::Base), ("coder", Slot::Code), ("talker", Slot::Chat)].into_iter();
    let built_in = ModelInfo { id: "built-in".to_owned(), embedded: true, ..ScriptedModel::new([]).info().clone() };
    let built_in = ScriptedModel::with_info(built_in, []);
    let servers = Arc::new(Servers {
        own: own.map(|(id, slot)| (slot, sized(id, 8192, []))).chain([(Slot::Vision, built_in)]).collect(),
        named: ["big", "small"].map(|id| (id, sized(id, 100_000, []))).into(),
        is_gone: AtomicBool::new(false),
    });
    let (world, session) = World::with_models(Arc::clone(&servers) as _).begun().await;
    (world, session, servers)
}

#[tokio::test]
async fn running_turn_keeps_its_model_when_another_is_set() {
    let (world, session, servers) = world().await;
    servers.own[&Slot::Base].then_all([calls(&[("hold", json!({}))]), says("Base to the end.")]);
    let mut started = session.start_turn(input("Wait")).await.unwrap();
    world.tools.began(1).await;
    session.set_model(None, Some("big".to_owned())).await.unwrap();
    world.tools.release(1);
    assert_eq!(to_end(&mut started.events).await.1.text, "Base to the end.");
    servers.named["big"].then(says("Big now."));
    assert_eq!(run(&session, "And now?").await.text, "Big now.");
}

#[tokio::test]
async fn chosen_model_applies_to_its_slot_only() {
    let (_world, session, servers) = world().await;
    session.set_model(None, Some("big".to_owned())).await.unwrap();
    servers.own[&Slot::Code].then(says("Coder here."));
    let start = StartTurn { slot: Some(Slot::Code), ..input("Write code") };
    assert_eq!(turn(&session, start).await.text, "Coder here.");

    // Changing other settings keeps the chosen model. Changing the slot resets it, because each slot has its own
    // server.
    let settings = session.show().await.unwrap().session.settings;
    session.configure(SessionSettings { confirm_write: false, model: None, ..settings.clone() }).await.unwrap();
    assert_eq!(session.show().await.unwrap().session.settings.model.as_deref(), Some("big"));
    session.configure(SessionSettings { slot: Some(Slot::Code), ..settings }).await.unwrap();
    assert_eq!(session.show().await.unwrap().session.settings.model, None);
}

#[tokio::test]
async fn chosen_model_writes_the_final_answer() {
    let (_world, session, servers) = world().await;
    session.set_model(None, Some("big".to_owned())).await.unwrap();
    servers.named["big"].then_all([calls(&[("look", json!({}))]), says("What I saw.")]);
    let result = turn(&session, StartTurn { max_steps: Some(1), ..input("Look around") }).await;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::MaxSteps, "What I saw."));
}

#[tokio::test]
async fn invalid_model_choice_is_rejected_with_a_hint() {
    let (world, session, servers) = world().await;
    let refused = async |slot, id: &str| session.set_model(slot, Some(id.to_owned())).await.unwrap_err();
    let error = refused(Some(Slot::Vision), "big").await;
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("built-in model") && error.hint().unwrap().contains("models.yaml"), "{error}");
    let error = refused(Some(Slot::Code), "big").await;
    assert!(error.to_string().contains("not chosen by id"), "{error}");
    for invalid in ["", "  ", "a\nb", "\u{1b}[2J", &"x".repeat(300)] {
        assert_eq!(refused(None, invalid).await.kind(), ErrorKind::InvalidInput, "{invalid:?}");
    }
    let before = session.show().await.unwrap().session;
    assert_eq!((before.settings.slot, before.settings.model), (None, None));
    let settings =
        SessionSettings { slot: Some(Slot::Vision), model: Some("big".to_owned()), ..world.engine.session_defaults() };
    assert!(world.engine.create_session(settings.clone(), None).await.is_err());
    assert!(world.engine.start_session_with(settings, input("Hi"), Default::default()).await.is_err());

    // A turn does not fall back to another model if the chosen model is gone.
    session.set_model(None, Some("big".to_owned())).await.unwrap();
    servers.is_gone.store(true, Ordering::Relaxed);
    let error = session.start_turn(input("Hi")).await.err().unwrap();
    assert!(error.kind() == ErrorKind::Configuration && error.hint().unwrap().contains("/model default"), "{error}");
    session.set_model(None, None).await.unwrap();
    servers.own[&Slot::Base].then(says("Base here."));
    assert_eq!(run(&session, "Hi").await.text, "Base here.");
}

#[tokio::test]
async fn subagents_of_the_same_slot_use_the_chosen_model() {
    let (world, session, servers) = world().await;
    servers.named["big"].respond_with(|request| {
        let is_child =
            matches!(&request.messages[0], Message::System { text } if text.contains("work for another agent"));
        match request.messages.last() {
            Some(Message::Tool { .. }) => says("All is done."),
            _ if is_child => says(&"The report of the part, in which all was found in order. ".repeat(6)),
            _ => calls(&[("delegate_task", json!({"task": "Look at the part"}))]),
        }
    });
    session.set_model(None, Some("big".to_owned())).await.unwrap();
    assert_eq!(run(&session, "Have it done").await.text, "All is done.");
    assert_eq!(servers.named["big"].requests().len(), 3);
    let child = world.store.children(session.id()).await.unwrap().pop().unwrap();
    let child = world.engine.session(child.id).await.unwrap();
    let error = child.set_model(None, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[tokio::test]
async fn input_limit_follows_the_chosen_models_window() {
    let (_world, session, servers) = world().await;
    session.set_model(None, Some("big".to_owned())).await.unwrap();
    servers.named["big"].then(says("Read."));
    let long = "many words ".repeat(5000);
    run(&session, &long).await;
    let request = servers.named["big"].requests().remove(0);
    let is_input = |message: &Message| matches!(message, Message::User { text } if *text == long);
    assert!(request.messages.iter().any(is_input), "the input exceeds the window of the base model");
}

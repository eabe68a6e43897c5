//! The choice of a turn's model, and of a fallback if its server does not answer.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentd_core::{
    error::ErrorKind,
    event::EventKind,
    model::{ModelChunk, Slot, SlotInfo},
    ports::{FallbackModel, Model, Models},
    routing::{ChoiceRule, Intent, IntentKind},
    session::SessionSettings,
    turn::{StartTurn, StopReason},
    usage::Usage,
};
use agentd_engine::{EngineConfig, SessionHandle};
use agentd_testkit::scripted::{Play, ScriptedModel, calls, says};
use serde_json::json;
use tokio::sync::Notify;

use crate::world::{World, input, run, sized, to_end, turn, until};

/// Separate models for some slots, and fallbacks for the base slot.
struct Slots {
    own: BTreeMap<Slot, Arc<ScriptedModel>>,
    fallbacks: Vec<Arc<ScriptedModel>>,
}

impl Models for Slots {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        Arc::clone(self.own.get(&slot).unwrap_or(&self.own[&Slot::Base])) as _
    }

    fn list(&self) -> Vec<SlotInfo> {
        let falls_back_to = |slot| (!self.own.contains_key(&slot)).then_some(Slot::Base);
        let of = |slot| SlotInfo { slot, falls_back_to: falls_back_to(slot), model: self.get(slot).info().clone() };
        Slot::ALL.into_iter().map(of).collect()
    }

    fn fallbacks(&self, slot: Slot) -> Vec<FallbackModel> {
        let models = self.fallbacks.iter().filter(|_| slot == Slot::Base);
        models.map(|model| FallbackModel { slot, model: Arc::clone(model) as _ }).collect()
    }
}

async fn slots(own: &[Slot], fallbacks: &[&str]) -> (World, SessionHandle, Arc<Slots>) {
    let model = |id: &str| sized(id, 8192, []);
    let own = own.iter().map(|slot| (*slot, model(slot.as_str()))).collect();
    let models = Arc::new(Slots { own, fallbacks: fallbacks.iter().map(|id| model(id)).collect() });
    let (world, session) = World::with_models(Arc::clone(&models) as _).begun().await;
    (world, session, models)
}

/// Returns the chosen models in the journal in order, each with its rule.
fn choices(world: &World, session: &SessionHandle) -> Vec<(String, ChoiceRule)> {
    world.facts(session, |kind| match kind {
        EventKind::TurnStarted { model, rule, .. } | EventKind::ModelChosen { model, rule, .. } => {
            Some((model.clone(), *rule))
        }
        _ => None,
    })
}

fn intents(world: &World, session: &SessionHandle) -> Vec<Intent> {
    world.facts(session, |kind| match kind {
        EventKind::IntentClassified { intent } => Some(intent.clone()),
        _ => None,
    })
}

fn chosen(choices: &[(&str, ChoiceRule)]) -> Vec<(String, ChoiceRule)> {
    choices.iter().map(|(model, rule)| ((*model).to_owned(), *rule)).collect()
}

fn fails(kind: ErrorKind) -> Play {
    Play::Fails(Vec::new(), kind)
}

#[tokio::test]
async fn turn_routes_by_intent_and_stays_on_its_model() {
    let (world, session, models) = slots(&Slot::ALL, &[]).await;
    let say = |slot| models.own[&slot].then(says("Done."));
    say(Slot::Base);
    run(&session, "hello").await;
    say(Slot::Code);
    run(&session, "fix the bug in src/main.rs").await;
    say(Slot::Code);
    run(&session, "and now?").await;
    say(Slot::Reasoning);
    run(&session, "Design a strategy for the whole company, and weigh the trade-offs step by step").await;
    say(Slot::Base);
    turn(&session, StartTurn { slot: Some(Slot::Base), ..input("fix src/main.rs") }).await;
    say(Slot::Base);
    run(&session, "thanks").await;
    let expected = [
        ("base", ChoiceRule::Default),
        ("code", ChoiceRule::Code),
        ("code", ChoiceRule::Kept),
        ("reasoning", ChoiceRule::ComplexTask),
        ("base", ChoiceRule::Client),
        ("base", ChoiceRule::Default),
    ];
    assert_eq!(choices(&world, &session), chosen(&expected));
    let intents: Vec<IntentKind> = intents(&world, &session).iter().map(|intent| intent.kind).collect();
    assert_eq!(intents.len(), 6, "{intents:?}");
    assert_eq!(intents[..3], [IntentKind::GeneralChat, IntentKind::CodingTask, IntentKind::Uncertain]);
}

#[tokio::test]
async fn routed_slot_survives_restart_and_ends_with_reset() {
    let (world, session, models) = slots(&[Slot::Base, Slot::Code], &[]).await;
    models.own[&Slot::Code].then(says("Done."));
    run(&session, "fix the bug in src/main.rs").await;
    let (second, session) = world.restarted_with(Arc::clone(&models) as _).with_session(session.id()).await;
    models.own[&Slot::Code].then(says("Yes."));
    assert_eq!(run(&session, "sure?").await.text, "Yes.");
    session.reset().await.unwrap();
    models.own[&Slot::Base].then(says("Hm."));
    assert_eq!(run(&session, "sure?").await.text, "Hm.");
    let expected = [("code", ChoiceRule::Code), ("code", ChoiceRule::Kept), ("base", ChoiceRule::Default)];
    assert_eq!(choices(&second, &session), chosen(&expected));
}

#[tokio::test]
async fn session_slot_overrides_intent_routing() {
    let (world, _, models) = slots(&Slot::ALL, &[]).await;
    let settings = SessionSettings { slot: Some(Slot::Vision), ..SessionSettings::default() };
    let session = world.engine.create_session(settings, None).await.unwrap();
    models.own[&Slot::Vision].then(says("Done."));
    run(&session, "fix the bug in src/main.rs").await;
    assert_eq!(choices(&world, &session), chosen(&[("vision", ChoiceRule::Session)]));
}

#[tokio::test]
async fn chat_slot_writes_final_answer_of_a_routed_turn() {
    let (world, session, models) = slots(&[Slot::Base, Slot::Code, Slot::Chat], &[]).await;
    models.own[&Slot::Code].then(calls(&[("look", json!({}))]));
    models.own[&Slot::Chat].then(says("That is all."));
    let result = turn(&session, StartTurn { max_steps: Some(1), ..input("fix the bug in src/main.rs") }).await;
    assert_eq!((result.text.as_str(), result.stop_reason), ("That is all.", StopReason::MaxSteps));
    let expected = [("code", ChoiceRule::Code), ("chat", ChoiceRule::LastAnswer)];
    assert_eq!(choices(&world, &session), chosen(&expected));
}

#[tokio::test(start_paused = true)]
async fn unreachable_model_falls_back_to_the_next() {
    let (world, session, models) = slots(&[Slot::Base], &["spare", "last"]).await;
    let (base, spare) = (&models.own[&Slot::Base], &models.fallbacks[0]);
    base.then(calls(&[("look", json!({}))]));
    base.then(fails(ErrorKind::Unreachable));
    spare.then(says("Here I am."));
    let result = run(&session, "Look").await;
    assert_eq!((result.text.as_str(), result.stop_reason, result.steps), ("Here I am.", StopReason::Completed, 2));
    assert!(base.requests().iter().all(|request| request.has_fallback));
    assert!(
        spare.requests()[0].messages.len() > base.requests()[0].messages.len(),
        "the request includes the result of the call"
    );
    // The model is skipped for a while and then tried again.
    spare.then(says("Still here."));
    assert_eq!(run(&session, "And now?").await.text, "Still here.");
    assert_eq!(base.requests().len(), 2);
    tokio::time::advance(Duration::from_secs(61)).await;
    base.then(says("Back again."));
    assert_eq!(run(&session, "And now?").await.text, "Back again.");
    let expected = [
        ("base", ChoiceRule::Default),
        ("spare", ChoiceRule::Fallback),
        ("base", ChoiceRule::Default),
        ("spare", ChoiceRule::Fallback),
        ("base", ChoiceRule::Default),
    ];
    assert_eq!(choices(&world, &session), chosen(&expected));
}

#[tokio::test]
async fn turn_fails_with_the_last_error_if_all_models_fail() {
    let (world, session, models) = slots(&[Slot::Base], &["spare", "last"]).await;
    models.own[&Slot::Base].then(fails(ErrorKind::Provider));
    models.fallbacks[0].then(fails(ErrorKind::RateLimited));
    models.fallbacks[1].then(fails(ErrorKind::Timeout));
    let result = run(&session, "Hi").await;
    let error = result.error.unwrap();
    assert_eq!((result.stop_reason, error.kind), (StopReason::Failed, ErrorKind::Timeout));
    let fallbacks = choices(&world, &session).into_iter().filter(|(_, rule)| *rule == ChoiceRule::Fallback);
    assert_eq!(fallbacks.count(), 2);
}

#[tokio::test]
async fn rejected_and_cut_answers_do_not_fall_back() {
    for play in [
        fails(ErrorKind::Auth),
        fails(ErrorKind::Rejected),
        Play::Fails(vec![ModelChunk::Text("I was".into())], ErrorKind::CutStream),
        Play::Fails(vec![ModelChunk::Reasoning("Hm".into())], ErrorKind::CutStream),
    ] {
        let (_world, session, models) = slots(&[Slot::Base], &["spare"]).await;
        models.own[&Slot::Base].then(play);
        assert_eq!(run(&session, "Hi").await.stop_reason, StopReason::Failed);
        assert!(models.fallbacks[0].requests().is_empty());
    }
}

#[tokio::test]
async fn final_answer_falls_back_to_turn_model_or_fallback() {
    for is_down in [false, true] {
        let (_world, session, models) = slots(&[Slot::Base, Slot::Chat], &["spare"]).await;
        models.own[&Slot::Base].then(calls(&[("look", json!({}))]));
        models.own[&Slot::Chat].then(fails(ErrorKind::Unreachable));
        models.own[&Slot::Base].then(if is_down { fails(ErrorKind::Unreachable) } else { says("That is all.") });
        models.fallbacks[0].then(says("That is all."));
        let result = turn(&session, StartTurn { max_steps: Some(1), ..input("Look") }).await;
        assert_eq!((result.text.as_str(), result.stop_reason), ("That is all.", StopReason::MaxSteps));
        assert_eq!(models.fallbacks[0].requests().len(), usize::from(is_down));
    }
}

#[tokio::test]
async fn cancel_during_fallback_lets_the_next_turn_run() {
    let (_world, session, models) = slots(&[Slot::Base], &["spare"]).await;
    let gate = Arc::new(Notify::new());
    models.own[&Slot::Base].then(fails(ErrorKind::Unreachable));
    models.fallbacks[0].then(Play::Waits(gate, Vec::new()));
    let mut started = session.start_turn(input("Hi")).await.unwrap();
    until(&mut started.events, |kind| matches!(kind, EventKind::ModelChosen { .. })).await;
    models.fallbacks[0].asked(1).await;
    session.cancel(None).await.unwrap();
    assert_eq!(to_end(&mut started.events).await.1.stop_reason, StopReason::Cancelled);
    models.fallbacks[0].then(says("Yes."));
    assert_eq!(run(&session, "Again").await.text, "Yes.");
}

#[tokio::test]
async fn unclear_intent_is_classified_by_a_model_if_enabled() {
    let (world, session, models) = slots(&[Slot::Base, Slot::Code, Slot::Chat], &[]).await;
    world.engine.reconfigure(EngineConfig { ask_intent: true, ..EngineConfig::default() });
    let usage = Usage { prompt_tokens: 90, completion_tokens: 3, ..Usage::default() };
    let counted_text = |text: &str| Play::Chunks(vec![ModelChunk::Text(text.into()), ModelChunk::Usage(usage)]);
    models.own[&Slot::Chat].then(counted_text("CODING_TASK."));
    models.own[&Slot::Code].then(says("Done."));
    let result = run(&session, "the second one").await;
    assert_eq!((result.text.as_str(), result.usage.prompt_tokens), ("Done.", 90));
    assert_eq!(choices(&world, &session), chosen(&[("code", ChoiceRule::Code)]));
    assert_eq!(intents(&world, &session)[0].by.as_deref(), Some("chat"));
    // A clear intent is not sent to a model, and a failed request leaves it unchanged.
    models.own[&Slot::Code].then(says("Done."));
    run(&session, "fix src/main.rs").await;
    assert_eq!(models.own[&Slot::Chat].requests().len(), 1);
    models.own[&Slot::Chat].then(fails(ErrorKind::Unreachable));
    models.own[&Slot::Code].then(says("Yes."));
    assert_eq!(run(&session, "sure?").await.text, "Yes.");
}

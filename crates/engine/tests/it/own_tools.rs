//! Tools that are answered by links. Their calls are judged like all others, and run without a question if no rule
//! matches.

use std::sync::Arc;

use agentd_core::interrupt::{Answer, Ask};
use agentd_engine::EngineConfig;
use agentd_testkit::{
    memory_store::MemoryStore,
    scripted::{Play, calls, says},
};
use serde_json::json;

use crate::{
    grants::{answer, asked, question},
    policy::compiled,
    world::{World, answer_and_follow, run, to_end},
};

fn rules(yaml: &str) -> EngineConfig {
    EngineConfig { policy: Arc::new(compiled(yaml)), ..EngineConfig::default() }
}

/// Builds a rule file section that matches every call to a tool.
fn rule_for_every_call(tool: &str, action: &str) -> String {
    format!("tools: {{{tool}: {{patterns: {{high_risk: ['.*']}}, actions: {{high_risk: {action}}}}}}}\n")
}

fn own_calls() -> [(&'static str, serde_json::Value); 5] {
    [
        ("todo_write", json!({"todos": [{"content": "paint", "status": "pending"}]})),
        ("todo_read", json!({})),
        ("search_history", json!({"query": "paint"})),
        ("compact_context", json!({})),
        ("ask_human", json!({"question": "Which colour?"})),
    ]
}

#[tokio::test]
async fn session_tools_run_without_approval_by_default() {
    for default in ["allow", "deny"] {
        let script = [calls(&own_calls()[..4]), says("Well.")];
        let world = World::with(rules(&format!("global: {{default_action: {default}}}\n")), script);
        let session = world.session().await;
        assert!(run(&session, "Go!").await.denials.is_empty());
        let log = world.log(&session);
        assert!(log.contains("todos: 1") && !log.contains(" ? "), "{log}");
        let decisions = world.audit.decisions();
        assert_eq!((decisions.len(), decisions.iter().all(|decision| decision.allowed)), (4, true), "{decisions:?}");
        assert!(decisions.iter().all(|decision| decision.rule.is_some()), "{decisions:?}");
    }
}

#[tokio::test]
async fn session_tool_with_prompt_rule_runs_after_approval() {
    let [write, ..] = own_calls();
    let world = World::with(rules(&rule_for_every_call("todo_write", "prompt")), [calls(&[write]), says("Well.")]);
    let session = world.session().await;
    let (mut started, interrupt) = asked(&session).await;
    let Ask::Approval { preview, .. } = &interrupt.ask else { panic!("{interrupt:?}") };
    assert_eq!(preview.as_deref(), Some("[ ] 1. paint\n"));
    assert!(!world.log(&session).contains("todos: 1"), "nothing changes before the answer");
    answer(&session, &interrupt, Answer::Approve).await.unwrap();
    to_end(&mut started.events).await;
    assert!(world.log(&session).contains("todos: 1"));
    let [decision] = &world.audit.decisions()[..] else { panic!() };
    assert_eq!((decision.allowed, decision.answer.clone()), (true, Some(Answer::Approve)));
}

/// Creates a world in which questions of the model need approval.
fn world_with_prompt_rule(store: &Arc<MemoryStore>, script: impl IntoIterator<Item = Play>) -> World {
    World::on(Arc::clone(store), rules(&rule_for_every_call("ask_human", "prompt")), script)
}

#[tokio::test]
async fn ask_human_with_approval_survives_restarts() {
    let (world, session) = world_with_prompt_rule(&Arc::default(), [calls(&own_calls()[4..])]).begun().await;
    let (_started, approval) = asked(&session).await;
    assert!(matches!(approval.ask, Ask::Approval { .. }), "{approval:?}");

    // The daemon is restarted before any answer.
    let (_second, session) = world_with_prompt_rule(&world.store, []).settled(session.id()).await;
    let mut events = session.subscribe(0).await.unwrap();
    answer(&session, &approval, Answer::Approve).await.unwrap();
    question(&mut events).await;
    let asks = question(&mut events).await;
    assert!(matches!(&asks.ask, Ask::Question { question, .. } if question == "Which colour?"), "{asks:?}");

    // The daemon is restarted after the approval, while the question itself is pending.
    let (third, session) = world_with_prompt_rule(&world.store, [says("Green it is.")]).settled(session.id()).await;
    answer_and_follow(&session, &asks, Answer::Text { text: "green".to_owned() }).await;
    let log = third.log(&session);
    assert!(log.contains(r#"result of ask_human: "green""#), "{log}");
    assert_eq!(log.matches(" ? ").count(), 2, "{log}");
    let [decision] = &third.audit.decisions()[..] else { panic!() };
    assert!(decision.allowed, "{decision:?}");
}

#[tokio::test]
async fn rejected_ask_human_is_never_asked() {
    let (world, session) =
        world_with_prompt_rule(&Arc::default(), [calls(&own_calls()[4..]), says("Then not.")]).begun().await;
    let (mut started, approval) = asked(&session).await;
    answer(&session, &approval, Answer::Reject { reason: None }).await.unwrap();
    assert_eq!(to_end(&mut started.events).await.1.text, "Then not.");
    assert_eq!(world.log(&session).matches(" ? ").count(), 1);
}

#[tokio::test]
async fn edited_ask_human_survives_restart() {
    let (world, session) = world_with_prompt_rule(&Arc::default(), [calls(&own_calls()[4..])]).begun().await;
    let (mut started, approval) = asked(&session).await;
    let edit = Answer::Edit { args: json!({"question": "Which shade?"}) };
    answer(&session, &approval, edit.clone()).await.unwrap();
    let asks = question(&mut started.events).await;
    assert!(matches!(&asks.ask, Ask::Question { question, .. } if question == "Which shade?"), "{asks:?}");

    let (second, session) = world_with_prompt_rule(&world.store, [says("Green it is.")]).settled(session.id()).await;
    let text = Answer::Text { text: "green".to_owned() };
    answer_and_follow(&session, &asks, text.clone()).await;
    let log = second.log(&session);
    assert!(log.contains("The user changed the arguments to"), "{log}");
    assert_eq!(log.matches(" ? ").count(), 2, "{log}");
    let [decision] = &second.audit.decisions()[..] else { panic!() };
    assert_eq!((decision.answer.as_ref(), decision.reply.as_ref()), (Some(&edit), Some(&text)), "{decision:?}");
}

//! Fill level of the window: reports of each change, and the expected size of the next request.

use std::sync::Arc;

use agentd_core::{
    context::{CompactionStrategy, TokenLevel},
    event::{EventKind, StateChange},
    model::{Message, ModelChunk, ModelInfo, ModelRequest, Slot},
    ports::Model as _,
    session::SessionSettings,
    turn::{StartTurn, StopReason},
    usage::{Prices, Usage},
};
use agentd_engine::SessionHandle;
use agentd_testkit::scripted::{Play, ScriptedModel, calls, says};
use serde_json::json;

use crate::{
    compaction::{compact, counted},
    world::{TwoModels, World, input, prompts, run, sized, to_end, turn, warnings},
};

/// Returns the reported levels, in order.
fn levels(world: &World, session: &SessionHandle) -> Vec<TokenLevel> {
    world.facts(session, |kind| match kind {
        EventKind::StateChanged { change: StateChange::TokenLevel { level, .. } } => Some(*level),
        _ => None,
    })
}

fn last_text(request: &ModelRequest) -> &str {
    match request.messages.last() {
        Some(Message::User { text }) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn token_level_is_reported_on_change_with_stable_tools() {
    let world = World::new([counted("a", 100), counted("b", 6500), counted("c", 6600), counted("d", 100)]);
    let session = world.session().await;
    for text in ["one", "two", "three", "four"] {
        run(&session, text).await;
    }
    assert_eq!(levels(&world, &session), [TokenLevel::Warning, TokenLevel::Info]);
    let requests = world.model.requests();
    assert!(requests[0].tools.iter().any(|tool| tool.name == "compact_context"));
    assert!(requests.iter().all(|request| request.tools == requests[0].tools));
    assert!(!last_text(&requests[1]).contains("context window"));
    let reminded = last_text(&requests[2]);
    assert!(reminded.contains("More than 75 % of the context window is used"), "{reminded}");
    assert!(reminded.contains("Call compact_context when"), "{reminded}");
}

#[tokio::test]
async fn reset_compaction_and_undo_report_level_changes() {
    use TokenLevel::{Info, Warning};
    let (world, session) = World::new([]).begun().await;
    // Only estimates are available, as with a server that does not count. Nine turns of 640 tokens run in a window of
    // 8192.
    for turn in 0..9 {
        world.model.then(says(&format!("Done {turn}.")));
        run(&session, &format!("Piece of work {turn} {}", "more of it ".repeat(230))).await;
    }
    assert_eq!(levels(&world, &session), [Warning]);
    compact(&session, CompactionStrategy::Truncate).await;
    assert_eq!(levels(&world, &session), [Warning, Info]);
    session.undo_compaction().await.unwrap();
    assert_eq!(levels(&world, &session), [Warning, Info, Warning]);
    assert_eq!(session.context().await.unwrap().level, Warning);
    session.reset().await.unwrap();
    assert_eq!(levels(&world, &session), [Warning, Info, Warning, Info]);
    assert_eq!(session.context().await.unwrap().level, Info);
}

#[tokio::test]
async fn last_reported_level_survives_restart() {
    use TokenLevel::{Info, Warning};
    let (world, session) = World::new([counted("a", 6500)]).begun().await;
    run(&session, "one").await;
    assert_eq!(levels(&world, &session), [Warning]);
    let (second, session) = world.restarted([counted("b", 6600), counted("c", 100)]).with_session(session.id()).await;
    run(&session, "two").await;
    assert_eq!(levels(&second, &session), [Warning], "an unchanged level is not reported again");
    run(&session, "three").await;
    assert_eq!(levels(&second, &session), [Warning, Info]);
}

#[tokio::test]
async fn tokens_of_a_panicked_turn_are_counted() {
    let world = World::new([says("a"), calls(&[("look", json!({"answer": "much ".repeat(1000)}))])]);
    let session = world.session().await;
    run(&session, "one").await;
    let before = session.context().await.unwrap().tokens;
    world.model.then(Play::Panics);
    run(&session, "two").await;
    let after = session.context().await.unwrap().tokens;
    assert!(after > before + 2000, "{before} and then {after}");
}

#[tokio::test]
async fn uncounted_answers_are_estimated_whole_and_once() {
    let arguments = json!({"answer": "a", "why": "because ".repeat(500)});
    let (_world, session) = World::new([calls(&[("look", arguments)]), says("b")]).begun().await;
    run(&session, "one").await;
    let view = session.context().await.unwrap();
    let parts: u64 = view.segments.iter().map(|segment| segment.bytes.div_ceil(4)).sum();
    assert!(view.tokens.abs_diff(parts) < 60, "{} expected of about {parts}: {view:#?}", view.tokens);
}

/// Creates a world with two models: one writes the last answers, and the other does everything else.
async fn world_with_two_models(
    base: Arc<ScriptedModel>,
    chat: Arc<ScriptedModel>,
) -> (World, SessionHandle, Arc<TwoModels>) {
    let models = Arc::new(TwoModels { base, slot: Slot::Chat, other: chat, listed: true });
    let (world, session) = World::with_models(Arc::clone(&models) as _).begun().await;
    (world, session, models)
}

#[tokio::test]
async fn token_counts_of_models_are_not_mixed() {
    let (world, session, models) = world_with_two_models(ScriptedModel::new([]), sized("chat", 2048, [])).await;
    let look = |prompt_tokens| {
        let usage = Usage { prompt_tokens, completion_tokens: 10, ..Usage::default() };
        Play::Chunks(vec![ModelChunk::call("look", "{}"), ModelChunk::Usage(usage)])
    };
    // The base model's server counts twenty times as many tokens as the chat model's server.
    models.base.then(look(2000));
    models.other.then(counted("That was it.", 100));
    let start = StartTurn { max_steps: Some(1), ..input("Look") };
    turn(&session, start).await;
    let view = session.context().await.unwrap();
    assert!((1500..3500).contains(&view.tokens), "{}", view.tokens);
    assert_eq!(levels(&world, &session), [], "the next model's window determines the level");

    // Each model's requests are compared with its own earlier requests.
    models.base.then(look(2100));
    models.other.then(counted("That, too.", 150));
    turn(&session, StartTurn { max_steps: Some(1), ..input("Look again") }).await;
    let reports = prompts(&world, &session);
    assert!(reports.iter().all(|report| report.broken_by.is_none()));
    let reports: Vec<_> = reports.iter().map(|report| (report.previous_bytes, report.repeated_bytes > 0)).collect();
    assert_eq!((reports[0], reports[1]), ((0, false), (0, false)), "both servers see it for the first time");
    assert!(reports[2].1 && reports[3].1, "{reports:?}");
}

#[tokio::test]
async fn final_answer_request_fits_its_models_window() {
    let chat = ModelInfo { id: "chat".to_owned(), context_window: 2048, ..ScriptedModel::new([]).info().clone() };
    let chat = ScriptedModel::strict_with_info(chat, []);
    let (_world, session, models) = world_with_two_models(ScriptedModel::new([]), chat).await;
    for turn in 0..9 {
        models.base.then(says(&format!("Done {turn}.")));
        run(&session, &format!("Piece of work {turn} {}", "and more ".repeat(180))).await;
    }
    models.base.then_all([calls(&[("look", json!({}))]), says("## What the person wants\nA tidy house.")]);
    models.other.then(says("What I saw."));
    let result = turn(&session, StartTurn { max_steps: Some(1), ..input("Look around") }).await;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::MaxSteps, "What I saw."), "{result:?}");
    assert_eq!(models.other.requests().len(), 1, "a request that cannot fit is not sent");
    let sent = format!("{:?}", models.other.requests()[0].messages);
    assert!(sent.contains("A tidy house.") && sent.contains("Look around"), "{sent}");
}

#[tokio::test]
async fn each_slot_uses_its_own_window() {
    let (world, session, models) = world_with_two_models(ScriptedModel::new([]), sized("chat", 2048, [])).await;
    // If sent at once, the text would be spilled to a file because of the model with the smaller window.
    for tokens in [1300, 1600, 1900] {
        models.base.then(counted("a", tokens));
        run(&session, &"many words ".repeat(100)).await;
    }
    let chat = SessionSettings { slot: Some(Slot::Chat), ..world.engine.session_defaults() };
    session.configure(chat).await.unwrap();
    assert_eq!(levels(&world, &session), [TokenLevel::Warning]);
    session.configure(world.engine.session_defaults()).await.unwrap();
    assert_eq!(levels(&world, &session), [TokenLevel::Warning, TokenLevel::Info]);
}

#[tokio::test]
async fn embedded_candidate_prompts_do_not_count_as_context() {
    let info = ModelInfo { embedded: true, ..ScriptedModel::new([]).info().clone() };
    let model = ScriptedModel::with_info(info, []);
    let (world, session, _) = world_with_two_models(Arc::clone(&model), Arc::clone(&model)).await;
    // The model rates fourteen candidates, each with a separate prompt.
    model.then(counted("It is noon.", 8000));
    run(&session, "What time is it?").await;
    let view = session.context().await.unwrap();
    assert!(view.tokens < 20, "{view:#?}");
    assert_eq!(prompts(&world, &session), [], "the embedded model has no prompt report");
    assert_eq!(levels(&world, &session), []);
}

#[tokio::test]
async fn reasoning_counts_only_if_it_is_echoed() {
    /// Checks the size of the context after an answer with long reasoning and a short text, in a window of 8,192
    /// tokens.
    async fn check(echo_reasoning: bool, usage: Usage, expected: std::ops::Range<u64>) {
        let info = ModelInfo { echo_reasoning, ..ScriptedModel::new([]).info().clone() };
        let model = ScriptedModel::with_info(info, []);
        let (world, session, _) = world_with_two_models(Arc::clone(&model), Arc::clone(&model)).await;
        model.then(Play::Chunks(vec![
            ModelChunk::Reasoning("hmm, ".repeat(3600)),
            ModelChunk::Text("It is noon.".to_owned()),
            ModelChunk::Usage(usage),
        ]));
        run(&session, "What time is it?").await;
        let view = session.context().await.unwrap();
        assert!(expected.contains(&view.tokens), "echo {echo_reasoning}, {usage:?}: {view:#?}");
        let parts: u64 = view.segments.iter().map(|segment| segment.bytes).sum();
        assert_eq!(parts > 18_000, echo_reasoning, "{view:#?}");
        let expected_levels: &[TokenLevel] = if echo_reasoning { &[TokenLevel::Critical] } else { &[] };
        assert_eq!(levels(&world, &session), expected_levels);
        if !echo_reasoning {
            model.then(says("Still noon."));
            run(&session, "And now?").await;
            let log = world.log(&session);
            assert!(!log.contains("compaction"), "{log}");
            let sent_back = |message: &Message| matches!(message, Message::Assistant { reasoning: Some(_), .. });
            assert!(!model.requests()[1].messages.iter().any(sent_back));
        }
    }
    let counted = |completion_tokens, reasoning_tokens| Usage {
        prompt_tokens: 3500,
        completion_tokens,
        reasoning_tokens,
        ..Usage::default()
    };
    check(false, counted(4510, 4500), 3500..3520).await;
    // The share of the reasoning is unknown.
    check(false, counted(4510, 0), 3500..3600).await;
    // The reasoning was counted separately from the answer.
    check(false, counted(10, 4500), 3500..3520).await;
    check(true, counted(4510, 4500), 8000..8200).await;
}

#[tokio::test]
async fn price_tier_warning_is_shown_once_per_tier() {
    let tier = |above, input| Prices { above, input, output: 5.0, ..Prices::default() };
    let dearer = Prices { tiers: vec![tier(5000, 2.0), tier(7000, 4.0)], ..tier(0, 1.0) };
    let cheaper = Prices { tiers: vec![tier(5000, 0.5)], ..tier(0, 1.0) };
    for (prices, expected) in [(dearer, vec![(2, "above 5000"), (4, "above 7000")]), (cheaper, vec![])] {
        let counts = [3000, 4600, 4700, 6500, 6500].map(|tokens| counted("Done.", tokens));
        let (world, session) = World::new(counts).begun().await;
        world.model.costs(prices);
        let mut warned = Vec::new();
        for turn in 0..5 {
            let mut started = session.start_turn(input("Go on")).await.unwrap();
            let events = to_end(&mut started.events).await.0;
            warned.extend(warnings(&events, "price_border").into_iter().map(|message| (turn, message)));
        }
        assert_eq!(warned.len(), expected.len(), "{warned:?}");
        for ((turn, message), (expected_turn, part)) in warned.iter().zip(expected) {
            assert!(*turn == expected_turn && message.contains(part), "{turn}: {message}");
        }
    }
}

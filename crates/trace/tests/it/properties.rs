//! Properties that hold for any sequence of events.

use std::collections::BTreeMap;

use agentd_core::{
    Timestamp,
    event::Event,
    ids::{CallId, InterruptId, ItemId, SessionId},
    interrupt::AnsweredBy,
    item::ItemStatus,
    turn::StopReason,
    usage::{CallTiming, Usage},
};
use agentd_trace::{Span, SpanKind, TurnTrace, nest, turns};
use proptest::prelude::*;

use crate::script::{Script, message, result, tokens};

/// A generated event: its kind, two indices from 0 to 2, a number, a flag, and two optional numbers. Each kind only
/// uses some of these values.
type Step = (u32, usize, usize, u64, bool, Option<u64>, Option<u64>);

fn step() -> impl Strategy<Value = Step> {
    (0..15_u32, 0..3_usize, 0..3_usize, 0..99_u64, any::<bool>(), any::<Option<u64>>(), any::<Option<u64>>())
}

/// IDs that the steps refer to.
struct Names {
    items: Vec<ItemId>,
    results: Vec<ItemId>,
    calls: Vec<CallId>,
    questions: Vec<InterruptId>,
    sessions: Vec<SessionId>,
}

fn write(script: &mut Script, names: &Names, (kind, one, other, number, flag, first, whole): Step) {
    let status = if flag { ItemStatus::Done } else { ItemStatus::Unknown };
    let (call, message_id) = (&names.calls[one], names.items[one]);
    match kind {
        0 => script.start(),
        1 => script.end(if flag { StopReason::Completed } else { StopReason::Interrupted }),
        2 => script.input("x"),
        3 => script.item_started(message_id, message("")),
        4 => script.item_completed(message_id, message("w"), status),
        5 => script.called(call, "t"),
        6 => script.item_started(names.results[one], result(call, "t", "")),
        7 => script.item_completed(names.results[one], result(call, "t", "r"), status),
        8 => {
            let timing = whole.map(|duration_ms| CallTiming { first_token_ms: first, duration_ms });
            script.used(u32::try_from(number % 4).unwrap(), tokens(number, 1), timing, flag)
        }
        9 => {
            let session = if flag { names.sessions[one] } else { script.session };
            script.asked(names.questions[other], session, Some(call))
        }
        10 => script.answered(names.questions[other], AnsweredBy::Daemon),
        11 => script.subagent(call, names.sessions[other], number % 20),
        12 => script.warn(if flag { "model_retry" } else { "other" }),
        13 => {
            let seq = script.events.len() as u64 + 1;
            script.events.push(Event::damaged(script.session, Some(script.turn), seq));
            script
        }
        _ => script.after(number.cast_signed() * 140 - 5000),
    };
}

fn inside(spans: &[Span], from: Timestamp, to: Timestamp) {
    for span in spans {
        assert!(from <= span.at && span.at <= span.end && span.end <= to, "{span:?} is not in {from} to {to}");
        inside(&span.children, span.at, span.end);
        if let SpanKind::Subagent(work) = &span.kind {
            for turn in &work.turns {
                assert!(span.at <= turn.at && turn.end <= span.end, "{turn:?}");
                inside(&turn.spans, turn.at, turn.end);
            }
        }
    }
}

fn sum(turn: &TurnTrace) -> Usage {
    let mut sum = Usage::default();
    turn.walk().for_each(|span| sum += span.usage());
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_events_give_a_consistent_tree(
        steps in prop::collection::vec(step(), 0..60)
    ) {
        let names = Names {
            items: (0..3).map(|_| ItemId::generate()).collect(),
            results: (0..3).map(|_| ItemId::generate()).collect(),
            calls: (0..3).map(|_| CallId::generate()).collect(),
            questions: (0..3).map(|_| InterruptId::generate()).collect(),
            sessions: (0..3).map(|_| SessionId::generate()).collect(),
        };
        let mut script = Script::new();
        steps.into_iter().for_each(|step| write(&mut script, &names, step));
        let mut trees = turns(&script.events);
        // The subagent sessions contain the same events. This is a cycle, which must not cause an endless loop.
        let known: BTreeMap<_, _> = names.sessions.iter().map(|session| (*session, trees.clone())).collect();
        let mut spent: BTreeMap<_, Usage> = BTreeMap::new();
        for event in &script.events {
            if let agentd_core::event::EventKind::UsageUpdated { usage, .. } = &event.kind {
                *spent.entry(event.turn_id.unwrap()).or_default() += *usage;
            }
        }
        for nested in [false, true] {
            if nested {
                nest(&mut trees, &known);
            }
            for turn in &trees {
                prop_assert!(turn.at <= turn.end);
                inside(&turn.spans, turn.at, turn.end);
                prop_assert_eq!(sum(turn), turn.usage);
                prop_assert_eq!(turn.usage, spent.get(&turn.turn_id).copied().unwrap_or_default());
            }
        }
        serde_json::to_string(&trees).unwrap();
    }
}

//! Laws that hold for any events.

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

/// One event, about one of few calls, items and questions.
#[derive(Debug, Clone)]
enum Step {
    Start,
    End(bool),
    Input,
    WordsBegin(usize),
    WordsEnd(usize, bool),
    Call(usize),
    ResultBegin(usize),
    ResultEnd(usize, bool),
    Paid { step: u32, tokens: u64, first: Option<u64>, whole: Option<u64>, delegated: bool },
    Ask { question: usize, call: usize, of_child: bool },
    Answer(usize),
    Subagent { call: usize, session: usize, after: u64 },
    Warn(bool),
    Damaged,
    Clock(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let few = 0..3_usize;
    prop_oneof![
        Just(Step::Start),
        any::<bool>().prop_map(Step::End),
        Just(Step::Input),
        few.clone().prop_map(Step::WordsBegin),
        (few.clone(), any::<bool>()).prop_map(|(item, whole)| Step::WordsEnd(item, whole)),
        few.clone().prop_map(Step::Call),
        few.clone().prop_map(Step::ResultBegin),
        (few.clone(), any::<bool>()).prop_map(|(item, whole)| Step::ResultEnd(item, whole)),
        (0..4_u32, 0..99_u64, any::<Option<u64>>(), any::<Option<u64>>(), any::<bool>())
            .prop_map(|(step, tokens, first, whole, delegated)| Step::Paid { step, tokens, first, whole, delegated }),
        (few.clone(), few.clone(), any::<bool>()).prop_map(|(question, call, of_child)| Step::Ask {
            question,
            call,
            of_child
        }),
        few.clone().prop_map(Step::Answer),
        (few.clone(), few, 0..20_u64).prop_map(|(call, session, after)| Step::Subagent { call, session, after }),
        any::<bool>().prop_map(Step::Warn),
        Just(Step::Damaged),
        (-5000..9000_i64).prop_map(Step::Clock),
    ]
}

/// Ids that the steps name.
struct Names {
    items: Vec<ItemId>,
    results: Vec<ItemId>,
    calls: Vec<CallId>,
    questions: Vec<InterruptId>,
    sessions: Vec<SessionId>,
}

fn status(whole: bool) -> ItemStatus {
    if whole { ItemStatus::Done } else { ItemStatus::Unknown }
}

fn write(script: &mut Script, names: &Names, step: &Step) {
    match *step {
        Step::Start => script.start(),
        Step::End(whole) => script.end(if whole { StopReason::Completed } else { StopReason::Interrupted }),
        Step::Input => script.input("x"),
        Step::WordsBegin(item) => script.item_started(names.items[item], message("")),
        Step::WordsEnd(item, whole) => script.item_completed(names.items[item], message("w"), status(whole)),
        Step::Call(call) => script.called(&names.calls[call], "t"),
        Step::ResultBegin(call) => script.item_started(names.results[call], result(&names.calls[call], "t", "")),
        Step::ResultEnd(call, whole) => {
            script.item_completed(names.results[call], result(&names.calls[call], "t", "r"), status(whole))
        }
        Step::Paid { step, tokens: spent, first, whole, delegated } => {
            let timing = whole.map(|duration_ms| CallTiming { first_token_ms: first, duration_ms });
            script.paid(step, tokens(spent, 1), timing, delegated)
        }
        Step::Ask { question, call, of_child } => {
            let session = if of_child { names.sessions[call] } else { script.session };
            script.asked(names.questions[question], session, Some(&names.calls[call]))
        }
        Step::Answer(question) => script.answered(names.questions[question], AnsweredBy::Daemon),
        Step::Subagent { call, session, after } => script.subagent(&names.calls[call], names.sessions[session], after),
        Step::Warn(retry) => script.warn(if retry { "model_retry" } else { "other" }),
        Step::Damaged => {
            let seq = script.events.len() as u64 + 1;
            script.events.push(Event::damaged(script.session, Some(script.turn), seq));
            script
        }
        Step::Clock(milliseconds) => script.after(milliseconds),
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
    fn any_events_make_a_tree_whose_children_lie_inside_and_whose_sums_agree(
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
        steps.iter().for_each(|step| write(&mut script, &names, step));
        let mut trees = turns(&script.events);
        // The sessions of the subagents have the same events: a circle, which must not hang.
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

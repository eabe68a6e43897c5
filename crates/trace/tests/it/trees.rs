//! Trees of turns with realistic events.

use std::collections::BTreeMap;

use agentd_core::{
    ids::{CallId, InterruptId, ItemId, SessionId},
    interrupt::AnsweredBy,
    item::ItemStatus,
    tool::ToolErrorCode,
    turn::StopReason,
    usage::{CallTiming, Usage},
};
use agentd_trace::{SpanKind, TurnTrace, nest, subagent_sessions, turns};

use crate::script::{Script, at, message, result, tokens};

/// Formats each span as one line, with its times in milliseconds.
fn shown(turn: &TurnTrace) -> Vec<String> {
    fn lines(spans: &[agentd_trace::Span], depth: usize, lines_so_far: &mut Vec<String>) {
        for span in spans {
            let name = match &span.kind {
                SpanKind::Input { text, .. } => format!("input {text}"),
                SpanKind::ModelCall(call) => format!("call {} first {:?}", call.step, call.first_token_ms),
                SpanKind::Message { text } => format!("message {text}"),
                SpanKind::Tool(tool) => format!("tool {} {}", tool.name, tool.text),
                SpanKind::Interrupt(asked) => format!("question by {:?}", asked.by),
                SpanKind::Subagent(work) => format!("subagent {} turns {}", work.name, work.turns.len()),
                SpanKind::Warning { code, .. } => format!("warning {code}"),
                other => format!("{other:?}"),
            };
            let (from, to) =
                (span.at.as_millisecond() - at(0).as_millisecond(), span.end.as_millisecond() - at(0).as_millisecond());
            let cut = if span.is_open { " cut" } else { "" };
            lines_so_far.push(format!("{}{name} {from}-{to}{cut}", "  ".repeat(depth)));
            lines(&span.children, depth + 1, lines_so_far);
        }
    }
    let mut all = Vec::new();
    lines(&turn.spans, 0, &mut all);
    all
}

fn timing(first: u64, whole: u64) -> Option<CallTiming> {
    Some(CallTiming { first_token_ms: Some(first), duration_ms: whole })
}

#[test]
fn turn_with_an_approval_is_traced() {
    let (call, asked, message_id) = (CallId::generate(), InterruptId::generate(), ItemId::generate());
    let mut script = Script::new();
    script.start().input("hello").after(500).warn("model_retry");
    script.after(500).used(1, tokens(10, 1), timing(700, 900), false).called(&call, "write_file");
    let session = script.session;
    script.after(100).asked(asked, session, Some(&call)).after(5000);
    script.answered(asked, AnsweredBy::Client("agentctl".to_owned())).after(10);
    let id = ItemId::generate();
    script.item_started(id, result(&call, "write_file", "")).after(40);
    script.item_completed(id, result(&call, "write_file", "ok"), ItemStatus::Done).after(100);
    script.item_started(message_id, message("")).after(200).used(2, tokens(20, 2), timing(90, 300), false);
    script.item_completed(message_id, message("bye"), ItemStatus::Done).after(5).end(StopReason::Completed);
    let turns = turns(&script.events);
    let [turn] = turns.as_slice() else { panic!("{turns:?}") };
    let expected = [
        "input hello 0-0",
        "call 1 first Some(700) 100-1000",
        "  warning model_retry 500-500",
        "tool write_file ok 1100-6150",
        "  question by Some(Client(\"agentctl\")) 1100-6100",
        "call 2 first Some(90) 6150-6450",
        "  message bye 6250-6450",
    ];
    assert_eq!(shown(turn), expected);
    assert_eq!((turn.waited_ms, turn.duration_ms(), turn.is_open), (5000, 6455, false));
    assert_eq!(turn.usage, script.usage);
    let SpanKind::ModelCall(first) = &turn.spans[1].kind else { panic!("{turn:?}") };
    assert_eq!((first.retries, first.is_estimated), (1, false));
}

#[test]
fn timings_of_older_journals_are_estimated() {
    let message_id = ItemId::generate();
    let mut script = Script::new();
    script.start().input("hello").after(300).item_started(message_id, message("")).after(200);
    script.used(1, tokens(10, 1), None, false).item_completed(message_id, message("bye"), ItemStatus::Done);
    script.end(StopReason::Completed);
    let turn = &turns(&script.events)[0];
    assert_eq!(shown(turn), ["input hello 0-0", "call 1 first Some(300) 0-500", "  message bye 300-500"]);
    assert!(matches!(&turn.spans[1].kind, SpanKind::ModelCall(call) if call.is_estimated));
}

#[test]
fn time_after_a_crash_is_excluded_from_the_turn() {
    let (call, running) = (CallId::generate(), ItemId::generate());
    let mut script = Script::new();
    script.start().after(100).used(1, tokens(1, 1), timing(1, 100), false).called(&call, "run_bash_command").after(50);
    script.item_started(running, result(&call, "run_bash_command", ""));
    // The daemon is only started again one day later.
    script.after(86_400_000);
    let agentd_core::item::ItemBody::ToolResult(mut unknown) = result(&call, "run_bash_command", "?") else { panic!() };
    unknown.error = Some(ToolErrorCode::UnknownOutcome);
    script.item_completed(running, agentd_core::item::ItemBody::ToolResult(unknown), ItemStatus::Unknown);
    script.end(StopReason::Interrupted);
    let turn = &turns(&script.events)[0];
    assert_eq!(turn.duration_ms(), 150);
    assert_eq!(shown(turn), ["call 1 first Some(1) 0-100", "tool run_bash_command ? 150-150 cut"]);
}

#[test]
fn subagent_turns_nest_below_their_call_and_count_once() {
    let child = SessionId::generate();
    let (call, running, asked) = (CallId::generate(), ItemId::generate(), InterruptId::generate());
    let mut parent = Script::new();
    parent.start().after(100).used(1, tokens(10, 1), timing(1, 100), false).called(&call, "delegate_task");
    parent.item_started(running, result(&call, "delegate_task", "")).subagent(&call, child, 3).after(50);
    parent.asked(asked, child, None).after(50).answered(asked, AnsweredBy::Deadline).after(100);
    parent.item_completed(running, result(&call, "delegate_task", "found"), ItemStatus::Done);
    parent.used(1, tokens(7, 2), None, true).end(StopReason::Completed);

    let mut work = Script::new();
    (work.session, work.clock) = (child, -500);
    // This earlier work does not belong to the call.
    work.start().input("before").end(StopReason::Completed);
    work.clock = 110;
    work.start().input("look").after(30).used(1, tokens(7, 2), timing(5, 20), false);
    work.after(10).asked(asked, child, None).after(50).answered(asked, AnsweredBy::Deadline).end(StopReason::Completed);

    let mut trees = turns(&parent.events);
    assert_eq!(subagent_sessions(&trees).into_iter().collect::<Vec<_>>(), [child]);
    let expected = [
        "call 1 first Some(1) 0-100",
        "tool delegate_task found 100-300",
        "  subagent researcher turns 0 100-300",
        "  question by Some(Deadline) 150-200",
    ];
    assert_eq!(shown(&trees[0]), expected);
    nest(&mut trees, &BTreeMap::from([(child, turns(&work.events))]));
    assert_eq!(shown(&trees[0])[2..], ["  subagent researcher turns 1 100-300"]);
    let SpanKind::Subagent(nested) = &trees[0].spans[1].children[0].kind else { panic!("{trees:?}") };
    assert_eq!((nested.turns[0].agent.as_str(), nested.turns[0].number), ("researcher", 2));
    assert_eq!(shown(&nested.turns[0])[1], "call 1 first Some(5) 120-140");
    assert_eq!((trees[0].usage, trees[0].waited_ms), (parent.usage, 50));
    let delegated: Vec<Usage> =
        trees[0].walk().map(agentd_trace::Span::usage).filter(|it| it.prompt_tokens == 7).collect();
    assert_eq!(delegated.len(), 1);
}

#[test]
fn later_subagent_turns_are_excluded_from_earlier_turns() {
    let child = SessionId::generate();
    let mut parent = Script::new();
    let mut delegate = |after: u64| {
        let (call, running) = (CallId::generate(), ItemId::generate());
        parent.start().after(100).used(1, tokens(10, 1), timing(1, 100), false).called(&call, "delegate_task");
        parent.item_started(running, result(&call, "delegate_task", "")).subagent(&call, child, after).after(100);
        parent.item_completed(running, result(&call, "delegate_task", "found"), ItemStatus::Done);
        parent.used(1, tokens(7, 2), None, true).end(StopReason::Completed);
    };
    delegate(0);
    delegate(3);
    let mut work = Script::new();
    work.session = child;
    work.clock = 110;
    work.start().input("look").end(StopReason::Completed);
    work.clock = 310;
    work.start().input("look again").end(StopReason::Completed);
    let known = BTreeMap::from([(child, turns(&work.events))]);
    let both = turns(&parent.events);
    for (at, expected) in [(0, 1), (1, 2)] {
        // A single turn does not show that a second turn exists.
        let mut trees = [both[at].clone()];
        nest(&mut trees, &known);
        let SpanKind::Subagent(nested) = &trees[0].spans[1].children[0].kind else { panic!("{trees:?}") };
        assert_eq!(nested.turns.iter().map(|turn| turn.number).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn model_call_without_an_answer_counts_as_failed() {
    let mut script = Script::new();
    script.start().input("hello").after(50).used(1, tokens(0, 0), timing(10, 50), false).end(StopReason::Failed);
    let turn = &turns(&script.events)[0];
    let SpanKind::ModelCall(call) = &turn.spans[1].kind else { panic!("{turn:?}") };
    assert_eq!((call.error.as_deref(), call.took_ms), (Some("_OTHER"), Some(50)));
}

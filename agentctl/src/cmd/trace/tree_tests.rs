//! Tests of the printed tree.

use agentd_core::{
    Timestamp,
    ids::{CallId, InterruptId, SessionId, TurnId},
    interrupt::{Answer, AnsweredBy},
    model::Slot,
    tool::ToolErrorCode,
    turn::StopReason,
    usage::Usage,
};
use agentd_trace::{InterruptSpan, ModelCallSpan, SubagentSpan, ToolSpan, TurnEnd};

use super::*;

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_790_000_000_000 + milliseconds).unwrap()
}

fn usage(prompt: u64, completion: u64, cost: Option<u64>) -> Usage {
    let unpriced_calls = u64::from(cost.is_none());
    Usage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        cost_microusd: cost,
        calls: 1,
        unpriced_calls,
        ..Usage::default()
    }
}

fn span(from: i64, to: i64, kind: SpanKind, children: Vec<Span>) -> Span {
    Span { id: "x".to_owned(), at: at(from), end: at(to), is_open: false, kind, children }
}

fn tool(name: &str, arguments: &str, error: Option<ToolErrorCode>) -> ToolSpan {
    ToolSpan {
        call_id: CallId::generate(),
        step: 1,
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        ran_with: None,
        ran: true,
        error,
        exit_code: None,
        duration_ms: None,
        text: String::new(),
        details: None,
        files: Vec::new(),
        sampled: Usage::default(),
        delegated: Usage::default(),
    }
}

fn turn(number: u64, from: i64, to: i64, spans: Vec<Span>) -> TurnTrace {
    TurnTrace {
        session_id: SessionId::generate(),
        turn_id: TurnId::generate(),
        number,
        trace_id: None,
        agent: "main".to_owned(),
        first_seq: 1,
        last_seq: 9,
        at: at(from),
        end: at(to),
        is_open: false,
        slot: Some(Slot::Base),
        model: "large\x1b[31m".to_owned(),
        reason: String::new(),
        max_steps: 9,
        outcome: Some(TurnEnd {
            reason: StopReason::Completed,
            error: None,
            steps: 2,
            text: String::new(),
            duration_ms: 5,
            denials: Vec::new(),
            files: Vec::new(),
        }),
        usage: usage(12_345, 210, Some(12_400)),
        waited_ms: 5000,
        settled_at: None,
        spans,
    }
}

fn sample() -> TurnTrace {
    let call = |step, prompt, cost| {
        let usage = usage(prompt, 210, cost);
        let model = "large".to_owned();
        SpanKind::ModelCall(Box::new(ModelCallSpan {
            step,
            model,
            first_token_ms: Some(700),
            retries: step - 1,
            usage,
            ..Default::default()
        }))
    };
    let asked = InterruptSpan {
        interrupt_id: InterruptId::generate(),
        session_id: SessionId::generate(),
        ask: crate::samples::question("Which\nbranch?", &[]),
        answer: Some(Answer::Text { text: "main".to_owned() }),
        by: Some(AnsweredBy::Client("agentctl".to_owned())),
    };
    let nested = turn(1, 9000, 11_500, vec![span(9000, 11_000, call(1, 400, Some(0)), vec![])]);
    let work = SubagentSpan {
        session_id: SessionId::generate(),
        after: 0,
        name: "researcher".to_owned(),
        task: "look it up".to_owned(),
        turns: vec![nested],
    };
    let spans = vec![
        span(0, 0, SpanKind::Input { text: "fix\u{1b}]0;x\u{7} the failing tests".to_owned(), steered: false }, vec![]),
        span(
            10,
            1200,
            call(1, 12_345, Some(12_400)),
            vec![span(800, 1200, SpanKind::Message { text: "I look.".to_owned() }, vec![])],
        ),
        span(
            1200,
            8000,
            SpanKind::Tool(Box::new(tool(
                "run_bash_command",
                "{\"command\":\"rm \u{202e}x\"}",
                Some(ToolErrorCode::Timeout),
            ))),
            vec![span(1200, 6200, SpanKind::Interrupt(Box::new(asked)), vec![])],
        ),
        span(
            8000,
            11_900,
            SpanKind::Tool(Box::new(ToolSpan { delegated: usage(400, 30, None), ..tool("delegate_task", "{}", None) })),
            vec![span(8500, 11_900, SpanKind::Subagent(Box::new(work)), vec![])],
        ),
        Span { is_open: true, ..span(12_000, 12_400, call(2, 1_234_567, None), vec![]) },
    ];
    turn(3, 0, 12_400, spans)
}

#[test]
fn wide_terminals_have_bars() {
    insta::assert_snapshot!(lines(&sample(), 130, false).join("\n"));
}

#[test]
fn lines_fit_the_terminal_and_are_sanitised() {
    for columns in [20, 40, 59, 60, 80, 109, 110, 200] {
        for line in lines(&sample(), columns, true) {
            let plain = anstream::adapter::strip_str(&line).to_string();
            assert!(width(&plain) < columns.max(24), "{columns}: {plain:?}");
            assert!(!plain.contains('\u{202e}') && !plain.contains('\u{7}'), "{plain:?}");
        }
    }
}

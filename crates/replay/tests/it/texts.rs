//! Tests of the text format of recordings: round trips, and replay of any text that can be parsed.

use std::sync::Arc;

use agentd_core::{model::Slot, origin::ServerFields, turn::StopReason, usage::Usage};
use agentd_replay::{
    Exchange, RecordedAnswer, RecordedEnd, RecordedFinish, RecordedRequest, RecordedResult, RecordedStart,
    RecordedTurn, Recording, RecordingError, RecordingHead, SpokenPart, SubagentVoice, TurnFact, VERSION, read, write,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn head() -> RecordingHead {
    RecordingHead { version: VERSION, agentd: "0.1.0".to_owned(), ..RecordingHead::default() }
}

fn message() -> impl Strategy<Value = Value> {
    ("[a-c]", ".{0,12}").prop_map(|(role, text)| json!({ "role": role, "text": text }))
}

fn part() -> impl Strategy<Value = SpokenPart> {
    prop_oneof![
        ".{0,12}".prop_map(SpokenPart::Text),
        ".{0,12}".prop_map(SpokenPart::Reasoning),
        ("[a-z]{1,5}", ".{0,9}").prop_map(|(name, arguments)| SpokenPart::Call {
            name,
            arguments,
            fields: ServerFields { call_id: "c1".to_owned(), ..ServerFields::default() },
        }),
    ]
}

fn exchange() -> impl Strategy<Value = TurnFact> {
    let request = proptest::option::of((proptest::collection::vec(message(), 0..5), any::<bool>(), 0..3_usize));
    (0..3_u32, request, proptest::collection::vec(part(), 0..4)).prop_map(|(voice, request, parts)| {
        let request = request.map(|(messages, may_call, tools)| {
            let tools = (0..tools).map(|number| json!({ "name": format!("tool {number}") })).collect();
            let messages = messages.into_iter().map(Arc::new).collect();
            Arc::new(RecordedRequest { messages, tools: Arc::new(tools), may_call })
        });
        let usage = Some(Usage { prompt_tokens: 5, ..Usage::default() });
        let answer = RecordedAnswer { parts, usage, finish: RecordedFinish::Length };
        TurnFact::Exchange(Exchange { voice, slot: Slot::default(), request, answer })
    })
}

fn fact() -> impl Strategy<Value = TurnFact> {
    prop_oneof![
        4 => exchange(),
        1 => ".{0,9}".prop_map(|task| TurnFact::Subagent(SubagentVoice { voice: 1, task })),
        2 => (".{0,9}", ".{0,20}").prop_map(|(arguments, text)| {
            TurnFact::Result(RecordedResult { tool: "grep".to_owned(), arguments, text, ..RecordedResult::default() })
        }),
    ]
}

fn recording() -> impl Strategy<Value = Recording> {
    let turn = (proptest::option::of(".{0,20}"), proptest::collection::vec(fact(), 0..8), any::<bool>());
    let turn = turn.prop_map(|(input, facts, ended)| RecordedTurn {
        start: RecordedStart { input, ..RecordedStart::default() },
        facts,
        end: ended.then(|| RecordedEnd { reason: StopReason::Completed, text: "x".to_owned(), steps: 1 }),
    });
    proptest::collection::vec(turn, 0..4).prop_map(|turns| Recording { head: head(), turns })
}

proptest! {
    #[test]
    fn recordings_round_trip(recording in recording()) {
        let text = write(&recording).unwrap();
        prop_assert_eq!(read(&text).unwrap(), recording);
    }

    #[test]
    fn any_edited_recording_is_read_or_rejected(recording in recording(), at in any::<prop::sample::Index>(), with in ".{0,8}") {
        let text = write(&recording).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let line = at.index(lines.len());
        lines[line] = with;
        let _ = read(&lines.join("\n"));
        lines.remove(line);
        let _ = read(&lines.join("\n"));
    }
}

#[test]
fn invalid_recording_is_rejected_with_its_line() {
    let first = write(&Recording { head: head(), turns: Vec::new() }).unwrap();
    let line = |text: &str| match read(&format!("{first}{text}\n")).unwrap_err() {
        RecordingError::Line { line, problem } => (line, problem),
        other => panic!("{other}"),
    };
    assert_eq!(
        line("{\"fact\":\"end\",\"reason\":\"completed\",\"text\":\"\",\"steps\":1}").1,
        "a fact without a turn before it"
    );
    let turn = "{\"fact\":\"turn\",\"at\":\"2026-11-25T10:00:00Z\"}";
    let request =
        |keeps: u32| format!("{turn}\n{{\"fact\":\"request\",\"slot\":\"base\",\"keeps\":{keeps},\"may_call\":true}}");
    assert_eq!(line(&request(3)), (3, "it repeats 3 messages of a request that has 0".to_owned()));
    assert_eq!(line(&format!("{}\n{turn}", request(0))), (4, "the request before it has no answer".to_owned()));
    assert!(matches!(read("{\"fact\":\"recording\",\"version\":7}"), Err(RecordingError::Newer(7))));
}

#[test]
fn oversized_request_expansion_is_rejected() {
    let mut text = write(&Recording { head: head(), turns: Vec::new() }).unwrap();
    text.push_str("{\"fact\":\"turn\",\"at\":\"2026-11-25T10:00:00Z\"}\n");
    let mut request = |keeps: usize, messages: usize| {
        text.push_str(&format!("{{\"fact\":\"request\",\"slot\":\"base\",\"keeps\":{keeps},\"may_call\":true}}\n"));
        (0..messages).for_each(|_| text.push_str("{\"fact\":\"message\",\"message\":1}\n"));
        text.push_str("{\"fact\":\"answer\",\"slot\":\"base\",\"parts\":[]}\n");
    };
    request(0, 50_000);
    (0..100).for_each(|_| request(50_000, 0));
    assert!(read(&text).unwrap_err().to_string().contains("the recording are too large"));
}

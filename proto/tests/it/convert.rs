//! Round trips of all wire types.

use std::{collections::HashSet, fmt::Debug};

use agentd_core::{
    Timestamp,
    answer_schema::AnswerSchema,
    audit::{AuditFinding, AuditHead, AuditProblem, AuditRecord, AuditReport, RecordQuery, VerdictName},
    client_tool::ClientTool,
    context::Window,
    environment::ClientEnvironment,
    event::{Event, EventKind},
    interrupt::Answer,
    item::{Item, ItemBody},
    model::Slot,
    routing::Planning,
    session::{SessionSettings, SessionSummary, StoredSession},
    turn::{IfBusy, OnInterrupt, StartTurn, TurnOptions},
};
use agentd_proto::{
    client::{NewSession, SessionView},
    convert::{WireError, settings_over},
    v1::{self, turn_request::Start},
};
use proptest::prelude::*;
use prost::Message;

use crate::samples;

/// Converts the value to bytes and back, and checks that it is unchanged.
fn check<W, T>(value: &T)
where
    W: for<'a> From<&'a T> + Message + Default,
    T: TryFrom<W> + PartialEq + Debug,
    T::Error: Debug,
{
    let bytes = W::from(value).encode_to_vec();
    let decoded = T::try_from(W::decode(bytes.as_slice()).unwrap()).unwrap();
    assert_eq!(&decoded, value);
}

#[test]
fn every_event_kind_round_trips() {
    let kinds = samples::kinds();
    let names: HashSet<_> = kinds.iter().map(EventKind::name).collect();
    assert_eq!(names.len(), 12, "a kind of event has no sample: {names:?}");
    for kind in kinds {
        let event = samples::event(kind);
        check::<v1::Event, _>(&event);
        check::<v1::Event, _>(&Event { turn_id: None, ..event });
    }
}

#[test]
fn every_item_kind_round_trips() {
    let kinds: HashSet<_> = samples::items().iter().map(|item| item.body.kind()).collect();
    assert_eq!(kinds.len(), 7, "a kind of item has no sample: {kinds:?}");
    samples::items().iter().for_each(check::<v1::Item, Item>);
}

#[test]
fn sessions_round_trip() {
    for status in samples::all() {
        check::<v1::SessionSummary, _>(&SessionSummary { status, ..samples::summary() });
    }
    check::<v1::SessionSettings, _>(&samples::settings());
    check::<v1::SessionSettings, _>(&SessionSettings::default());
    let turn = samples::results().remove(0).turn_id;
    for live_turn in [None, Some(turn)] {
        check::<v1::Session, _>(&SessionView {
            session: StoredSession {
                summary: samples::summary(),
                settings: samples::settings(),
                todos: samples::todos(),
                open_turn: live_turn.map(|turn| (turn, 12)),
                queue: Vec::new(),
                reset_seq: 5,
                window: Window { after: 6, summary: 7, held: 5 },
                handed_over: Default::default(),
                agents: vec!["researcher".into()],
                tools: Vec::new(),
                surroundings: None,
            },
            pending: samples::interrupts(),
            live_turn,
        });
    }
}

#[test]
fn turn_starts_round_trip() {
    for (on_interrupt, if_busy) in samples::all::<OnInterrupt>().zip(samples::all::<IfBusy>().cycle()) {
        check::<Start, _>(&StartTurn {
            typed_bytes: Some(2),
            planning: Some(Planning::Auto),
            whole: true,
            answer_schema: Some(AnswerSchema::unchecked("{}".to_owned())),
            text: (if_busy != IfBusy::Queue).then(String::new),
            slot: Some(Slot::Reasoning),
            max_steps: Some(3),
            on_interrupt,
            while_connected: on_interrupt == OnInterrupt::Approve,
            if_busy,
            generate_title: if_busy == IfBusy::Queue,
            client: "agentctl".into(),
            environment: ClientEnvironment::unchecked([("PATH".into(), "/bin".into())]),
            tools: vec![ClientTool {
                name: "buffer".into(),
                description: "Reads.".into(),
                parameters: serde_json::json!({"type": "object", "properties": {"z": {}, "a": {}}}),
                only_looks: on_interrupt == OnInterrupt::Wait,
            }],
            options: TurnOptions {
                agent: Some("poet".into()),
                instructions: Some("Be brief.".into()),
                allowed_tools: Some(vec!["read_file".into()]),
                model: Some("m".into()),
                slot: None,
                time_ms: Some(1),
                tokens: Some(2),
            },
            ..StartTurn::default()
        });
    }
}

#[test]
fn empty_start_has_the_defaults() {
    let start = StartTurn::try_from(Start::default()).unwrap();
    assert_eq!((start.text, start.slot, start.max_steps), (None, None, None));
    assert_eq!((start.on_interrupt, start.if_busy), (OnInterrupt::Wait, IfBusy::Refuse));
}

#[test]
fn omitted_confirm_settings_default_to_asking() {
    let silent = v1::SessionSettings::default();
    let settings = SessionSettings::try_from(silent.clone()).unwrap();
    assert!(settings.confirm_write && settings.confirm_exec);
    // A new session uses the daemon's configuration except for the client's settings.
    assert_eq!(settings_over(samples::settings(), silent), Ok(samples::settings()));
    let requested = v1::SessionSettings::from(&NewSession { confirm_write: Some(true), ..NewSession::default() });
    let settings = settings_over(samples::settings(), requested).unwrap();
    assert_eq!(settings, SessionSettings { confirm_write: true, ..samples::settings() });
}

#[test]
fn newer_peer_is_distinguished_from_a_broken_one() {
    let known = v1::Event::from(&samples::event(samples::delta("x")));
    let unknown = |event: v1::Event| Event::try_from(event).unwrap_err().is_unknown_kind();
    assert!(unknown(v1::Event { kind: None, ..known.clone() }));
    let change = v1::event::Kind::StateChanged(v1::event::StateChanged { change: None });
    assert!(unknown(v1::Event { kind: Some(change), ..known.clone() }));
    let item = v1::Item { body: None, ..v1::Item::from(&samples::items().remove(0)) };
    let started = v1::event::Kind::ItemStarted(v1::event::ItemStarted { item: Some(item) });
    assert!(unknown(v1::Event { kind: Some(started), ..known.clone() }));
    assert!(!unknown(v1::Event { session_id: "x".into(), ..known.clone() }));
    assert!(!unknown(v1::Event { at: None, ..known }));
}

#[test]
fn invalid_messages_are_rejected_with_a_reason() {
    let check = |error: WireError, expected: &str| {
        assert!(error.to_string().contains(expected), "{expected:?} is missing in {error}");
    };
    let slot = Start { slot: 77, ..Start::default() };
    check(StartTurn::try_from(slot).unwrap_err(), "the model slot is unknown to this version");
    check(Answer::try_from(v1::Answer { answer: None }).unwrap_err(), "an answer is unknown to");
    let edit = v1::answer::Answer::Edit(v1::answer::Edit { args_json: "{".into() });
    check(Answer::try_from(v1::Answer { answer: Some(edit) }).unwrap_err(), "arguments of an answer is not valid JSON");
    let project = Some(v1::Mount { path: "relative".into(), writable: false });
    let settings = v1::SessionSettings { project, ..Default::default() };
    check(SessionSettings::try_from(settings).unwrap_err(), "must be absolute");
    for (seconds, nanos) in [(0, -1), (0, 1_000_000_000), (i64::MAX, 0), (i64::MIN, 5)] {
        let at = Some(prost_types::Timestamp { seconds, nanos });
        let event = v1::Event { at, ..(&samples::event(samples::delta("x"))).into() };
        check(Event::try_from(event).unwrap_err(), "the time of an event");
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_time_and_text_round_trip(
        nanosecond in Timestamp::MIN.as_nanosecond()..=Timestamp::MAX.as_nanosecond(),
        seq in any::<u64>(),
        text in any::<String>(),
    ) {
        let at = Timestamp::from_nanosecond(nanosecond).unwrap();
        check::<v1::Event, _>(&Event { at, seq, ..samples::event(samples::delta(&text)) });
        let mut item = samples::items().remove(0);
        item.body = ItemBody::notice(text);
        check::<v1::Item, _>(&item);
    }

    #[test]
    fn any_arguments_round_trip(args in any_json()) {
        check::<v1::Answer, _>(&Answer::Edit { args });
    }

    #[test]
    fn any_bytes_are_accepted_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(event) = v1::Event::decode(bytes.as_slice()) {
            let _accepted_or_rejected = Event::try_from(event);
        }
    }
}

#[test]
fn audit_records_round_trip() {
    let query = RecordQuery {
        session_id: None,
        turn_id: Some(samples::results()[0].turn_id),
        tool: Some("now".to_owned()),
        verdict: Some(VerdictName::Ask),
        refused: true,
        since: Some(Timestamp::UNIX_EPOCH),
        before: 7,
        limit: 20,
    };
    check::<v1::ListAuditRequest, _>(&query);
    let unnamed = RecordQuery::try_from(v1::ListAuditRequest::default()).unwrap();
    assert_eq!(unnamed, RecordQuery { limit: 100, ..RecordQuery::default() });

    let finding = |problem| AuditFinding { file: "audit.jsonl".to_owned(), line: 3, problem, message: "!".to_owned() };
    let head = AuditHead { n: 4, hash: "ab".to_owned() };
    let report =
        AuditReport { lines: 4, files: Vec::new(), head, findings: vec![finding(AuditProblem::Recorded)], more: 0 };
    assert!(v1::VerifyAuditResponse::from(&report).holds, "damage recorded earlier does not break the chain");
    check::<v1::VerifyAuditResponse, _>(&report);
    let damaged = AuditReport { findings: vec![finding(AuditProblem::Changed)], ..report };
    assert!(!v1::VerifyAuditResponse::from(&damaged).holds);
    assert!(AuditRecord::try_from(v1::AuditRecord { n: 1, json: "{}".to_owned() }).is_err());
}

//! Tests of recordings created from the events of a journal, and of their replay.

use std::sync::Arc;

use agentd_core::{
    Timestamp,
    event::{Event, EventKind},
    ids::{CallId, SessionId, TraceId, TurnId},
    item::{Item, ItemBody, ItemStatus},
    model::{Finish, Message, ModelChunk, ModelRequest, Slot},
    ports::Models as _,
    tool::{ToolCall, ToolResult},
    usage::Usage,
};
use agentd_replay::{CapturedSession, Play, PlayedModels, RecordedFinish, Script, SpokenPart, TurnFact, capture};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

struct Journal {
    session: SessionId,
    turn: TurnId,
    events: Vec<Arc<Event>>,
}

impl Journal {
    fn new() -> Self {
        let mut journal = Self { session: SessionId::generate(), turn: TurnId::generate(), events: Vec::new() };
        journal.add(json!({
            "type": "turn_started", "trace_id": TraceId::generate(), "slot": "base", "model": "m", "reason": "", "max_steps": 9,
        }));
        journal.add_item(ItemBody::UserMessage {
            text: "Do it".to_owned(),
            steered: false,
            typed_bytes: None,
            stored: None,
        });
        journal
    }

    /// Appends a fact in its journal form.
    fn add(&mut self, fact: Value) {
        self.push(serde_json::from_value(fact).unwrap());
    }

    fn push(&mut self, kind: EventKind) {
        let seq = self.events.len() as u64 + 1;
        let at = Timestamp::UNIX_EPOCH;
        let event = Event { session_id: self.session, turn_id: Some(self.turn), seq, at, kind };
        self.events.push(Arc::new(event));
    }

    fn add_item(&mut self, body: ItemBody) {
        let item = Item::new(self.turn, body);
        self.push(EventKind::ItemCompleted { item, status: ItemStatus::Done });
    }

    fn begin(&mut self, body: ItemBody) -> Item {
        let item = Item::new(self.turn, body);
        self.push(EventKind::ItemStarted { item: item.clone() });
        item
    }

    fn end(&mut self, item: Item, status: ItemStatus) {
        self.push(EventKind::ItemCompleted { item, status });
    }

    fn add_usage(&mut self) {
        let usage = Usage::default();
        self.add(
            json!({"type": "usage_updated", "step": 1, "slot": "base", "model": "m", "usage": usage, "turn": usage}),
        );
    }

    fn into_session(self) -> CapturedSession {
        CapturedSession { events: self.events, ..CapturedSession::default() }
    }
}

fn message(text: &str) -> ItemBody {
    ItemBody::AgentMessage { text: text.to_owned() }
}

fn reasoning(text: &str) -> ItemBody {
    ItemBody::Reasoning { text: text.to_owned() }
}

fn call(name: &str) -> ToolCall {
    ToolCall { call_id: CallId::generate(), name: name.to_owned(), arguments: "{\"a\":1}".to_owned() }
}

/// Returns a session with two answers: reasoning, text and a call in the first, only text in the second.
fn two_answers() -> CapturedSession {
    let mut journal = Journal::new();
    let reasoning_item = journal.begin(reasoning("hm"));
    journal.end(reasoning_item, ItemStatus::Done);
    let text_item = journal.begin(message("I look."));
    journal.add_usage();
    journal.end(text_item, ItemStatus::Done);
    let call = call("grep");
    journal.add_item(ItemBody::ToolCall(call.clone()));
    let result = ToolResult { text: "found".to_owned(), ..ToolResult::empty(call.call_id, "grep") };
    journal.add_item(ItemBody::ToolResult(result));
    let reasoning_item = journal.begin(reasoning("so"));
    journal.end(reasoning_item, ItemStatus::Done);
    let text_item = journal.begin(message("Done."));
    journal.add_usage();
    journal.end(text_item, ItemStatus::Done);
    journal.into_session()
}

#[test]
fn text_belongs_to_the_answer_where_it_began() {
    let recording = capture(&two_answers(), "test");
    let [TurnFact::Exchange(first), TurnFact::Result(result), TurnFact::Exchange(second)] =
        recording.turns[0].facts.as_slice()
    else {
        panic!("{:#?}", recording.turns[0].facts)
    };
    let [SpokenPart::Reasoning(hm), SpokenPart::Text(look), SpokenPart::Call { name, .. }] =
        first.answer.parts.as_slice()
    else {
        panic!("{:#?}", first.answer)
    };
    assert_eq!((hm.as_str(), look.as_str(), name.as_str()), ("hm", "I look.", "grep"));
    assert_eq!((result.text.as_str(), result.arguments.as_str()), ("found", "{\"a\":1}"));
    assert_eq!(second.answer.parts, [SpokenPart::Reasoning("so".to_owned()), SpokenPart::Text("Done.".to_owned())]);
    assert_eq!(recording.turns[0].start.input.as_deref(), Some("Do it"));
}

#[test]
fn broken_answer_is_dropped_and_failed_call_ends_unknown() {
    let mut journal = Journal::new();
    let broken = journal.begin(message("I lo"));
    journal.end(Item { body: message(""), ..broken }, ItemStatus::Cut);
    let text_item = journal.begin(message("I look."));
    journal.add_usage();
    journal.end(text_item, ItemStatus::Done);
    journal.add_usage();
    let recording = capture(&journal.into_session(), "test");
    let [TurnFact::Exchange(first), TurnFact::Exchange(failed)] = recording.turns[0].facts.as_slice() else {
        panic!("{:#?}", recording.turns[0].facts)
    };
    assert_eq!(first.answer.parts, [SpokenPart::Text("I look.".to_owned())]);
    assert_eq!(failed.answer.finish, RecordedFinish::Unknown);
}

fn request(session_id: SessionId, text: &str) -> ModelRequest {
    let messages = vec![Message::User { text: text.to_owned() }];
    ModelRequest { may_call: true, ..ModelRequest::new(session_id, messages) }
}

#[tokio::test]
async fn differing_request_ends_replay_and_shows_the_nearest() {
    let session = SessionId::generate();
    let redact: agentd_replay::Redaction = Arc::new(str::to_owned);
    let script = Arc::new(Script::new(capture(&two_answers(), "test"), Play::Learn, Arc::clone(&redact)));
    script.begin(0, session);
    let ask = async |script: &Arc<Script>, text: &str| {
        let stream = PlayedModels::new(script).get(Slot::default()).stream(request(session, text));
        stream.collect::<Vec<_>>().await
    };
    for text in ["one", "two"] {
        assert!(matches!(ask(&script, text).await.last(), Some(Ok(ModelChunk::End(Finish::Stop)))));
    }
    assert!(ask(&script, "three").await[0].is_err(), "a third answer was returned");
    let learned = script.learned();

    let strict = Arc::new(Script::new(learned, Play::Strict, redact));
    strict.begin(0, session);
    assert!(ask(&strict, "one").await[0].is_ok());
    let error = ask(&strict, "2").await.remove(0).unwrap_err();
    assert!(error.to_string().contains("message 1 (user)"), "{error}");
    let problem = strict.problems().remove(0);
    let diff = problem.difference.unwrap().diff;
    assert!(diff.contains("-two") && diff.contains("+2"), "{diff}");
    assert_eq!((problem.turn, problem.step, strict.unplayed()), (1, 2, 1));
}

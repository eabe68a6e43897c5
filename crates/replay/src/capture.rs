//! Creates a recording from the events of a journal.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::{CallId, InterruptId, ItemId, SessionId, TurnId},
    interrupt::Ask,
    item::{Item, ItemBody, ItemStatus},
    model::SlotInfo,
    origin::ServerFields,
    surroundings::Surroundings,
    tool::{FileChange, ToolCall, ToolResult},
};
use jiff::Timestamp;

use crate::recording::{
    Exchange, RecordedAnswer, RecordedEnd, RecordedFinish, RecordedProject, RecordedQuestion, RecordedResult,
    RecordedStart, RecordedTurn, Recording, RecordingHead, SpokenPart, SubagentVoice, TurnFact, VERSION,
};

/// Maximum depth of nested subagents.
const MAX_DEPTH: usize = 8;

/// Session to be recorded.
#[derive(Debug, Default)]
pub struct CapturedSession {
    /// Start of the session.
    pub began: Timestamp,
    /// Title of the session.
    pub title: String,
    /// Project of the session, if any.
    pub project: Option<RecordedProject>,
    /// Models for all slots.
    pub models: Vec<SlotInfo>,
    /// Events of the session, from the first.
    pub events: Vec<Arc<Event>>,
    /// Events of all subagents of the session.
    pub subagents: HashMap<SessionId, Vec<Arc<Event>>>,
}

/// Creates the recording of a session. The recording contains no requests, because a journal does not contain them.
/// Turns that only compacted the history are left out.
pub fn capture(session: &CapturedSession, agentd: &str) -> Recording {
    let mut voice_numbers = VoiceNumbers { subagents: &session.subagents, known: HashMap::new() };
    let mut surroundings: Option<Surroundings> = None;
    let mut indices: HashMap<TurnId, usize> = HashMap::new();
    let mut of_turn: Vec<Vec<&Event>> = Vec::new();
    for event in &session.events {
        if let EventKind::StateChanged { change: StateChange::Surroundings(found) } = &event.kind {
            surroundings.get_or_insert_with(|| found.clone());
        }
        let Some(turn) = event.turn_id else { continue };
        let index = *indices.entry(turn).or_insert(of_turn.len());
        if index == of_turn.len() {
            of_turn.push(Vec::new());
        }
        of_turn[index].push(event);
    }
    let turns = of_turn.iter().filter_map(|events| captured_turn(events, &mut voice_numbers)).collect();
    if let Some(found) = &mut surroundings {
        (found.project, found.client) = (None, None);
    }
    // Recordings do not include server addresses.
    let mut models = session.models.clone();
    models.iter_mut().for_each(|slot| (slot.model.base_url, slot.model.figures) = (None, Vec::new()));
    let CapturedSession { began, project, .. } = *session;
    let (agentd, title) = (agentd.to_owned(), session.title.clone());
    let head = RecordingHead { version: VERSION, agentd, began, title, project, surroundings, models };
    Recording { head, turns }
}

/// Voice numbers of subagents.
struct VoiceNumbers<'a> {
    subagents: &'a HashMap<SessionId, Vec<Arc<Event>>>,
    known: HashMap<SessionId, u32>,
}

fn captured_turn(events: &[&Event], voice_numbers: &mut VoiceNumbers<'_>) -> Option<RecordedTurn> {
    let start = events.iter().find_map(|event| match &event.kind {
        EventKind::TurnStarted { slot, max_steps, compacts: false, answer_schema, options, .. } => {
            let (at, slot, max_steps, answer_schema) = (event.at, *slot, *max_steps, answer_schema.clone());
            let options = options.as_deref().cloned().unwrap_or_default();
            Some(RecordedStart { at, slot, max_steps, answer_schema, options, ..RecordedStart::default() })
        }
        _ => None,
    })?;
    let mut turn = RecordedTurn { start, ..RecordedTurn::default() };
    let withdrawn = events.iter().find_map(|event| match &event.kind {
        EventKind::StateChanged { change: StateChange::Withdrawn { items, input, .. } } => Some((items, input)),
        _ => None,
    });
    // A withdrawn turn leaves no entry in the history.
    if withdrawn.is_some_and(|(_, input)| input.is_some()) {
        return None;
    }
    for event in events.iter().filter(|event| !withdrawn.is_some_and(|(items, _)| items.contains(&event.seq))) {
        match &event.kind {
            EventKind::ItemCompleted { item, .. } => match &item.body {
                ItemBody::UserMessage { text, steered: true, .. } => turn.start.steered.push(text.clone()),
                ItemBody::UserMessage { text, typed_bytes, .. } => {
                    (turn.start.input, turn.start.typed_bytes) = (Some(text.clone()), *typed_bytes);
                }
                _ => {}
            },
            EventKind::TurnEnded { result } => {
                turn.end =
                    Some(RecordedEnd { reason: result.stop_reason, text: result.text.clone(), steps: result.steps });
            }
            _ => {}
        }
    }
    turn.facts = captured_facts(events, 0, voice_numbers, MAX_DEPTH);
    Some(turn)
}

/// Returns all external facts in these events of one session.
fn captured_facts(events: &[&Event], voice: u32, voice_numbers: &mut VoiceNumbers<'_>, depth: usize) -> Vec<TurnFact> {
    let mut collector = FactCollector { voice, ..FactCollector::default() };
    for event in events {
        collector.apply(event);
        if let EventKind::StateChanged { change: StateChange::Subagent(subagent) } = &event.kind
            && depth > 0
        {
            let is_result = |event: &&&Event| {
                matches!(&event.kind, EventKind::ItemCompleted { item, .. }
                    if matches!(&item.body, ItemBody::ToolResult(result) if result.call_id == subagent.call_id))
            };
            let end = events.iter().find(is_result).map(|event| event.at);
            let facts = captured_subagent(subagent.session_id, subagent.after, end, voice_numbers, depth - 1);
            collector.facts.extend(facts);
        }
    }
    drop_failed_calls(&mut collector.facts, voice);
    collector.facts
}

/// Removes model calls without a result, except for the last one. Such calls failed and were retried, or did not belong
/// to the session's own requests. Later facts do not depend on them.
fn drop_failed_calls(facts: &mut Vec<TurnFact>, voice: u32) {
    let of_voice = |fact: &TurnFact| matches!(fact, TurnFact::Exchange(exchange) if exchange.voice == voice);
    let Some(last) = facts.iter().rposition(of_voice) else { return };
    let failed = facts.extract_if(..last, |fact| {
        of_voice(fact)
            && matches!(fact, TurnFact::Exchange(Exchange { answer, .. })
                if answer.parts.is_empty() && answer.finish == RecordedFinish::Unknown)
    });
    failed.for_each(drop);
}

/// Returns the facts of a subagent after the event `after` in its session: its turn, and further turns that received
/// more work before the call returned its result.
fn captured_subagent(
    session: SessionId,
    after: u64,
    end: Option<Timestamp>,
    voice_numbers: &mut VoiceNumbers<'_>,
    depth: usize,
) -> Vec<TurnFact> {
    let Some(events) = voice_numbers.subagents.get(&session) else { return Vec::new() };
    let (mut work, mut has_ended): (Vec<&Event>, bool) = (Vec::new(), false);
    for event in events.iter().filter(|event| event.seq > after) {
        if has_ended && end.is_none_or(|end| event.at > end) {
            break;
        }
        work.push(event);
        has_ended |= matches!(event.kind, EventKind::TurnEnded { .. });
    }
    let task = work.iter().find_map(|event| match &event.kind {
        EventKind::ItemCompleted { item, .. } => match &item.body {
            ItemBody::UserMessage { text, .. } => Some(text.clone()),
            _ => None,
        },
        _ => None,
    });
    let mut facts = Vec::new();
    let next = u32::try_from(voice_numbers.known.len() + 1).unwrap_or(u32::MAX);
    let voice = *voice_numbers.known.entry(session).or_insert_with(|| {
        facts.push(TurnFact::Subagent(SubagentVoice { voice: next, task: task.unwrap_or_default() }));
        next
    });
    facts.extend(captured_facts(&work, voice, voice_numbers, depth));
    facts
}

/// Collects external facts, event by event.
#[derive(Default)]
struct FactCollector {
    voice: u32,
    facts: Vec<TurnFact>,
    /// Index of the most recently counted exchange.
    exchange: Option<usize>,
    /// Parts that belong to the next counted call.
    pending: Vec<SpokenPart>,
    /// Items that started after the last count. Their parts belong to the next call.
    started: HashSet<ItemId>,
    /// Arguments of the calls so far.
    calls: HashMap<CallId, String>,
    questions: HashMap<InterruptId, Ask>,
}

impl FactCollector {
    fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ItemStarted { item } => {
                if let ItemBody::AgentMessage { .. } | ItemBody::Reasoning { .. } = item.body {
                    self.started.insert(item.id);
                }
            }
            EventKind::ItemCompleted { item, status } => self.item(item, *status),
            EventKind::UsageUpdated { slot, usage, delegated: false, .. } => {
                self.started.clear();
                let parts = std::mem::take(&mut self.pending);
                let answer = RecordedAnswer { parts, usage: Some(*usage), finish: RecordedFinish::Unknown };
                self.exchange = Some(self.facts.len());
                let voice = self.voice;
                self.facts.push(TurnFact::Exchange(Exchange { voice, slot: *slot, request: None, answer }));
            }
            // Questions of a subagent also appear in this session, but belong to the subagent.
            EventKind::InterruptRaised { interrupt } if interrupt.session_id == event.session_id => {
                self.questions.insert(interrupt.id, interrupt.ask.clone());
            }
            EventKind::InterruptResolved { interrupt_id, answer, .. } => {
                // A replay starts with the project as it was at the end, so it does not ask whether to make it writable.
                let asked = self.questions.remove(interrupt_id).filter(|ask| ask.writable_project().is_none());
                if let Some(ask) = asked {
                    self.facts.push(TurnFact::Question(Box::new(RecordedQuestion { ask, answer: answer.clone() })));
                }
            }
            EventKind::Warning { code, .. } => match code.as_str() {
                "answer_cut" => self.finish(RecordedFinish::Length),
                "answer_filtered" => self.finish(RecordedFinish::Filtered),
                _ => {}
            },
            _ => {}
        }
    }

    fn item(&mut self, item: &Item, status: ItemStatus) {
        match &item.body {
            // An empty truncated item discards the parts before it.
            ItemBody::AgentMessage { text } | ItemBody::Reasoning { text }
                if text.is_empty() && status == ItemStatus::Cut =>
            {
                self.parts(item.id).clear();
            }
            ItemBody::AgentMessage { text } => self.add_part(item, SpokenPart::Text(text.clone())),
            ItemBody::Reasoning { text } => self.add_part(item, SpokenPart::Reasoning(text.clone())),
            ItemBody::ToolCall(call) => self.call(item, call),
            ItemBody::ToolResult(result) => self.result(result),
            ItemBody::Compaction(compaction) if !compaction.summary.is_empty() => {
                // The text of a summary is in no other item.
                if let Some(answer) = self.answer().filter(|answer| answer.parts.is_empty()) {
                    answer.parts.push(SpokenPart::Text(compaction.summary.clone()));
                    answer.finish = RecordedFinish::Stop;
                }
            }
            _ => {}
        }
    }

    /// Returns the most recently counted answer.
    fn answer(&mut self) -> Option<&mut RecordedAnswer> {
        match self.facts.get_mut(self.exchange?) {
            Some(TurnFact::Exchange(exchange)) => Some(&mut exchange.answer),
            _ => None,
        }
    }

    fn finish(&mut self, finish: RecordedFinish) {
        if let Some(answer) = self.answer() {
            answer.finish = finish;
        }
    }

    /// Returns the parts to which an item belongs.
    fn parts(&mut self, item: ItemId) -> &mut Vec<SpokenPart> {
        let counted = self.exchange.filter(|_| !self.started.contains(&item));
        let Some(TurnFact::Exchange(Exchange { answer, .. })) = counted.and_then(|at| self.facts.get_mut(at)) else {
            return &mut self.pending;
        };
        if answer.finish == RecordedFinish::Unknown {
            answer.finish = RecordedFinish::Stop;
        }
        &mut answer.parts
    }

    fn add_part(&mut self, item: &Item, part: SpokenPart) {
        let fields = item.origin.as_ref().map(|origin| origin.fields.clone()).filter(ServerFields::has_answer_fields);
        let parts = self.parts(item.id);
        parts.push(part);
        parts.extend(fields.map(SpokenPart::Fields));
    }

    fn call(&mut self, item: &Item, call: &ToolCall) {
        let mut fields = item.origin.as_ref().map(|origin| origin.fields.clone()).unwrap_or_default();
        let has_answer_fields = fields.has_answer_fields();
        let (reasoning_details, blocks) = (fields.reasoning_details.take(), fields.blocks.take());
        let of_answer = || ServerFields { reasoning_details, blocks, ..ServerFields::default() };
        let answer_fields = has_answer_fields.then(of_answer);
        self.calls.insert(call.call_id.clone(), call.arguments.clone());
        let parts = self.parts(item.id);
        parts.extend(answer_fields.map(SpokenPart::Fields));
        let (name, arguments) = (call.name.clone(), call.arguments.clone());
        parts.push(SpokenPart::Call { name, arguments, fields });
    }

    fn result(&mut self, result: &ToolResult) {
        let written = || self.calls.get(&result.call_id).cloned();
        let arguments = result.ran_with.clone().or_else(written).unwrap_or_default();
        let &ToolResult { ref name, ref text, error, exit_code, ref details, ref files, .. } = result;
        let (tool, text, details) = (name.clone(), text.clone(), details.clone());
        // Recordings do not include the project's location on the original machine.
        let files = files.iter().map(|file| FileChange::new(file.path.clone(), file.change)).collect();
        let voice = self.voice;
        let recorded = RecordedResult { voice, tool, arguments, text, error, exit_code, details, files };
        self.facts.push(TurnFact::Result(recorded));
    }
}

//! Builds turns from a session's events, one by one. Also finds the time at which a crash interrupted a turn. The next
//! start of the daemon settles that turn, possibly days later, so the events of the settlement show how the turn ended,
//! but not when.

use std::collections::{BTreeMap, HashMap};

use agentd_core::{
    Timestamp,
    agent::{MAIN, Subagent},
    context::TokenLevel,
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    ids::{CallId, InterruptId, ItemId, SessionId, TurnId},
    interrupt::AnsweredBy,
    item::{ItemBody, ItemStatus},
    tool::ToolErrorCode,
    turn::{StopReason, TurnResult},
    usage::Usage,
};

use crate::{
    arena::{Arena, clamp},
    span::{ModelCallSpan, SpanKind, SubagentSpan, TurnEnd, TurnTrace, between},
};

mod items;

/// Code of the warning about a retried model call.
const RETRY: &str = "model_retry";

/// Error kind that is used if the journal contains none.
const UNKNOWN_ERROR: &str = "_OTHER";

/// Builds the turns of a session, in the order in which they began. `events` are the events of one session, in order;
/// deltas are skipped.
pub fn turns<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<TurnTrace> {
    let mut turns: Vec<TurnBuilder<'a>> = Vec::new();
    let mut numbers: BTreeMap<TurnId, usize> = BTreeMap::new();
    let mut agent = MAIN.to_owned();
    for event in events.into_iter().filter(|event| event.kind.is_stored()) {
        if let Some(turn_id) = event.turn_id {
            let number = *numbers.entry(turn_id).or_insert_with(|| {
                turns.push(TurnBuilder::new(event.session_id, turn_id, event, &agent));
                turns.len() - 1
            });
            turns[number].apply(event);
        }
        if let EventKind::StateChanged { change: StateChange::Agent { stack } } = &event.kind {
            agent = stack.last().cloned().unwrap_or_else(|| MAIN.to_owned());
        }
    }
    // A queued turn that has not begun is not included.
    let has_begun = |TurnBuilder { trace, arena, .. }: &TurnBuilder<'_>| {
        trace.trace_id.is_some() || trace.outcome.is_some() || !arena.is_empty()
    };
    let turns = turns.into_iter().filter(has_begun).map(TurnBuilder::finish);
    let numbered = |(number, turn): (u64, TurnTrace)| TurnTrace { number, ..turn };
    (1..).zip(turns).map(numbered).collect()
}

/// Turn whose events are being read.
struct TurnBuilder<'a> {
    trace: TurnTrace,
    arena: Arena,
    events: Vec<&'a Event>,
    /// Span number of the model call in progress.
    call: Option<usize>,
    /// Span number and step of the last model call with a usage event.
    last_call: Option<(usize, u32)>,
    /// Span number of the tool call with the latest result.
    last_tool: Option<usize>,
    /// Span number of the compaction in progress.
    compaction: Option<usize>,
    tools: HashMap<CallId, usize>,
    items: HashMap<ItemId, usize>,
    interrupts: HashMap<InterruptId, usize>,
    subagents: HashMap<SessionId, usize>,
    /// Earliest possible start of the next model call.
    earliest_start: Timestamp,
    /// Latest time of an event so far.
    latest: Timestamp,
}

impl<'a> TurnBuilder<'a> {
    fn new(session_id: SessionId, turn_id: TurnId, first: &Event, agent: &str) -> Self {
        let trace = TurnTrace {
            session_id,
            turn_id,
            number: 0,
            trace_id: None,
            agent: agent.to_owned(),
            first_seq: first.seq,
            last_seq: first.seq,
            at: first.at,
            end: first.at,
            is_open: true,
            slot: None,
            model: String::new(),
            reason: String::new(),
            max_steps: 0,
            outcome: None,
            settled_at: None,
            usage: Usage::default(),
            waited_ms: 0,
            spans: Vec::new(),
        };
        Self {
            trace,
            arena: Arena::default(),
            events: Vec::new(),
            call: None,
            last_call: None,
            last_tool: None,
            compaction: None,
            tools: HashMap::new(),
            items: HashMap::new(),
            interrupts: HashMap::new(),
            subagents: HashMap::new(),
            earliest_start: first.at,
            latest: first.at,
        }
    }

    fn apply(&mut self, event: &'a Event) {
        self.trace.last_seq = event.seq;
        self.events.push(event);
        if !event.is_damaged() {
            self.latest = self.latest.max(event.at);
        }
        match &event.kind {
            EventKind::TurnStarted { trace_id, slot, model, reason, max_steps, options, .. } => {
                self.trace.trace_id = Some(*trace_id);
                (self.trace.at, self.latest) = (event.at, event.at.max(self.latest));
                (self.trace.slot, self.trace.model, self.trace.max_steps) = (Some(*slot), model.clone(), *max_steps);
                self.trace.reason.clone_from(reason);
                if let Some(agent) = options.as_ref().and_then(|options| options.agent.clone()) {
                    self.trace.agent = agent;
                }
            }
            EventKind::ItemStarted { item } => self.item_started(event, item),
            EventKind::ItemDelta { .. } => {}
            EventKind::ItemCompleted { item, status } => self.item_completed(event, item, *status),
            EventKind::InterruptRaised { interrupt } => self.interrupt_raised(event, interrupt),
            EventKind::InterruptResolved { interrupt_id, answer, by, .. } => {
                self.interrupt_resolved(event, *interrupt_id, answer, by);
            }
            EventKind::UsageUpdated { .. } => self.usage_updated(event),
            EventKind::IntentClassified { intent } => {
                self.add_choice(event, format!("intent {}", intent.kind.as_str()), &intent.reason);
            }
            EventKind::ModelChosen { model, reason, .. } => {
                self.call = None;
                self.call_failed(None);
                self.add_choice(event, format!("model {model}"), reason);
            }
            EventKind::StateChanged { change } => self.state_changed(event, change),
            EventKind::Warning { code, message, .. } => self.add_warning(event, code, message),
            EventKind::TurnEnded { result } => self.turn_ended(event, result),
        }
        if !matches!(&event.kind, EventKind::Warning { code, .. } if code == RETRY) {
            self.earliest_start = event.at;
        }
    }

    /// Returns the model call in progress. A call without events so far started after the previous event.
    fn current_call(&mut self, event: &Event) -> usize {
        if let Some(call) = self.call {
            return call;
        }
        let call = Box::new(ModelCallSpan { is_estimated: true, ..ModelCallSpan::default() });
        let kind = SpanKind::ModelCall(call);
        let number = self.arena.open(self.compaction, format!("m{}", event.seq), self.earliest_start, kind);
        self.call = Some(number);
        number
    }

    fn usage_updated(&mut self, event: &Event) {
        let EventKind::UsageUpdated { step, slot, model, usage, prompt, delegated, timing, .. } = &event.kind else {
            return;
        };
        self.trace.usage += *usage;
        let is_of_known_step = self.last_call.is_some_and(|(_, known)| known == *step);
        let is_sampled = timing.is_none() && prompt.is_none() && is_of_known_step;
        if (*delegated || (is_sampled && self.call.is_none() && self.is_after_result()))
            && let Some(tool) = self.last_tool.and_then(|number| self.arena.tool(number))
        {
            let sum = if *delegated { &mut tool.delegated } else { &mut tool.sampled };
            *sum += *usage;
            return;
        }
        let number = self.current_call(event);
        let first = self.arena.first_output(number);
        let span = self.arena.span(number);
        span.id = format!("m{}", event.seq);
        if let Some(start) = timing.and_then(|timing| subtract_millis(event.at, timing.duration_ms)) {
            span.at = start;
            // The question about the intent precedes all other parts of its turn.
            if *step == 0 {
                self.trace.at = self.trace.at.min(start);
            }
        }
        let at = span.at;
        if let Some(call) = self.arena.call(number) {
            (call.step, call.slot, call.usage) = (*step, Some(*slot), *usage);
            call.model.clone_from(model);
            call.prompt.clone_from(prompt);
            call.is_estimated = timing.is_none();
            call.took_ms = timing.map(|timing| timing.duration_ms);
            let estimated = || first.map(|first| between(at, first));
            call.first_token_ms = timing.map_or_else(estimated, |timing| timing.first_token_ms);
        }
        self.arena.close(number, event.at);
        (self.call, self.last_call) = (None, Some((number, *step)));
    }

    /// Returns true if the previous event is a tool result, or usage of a subagent.
    fn is_after_result(&self) -> bool {
        let before = self.events.iter().rev().nth(1).map(|event| &event.kind);
        match before {
            Some(EventKind::ItemCompleted { item, .. }) => matches!(item.body, ItemBody::ToolResult(_)),
            Some(EventKind::UsageUpdated { delegated, .. }) => *delegated,
            _ => false,
        }
    }

    /// Marks the last call as failed if the turn continues without any text or tool call from that call.
    fn call_failed(&mut self, kind: Option<ErrorKind>) {
        let Some((number, step)) = self.last_call.filter(|(number, _)| self.arena.first_output(*number).is_none())
        else {
            return;
        };
        let is_answered = self.tools.values().any(|tool| self.arena.tool(*tool).is_some_and(|tool| tool.step == step));
        if let Some(call) = self.arena.call(number).filter(|call| step > 0 && !is_answered && call.error.is_none()) {
            let name = kind.and_then(|kind| Some(serde_json::to_value(kind).ok()?.as_str()?.to_owned()));
            call.error = Some(name.unwrap_or_else(|| UNKNOWN_ERROR.to_owned()));
        }
    }

    fn add_warning(&mut self, event: &Event, code: &str, message: &str) {
        let parent = if code == RETRY {
            let number = self.current_call(event);
            if let Some(call) = self.arena.call(number) {
                call.retries = call.retries.saturating_add(1);
            }
            Some(number)
        } else {
            self.call
        };
        let at = if event.is_damaged() { self.latest } else { event.at };
        let kind = SpanKind::Warning { code: code.to_owned(), message: message.to_owned() };
        self.arena.point(parent, format!("w{}", event.seq), at, kind);
    }

    fn state_changed(&mut self, event: &Event, change: &StateChange) {
        match change {
            StateChange::Subagent(subagent) => self.subagent_started(event, subagent),
            StateChange::Agent { stack } => {
                let agent = stack.last().map_or(MAIN, String::as_str);
                self.add_choice(event, format!("agent {agent}"), "the session was handed over");
            }
            StateChange::TokenLevel { level, tokens, window } if *level != TokenLevel::default() => {
                let reason = format!("{tokens} of {window} tokens in the window are used");
                self.add_choice(event, format!("window {}", level.as_str()), &reason);
            }
            _ => {}
        }
    }

    fn subagent_started(&mut self, event: &Event, subagent: &Subagent) {
        let parent = self.tools.get(&subagent.call_id).copied();
        let &Subagent { session_id, after, ref name, ref task, .. } = subagent;
        let work = SubagentSpan { session_id, after, name: name.clone(), task: task.clone(), turns: Vec::new() };
        let number = self.arena.open(parent, format!("s{}", event.seq), event.at, SpanKind::Subagent(Box::new(work)));
        self.subagents.insert(session_id, number);
    }

    fn add_choice(&mut self, event: &Event, choice: String, reason: &str) {
        let kind = SpanKind::Choice { choice, reason: reason.to_owned() };
        self.arena.point(None, format!("c{}", event.seq), event.at, kind);
    }

    fn turn_ended(&mut self, event: &Event, result: &TurnResult) {
        self.trace.is_open = false;
        self.trace.trace_id.get_or_insert(result.trace_id);
        self.trace.settled_at = Some(event.at);
        self.call_failed(result.error.as_ref().map(|error| error.kind));
        let TurnResult { stop_reason: reason, error, steps, text, duration_ms, denials, files, .. } = result.clone();
        self.trace.outcome = Some(TurnEnd { reason, error, steps, text, duration_ms, denials, files });
        self.latest = self.latest.max(event.at);
    }

    fn finish(self) -> TurnTrace {
        let mut trace = self.trace;
        trace.end = last_activity(self.events.into_iter()).unwrap_or(self.latest).max(trace.at);
        trace.spans = self.arena.into_tree(trace.end);
        let (at, end) = (trace.at, trace.end);
        clamp(&mut trace, at, end);
        trace
    }
}

/// Returns the time `milliseconds` before `at`.
fn subtract_millis(at: Timestamp, milliseconds: u64) -> Option<Timestamp> {
    let span = jiff::SignedDuration::from_millis(i64::try_from(milliseconds).ok()?);
    at.checked_sub(span).ok()
}

/// Returns the time of the last event before the crash, if the turn ended as interrupted.
fn last_activity<'a>(events: impl DoubleEndedIterator<Item = &'a Event>) -> Option<Timestamp> {
    let mut events = events.rev().skip_while(|event| !matches!(event.kind, EventKind::TurnEnded { .. }));
    let is_interrupted = |event: &Event| matches!(&event.kind, EventKind::TurnEnded { result } if result.stop_reason == StopReason::Interrupted);
    events.next().filter(|ended| is_interrupted(ended))?;
    events.find(|event| !is_settlement(&event.kind) && !event.is_damaged()).map(|event| event.at)
}

/// Returns true for events that the daemon adds to an unfinished turn when it starts.
fn is_settlement(kind: &EventKind) -> bool {
    match kind {
        EventKind::ItemCompleted { item, status } => {
            *status == ItemStatus::Unknown || matches!(&item.body, ItemBody::Notice { .. }) || is_unrun(&item.body)
        }
        EventKind::ItemStarted { item } => matches!(&item.body, ItemBody::Notice { .. }) || is_unrun(&item.body),
        EventKind::InterruptResolved { by, .. } => *by == AnsweredBy::Daemon,
        EventKind::UsageUpdated { delegated, .. } => *delegated,
        EventKind::Warning { .. } => true,
        _ => false,
    }
}

fn is_unrun(body: &ItemBody) -> bool {
    let codes = [ToolErrorCode::NotRun, ToolErrorCode::UnknownOutcome];
    matches!(body, ItemBody::ToolResult(result) if result.error.is_some_and(|code| codes.contains(&code)))
}

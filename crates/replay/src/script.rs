//! State of one replay, shared by its ports.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{
    error::{ErrorKind, ModelError},
    ids::{CallId, SessionId},
    interrupt::{Answer, Ask},
    model::{Message, ModelChunk, ModelRequest, SlotInfo},
    tool::{ToolCall, ToolErrorCode, ToolOutput},
    usage::Usage,
};
use serde_json::Value;

use crate::{
    recording::{
        Exchange, RecordedAnswer, RecordedQuestion, RecordedRequest, RecordedResult, RecordedTurn, Recording,
        RecordingHead, SpokenPart, TurnFact,
    },
    request::{self, CanonicalRequest, Redaction, RequestDifference},
};

/// Mode of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Play {
    /// Requests are learned and not checked.
    Learn,
    /// Requests must equal the recorded requests.
    Strict,
    /// Model answers come from the recording, tools run. Requests depend on the results of tools, so they are not
    /// compared.
    LiveTools,
    /// Tool results come from the recording, a live model answers.
    LiveModel,
}

/// Deviation from the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayProblem {
    /// Number of the turn, from 1.
    pub turn: usize,
    /// Number of the expected answer in the turn, from 1.
    pub step: usize,
    /// Description of the problem in one sentence.
    pub message: String,
    /// Difference from the most similar recorded request, if there is one.
    pub difference: Option<RequestDifference>,
}

/// Recording that is being replayed.
pub struct Script {
    play: Play,
    redact: Redaction,
    state: Mutex<State>,
    models: Vec<SlotInfo>,
}

#[derive(Default)]
struct State {
    recording: Recording,
    turn: usize,
    /// True for each fact of the turn that has been replayed.
    played: Vec<bool>,
    /// Sessions with their voice numbers in the recording.
    voices: HashMap<SessionId, u32>,
    requests: HashMap<SessionId, CanonicalRequest>,
    /// Previews of calls in the current turn.
    previews: HashMap<CallId, Option<String>>,
    problems: Vec<PlayProblem>,
}

impl Script {
    /// Creates the script for a recording.
    pub fn new(recording: Recording, play: Play, redact: Redaction) -> Self {
        let models = recording.head.models.clone();
        let state = State { recording, ..State::default() };
        Self { play, redact, state: Mutex::new(state), models }
    }

    /// Returns the mode of the replay.
    pub fn play(&self) -> Play {
        self.play
    }

    /// Returns the models for all slots.
    pub fn models(&self) -> &[SlotInfo] {
        &self.models
    }

    /// Returns the facts about the session as a whole.
    pub fn head(&self) -> RecordingHead {
        self.state().recording.head.clone()
    }

    /// Returns the number of recorded turns.
    pub fn turns(&self) -> usize {
        self.state().recording.turns.len()
    }

    /// Returns a copy of a turn, by its index from 0.
    pub fn turn(&self, index: usize) -> Option<RecordedTurn> {
        self.state().recording.turns.get(index).cloned()
    }

    /// Starts the turn with this index, from 0, in this session.
    pub fn begin(&self, index: usize, session: SessionId) {
        let mut state = self.state();
        let facts = state.recording.turns.get(index).map_or(0, |turn| turn.facts.len());
        state.turn = index;
        state.played = vec![false; facts];
        state.previews.clear();
        state.voices.insert(session, 0);
    }

    /// Returns the problems found so far.
    pub fn problems(&self) -> Vec<PlayProblem> {
        self.state().problems.clone()
    }

    /// Records a problem in the current turn.
    pub fn note(&self, message: impl Into<String>) {
        self.state().problem(message.into(), None);
    }

    /// Returns the recording with the learned requests.
    pub fn learned(&self) -> Recording {
        self.state().recording.clone()
    }

    /// Returns the number of recorded answers in the current turn that were not requested.
    pub fn unplayed(&self) -> usize {
        self.state().unplayed(|fact| matches!(fact, TurnFact::Exchange(_))).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the recorded answer to a request.
    ///
    /// # Errors
    /// Fails if there is no answer, or if the request differs from the recorded one.
    pub(crate) fn answer(&self, request: &ModelRequest) -> Result<Vec<ModelChunk>, ModelError> {
        let mut state = self.state();
        let now = state.requests.entry(request.session_id).or_default().canonicalize(request, &self.redact);
        let voice = state.voice(request);
        let is_match = |fact: &TurnFact| matches!(fact, TurnFact::Exchange(exchange) if exchange.voice == voice);
        let unplayed: Vec<usize> = state.unplayed(is_match).collect();
        let Some(first) = unplayed.first().copied() else {
            return Err(state.reject("the model is called more often than in the recording", None));
        };
        let index = match self.play {
            Play::Strict => match state.same_request(&unplayed, &now) {
                Ok(index) => {
                    state.share(request.session_id, index);
                    index
                }
                Err(difference) => {
                    let message = format!("the request differs from the recorded one at {}", difference.place);
                    return Err(state.reject(&message, Some(difference)));
                }
            },
            Play::Learn | Play::LiveTools | Play::LiveModel => first,
        };
        let mut chunks = None;
        let turn = state.turn;
        let fact = state.recording.turns.get_mut(turn).and_then(|turn| turn.facts.get_mut(index));
        if let Some(TurnFact::Exchange(exchange)) = fact {
            if self.play == Play::Learn {
                exchange.request = Some(Arc::new(now));
            }
            chunks = self::chunks(&exchange.answer);
        }
        state.mark_played(index);
        chunks.ok_or_else(|| state.reject("the recording has no model answer here, as its journal had none", None))
    }

    /// Returns the recorded result of a call, if there is one.
    pub(crate) fn result(&self, session: SessionId, call: &ToolCall) -> Option<ToolOutput> {
        let mut state = self.state();
        let voice = state.voices.get(&session).copied().unwrap_or_default();
        let index = state.recorded_call(voice, call, self.play != Play::LiveModel);
        let Some(index) = index else {
            let message = format!("the recording has no result for the call to {}: {}", call.name, call.arguments);
            state.problem(message, None);
            return None;
        };
        state.mark_played(index);
        match state.fact(index) {
            Some(TurnFact::Result(result)) => Some(output(result)),
            _ => None,
        }
    }

    /// Returns the preview that the user was shown in the question about a call, or `None` if there was no question.
    /// Repeated queries for a call return the same preview.
    pub(crate) fn preview(&self, call: &ToolCall) -> Option<String> {
        let mut state = self.state();
        if let Some(known) = state.previews.get(&call.call_id) {
            return known.clone();
        }
        let preview = state.recorded_preview(call);
        state.previews.insert(call.call_id.clone(), preview.clone());
        preview
    }

    /// Returns the recorded answer to a question, or `None` if the question is not in the recording.
    pub fn question(&self, ask: &Ask) -> Option<Answer> {
        let mut state = self.state();
        let is_same = |known: &Ask| match (known, ask) {
            (Ask::Approval { tool: known, .. }, Ask::Approval { tool, .. }) => known == tool,
            (Ask::Question { question: known, .. }, Ask::Question { question, .. }) => known == question,
            _ => false,
        };
        let index = state.find(|fact| matches!(fact, TurnFact::Question(known) if is_same(&known.ask)))?;
        state.mark_played(index);
        match state.fact(index) {
            Some(TurnFact::Question(question)) => Some(question.answer.clone()),
            _ => None,
        }
    }

    /// Adds a question that was not asked when the session was recorded, because the rules or the client were
    /// different.
    pub fn learn_question(&self, ask: &Ask, answer: &Answer) {
        let mut state = self.state();
        let turn = state.turn;
        let question = Box::new(RecordedQuestion { ask: ask.clone(), answer: answer.clone() });
        if let Some(turn) = state.recording.turns.get_mut(turn) {
            turn.facts.push(TurnFact::Question(question));
            state.played.push(true);
        }
    }

    /// Returns the number of recorded questions in the current turn that were not asked.
    pub fn unasked(&self) -> usize {
        self.state().unplayed(|fact| matches!(fact, TurnFact::Question(_))).count()
    }

    /// Returns true if the call in this question ran when the session was recorded.
    pub fn ran(&self, ask: &Ask) -> bool {
        let Ask::Approval { tool, .. } = ask else { return false };
        let is_denied = |result: &RecordedResult| result.error == Some(ToolErrorCode::Denied);
        let ran = |fact: &TurnFact| matches!(fact, TurnFact::Result(known) if known.tool == *tool && !is_denied(known));
        self.state().find(ran).is_some()
    }
}

impl State {
    fn facts(&self) -> &[TurnFact] {
        self.recording.turns.get(self.turn).map(|turn| turn.facts.as_slice()).unwrap_or_default()
    }

    fn fact(&self, index: usize) -> Option<&TurnFact> {
        self.facts().get(index)
    }

    /// Returns the indices of matching facts that have not been replayed.
    fn unplayed(&self, is_match: impl Fn(&TurnFact) -> bool) -> impl Iterator<Item = usize> {
        let unplayed = self.facts().iter().zip(&self.played).enumerate().filter(|(_, (_, played))| !**played);
        unplayed.filter(move |(_, (fact, _))| is_match(fact)).map(|(index, _)| index)
    }

    fn mark_played(&mut self, index: usize) {
        if let Some(played) = self.played.get_mut(index) {
            *played = true;
        }
    }

    /// Returns the index of the first matching fact that has not been replayed.
    fn find(&self, is_match: impl Fn(&TurnFact) -> bool) -> Option<usize> {
        self.unplayed(is_match).next()
    }

    /// Returns the voice number of the requesting session. A new session is the subagent whose task occurs in its
    /// request.
    fn voice(&mut self, request: &ModelRequest) -> u32 {
        if let Some(voice) = self.voices.get(&request.session_id) {
            return *voice;
        }
        let has = |task: &str| {
            request.messages.iter().any(|message| matches!(message, Message::User { text } if text.contains(task)))
        };
        let used: Vec<u32> = self.voices.values().copied().collect();
        let facts = self.recording.turns.iter().flat_map(|turn| &turn.facts);
        let subagents = facts.filter_map(|fact| match fact {
            TurnFact::Subagent(subagent) if !used.contains(&subagent.voice) && has(&subagent.task) => Some(subagent),
            _ => None,
        });
        // A task may contain another task, so the longest is used, and the first of equally long tasks. An unknown
        // session has no answers.
        let found = subagents.max_by_key(|subagent| (subagent.task.len(), std::cmp::Reverse(subagent.voice)));
        let voice = found.map_or(u32::MAX, |subagent| subagent.voice);
        self.voices.insert(request.session_id, voice);
        voice
    }

    /// Shares the memory of the request in that exchange, which equals the session's last request.
    fn share(&mut self, session: SessionId, index: usize) {
        let fact = self.recording.turns.get(self.turn).and_then(|turn| turn.facts.get(index));
        if let Some(TurnFact::Exchange(Exchange { request: Some(recorded), .. })) = fact {
            self.requests.entry(session).or_default().share(recorded);
        }
    }

    /// Returns the index of the exchange with that request, otherwise the difference from the most similar request.
    fn same_request(&self, unplayed: &[usize], now: &RecordedRequest) -> Result<usize, RequestDifference> {
        let mut nearest: Option<(usize, &RecordedRequest)> = None;
        for index in unplayed {
            let Some(TurnFact::Exchange(exchange)) = self.fact(*index) else { continue };
            let Some(recorded) = &exchange.request else { return Ok(*index) };
            if **recorded == *now {
                return Ok(*index);
            }
            let shared = request::shared(recorded, now);
            if nearest.is_none_or(|(max, _)| shared > max) {
                nearest = Some((shared, recorded));
            }
        }
        let difference = nearest.and_then(|(_, recorded)| request::difference(recorded, now));
        Err(difference.unwrap_or_else(|| RequestDifference { place: String::new(), diff: String::new() }))
    }

    /// Returns the index of the recorded result of a call. If `by_order` is true and no arguments match, for example
    /// because the arguments were adapted to the tool, the next result of the tool is used.
    fn recorded_call(&self, voice: u32, call: &ToolCall, by_order: bool) -> Option<usize> {
        let of_tool = |fact: &TurnFact| matches!(fact, TurnFact::Result(known) if known.voice == voice && known.tool == call.name);
        let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
        let are_same =
            |one: &str, other: &str| one == other || parsed(one).is_some_and(|one| parsed(other) == Some(one));
        let same = |fact: &TurnFact| {
            of_tool(fact) && matches!(fact, TurnFact::Result(known) if are_same(&known.arguments, &call.arguments))
        };
        self.find(same).or_else(|| if by_order { self.find(of_tool) } else { None })
    }

    /// Returns the preview in the next question about that call, otherwise in the next question about its tool.
    fn recorded_preview(&self, call: &ToolCall) -> Option<String> {
        let arguments = serde_json::from_str::<Value>(&call.arguments).ok();
        let is_about = |fact: &TurnFact, same: bool| match fact {
            TurnFact::Question(known) => matches!(&known.ask, Ask::Approval { tool, args, .. }
                if *tool == call.name && (!same || Some(args) == arguments.as_ref())),
            _ => false,
        };
        let index = self.find(|fact| is_about(fact, true)).or_else(|| self.find(|fact| is_about(fact, false)))?;
        match self.fact(index)? {
            TurnFact::Question(question) => match &question.ask {
                Ask::Approval { preview, .. } => preview.clone(),
                Ask::Question { .. } => None,
            },
            _ => None,
        }
    }

    fn step(&self) -> usize {
        let is_exchange = |(fact, played): &(&TurnFact, &bool)| **played && matches!(fact, TurnFact::Exchange(_));
        self.facts().iter().zip(&self.played).filter(is_exchange).count() + 1
    }

    fn problem(&mut self, message: String, difference: Option<RequestDifference>) {
        let problem = PlayProblem { turn: self.turn + 1, step: self.step(), message, difference };
        self.problems.push(problem);
    }

    fn reject(&mut self, message: &str, difference: Option<RequestDifference>) -> ModelError {
        self.problem(message.to_owned(), difference);
        ModelError::new(ErrorKind::Conflict, message).with_hint("`--update` records the current requests")
    }
}

/// Converts the answer to a model's stream, or returns `None` if the end of the answer is unknown.
fn chunks(answer: &RecordedAnswer) -> Option<Vec<ModelChunk>> {
    let finish = answer.finish.finish()?;
    let mut chunks = Vec::new();
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part.clone() {
            SpokenPart::Text(text) => chunks.push(ModelChunk::Text(text)),
            SpokenPart::Reasoning(text) => chunks.push(ModelChunk::Reasoning(text)),
            SpokenPart::Call { name, arguments, fields } => {
                calls.push(ModelChunk::ToolCall { name, arguments, fields });
            }
            SpokenPart::Fields(fields) => chunks.push(ModelChunk::AnswerFields(fields)),
        }
    }
    chunks.extend(calls);
    let counted = |usage: Usage| ModelChunk::Usage(Usage { calls: 0, unpriced_calls: 0, ..usage });
    chunks.extend(answer.usage.map(counted));
    chunks.push(ModelChunk::End(finish));
    Some(chunks)
}

fn output(result: &RecordedResult) -> ToolOutput {
    let RecordedResult { text, error, exit_code, details, files, .. } = result.clone();
    ToolOutput { text, error, exit_code, details, files, ..ToolOutput::default() }
}

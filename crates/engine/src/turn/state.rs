//! State of a running turn, and the reasons why its steps end. Rebuilt from the journal when a turn resumes after a
//! restart.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use agentd_context::{ContextMeter, compaction::plan::CompactionRequest};
use agentd_core::{
    error::{ErrorKind, ModelError},
    event::{Event, EventKind, StateChange},
    ids::CallId,
    interrupt::AnsweredBy,
    item::{Item, ItemBody, NoticeTopic},
    model::ModelInfo,
    session::Todo,
    tool::{FileChange, FileChangeKind, ToolCall, ToolErrorCode, ToolResult},
    turn::{Denial, StopReason, TurnError},
    usage::Usage,
};

use crate::turn::{
    rounds::CallRounds,
    unusable_answers::{PartialAnswer, Problem, UnusableAnswers},
};

/// Space for the paths of changed files in the final report to clients, in bytes. Far below the message size limit (16
/// MiB).
const MAX_REPORTED_FILES: usize = 6 << 20;

/// Size of a file's entry in the report without its path, in bytes.
const ENTRY_OVERHEAD: usize = 32;

/// Maximum number of answers in the wrong form after which the model is still asked again.
const MAX_WRONG_FORMS: u32 = 1;

/// State of a turn so far.
#[derive(Debug, Default)]
pub(crate) struct TurnState {
    /// Stage of the turn.
    pub(crate) phase: Phase,
    /// Result of the last request.
    pub(crate) reply: Reply,
    /// The session's items that are visible to a model, including those of this turn, in chronological order.
    pub(crate) history: Vec<Arc<Item>>,
    /// The session's todo list.
    pub(crate) todos: Vec<Todo>,
    /// Calls that have no result yet, in the model's order.
    pub(crate) pending_calls: Vec<ToolCall>,
    /// Number of model calls so far.
    pub(crate) steps: u32,
    /// Usage of the model calls.
    pub(crate) usage: Usage,
    /// Tokens of `usage` that were spent on behalf of the turn's calls, by subagents and by tools that called the
    /// model. Zero after a restart.
    pub(crate) delegated: u64,
    /// Tokens of the last answer, as counted by its server.
    pub(crate) answer_tokens: u64,
    /// Number of agent changes in the turn.
    pub(crate) agent_changes: u32,
    /// Time that the turn had worked before its agent changed.
    pub(crate) worked: Duration,
    /// Calls of this turn that were denied.
    pub(crate) denials: Vec<Denial>,
    /// Changed files, each listed once.
    pub(crate) files: BTreeMap<String, FileChangeKind>,
    /// True if any tool ran.
    pub(crate) tool_used: bool,
    /// The answer: the model's last text, if it came after the last input and the last tool result.
    pub(crate) answer: Option<String>,
    /// Earlier text of the same answer.
    pub(crate) partial: Option<PartialAnswer>,
    /// Number of answers since the last input that were in the wrong form.
    pub(crate) wrong_forms: u32,
    /// Consecutive answers that could not be used.
    pub(crate) unusable: UnusableAnswers,
    /// Recent calls, for detecting repetition.
    pub(crate) rounds: CallRounds,
    /// Pictures read for models with vision, by path. `None` marks a picture that no longer exists.
    pub(crate) pictures: HashMap<String, Option<Arc<[u8]>>>,
    /// Fill level of the window, and the last request sent.
    pub(crate) meter: ContextMeter,
    /// Compaction requested before the next step.
    pub(crate) compact: Option<CompactionRequest>,
    /// The step before which the history was last compacted.
    pub(crate) compacted_at: Option<u32>,
    /// Number of history items already searched for paths, to find the guides of their folders.
    pub(crate) searched_items: usize,
    /// The step before which results were last moved to files.
    pub(crate) offloaded_at: Option<u32>,
    /// Number of the reset with which the history begins; 0 if the history begins with the session or a summary.
    pub(crate) reset_at: u64,
    /// Number of messages visible when a compaction was undone; 0 if none was undone, or if another compaction has
    /// followed.
    pub(crate) visible_at_undo: u64,
}

/// Outcome of a turn, from which its session records the end.
#[derive(Debug)]
pub(crate) struct TurnOutcome {
    pub(crate) reason: StopReason,
    pub(crate) error: Option<TurnError>,
    pub(crate) text: String,
    pub(crate) tool_used: bool,
    pub(crate) steps: u32,
    pub(crate) usage: Usage,
    pub(crate) denials: Vec<Denial>,
    pub(crate) files: Vec<FileChange>,
    /// Token meter of the session's requests.
    pub(crate) meter: ContextMeter,
    /// True if the turn did nothing but compact.
    pub(crate) only_compacted: bool,
    /// Calls without a result.
    pub(crate) without_result: Vec<ToolCall>,
}

/// Stage of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The model is called and its calls run.
    #[default]
    Working,
    /// Same as `Working`, for the turn's initial plan. Calls may only read.
    Planning,
    /// The turn was started only to compact the history.
    Compacting {
        /// True if the previous turn can be continued.
        unfinished: bool,
    },
    /// The final answer is requested. No calls may run, and another model may write the answer.
    Finalizing,
    /// Another agent continues after this step.
    HandingOff,
}

/// Result of the last request to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Text or calls, usable or not. Also the value before the first request.
    #[default]
    Useful,
    /// Calls although none were allowed.
    ForbiddenCall,
    /// No reply, because the request did not fit into the window.
    Overflowed,
}

impl TurnState {
    /// Returns true if the turn only compacts the history.
    pub(crate) fn only_compacts(&self) -> bool {
        matches!(self.phase, Phase::Compacting { .. })
    }

    /// Returns true if the model is to be asked next, for its work or for a plan.
    pub(crate) fn asks_model(&self) -> bool {
        let is_at_work = matches!(self.phase, Phase::Working | Phase::Planning);
        is_at_work && self.pending_calls.is_empty() && self.answer.is_none()
    }

    /// Returns true if a plan is waiting for a decision. Messages that arrive in the meantime are read after the
    /// decision, which may already be stored.
    pub(crate) fn is_planned(&self) -> bool {
        self.phase == Phase::Planning && self.answer.is_some()
    }

    /// Continues a turn that was about to end when an input was added. A turn that was started only to compact also
    /// answers this input.
    pub(crate) fn reopen(&mut self) {
        if self.phase != Phase::Planning {
            self.phase = Phase::Working;
        }
        self.answer = None;
        self.partial = None;
    }

    /// Records a problem with the last answer, if there is one. A flawed answer does not end the turn.
    pub(crate) fn record_problem(&mut self, problem: Option<Problem>, embedded: bool) {
        let problem = match problem {
            // The model was already warned and repeats its answer, so the answer is accepted.
            Some(Problem::DoubtfulCall { .. }) if self.unusable.in_a_row > 0 => None,
            Some(Problem::Empty { .. }) if self.partial.as_ref().is_some_and(PartialAnswer::is_whole) => {
                self.answer = self.partial.take().map(|partial| partial.text().to_owned());
                None
            }
            problem => problem,
        };
        match (&problem, self.answer.is_some()) {
            (Some(Problem::CutText | Problem::Filtered | Problem::Runaway { is_long: true }), true) => {
                self.keep_partial(PartialAnswer::Cut)
            }
            (Some(Problem::DoubtfulCall { .. }), true) => self.keep_partial(PartialAnswer::Doubted),
            // The model is asked for the whole document again, so earlier text is not part of it.
            (Some(Problem::WrongForm { .. }), _) => (self.answer, self.partial) = (None, None),
            (Some(_), true) => self.answer = None,
            (_, false) | (None, _) => {}
        }
        self.wrong_forms += u32::from(matches!(problem, Some(Problem::WrongForm { .. })));
        let is_final = embedded || self.wrong_forms > MAX_WRONG_FORMS;
        self.unusable.record(problem, is_final);
    }

    /// Returns the error for a turn that ends because of the form of its answer.
    pub(crate) fn form_error(&self, reason: StopReason) -> Option<TurnError> {
        let reasons = self.unusable.wrong_form().filter(|_| reason == StopReason::WrongForm)?;
        Some(TurnError {
            kind: ErrorKind::Protocol,
            message: format!("the answer does not match the schema: {}", reasons.join("; ")),
            hint: Some("try another model (--model), or a more descriptive schema".to_owned()),
        })
    }

    /// Makes the answer the beginning of a longer answer.
    fn keep_partial(&mut self, make_partial: impl FnOnce(String) -> PartialAnswer) {
        self.partial = self.answer.take().map(make_partial);
    }

    /// Asks for more text after the answer, if there is one. A document cannot be extended, and is requested again.
    pub(crate) fn ask_for_more(&mut self, is_document: bool) {
        match self.answer.take() {
            Some(answer) if !is_document => self.partial = Some(PartialAnswer::Whole(answer)),
            _ => {}
        }
    }

    /// Appends an item to the history.
    pub(crate) fn note(&mut self, item: Arc<Item>) {
        self.meter.add(&item);
        self.apply_item(&item);
        self.history.push(item);
    }

    /// Applies an item's effects on the turn.
    fn apply_item(&mut self, item: &Item) {
        self.rounds.record_item(&item.body);
        match &item.body {
            ItemBody::UserMessage { .. } => {
                (self.answer, self.partial) = (None, None);
                // The turn now has an input to answer.
                if self.only_compacts() {
                    self.phase = Phase::Working;
                }
                // After new input, an answer is no longer a repetition of the same failure.
                self.unusable = UnusableAnswers::default();
                self.wrong_forms = 0;
            }
            ItemBody::AgentMessage { text } => {
                let has_text = !text.trim().is_empty();
                self.answer = has_text.then(|| PartialAnswer::with(self.partial.as_ref(), text));
            }
            ItemBody::ToolCall(call) => {
                (self.answer, self.partial) = (None, None);
                self.pending_calls.push(call.clone());
            }
            ItemBody::ToolResult(result) => self.note_result(result),
            ItemBody::Notice { topic: NoticeTopic::Plan, .. } => self.phase = Phase::Planning,
            // The plan is not the turn's answer, so the turn continues.
            ItemBody::Notice { topic: NoticeTopic::Planned, .. } => {
                (self.phase, self.answer, self.partial) = (Phase::Working, None, None);
            }
            ItemBody::Reasoning { .. } | ItemBody::Compaction(_) | ItemBody::Notice { .. } => {}
        }
    }

    fn note_result(&mut self, result: &ToolResult) {
        self.answer = None;
        self.pending_calls.retain(|call| call.call_id != result.call_id);
        self.tool_used |=
            !matches!(result.error, Some(ToolErrorCode::Denied | ToolErrorCode::NotRun | ToolErrorCode::UnknownTool));
        for file in result.files.iter().filter(|file| !file.is_folder() || !file.is_recorded()) {
            // A file is listed once. A file that is created and then modified counts as created.
            let change = match (self.files.get(&file.path), file.change) {
                (Some(FileChangeKind::Created), FileChangeKind::Modified) => FileChangeKind::Created,
                (Some(FileChangeKind::Deleted), FileChangeKind::Created) => FileChangeKind::Modified,
                (_, change) => change,
            };
            self.files.insert(file.path.clone(), change);
        }
    }

    /// Records a denial, once per call.
    pub(crate) fn note_denial(&mut self, call_id: CallId, tool: String, reason: String) {
        if !self.denials.iter().any(|denial| denial.call_id == call_id) {
            self.denials.push(Denial { call_id, tool, reason });
        }
    }

    /// Replays a stored event of this turn. The turn's items are already in the history.
    pub(crate) fn replay(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ItemCompleted { item, .. } => {
                if let ItemBody::ToolResult(result) = &item.body
                    && result.error == Some(ToolErrorCode::Denied)
                {
                    self.note_denial(result.call_id.clone(), result.name.clone(), result.text.clone());
                }
                self.apply_item(item);
            }
            EventKind::UsageUpdated { step, turn, .. } => {
                self.steps = *step;
                self.usage = *turn;
            }
            EventKind::StateChanged { change: StateChange::Agent { .. } } => self.agent_changes += 1,
            EventKind::InterruptResolved { by: AnsweredBy::Client(_), .. } => self.rounds.start_over(),
            _ => {}
        }
    }

    /// Returns the outcome of the turn.
    pub(crate) fn outcome(&self, reason: StopReason, error: Option<TurnError>) -> TurnOutcome {
        TurnOutcome {
            reason,
            error,
            text: self.last_text(),
            tool_used: self.tool_used,
            steps: self.steps,
            usage: self.usage,
            denials: self.denials.clone(),
            files: self.reported_files(),
            meter: self.meter.clone(),
            only_compacted: self.only_compacts(),
            without_result: self.pending_calls.clone(),
        }
    }

    /// Returns the changed files for the final report to clients, as many as fit into a message. Each call's own result
    /// lists the files that the call changed.
    fn reported_files(&self) -> Vec<FileChange> {
        let mut capacity = MAX_REPORTED_FILES;
        let fits = |(path, _): &(&String, &FileChangeKind)| {
            let needed = path.len() + ENTRY_OVERHEAD;
            capacity.checked_sub(needed).inspect(|left| capacity = *left).is_some()
        };
        self.files.iter().take_while(fits).map(|(path, change)| FileChange::new(path.clone(), *change)).collect()
    }

    /// Returns the answer, or the model's last text in this turn.
    fn last_text(&self) -> String {
        let is_of_turn = |item: &&Arc<Item>| !matches!(item.body, ItemBody::UserMessage { steered: false, .. });
        let last_message = || {
            self.history.iter().rev().take_while(is_of_turn).find_map(|item| match &item.body {
                ItemBody::AgentMessage { text } if !text.is_empty() => Some(text.as_str()),
                _ => None,
            })
        };
        let answer = self.answer.as_deref().or(self.partial.as_ref().map(PartialAnswer::text));
        answer.or_else(last_message).unwrap_or_default().to_owned()
    }
}

/// Result of a part of a turn's work. An error ends the turn's steps.
pub(crate) type Flow<T = ()> = Result<T, TurnExit>;

/// Reason why a turn's steps end.
#[derive(Debug)]
pub(crate) enum TurnExit {
    /// The turn ended with an answer, at a limit, or by cancellation.
    Finished(StopReason),
    /// A call needed an approval, and the client had chosen to fail in that case.
    Denied(Denial),
    /// The turn failed with this error.
    Failed(TurnError),
    /// The model's server does not respond, but another model can continue from here.
    Unanswered(Box<UnansweredCall>),
    /// The turn continues in a new task: with another agent, with tools that were not known before, or with a project
    /// that became writable.
    Handoff,
    /// The session cannot store the turn's events. The turn must stop, and no end is recorded.
    SessionGone,
}

/// A model call that failed without any output.
#[derive(Debug)]
pub(crate) struct UnansweredCall {
    /// Model that did not respond.
    pub(crate) model: ModelInfo,
    /// Reason for the failure.
    pub(crate) error: TurnError,
}

impl From<ModelError> for TurnExit {
    fn from(error: ModelError) -> Self {
        Self::Failed(turn_error(error))
    }
}

impl TurnExit {
    /// Returns the exit for a model call that failed without output. Fails over for server errors, and otherwise fails
    /// the turn.
    pub(crate) fn of_silent(model: &ModelInfo, error: ModelError) -> Self {
        let fails_over = matches!(
            error.kind(),
            ErrorKind::Unreachable
                | ErrorKind::Timeout
                | ErrorKind::CutStream
                | ErrorKind::Provider
                | ErrorKind::RateLimited
                | ErrorKind::QuotaExceeded
        );
        let error = turn_error(error);
        if fails_over {
            Self::Unanswered(Box::new(UnansweredCall { model: model.clone(), error }))
        } else {
            Self::Failed(error)
        }
    }
}

fn turn_error(error: ModelError) -> TurnError {
    let source = std::error::Error::source(&error).map(ToString::to_string);
    tracing::warn!(kind = ?error.kind(), source, "the model call failed: {error}");
    TurnError { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
}

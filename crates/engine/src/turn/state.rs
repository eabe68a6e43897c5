//! What a turn has come to so far, and why its steps end. Rebuilt from the journal when a turn goes on after a restart.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use agentd_context::{ContextMeter, compaction::plan::CompactionRequest};
use agentd_core::{
    error::{ErrorKind, ModelError},
    event::{Event, EventKind, StateChange},
    files::Picture,
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
    unusable::{BegunAnswer, Problem, UnusableAnswers},
};

/// The room for the names of changed files in what clients are told at the end, in bytes: far below what a message to them
/// may have (16 MiB).
const MAX_TOLD_FILES: usize = 6 << 20;

/// Size of a file's entry beside its name there, in bytes.
const BESIDE_PATH: usize = 32;

/// Number of answers in the wrong form behind which the model is asked again.
const MOST_WRONG_FORMS: u32 = 1;

/// State of a turn so far.
#[derive(Debug, Default)]
pub(crate) struct TurnState {
    /// Stage of the turn.
    pub(crate) phase: Phase,
    /// Result of the last request.
    pub(crate) reply: Reply,
    /// The session's items that a model may see, this turn's included, in the order in which they came.
    pub(crate) history: Vec<Arc<Item>>,
    /// The session's todo list.
    pub(crate) todos: Vec<Todo>,
    /// Calls that have no result yet, in the model's order.
    pub(crate) pending_calls: Vec<ToolCall>,
    /// Model calls so far.
    pub(crate) steps: u32,
    /// Usage of the model calls.
    pub(crate) usage: Usage,
    /// The tokens among them that were taken for its calls, by sessions that worked for them and by who asked the model, as
    /// far as this life of the daemon knows.
    pub(crate) delegated: u64,
    /// The tokens of the last answer, as its server counted them.
    pub(crate) usage_of_answer: u64,
    /// Number of changes of the agent.
    pub(crate) agent_changes: u32,
    /// Time that the turn had worked before its agent changed.
    pub(crate) worked: Duration,
    /// Denied calls.
    pub(crate) denials: Vec<Denial>,
    /// The files that were changed, each once.
    pub(crate) files: BTreeMap<String, FileChangeKind>,
    /// Set if any tool ran.
    pub(crate) tool_used: bool,
    /// The model's last words, if they came after the last input and the last tool result: the answer.
    pub(crate) answer: Option<String>,
    /// Words before them that belong to it.
    pub(crate) begun: Option<BegunAnswer>,
    /// Number of answers since the last input that were in the wrong form.
    pub(crate) wrong_forms: u32,
    /// The last answers, where they could not be used.
    pub(crate) unusable: UnusableAnswers,
    /// The last calls, as far as they may repeat.
    pub(crate) rounds: CallRounds,
    /// The pictures that were read for models that see, by their paths; none where one is gone.
    pub(crate) pictures: HashMap<String, Option<Arc<[u8]>>>,
    /// Pictures that calls returned and that no notice shows yet.
    pub(crate) returned: Vec<Picture>,
    /// Fill level of the window, and the last request.
    pub(crate) meter: ContextMeter,
    /// The compaction that is wanted before the next step.
    pub(crate) compact: Option<CompactionRequest>,
    /// The step before which the history was compacted last.
    pub(crate) compacted_at: Option<u32>,
    /// Items of the history in which paths were looked for, to tell the guides of their folders.
    pub(crate) guided: usize,
    /// The step before which results were moved to files last.
    pub(crate) offloaded_at: Option<u32>,
    /// The number of the reset with which the history begins; 0 where it begins with the session or with a summary.
    pub(crate) reset_at: u64,
    /// The messages that were seen when a compaction was taken back; 0 where none was, or another came since.
    pub(crate) held: u64,
}

/// Outcome of a turn, as its session needs it to write the end.
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
    /// Memory of the session's requests.
    pub(crate) meter: ContextMeter,
    /// Set if it did nothing but compact.
    pub(crate) only_compacted: bool,
    /// Calls that have no result.
    pub(crate) without_result: Vec<ToolCall>,
}

/// Stage of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The model is asked and its calls are run.
    #[default]
    Working,
    /// The same for the plan with which the turn begins: its calls only look.
    Planning,
    /// The turn was started to compact the history and for nothing else.
    Compacting {
        /// The turn before this one can be continued.
        unfinished: bool,
    },
    /// The last answer is asked for: nothing may be called, and another model may write it.
    Finalizing,
    /// Another agent continues after this step.
    HandingOff,
}

/// Result of the last request to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Words or calls, whatever they are worth; also before the first request.
    #[default]
    Useful,
    /// Calls where nothing may be called.
    CalledInVain,
    /// None: the request did not fit into the window.
    Overflowed,
}

impl TurnState {
    /// Returns whether the turn compacts the history and does nothing else.
    pub(crate) fn only_compacts(&self) -> bool {
        matches!(self.phase, Phase::Compacting { .. })
    }

    /// Returns whether a plan waits to be decided about. What was said meanwhile is read behind that: a decision may have been
    /// stored already.
    pub(crate) fn is_planned(&self) -> bool {
        self.phase == Phase::Planning && self.answer.is_some()
    }

    /// Continues a turn that wanted to end when something was added to it: also one that was only to compact answers that.
    pub(crate) fn reopen(&mut self) {
        if self.phase != Phase::Planning {
            self.phase = Phase::Working;
        }
        self.answer = None;
        self.begun = None;
    }

    /// Takes in what is wrong with the last answer, if anything is: then it is not the answer of the turn.
    pub(crate) fn take_problem(&mut self, problem: Option<Problem>, embedded: bool) {
        let problem = match problem {
            // It was told, and holds to it.
            Some(Problem::DoubtfulCall { .. }) if self.unusable.in_a_row > 0 => None,
            Some(Problem::Empty { .. }) if self.begun.as_ref().is_some_and(BegunAnswer::is_whole) => {
                self.answer = self.begun.take().map(|begun| begun.text().to_owned());
                None
            }
            problem => problem,
        };
        match (&problem, self.answer.is_some()) {
            (Some(Problem::CutWords | Problem::Filtered | Problem::Runaway { is_long: true }), true) => {
                self.begin_answer(BegunAnswer::Cut)
            }
            (Some(Problem::DoubtfulCall { .. }), true) => self.begin_answer(BegunAnswer::Doubted),
            // The whole document is asked for: nothing that was said before belongs to it.
            (Some(Problem::WrongForm { .. }), _) => (self.answer, self.begun) = (None, None),
            (Some(_), true) => self.answer = None,
            (_, false) | (None, _) => {}
        }
        self.wrong_forms += u32::from(matches!(problem, Some(Problem::WrongForm { .. })));
        let is_final = embedded || self.wrong_forms > MOST_WRONG_FORMS;
        self.unusable.take(problem, is_final);
    }

    /// Error of a turn that ends because of the form of its answer.
    pub(crate) fn form_error(&self, reason: StopReason) -> Option<TurnError> {
        let reasons = self.unusable.wrong_form().filter(|_| reason == StopReason::WrongForm)?;
        Some(TurnError {
            kind: ErrorKind::Protocol,
            message: format!("the answer does not match the schema: {}", reasons.join("; ")),
            hint: Some("try another model (--model), or a schema that says more of what is meant".to_owned()),
        })
    }

    /// Makes the answer the beginning of one.
    fn begin_answer(&mut self, begun: impl FnOnce(String) -> BegunAnswer) {
        self.begun = self.answer.take().map(begun);
    }

    /// Has more said below the answer, if there is one. A document is one by itself: it is given again.
    pub(crate) fn ask_below(&mut self, is_document: bool) {
        match self.answer.take() {
            Some(answer) if !is_document => self.begun = Some(BegunAnswer::Whole(answer)),
            _ => {}
        }
    }

    /// Takes note of an item that came into the history.
    pub(crate) fn note(&mut self, item: Arc<Item>) {
        self.meter.add(&item);
        self.consider(&item);
        self.history.push(item);
    }

    /// Takes note of what an item means for the turn.
    fn consider(&mut self, item: &Item) {
        self.rounds.take_in(&item.body);
        match &item.body {
            ItemBody::UserMessage { .. } => {
                self.answer = None;
                self.begun = None;
                // There is something to answer now.
                if self.only_compacts() {
                    self.phase = Phase::Working;
                }
                // Something new was said: it is no longer the same that the model had no answer to.
                self.unusable = UnusableAnswers::default();
                self.wrong_forms = 0;
            }
            ItemBody::AgentMessage { text } => {
                let has_words = !text.trim().is_empty();
                self.answer = has_words.then(|| BegunAnswer::with(self.begun.as_ref(), text));
            }
            ItemBody::ToolCall(call) => {
                self.answer = None;
                self.begun = None;
                self.pending_calls.push(call.clone());
            }
            ItemBody::ToolResult(result) => self.note_result(result),
            ItemBody::Notice { topic: NoticeTopic::Plan, .. } => self.phase = Phase::Planning,
            // The plan is no answer of the turn, which goes on.
            ItemBody::Notice { topic: NoticeTopic::Planned, .. } => {
                (self.phase, self.answer, self.begun) = (Phase::Working, None, None);
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
            // A file is listed once: what was created and then modified was created.
            let change = match (self.files.get(&file.path), file.change) {
                (Some(FileChangeKind::Created), FileChangeKind::Modified) => FileChangeKind::Created,
                (Some(FileChangeKind::Deleted), FileChangeKind::Created) => FileChangeKind::Modified,
                (_, change) => change,
            };
            self.files.insert(file.path.clone(), change);
        }
    }

    /// Takes note of a refusal, once a call.
    pub(crate) fn note_denial(&mut self, call_id: CallId, tool: String, reason: String) {
        if !self.denials.iter().any(|denial| denial.call_id == call_id) {
            self.denials.push(Denial { call_id, tool, reason });
        }
    }

    /// Takes note of what a stored event of this turn says. Its items are in the history already.
    pub(crate) fn replay(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ItemCompleted { item, .. } => {
                if let ItemBody::ToolResult(result) = &item.body
                    && result.error == Some(ToolErrorCode::Denied)
                {
                    self.note_denial(result.call_id.clone(), result.name.clone(), result.text.clone());
                }
                self.consider(item);
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

    /// Outcome of the turn.
    pub(crate) fn outcome(&self, reason: StopReason, error: Option<TurnError>) -> TurnOutcome {
        TurnOutcome {
            reason,
            error,
            text: self.last_words(),
            tool_used: self.tool_used,
            steps: self.steps,
            usage: self.usage,
            denials: self.denials.clone(),
            files: self.told_files(),
            meter: self.meter.clone(),
            only_compacted: self.only_compacts(),
            without_result: self.pending_calls.clone(),
        }
    }

    /// The files that clients are told of with the end: as many as a message to them can carry. What each call changed is
    /// in its own result.
    fn told_files(&self) -> Vec<FileChange> {
        let mut room = MAX_TOLD_FILES;
        let fits = |(path, _): &(&String, &FileChangeKind)| {
            let needed = path.len() + BESIDE_PATH;
            room.checked_sub(needed).inspect(|left| room = *left).is_some()
        };
        self.files.iter().take_while(fits).map(|(path, change)| FileChange::new(path.clone(), *change)).collect()
    }

    /// The answer, or what the model last said in this turn.
    fn last_words(&self) -> String {
        let is_of_turn = |item: &&Arc<Item>| !matches!(item.body, ItemBody::UserMessage { steered: false, .. });
        let said = || {
            self.history.iter().rev().take_while(is_of_turn).find_map(|item| match &item.body {
                ItemBody::AgentMessage { text } if !text.is_empty() => Some(text.as_str()),
                _ => None,
            })
        };
        let answer = self.answer.as_deref().or(self.begun.as_ref().map(BegunAnswer::text));
        answer.or_else(said).unwrap_or_default().to_owned()
    }
}

/// Why a turn's steps end.
#[derive(Debug)]
pub(crate) enum TurnExit {
    /// With an answer, at a limit, or by a cancel.
    Finished(StopReason),
    /// A call needed an answer, and the client had said to fail then.
    Denied(Denial),
    /// With an error.
    Failed(TurnError),
    /// The model's server does not answer, and another model can be asked from here.
    Unanswered(Box<UnansweredCall>),
    /// The turn continues in a new task: with another agent, or with tools that were not known before.
    Handoff,
    /// The session cannot store what the turn does. Nothing more may be done, and no end is recorded.
    SessionGone,
}

/// A model call to which nothing was said.
#[derive(Debug)]
pub(crate) struct UnansweredCall {
    /// The model.
    pub(crate) model: ModelInfo,
    /// Why not.
    pub(crate) error: TurnError,
}

impl From<ModelError> for TurnExit {
    fn from(error: ModelError) -> Self {
        Self::Failed(turn_error(error))
    }
}

impl TurnExit {
    /// The end of a turn, or of its model's part in it, where the model said nothing before the error.
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

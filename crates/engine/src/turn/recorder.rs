//! Channel from a turn to its session: events are sent to the session in order, and answers are returned.

use std::sync::Arc;

use agentd_core::{
    audit::DecidedBy,
    context::Compaction,
    event::{EventKind, StateChange},
    ids::{CallId, ItemId, TurnId},
    interrupt::{Answer, AnsweredBy, Ask},
    item::{Item, ItemBody, ItemStatus},
    origin::ItemOrigin,
    ports::CallProgress,
};
use tokio::sync::{mpsc, oneshot};

use crate::turn::{Flow, TurnExit, TurnOutcome, TurnState, state::UnansweredCall};

/// Returns the events of an item that is complete from the start.
pub(crate) fn whole(item: Item) -> [EventKind; 2] {
    [EventKind::ItemStarted { item: item.clone() }, EventKind::ItemCompleted { item, status: ItemStatus::Done }]
}

/// Maximum number of messages waiting for the session's writer.
const QUEUE: usize = 256;

/// Message of a turn to its session.
pub(crate) enum TurnMessage {
    /// Events to be stored atomically and then published.
    Facts(Vec<EventKind>),
    /// Text to be published but not stored.
    Delta { item_id: ItemId, text: String },
    /// Request that is answered when all earlier events are stored.
    Flush(oneshot::Sender<()>),
    /// A question for the user. The answer may arrive only after a daemon restart.
    Ask { call_id: CallId, ask: Box<Ask>, answer: oneshot::Sender<ResolvedInterrupt> },
    /// A question from a subagent that works on a call, or the answer to it. Each is published once in this session.
    Child(Box<EventKind>),
    /// Withdraws the pending questions of a call that has ended or that asks differently.
    Withdraw { call_id: CallId },
    /// The end of a started compaction that replaces these items. Answered with the stored item.
    Compact { item_id: ItemId, replaced: Vec<ItemId>, compaction: Box<Compaction>, stored: oneshot::Sender<Arc<Item>> },
    /// Requests the inputs added to the turn since the last request.
    TakeSteers(oneshot::Sender<Vec<Arc<Item>>>),
    /// The turn continues in a separate task, with another agent or with newly discovered tools.
    Transfer(Box<TurnState>),
    /// The turn's model does not respond. The next model continues from here, if there is one.
    FailOver { state: Box<TurnState>, call: Box<UnansweredCall> },
    /// The turn is over, unless inputs were added in the meantime. The reply is true if the end is stored, and false if
    /// there are inputs to read first.
    End { outcome: Box<TurnOutcome>, is_stored: oneshot::Sender<bool> },
}

/// An answer, and the author of the answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResolvedInterrupt {
    pub(crate) answer: Answer,
    pub(crate) by: DecidedBy,
    /// The question as it was shown; `None` if a grant was added before the user was asked.
    pub(crate) asked: Option<Box<Ask>>,
}

impl ResolvedInterrupt {
    pub(crate) fn new(asked: Option<Ask>, answer: &Answer, by: &AnsweredBy) -> Self {
        Self { answer: answer.clone(), by: by.clone().into(), asked: asked.map(Box::new) }
    }

    /// Returns the text of the answer, if a user wrote it. Excludes defaults and the daemon's own texts.
    pub(crate) fn user_text(&self) -> Option<String> {
        let text = match &self.answer {
            Answer::Text { text } => text,
            Answer::Reject { reason } => reason.as_ref()?,
            _ => return None,
        };
        (matches!(self.by, DecidedBy::Client(_)) && !text.trim().is_empty()).then(|| text.trim().to_owned())
    }

    /// Returns true if this is the answer to the question whether the project becomes writable.
    fn is_about_project(&self) -> bool {
        self.asked.as_deref().is_some_and(|ask| ask.writable_project().is_some())
    }

    /// Returns true if this is the answer to the call's own question, as opposed to approving the call.
    pub(crate) fn answers_question(&self) -> bool {
        matches!(self.asked.as_deref(), Some(Ask::Question { .. }))
    }
}

/// Answers to one call, which may need several: whether its project becomes writable, its approval, then its own
/// question. A later answer does not replace an earlier one, which may have changed the model's arguments.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallAnswers {
    /// Answer to the question whether the project becomes writable.
    pub(crate) project: Option<ResolvedInterrupt>,
    /// Answer to the approval question.
    pub(crate) approval: Option<ResolvedInterrupt>,
    question: Option<ResolvedInterrupt>,
}

impl CallAnswers {
    pub(crate) fn note(&mut self, answered: ResolvedInterrupt) {
        let slot = if answered.answers_question() {
            &mut self.question
        } else if answered.is_about_project() {
            &mut self.project
        } else {
            &mut self.approval
        };
        *slot = Some(answered);
    }

    /// Returns the answer to the approval question; `Some(None)` if the call was approved without one, because it asked
    /// its own question later.
    pub(crate) fn decision(&self) -> Option<Option<&ResolvedInterrupt>> {
        (self.approval.is_some() || self.question.is_some()).then_some(self.approval.as_ref())
    }

    /// Returns the answer to this question. A call may ask several questions, and each answer belongs to one of them.
    pub(crate) fn answer_to(&self, ask: &Ask) -> Option<&ResolvedInterrupt> {
        match ask {
            Ask::Question { .. } => self.question.as_ref().filter(|answered| answered.asked.as_deref() == Some(ask)),
            Ask::Approval { .. } => self.approval.as_ref(),
        }
    }
}

/// Channel from a turn to its session. All methods fail with [`TurnExit::SessionGone`] if the session could not store
/// an event; the turn must then do nothing more.
#[derive(Clone)]
pub(crate) struct Recorder {
    turn_id: TurnId,
    session: mpsc::Sender<TurnMessage>,
}

impl Recorder {
    pub(crate) fn new(turn_id: TurnId) -> (Self, mpsc::Receiver<TurnMessage>) {
        let (session, messages) = mpsc::channel(QUEUE);
        (Self { turn_id, session }, messages)
    }

    /// Sends an event. The event is stored some time after this method returns; see [`Self::flush`].
    pub(crate) async fn fact(&self, kind: EventKind) -> Flow {
        self.facts(vec![kind]).await
    }

    /// Sends events that the journal stores atomically.
    pub(crate) async fn facts(&self, kinds: Vec<EventKind>) -> Flow {
        self.send(TurnMessage::Facts(kinds)).await
    }

    /// Sends a warning to the user.
    pub(crate) async fn warn(&self, code: &str, message: impl Into<String>) -> Flow {
        self.fact(EventKind::Warning { code: code.to_owned(), message: message.into(), retry_in_ms: None }).await
    }

    /// Sends a change to the session's state.
    pub(crate) async fn change(&self, change: StateChange) -> Flow {
        self.fact(EventKind::StateChanged { change }).await
    }

    /// Starts an item and returns its id.
    pub(crate) async fn start(&self, body: ItemBody) -> Flow<ItemId> {
        let item = Item::new(self.turn_id, body);
        let id = item.id;
        self.fact(EventKind::ItemStarted { item }).await?;
        Ok(id)
    }

    /// Appends text to an item in progress.
    pub(crate) async fn delta(&self, item_id: ItemId, text: String) -> Flow {
        self.send(TurnMessage::Delta { item_id, text }).await
    }

    /// Returns the progress sink for the tool whose result is this item. Lines are dropped if the queue is full, since
    /// the next line supersedes the dropped lines.
    pub(crate) fn progress(&self, item_id: ItemId) -> CallProgress {
        let session = self.session.clone();
        CallProgress::new(move |text| drop(session.try_send(TurnMessage::Delta { item_id, text })))
    }

    /// Completes a started item, with its origin if a model wrote it. `paid` is the usage spent on the call, which is
    /// stored atomically with the item.
    pub(crate) async fn complete(
        &self,
        id: ItemId,
        body: ItemBody,
        status: ItemStatus,
        origin: Option<ItemOrigin>,
        usage_events: Vec<EventKind>,
    ) -> Flow<Arc<Item>> {
        let item = Item { id, origin: origin.map(Arc::new), ..Item::new(self.turn_id, body) };
        let completed_event = EventKind::ItemCompleted { item: item.clone(), status };
        self.facts([completed_event].into_iter().chain(usage_events).collect()).await?;
        Ok(Arc::new(item))
    }

    /// Starts and completes an item at once.
    pub(crate) async fn whole(&self, body: ItemBody, origin: Option<ItemOrigin>) -> Flow<Arc<Item>> {
        let id = self.start(body.clone()).await?;
        self.complete(id, body, ItemStatus::Done, origin, Vec::new()).await
    }

    /// Waits until all events sent so far are stored.
    pub(crate) async fn flush(&self) -> Flow {
        self.ask_session(TurnMessage::Flush).await
    }

    /// Asks the user and waits for the answer, for days if necessary.
    pub(crate) async fn ask(&self, call_id: CallId, ask: Ask) -> Flow<ResolvedInterrupt> {
        let ask = Box::new(ask);
        self.ask_session(|answer| TurnMessage::Ask { call_id, ask, answer }).await
    }

    /// Sends a subagent's question, or the answer to it. Events that were already published are not published again.
    pub(crate) async fn child(&self, kind: EventKind) -> Flow {
        self.send(TurnMessage::Child(Box::new(kind))).await
    }

    /// Withdraws a call's pending question. If the queue is full, the end of the turn withdraws the question.
    pub(crate) fn withdraw(&self, call_id: CallId) {
        let _ = self.session.try_send(TurnMessage::Withdraw { call_id });
    }

    /// Completes a compaction that replaces these items.
    pub(crate) async fn compact(
        &self,
        item_id: ItemId,
        replaced: Vec<ItemId>,
        compaction: Compaction,
    ) -> Flow<Arc<Item>> {
        let compaction = Box::new(compaction);
        self.ask_session(|stored| TurnMessage::Compact { item_id, replaced, compaction, stored }).await
    }

    /// Takes the inputs added to the turn since the last call.
    pub(crate) async fn take_steers(&self) -> Flow<Vec<Arc<Item>>> {
        self.ask_session(TurnMessage::TakeSteers).await
    }

    /// Continues the turn in another task. This task must not send anything afterwards.
    pub(crate) async fn transfer_turn(&self, state: TurnState) {
        // A session that cannot receive this message also cannot end the turn, and notifies its readers itself.
        let _ = self.send(TurnMessage::Transfer(Box::new(state))).await;
    }

    /// Lets another model continue, because the current model does not respond. This task must not send anything
    /// afterwards.
    pub(crate) async fn fail_over(&self, state: TurnState, call: Box<UnansweredCall>) {
        let _ = self.send(TurnMessage::FailOver { state: Box::new(state), call }).await;
    }

    /// Ends the turn, unless inputs were added to it in the meantime. Returns true if the end is stored.
    pub(crate) async fn end(&self, outcome: TurnOutcome) -> Flow<bool> {
        let outcome = Box::new(outcome);
        self.ask_session(|is_stored| TurnMessage::End { outcome, is_stored }).await
    }

    async fn ask_session<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> TurnMessage) -> Flow<T> {
        let (sender, receiver) = oneshot::channel();
        self.send(message(sender)).await?;
        receiver.await.map_err(|_| TurnExit::SessionGone)
    }

    async fn send(&self, message: TurnMessage) -> Flow {
        self.session.send(message).await.map_err(|_| TurnExit::SessionGone)
    }
}

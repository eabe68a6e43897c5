//! A turn's line to its session: facts go up, in order; answers come down.

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

use crate::turn::{TurnExit, TurnOutcome, TurnState, state::UnansweredCall};

/// The facts of an item that is whole as it comes.
pub(crate) fn whole(item: Item) -> [EventKind; 2] {
    [EventKind::ItemStarted { item: item.clone() }, EventKind::ItemCompleted { item, status: ItemStatus::Done }]
}

/// Facts that wait for the session's writer at the most.
const QUEUE: usize = 256;

/// Message of a turn to its session.
pub(crate) enum TurnMessage {
    /// To be stored, all or none, and then shown.
    Facts(Vec<EventKind>),
    /// To be shown.
    Delta { item_id: ItemId, text: String },
    /// Answered when all facts before it are stored.
    Flush(oneshot::Sender<()>),
    /// A person is needed. The answer comes when there is one, perhaps in another life of the daemon.
    Ask { call_id: CallId, ask: Box<Ask>, answer: oneshot::Sender<ResolvedInterrupt> },
    /// A question of a session that works for a call, or the answer to it: told here, once.
    Child(Box<EventKind>),
    /// The pending questions of the call are withdrawn: the call has ended, or asks otherwise.
    Withdraw { call_id: CallId },
    /// The end of a compaction that was started: it replaces these items. Answered with the item as it is stored.
    Compact { item_id: ItemId, replaced: Vec<ItemId>, compaction: Box<Compaction>, stored: oneshot::Sender<Arc<Item>> },
    /// Asks for what was added to the turn since it last asked.
    TakeSteers(oneshot::Sender<Vec<Arc<Item>>>),
    /// The turn continues from here in a task of its own: with another agent, or with tools that were not known before.
    HandOn(Box<TurnState>),
    /// The turn's model does not answer: the next one continues from here, where there is one.
    FailOver { state: Box<TurnState>, call: Box<UnansweredCall> },
    /// The turn is over, unless something was added meanwhile. Answered true if the end is stored; otherwise that is to be looked
    /// at first.
    End { outcome: Box<TurnOutcome>, is_stored: oneshot::Sender<bool> },
}

/// An answer, and who gave it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResolvedInterrupt {
    pub(crate) answer: Answer,
    pub(crate) by: DecidedBy,
    /// The question, as it was shown; none where nobody was asked, for a rule was kept meanwhile.
    pub(crate) asked: Option<Box<Ask>>,
}

impl ResolvedInterrupt {
    pub(crate) fn new(asked: Option<Ask>, answer: &Answer, by: &AnsweredBy) -> Self {
        Self { answer: answer.clone(), by: by.clone().into(), asked: asked.map(Box::new) }
    }

    /// The words in it, where a person gave it: neither a default nor the daemon's are theirs.
    pub(crate) fn words_of_person(&self) -> Option<String> {
        let words = match &self.answer {
            Answer::Text { text } => text,
            Answer::Reject { reason } => reason.as_ref()?,
            _ => return None,
        };
        (matches!(self.by, DecidedBy::Client(_)) && !words.trim().is_empty()).then(|| words.trim().to_owned())
    }

    /// Returns whether it answers what the call itself asks, and not whether the call may run.
    pub(crate) fn is_to_a_question(&self) -> bool {
        matches!(self.asked.as_deref(), Some(Ask::Question { .. }))
    }
}

/// Answers to one call, which may need two: whether it may run, and then what it asks itself. The second does not undo
/// the first, which may have put other arguments in place of the model's.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallAnswers {
    /// Answer to whether the call may run.
    pub(crate) approval: Option<ResolvedInterrupt>,
    question: Option<ResolvedInterrupt>,
}

impl CallAnswers {
    pub(crate) fn note(&mut self, answered: ResolvedInterrupt) {
        if answered.is_to_a_question() {
            self.question = Some(answered);
        } else {
            self.approval = Some(answered);
        }
    }

    /// Answer to that question. A call may ask several, and an answer is the answer to one.
    pub(crate) fn to(&self, ask: &Ask) -> Option<&ResolvedInterrupt> {
        match ask {
            Ask::Question { .. } => self.question.as_ref().filter(|answered| answered.asked.as_deref() == Some(ask)),
            Ask::Approval { .. } => self.approval.as_ref(),
        }
    }
}

/// A turn's line to its session. All of it fails with [`TurnExit::SessionGone`] when the session could not store what it
/// was told: then the turn must not do anything more.
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

    /// Tells a fact. It is stored some time after this returns; see [`Self::flush`].
    pub(crate) async fn fact(&self, kind: EventKind) -> Result<(), TurnExit> {
        self.facts(vec![kind]).await
    }

    /// Tells facts of which the journal has all or none.
    pub(crate) async fn facts(&self, kinds: Vec<EventKind>) -> Result<(), TurnExit> {
        self.send(TurnMessage::Facts(kinds)).await
    }

    /// Warns the person.
    pub(crate) async fn warn(&self, code: &str, message: impl Into<String>) -> Result<(), TurnExit> {
        self.fact(EventKind::Warning { code: code.to_owned(), message: message.into() }).await
    }

    /// Tells a change of the session.
    pub(crate) async fn change(&self, change: StateChange) -> Result<(), TurnExit> {
        self.fact(EventKind::StateChanged { change }).await
    }

    /// Starts an item and returns its id.
    pub(crate) async fn start(&self, body: ItemBody) -> Result<ItemId, TurnExit> {
        let item = Item::new(self.turn_id, body);
        let id = item.id;
        self.fact(EventKind::ItemStarted { item }).await?;
        Ok(id)
    }

    /// Adds text to an item under way.
    pub(crate) async fn delta(&self, item_id: ItemId, text: String) -> Result<(), TurnExit> {
        self.send(TurnMessage::Delta { item_id, text }).await
    }

    /// Where the tool tells how far it is whose result is this item under way. What finds no room is not told: the next line
    /// says more.
    pub(crate) fn progress(&self, item_id: ItemId) -> CallProgress {
        let session = self.session.clone();
        CallProgress::new(move |text| drop(session.try_send(TurnMessage::Delta { item_id, text })))
    }

    /// Completes an item that was started, with its origin where a model said it, and with the count of what was taken for the
    /// call whose result it is: nobody has the one without the other.
    pub(crate) async fn complete(
        &self,
        id: ItemId,
        body: ItemBody,
        status: ItemStatus,
        origin: Option<ItemOrigin>,
        paid: Vec<EventKind>,
    ) -> Result<Arc<Item>, TurnExit> {
        let item = Item { id, origin: origin.map(Arc::new), ..Item::new(self.turn_id, body) };
        let done = EventKind::ItemCompleted { item: item.clone(), status };
        self.facts([done].into_iter().chain(paid).collect()).await?;
        Ok(Arc::new(item))
    }

    /// Starts and completes an item at once.
    pub(crate) async fn whole(&self, body: ItemBody, origin: Option<ItemOrigin>) -> Result<Arc<Item>, TurnExit> {
        let id = self.start(body.clone()).await?;
        self.complete(id, body, ItemStatus::Done, origin, Vec::new()).await
    }

    /// Waits until everything told so far is stored.
    pub(crate) async fn flush(&self) -> Result<(), TurnExit> {
        self.ask_session(TurnMessage::Flush).await
    }

    /// Asks a person and waits, for days if need be.
    pub(crate) async fn ask(&self, call_id: CallId, ask: Ask) -> Result<ResolvedInterrupt, TurnExit> {
        let ask = Box::new(ask);
        self.ask_session(|answer| TurnMessage::Ask { call_id, ask, answer }).await
    }

    /// Tells what a session that works for a call asks a person, or what was answered to it. What is known is not told again.
    pub(crate) async fn child(&self, kind: EventKind) -> Result<(), TurnExit> {
        self.send(TurnMessage::Child(Box::new(kind))).await
    }

    /// Takes back what a call has asked, if it waits for an answer still. Where there is no room to say so, the end of the
    /// turn does.
    pub(crate) fn withdraw(&self, call_id: CallId) {
        let _ = self.session.try_send(TurnMessage::Withdraw { call_id });
    }

    /// Completes a compaction, which replaces these items.
    pub(crate) async fn compact(
        &self,
        item_id: ItemId,
        replaced: Vec<ItemId>,
        compaction: Compaction,
    ) -> Result<Arc<Item>, TurnExit> {
        let compaction = Box::new(compaction);
        self.ask_session(|stored| TurnMessage::Compact { item_id, replaced, compaction, stored }).await
    }

    /// Additions to the turn since this was last asked.
    pub(crate) async fn take_steers(&self) -> Result<Vec<Arc<Item>>, TurnExit> {
        self.ask_session(TurnMessage::TakeSteers).await
    }

    /// Continues the turn in another task. Nothing of this one may follow.
    pub(crate) async fn hand_on(&self, state: TurnState) {
        // A session that cannot take it in cannot end the turn either: it tells its readers itself.
        let _ = self.send(TurnMessage::HandOn(Box::new(state))).await;
    }

    /// Lets another model continue, for this one does not answer. Nothing of this task may follow.
    pub(crate) async fn fail_over(&self, state: TurnState, call: Box<UnansweredCall>) {
        let _ = self.send(TurnMessage::FailOver { state: Box::new(state), call }).await;
    }

    /// Ends the turn, unless something was added to it meanwhile. Says whether it did.
    pub(crate) async fn end(&self, outcome: TurnOutcome) -> Result<bool, TurnExit> {
        let outcome = Box::new(outcome);
        self.ask_session(|is_stored| TurnMessage::End { outcome, is_stored }).await
    }

    async fn ask_session<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> TurnMessage) -> Result<T, TurnExit> {
        let (sender, receiver) = oneshot::channel();
        self.send(message(sender)).await?;
        receiver.await.map_err(|_| TurnExit::SessionGone)
    }

    async fn send(&self, message: TurnMessage) -> Result<(), TurnExit> {
        self.session.send(message).await.map_err(|_| TurnExit::SessionGone)
    }
}

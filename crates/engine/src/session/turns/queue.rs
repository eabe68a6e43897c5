//! Inputs beside the turn that runs: added to it, waiting behind it, and taken back by a cancel.
//!
//! What is added is stored when it comes, and whole where the model is given it. A cancel takes back all that was said to a turn
//! where nothing was answered, else what no model has read.

use std::sync::Arc;

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    ids::{TraceId, TurnId},
    input::AttachedPart,
    item::{Item, ItemBody, ItemStatus, NoticeTopic},
    turn::{QueuedTurn, StartTurn, StopReason, TurnError, TurnResult},
};

use crate::{
    error::EngineError,
    large_input::UserInput,
    mentions::typed,
    session::{
        StartedTurn,
        actor::{Actor, Fault, OpenTurn},
        registry::orders::ClientLines,
        turns::user_item,
    },
    turn::{hooks::Reminder, recorder::whole},
};

impl Actor {
    pub(crate) async fn enqueue(&mut self, start: StartTurn, lines: ClientLines) -> Result<StartedTurn, Fault> {
        let limit = self.shared.config().queue_limit;
        if self.queue.len() >= limit {
            return Err(EngineError::busy(format!("{limit} turns wait already"), "wait until one has run").into());
        }
        self.keep_for_later(&start).await?;
        let turn_id = TurnId::generate();
        let events = self.journal.subscribe(self.journal.head(), None).only(turn_id);
        let queued = QueuedTurn { turn_id, start };
        self.queue.push_back(queued.clone());
        self.hold_lines(turn_id, lines);
        let change = StateChange::Queue { length: self.queue_length(), added: Some(Box::new(queued)) };
        self.change(change).await?;
        Ok(StartedTurn { turn_id, events, joined: false })
    }

    /// Keeps the lines to the client of a turn until it begins.
    pub(crate) fn hold_lines(&mut self, turn_id: TurnId, lines: ClientLines) {
        if !lines.is_empty() {
            self.lines.insert(turn_id, lines);
        }
    }

    /// Tells that a turn has left the queue, which it does with its start: a crash neither loses it nor runs it twice.
    pub(crate) fn left_queue(&self) -> EventKind {
        EventKind::StateChanged { change: StateChange::Queue { length: self.queue_length(), added: None } }
    }

    fn queue_length(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(u32::MAX)
    }

    /// Begins the first of the turns that wait, unless the daemon is stopping.
    pub(crate) async fn begin_next(&mut self) -> Result<(), Fault> {
        while self.draining.is_none()
            && let Some(queued) = self.queue.pop_front()
        {
            match Box::pin(self.begin(queued.turn_id, queued.start.clone(), true)).await {
                Ok(_) => return Ok(()),
                Err(Fault::Fatal(error)) => return Err(Fault::Fatal(error)),
                Err(Fault::Request(error)) => {
                    self.stillborn(&queued, StopReason::Failed, Some(error.to_turn_error())).await?;
                }
            }
        }
        Ok(())
    }

    /// Tells of a turn that was accepted and never ran: what was acknowledged is not lost without a word.
    pub(crate) async fn stillborn(
        &mut self,
        QueuedTurn { turn_id, start }: &QueuedTurn,
        stop_reason: StopReason,
        error: Option<TurnError>,
    ) -> Result<(), Fault> {
        let (turn_id, trace_id) = (*turn_id, TraceId::generate());
        self.lines.remove(&turn_id);
        let choice = self.choose(start.slot, &[], None);
        let slot = choice.slot;
        let model = self.model(slot).info().id.clone();
        let reason = "it waited and never ran".to_owned();
        let (environment, compacts) = (Default::default(), start.compact.is_some());
        let (max_steps, handed_over) = (0, Vec::new());
        let mut facts = vec![EventKind::TurnStarted {
            trace_id,
            slot,
            model,
            reason,
            rule: choice.rule,
            max_steps,
            compacts,
            environment,
            handed_over,
            answer_schema: start.answer_schema.clone(),
            options: None,
        }];
        let said = match &start.text {
            Some(text) => Some(self.fit_or_cut(text, start.typed_bytes, choice).await?),
            None => None,
        };
        facts.extend(said.into_iter().flat_map(|said| whole(user_item(turn_id, said, false))));
        if stop_reason == StopReason::Cancelled {
            facts.extend(withdrawn((self.journal.head() + 1..).zip(&facts)));
        }
        facts.push(self.left_queue());
        // The next turn tells of its files.
        facts.extend(start.attached.iter().filter_map(|part| match part {
            AttachedPart::File { path, picture } => {
                let change = StateChange::HandedOver { path: path.clone(), picture: picture.clone() };
                Some(EventKind::StateChanged { change })
            }
            AttachedPart::Selection(_) => None,
        }));
        facts.push(EventKind::TurnEnded {
            result: Box::new(TurnResult {
                turn_id,
                trace_id,
                text: String::new(),
                tool_used: false,
                stop_reason,
                error,
                steps: 0,
                usage: Default::default(),
                denials: Vec::new(),
                files: Vec::new(),
                duration_ms: 0,
                only_compacted: compacts,
            }),
        });
        self.commit(Some(turn_id), facts).await
    }
}

impl Actor {
    pub(crate) async fn steer(&mut self, turn: Option<TurnId>, input: UserInput, whole: bool) -> Result<(), Fault> {
        let turn_id = self.open_turn(turn)?;
        if input.text.trim().is_empty() {
            return Err(EngineError::new(ErrorKind::InvalidInput, "there is nothing to add: the text is empty").into());
        }
        if self.open.as_ref().is_some_and(OpenTurn::is_cancelled) {
            let message = format!("turn {turn_id} is being cancelled, so nothing can be added to it");
            return Err(EngineError::new(ErrorKind::Conflict, message)
                .with_hint("send it when the turn has ended")
                .into());
        }
        let input = self.fit_added(input, whole).await?;
        let stored = self.stored_warning(&input, self.choice_at_work());
        let item = user_item(turn_id, input, true);
        // It is on the disk before anybody is told that it was taken, and whole when the model is given it.
        let started = EventKind::ItemStarted { item: item.clone() };
        self.commit(Some(turn_id), [started].into_iter().chain(stored).collect()).await?;
        if let Some(open) = &mut self.open {
            open.steers.push(Arc::new(item));
        }
        Ok(())
    }

    /// Additions that no model has seen. From here on they stand after all that was stored before, which is where the
    /// model reads them.
    pub(crate) async fn take_steers(&mut self, turn_id: TurnId) -> Result<Vec<Arc<Item>>, Fault> {
        let steers = self.open.as_mut().map(|open| std::mem::take(&mut open.steers)).unwrap_or_default();
        let whole = |item: &Arc<Item>| EventKind::ItemCompleted { item: (**item).clone(), status: ItemStatus::Done };
        self.commit(Some(turn_id), steers.iter().map(whole).collect()).await?;
        Ok(steers)
    }
}

/// Said to the model where a turn was cancelled that had begun to answer.
const INTERRUPTED: &str = "The person interrupted here. Do not continue with this unless they ask for it.";
/// Said to the model where the person continues such a turn.
const CONTINUED: &str = "The person asks to continue what was interrupted.";

impl Actor {
    /// Facts of the cancel of a person's turn, stored directly after `ending`. The journal alone decides what was answered;
    /// a damaged event counts as an answer.
    pub(in crate::session) async fn taken_back(
        &self,
        open: &OpenTurn,
        ending: &[EventKind],
        only_compacted: bool,
    ) -> Result<Vec<EventKind>, Fault> {
        let events = self.turn_events(open.turn_id, open.first_seq).await?;
        let is_answered = events.iter().any(|event| is_answer(event));
        let stored = events.iter().map(|event| (event.seq, &event.kind)).filter(|_| !is_answered);
        let unread = (self.journal.head() + 1..).zip(ending);
        let mut facts: Vec<EventKind> = withdrawn(stored.chain(unread)).into_iter().collect();
        if !is_answered {
            // The next turn tells of its files.
            facts.extend(open.handed_over.iter().cloned().map(|change| EventKind::StateChanged { change }));
        } else if !only_compacted {
            facts.extend(whole(Item::new(open.turn_id, interruption(INTERRUPTED))));
        }
        Ok(facts)
    }

    /// Notice in front of a turn that continues one which a person had interrupted.
    pub(crate) fn continued_notice(&self) -> Option<ItemBody> {
        (self.state.last_stop == Some(StopReason::Cancelled)).then(|| interruption(CONTINUED))
    }
}

/// The fact that the inputs among these numbered facts are withdrawn, with the notices that came with them.
pub(crate) fn withdrawn<'a>(numbered: impl Iterator<Item = (u64, &'a EventKind)>) -> Option<EventKind> {
    let (mut items, mut input, mut added) = (Vec::new(), None, Vec::new());
    for (seq, kind) in numbered {
        let EventKind::ItemCompleted { item, .. } = kind else { continue };
        match &item.body {
            ItemBody::UserMessage { text, typed_bytes, steered: true, .. } => {
                added.push(typed(text, *typed_bytes).to_owned());
            }
            ItemBody::UserMessage { text, typed_bytes, .. } => input = Some(typed(text, *typed_bytes).to_owned()),
            ItemBody::Notice { .. } => {}
            _ => continue,
        }
        items.push(seq);
    }
    (!items.is_empty()).then(|| EventKind::StateChanged { change: StateChange::Withdrawn { items, input, added } })
}

/// Returns true if an event shows a part of an answer, or may have.
fn is_answer(event: &Event) -> bool {
    match &event.kind {
        EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => {
            !matches!(item.body, ItemBody::UserMessage { .. } | ItemBody::Notice { .. })
        }
        _ => event.is_damaged(),
    }
}

fn interruption(text: &str) -> ItemBody {
    Reminder::new(NoticeTopic::Interrupted, text).notice()
}

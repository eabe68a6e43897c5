//! Turns that wait behind the one that runs.

use agentd_core::{
    error::ErrorKind,
    event::{EventKind, StateChange},
    ids::{TraceId, TurnId},
    input::AttachedPart,
    turn::{QueuedTurn, StartTurn, StopReason, TurnError, TurnResult},
};

use crate::{
    error::EngineError,
    session::{
        StartedTurn,
        actor::{Actor, Fault},
        turns::{turn_start::ClientLines, user_item, whole, withdrawal::withdrawn},
    },
};

impl Actor {
    pub(crate) async fn enqueue(&mut self, start: StartTurn, lines: ClientLines) -> Result<StartedTurn, Fault> {
        let limit = self.shared.config().queue_limit;
        if self.queue.len() >= limit {
            return Err(EngineError::new(ErrorKind::Busy, format!("{limit} turns wait already"))
                .with_hint("wait until one has run")
                .into());
        }
        self.keep_for_later(&start).await?;
        let turn_id = TurnId::generate();
        let events = self.journal.subscribe(self.journal.head(), None).only(turn_id);
        let queued = QueuedTurn { turn_id, start };
        self.queue.push_back(queued.clone());
        self.hold_lines(turn_id, lines);
        let change = StateChange::Queue { length: self.queue_length(), added: Some(Box::new(queued)) };
        self.commit(None, vec![EventKind::StateChanged { change }]).await?;
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

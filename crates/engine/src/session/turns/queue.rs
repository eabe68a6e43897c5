//! Inputs that arrive during a turn: added to it, queued after it, or withdrawn by a cancel.
//!
//! Added input is stored when it arrives and completed when the model receives it. A cancel withdraws all input of an
//! unanswered turn, otherwise only the input that no model has read.
//!
//! An input that does not fit into the window is spilled to a file before it is acknowledged.

use std::sync::Arc;

use agentd_context::{NextRequest, meter, tokens::estimate};
use agentd_core::{
    client_tool::ClientTool,
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    ids::{TraceId, TurnId},
    input::AttachedPart,
    item::{Item, ItemBody, ItemStatus, NoticeTopic},
    model::ModelInfo,
    turn::{QueuedTurn, StartTurn, StopReason, TurnError, TurnResult},
};

use crate::{
    attachments::Attachment,
    catalog::{Finds, MentionedTools},
    client::ClientLines,
    error::EngineError,
    large_input::{self, InputRoom, OccupiedRoom, UserInput},
    mentions::typed,
    session::actor::{Actor, Fault, OpenTurn, StartedTurn},
    turn::{hooks::Reminder, recorder::whole, route::SlotChoice},
};

impl Actor {
    pub(crate) async fn enqueue(&mut self, start: StartTurn, lines: ClientLines) -> Result<StartedTurn, Fault> {
        let limit = self.shared.config().queue_limit;
        if self.queue.len() >= limit {
            return Err(
                EngineError::busy(format!("{limit} turns are already queued"), "wait until one has ended").into()
            );
        }
        self.keep_for_later(&start).await?;
        let turn_id = TurnId::generate();
        let events = self.journal.subscribe(self.journal.head(), None, Some(turn_id));
        let queued = QueuedTurn { turn_id, start };
        self.queue.push_back(queued.clone());
        self.lines.insert(turn_id, lines);
        let change = StateChange::Queue { length: self.queue_length(), added: Some(Box::new(queued)) };
        self.change(change).await?;
        Ok(StartedTurn { turn_id, events, joined: false })
    }

    /// Fact that a turn has left the queue. It is stored with the turn's start, so that a crash neither loses the turn
    /// nor runs it twice.
    pub(crate) fn left_queue(&self) -> EventKind {
        EventKind::StateChanged { change: StateChange::Queue { length: self.queue_length(), added: None } }
    }

    fn queue_length(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(u32::MAX)
    }

    /// Starts the first queued turn, unless the daemon is stopping.
    pub(crate) async fn begin_next(&mut self) -> Result<(), Fault> {
        while self.draining.is_none()
            && let Some(queued) = self.queue.pop_front()
        {
            match Box::pin(self.begin(queued.turn_id, queued.start.clone(), true)).await {
                Ok(_) => return Ok(()),
                Err(Fault::Fatal(error)) => return Err(Fault::Fatal(error)),
                Err(Fault::Request(error)) => {
                    self.stillborn(queued, StopReason::Failed, Some(error.to_turn_error())).await?;
                }
            }
        }
        Ok(())
    }

    /// Records an acknowledged turn that never ran, so that it is not lost silently.
    pub(crate) async fn stillborn(
        &mut self,
        QueuedTurn { turn_id, start }: QueuedTurn,
        stop_reason: StopReason,
        error: Option<TurnError>,
    ) -> Result<(), Fault> {
        let trace_id = TraceId::generate();
        self.lines.remove(&turn_id);
        let choice = self.choose(start.slot, &[], None);
        let compacts = start.compact.is_some();
        let mut facts = vec![EventKind::TurnStarted {
            trace_id,
            slot: choice.slot,
            model: self.model(choice.slot).info().id.clone(),
            reason: "it was queued and never ran".to_owned(),
            rule: choice.rule,
            max_steps: 0,
            compacts,
            environment: Default::default(),
            handed_over: Vec::new(),
            answer_schema: start.answer_schema,
            options: None,
        }];
        let said = match &start.text {
            Some(text) => {
                let front =
                    InFront { choice, mentions: &MentionedTools::new(), attached: &[], notices: &[], brought: 0 };
                match self.fit(UserInput::whole(text.clone(), start.typed_bytes), false, front).await {
                    Err(Fault::Request(_)) => Some(large_input::cut(text, start.typed_bytes, CUT)),
                    fitted => Some(fitted?),
                }
            }
            None => None,
        };
        facts.extend(said.into_iter().flat_map(|said| whole(Item::new(turn_id, said.body(false)))));
        if stop_reason == StopReason::Cancelled {
            facts.extend(withdrawn((self.journal.head() + 1..).zip(&facts)));
        }
        facts.push(self.left_queue());
        // The next turn announces the files.
        facts.extend(start.attached.into_iter().filter_map(|part| match part {
            AttachedPart::File { path, picture } => {
                Some(EventKind::StateChanged { change: StateChange::HandedOver { path, picture } })
            }
            AttachedPart::Selection(_) => None,
        }));
        let nothing = TurnResult::new(turn_id, trace_id, stop_reason);
        let result = TurnResult { error, only_compacted: compacts, ..nothing };
        facts.push(EventKind::TurnEnded { result: Box::new(result) });
        self.commit(Some(turn_id), facts).await
    }
}

impl Actor {
    pub(crate) async fn steer(&mut self, turn: Option<TurnId>, input: UserInput, whole: bool) -> Result<(), Fault> {
        let turn_id = self.open_turn(turn)?;
        if input.text.trim().is_empty() {
            return Err(EngineError::new(ErrorKind::InvalidInput, "nothing to add: the text is empty").into());
        }
        if self.open.as_ref().is_some_and(OpenTurn::is_cancelled) {
            let message = format!("turn {turn_id} is being cancelled; nothing can be added to it");
            let cancelled = EngineError::new(ErrorKind::Conflict, message);
            return Err(cancelled.with_hint("send it when the turn has ended").into());
        }
        let (choice, open) = (self.choice_at_work(), self.open.as_ref());
        let mentions = open.and_then(|open| open.mentions.clone()).unwrap_or_default();
        let front = InFront { choice, mentions: &mentions.tools, attached: &[], notices: &[], brought: 0 };
        let input = self.fit(input, whole, front).await?;
        let stored = self.stored_warning(&input, choice);
        let item = Item::new(turn_id, input.body(true));
        // The item is on disk before it is acknowledged, and completed when the model receives it.
        let started = EventKind::ItemStarted { item: item.clone() };
        self.commit(Some(turn_id), [started].into_iter().chain(stored).collect()).await?;
        if let Some(open) = &mut self.open {
            open.steers.push(Arc::new(item));
        }
        Ok(())
    }

    /// Takes the added inputs that no model has seen. Their completions are stored now, which is the position where the
    /// model reads them.
    pub(crate) async fn take_steers(&mut self, turn_id: TurnId) -> Result<Vec<Arc<Item>>, Fault> {
        let steers = self.open.as_mut().map(|open| std::mem::take(&mut open.steers)).unwrap_or_default();
        let whole = |item: &Arc<Item>| EventKind::ItemCompleted { item: (**item).clone(), status: ItemStatus::Done };
        self.commit(Some(turn_id), steers.iter().map(whole).collect()).await?;
        Ok(steers)
    }
}

/// Notice for the model in a turn that was cancelled after the answer had started.
const INTERRUPTED: &str = "The user interrupted here. Do not continue this unless they ask.";
/// Notice for the model when the user continues such a turn.
pub(super) const CONTINUED: &str = "The user asks to continue what was interrupted.";

impl Actor {
    /// Facts that withdraw input of a turn cancelled by the user, stored directly after `ending`. Only the journal
    /// decides whether there was an answer; a damaged event counts as one.
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
            // The next turn announces the files.
            facts.extend(open.handed_over.iter().cloned().map(|change| EventKind::StateChanged { change }));
        } else if !only_compacted {
            facts.extend(whole(Item::new(open.turn_id, interruption(INTERRUPTED))));
        }
        Ok(facts)
    }
}

/// Fact that withdraws the inputs among these numbered facts, together with their notices.
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

/// Returns true if an event is part of an answer, or may be.
fn is_answer(event: &Event) -> bool {
    match &event.kind {
        EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => {
            !matches!(item.body, ItemBody::UserMessage { .. } | ItemBody::Notice { .. })
        }
        _ => event.is_damaged(),
    }
}

pub(super) fn interruption(text: &str) -> ItemBody {
    Reminder::new(NoticeTopic::Interrupted, text).notice()
}

/// Token limit for the text of a turn that never ran, if its input cannot be spilled.
const CUT: u64 = 1000;

/// Context of an input: the model that reads it, and the notices before it.
#[derive(Clone, Copy)]
pub(crate) struct InFront<'a> {
    pub(crate) choice: SlotChoice,
    pub(crate) mentions: &'a MentionedTools,
    pub(crate) attached: &'a [Attachment],
    pub(crate) notices: &'a [ItemBody],
    /// Estimated tokens that a turn which has not started adds to the request.
    pub(crate) brought: u64,
}

/// Estimated tokens of the instructions and client tools of a turn that has not started.
pub(crate) fn brought(start: &StartTurn) -> u64 {
    let instructions = start.options.instructions.as_deref().map_or(0, estimate);
    let tool = |tool: &ClientTool| estimate(&tool.description) + estimate(&tool.parameters.to_string());
    instructions + start.tools.iter().map(tool).sum::<u64>()
}

impl Actor {
    /// Returns the input as the model will see it: whole if it fits, otherwise its beginning with the path of the file
    /// that has all of it.
    ///
    /// # Errors
    /// If it must be whole and does not fit, or the file cannot be written.
    pub(crate) async fn fit(
        &mut self,
        input: UserInput,
        has_to_be_whole: bool,
        front: InFront<'_>,
    ) -> Result<UserInput, Fault> {
        let slot = front.choice.slot;
        let model = self.model(slot);
        if large_input::surely_fits(input.text.len(), self.least_window(front.choice), model.info().embedded) {
            return Ok(input);
        }
        self.look_up(front.choice).await;
        let (info, window) = (model.info(), self.least_window(front.choice));
        if large_input::surely_fits(input.text.len(), window, info.embedded) {
            return Ok(input);
        }
        let pictures = self.has_pictures(front.attached);
        let finds = self.finds(front.mentions, slot, pictures, &self.state.seen());
        let tools = finds.tools();
        let room = self.room(info, window, &finds, front).await?;
        if has_to_be_whole {
            let refused = large_input::refusal(input.text.clone(), room, &info.id, window).await;
            return refused.map_or(Ok(input), |message| {
                let hint = "attach it as a file, so that the model reads what it needs, or use a model with a larger \
                            window";
                Err(EngineError::new(ErrorKind::ContextOverflow, message).with_hint(hint).into())
            });
        }
        let session = self.state.settings.files_of(self.id);
        let kept = large_input::keep(&*self.shared.ports.workspaces, session, &tools, input, room).await;
        Ok(kept?)
    }

    /// Spills the input of a queued turn if it would not fit now, so that an acknowledged turn is not rejected
    /// later for a full disk.
    async fn keep_for_later(&mut self, start: &StartTurn) -> Result<(), Fault> {
        let Some(text) = &start.text else { return Ok(()) };
        let input = UserInput::whole(text.clone(), start.typed_bytes);
        // The input is read by the model that it names, not by that of the running turn.
        let of_open = std::mem::replace(&mut self.options, start.options.clone());
        let choice = self.choose(start.slot, &[], None);
        let mentions = &MentionedTools::new();
        let front = InFront { choice, mentions, attached: &[], notices: &[], brought: brought(start) };
        let fitted = self.fit(input, start.whole, front).await;
        self.options = of_open;
        fitted.map(drop)
    }

    /// Warning for the user if the model sees only a part of the input.
    pub(crate) fn stored_warning(&self, input: &UserInput, choice: SlotChoice) -> Option<EventKind> {
        input.warning(&self.model(choice.slot).info().id, self.least_window(choice))
    }

    /// The smallest window of the models that a turn may call: another model may write the last answer.
    pub(crate) fn least_window(&self, choice: SlotChoice) -> u64 {
        let (windows, (_, chat)) = (&self.shared.windows, self.chat(choice));
        windows.of(self.model(choice.slot).info()).min(windows.of(chat.info()))
    }

    /// Estimates how many tokens an input may have now.
    async fn room(
        &mut self,
        info: &ModelInfo,
        window: u64,
        finds: &Finds,
        front: InFront<'_>,
    ) -> Result<InputRoom, EngineError> {
        let workspace = self.workspace().await?;
        let tools = finds.tools();
        let shared = &self.shared;
        let config = shared.config();
        let instructions = self.system(&self.active_agent().instructions(&config), finds, &workspace);
        let fixed = if info.embedded { 0 } else { tools.print.tokens + estimate(&instructions) };
        let guess = |item: &Item| meter::guess(item, info.echo_reasoning);
        let whole = || fixed + self.state.seen().iter().map(|item| guess(item)).sum::<u64>();
        // A running turn keeps its own measurements.
        let taken = match &self.open {
            Some(_) => shared.calibration.apply(&info.id, whole()),
            None => {
                self.state.meter.expected(&shared.calibration, NextRequest { model: info, tools: tools.print }, whole)
            }
        };
        let brought = shared.calibration.apply(&info.id, if info.embedded { 0 } else { front.brought });
        let notices = front.notices.iter().map(|body| match body {
            ItemBody::Notice { text, .. } => estimate(text),
            _ => 0,
        });
        let occupied = OccupiedRoom {
            window,
            taken: taken + brought,
            fixed,
            notices: notices.sum(),
            thousand: shared.calibration.apply(&info.id, 1000),
            embedded: info.embedded,
        };
        Ok(InputRoom::of(&occupied, config.large_result_tokens))
    }
}

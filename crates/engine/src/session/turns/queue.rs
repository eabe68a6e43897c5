//! Inputs that arrive during a turn, which are added to the turn, queued after it, or withdrawn by a cancel.
//!
//! Added input is stored when it arrives and completed when the model receives it. A cancel withdraws all input of an
//! unanswered turn, or otherwise only the input that no model has received.
//!
//! An input that does not fit into the window is spilled to a file before it is acknowledged.

use std::sync::Arc;

use agentd_context::{NextRequest, meter, text::typed_part, tokens::estimate};
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
    catalog::{MentionedTools, ToolFinder},
    client::ClientLines,
    error::EngineError,
    large_input::{self, InputBudget, UserInput, WindowUsage},
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
        self.spill_queued_input(&start).await?;
        let turn_id = TurnId::generate();
        let events = self.journal.subscribe(self.journal.head(), None, Some(turn_id));
        let queued = QueuedTurn { turn_id, start };
        self.queue.push_back(queued.clone());
        self.lines.insert(turn_id, lines);
        let change = StateChange::Queue { length: self.queue_length(), added: Some(Box::new(queued)) };
        self.change(change).await?;
        Ok(StartedTurn { turn_id, events, joined: false })
    }

    /// Creates the fact for a turn that has left the queue. The fact is stored with the turn's start, so that a crash
    /// neither loses the turn nor runs it twice.
    pub(crate) fn dequeued_fact(&self) -> EventKind {
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
                    self.record_unrun_turn(queued, StopReason::Failed, Some(error.to_turn_error())).await?;
                }
            }
        }
        Ok(())
    }

    /// Records an acknowledged turn that never ran, so that the turn is not silently lost.
    pub(crate) async fn record_unrun_turn(
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
        let user_input = match &start.text {
            Some(text) => {
                let mentions = MentionedTools::new();
                let input_context = InputContext::of(choice, &mentions);
                match self.fit_input(UserInput::whole(text.clone(), start.typed_bytes), false, input_context).await {
                    Err(Fault::Request(_)) => Some(large_input::truncate(text, start.typed_bytes, MAX_UNRUN_TOKENS)),
                    fit_result => Some(fit_result?),
                }
            }
            None => None,
        };
        facts.extend(user_input.into_iter().flat_map(|user_input| whole(Item::new(turn_id, user_input.body(false)))));
        if stop_reason == StopReason::Cancelled {
            facts.extend(withdrawal((self.journal.head() + 1..).zip(&facts)));
        }
        facts.push(self.dequeued_fact());
        // The next turn announces the files.
        facts.extend(start.attached.into_iter().filter_map(|part| match part {
            AttachedPart::File { path, picture } => {
                Some(EventKind::StateChanged { change: StateChange::HandedOver { path, picture } })
            }
            AttachedPart::Selection(_) => None,
        }));
        let empty = TurnResult::new(turn_id, trace_id, stop_reason);
        let result = TurnResult { error, only_compacted: compacts, ..empty };
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
        let (choice, open) = (self.active_choice(), self.open.as_ref());
        let mentions = open.and_then(|open| open.mentions.clone()).unwrap_or_default();
        let input_context = InputContext::of(choice, &mentions.tools);
        let input = self.fit_input(input, whole, input_context).await?;
        let stored = self.stored_warning(&input, choice);
        let item = Item::new(turn_id, input.body(true));
        // The item is on disk before the input is acknowledged, and completed when the model receives it.
        let started = EventKind::ItemStarted { item: item.clone() };
        self.commit(Some(turn_id), [started].into_iter().chain(stored).collect()).await?;
        if let Some(open) = &mut self.open {
            open.steers.push(Arc::new(item));
        }
        Ok(())
    }

    /// Removes and returns the added inputs that no model has received. Their completions are stored now, at the
    /// position where the model reads them.
    pub(crate) async fn take_steers(&mut self, turn_id: TurnId) -> Result<Vec<Arc<Item>>, Fault> {
        let steers = self.open.as_mut().map(|open| std::mem::take(&mut open.steers)).unwrap_or_default();
        let whole = |item: &Arc<Item>| EventKind::ItemCompleted { item: (**item).clone(), status: ItemStatus::Done };
        self.commit(Some(turn_id), steers.iter().map(whole).collect()).await?;
        Ok(steers)
    }
}

/// Notice for the model in a turn that was cancelled after the answer had started.
const INTERRUPTED_NOTICE: &str = "The user interrupted here. Do not continue this unless they ask.";
/// Notice for the model when the user continues such a turn.
pub(super) const CONTINUED_NOTICE: &str = "The user asks to continue what was interrupted.";

impl Actor {
    /// Creates the facts that withdraw input from a turn cancelled by the user, to be stored directly after `ending`.
    /// Only the journal decides whether there was an answer; a damaged event counts as an answer.
    pub(in crate::session) async fn withdrawals(
        &self,
        open: &OpenTurn,
        ending: &[EventKind],
        only_compacted: bool,
    ) -> Result<Vec<EventKind>, Fault> {
        let events = self.turn_events(open.turn_id, open.first_seq).await?;
        let is_answered = events.iter().any(|event| is_answer(event));
        let stored = events.iter().map(|event| (event.seq, &event.kind)).filter(|_| !is_answered);
        let unread = (self.journal.head() + 1..).zip(ending);
        let mut facts: Vec<EventKind> = withdrawal(stored.chain(unread)).into_iter().collect();
        if !is_answered {
            // The next turn announces the files.
            facts.extend(open.handed_over.iter().cloned().map(|change| EventKind::StateChanged { change }));
        } else if !only_compacted {
            facts.extend(whole(Item::new(open.turn_id, interruption(INTERRUPTED_NOTICE))));
        }
        Ok(facts)
    }
}

/// Creates the fact that withdraws the inputs among these numbered facts, together with their notices.
pub(crate) fn withdrawal<'a>(numbered: impl Iterator<Item = (u64, &'a EventKind)>) -> Option<EventKind> {
    let (mut items, mut input, mut added) = (Vec::new(), None, Vec::new());
    for (seq, kind) in numbered {
        let EventKind::ItemCompleted { item, .. } = kind else { continue };
        match &item.body {
            ItemBody::UserMessage { text, typed_bytes, steered: true, .. } => {
                added.push(typed_part(text, *typed_bytes).to_owned());
            }
            ItemBody::UserMessage { text, typed_bytes, .. } => input = Some(typed_part(text, *typed_bytes).to_owned()),
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

/// Token limit for the input of a turn that never ran, if its input cannot be spilled.
const MAX_UNRUN_TOKENS: u64 = 1000;

/// Context of an input: the model that reads it, and the notices before it.
#[derive(Clone, Copy)]
pub(crate) struct InputContext<'a> {
    pub(crate) choice: SlotChoice,
    pub(crate) mentions: &'a MentionedTools,
    pub(crate) attached: &'a [Attachment],
    pub(crate) notices: &'a [ItemBody],
    /// Estimated tokens that a turn which has not started adds to the request.
    pub(crate) added_tokens: u64,
}

impl<'a> InputContext<'a> {
    /// Creates the context of an input with nothing else in its turn.
    fn of(choice: SlotChoice, mentions: &'a MentionedTools) -> Self {
        Self { choice, mentions, attached: &[], notices: &[], added_tokens: 0 }
    }
}

/// Returns the estimated tokens for the instructions and client tools of a turn that has not started.
pub(crate) fn added_tokens(start: &StartTurn) -> u64 {
    let instructions = start.options.instructions.as_deref().map_or(0, estimate);
    let tool = |tool: &ClientTool| estimate(&tool.description) + estimate(&tool.parameters.to_string());
    instructions + start.tools.iter().map(tool).sum::<u64>()
}

impl Actor {
    /// Returns the input as shown to the model: whole if it fits, or otherwise its beginning with the path of the file
    /// that contains the whole input.
    ///
    /// # Errors
    /// Fails if the input must be whole and does not fit, or the file cannot be written.
    pub(crate) async fn fit_input(
        &mut self,
        input: UserInput,
        must_be_whole: bool,
        input_context: InputContext<'_>,
    ) -> Result<UserInput, Fault> {
        let slot = input_context.choice.slot;
        let model = self.model(slot);
        if large_input::always_fits(input.text.len(), self.smallest_window(input_context.choice), model.info().embedded)
        {
            return Ok(input);
        }
        self.look_up(input_context.choice).await;
        let (info, window) = (model.info(), self.smallest_window(input_context.choice));
        if large_input::always_fits(input.text.len(), window, info.embedded) {
            return Ok(input);
        }
        let pictures = self.has_pictures(input_context.attached);
        let finder = self.finder(input_context.mentions, slot, pictures, &self.state.visible_history());
        let tools = finder.tools();
        let budget = self.input_budget(info, window, &finder, input_context).await?;
        if must_be_whole {
            let refusal = large_input::refusal(input.text.clone(), budget, &info.id, window).await;
            return refusal.map_or(Ok(input), |message| {
                let hint = "attach it as a file, so that the model reads what it needs, or use a model with a larger \
                            window";
                Err(EngineError::new(ErrorKind::ContextOverflow, message).with_hint(hint).into())
            });
        }
        let session = self.state.settings.files_of(self.id);
        let spilled = large_input::spill(&*self.shared.ports.workspaces, session, &tools, input, budget).await;
        Ok(spilled?)
    }

    /// Spills the input of a queued turn if it would not fit now, so that an acknowledged turn is not
    /// rejected later because of a full disk.
    async fn spill_queued_input(&mut self, start: &StartTurn) -> Result<(), Fault> {
        let Some(text) = &start.text else { return Ok(()) };
        let input = UserInput::whole(text.clone(), start.typed_bytes);
        // The input is for the model named in its options, not for the model of the running turn.
        let open_options = std::mem::replace(&mut self.options, start.options.clone());
        let choice = self.choose(start.slot, &[], None);
        let mentions = &MentionedTools::new();
        let input_context = InputContext { added_tokens: added_tokens(start), ..InputContext::of(choice, mentions) };
        let fit_result = self.fit_input(input, start.whole, input_context).await;
        self.options = open_options;
        fit_result.map(drop)
    }

    /// Returns the warning for the user if only a part of the input is shown to the model.
    pub(crate) fn stored_warning(&self, input: &UserInput, choice: SlotChoice) -> Option<EventKind> {
        input.warning(&self.model(choice.slot).info().id, self.smallest_window(choice))
    }

    /// Returns the smallest window of the models that a turn may call, since another model may write the last answer.
    pub(crate) fn smallest_window(&self, choice: SlotChoice) -> u64 {
        let (windows, (_, chat)) = (&self.shared.windows, self.chat(choice));
        windows.of(self.model(choice.slot).info()).min(windows.of(chat.info()))
    }

    /// Estimates the current maximum number of tokens for an input.
    async fn input_budget(
        &mut self,
        info: &ModelInfo,
        window: u64,
        finder: &ToolFinder,
        input_context: InputContext<'_>,
    ) -> Result<InputBudget, EngineError> {
        let workspace = self.workspace().await?;
        let tools = finder.tools();
        let shared = &self.shared;
        let config = shared.config();
        let instructions = self.system(&self.active_agent().instructions(&config), finder, &workspace);
        let fixed = if info.embedded { 0 } else { tools.print.tokens + estimate(&instructions) };
        let guess = |item: &Item| meter::guess(item, info.echo_reasoning);
        let whole = || fixed + self.state.visible_history().iter().map(|item| guess(item)).sum::<u64>();
        // A running turn has its own copy of the meter, so the session's meter is out of date.
        let used = match &self.open {
            Some(_) => shared.calibration.apply(&info.id, whole()),
            None => {
                self.state.meter.expected(&shared.calibration, NextRequest { model: info, tools: tools.print }, whole)
            }
        };
        let added_tokens =
            shared.calibration.apply(&info.id, if info.embedded { 0 } else { input_context.added_tokens });
        let notices = input_context.notices.iter().map(|body| match body {
            ItemBody::Notice { text, .. } => estimate(text),
            _ => 0,
        });
        let usage = WindowUsage {
            window,
            used: used + added_tokens,
            fixed,
            notices: notices.sum(),
            tokens_per_thousand: shared.calibration.apply(&info.id, 1000),
            embedded: info.embedded,
        };
        Ok(InputBudget::of(&usage, config.large_result_tokens))
    }
}

//! What a model sees of a session: what it is told first, all of it for people, part by part, and compactions taken back.

use std::sync::Arc;

use agentd_context::{
    compaction::{offload, plan},
    footprint::{self, Fingerprint},
    history,
    meter::{ContextMeter, Next},
    tokens::TokenCalibration,
    toolset::ToolSet,
};
use agentd_core::{
    context::{Compaction, CompactionReport, ContextView, Segment, SegmentKind, TokenLevel, Window},
    error::ErrorKind,
    event::{EventKind, StateChange},
    guide::GuideLimits,
    ids::{ItemId, TurnId},
    item::{Item, ItemBody, ItemStatus, NoticeSource, NoticeTopic},
    model::{Message, ModelInfo, Slot},
    ports::Model,
};
use tokio::sync::oneshot;

use crate::{
    attachments::{self, Attachment},
    catalog::MentionedTools,
    error::EngineError,
    instructions::{self, PreambleContext},
    mentions::Mentions,
    session::actor::{Actor, Fault, load},
    turn::{recorder::whole, route::SlotChoice},
};

impl Actor {
    /// Content of the window of the model that would be asked next.
    pub(crate) async fn context(&mut self) -> Result<ContextView, Fault> {
        if let Some(view) = self.imported_context() {
            return Ok(view);
        }
        let workspace = self.workspace().await?;
        let config = self.shared.config();
        let pictures = self.has_pictures(&[]);
        let choice = self.choose(None, &[], None);
        let slot = choice.slot;
        let model = self.model(slot);
        let finds = self.finds(&MentionedTools::new(), slot, pictures, &self.state.seen());
        let instructions = agentd_context::system(
            &config.system_prompt,
            &finds.about_servers(),
            &workspace,
            self.surroundings(),
            self.state.created_at,
        );
        Ok(context_view(&ContextViewInput {
            model: model.info(),
            instructions: &instructions,
            tools: &finds.tools(),
            history: &self.state.seen(),
            scales: &self.shared.scales,
            meter: self.open.is_none().then_some(&self.state.meter),
            max_messages: config.max_message_history,
            window: self.shared.windows.of(model.info()),
            held: self.state.window().held,
        }))
    }

    /// Figures of the machine that the session comes from, as long as nothing has happened in it here: they are about the
    /// same history, and what follows from this machine's models and tools shows with the next turn.
    fn imported_context(&self) -> Option<ContextView> {
        let imported = self.state.settings.imported.as_ref()?;
        let view = imported.context.as_ref().filter(|_| imported.events == self.journal.head())?;
        Some(ContextView { imported: true, ..view.clone() })
    }

    /// Guides that people wrote for the model, where the history does not have them.
    pub(crate) async fn told_first(
        &mut self,
        slot: Slot,
        model: &dyn Model,
        handed: &[Attachment],
        mentions: &Mentions,
    ) -> Result<Vec<ItemBody>, Fault> {
        let workspace = self.workspace().await?;
        let (shared, limits) = (&self.shared, self.shared.config().guides);
        let looked = instructions::look(&*shared.ports.workspaces, &workspace, limits).await;
        // What could not be found out is left as it was told before.
        let limits = if looked.is_some() { limits } else { GuideLimits { memory: false, skills: false, ..limits } };
        let guides = looked.unwrap_or_default();
        // The last answer may be written by another model, which reads the same.
        let (_, chat) = self.chat(SlotChoice::by_name(slot));
        let window = shared.windows.of(model.info()).min(shared.windows.of(chat.info()));
        let history = self.state.seen();
        let pictures =
            handed.iter().any(|file| file.picture.is_some()) || attachments::pictures(&history).next().is_some();
        let tools = &self.shown(&mentions.tools, slot, pictures);
        Ok(shared.chain.preamble(&PreambleContext {
            guides: &guides,
            limits,
            window,
            history: &history,
            handed,
            tools,
        }))
    }

    /// Takes the last compaction back. Nothing was removed from the journal, so all of it is there. It is not done again by
    /// itself as long as all of it fits.
    pub(crate) async fn undo_compaction(&mut self) -> Result<(Window, CompactionReport), Fault> {
        if self.open.is_some() {
            let open = "a compaction cannot be taken back while a turn is open";
            return Err(EngineError::busy(open, "wait for its end, or cancel it").into());
        }
        if let Some(offloaded) = self.last_offload() {
            return self.undo_offload(&offloaded).await;
        }
        let Some(compaction) = self.state.compaction().cloned() else {
            let nothing = "there is no compaction to take back";
            return Err(EngineError::new(ErrorKind::Conflict, nothing)
                .with_hint("`agentctl context` shows what the model sees")
                .into());
        };
        let (items, summary) = load::window(&*self.shared.ports.store, self.id, compaction.before).await?;
        // Compactions stand among the items, too, and are not seen there.
        let seen = items.iter().map(|(_, item)| item).filter(|item| !matches!(item.body, ItemBody::Compaction(_)));
        let seen: Vec<Arc<Item>> = summary.iter().chain(seen).map(|item| Arc::new(item.clone())).collect();
        let window = Window { held: held(&seen), ..compaction.before };
        self.change(StateChange::Window { window }).await?;
        self.state.show(items, summary);
        self.tell_level().await?;
        Ok((window, compaction.report))
    }

    /// The compaction that moved results to files, where it is the last one that holds.
    fn last_offload(&self) -> Option<Arc<Item>> {
        let seen = self.state.seen();
        let (id, _) = offload::last(&seen)?;
        let is_last = self.state.number_of(id).is_some_and(|number| number > self.state.window().summary);
        seen.iter().find(|item| item.id == id).filter(|_| is_last).cloned()
    }

    /// Shows the results again that a compaction moved to files.
    async fn undo_offload(&mut self, offload: &Item) -> Result<(Window, CompactionReport), Fault> {
        let ItemBody::Compaction(undone) = &offload.body else {
            return Err(EngineError::new(ErrorKind::Internal, "no results were moved to files").into());
        };
        let window = Window { held: held(&self.state.seen()), ..self.state.window() };
        let back = Compaction { restores: Some(offload.id), before: window, ..Compaction::default() };
        let item = Item::new(offload.turn_id, ItemBody::Compaction(back));
        let change = EventKind::StateChanged { change: StateChange::Window { window } };
        self.commit(None, whole(item).into_iter().chain([change]).collect()).await?;
        let (items, summary) = load::window(&*self.shared.ports.store, self.id, window).await?;
        self.state.show(items, summary);
        self.tell_level().await?;
        Ok((window, undone.report.clone()))
    }

    /// Tells how full the window is, where that has changed without a turn.
    pub(crate) async fn tell_level(&mut self) -> Result<(), Fault> {
        // A session whose project is gone has no request to weigh; whoever wants a turn of it is told.
        let Ok(ContextView { tokens, window, .. }) = self.context().await else { return Ok(()) };
        match self.state.meter.moved(tokens, window) {
            Some(change) => self.change(change).await,
            None => Ok(()),
        }
    }

    /// Stores the end of a compaction, with the numbers that only the journal's writer knows.
    pub(crate) async fn compact(
        &mut self,
        turn_id: TurnId,
        id: ItemId,
        replaced: &[ItemId],
        compaction: Compaction,
        stored: oneshot::Sender<Arc<Item>>,
    ) -> Result<(), Fault> {
        // The highest number, whatever the order: calls that ran side by side may have ended in another.
        let through = replaced.iter().filter_map(|id| self.state.number_of(*id)).max();
        let through = through.unwrap_or(self.state.window().after);
        let body = ItemBody::Compaction(Compaction { through, before: self.state.window(), ..compaction });
        let item = Item { id, ..Item::new(turn_id, body) };
        let done = EventKind::ItemCompleted { item: item.clone(), status: ItemStatus::Done };
        self.commit(Some(turn_id), vec![done]).await?;
        let _ = stored.send(Arc::new(item));
        Ok(())
    }
}

/// The messages of a history that is not compacted by itself until it has grown by many.
fn held(history: &[Arc<Item>]) -> u64 {
    (plan::count_answers(history) as u64).max(1)
}

/// Ways of making room.
const RELIEF: &str =
    "old tool results are moved to files, or, where that is not enough, the older part is replaced by a summary";

/// Where the next request would come from.
pub(crate) struct ContextViewInput<'a> {
    pub(crate) model: &'a ModelInfo,
    /// The tokens that request and answer may have together.
    pub(crate) window: u64,
    pub(crate) instructions: &'a str,
    pub(crate) tools: &'a ToolSet,
    pub(crate) history: &'a [Arc<Item>],
    pub(crate) scales: &'a TokenCalibration,
    /// The last count; none while a turn is open, which counts for itself.
    pub(crate) meter: Option<&'a ContextMeter>,
    /// None where the window alone decides.
    pub(crate) max_messages: Option<usize>,
    /// The messages that were seen when a compaction was taken back; 0 where none was.
    pub(crate) held: u64,
}

/// Content of the window.
pub(crate) fn context_view(standing: &ContextViewInput<'_>) -> ContextView {
    let mut parts: Vec<(SegmentKind, Fingerprint, u32)> = Vec::new();
    let mut add = |kind, print, count| match parts.iter_mut().find(|(known, ..)| *known == kind) {
        Some((_, sum, total)) => {
            *sum = sum.and(print);
            *total += count;
        }
        None => parts.push((kind, print, count)),
    };
    let system = Message::System { text: standing.instructions.to_owned() };
    // The embedded model is shown neither: what it may do is decided around it.
    if !standing.model.embedded {
        add(SegmentKind::Tools, standing.tools.print, count(standing.tools.specs.len()));
        add(SegmentKind::Instructions, footprint::print(&system), 1);
    }
    let mut sources: Vec<(&str, u64)> = Vec::new();
    for source in standing.history.iter().flat_map(|item| memory_sources(item)) {
        match sources.iter_mut().find(|(name, _)| *name == source.name) {
            Some((_, bytes)) => *bytes += source.bytes,
            None => sources.push((&source.name, source.bytes)),
        }
    }
    for message in &history::messages(standing.history, standing.model.echo_reasoning) {
        add(history::kind(message), footprint::print(message), 1);
    }
    // What the server counted last is the truth; the parts share it as the guess has them.
    let guess = parts.iter().map(|(_, print, _)| print.tokens).sum::<u64>().max(1);
    let expected = match standing.meter {
        Some(meter) => {
            let next = Next { model: standing.model, tools: standing.tools.print };
            meter.expected(standing.scales, next, || guess)
        }
        None => standing.scales.apply(&standing.model.id, guess),
    };
    let scale = |tokens: u64| {
        let part = u128::from(tokens) * u128::from(expected) / u128::from(guess);
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    let mut segments: Vec<Segment> = parts
        .into_iter()
        .map(|(kind, print, count)| Segment {
            kind,
            source: String::new(),
            bytes: print.bytes,
            tokens: scale(print.tokens),
            count,
        })
        .flat_map(
            |segment| if segment.kind == SegmentKind::Memory { by_source(segment, &sources) } else { vec![segment] },
        )
        .collect();
    // What was lost by rounding belongs to the largest part, so that the parts make the whole.
    let rest = expected.saturating_sub(segments.iter().map(|segment| segment.tokens).sum());
    if let Some(largest) = segments.iter_mut().max_by_key(|segment| segment.tokens) {
        largest.tokens += rest;
    }
    let tokens = expected;
    let window = standing.window;
    let messages = plan::count_answers(standing.history);
    ContextView {
        model: standing.model.id.clone(),
        window,
        tokens,
        level: TokenLevel::of(tokens, window),
        segments,
        messages: count(messages),
        max_messages: standing.max_messages.map_or(0, count),
        next_cuts: next_cuts(standing, tokens, messages),
        imported: false,
    }
}

/// The files whose words an item tells, where it tells memory.
fn memory_sources(item: &Item) -> &[NoticeSource] {
    match &item.body {
        ItemBody::Notice { topic: NoticeTopic::Memory | NoticeTopic::FolderMemory, sources, .. } => sources,
        _ => &[],
    }
}

/// A segment, file by file; what stands around them is left as it is.
fn by_source(mut whole: Segment, sources: &[(&str, u64)]) -> Vec<Segment> {
    let (tokens, bytes) = (whole.tokens, whole.bytes.max(1));
    let mut parts = Vec::new();
    for (name, size) in sources {
        let size = (*size).min(whole.bytes);
        let part = tokens.saturating_mul(size) / bytes;
        whole.bytes -= size;
        whole.tokens -= part.min(whole.tokens);
        parts.push(Segment { source: (*name).to_owned(), bytes: size, tokens: part, ..whole.clone() });
    }
    parts.push(whole);
    parts
}

fn next_cuts(standing: &ContextViewInput<'_>, tokens: u64, messages: usize) -> Vec<String> {
    let window = standing.window;
    let relief = if standing.held == 0 { window / 100 * plan::RELIEF_PERCENT } else { window };
    let left = relief.saturating_sub(tokens);
    let mut cuts = Vec::new();
    if let Some(most) = standing.max_messages {
        let limit = plan::limit(most, standing.held);
        // However many a history may have that was fetched back: what is left then is half of what others may have, so
        // that it is not due again with the next message.
        let rest = most / 2;
        cuts.push(if messages > limit {
            format!("At the next turn the oldest turns are set aside, down to {rest} messages.")
        } else {
            let more = limit - messages;
            format!("After {more} more messages the oldest turns are set aside, down to {rest} messages.")
        });
    }
    if left == 0 {
        cuts.push(format!("Before the next call {RELIEF}."));
    } else {
        cuts.push(format!("After about {left} more tokens {RELIEF}."));
    }
    cuts
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

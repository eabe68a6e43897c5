//! A session as presented to its model: the guides sent first, the parts of the context window, and undoing
//! compactions.

use std::sync::Arc;

use agentd_context::{
    compaction::{offload, plan},
    footprint::{self, Fingerprint},
    history,
    meter::NextRequest,
};
use agentd_core::{
    context::{Compaction, CompactionReport, ContextView, Segment, SegmentKind, TokenLevel, Window},
    error::ErrorKind,
    event::{EventKind, StateChange},
    guide::GuideLimits,
    ids::{ItemId, TurnId},
    item::{Item, ItemBody, ItemStatus, NoticeTopic},
    model::{Message, Slot},
    ports::Model,
};
use tokio::sync::oneshot;

use crate::{
    attachments::Attachment,
    catalog::MentionedTools,
    error::EngineError,
    instructions::{self, PreambleContext},
    mentions::Mentions,
    session::actor::{Actor, Fault, load},
    turn::{recorder::whole, route::SlotChoice},
};

impl Actor {
    /// Describes the context window of the model for the next request.
    pub(crate) async fn context(&mut self) -> Result<ContextView, Fault> {
        // Imported figures are used until the session is used here, because they describe the same history. Differences
        // in the local models and tools become visible with the next turn.
        let imported = self.state.settings.imported.as_ref().filter(|origin| origin.events == self.journal.head());
        if let Some(view) = imported.and_then(|origin| origin.context.clone()) {
            return Ok(ContextView { imported: true, ..view });
        }
        let workspace = self.workspace().await?;
        let config = self.shared.config();
        let pictures = self.has_pictures(&[]);
        let choice = self.choose(None, &[], None);
        let model = self.model(choice.slot);
        let (model, history) = (model.info(), self.state.visible_history());
        let finder = self.finder(&MentionedTools::new(), choice.slot, pictures, &history);
        let tools = finder.tools();
        let mut parts: Vec<(SegmentKind, Fingerprint, u32)> = Vec::new();
        let mut add = |kind, print, count| match parts.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, sum, total)) => {
                *sum = sum.and(print);
                *total += count;
            }
            None => parts.push((kind, print, count)),
        };
        let (calibration, window) = (&self.shared.calibration, self.shared.windows.of(model));
        // The embedded model gets neither tools nor instructions: the engine itself decides which calls that model can
        // make.
        if !model.embedded {
            add(SegmentKind::Tools, tools.print, count(tools.specs.len()));
            let text = self.system(&config.system_prompt, &finder, &workspace);
            add(SegmentKind::Instructions, footprint::print(&Message::System { text }), 1);
        }
        let mut sources: Vec<(&str, u64)> = Vec::new();
        for source in instructions::sources(&history, &[NoticeTopic::Memory, NoticeTopic::FolderMemory]) {
            match sources.iter_mut().find(|(name, _)| *name == source.name) {
                Some((_, bytes)) => *bytes += source.bytes,
                None => sources.push((&source.name, source.bytes)),
            }
        }
        for message in &history::messages(&history, model.echo_reasoning) {
            add(history::kind(message), footprint::print(message), 1);
        }
        // The server's last count is authoritative; parts get proportional shares of it.
        let estimate = parts.iter().map(|(_, print, _)| print.tokens).sum::<u64>().max(1);
        let tokens = match &self.open {
            // An open turn keeps its own measurements.
            Some(_) => calibration.apply(&model.id, estimate),
            None => self.state.meter.expected(calibration, NextRequest { model, tools: tools.print }, || estimate),
        };
        let scale_tokens =
            |part: u64| u64::try_from(u128::from(part) * u128::from(tokens) / u128::from(estimate)).unwrap_or(u64::MAX);
        let mut segments = Vec::new();
        for (kind, print, count) in parts {
            let (bytes, tokens) = (print.bytes, scale_tokens(print.tokens));
            let whole = Segment { kind, source: String::new(), bytes, tokens, count };
            let sources = if kind == SegmentKind::Memory { sources.as_slice() } else { &[] };
            segments.extend(split_by_source(whole, sources));
        }
        // Add the rounding error to the largest part, so that the parts sum up to the total.
        let rest = tokens.saturating_sub(segments.iter().map(|segment| segment.tokens).sum());
        if let Some(largest) = segments.iter_mut().max_by_key(|segment| segment.tokens) {
            largest.tokens += rest;
        }
        let messages = plan::count_answers(&history);
        let (visible_at_undo, max_messages) = (self.state.window.held, config.max_message_history);
        Ok(ContextView {
            model: model.id.clone(),
            window,
            tokens,
            level: TokenLevel::of(tokens, window),
            segments,
            messages: count(messages),
            max_messages: max_messages.map_or(0, count),
            next_cuts: next_cuts(max_messages, visible_at_undo, (window, tokens), messages),
            imported: false,
        })
    }

    /// Returns the guides for the model that the history does not contain yet.
    pub(crate) async fn opening_notices(
        &mut self,
        slot: Slot,
        model: &dyn Model,
        attached: &[Attachment],
        mentions: &Mentions,
    ) -> Result<Vec<ItemBody>, Fault> {
        let workspace = self.workspace().await?;
        let (shared, limits) = (&self.shared, self.shared.config().guides);
        let guides_read = instructions::read_guides(&*shared.ports.workspaces, &workspace, limits).await;
        // If the guides could not be read, the earlier guides still apply.
        let limits =
            if guides_read.is_some() { limits } else { GuideLimits { memory: false, skills: false, ..limits } };
        let guides = guides_read.unwrap_or_default();
        // The final answer may be written by another model, which reads the same history.
        let (_, chat) = self.chat(SlotChoice::by_name(slot));
        let window = shared.windows.of(model.info()).min(shared.windows.of(chat.info()));
        let history = self.state.visible_history();
        let tools = &self.finder(&mentions.tools, slot, self.has_pictures(attached), &history).tools();
        let (guides, history) = (&guides, history.as_slice());
        Ok(shared.chain.preamble(&PreambleContext { guides, limits, window, history, attached, tools }))
    }

    /// Undoes the last compaction, whose items are all still in the journal. The compaction is not repeated
    /// automatically as long as all items fit.
    pub(crate) async fn undo_compaction(&mut self) -> Result<(Window, CompactionReport), Fault> {
        if self.open.is_some() {
            let open = "a compaction cannot be undone while a turn is open";
            return Err(EngineError::busy(open, "wait for it to end, or cancel it").into());
        }
        let seen = self.state.visible_history();
        let last =
            offload::last(&seen).and_then(|(id, undone)| Some((undone, seen.iter().find(|item| item.id == id)?)));
        let is_last = |item: &Item| self.state.number_of(item.id) > Some(self.state.window.summary);
        if let Some((undone, offload)) = last.filter(|(_, item)| is_last(item)) {
            let report = undone.report.clone();
            return Ok((self.undo_offload(offload).await?, report));
        }
        let Some(compaction) = self.state.compaction().cloned() else {
            let nothing = EngineError::new(ErrorKind::Conflict, "there is no compaction to undo");
            return Err(nothing.with_hint("`agentctl context` shows what the model sees").into());
        };
        let (items, summary) = load::window(&*self.shared.ports.store, self.id, compaction.before).await?;
        // Compactions are also among the items, but are not visible in the history.
        let seen = items.iter().map(|(_, item)| item).filter(|item| !matches!(item.body, ItemBody::Compaction(_)));
        let seen: Vec<Arc<Item>> = summary.iter().chain(seen).map(|item| Arc::new(item.clone())).collect();
        let window = Window { held: visible_count(&seen), ..compaction.before };
        self.change(StateChange::Window { window }).await?;
        self.state.show(items, summary);
        self.record_level().await?;
        Ok((window, compaction.report))
    }

    /// Restores the results that a compaction offloaded to files.
    async fn undo_offload(&mut self, offload: &Item) -> Result<Window, Fault> {
        let window = Window { held: visible_count(&self.state.visible_history()), ..self.state.window };
        let restore = Compaction { restores: Some(offload.id), before: window, ..Compaction::default() };
        let item = Item::new(offload.turn_id, ItemBody::Compaction(restore));
        let change = EventKind::StateChanged { change: StateChange::Window { window } };
        self.commit(None, whole(item).into_iter().chain([change]).collect()).await?;
        let (items, summary) = load::window(&*self.shared.ports.store, self.id, window).await?;
        self.state.show(items, summary);
        self.record_level().await?;
        Ok(window)
    }

    /// Records the fill level of the window if it has changed without a turn.
    pub(crate) async fn record_level(&mut self) -> Result<(), Fault> {
        // If the session's project no longer exists, there is no request to measure. The next turn reports the error.
        let Ok(ContextView { tokens, window, .. }) = self.context().await else { return Ok(()) };
        match self.state.meter.moved(tokens, window) {
            Some(change) => self.change(change).await,
            None => Ok(()),
        }
    }

    /// Stores the end of a compaction, with sequence numbers that are available only to the journal's writer.
    pub(crate) async fn compact(
        &mut self,
        turn_id: TurnId,
        id: ItemId,
        replaced: &[ItemId],
        compaction: Compaction,
        stored: oneshot::Sender<Arc<Item>>,
    ) -> Result<(), Fault> {
        // Use the highest number, because parallel calls may have completed in a different order.
        let through = replaced.iter().filter_map(|id| self.state.number_of(*id)).max();
        let through = through.unwrap_or(self.state.window.after);
        let body = ItemBody::Compaction(Compaction { through, before: self.state.window, ..compaction });
        let item = Item { id, ..Item::new(turn_id, body) };
        let completed_event = EventKind::ItemCompleted { item: item.clone(), status: ItemStatus::Done };
        self.commit(Some(turn_id), vec![completed_event]).await?;
        let _ = stored.send(Arc::new(item));
        Ok(())
    }
}

/// Returns the number of visible messages. After an undone compaction, automatic compaction waits until the history has
/// grown well beyond this number.
fn visible_count(history: &[Arc<Item>]) -> u64 {
    (plan::count_answers(history) as u64).max(1)
}

/// Text that describes how space is freed.
const RELIEF_TEXT: &str =
    "old tool results are moved to files or, if that is not enough, the older part is replaced by a summary";

/// Splits a segment by source; the remaining text stays in the original segment.
fn split_by_source(mut whole: Segment, sources: &[(&str, u64)]) -> Vec<Segment> {
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

/// Describes the next compactions. `visible_at_undo` is the number of messages in the history when a compaction was
/// undone, or 0.
fn next_cuts(
    max_messages: Option<usize>,
    visible_at_undo: u64,
    (window, tokens): (u64, u64),
    messages: usize,
) -> Vec<String> {
    let relief_tokens = if visible_at_undo == 0 { window / 100 * plan::RELIEF_PERCENT } else { window };
    let left = relief_tokens.saturating_sub(tokens);
    let mut cuts = Vec::new();
    if let Some(max) = max_messages {
        let limit = plan::limit(max, visible_at_undo);
        // Half of the regular maximum remains, even if an undo has raised the limit, so that compaction is not due
        // again with the next message.
        let rest = max / 2;
        cuts.push(if messages > limit {
            format!("At the next turn the oldest turns are dropped, down to {rest} messages.")
        } else {
            let more = limit - messages;
            format!("After {more} more messages the oldest turns are dropped, down to {rest} messages.")
        });
    }
    cuts.push(match left {
        0 => format!("Before the next call {RELIEF_TEXT}."),
        left => format!("After about {left} more tokens {RELIEF_TEXT}."),
    });
    cuts
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

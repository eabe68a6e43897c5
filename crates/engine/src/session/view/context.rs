//! What a model sees of a session: what it is told first, all of it for people, and compactions taken back.

use std::sync::Arc;

use agentd_context::compaction::{offload, plan};
use agentd_core::{
    context::{Compaction, CompactionReport, ContextView, Window},
    error::ErrorKind,
    event::{EventKind, StateChange},
    guide::GuideLimits,
    ids::{ItemId, TurnId},
    item::{Item, ItemBody, ItemStatus},
    model::Slot,
    ports::Model,
};
use tokio::sync::oneshot;

use crate::{
    attachments::{self, Attachment},
    catalog::MentionedTools,
    error::EngineError,
    instructions::{self, PreambleContext},
    mentions::Mentions,
    session::{
        actor::{Actor, Fault, load},
        view::context_view::{self, ContextViewInput},
    },
    turn::route::SlotChoice,
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
        Ok(context_view::view(&ContextViewInput {
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
        let looked = instructions::look(&*shared.parts.workspaces, &workspace, limits).await;
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
            return Err(EngineError::new(ErrorKind::Busy, open).with_hint("wait for its end, or cancel it").into());
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
        let (items, summary) = load::window(&*self.shared.parts.store, self.id, compaction.before).await?;
        // Compactions stand among the items, too, and are not seen there.
        let seen = items.iter().map(|(_, item)| item).filter(|item| !matches!(item.body, ItemBody::Compaction(_)));
        let seen: Vec<Arc<Item>> = summary.iter().chain(seen).map(|item| Arc::new(item.clone())).collect();
        let window = Window { held: held(&seen), ..compaction.before };
        self.commit(None, vec![EventKind::StateChanged { change: StateChange::Window { window } }]).await?;
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
        let facts = vec![
            EventKind::ItemStarted { item: item.clone() },
            EventKind::ItemCompleted { item, status: ItemStatus::Done },
            EventKind::StateChanged { change: StateChange::Window { window } },
        ];
        self.commit(None, facts).await?;
        let (items, summary) = load::window(&*self.shared.parts.store, self.id, window).await?;
        self.state.show(items, summary);
        self.tell_level().await?;
        Ok((window, undone.report.clone()))
    }

    /// Tells how full the window is, where that has changed without a turn.
    pub(crate) async fn tell_level(&mut self) -> Result<(), Fault> {
        // A session whose project is gone has no request to weigh; whoever wants a turn of it is told.
        let Ok(ContextView { tokens, window, .. }) = self.context().await else { return Ok(()) };
        match self.state.meter.moved(tokens, window) {
            Some(change) => self.commit(None, vec![EventKind::StateChanged { change }]).await,
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

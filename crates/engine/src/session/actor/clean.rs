//! Removing what nobody has used for long, on the order of the configuration.
//!
//! The actor does it, so that no turn can begin meanwhile. The history tells of it before anything is removed: a crash in
//! between leaves files that were told to be gone, which the next cleaning removes, and never a model that looks for files
//! of which it was told nothing.

use agentd_core::{
    Timestamp,
    event::EventKind,
    files::FilesRemoved,
    ids::TurnId,
    item::{Item, ItemBody, ItemStatus},
    ports::WorkspaceArea,
};

use crate::{
    error::EngineError,
    session::{
        actor::{Actor, Fault},
        registry::orders::{CleanOrder, SessionCleaned},
    },
};

impl Actor {
    /// Returns whether somebody uses the session, or it waits for somebody.
    pub(crate) fn is_in_use(&mut self) -> bool {
        self.open.is_some()
            || !self.queue.is_empty()
            || !self.interrupts.is_empty()
            || self.journal.has_readers()
            || self.is_leased()
    }

    /// Returns whether it, or one that works for it, was used since somebody found that nobody had for long.
    async fn is_used_since(&self, last_used: Option<Timestamp>) -> Result<bool, EngineError> {
        let Some(last_used) = last_used else { return Ok(false) };
        if !self.commands.is_empty() || self.was_used_after(last_used).await? {
            return Ok(true);
        }
        let children = self.shared.parts.store.children(self.id).await?;
        Ok(children.iter().any(|child| child.updated_at > last_used))
    }

    /// Removes what was not used for long. None where the session is needed.
    pub(crate) async fn clean(&mut self, order: CleanOrder) -> Result<Option<SessionCleaned>, Fault> {
        if self.is_in_use() || self.state.settings.pinned || self.is_used_since(order.last_used).await? {
            return Ok(None);
        }
        let parts = &self.shared.parts;
        let CleanOrder { areas, undo, trial, .. } = order;
        let mut found = parts.workspaces.clean(self.id, areas.clone(), true).await.map_err(EngineError::from)?;
        if found.is_empty() && !undo {
            return Ok(Some(SessionCleaned::default()));
        }
        if !trial {
            self.commit(None, notice(&found, undo).into()).await?;
            let parts = &self.shared.parts;
            if !found.is_empty() {
                // Something may have come meanwhile, and stays with all that lies beside it.
                found = parts.workspaces.clean(self.id, areas, false).await.map_err(EngineError::from)?;
            }
            if undo {
                parts.snapshots.remove(self.id).await.map_err(EngineError::from)?;
            }
        }
        Ok(Some(SessionCleaned { areas: found, undo }))
    }
}

/// Notice for the model and the person.
fn notice(found: &[(WorkspaceArea, FilesRemoved)], undo: bool) -> [EventKind; 2] {
    let mut removed: Vec<String> = found
        .iter()
        .map(|(area, removed)| {
            let files = if removed.files == 1 { "1 file".to_owned() } else { format!("{} files", removed.files) };
            format!("{}/ ({files})", area.folder())
        })
        .collect();
    if undo {
        removed.push("what is needed to undo earlier changes of files".to_owned());
    }
    let text = format!(
        "This session had been unused for long, and files of it were removed to save space: {}. The history is whole. Ask \
         for a file again if you need it.",
        removed.join(", ")
    );
    // It belongs to no turn.
    let item = Item::new(TurnId::generate(), ItemBody::notice(text));
    [EventKind::ItemStarted { item: item.clone() }, EventKind::ItemCompleted { item, status: ItemStatus::Done }]
}

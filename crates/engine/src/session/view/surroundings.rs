//! Where the session works, as its instructions tell. It is looked up when its first turn begins, and is the same from
//! there on, also after a restart. Another folder of the client is told behind the history.

use std::{path::Path, sync::Arc, time::Duration};

use agentd_context::surroundings::{moved, starts_at, surroundings};
use agentd_core::{
    environment::ClientEnvironment,
    event::{EventKind, StateChange},
    item::{Item, ItemBody},
    ports::Workspace,
    surroundings::{MachineFacts, Surroundings},
};
use tokio::time::timeout;

use crate::{error::EngineError, session::actor::Actor};

/// Time limit for looking at a project. No answer waits for a disk that hangs.
const PATIENCE: Duration = Duration::from_millis(500);

impl Actor {
    /// Finds out where a turn of this client works, where that is not known. Returns what its model is to be told of it
    /// besides the instructions.
    pub(crate) async fn look_around(&mut self, client: &ClientEnvironment) -> Result<Option<ItemBody>, EngineError> {
        let workspace = self.workspace().await?;
        let project = workspace.project.as_ref().map(|mount| mount.path.clone());
        let client = client.folder().map(Path::to_owned);
        let known = self.state.surroundings.as_ref().filter(|known| known.project == project).cloned();
        self.found_out = None;
        let Some(known) = known else {
            let Some(facts) = self.facts(&workspace, client.as_deref()).await else { return Ok(None) };
            let text = surroundings(&facts, project.as_deref());
            self.found_out = Some(Surroundings { project, client, start: facts.start, text });
            return Ok(None);
        };
        if client.is_none() || client == known.client {
            return Ok(self.forgotten_move(&known));
        }
        let Some(MachineFacts { start, .. }) = self.facts(&workspace, client.as_deref()).await else { return Ok(None) };
        let told = (start != known.start).then(|| ItemBody::notice(moved(&start)));
        if told.is_some() {
            self.found_out = Some(Surroundings { client, start, ..known });
        }
        Ok(told)
    }

    /// Where commands start now, where the instructions say otherwise and what was told of it is out of view.
    fn forgotten_move(&self, known: &Surroundings) -> Option<ItemBody> {
        let words = moved(&known.start);
        let has_moved = !starts_at(&known.text, &known.start);
        let is_seen = |item: &Arc<Item>| matches!(&item.body, ItemBody::Notice { text, .. } if *text == words);
        (has_moved && !self.state.seen().iter().any(is_seen)).then(|| ItemBody::notice(words))
    }

    /// The fact to be stored of it, with the start of the turn.
    pub(crate) fn found_out(&self) -> Option<EventKind> {
        let found = self.found_out.clone()?;
        Some(EventKind::StateChanged { change: StateChange::Surroundings(found) })
    }

    /// The words of the instructions about it; none where no turn has begun.
    pub(crate) fn surroundings(&self) -> &str {
        let known = self.found_out.as_ref().or(self.state.surroundings.as_ref());
        known.map(|known| known.text.as_str()).unwrap_or_default()
    }

    async fn facts(&self, workspace: &Workspace, client: Option<&Path>) -> Option<MachineFacts> {
        let workspaces = &self.shared.parts.workspaces;
        let facts = timeout(PATIENCE, workspaces.facts(workspace, client)).await.unwrap_or_default();
        // Of a project that cannot be looked at nothing is told that may be wrong.
        facts.filter(|facts| workspace.project.is_none() || !facts.start.is_empty())
    }
}

//! Implementation of the port that stores imported sessions.

use std::sync::Arc;

use agentd_core::{
    archive::{DraftId, SessionDraft},
    error::StoreError,
    event::{Event, EventKind},
    ports::JournalImports,
};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::{
    SqliteStore,
    change::Change,
    codec::{Fault, json, json_from},
    draft::{ImportStep, PreparedDraft, head},
    past_state::PastState,
};

impl JournalImports for SqliteStore {
    fn begin(&self, draft: DraftId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.change(Change::Import(ImportStep::Begin(draft)))
    }

    fn add(&self, draft: DraftId, events: Vec<Arc<Event>>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let encode = |event: Arc<Event>| {
                let payload = json(&event.kind)?;
                // Rejects an event that could not be parsed when it is read.
                json_from::<EventKind>(&payload)
                    .map_err(|_| Fault::invalid(format!("event {} is nested too deeply for the journal", event.seq)))?;
                Ok((event, payload))
            };
            let events = events.into_iter().map(encode).collect::<Result<_, Fault>>();
            let events = events.map_err(|fault| fault.while_doing("import events", self.path()))?;
            self.change(Change::Import(ImportStep::Add { draft, events })).await
        }
        .boxed()
    }

    fn finish(&self, drafts: Vec<SessionDraft>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let mut prepared = Vec::new();
            for session in drafts {
                let past_state = self
                    .read("read the import", move |connection| {
                        let (key, last) = head(connection, session.draft)?;
                        let past_state = PastState::read(connection, key, session.id, last, session.created_at)?;
                        Ok(PreparedDraft { past_state: past_state.with_stale_surroundings(), session })
                    })
                    .await?;
                prepared.push(past_state);
            }
            self.change(Change::Import(ImportStep::Finish(prepared))).await
        }
        .boxed()
    }

    fn abandon(&self, drafts: Vec<DraftId>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.change(Change::Import(ImportStep::Abandon(drafts)))
    }
}

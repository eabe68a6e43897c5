//! The file of a session's history: what compactions replaced, one behind the other, each once.
//!
//! What stands in it besides is still seen, for its compaction was taken back, or the daemon was killed before its end was
//! stored: it goes with the next write. What could not be written stands in the journal, and is written first the next time.

use std::sync::Arc;

use agentd_context::compaction::transcript;
use agentd_core::{
    context::{Compaction, HistoryFile},
    error::WorkspaceError,
    event::{Event, EventKind},
    item::{Item, ItemBody},
    ports::{Artifact, ArtifactDir},
};

use crate::turn::{TurnContext, TurnState};

/// Events of the journal that are read at once.
const PAGE: usize = 500;

/// Writes what a compaction replaces behind what the one before it did, and says what the file holds then. The inner error
/// says why it does not hold all; the path is that under which tools find it.
pub(super) async fn keep(
    context: &TurnContext,
    state: &TurnState,
    before: Option<&Compaction>,
    replaced: &[Arc<Item>],
) -> (HistoryFile, Result<String, WorkspaceError>) {
    let mut file = known(context, state, before);
    let path = write(context, &mut file, before, replaced).await;
    (file, path)
}

/// The file as the compaction before this one left it, or the one that is to begin.
fn known(context: &TurnContext, state: &TurnState, before: Option<&Compaction>) -> HistoryFile {
    let Some(before) = before else {
        let name = match state.reset_at {
            0 => format!("{}.md", context.ids.session),
            // What was set aside by a reset keeps its file.
            reset => format!("{}-{reset}.md", context.ids.session),
        };
        return HistoryFile { name, bytes: Some(0), missing_after: Some(state.reset_at) };
    };
    let mut file = before.file.clone();
    if file.name.is_empty() {
        // It was written before the name was told besides the path.
        let name = before.report.path.as_deref().and_then(|path| path.rsplit('/').next());
        file.name = name.map_or_else(|| format!("{}.md", context.ids.session), str::to_owned);
    }
    file
}

async fn write(
    context: &TurnContext,
    file: &mut HistoryFile,
    before: Option<&Compaction>,
    replaced: &[Arc<Item>],
) -> Result<String, WorkspaceError> {
    if let Some(before) = before {
        while let Some(after) = file.missing_after.filter(|after| *after < before.through) {
            let read = context.records.store.events(context.ids.session, after, PAGE).await;
            let page = read.map_err(|error| WorkspaceError::new(error.kind(), error.to_string()))?;
            let Some(last) = page.last().map(|event| event.seq) else { break };
            add(context, file, &replaced_before(&page, before.through)).await?;
            file.missing_after = Some(last);
        }
        // Where the next write fails, this is what is missing.
        file.missing_after = Some(before.through);
    }
    let path = add(context, file, replaced).await?;
    file.missing_after = None;
    Ok(path)
}

/// The items among these events that were replaced.
fn replaced_before(events: &[Arc<Event>], through: u64) -> Vec<Arc<Item>> {
    let events = events.iter().take_while(|event| event.seq <= through);
    let items = events.filter_map(|event| match &event.kind {
        EventKind::ItemCompleted { item, .. } => Some(Arc::new(item.clone())),
        _ => None,
    });
    items.collect()
}

async fn add(context: &TurnContext, file: &mut HistoryFile, items: &[Arc<Item>]) -> Result<String, WorkspaceError> {
    // An earlier summary is in the file in longer words already.
    let said = items.iter().filter(|item| !matches!(item.body, ItemBody::Compaction(_)));
    let text = transcript::whole(&said.cloned().collect::<Vec<_>>()).into_bytes();
    let Artifact { path, bytes } =
        context.files.session.keep_on(ArtifactDir::ConversationHistory, file.name.clone(), file.bytes, text).await?;
    file.bytes = Some(bytes);
    Ok(path)
}

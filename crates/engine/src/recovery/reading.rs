//! Readers of a session's journal, page by page: forwards, or backwards to what is found last.

use std::sync::Arc;

use agentd_core::{error::StoreError, event::Event, ids::SessionId, ports::Store};

use crate::error::EngineError;

/// Events that are read at once.
const PAGE: usize = 1000;
/// Events that are read first of what is mostly found near the end.
pub(crate) const TAIL: u64 = 64;

/// Shows every event behind that number, until one is refused.
pub(crate) async fn each_after(
    store: &dyn Store,
    id: SessionId,
    mut after: u64,
    mut each: impl FnMut(Arc<Event>) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    loop {
        let page = store.events(id, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        page.into_iter().try_for_each(&mut each)?;
    }
}

/// Finding in the last event of those behind `since` and up to `through` in which there is anything.
pub(crate) async fn last<T>(
    store: &dyn Store,
    id: SessionId,
    since: u64,
    through: u64,
    found: impl Fn(&Event) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    let (mut before, mut most) = (through, TAIL);
    while before > since {
        let after = before.saturating_sub(most).max(since);
        let page = store.events(id, after, usize::try_from(before - after).unwrap_or(usize::MAX)).await?;
        if let Some(found) = page.iter().rev().find_map(|event| found(event)) {
            return Ok(Some(found));
        }
        (before, most) = (after, PAGE as u64);
    }
    Ok(None)
}

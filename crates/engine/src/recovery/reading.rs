//! Reads a session's journal page by page: forwards, or backwards to the last match.

use std::sync::Arc;

use agentd_core::{error::StoreError, event::Event, ids::SessionId, ports::Store};

use crate::error::Result;

/// Number of events per read.
const PAGE: usize = 1000;
/// Number of events in the first read of a backwards search. Most matches are near the end.
pub(crate) const TAIL_EVENTS: u64 = 64;

/// Calls `each` for every event after `after`, until it returns an error.
pub(crate) async fn each_after(
    store: &dyn Store,
    id: SessionId,
    mut after: u64,
    mut each: impl FnMut(Arc<Event>) -> Result<()>,
) -> Result<()> {
    loop {
        let page = store.events(id, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        page.into_iter().try_for_each(&mut each)?;
    }
}

/// Searches the events after `since` and up to `through` backwards, and returns the last match.
pub(crate) async fn last<T>(
    store: &dyn Store,
    id: SessionId,
    since: u64,
    through: u64,
    found: impl Fn(&Event) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    let (mut before, mut page_size) = (through, TAIL_EVENTS);
    while before > since {
        let after = before.saturating_sub(page_size).max(since);
        let page = store.events(id, after, usize::try_from(before - after).unwrap_or(usize::MAX)).await?;
        if let Some(found) = page.iter().rev().find_map(|event| found(event)) {
            return Ok(Some(found));
        }
        (before, page_size) = (after, PAGE as u64);
    }
    Ok(None)
}

//! Lists of sessions, filtered.

use agentd_core::session::{SessionFilter, SessionPage};

use super::Engine;
use crate::error::EngineError;

impl Engine {
    /// A page of the sessions that fit a filter, as [`Self::session_page`] has one of all.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn filtered_page(
        &self,
        before: Option<u64>,
        limit: usize,
        children: bool,
        filter: &SessionFilter,
    ) -> Result<SessionPage, EngineError> {
        if filter.is_empty() {
            return self.session_page(before, limit, children).await;
        }
        let store = &self.shared.parts.store;
        let mut fitting = SessionPage { sessions: Vec::new(), next: before };
        // No more is read than still fits, so that the next page begins where this one ends.
        while fitting.sessions.len() < limit {
            let page = store.session_page(fitting.next, limit - fitting.sessions.len()).await?;
            // Those that follow were used before.
            let is_over = filter.since.is_some_and(|since| page.sessions.iter().any(|found| found.updated_at < since));
            fitting.sessions.extend(page.sessions.into_iter().filter(|session| filter.fits(session)));
            fitting.next = page.next.filter(|_| !is_over);
            if fitting.next.is_none() {
                break;
            }
        }
        if children {
            for session in std::mem::take(&mut fitting.sessions) {
                let id = session.id;
                fitting.sessions.push(session);
                fitting.sessions.extend(store.children(id).await?);
            }
        }
        Ok(fitting)
    }
}

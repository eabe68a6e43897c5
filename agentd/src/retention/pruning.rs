//! Removal of many sessions at once, which a person asks for.

use agentd_core::{
    Timestamp,
    audit::{AuditEntry, AuditFact},
    ports::Audit as _,
    session::{SessionFilter, SessionStatus, SessionSummary},
    storage::{CleanedData, CleanedPart},
};
use agentd_engine::EngineError;
use agentd_proto::client::PruneReport;

use super::{Retention, usage};

/// Sessions that are looked at together.
const PAGE: usize = 200;
/// Sessions that are named.
const NAMED: usize = 1000;

impl Retention {
    /// Removes the sessions that fit and were not used since then, or says in a trial which would go. Those that are in use,
    /// wait or are pinned stay.
    ///
    /// # Errors
    /// When the sessions cannot be listed.
    pub async fn prune(
        &self,
        filter: &SessionFilter,
        unused_since: Timestamp,
        trial: bool,
        by: &str,
    ) -> Result<PruneReport, EngineError> {
        let _turn = self.turn.lock().await;
        let mut candidates = Vec::new();
        let mut next = None;
        loop {
            let page = self.engine.filtered_page(next, PAGE, false, filter).await?;
            candidates.extend(page.sessions.into_iter().filter(|session| session.updated_at < unused_since));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        let mut report = PruneReport::default();
        for session in candidates {
            self.prune_one(session, trial, &mut report).await;
        }
        if !trial && report.count > 0 {
            let part =
                CleanedData { part: CleanedPart::Sessions, sessions: report.count, files: 0, bytes: report.bytes };
            let fact = AuditFact::Cleaned { parts: vec![part], by: by.to_owned() };
            self.audit.note(AuditEntry::general(self.clock.now(), fact)).await;
        }
        Ok(report)
    }

    async fn prune_one(&self, session: SessionSummary, trial: bool, report: &mut PruneReport) {
        let is_open = matches!(session.status, SessionStatus::Running | SessionStatus::Waiting);
        let bytes = if is_open { 0 } else { self.bytes_of(&session).await };
        let gone = match is_open {
            true => Ok(false),
            false => self.engine.expire_session(session.id, session.updated_at, trial).await,
        };
        match gone {
            Ok(true) => {
                report.count += 1;
                report.bytes += bytes;
                if report.sessions.len() < NAMED {
                    report.sessions.push(session);
                }
            }
            Ok(false) => report.kept += 1,
            Err(error) => report.problems.push(format!("could not delete session {}: {error}", session.id)),
        }
    }

    /// Bytes that a session takes on the disk.
    async fn bytes_of(&self, session: &SessionSummary) -> u64 {
        // A session is removed whether its size is known or not.
        let mut bytes = self.store.event_bytes(session.id).await.unwrap_or_default();
        for folder in ["workspace", "undo", "traces"] {
            let content = usage::content(self.data.join(folder).join(session.id.to_string())).await;
            bytes += content.map_or(0, |content| content.bytes);
        }
        bytes
    }
}

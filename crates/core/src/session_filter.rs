//! Filters of lists of sessions.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::session::{SessionStatus, SessionSummary};

/// Filter of sessions. What is empty fits all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Folder that their project is, or lies in.
    pub project: Option<PathBuf>,
    /// Moment since when they were used.
    pub since: Option<Timestamp>,
    /// Statuses, one of which they have.
    pub statuses: Vec<SessionStatus>,
    /// Words that all stand in their title or in the path of their project, in either case.
    pub words: String,
}

impl SessionFilter {
    /// Returns whether it fits all sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { project, since, statuses, words } = self;
        project.is_none() && since.is_none() && statuses.is_empty() && words.trim().is_empty()
    }

    /// Returns whether a session fits.
    #[must_use]
    pub fn fits(&self, session: &SessionSummary) -> bool {
        let path = session.project.as_ref().map(|mount| mount.path.as_path());
        let is_in_project =
            self.project.as_ref().is_none_or(|project| path.is_some_and(|path| path.starts_with(project)));
        is_in_project
            && self.since.is_none_or(|since| session.updated_at >= since)
            && (self.statuses.is_empty() || self.statuses.contains(&session.status))
            && self.has_words(session)
    }

    fn has_words(&self, session: &SessionSummary) -> bool {
        let mut words = self.words.split_whitespace().peekable();
        if words.peek().is_none() {
            return true;
        }
        let path = session.project.as_ref().map(|mount| mount.path.display().to_string()).unwrap_or_default();
        let text = format!("{} {path}", session.title).to_lowercase();
        words.all(|word| text.contains(&word.to_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::SessionId, session::Mount, usage::Usage};

    #[test]
    fn sessions_fit_by_project_use_status_and_words() {
        let session = SessionSummary {
            id: SessionId::generate(),
            title: "Steuer 2025: Größe".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: "2026-01-05T00:00:00Z".parse().unwrap(),
            turns: 1,
            last_seq: 9,
            status: SessionStatus::Idle,
            usage: Usage::default(),
            parent: None,
            project: Some(Mount { path: "/home/me/tax/2025".into(), writable: false }),
            folders: Vec::new(),
            worktree: None,
        };
        #[track_caller]
        fn check(session: &SessionSummary, filter: SessionFilter, fits: bool) {
            assert_eq!(filter.fits(session), fits, "{filter:?}");
        }
        let all = SessionFilter::default;
        check(&session, all(), true);
        check(&session, SessionFilter { project: Some("/home/me/tax".into()), ..all() }, true);
        check(&session, SessionFilter { project: Some("/home/me/tax/2025".into()), ..all() }, true);
        check(&session, SessionFilter { project: Some("/home/me/tax/20".into()), ..all() }, false);
        check(&session, SessionFilter { since: Some(session.updated_at), ..all() }, true);
        check(&session, SessionFilter { since: "2026-01-06T00:00:00Z".parse().ok(), ..all() }, false);
        check(&session, SessionFilter { statuses: vec![SessionStatus::Running, SessionStatus::Idle], ..all() }, true);
        check(&session, SessionFilter { statuses: vec![SessionStatus::Waiting], ..all() }, false);
        check(&session, SessionFilter { words: "GRÖSSE".into(), ..all() }, false);
        check(&session, SessionFilter { words: "GRÖßE steuer TAX".into(), ..all() }, true);
        check(&session, SessionFilter { words: "steuer 2024".into(), ..all() }, false);
    }
}

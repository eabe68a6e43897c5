//! Filtered lists of sessions, lookup of a session by name, and session files that users and clients upload, list, read
//! and write.

use agentd_core::{
    Timestamp,
    error::ErrorKind,
    files::{SessionTree, UploadReceipt},
    guide::{Skill, SkillListing},
    ids::SessionId,
    model::Slot,
    ports::Workspace,
    session::{SessionFilter, SessionPage, SessionSummary},
    visible,
};

use crate::{
    attachments,
    config::Ports,
    error::{EngineError, Result},
    front::Engine,
    instructions::skill_listings,
};

/// Name that refers to the last used session.
const LAST_SESSION: &str = "last";
/// Maximum number of digits in a list position. An ID suffix is longer.
const POSITION_DIGITS: usize = 4;
/// Maximum number of candidates listed for an ambiguous name.
const MAX_CANDIDATES: usize = 4;
/// Length of a displayed ID, in characters. The end of the ID is shown, because the start encodes the creation time.
const SHORT_ID: usize = 8;
/// Length of a displayed title, in characters.
const MAX_TITLE: usize = 40;

impl Engine {
    /// Stores a file in a session's `uploads/`. A picture also gets a copy that is suitable for models. The next turn
    /// announces the file to the model.
    ///
    /// # Errors
    /// Fails if there is no such session or the file cannot be written.
    pub async fn upload(&self, session: SessionId, name: String, content: Vec<u8>) -> Result<UploadReceipt> {
        let handle = self.session(session).await?;
        // The lease keeps the session loaded until the file is stored and announced.
        let _lease = handle.lease().await?;
        let view = handle.show().await?;
        let workspaces = &self.shared.ports.workspaces;
        let settings = view.session.settings;
        let files_of = settings.files_of(session);
        workspaces.open(files_of, settings.mounts()).await?;
        let uploaded = attachments::store_upload(&self.shared.ports, files_of, name, content).await?;
        // The upload succeeds even if it cannot be announced.
        if let Err(error) = handle.uploaded(uploaded.path.clone(), uploaded.picture.clone()).await {
            tracing::warn!(session = %session, "could not record a notice of {} for the next turn: {error}", uploaded.path);
        }
        Ok(uploaded)
    }

    /// Writes a whole file to any location where tools may write, and returns its path. Requires no approval, because
    /// the user requested the write.
    ///
    /// # Errors
    /// Fails if there is no such session, or tools may not write there.
    pub async fn write_file(&self, session: SessionId, path: String, content: Vec<u8>) -> Result<String> {
        let handle = self.session(session).await?;
        let _lease = handle.lease().await?;
        let tree = self.tree(session).await?;
        let now = self.shared.ports.clock.now();
        let written = self.shared.ports.workspaces.write_file(tree, path, content, now).await?;
        if let Some(change) = written.state {
            handle.change_state_file(change).await?;
        }
        Ok(written.path)
    }

    /// Returns the workspace of a session.
    ///
    /// # Errors
    /// Fails if there is no such session, or its project is gone.
    pub async fn workspace(&self, session: SessionId) -> Result<Workspace> {
        let (_, tree) = self.session(session).await?.tree().await?;
        Ok(Workspace::clone(&tree.workspace))
    }

    /// Lists the skills of one session, or those of all sessions, each with the form in which models currently see it.
    ///
    /// # Errors
    /// Same as [`Self::workspace`].
    pub async fn skills(&self, session: Option<SessionId>) -> Result<Vec<(Skill, SkillListing)>> {
        let Ports { workspaces, models, .. } = &*self.shared.ports;
        let Some(skills_port) = workspaces.skills() else { return Ok(Vec::new()) };
        let of = |slot| self.shared.windows.of(models.get(slot).info());
        let (workspace, window) = match session {
            Some(session) => {
                let window = self.session(session).await?.context().await?.window;
                (Some(self.workspace(session).await?), window)
            }
            None => (None, of(Slot::Base).min(of(Slot::Chat))),
        };
        let skills = skills_port.usable(workspace.as_ref()).await;
        let (listed, others): (Vec<&Skill>, Vec<&Skill>) =
            skills.iter().partition(|skill| skill.enabled && self.shared.config().guides.skills);
        let forms = skill_listings(&listed, window);
        let others = others.into_iter().map(|skill| (skill.clone(), SkillListing::None));
        Ok(listed.into_iter().cloned().zip(forms).chain(others).collect())
    }

    /// Returns the file tree of a session, after creating its folders.
    ///
    /// # Errors
    /// Same as [`Self::workspace`].
    pub async fn tree(&self, session: SessionId) -> Result<SessionTree> {
        let (files_of, tree) = self.session(session).await?.tree().await?;
        self.shared.ports.workspaces.open(files_of, tree.workspace.mounts()).await?;
        Ok(tree)
    }

    /// Returns a page of sessions that match a filter, most recently used first. `before` is [`SessionPage::next`] of
    /// the previous page. With `children`, each session is followed by its subagents, in order of creation.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub async fn filtered_page(
        &self,
        before: Option<u64>,
        limit: usize,
        children: bool,
        filter: &SessionFilter,
    ) -> Result<SessionPage> {
        let store = &self.shared.ports.store;
        let mut matching = SessionPage { sessions: Vec::new(), next: before };
        // Reads only as many sessions as still fit, so that the next page starts where this one ends.
        while matching.sessions.len() < limit {
            let page = store.session_page(matching.next, limit - matching.sessions.len()).await?;
            // The remaining sessions were used even earlier.
            let is_over = filter.since.is_some_and(|since| page.sessions.iter().any(|found| found.updated_at < since));
            matching.sessions.extend(page.sessions.into_iter().filter(|session| filter.fits(session)));
            matching.next = page.next.filter(|_| !is_over);
            if matching.next.is_none() {
                break;
            }
        }
        if children {
            for session in std::mem::take(&mut matching.sessions) {
                let id = session.id;
                matching.sessions.push(session);
                matching.sessions.extend(store.children(id).await?);
            }
        }
        Ok(matching)
    }

    /// Finds a session by its ID, a unique prefix or suffix of the ID, its title, its position in the list of recently
    /// used sessions (from 1), or `last`.
    ///
    /// # Errors
    /// Fails if no session or more than one matches.
    pub async fn find_session(&self, name: &str) -> Result<SessionId> {
        let store = &self.shared.ports.store;
        let shown: String = name.chars().take(80).collect();
        if let Some(position) = list_position(name) {
            let found = store.sessions(position).await?.into_iter().nth(position - 1);
            return found.map(|session| session.id).ok_or_else(|| no_such_session(&shown));
        }
        let found = store.find_sessions(name.to_owned(), MAX_CANDIDATES + 1).await?;
        match found.as_slice() {
            [id] => Ok(*id),
            [] => Err(no_such_session(&shown)),
            several => {
                let mut candidates = Vec::new();
                for id in several.iter().take(MAX_CANDIDATES) {
                    let stored = store.session(*id).await?;
                    candidates
                        .extend(stored.map(|stored| session_label(&stored.summary, self.shared.ports.clock.now())));
                }
                let more = if several.len() > MAX_CANDIDATES { "; …" } else { "" };
                let candidates = candidates.join("; ");
                Err(EngineError::new(ErrorKind::InvalidInput, format!("{shown:?} matches several sessions"))
                    .with_hint(format!("use the end of the id: {candidates}{more}")))
            }
        }
    }
}

fn no_such_session(shown: &str) -> EngineError {
    EngineError::not_found(format!("no such session: {shown:?}"), "list all with `agentctl sessions list`")
}

/// Parses a list position, starting at 1. Session IDs start with a zero, and ID suffixes are longer.
fn list_position(name: &str) -> Option<usize> {
    let name = name.trim();
    if name.eq_ignore_ascii_case(LAST_SESSION) {
        return Some(1);
    }
    let is_position =
        name.len() <= POSITION_DIGITS && !name.starts_with('0') && name.bytes().all(|b| b.is_ascii_digit());
    name.parse().ok().filter(|_| is_position)
}

/// Describes a session by title, age and short ID.
fn session_label(SessionSummary { id, title, updated_at, .. }: &SessionSummary, now: Timestamp) -> String {
    let title: String = visible::line(title).chars().take(MAX_TITLE).collect();
    let title = if title.is_empty() { "(untitled)".to_owned() } else { title };
    let id = id.to_string();
    let end = id.get(id.len().saturating_sub(SHORT_ID)..).unwrap_or(&id);
    let age = match now.duration_since(*updated_at).as_secs() {
        ..60 => "just now".to_owned(),
        seconds @ ..3_600 => format!("{} min ago", seconds / 60),
        seconds @ ..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    };
    format!("{title} · {age} · {end}")
}

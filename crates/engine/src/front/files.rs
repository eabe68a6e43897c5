//! Lists of sessions, filtered; the session that a person means: by its id, the start or the end of it, its title, or its place
//! in the list; and files of sessions: what people and programs upload, list, read and write.

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

use crate::{attachments, config::Ports, error::EngineError, front::Engine, instructions::skill_listings};

impl Engine {
    /// Puts a file into a session's `uploads/`, and a copy that models are shown beside it where it is a picture. The next
    /// turn tells its model of it.
    ///
    /// # Errors
    /// When there is no such session or the file cannot be written.
    pub async fn upload(
        &self,
        session: SessionId,
        name: String,
        content: Vec<u8>,
    ) -> Result<UploadReceipt, EngineError> {
        let handle = self.session(session).await?;
        // Until it is there and told of, the session stays.
        let _lease = handle.lease().await?;
        let view = handle.show().await?;
        let workspaces = &self.shared.ports.workspaces;
        let settings = view.session.settings;
        let files_of = settings.files_of(session);
        workspaces.open(files_of, settings.mounts()).await?;
        let uploaded = attachments::take(&self.shared.ports, files_of, name, content).await?;
        // It is there, whether the session can be told or not.
        if let Err(error) = handle.uploaded(uploaded.path.clone(), uploaded.picture.clone()).await {
            tracing::warn!(session = %session, "the next turn will not see a notice of {}: {error}", uploaded.path);
        }
        Ok(uploaded)
    }

    /// Writes a whole file wherever tools may write, and returns its path. It is a person's own act, so nobody is asked.
    ///
    /// # Errors
    /// When there is no such session, or tools may not write there.
    pub async fn write_file(&self, session: SessionId, path: String, content: Vec<u8>) -> Result<String, EngineError> {
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

    /// Workspace of a session.
    ///
    /// # Errors
    /// When there is no such session, or its project is gone.
    pub async fn workspace(&self, session: SessionId) -> Result<Workspace, EngineError> {
        let (_, tree) = self.session(session).await?.tree().await?;
        Ok(Workspace::clone(&tree.workspace))
    }

    /// Skills that a session can use, or those of all sessions, with the form in which models are shown each now.
    ///
    /// # Errors
    /// As of [`Self::workspace`].
    pub async fn skills(&self, session: Option<SessionId>) -> Result<Vec<(Skill, SkillListing)>, EngineError> {
        let Ports { workspaces, models, .. } = &*self.shared.ports;
        let Some(shelf) = workspaces.skills() else { return Ok(Vec::new()) };
        let of = |slot| self.shared.windows.of(models.get(slot).info());
        let (workspace, window) = match session {
            Some(session) => {
                let window = self.session(session).await?.context().await?.window;
                (Some(self.workspace(session).await?), window)
            }
            None => (None, of(Slot::Base).min(of(Slot::Chat))),
        };
        let skills = shelf.usable(workspace.as_ref()).await;
        let (listed, others): (Vec<&Skill>, Vec<&Skill>) =
            skills.iter().partition(|skill| skill.enabled && self.shared.config().guides.skills);
        let forms = skill_listings(&listed, window);
        let others = others.into_iter().map(|skill| (skill.clone(), SkillListing::None));
        Ok(listed.into_iter().cloned().zip(forms).chain(others).collect())
    }

    /// The files of a session, with its folders made.
    ///
    /// # Errors
    /// As of [`Self::workspace`].
    pub async fn tree(&self, session: SessionId) -> Result<SessionTree, EngineError> {
        let (files_of, tree) = self.session(session).await?.tree().await?;
        self.shared.ports.workspaces.open(files_of, tree.workspace.mounts()).await?;
        Ok(tree)
    }
}

impl Engine {
    /// A page of the sessions that fit a filter, last used first, behind what [`SessionPage::next`] of another says; if `children`
    /// is set, each is followed by those that work for it, in the order in which they were made.
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
        let store = &self.shared.ports.store;
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

/// The session that was used last.
const LAST: &str = "last";
/// Digits of a place in the list at the most. An end of an id is longer.
const PLACE_DIGITS: usize = 4;
/// The sessions that are named where several could be meant.
const NAMED: usize = 4;
/// Characters of an id that people are shown: its end, for the start is the time at which it was made.
const SHORT: usize = 8;
/// Characters of a title there.
const TITLE: usize = 40;

impl Engine {
    /// The session that a name means: its id, the unique start or end of it, its title, its place in the list of those used
    /// last (from 1), or `last`.
    ///
    /// # Errors
    /// When none or several are meant.
    pub async fn find_session(&self, name: &str) -> Result<SessionId, EngineError> {
        let store = &self.shared.ports.store;
        let shown: String = name.chars().take(80).collect();
        if let Some(place) = place(name) {
            let found = store.sessions(place).await?.into_iter().nth(place - 1);
            return found.map(|session| session.id).ok_or_else(|| none(&shown));
        }
        let found = store.find_sessions(name.to_owned(), NAMED + 1).await?;
        match found.as_slice() {
            [id] => Ok(*id),
            [] => Err(none(&shown)),
            several => {
                let mut candidates = Vec::new();
                for id in several.iter().take(NAMED) {
                    let stored = store.session(*id).await?;
                    candidates.extend(stored.map(|stored| told(&stored.summary, self.shared.ports.clock.now())));
                }
                let more = if several.len() > NAMED { "; …" } else { "" };
                let candidates = candidates.join("; ");
                Err(EngineError::new(ErrorKind::InvalidInput, format!("{shown:?} could mean several sessions"))
                    .with_hint(format!("name one by the end of its id: {candidates}{more}")))
            }
        }
    }
}

fn none(shown: &str) -> EngineError {
    EngineError::not_found(format!("there is no session {shown:?}"), "agentctl sessions list shows all")
}

/// The place in the list that a name is, from 1. Ids start with a zero, and their ends are longer.
fn place(name: &str) -> Option<usize> {
    let name = name.trim();
    if name.eq_ignore_ascii_case(LAST) {
        return Some(1);
    }
    let is_place = name.len() <= PLACE_DIGITS && !name.starts_with('0') && name.bytes().all(|b| b.is_ascii_digit());
    name.parse().ok().filter(|_| is_place)
}

/// Title, age and short id of a session.
fn told(SessionSummary { id, title, updated_at, .. }: &SessionSummary, now: Timestamp) -> String {
    let title: String = visible::line(title).chars().take(TITLE).collect();
    let title = if title.is_empty() { "(untitled)".to_owned() } else { title };
    let id = id.to_string();
    let end = id.get(id.len().saturating_sub(SHORT)..).unwrap_or(&id);
    let age = match now.duration_since(*updated_at).as_secs() {
        ..60 => "just now".to_owned(),
        seconds @ ..3_600 => format!("{} min ago", seconds / 60),
        seconds @ ..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    };
    format!("{title} · {age} · {end}")
}

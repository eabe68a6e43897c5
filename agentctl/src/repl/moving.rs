//! Commands that go to another session: by name, from a list, or a new one.

use agentd_core::{Timestamp, error::ErrorKind, folder::AddedFolder, session::SessionSummary};
use agentd_proto::client::NewSession;

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    exit::Exit,
    failure::Failure,
    model_name::ModelChoice,
    report::{ago, short_id, title, waits},
    session::SessionTarget,
    terminal::paint::clip,
};

/// Number of sessions that are searched for the last one of a folder.
const LOOKED_AT: usize = 50;
/// Maximum number of columns of a session's title.
const TITLE: usize = 40;
/// Maximum number of sessions to choose from.
const OFFERED: usize = 500;

impl Chat {
    /// Goes to a session, and resumes its open turn and questions.
    pub(super) async fn load(&mut self, name: String) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.place, SessionTarget::Named(name));
        match self.resolve().await {
            Ok(Some(view)) => {
                self.greet(Some(&view));
                self.learn_status().await;
                self.tell_of_project().await;
                if self.present { self.take_up(&view).await } else { Ok(()) }
            }
            Ok(None) => Ok(()),
            Err(failure) => {
                self.place = before;
                let is_unknown = failure.kind == ErrorKind::NotFound;
                Err(if is_unknown { failure.hint("/sessions lists them, /resume chooses one") } else { failure }.into())
            }
        }
    }

    /// Asks the user to choose a session. Sessions of this folder come first.
    pub(super) async fn resume(&mut self) -> anyhow::Result<Exit> {
        if !self.present {
            return Err(Failure::usage("/resume needs a terminal to choose at")
                .hint("/load ID goes to a session; /sessions lists them")
                .into());
        }
        let mut sessions = self.daemon.client.sessions(OFFERED).await?;
        let here = self.place.project().map(|mount| mount.path.clone()).or(self.known.status().folder.map(|m| m.path));
        let is_here = |session: &SessionSummary| session.project.as_ref().map(|mount| &mount.path) == here.as_ref();
        // Stable: within both parts, the last used session stays first.
        sessions.sort_by_key(|session| !is_here(session));
        if sessions.is_empty() {
            self.note("no sessions yet; this is the first");
            return Ok(Exit::Done);
        }
        let picked = self.choose_session(&sessions).await?;
        if let Some(session) = picked.and_then(|index| sessions.get(index)) {
            self.load(session.id.to_string()).await?;
        }
        Ok(Exit::Done)
    }

    /// Shows which session was last used in the folder of a new one, and whether it waits for an answer.
    pub(super) async fn tell_last_here(&mut self) {
        let Some(here) = self.place.project().map(|mount| mount.path.clone()) else { return };
        // The greeting works without this line.
        let sessions = self.daemon.client.sessions(LOOKED_AT).await.unwrap_or_default();
        let is_here = |session: &&SessionSummary| session.project.as_ref().is_some_and(|mount| mount.path == here);
        if let Some(last) = sessions.iter().find(is_here) {
            let (name, used) = (clip(&title(last), TITLE), ago(last.updated_at, Timestamp::now()));
            let waits = waits(last).map(|waits| format!(" · {waits}")).unwrap_or_default();
            self.note(&format!("last here: {name} · {used}{waits} · /resume, or agentctl chat --continue"));
        }
    }

    /// Starts a new session with the same folders, mode, model and tracing. The previous session is not changed.
    pub(super) async fn begin_anew(&mut self) -> anyhow::Result<Exit> {
        let status = self.known.status();
        let before = self.place.id();
        // If the choice is unknown, the configured model is used.
        let ModelChoice { slot, id: model } = self.model_choice().await.unwrap_or_default();
        let (project, mode) = (status.folder, Some(status.mode));
        let folders = status.added.iter().map(AddedFolder::mount).collect();
        let trace = self.place.current_trace(&self.daemon).await;
        let new = NewSession { project, folders, mode, slot, model, trace, ..NewSession::default() };
        self.place = SessionTarget::New(new);
        self.known.change_status(|status| status.questions = 0);
        self.handed.forget();
        self.greet(None);
        if let Some(id) = before {
            self.note(&format!("the session before is kept: /load {}, or /resume", short_id(id)));
        }
        Ok(Exit::Done)
    }
}

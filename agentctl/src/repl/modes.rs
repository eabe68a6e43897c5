//! `/mode` and Shift-Tab: the calls of a session that run without asking. `/project`: access to its folder. `/agent`:
//! its agent.

use agentd_core::{
    error::ErrorKind,
    session::{Mount, SessionMode},
    visible,
};
use agentd_proto::client::NewSession;

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    daemon, exit::Exit, failure::Failure, mount::FolderChanges, session::SessionTarget, terminal::sanitize::clean_line,
    turn::mode_note,
};

/// Note for a mode that lets edits run, while the folder is read-only.
const READ_ONLY: &str = "the folder is read-only: the first edit asks to make it writable, `/project rw` does it now";

impl Chat {
    /// Sets the mode, or lists the modes.
    pub(super) async fn change_mode(&mut self, wanted: Option<SessionMode>) -> anyhow::Result<Exit> {
        match wanted {
            Some(mode) => {
                self.set_mode(mode).await?;
                self.note(&mode_note(mode));
                let runs_edits = matches!(mode, SessionMode::AcceptEdits | SessionMode::Auto);
                if runs_edits && self.project().await?.is_some_and(|mount| !mount.writable) {
                    self.note(READ_ONLY);
                }
            }
            None => self.list_modes().await?,
        }
        Ok(Exit::Done)
    }

    /// Makes the folder of the session writable or read-only, and shows it.
    ///
    /// # Errors
    /// Fails if there is no folder, or the daemon is lost or refuses the change.
    pub(super) async fn change_project(&mut self, writable: Option<bool>) -> Result<(), Failure> {
        let Some(mount) = self.project().await? else {
            return Err(Failure::new(ErrorKind::NotFound, "this session has no folder")
                .hint("start one in a folder: agentctl chat -C DIR"));
        };
        let mount = Mount { writable: writable.unwrap_or(mount.writable), ..mount };
        if writable.is_some() {
            self.place = match self.place.clone() {
                SessionTarget::New(new) => SessionTarget::New(NewSession { project: Some(mount.clone()), ..new }),
                place => place.show(&self.daemon, Some(Some(mount.clone())), &FolderChanges::default()).await?,
            };
            self.known.change_status(|status| status.folder = Some(mount.clone()));
        }
        let access = match mount.writable {
            true => "writable, as the mode and the rules allow; `/project ro` ends that",
            false => "read-only; `/project rw` makes it writable",
        };
        self.note(&format!("{}: {access}", visible::line(&mount.path.display().to_string())));
        Ok(())
    }

    /// Chooses the agent of the session, which the next message sets.
    pub(super) fn choose_agent(&mut self, name: String) {
        self.note(&format!("from the next message on {} works here; /agent main goes back", clean_line(&name)));
        self.agent = Some(name);
    }

    /// Sets the mode that was chosen by a key, before an action depends on it.
    ///
    /// # Errors
    /// Fails if the daemon is lost, which keeps the choice, or refuses the mode, which drops the choice.
    pub(super) async fn settle_mode(&mut self) -> Result<(), Failure> {
        let Some(mode) = self.known.status().chosen else { return Ok(()) };
        let set = self.set_mode(mode).await;
        if set.as_ref().is_err_and(|failure| failure.exit != Exit::Unreachable) {
            self.known.change_status(|status| status.chosen = None);
        }
        set.map_err(|failure| Failure { message: format!("the mode is not {mode}: {}", failure.message), ..failure })
    }

    async fn set_mode(&mut self, mode: SessionMode) -> Result<(), Failure> {
        match &mut self.place {
            SessionTarget::New(new) => new.mode = Some(mode),
            place => self.daemon.client.set_mode(&place.name(), mode, daemon::CLIENT).await?,
        }
        self.known.change_status(|status| (status.mode, status.chosen) = (mode, None));
        Ok(())
    }

    async fn list_modes(&mut self) -> Result<(), Failure> {
        let now = match self.place.id() {
            Some(id) => self.daemon.client.session(&id.to_string()).await?.session.settings.mode,
            None => self.place.first_mode(),
        };
        for mode in SessionMode::ALL {
            let mark = if mode == now { '›' } else { ' ' };
            self.note(&format!("{mark} {:<13} {}", mode.as_str(), mode.description()));
        }
        self.note("/mode NAME chooses one, Shift-Tab the next");
        Ok(())
    }
}

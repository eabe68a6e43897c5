//! `/mode` and Shift-Tab: how much of a session runs unasked. `/agent`: who works in it.

use agentd_core::session::SessionMode;

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    daemon, exit::Exit, failure::Failure, session::SessionTarget, terminal::sanitize::clean_line, turn::mode_note,
};

impl Chat {
    /// Sets the mode, or shows what there is to choose.
    pub(super) async fn change_mode(&mut self, wanted: Option<SessionMode>) -> anyhow::Result<Exit> {
        match wanted {
            Some(mode) => {
                self.set_mode(mode).await?;
                self.note(&mode_note(mode));
            }
            None => self.list_modes().await?,
        }
        Ok(Exit::Done)
    }

    /// Chooses the agent of the session, which the next message sets.
    pub(super) fn choose_agent(&mut self, name: String) {
        self.note(&format!("from the next message on {} works here; /agent main goes back", clean_line(&name)));
        self.agent = Some(name);
    }

    /// Sets the mode that was chosen by a key, before anything depends on it.
    ///
    /// # Errors
    /// When the daemon is lost, after which the choice stands, or refuses it, after which it does not.
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

//! `/mode` and Shift-Tab: how much of a session runs unasked.

use agentd_core::session::SessionMode;

use super::{chat::Chat, conversation::ChatBackend, slash::ModeChange};
use crate::{daemon, exit::Exit, session::SessionTarget, turn::mode_note};

impl Chat {
    /// Sets the mode, or shows what there is to choose.
    pub(super) async fn change_mode(&mut self, change: Option<ModeChange>) -> anyhow::Result<Exit> {
        let now = self.mode().await?;
        let mode = match change {
            None => {
                self.list_modes(now);
                return Ok(Exit::Done);
            }
            Some(ModeChange::Next) => now.following(),
            Some(ModeChange::To(mode)) => mode,
        };
        match &mut self.place {
            SessionTarget::New(new) => new.mode = Some(mode),
            SessionTarget::Named(name) => self.daemon.client.set_mode(name, mode, daemon::CLIENT).await?,
            SessionTarget::Known(id) => self.daemon.client.set_mode(&id.to_string(), mode, daemon::CLIENT).await?,
        }
        self.known.change_status(|status| status.mode = mode);
        self.note(&mode_note(mode));
        Ok(Exit::Done)
    }

    async fn mode(&mut self) -> anyhow::Result<SessionMode> {
        Ok(match self.place.id() {
            Some(id) => self.daemon.client.session(&id.to_string()).await?.session.settings.mode,
            None => self.place.first_mode(),
        })
    }

    fn list_modes(&mut self, now: SessionMode) {
        for mode in SessionMode::ALL {
            let mark = if mode == now { '›' } else { ' ' };
            self.note(&format!("{mark} {:<13} {}", mode.as_str(), mode.description()));
        }
        self.note("/mode NAME chooses one, Shift-Tab the next");
    }
}

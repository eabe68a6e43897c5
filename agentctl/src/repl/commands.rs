//! Slash commands, done over the daemon's socket.

use std::path::Path;

use super::{
    chat::Chat,
    conversation::ChatBackend as _,
    mentions::typed_path,
    slash::{self, Slash},
};
use crate::{exit::Exit, flags::Global, terminal::sanitize::clean_line};

impl Chat {
    /// Does what a command says.
    pub(super) async fn obey(&mut self, command: Slash) -> anyhow::Result<Exit> {
        match command {
            Slash::Help => self.help(),
            Slash::Reset => {
                let id = self.session()?;
                self.daemon.client.reset_session(&id.to_string()).await?;
                self.handed.forget();
                self.learn_status().await;
                self.note("history cleared: the model no longer sees any of it");
            }
            Slash::Load(name) => self.load(name).await?,
            Slash::Resume => return self.resume().await,
            Slash::New => return self.begin_anew().await,
            Slash::Model(Some(slot)) => {
                self.slot = Some(slot);
                let model = self.slots.iter().find(|info| info.slot == slot).map(|info| clean_line(&info.model.id));
                self.known.change_status(|status| status.model = model.unwrap_or_default());
                self.note(&format!("the next turns use the slot {slot}"));
            }
            Slash::Mode(change) => return self.change_mode(change).await,
            Slash::Upload(path) => self.upload(&typed_path(&path)).await?,
            Slash::Rename(title) => {
                let id = self.session()?;
                self.daemon.client.rename_session(&id.to_string(), &title).await?;
                self.note("renamed");
            }
            Slash::Interrupts => {
                let id = self.session()?;
                self.answer_pending(id).await?;
            }
            Slash::Continue => {
                self.session()?;
                return self.turn(None).await;
            }
            Slash::Undo(turn) => return self.undo(turn).await,
            Slash::Show(number) => return self.show(number).await,
            Slash::Compact(strategy) => return self.compact(strategy).await,
            Slash::UndoCompaction => return self.undo_compaction().await,
            Slash::Context => return self.agentctl_here(&["context"]).await,
            Slash::Quit => {}
            Slash::Sessions => return self.agentctl(&["sessions", "list"]).await,
            Slash::Model(None) => return self.agentctl(&["models"]).await,
            Slash::Agents => return self.agentctl(&["agents", "list"]).await,
            Slash::Tools => return self.agentctl_here(&["tools", "--session"]).await,
            Slash::Status => return self.agentctl(&["status"]).await,
            Slash::Clean => return self.agentctl(&["clean"]).await,
            Slash::Grants => return self.agentctl_here(&["grants", "list", "--session"]).await,
            Slash::Current => return self.agentctl_here(&["sessions", "show"]).await,
        }
        Ok(Exit::Done)
    }

    fn help(&mut self) {
        for entry in slash::TABLE {
            let usage = format!("/{} {}", entry.name, entry.argument);
            self.note(&format!("{usage:<16} {}", entry.does));
        }
        self.note("Alt-Enter, a backslash at the end or an open ``` begin a new line; Tab completes; Ctrl-D leaves");
        self.note("while a turn runs: Enter speaks to it, Tab waits for its end, Up takes back, Esc or Ctrl-C cancels");
    }

    /// The same as [`Self::agentctl`], with the session at the end.
    async fn agentctl_here(&mut self, words: &[&str]) -> anyhow::Result<Exit> {
        let id = self.session()?.to_string();
        self.agentctl(&[words, &[id.as_str()]].concat()).await
    }

    /// Does what a command of `agentctl` does, so that both list the same.
    async fn agentctl(&mut self, words: &[&str]) -> anyhow::Result<Exit> {
        let global = Global { socket: self.daemon.place.named().map(Path::to_owned), json: false };
        (self.command_line)(global, words.iter().map(|word| (*word).to_owned()).collect()).await
    }
}

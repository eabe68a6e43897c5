//! Slash commands, done over the daemon's socket.

use std::path::Path;

use super::{chat::Chat, conversation::ChatBackend as _, prepared, slash::Slash};
use crate::{exit::Exit, flags::Global};

impl Chat {
    /// Does what a command says.
    pub(super) async fn obey(&mut self, command: Slash) -> anyhow::Result<Exit> {
        match command {
            Slash::Help => self.help().await?,
            Slash::Keys => self.keys(),
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
            Slash::Model(name) => return self.change_model(name).await,
            Slash::Agent(name) => self.choose_agent(name),
            Slash::Mode(change) => return self.change_mode(change).await,
            Slash::Project(writable) => self.change_project(writable).await?,
            Slash::Upload(path) => self.upload(&crate::mentions::typed_path(&path)).await?,
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
            Slash::Rewind(point) => return self.rewind(point).await,
            Slash::Show(number) => return self.show(number).await,
            Slash::Todos => return self.todos().await,
            Slash::Cost => return self.cost().await,
            Slash::Diff(turn) => return self.diff(turn).await,
            Slash::Copy(nth) => return self.copy(nth).await,
            Slash::CopyCode(block) => return self.copy_code(block).await,
            Slash::Init => return self.init().await,
            Slash::Plan(task) => return self.send(prepared::planned(task)).await,
            Slash::Btw(question) => return self.ask_aside(question).await,
            Slash::Trust => return self.trust().await,
            Slash::Shell(command) => return self.shell(command).await,
            Slash::Pin(rule) => return self.pin(rule).await,
            Slash::Unpin(number) => return self.unpin(number).await,
            Slash::Compact(strategy) => return self.compact(strategy).await,
            Slash::UndoCompaction => return self.undo_compaction().await,
            // What a session would have that has not begun.
            Slash::Context | Slash::Current if self.is_new() => return self.tell_new_session().await,
            Slash::Tools if self.is_new() => return self.agentctl(&["tools"]).await,
            Slash::Grants if self.is_new() => return self.list_lasting_grants().await,
            Slash::Skills if self.is_new() => return self.agentctl(&["skills", "list"]).await,
            Slash::Skills => return self.agentctl_here(&["skills", "list", "--session"]).await,
            Slash::Context => return self.agentctl_here(&["context"]).await,
            Slash::Quit => {}
            // Without a terminal there is nobody to choose.
            Slash::Sessions if self.present => return self.resume().await,
            Slash::Sessions => return self.agentctl(&["sessions", "list"]).await,
            Slash::Agents => return self.agentctl(&["agents", "list"]).await,
            Slash::Tools => return self.agentctl_here(&["tools", "--session"]).await,
            Slash::Status => return self.agentctl(&["status"]).await,
            Slash::Clean => return self.agentctl(&["clean"]).await,
            Slash::Grants => return self.agentctl_here(&["grants", "list", "--session"]).await,
            Slash::Current => return self.agentctl_here(&["sessions", "show"]).await,
        }
        Ok(Exit::Done)
    }

    /// True before the session begins.
    fn is_new(&self) -> bool {
        self.place.id().is_none()
    }

    /// The same as [`Self::agentctl`], with the session at the end.
    async fn agentctl_here(&mut self, words: &[&str]) -> anyhow::Result<Exit> {
        let id = self.session()?.to_string();
        self.agentctl(&[words, &[id.as_str()]].concat()).await
    }

    /// Does what a command of `agentctl` does, so that both list the same.
    async fn agentctl(&mut self, words: &[&str]) -> anyhow::Result<Exit> {
        let global = Global { socket: self.daemon.location.named().map(Path::to_owned), json: false };
        (self.command_line)(global, words.iter().map(|word| (*word).to_owned()).collect()).await
    }
}

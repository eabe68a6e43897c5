//! Slash commands of the chat, run over the daemon's socket.

use super::{chat::Chat, conversation::ChatBackend as _, prepared, slash::Slash};
use crate::exit::Exit;

impl Chat {
    /// Runs a slash command.
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
            Slash::Quit => {}
            // Without a terminal, nobody can choose.
            Slash::Sessions if self.present => return self.resume().await,
            Slash::Sessions => return self.agentctl(&["sessions", "list"]).await,
            Slash::Agentctl(words) => return self.agentctl(words).await,
            Slash::OfSession(words) if self.place.id().is_none() => match words {
                ["context" | "sessions", ..] => return self.tell_new_session().await,
                ["grants", ..] => return self.list_lasting_grants().await,
                _ => return self.agentctl(words.strip_suffix(&["--session"]).unwrap_or(words)).await,
            },
            Slash::OfSession(words) => {
                let id = self.session()?.to_string();
                return self.agentctl(&[words, &[id.as_str()]].concat()).await;
            }
        }
        Ok(Exit::Done)
    }

    /// Runs a command of `agentctl`.
    async fn agentctl(&mut self, words: &[&str]) -> anyhow::Result<Exit> {
        (self.command_line)(self.daemon.location.global(), words.iter().map(|word| (*word).to_owned()).collect()).await
    }
}

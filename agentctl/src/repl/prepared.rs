//! Turns whose words were written before: those of a person's or a project's own commands, and `/init`.

use std::path::PathBuf;

use agentd_core::error::ErrorKind;

use super::{
    chat::Chat,
    conversation::ChatBackend as _,
    message::TurnInput,
    own_commands::{self, CommandOrigin, OwnCommand},
    slash,
};
use crate::{exit::Exit, failure::Failure, project, report::count};

/// Lines of a project's command that are shown at its first use.
const SHOWN: usize = 6;

/// The prompt of `/init`.
const INIT: &str = "Look at the project in /project and write /project/AGENTS.md: what somebody who works on it for the first \
time has to know and cannot see at a glance. Read the README, the build files, the configuration of tests, linters and CI, \
and a few typical sources first. Write, in plain words and at most about 80 lines: what the project is, in two sentences; the \
commands that build it, test it (all of it, and one test) and check its style, as they are found in its files; how it is laid \
out; the rules of style and the habits that its code follows; and what must not be touched. Write nothing that every project \
has in common, and nothing that you have not seen. If there is an AGENTS.md, keep what is right in it and correct and complete \
the rest; where there are rules for other assistants (CLAUDE.md, .cursorrules, .github/copilot-instructions.md), take over what \
matters. Say at the end in a few lines what you wrote.";

impl Chat {
    /// Runs a turn with the prompt of a command of somebody's own; none where nobody has it.
    pub(super) async fn run_own_command(&mut self, line: String) -> Option<anyhow::Result<Exit>> {
        let (name, arguments) = slash::own_name(&line)?;
        let project = match self.project().await {
            Ok(Some(mount)) => project::load_report(&self.daemon.client, &mount.path).await,
            Ok(None) => None,
            Err(failure) => return Some(Err(self.unsent(line, failure).await)),
        };
        let plugins = own_commands::plugins(&self.daemon.client).await;
        match own_commands::find(name, &plugins, project.as_ref()) {
            Ok(Some(command)) => {
                self.introduce(&command, project.map(|project| project.path));
                let input = input_of(&command, line.clone(), arguments);
                Some(self.send(input).await)
            }
            Ok(None) => None,
            Err(failure) => Some(Err(failure.into())),
        }
    }

    /// Says where a project's command comes from and what it says, where that was not seen yet.
    fn introduce(&mut self, command: &OwnCommand, project: Option<PathBuf>) {
        let OwnCommand { origin: CommandOrigin::Project, name, file, .. } = command else { return };
        let prompt = command.prompt("");
        if self.seen_commands.insert(name.clone(), prompt.clone()).as_ref() == Some(&prompt) {
            return;
        }
        let name = name.clone();
        let file = project.and_then(|root| file.strip_prefix(&format!("{}/", root.display())).map(str::to_owned));
        let file = file.unwrap_or_else(|| command.file.clone());
        let (lines, more) = command.first_lines(SHOWN);
        self.note(&format!("/{name} comes from this project ({file}), not from you; it says:"));
        lines.iter().for_each(|line| self.note(&format!("  {line}")));
        if more > 0 {
            self.note(&format!("  … {} more", count(more as u64, "line")));
        }
    }

    /// Has the model write the project's AGENTS.md.
    pub(super) async fn init(&mut self) -> anyhow::Result<Exit> {
        match self.project().await? {
            Some(mount) if mount.writable => {}
            Some(_) => {
                return Err(Failure::new(ErrorKind::Conflict, "/init writes AGENTS.md, and the project is read-only")
                    .hint("agentctl chat -C .:rw lets the model change it, after asking")
                    .into());
            }
            None => {
                return Err(Failure::new(ErrorKind::Conflict, "/init needs a project, and no folder is in view")
                    .hint("agentctl chat -C .:rw, in the project's folder")
                    .into());
            }
        }
        self.send(TurnInput { line: "/init".to_owned(), text: INIT.to_owned(), typed_bytes: None, plans: false }).await
    }
}

/// The turn of a task that begins with a plan.
pub(super) fn planned(task: String) -> TurnInput {
    TurnInput { line: format!("/plan {task}"), text: task, typed_bytes: None, plans: true }
}

/// The turn of a command.
fn input_of(command: &OwnCommand, line: String, arguments: &str) -> TurnInput {
    let (text, typed_bytes) = command.words(&line, arguments);
    TurnInput { line, text, typed_bytes, plans: false }
}

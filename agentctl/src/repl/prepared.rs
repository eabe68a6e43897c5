//! Turns with prepared prompts: custom commands of the user, plugins or a project, `/init` and `/plan`.

use std::path::PathBuf;

use agentd_core::{error::ErrorKind, session::Mount};
use agentd_proto::client::Client;

use super::{
    chat::Chat,
    conversation::ChatBackend as _,
    message::TurnInput,
    own_commands::{self, CommandOrigin, OwnCommand},
    slash::{self, Slash},
};
use crate::{exit::Exit, failure::Failure, project, report::count, terminal};

/// Number of lines of a project's command that are shown at its first use.
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
    /// Runs a turn with the prompt of an own command. Returns `None` if there is no such command.
    pub(super) async fn run_own_command(&mut self, line: String) -> Option<anyhow::Result<Exit>> {
        let (name, arguments) = slash::own_name(&line)?;
        let project = match self.project().await {
            Ok(mount) => project::load_report(&self.daemon.client, mount.map(|mount| mount.path)).await,
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

    /// Shows the origin and the first lines of a project's command, unless this version was shown before.
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

    /// Runs a turn in which the model writes the project's AGENTS.md.
    pub(super) async fn init(&mut self) -> anyhow::Result<Exit> {
        let input = init_input(self.project().await?.as_ref())?;
        self.send(input).await
    }
}

/// Returns the turn of `agentctl run` for a prompt that begins with a command, or `None` if the prompt is a message.
///
/// # Errors
/// Fails if the command is invalid, unknown, or one that only the chat has.
pub(crate) async fn input_for_run(
    client: &Client,
    project: Option<&Mount>,
    line: &str,
) -> Result<Option<TurnInput>, Failure> {
    if let Some((name, arguments)) = slash::own_name(line) {
        let report = project::load_report(client, project.map(|mount| &mount.path)).await;
        if let Some(command) = own_commands::find(name, &own_commands::plugins(client).await, report.as_ref())? {
            if command.origin == CommandOrigin::Project {
                terminal::note(&format!("/{name} comes from this project: {}", command.file));
            }
            return Ok(Some(input_of(&command, line.to_owned(), arguments)));
        }
    }
    let refusal = match slash::parse(line) {
        None => return Ok(None),
        Some(Ok(Slash::Init)) => return init_input(project).map(Some),
        Some(Ok(Slash::Plan(task))) => return Ok(Some(planned(task))),
        Some(Ok(_)) => {
            let name = line.split_whitespace().next().unwrap_or_default();
            format!("{name} is a command of the chat, which `agentctl run` does not have")
        }
        Some(Err(refusal)) => refusal,
    };
    Err(Failure::usage(refusal).hint("open a chat: agentctl; a blank before the slash sends the line as text"))
}

/// Returns the turn that writes AGENTS.md.
///
/// # Errors
/// Fails if no writable project is in view.
fn init_input(project: Option<&Mount>) -> Result<TurnInput, Failure> {
    let problem = match project {
        Some(mount) if mount.writable => {
            let (line, text) = ("/init".to_owned(), INIT.to_owned());
            return Ok(TurnInput { line, text, typed_bytes: None, plans: false });
        }
        Some(_) => "/init writes AGENTS.md, and the project is read-only",
        None => "/init needs a project, and no folder is in view",
    };
    let hint = "start with -C .:rw, or `/project rw` in the chat: the model may then change the folder, after asking";
    Err(Failure::new(ErrorKind::Conflict, problem).hint(hint))
}

/// Returns the turn of a task that starts with a plan.
pub(super) fn planned(task: String) -> TurnInput {
    TurnInput { line: format!("/plan {task}"), text: task, typed_bytes: None, plans: true }
}

/// Returns the turn of an own command.
fn input_of(command: &OwnCommand, line: String, arguments: &str) -> TurnInput {
    let (text, typed_bytes) = command.words(&line, arguments);
    TurnInput { line, text, typed_bytes, plans: false }
}

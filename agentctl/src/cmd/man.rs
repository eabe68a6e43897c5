//! `agentctl man` and `agentctl completions`: manual pages from the help texts, completion scripts, and dynamic
//! completion values. The daemon is only queried if it is running, and with a short timeout, so that completion never
//! hangs the shell.

use std::{
    env,
    ffi::OsStr,
    fs,
    future::Future,
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use agentd_core::{interrupt::Ask, model::Slot, visible};
use agentd_proto::client::{Client, ClientError};
use clap::Args;
use clap_complete::{
    CompletionCandidate, Shell,
    engine::{PathCompleter, ValueCompleter as _},
    env::Shells,
};
use clap_mangen::Man;

use crate::{daemon, exit::Exit, failure::Failure, flags::Global, report, terminal::sanitize};

/// The arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl man | man -l -                               read the page of agentctl
  agentctl man --dir ~/.local/share/man/man1            one page for each command; then: man agentctl-run")]
pub(crate) struct ManArgs {
    /// Write one page for each command to this folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// Prints the page of agentctl, or writes the pages of all commands.
pub(crate) fn handle(args: ManArgs, command: clap::Command) -> anyhow::Result<Exit> {
    match args.dir {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            let mut out = io::stdout().lock();
            out.write_all(&page)?;
            out.flush()?;
        }
        Some(folder) => {
            fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(command, &folder)).map_err(|error| {
                Failure::usage(format!("could not write the pages to {}: {error}", folder.display()))
                    .hint("name a folder that you can write to")
            })?;
        }
    }
    Ok(Exit::Done)
}

/// The arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  source <(agentctl completions bash)                   for this shell
  agentctl completions zsh > ~/.zfunc/_agentctl         permanently
  agentctl completions fish > ~/.config/fish/completions/agentctl.fish
  source <(agentctl completions zsh --dynamic)          completes sessions, agents, models and more")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
    /// Query agentctl at each completion, which also completes sessions and interrupts with their titles, agents and
    /// models
    #[arg(long)]
    dynamic: bool,
}

/// Prints the completion script.
pub(crate) fn completions(args: CompletionsArgs, command: clap::Command) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    out.write_all(&script(&args, command)?)?;
    out.flush()?;
    Ok(Exit::Done)
}

fn script(args: &CompletionsArgs, mut command: clap::Command) -> io::Result<Vec<u8>> {
    let mut script = Vec::new();
    if args.dynamic {
        let shells = Shells::builtins();
        let completer = shells.completer(&args.shell.to_string()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, "this shell does not support dynamic completion")
        })?;
        completer.write_registration("COMPLETE", "agentctl", "agentctl", "agentctl", &mut script)?;
    } else {
        clap_complete::generate(args.shell, &mut command, "agentctl", &mut script);
    }
    Ok(script)
}

/// Time limit for the daemon's response.
const ANSWER_LIMIT: Duration = Duration::from_millis(300);

/// Maximum number of offered sessions.
const MAX_OFFERED: usize = 50;

/// Returns completions for model slots, with their models.
pub(crate) fn slots() -> Vec<CompletionCandidate> {
    let slots = ask(async |client: Client| client.models().await).unwrap_or_default();
    let model = |slot: Slot| slots.iter().find(|info| info.slot == slot).map(|info| info.model.id.as_str());
    let about = |slot: Slot| sanitize::clean_line(model(slot).unwrap_or_default());
    Slot::ALL.into_iter().map(|slot| offer(slot.as_str().to_owned(), &about(slot))).collect()
}

/// Returns completions for models: the slots, and the models that the server of `base` lists.
pub(crate) fn models() -> Vec<CompletionCandidate> {
    let listed = ask(async |client: Client| client.listed_models(Slot::Base).await).unwrap_or_default();
    let listed = listed.into_iter().map(|model| offer(sanitize::clean_line(&model.id), ""));
    slots().into_iter().chain([offer("default".to_owned(), "the configured model")]).chain(listed).collect()
}

/// Returns completions for sessions, last used first: suffixes of their ids, with titles.
pub(crate) fn sessions() -> Vec<CompletionCandidate> {
    let sessions = ask(async |client: Client| client.sessions(MAX_OFFERED).await).unwrap_or_default();
    let ids = report::short_ids(sessions.iter().map(|session| session.id));
    let offers = sessions.iter().zip(ids).map(|(session, id)| offer(id, &visible::line(&session.title)));
    offers.enumerate().map(|(position, offer)| offer.display_order(Some(position))).collect()
}

/// Returns completions for agents other than the main one.
pub(crate) fn agents() -> Vec<CompletionCandidate> {
    let agents = ask(async |client: Client| client.agents().await).unwrap_or_default();
    agents.into_iter().map(|card| offer(card.id, &sanitize::clean_line(&card.description))).collect()
}

/// Returns completions for plugin names.
pub(crate) fn plugins() -> Vec<CompletionCandidate> {
    let plugins = ask(async |client: Client| client.known_plugins().await).unwrap_or_default();
    plugins.into_iter().map(|plugin| offer(plugin.name, &sanitize::clean_line(&plugin.description))).collect()
}

/// Returns completions for pending interrupts.
pub(crate) fn interrupts() -> Vec<CompletionCandidate> {
    let pending = ask(async |client: Client| client.interrupts(None).await).unwrap_or_default();
    let ids = report::short_ids(pending.iter().map(|interrupt| interrupt.id));
    let texts = pending.iter().map(|interrupt| match &interrupt.ask {
        Ask::Approval { tool, .. } => tool,
        Ask::Question { question, .. } => question,
    });
    ids.into_iter().zip(texts).map(|(id, text)| offer(id, &visible::line(text))).collect()
}

/// Returns completions for MCP servers.
pub(crate) fn mcp_servers() -> Vec<CompletionCandidate> {
    let servers = ask(async |client: Client| client.mcp_servers().await).unwrap_or_default();
    servers.into_iter().map(|server| CompletionCandidate::new(server.name)).collect()
}

/// Returns completions for folders. Those of another machine are unknown.
pub(crate) fn folders(begun: &OsStr) -> Vec<CompletionCandidate> {
    if names_host() { Vec::new() } else { PathCompleter::dir().complete(begun) }
}

/// Returns true if the command line that is completed is for a daemon of another machine, which answers too slowly.
fn names_host() -> bool {
    let is_option = |arg: &str| arg == "--host" || arg.starts_with("--host=");
    daemon::named_host(&Global::default()).is_some() || env::args_os().any(|arg| arg.to_str().is_some_and(is_option))
}

fn offer(value: String, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(value).help((!about.is_empty()).then(|| report::cut(about, 60).into()))
}

fn ask<T, F>(question: impl FnOnce(Client) -> F) -> Option<T>
where
    F: Future<Output = Result<T, ClientError>>,
{
    if names_host() {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let answer = async {
            // During completion, the command line is incomplete and its `--socket` is not available.
            let location = daemon::DaemonLocation::of(&Global::default()).ok()?;
            question(location.connect().await.ok()?).await.ok()
        };
        tokio::time::timeout(ANSWER_LIMIT, answer).await.ok().flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_man_page() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Some(folder.path().join("man1"));
        handle(ManArgs { dir }, crate::args::command()).unwrap();
        for page in ["agentctl.1", "agentctl-run.1", "agentctl-models-add.1"] {
            let text = fs::read_to_string(folder.path().join("man1").join(page)).unwrap();
            assert!(text.contains(".TH") && text.contains("SYNOPSIS"), "{page}: {text}");
        }
    }

    #[test]
    fn completion_scripts_contain_our_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            for (dynamic, expected) in [(false, "interrupts"), (true, "agentctl")] {
                let script = script(&CompletionsArgs { shell, dynamic }, crate::args::command()).unwrap();
                assert!(String::from_utf8(script).unwrap().contains(expected), "{shell}");
            }
        }
    }
}

//! `agentctl man` and `agentctl completions`: manual pages made of the help texts, and scripts that make a shell complete our
//! command line.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Args;
use clap_complete::{Shell, env::Shells};
use clap_mangen::Man;

use crate::{exit::Exit, failure::Failure};

/// The arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl man | man -l -                               read the page of agentctl
  agentctl man --dir ~/.local/share/man/man1            one page for each command; then: man agentctl-run")]
pub(crate) struct ManArgs {
    /// Write one page for each command into this folder
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
                Failure::usage(format!("could not write the pages into {}: {error}", folder.display()))
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
  source <(agentctl completions bash --dynamic)         completes IDs, too")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
    /// Ask agentctl at each completion, which also offers the IDs of sessions and interrupts
    #[arg(long)]
    dynamic: bool,
}

/// Prints the script.
pub(crate) fn completions(args: CompletionsArgs, command: clap::Command) -> anyhow::Result<Exit> {
    let script = if args.dynamic { dynamic(args.shell)? } else { fixed(args.shell, command) };
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    out.flush()?;
    Ok(Exit::Done)
}

fn fixed(shell: Shell, mut command: clap::Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "agentctl", &mut script);
    script
}

fn dynamic(shell: Shell) -> io::Result<Vec<u8>> {
    let shells = Shells::builtins();
    let completer = shells
        .completer(&shell.to_string())
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "this shell cannot complete by asking"))?;
    let mut script = Vec::new();
    completer.write_registration("COMPLETE", "agentctl", "agentctl", "agentctl", &mut script)?;
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Some(folder.path().join("man1"));
        handle(ManArgs { dir }, crate::args::command()).unwrap();
        for page in ["agentctl.1", "agentctl-run.1", "agentctl-models-add.1"] {
            let text = fs::read_to_string(folder.path().join("man1").join(page)).unwrap();
            assert!(text.contains(".TH") && text.contains("SYNOPSIS"), "{page}: {text}");
        }
    }
}

#[cfg(test)]
mod completions_tests {
    use super::*;

    #[test]
    fn scripts_name_our_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script =
                String::from_utf8(fixed(shell, <crate::args::Cli as clap::CommandFactory>::command())).unwrap();
            assert!(script.contains("interrupts"), "{shell}");
            assert!(String::from_utf8(dynamic(shell).unwrap()).unwrap().contains("agentctl"), "{shell}");
        }
    }
}

//! `agentctl completions`: a script that makes a shell complete our command line.

use std::io::{self, Write as _};

use clap::Args;
use clap_complete::{Shell, env::Shells};

use crate::exit::Exit;

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
pub(crate) fn handle(args: CompletionsArgs, command: clap::Command) -> anyhow::Result<Exit> {
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
    fn scripts_name_our_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script =
                String::from_utf8(fixed(shell, <crate::args::Cli as clap::CommandFactory>::command())).unwrap();
            assert!(script.contains("interrupts"), "{shell}");
            assert!(String::from_utf8(dynamic(shell).unwrap()).unwrap().contains("agentctl"), "{shell}");
        }
    }
}

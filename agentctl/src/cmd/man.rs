//! `agentctl man`: the manual pages, made of the help texts.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Args;
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

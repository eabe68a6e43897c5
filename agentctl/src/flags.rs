//! Flags that all commands share.

use std::path::PathBuf;

use clap::Args;
use futures_util::future::BoxFuture;

use crate::exit::Exit;

/// Runs the words of a command line, without the program's name: what a chat does with a command of `agentctl`.
pub(crate) type CommandLine = fn(Global, Vec<String>) -> BoxFuture<'static, anyhow::Result<Exit>>;

/// Flags that all commands share.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Global {
    /// The daemon's socket [default: $AGENTD_SOCKET, or the one that the data folder's daemon has]
    #[arg(long, global = true, value_name = "PATH", display_order = 900)]
    pub(crate) socket: Option<PathBuf>,
    /// Set where the command was given `--json`, which [`crate::args::command`] puts on it.
    #[arg(skip)]
    pub(crate) json: bool,
}

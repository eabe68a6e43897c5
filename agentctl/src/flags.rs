//! Flags shared by all commands.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use futures_util::future::BoxFuture;

use crate::exit::Exit;

/// Runs a command line without the program's name, as typed into a chat.
pub(crate) type CommandLine = fn(Global, Vec<String>) -> BoxFuture<'static, anyhow::Result<Exit>>;

/// One value of a flag: its name, its description and the value.
pub(crate) type Choice<T> = (&'static str, &'static str, T);

/// Returns a parser for a flag with these values.
pub(crate) fn one_of<T: Copy + Send + Sync>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = T> {
    let names = choices.iter().map(|(name, meaning, _)| PossibleValue::new(*name).help(*meaning));
    PossibleValuesParser::new(names).try_map(|given| {
        let choice = choices.iter().find(|(name, ..)| *name == given);
        choice.map(|(.., value)| *value).ok_or("no such value")
    })
}

/// Flags that all commands share.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Global {
    /// Socket of the daemon [default: $AGENTD_SOCKET, or that of the data folder's daemon]
    #[arg(long, global = true, value_name = "PATH", display_order = 900)]
    pub(crate) socket: Option<PathBuf>,
    /// Machine of the daemon, such as ssh://me@server; -C names its folders [default: $AGENTD_HOST, or this machine]
    #[arg(long, global = true, value_name = "ADDRESS", display_order = 901)]
    pub(crate) host: Option<String>,
    /// True if `--json` was given. [`crate::args::command`] adds the flag to commands that print JSON.
    #[arg(skip)]
    pub(crate) json: bool,
}

//! `agentctl mcp serve` in a build without the feature `mcp-serve`: an error that says what the build lacks.

use clap::Args;

use crate::{exit::Exit, failure::Failure, flags::Global};

/// The arguments of `mcp serve`, accepted and not read.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Arguments of a build that has the feature
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _any: Vec<String>,
}

/// Fails with what to do.
pub(super) async fn handle(_: &Global, _: ServeArgs) -> anyhow::Result<Exit> {
    let message = "this build of agentctl has no MCP server";
    Err(Failure::usage(message).hint("build it with the feature `mcp-serve`, which is on by default").into())
}

//! `agentctl tools`: the tools that models can use.

use agentd_core::tool::Effect;
use clap::Args;

use crate::{
    args::Global,
    daemon,
    exit::Exit,
    report::{self, Table},
};

/// The arguments of `tools`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl tools
  agentctl tools --json            with descriptions and JSON schemas

Tools that write or execute ask first, unless the session allows them.")]
pub(crate) struct ToolsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists.
pub(crate) async fn handle(global: &Global, args: ToolsArgs) -> anyhow::Result<Exit> {
    let tools = daemon::connect(global).await?.client.tools().await?;
    if args.json {
        report::json(&tools)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["TOOL", "EFFECT", "WHAT IT DOES"]);
    for tool in tools {
        let effect = match tool.effect {
            Effect::Read => "read",
            Effect::State => "state",
            Effect::Write => "write",
            Effect::Execute => "execute",
            Effect::Network => "network",
        };
        // The rest of a description is for models.
        let first = tool.description.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned();
        table.row_with_long_end([tool.name, effect.to_owned(), first]);
    }
    table.print("no tools")?;
    Ok(Exit::Done)
}

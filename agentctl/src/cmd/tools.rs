//! `agentctl tools`: the tools that models can use, and when.

use agentd_core::{catalogue::ToolStanding, tool::Effect};
use clap::Args;

use crate::{
    daemon,
    exit::Exit,
    flags::Global,
    report::{self, Table},
    terminal::sanitize::clean_line,
};

/// The arguments of `tools`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl tools
  agentctl tools --session 0193a5b2     for the next turn of a session
  agentctl tools --json                 with descriptions and JSON schemas
  agentctl tools --json | jq -r '.[] | select(.visible | not) | \"\\(.name): \\(.why)\"'

Tools marked `discovered` are not shown to models at first: @NAME in a prompt loads one, @SERVER those of an MCP server, and \
models find them with find_tool. tools.yaml and mcp_servers.yaml set this. \
Tools that write or execute ask first, unless the session allows them.")]
pub(crate) struct ToolsArgs {
    /// The session: id, title, number in `sessions list`, or `last` [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// Lists.
pub(crate) async fn handle(global: &Global, args: ToolsArgs) -> anyhow::Result<Exit> {
    let tools = daemon::connect(global).await?.client.tools(args.session.as_deref().unwrap_or_default()).await?;
    report::show(global.json, &tools, || table(&tools))
}

fn table(tools: &[ToolStanding]) -> anyhow::Result<()> {
    let mut table = Table::new(["TOOL", "TIER", "CATEGORY", "EFFECT", "FROM", "WHAT IT DOES"]);
    for ToolStanding { tool, visible, why } in tools {
        // The rest of a description is for models.
        let first = tool.spec.description.split(". ").next().unwrap_or_default().trim_end_matches('.');
        let told = if *visible { first.to_owned() } else { format!("(not shown: {why}) {first}") };
        table.row_with_long_end([
            tool.spec.name.clone(),
            tool.label.tier.as_str().to_owned(),
            tool.label.category.clone(),
            effect(tool.spec.effect).to_owned(),
            tool.origin.to_string(),
            clean_line(&told),
        ]);
    }
    table.print("no tools")
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::State => "state",
        Effect::Write => "write",
        Effect::Execute => "execute",
        Effect::Network => "network",
    }
}

//! `agentctl config`: what the daemon was configured with, and from where.

use std::io::Write as _;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::{
    daemon,
    exit::Exit,
    flags::Global,
    report::{self, Table, count},
    terminal::sanitize::clean_line,
};

/// Where values come from that nobody has set.
const SHIPPED: &str = "built-in";

/// The arguments of `config`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl config show                 which values you have set, and where
  agentctl config show --all           every value's origin
  agentctl config show --chain         what stands around a turn, in order, and why there
  agentctl config show --json | jq '.origins | to_entries[] | select(.value != \"built-in\")'

Values themselves are in the files: some are secrets. `agentd --check-config` looks for mistakes.")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show where the daemon's values come from, or the chain around its turns
    Show {
        /// Show the chain: what looks at each request and call, in order
        #[arg(long, conflicts_with = "all")]
        chain: bool,
        /// Show also what is as it was shipped
        #[arg(long)]
        all: bool,
        /// Print JSON: all of it
        #[arg(long)]
        json: bool,
    },
}

/// Shows.
pub(crate) async fn handle(global: &Global, args: ConfigArgs) -> anyhow::Result<Exit> {
    let ConfigCommand::Show { chain, all, json } = args.command;
    let view = daemon::connect(global).await?.client.config().await?;
    if json {
        let links: Vec<Value> =
            view.chain.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
        let origins: Map<String, Value> =
            view.origins.into_iter().map(|(key, origin)| (key, Value::String(origin))).collect();
        report::json(&json!({ "sources": view.sources, "origins": origins, "chain": links }))?;
        return Ok(Exit::Done);
    }
    if chain {
        let mut table = Table::new(["#", "LINK", "WHAT IT DOES, AND WHY THERE"]);
        for (number, (name, about)) in view.chain.into_iter().enumerate() {
            table.row_with_long_end([(number + 1).to_string(), name, about]);
        }
        table.print("no links")?;
        return Ok(Exit::Done);
    }
    writeln!(anstream::stdout(), "read, weakest first: {}", clean_line(&view.sources.join(", ")))?;
    let mut table = Table::new(["VALUE", "SET BY"]);
    let mut shipped = 0u64;
    for (key, origin) in view.origins {
        if origin == SHIPPED && !all {
            shipped += 1;
        } else {
            table.row_with_long_end([key, origin]);
        }
    }
    table.print("nothing is set but what was shipped")?;
    if shipped > 0 {
        crate::terminal::note(&format!("{} as shipped; --all lists them", count(shipped, "value")));
    }
    Ok(Exit::Done)
}

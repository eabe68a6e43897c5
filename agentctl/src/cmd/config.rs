//! `agentctl config`: what the daemon was configured with, and from where.

use std::io::Write as _;

use agentd_proto::client::ConfigOrigin;
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
  agentctl config show                 the values that you have set, and where
  agentctl config show --all           all values, with what sets each
  agentctl config show --chain         the steps around each turn, in order
  agentctl config show --json | jq '.values[\"models.base.base_url\"]'

Secrets are shown as •••, and long values are cut; --json has them whole. `agentd --check-config` looks for mistakes.")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show the daemon's settings and what sets them, or the chain around its turns
    Show {
        /// Show the chain: what looks at each request and call, in order
        #[arg(long, conflicts_with = "all")]
        chain: bool,
        /// Show defaults, too
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
        let (mut origins, mut values) = (Map::new(), Map::new());
        for ConfigOrigin { key, origin, value } in view.origins {
            values.extend(value.map(|value| (key.clone(), value)));
            origins.insert(key, Value::String(origin));
        }
        report::json(&json!({ "sources": view.sources, "origins": origins, "values": values, "chain": links }))?;
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
    let mut table = Table::new(["KEY", "VALUE", "SET BY"]);
    let mut shipped = 0u64;
    for ConfigOrigin { key, origin, value } in view.origins {
        if origin == SHIPPED && !all {
            shipped += 1;
        } else {
            table.row_with_long_end([key, value.map(in_words).unwrap_or_default(), origin]);
        }
    }
    table.print("no setting differs from its default")?;
    if shipped > 0 {
        crate::terminal::note(&format!("{}; --all lists them", count(shipped, "default")));
    }
    Ok(Exit::Done)
}

/// A value as it would be written in a file, in one line.
fn in_words(value: Value) -> String {
    match value {
        Value::String(text) => clean_line(&text),
        other => clean_line(&other.to_string()),
    }
}

//! `agentctl config` and `agentctl reload`: what the daemon was configured with, and from where; it reads that again.

use std::io::Write as _;

use agentd_proto::client::ConfigOrigin;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    report::{self, Table, count},
    terminal::sanitize::{self, clean_line},
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
        let rows =
            view.chain.into_iter().enumerate().map(|(number, (name, about))| [(number + 1).to_string(), name, about]);
        Table::with_long_end(["#", "LINK", "WHAT IT DOES, AND WHY THERE"], rows).print("no links")?;
        return Ok(Exit::Done);
    }
    writeln!(anstream::stdout(), "read, weakest first: {}", clean_line(&view.sources.join(", ")))?;
    let all_settings = view.origins.len();
    let told: Vec<_> = view.origins.into_iter().filter(|setting| all || setting.origin != SHIPPED).collect();
    let shipped = all_settings - told.len();
    let rows = told.into_iter().map(|ConfigOrigin { key, origin, value }| {
        let value = value.map(|value| clean_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        [key, value.unwrap_or_default(), origin]
    });
    Table::with_long_end(["KEY", "VALUE", "SET BY"], rows).print("no setting differs from its default")?;
    if shipped > 0 {
        crate::terminal::note(&format!("{}; --all lists them", count(shipped as u64, "default")));
    }
    Ok(Exit::Done)
}

/// The arguments of `reload`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl reload                 read all configuration files again
  agentctl reload --json
  agentctl policy test ~/.config/agentd/hitl_rules.yaml && agentctl reload

A configuration with an error changes nothing: the error is shown with its line, and the daemon keeps the old one. \
Changed rules apply to the next call of every session.")]
pub(crate) struct ReloadArgs {}

/// Reloads.
pub(crate) async fn reload(global: &Global, _: ReloadArgs) -> anyhow::Result<Exit> {
    let Some(daemon) = daemon::connect_running(global).await? else {
        return Err(Failure::unreachable("no daemon is running")
            .hint("the next one reads the configuration when it starts")
            .into());
    };
    let reloaded = daemon.client.reload().await?;
    let told = json!({ "config_sources": reloaded.config_sources, "notes": reloaded.notes });
    report::show(global.json, &told, || {
        report::lines([format!("read again: {}", sanitize::clean_line(&reloaded.config_sources.join(", ")))])?;
        reloaded.notes.iter().for_each(|note| crate::terminal::note(&sanitize::clean_line(note)));
        Ok(())
    })
}

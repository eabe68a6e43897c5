//! `agentctl reload`: the daemon reads its configuration again.

use clap::Args;
use serde_json::json;

use crate::{daemon, exit::Exit, failure::Failure, flags::Global, report, terminal::sanitize};

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
pub(crate) async fn handle(global: &Global, _: ReloadArgs) -> anyhow::Result<Exit> {
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

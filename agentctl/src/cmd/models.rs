//! `agentctl models`: the five slots and what stands in them.

use agentd_core::model::SlotInfo;
use clap::Args;

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    flags::Global,
    report::{self, Table},
    turn::builtin,
};

/// The arguments of `models`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl models
  agentctl models --json
  MODEL_BASIC_BASE_URL=http://127.0.0.1:8080/v1 agentctl start

A slot is a role that a model has: base, reasoning, vision, code or chat. Models are set in models.yaml, or by MODEL_* \
variables when the daemon starts. An empty slot falls back to base.")]
pub(crate) struct ModelsArgs {}

/// Lists.
pub(crate) async fn handle(global: &Global, _: ModelsArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let slots = daemon.client.models().await?;
    report::show(global.json, &slots, || table(&daemon, &slots))
}

fn table(daemon: &Daemon, slots: &[SlotInfo]) -> anyhow::Result<()> {
    let mut table = Table::new(["SLOT", "MODEL", "WIRE", "CONTEXT", "TOOLS", "WHERE"]);
    for slot in slots {
        let model = &slot.model;
        let id = slot.falls_back_to.map_or_else(|| model.id.clone(), |other| format!("(as {other})"));
        table.row([
            slot.slot.to_string(),
            id,
            model.wire.clone(),
            model.context_window.to_string(),
            if model.native_tools { "native" } else { "text" }.to_owned(),
            model.base_url.clone().unwrap_or_else(|| "built in".to_owned()),
        ]);
    }
    table.print("no slots")?;
    if slots.iter().any(|slot| slot.model.embedded) {
        crate::terminal::note(&builtin::notice(daemon));
    }
    Ok(())
}

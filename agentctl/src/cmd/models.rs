//! `agentctl models`: the five slots and what stands in them.

mod add;
mod check;

use agentd_core::model::{ListedModel, MAX_LISTED_MODELS, Slot, SlotInfo};
use clap::{Args, Subcommand};

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    flags::Global,
    report::{self, Table},
    terminal::sanitize::clean_line,
    turn::builtin,
};

/// The arguments of `models`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  agentctl models
  agentctl models add anthropic        name a model in models.yaml, with its key, and test it
  agentctl models show                 what is known of the model of base, and from where
  agentctl models test                 try what the model of base can do
  agentctl models --json
  agentctl models --available          what the server of base lists
  agentctl models --available --slot code --json | jq -r '.[].id'
  MODEL_BASIC_BASE_URL=http://127.0.0.1:8080/v1 agentctl start   name a model by the environment

A slot is a role that a model has: base, reasoning, vision, code or chat. Models are set in models.yaml, or by MODEL_* \
variables when the daemon starts. An empty slot falls back to base.")]
pub(crate) struct ModelsArgs {
    /// List the models that a server has, to be chosen by `/model` in the chat or `--model`
    #[arg(long)]
    available: bool,
    /// The slot whose server is asked
    #[arg(long, value_name = "SLOT", requires = "available", default_value_t)]
    slot: Slot,
    #[command(subcommand)]
    command: Option<ModelsCommand>,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// Name a model: a provider, or a server of this machine
    Add(add::AddArgs),
    /// Show what is known of a model: window, answer, pictures, prices, each with who says so
    Show {
        /// The slot
        #[arg(value_name = "SLOT", default_value_t)]
        slot: Slot,
    },
    /// Test a model: tools, window, cache and more, with a few requests to it
    Test(check::TestArgs),
}

/// Lists.
pub(crate) async fn handle(global: &Global, args: ModelsArgs) -> anyhow::Result<Exit> {
    match args.command {
        Some(ModelsCommand::Test(args)) => return check::handle(global, &args).await,
        Some(ModelsCommand::Add(args)) => return add::handle(global, args).await,
        Some(ModelsCommand::Show { .. }) | None => {}
    }
    let daemon = daemon::connect(global).await?;
    let client = &daemon.client;
    if let Some(ModelsCommand::Show { slot }) = args.command {
        let slots = client.models_looked_up().await?;
        let shown = slots.iter().find(|info| info.slot == slot);
        let shown = shown.ok_or_else(|| anyhow::anyhow!("the daemon knows no slot {slot}"))?;
        return report::show(global.json, shown, || figures(shown));
    }
    if args.available {
        let models = client.listed_models(args.slot).await?;
        return report::show(global.json, &models, || available(&models));
    }
    let slots = client.models_looked_up().await?;
    report::show(global.json, &slots, || table(&daemon, &slots))
}

fn available(models: &[ListedModel]) -> anyhow::Result<()> {
    let mut table = Table::new(["MODEL", "CONTEXT"]);
    for model in models {
        let window = model.context_window.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string());
        table.row([clean_line(&model.id), window]);
    }
    table.print("no models")?;
    if models.len() == MAX_LISTED_MODELS {
        crate::terminal::note(&format!("the first {MAX_LISTED_MODELS}; others are taken by their ids: --model =ID"));
    }
    Ok(())
}

fn figures(slot: &SlotInfo) -> anyhow::Result<()> {
    let model = &slot.model;
    let place = model.base_url.as_deref().map_or_else(String::new, |url| format!(" at {}", clean_line(url)));
    let other = slot.falls_back_to.map_or_else(String::new, |other| format!(" (as {other})"));
    crate::terminal::note(&format!("{}{other}: {}{place}", slot.slot, clean_line(&model.id)));
    let mut table = Table::new(["FIGURE", "FROM", "VALUE"]);
    for figure in &model.figures {
        table.row_with_long_end([clean_line(&figure.name), clean_line(&figure.source), clean_line(&figure.value)]);
    }
    table.print("nothing is known of it")?;
    Ok(())
}

fn table(daemon: &Daemon, slots: &[SlotInfo]) -> anyhow::Result<()> {
    let mut table = Table::new(["SLOT", "MODEL", "WIRE", "CONTEXT", "FROM", "TOOLS", "WHERE"]);
    for slot in slots {
        let model = &slot.model;
        let id = slot.falls_back_to.map_or_else(|| clean_line(&model.id), |other| format!("(as {other})"));
        table.row([
            slot.slot.to_string(),
            id,
            model.wire.clone(),
            model.context_window.to_string(),
            if model.embedded { "built in" } else { model.window_source.as_str() }.to_owned(),
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

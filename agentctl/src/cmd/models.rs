//! `agentctl models`: lists the five slots with their models; `models test` checks what a model and its server support,
//! one line per check.

mod add;

use agentd_core::model::{CheckState, ListedModel, MAX_LISTED_MODELS, ModelCheck, ModelTestPlan, Slot, SlotInfo};
use clap::{Args, Subcommand};

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    flags::Global,
    report::{self, Table},
    terminal::{clean, clean_line, note, number},
    turn,
};

/// The arguments of `models`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  agentctl models
  agentctl models add anthropic        add a model to models.yaml, with its key, and test it
  agentctl models show                 properties of the model of base, and their sources
  agentctl models test                 test the model of base
  agentctl models --json
  agentctl models --available          what the server of base lists
  agentctl models --available --slot code --json | jq -r '.[].id'
  MODEL_BASIC_BASE_URL=http://127.0.0.1:8080/v1 agentctl start   set a model by environment variables

A slot is the role of a model: base, reasoning, vision, code or chat. Models are set in models.yaml, or by MODEL_* \
variables when the daemon starts. An empty slot falls back to base.")]
pub(crate) struct ModelsArgs {
    /// List the models of a server, for `/model` in the chat or `--model`
    #[arg(long)]
    available: bool,
    /// Slot whose server is queried
    #[arg(long, value_name = "SLOT", requires = "available", default_value_t)]
    slot: Slot,
    #[command(subcommand)]
    command: Option<ModelsCommand>,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// Add a model of a provider, or of a server on this machine
    Add(add::AddArgs),
    /// Show the properties of a model and their sources: window, answer, pictures, prices
    Show {
        /// The slot
        #[arg(value_name = "SLOT", default_value_t)]
        slot: Slot,
    },
    /// Test a model with a few requests: tools, window, cache and more
    #[command(after_help = "Examples:
  agentctl models test
  agentctl models test code
  agentctl models test --json | jq '.[] | select(.state != \"ok\")'

Sends the model a few short requests and a long one, twice. Checks whether it can be reached, calls tools, calls \
several at once and needs its reasoning sent back; how large its window is; and whether its server silently truncates \
long requests, caches prompts or rejects fields. Replaces what was learned about the model before.

The exit code is 1 if a check fails.")]
    Test {
        /// Slot whose model is tested
        #[arg(value_name = "SLOT", default_value_t)]
        slot: Slot,
    },
}

/// Runs the command `agentctl models`.
pub(crate) async fn handle(global: &Global, args: ModelsArgs) -> anyhow::Result<Exit> {
    let shown = match args.command {
        Some(ModelsCommand::Test { slot }) => return test(global, slot).await,
        Some(ModelsCommand::Add(args)) => return add::handle(global, args).await,
        Some(ModelsCommand::Show { slot }) => Some(slot),
        None => None,
    };
    let daemon = daemon::connect(global).await?;
    if args.available && shown.is_none() {
        let models = daemon.client.listed_models(args.slot).await?;
        return report::show(global.json, &models, || available(&models));
    }
    let slots = daemon.client.models_looked_up().await?;
    let Some(slot) = shown else { return report::show(global.json, &slots, || table(&daemon, &slots)) };
    let shown = slots.iter().find(|info| info.slot == slot);
    let shown = shown.ok_or_else(|| anyhow::anyhow!("unknown slot {slot}"))?;
    report::show(global.json, shown, || figures(shown))
}

fn available(models: &[ListedModel]) -> anyhow::Result<()> {
    let rows = models.iter().map(|model| {
        let window = model.context_window.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string());
        [clean_line(&model.id), window]
    });
    Table::of(["MODEL", "CONTEXT"], rows).print("no models")?;
    if models.len() == MAX_LISTED_MODELS {
        note(&format!("the first {MAX_LISTED_MODELS}; select others by id: --model =ID"));
    }
    Ok(())
}

fn figures(slot: &SlotInfo) -> anyhow::Result<()> {
    let model = &slot.model;
    let address = model.base_url.as_deref().map_or_else(String::new, |url| format!(" at {}", clean_line(url)));
    let other = slot.falls_back_to.map_or_else(String::new, |other| format!(" (as {other})"));
    note(&format!("{}{other}: {}{address}", slot.slot, clean_line(&model.id)));
    let rows =
        model.figures.iter().map(|figure| [&figure.name, &figure.source, &figure.value].map(|text| clean_line(text)));
    Table::with_long_end(["PROPERTY", "FROM", "VALUE"], rows).print("no known properties")
}

fn table(daemon: &Daemon, slots: &[SlotInfo]) -> anyhow::Result<()> {
    let rows = slots.iter().map(|slot| {
        let model = &slot.model;
        let id = slot.falls_back_to.map_or_else(|| clean_line(&model.id), |other| format!("(as {other})"));
        [
            slot.slot.to_string(),
            id,
            model.wire.clone(),
            model.context_window.to_string(),
            if model.embedded { "built in" } else { model.window_source.as_str() }.to_owned(),
            if model.native_tools { "native" } else { "text" }.to_owned(),
            model.base_url.clone().unwrap_or_else(|| "built in".to_owned()),
        ]
    });
    Table::of(["SLOT", "MODEL", "WIRE", "CONTEXT", "FROM", "TOOLS", "WHERE"], rows).print("no slots")?;
    if slots.iter().any(|slot| slot.model.embedded) {
        note(&turn::builtin_notice(daemon));
    }
    Ok(())
}

/// Tests the model of a slot and prints one line per check.
pub(super) async fn test(global: &Global, slot: Slot) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let plan = |plan: ModelTestPlan| {
        let ModelTestPlan { model, requests, tokens } = plan;
        let (model, tokens) = (clean_line(&model), number(tokens));
        note(&format!("testing {model}: at most {requests} requests, about {tokens} tokens"));
    };
    // A failed write does not end the test, because the exit code also reports the result.
    let show = |check: &ModelCheck| drop((!global.json).then(|| report::lines(check_lines(check, 15))));
    let checks = daemon.client.test_model(slot, plan, show).await?;
    if global.json {
        report::json(&checks)?;
    }
    let failed = checks.is_empty() || checks.iter().any(|check| check.state == CheckState::Fail);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Formats a check, with its name in a column of `width` characters.
pub(super) fn check_lines(check: &ModelCheck, width: usize) -> Vec<String> {
    let mark = match check.state {
        CheckState::Ok => "\x1b[32mok  \x1b[0m",
        CheckState::Warn => "\x1b[33mwarn\x1b[0m",
        CheckState::Fail => "\x1b[31mfail\x1b[0m",
        CheckState::Skipped => "-   ",
    };
    let (name, message) = (clean_line(&check.name), clean_line(&check.message));
    let hint = check.hint.iter().flat_map(|hint| hint.lines()).map(|line| format!("hint: {}", clean(line)));
    let rest = message.lines().skip(1).map(str::to_owned).chain(hint).map(|line| format!("     {:<width$} {line}", ""));
    [format!("{mark} {name:<width$} {}", message.lines().next().unwrap_or_default())].into_iter().chain(rest).collect()
}

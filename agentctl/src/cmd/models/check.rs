//! `agentctl models test`: tries what a model and its server can do, one line for each thing.

use std::io::Write as _;

use agentd_core::model::{CheckState, ModelCheck, ModelTestPlan, Slot};
use clap::Args;

use crate::{
    daemon,
    exit::Exit,
    flags::Global,
    report,
    terminal::{paint::number, sanitize},
};

/// The arguments of `models test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl models test
  agentctl models test code
  agentctl models test --json | jq '.[] | select(.state != \"ok\")'

Asks the model a few short questions and a long one, twice: whether it can be reached, calls tools, calls several at once, wants \
its thoughts back; how large its window is, whether its server cuts long requests without a word, keeps what it computed, and \
which fields it refuses. What was learnt of the model before is forgotten, and learnt anew.

The exit code is 1 if something does not work.")]
pub(crate) struct TestArgs {
    /// Slot whose model is tested
    #[arg(value_name = "SLOT", default_value_t)]
    slot: Slot,
}

/// Tests.
pub(super) async fn handle(global: &Global, args: &TestArgs) -> anyhow::Result<Exit> {
    test(global, args.slot).await
}

/// Tests the model of a slot, a line for each thing.
pub(super) async fn test(global: &Global, slot: Slot) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let plan = |plan: ModelTestPlan| {
        let ModelTestPlan { model, requests, tokens } = plan;
        let (model, tokens) = (sanitize::clean_line(&model), number(tokens));
        crate::terminal::note(&format!("testing {model}: at most {requests} requests, about {tokens} tokens"));
    };
    // A line that cannot be written ends nothing: the exit code says it, too.
    let show = |check: &ModelCheck| drop((!global.json).then(|| print(check)));
    let checks = daemon.client.test_model(slot, plan, show).await?;
    if global.json {
        report::json(&checks)?;
    }
    let failed = checks.is_empty() || checks.iter().any(|check| check.state == CheckState::Fail);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn print(check: &ModelCheck) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    let state = match check.state {
        CheckState::Ok => "\x1b[32mok  \x1b[0m",
        CheckState::Warn => "\x1b[33mwarn\x1b[0m",
        CheckState::Fail => "\x1b[31mfail\x1b[0m",
        CheckState::Skipped => "-   ",
    };
    let (name, message) = (sanitize::clean_line(&check.name), sanitize::clean_line(&check.message));
    writeln!(out, "{state} {name:<15} {message}")?;
    if let Some(hint) = &check.hint {
        writeln!(out, "     {:<15} hint: {}", "", sanitize::clean_line(hint))?;
    }
    out.flush()
}

//! `agentctl policy`: what the rules say of a call, and what a file of rules would change.
//!
//! - `call`: a call as it is written on the command line. `since`: a moment in the past.
//! - `explain`, `test`: the commands.

mod call;
mod explain;
mod since;
mod test;

use clap::{Args, Subcommand};

use crate::{exit::Exit, flags::Global};

/// The arguments of `policy`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl policy explain -- git push --force
  agentctl policy explain write_file '{\"path\": \".env\", \"content\": \"x\"}'
  agentctl policy test new_rules.yaml 'rm -rf build' 'write_file {\"path\": \"a\"}'

The rules are in hitl_rules.yaml; docs/policy.md explains them.")]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show the verdict on a call and the rule behind it, for each part of a command
    Explain(explain::ExplainArgs),
    /// Show what a new rules file would change
    Test(test::TestArgs),
}

/// Does what was asked.
pub(crate) async fn handle(global: &Global, args: PolicyArgs) -> anyhow::Result<Exit> {
    match args.command {
        PolicyCommand::Explain(args) => explain::handle(global, args).await,
        PolicyCommand::Test(args) => test::handle(global, args).await,
    }
}

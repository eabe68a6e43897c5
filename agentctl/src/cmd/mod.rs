//! The commands, one noun a file: its arguments, and `handle`, which does it.

pub(crate) mod agents;
pub(crate) mod answer;
pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod chat;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod daemon;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod files;
pub(crate) mod fork;
pub(crate) mod grants;
pub(crate) mod interrupts;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod policy;
pub(crate) mod reload;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod skills;
pub(crate) mod storage;
pub(crate) mod tools;
pub(crate) mod undo;

use crate::{
    args::{Cli, Command},
    exit::Exit,
};

/// Does what the command line says.
///
/// # Errors
/// A [`crate::failure::Failure`] with the exit code, or an [`std::io::Error`] of standard output.
pub(crate) async fn handle(cli: Cli) -> anyhow::Result<Exit> {
    let global = &cli.global;
    match cli.command {
        Command::Chat(args) => chat::handle(global, args).await,
        Command::Run(args) => run::handle(global, args).await,
        Command::Attach(args) => attach::handle(global, args).await,
        Command::Interrupts(args) => interrupts::handle(global, args).await,
        Command::Answer(args) => answer::handle(global, args).await,
        Command::Grants(args) => grants::handle(global, args).await,
        Command::Sessions(args) => sessions::handle(global, args).await,
        Command::Docs(args) => docs::handle(global, args).await,
        Command::Files(args) => files::handle(global, args).await,
        Command::Context(args) => context::handle(global, args).await,
        Command::Compact(args) => compact::handle(global, args).await,
        Command::Undo(args) => undo::handle(global, args).await,
        Command::Audit(args) => audit::handle(global, args).await,
        Command::Policy(args) => policy::handle(global, args).await,
        Command::Mcp(args) => mcp::handle(global, args).await,
        Command::Config(args) => config::handle(global, args).await,
        Command::Reload(args) => reload::handle(global, args).await,
        Command::Models(args) => models::handle(global, args).await,
        Command::Agents(args) => agents::handle(global, args).await,
        Command::Tools(args) => tools::handle(global, args).await,
        Command::Skills(args) => skills::handle(global, args).await,
        Command::Storage(args) => storage::show(global, args).await,
        Command::Clean(args) => storage::clean(global, args).await,
        Command::Status(args) => daemon::status(global, args).await,
        Command::Start(args) => daemon::start(global, args).await,
        Command::Stop(args) => daemon::stop(global, args).await,
        Command::Doctor(args) => doctor::handle(global, args).await,
        Command::Completions(args) => completions::handle(args),
    }
}

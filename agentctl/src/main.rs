//! agentctl: the client of agentd.
//!
//! - [`args`]: what all commands share, and the table of commands; [`cmd`]: the commands, one noun a file.
//! - [`daemon`]: the way to the daemon, and how it is started when none runs.
//! - [`session`], [`mount`], [`input`]: where a turn takes place, and what it is told; [`project`]: what its folder brings along;
//!   [`worktree`]: its checkout of a repository.
//! - [`keyboard`]: the keys of the person while the client works.
//! - [`turn`]: lives through one turn, for `run`, `attach` and [`repl`], the conversation at a terminal.
//! - [`acp`]: the same for editors, over the Agent Client Protocol.
//! - [`render`]: what people and programs see of a turn; [`report`]: what they see of everything else.
//! - [`failure`], [`misuse`] and [`exit`]: how commands end. [`complete`]: what shells offer at a tab.

mod acp;
mod args;
mod cmd;
mod complete;
mod daemon;
mod exit;
mod failure;
mod flags;
mod input;
mod keyboard;
mod mentions;
mod misuse;
mod model_name;
mod mount;
mod ops;
mod project;
mod render;
mod repl;
mod report;
mod schema_file;
mod session;
mod terminal;
mod turn;
mod worktree;

use std::{io::IsTerminal as _, process::ExitCode};

use futures_util::future::BoxFuture;

use crate::{
    args::{Cli, Command},
    exit::Exit,
    failure::Failure,
    flags::Global,
};

fn main() -> ExitCode {
    // First of all: a shell that asks for completions wants nothing else from us.
    clap_complete::CompleteEnv::with_factory(args::command).complete();
    let mut words: Vec<_> = std::env::args_os().collect();
    if words.len() == 1 && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        words.push("chat".into());
    }
    let cli = match Cli::read(words) {
        Ok(cli) => cli,
        Err(error) => misuse::end(&error),
    };
    match run(cli) {
        Ok(exit) => exit.into(),
        // Whoever read our output has had enough of it. That is no failure.
        Err(error) if failure::is_broken_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            let failure = Failure::from_any(&error);
            // If even this cannot be told, the exit code still tells it.
            let _ = failure.print(anstream::stderr());
            failure.exit.into()
        }
    }
}

/// One thread is enough: a client waits for the daemon and for the person, and starts faster this way.
fn run(cli: Cli) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(handle(cli));
    // A thread may still wait for the keyboard; nobody waits for it.
    runtime.shutdown_background();
    outcome
}

/// Does what the command line says.
///
/// # Errors
/// A [`Failure`] with the exit code, or an [`std::io::Error`] of standard output.
async fn handle(cli: Cli) -> anyhow::Result<Exit> {
    let global = &cli.global;
    match cli.command {
        Command::Chat(args) => cmd::chat::handle(global, args, command_line).await,
        Command::Run(args) => cmd::run::handle(global, *args).await,
        Command::Attach(args) => cmd::attach::handle(global, args).await,
        Command::Interrupts(args) => cmd::interrupts::handle(global, args).await,
        Command::Answer(args) => cmd::answer::handle(global, args).await,
        Command::Grants(args) => cmd::grants::handle(global, args).await,
        Command::Rewind(args) => cmd::rewind::handle(global, args).await,
        Command::Stats(args) => cmd::stats::handle(global, args).await,
        Command::Test(args) => cmd::test::handle(global, args).await,
        Command::Sessions(args) => cmd::sessions::handle(global, args).await,
        Command::Docs(args) => cmd::docs::handle(global, args).await,
        Command::Files(args) => cmd::files::handle(global, args).await,
        Command::Context(args) => cmd::context::handle(global, args).await,
        Command::Compact(args) => cmd::compact::handle(global, args).await,
        Command::Trace(args) => cmd::trace::handle(global, args).await,
        Command::Undo(args) => cmd::undo::handle(global, args).await,
        Command::Audit(args) => cmd::audit::handle(global, args).await,
        Command::Policy(args) => cmd::policy::handle(global, args).await,
        Command::Plugin(args) => cmd::plugin::handle(global, args).await,
        Command::Project(args) => cmd::project::handle(global, args).await,
        Command::Worktree(args) => cmd::worktree::handle(global, args).await,
        Command::Mcp(args) => cmd::mcp::handle(global, args).await,
        Command::Config(args) => cmd::config::handle(global, args).await,
        Command::Reload(args) => cmd::reload::handle(global, args).await,
        Command::Models(args) => cmd::models::handle(global, args).await,
        Command::Usage(args) => cmd::usage::handle(global, args).await,
        Command::Agents(args) => cmd::agents::handle(global, args).await,
        Command::Acp(args) => cmd::acp::handle(global, args).await,
        Command::Tools(args) => cmd::tools::handle(global, args).await,
        Command::Skills(args) => cmd::skills::handle(global, args).await,
        Command::Storage(args) => cmd::storage::show(global, args).await,
        Command::Clean(args) => cmd::storage::clean(global, args).await,
        Command::Service(args) => cmd::service::handle(global, args).await,
        Command::Status(args) => cmd::daemon::status(global, args).await,
        Command::Start(args) => cmd::daemon::start(global, args).await,
        Command::Stop(args) => cmd::daemon::stop(global, args).await,
        Command::Doctor(args) => cmd::doctor::handle(global, args).await,
        Command::Completions(args) => cmd::completions::handle(args, args::command()),
        Command::Wait(args) => cmd::wait::handle(global, args).await,
        Command::Man(args) => cmd::man::handle(args, args::command()),
    }
}

/// Runs the words of a command line that was typed into a chat.
fn command_line(global: Global, words: Vec<String>) -> BoxFuture<'static, anyhow::Result<Exit>> {
    Box::pin(async move {
        let cli = Cli::read(std::iter::once("agentctl".to_owned()).chain(words).map(Into::into))?;
        handle(Cli { global: Global { json: cli.global.json, ..global }, ..cli }).await
    })
}

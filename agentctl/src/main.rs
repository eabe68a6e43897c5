//! agentctl: the client of agentd.
//!
//! - [`args`]: what all commands share, and the table of commands; [`cmd`]: the commands, one noun a file.
//! - [`daemon`]: the way to the daemon, and how it is started when none runs.
//! - [`session`], [`mount`], [`input`]: where a turn takes place, and what it is told.
//! - [`keyboard`]: the keys of the person while the client works.
//! - [`turn`]: lives through one turn, for `run`, `attach` and [`repl`], the conversation at a terminal.
//! - [`render`]: what people and programs see of a turn; [`report`]: what they see of everything else.
//! - [`failure`], [`misuse`] and [`exit`]: how commands end. [`complete`]: what shells offer at a tab.

mod args;
mod cmd;
mod complete;
mod daemon;
mod exit;
mod failure;
mod input;
mod keyboard;
mod misuse;
mod mount;
mod render;
mod repl;
mod report;
mod session;
mod turn;

use std::{io::Write as _, process::ExitCode};

use clap::{CommandFactory as _, Parser as _};

use crate::{args::Cli, exit::Exit, failure::Failure};

fn main() -> ExitCode {
    // First of all: a shell that asks for completions wants nothing else from us.
    clap_complete::CompleteEnv::with_factory(Cli::command).complete();
    let cli = match Cli::try_parse() {
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
    let outcome = runtime.block_on(cmd::handle(cli));
    // A thread may still wait for the keyboard; nobody waits for it.
    runtime.shutdown_background();
    outcome
}

/// Tells the person something that is not the answer.
fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", render::sanitize::clean(text));
}

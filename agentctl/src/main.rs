//! agentctl: the client of agentd.
//!
//! - [`args`]: what all commands share, and the table of commands; [`cmd`]: the commands, one noun a file.
//! - [`daemon`]: the way to the daemon, and how it is started when none runs.
//! - [`session`], [`mount`], [`input`]: where a turn takes place, and what it is told; [`project`]: what its folder brings along,
//!   and its checkout of a repository.
//! - [`keyboard`]: the keys of the person while the client works.
//! - [`turn`]: lives through one turn, for `run`, `attach` and [`repl`], the conversation at a terminal.
//! - [`acp`]: the same for editors, over the Agent Client Protocol.
//! - [`render`]: what people and programs see of a turn; [`report`]: what they see of everything else.
//! - [`failure`] and [`exit`]: how commands end.

mod acp;
mod args;
mod cmd;
mod daemon;
mod exit;
mod failure;
mod flags;
mod input;
mod keyboard;
mod mentions;
mod model_name;
mod mount;
mod ops;
mod project;
mod render;
mod repl;
mod report;
mod session;
mod terminal;
mod turn;

use std::process::ExitCode;

use crate::{args::Cli, exit::Exit, failure::Failure};

fn main() -> ExitCode {
    // First of all: a shell that asks for completions wants nothing else from us.
    clap_complete::CompleteEnv::with_factory(args::command).complete();
    let mut words: Vec<_> = std::env::args_os().collect();
    if words.len() == 1 && terminal::is_attended() {
        words.push("chat".into());
    }
    let cli = match Cli::read(words) {
        Ok(cli) => cli,
        Err(error) => args::end(&error),
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
    let outcome = runtime.block_on(cli.handle());
    // A thread may still wait for the keyboard; nobody waits for it.
    runtime.shutdown_background();
    outcome
}

/// Values that tests of several modules need.
#[cfg(test)]
mod samples {
    use agentd_core::{
        Timestamp,
        ids::{InterruptId, SessionId, TraceId, TurnId},
        interrupt::{Ask, AskedBy, Interrupt},
        policy::Risk,
        turn::{StopReason, TurnResult},
        usage::Usage,
    };
    use serde_json::Value;

    /// An interrupt without a deadline.
    pub(crate) fn interrupt(ask: Ask) -> Interrupt {
        Interrupt {
            id: InterruptId::generate(),
            session_id: SessionId::generate(),
            turn_id: TurnId::generate(),
            call_id: None,
            asked_by: AskedBy::default(),
            ask,
            raised_at: Timestamp::UNIX_EPOCH,
            deadline: None,
            on_deadline: None,
        }
    }

    /// The approval of a call with high risk.
    pub(crate) fn approval(tool: &str, args: Value, preview: Option<&str>, grants: &[&str]) -> Ask {
        Ask::Approval {
            tool: tool.to_owned(),
            args,
            risk: Risk::High,
            reason: "it runs a command".to_owned(),
            preview: preview.map(str::to_owned),
            layer: None,
            rule: None,
            grants: grants.iter().map(|grant| (*grant).to_owned()).collect(),
            wider: Vec::new(),
            for_good: Vec::new(),
            owner: None,
        }
    }

    /// A question that needs an answer.
    pub(crate) fn question(question: &str, choices: &[&str]) -> Ask {
        Ask::Question {
            secret: false,
            question: question.to_owned(),
            context: None,
            default: None,
            required: true,
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
        }
    }

    /// The result of a turn of one step that said nothing.
    pub(crate) fn result(stop_reason: StopReason) -> TurnResult {
        TurnResult {
            turn_id: TurnId::generate(),
            trace_id: TraceId::generate(),
            text: String::new(),
            tool_used: false,
            stop_reason,
            error: None,
            steps: 1,
            usage: Usage::default(),
            denials: Vec::new(),
            files: Vec::new(),
            duration_ms: 0,
            only_compacted: false,
        }
    }
}

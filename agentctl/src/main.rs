//! agentctl: the client of agentd.
//!
//! - [`args`]: shared command-line handling and the table of commands; [`cmd`]: the commands, one noun per file.
//! - [`daemon`]: connects to the daemon and starts it if none runs.
//! - [`session`], [`mount`], [`input`]: session, folders and prompt of a turn; [`project`]: the project's `.agentd/`
//!   folder and the session's worktree.
//! - [`keyboard`]: reads key presses while the client works.
//! - [`turn`]: follows one turn, for `run`, `attach` and the chat in a terminal ([`repl`]).
//! - [`acp`]: follows turns for editors, over the Agent Client Protocol.
//! - [`render`]: output of a turn for people and programs; [`report`]: all other output.
//! - [`failure`] and [`exit`]: errors and exit codes of commands.

mod acp;
mod args;
mod cmd;
mod composer;
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
    // Must come first, so that a shell's request for completions runs nothing else.
    clap_complete::CompleteEnv::with_factory(args::command).complete();
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => args::end(&error),
    };
    let host = daemon::named_host(&cli.global);
    match run(cli) {
        Ok(exit) => exit.into(),
        // The reader of standard output closed the pipe, which is not a failure.
        Err(error) if failure::is_broken_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            let failure = Failure::from_any(&error).at_host(host.as_deref());
            // If printing fails too, the exit code still reports the failure.
            let _ = failure.print(anstream::stderr());
            failure.exit.into()
        }
    }
}

/// Runs the command on a single thread. The client mostly waits, and a single thread starts faster.
fn run(cli: Cli) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(cli.handle());
    // A thread may still be blocked in a read of the keyboard, so the shutdown does not wait for it.
    runtime.shutdown_background();
    outcome
}

/// Sample values for tests of several modules.
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

    /// Returns an interrupt without a deadline.
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

    /// Returns an approval request for a call with high risk.
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

    /// Returns a question that requires an answer.
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

    /// Returns the result of a turn with one step and no text.
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

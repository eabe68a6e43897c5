//! `agentctl undo`: takes back what a turn did to files.

use agentd_core::undo::{TurnChoice, UndoRequest};
use clap::Args;

use crate::{
    daemon,
    exit::Exit,
    flags::Global,
    ops::undo::{exit, print, turn},
    report, session,
};

/// The arguments of `undo`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl undo                        the last turn of the session that was used last
  agentctl undo --preview              only show what would be done, with diffs
  agentctl undo 0193a5b2 --turn 3      the third turn of that session
  agentctl undo --redo                 bring back what was undone last
  agentctl undo --json | jq '.files[] | select(.outcome == \"conflict\").path'

Files are restored byte for byte, with their permissions; what a turn created is removed. A file that something else \
changed since is a conflict: it is shown and left alone, and the exit code is 1. An undo never runs by itself.")]
pub(crate) struct UndoArgs {
    /// The session: id, title, number in `sessions list`, or `last` [default: the one that was used last]
    session: Option<String>,
    /// The session that was used last
    #[arg(long = "continue", conflicts_with = "session")]
    resume: bool,
    /// The turn, by its number in the session or its id [default: the last that changed files and is not undone]
    #[arg(long, value_name = "N", value_parser = turn)]
    turn: Option<TurnChoice>,
    /// Bring back what was undone
    #[arg(long)]
    redo: bool,
    /// Only show what would be done
    #[arg(long)]
    preview: bool,
}

/// Takes back.
pub(crate) async fn handle(global: &Global, args: UndoArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let session = session::named_or_last(&daemon, args.session.as_deref()).await?;
    let client = daemon::CLIENT.to_owned();
    let request = UndoRequest { turn: args.turn, redo: args.redo, preview: args.preview, client };
    let report = daemon.client.undo(&session.to_string(), &request).await?;
    report::show(global.json, &report, || print(&report))?;
    Ok(exit(&report))
}

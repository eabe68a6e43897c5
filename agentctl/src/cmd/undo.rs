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
  agentctl undo                        the last turn of the last session
  agentctl undo --preview              only show the changes, as diffs
  agentctl undo 0193a5b2 --turn 3      the third turn of that session
  agentctl undo --redo                 redo the last undo
  agentctl undo --json | jq '.files[] | select(.outcome == \"conflict\").path'

Files are restored byte for byte, with their permissions; files that the turn created are removed. A file that has been \
changed since is a conflict: it is reported and left alone, and the exit code is 1.")]
pub(crate) struct UndoArgs {
    /// The session: id, title, number in `sessions list`, or `last` [default: the one that was used last]
    session: Option<String>,
    /// The session that was used last
    #[arg(long = "continue", conflicts_with = "session")]
    resume: bool,
    /// Turn, by number or ID [default: the last one with changes to files that are not undone]
    #[arg(long, value_name = "N", value_parser = turn)]
    turn: Option<TurnChoice>,
    /// Redo what was undone
    #[arg(long)]
    redo: bool,
    /// Only show the changes
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

//! `agentctl context`: shows the parts of the context window. `agentctl compact`: summarizes older history, or undoes a
//! summary. `agentctl rewind`: restores the state before a turn. `agentctl undo`: undoes a turn's file changes.

use std::io::{IsTerminal as _, stdout};

use agentd_core::{
    context::{CompactionStrategy, ContextView},
    ids::SessionId,
    undo::{TurnChoice, UndoRequest},
};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::one_of,
    keyboard::Keyboard,
    ops::{
        compact::{STRATEGIES, compact, report_undone},
        rewind::{self, RewindPoint},
        undo,
    },
    render::{context::percent, window},
    report, session,
    terminal::{TerminalStyle, ask, is_attended},
    turn::{AtEnd, Signals},
};

/// The arguments of `context`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl context                       the last session
  agentctl context 0193a5b2
  agentctl context --json | jq '.segments[] | {kind, tokens, source}'

Shows the parts of the next request, how full the context window is, and what would be cut next. \
Token counts are estimates, calibrated by what the model's server reports. `agentctl compact` makes room.")]
pub(crate) struct ContextArgs {
    /// Session: id, title, number in `sessions list`, or `last` [default: last]
    session: Option<String>,
}

#[derive(Serialize)]
struct ContextJson<'a> {
    session_id: SessionId,
    percent: u64,
    #[serde(flatten)]
    view: &'a ContextView,
}

/// Runs the command `agentctl context`.
pub(crate) async fn handle(daemon: Daemon, json: bool, args: ContextArgs) -> anyhow::Result<Exit> {
    let session_id = session::named_or_last(&daemon, args.session.as_deref()).await?;
    let view = daemon.client.context(&session_id.to_string()).await?;
    let output = ContextJson { session_id, percent: percent(view.tokens, view.window), view: &view };
    report::show(json, &output, || {
        let look = TerminalStyle::detect();
        // Files and pipes have no width limit.
        let columns = if stdout().is_terminal() { look.columns() } else { usize::MAX };
        report::lines(&[format!("session   {session_id}")])?;
        report::lines(window::lines(&view, columns, look.out_color))
    })
}

/// The arguments of `compact`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl compact                              the last session
  agentctl compact 0193a5b2 --strategy summarize
  agentctl compact --undo                       restore the replaced history
  agentctl compact --json | jq .report.tokens_after

Nothing is lost: the replaced part is stored in /conversation_history/, where tools can read it, and --undo restores \
it. Your own messages are kept verbatim, up to a tenth of the window. Ctrl-C cancels without any change.")]
pub(crate) struct CompactArgs {
    /// Session: id, title, number in `sessions list`, or `last` [default: last]
    session: Option<String>,
    /// Strategy of the summary
    #[arg(
        long,
        value_name = "STRATEGY",
        default_value = "auto",
        conflicts_with = "undo",
        value_parser = one_of(&STRATEGIES)
    )]
    strategy: CompactionStrategy,
    /// Undo the last compaction
    #[arg(long)]
    undo: bool,
}

/// Runs the command `agentctl compact`.
pub(crate) async fn handle_compact(daemon: Daemon, json: bool, args: CompactArgs) -> anyhow::Result<Exit> {
    let session = session::named_or_last(&daemon, args.session.as_deref()).await?;
    if args.undo {
        let (window, undone) = daemon.client.undo_compaction(&session.to_string()).await?;
        return report_undone(session, window, &undone, json);
    }
    // Cancelling is safe, because the history is only changed at the end.
    let mut signals = Signals::listen(AtEnd::Cancel)?;
    let keyboard = Keyboard::of_terminal();
    let done = compact(&daemon, session, args.strategy, !json, &mut signals, &keyboard).await;
    keyboard.report_unsent();
    let done = done?;
    let output = json!({
        "session_id": session,
        "turn_id": done.result.turn_id,
        "compacted": done.report.is_some(),
        "report": done.report,
        "text": done.result.text,
        "stop_reason": done.result.stop_reason,
        "error": done.result.error,
        "usage": done.result.usage,
        "duration_ms": done.result.duration_ms,
    });
    report::show(json, &output, || done.print())?;
    Ok(signals.exit(done.exit()))
}

/// The arguments of `rewind`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl rewind --preview            what the last turn did to files, as diffs
  agentctl rewind                      files and conversation before the last turn
  agentctl rewind --to 3               before turn 3
  agentctl rewind --steps 2 --files    only files, before the last two turns
  agentctl rewind --to 3 --files --redo
  agentctl run 'Another way' --session \"$(agentctl rewind --to 3 --yes)\"

Restores files to their state before that turn, all turns together. A file that something else has changed since is a \
conflict: it is shown and left alone, and the exit code is 1. The conversation continues in a copy of what came \
before, whose ID is printed. The session itself keeps all of its history, as NAME (before the rewind to turn N): \
continue there to undo the rewind. Changes of turns that a session has as a copy are undone in the session that ran \
them. Before turn 1 the conversation starts over, with empty folders.")]
pub(crate) struct RewindArgs {
    /// Session: id, title, number in `sessions list`, or `last` [default: last]
    session: Option<String>,
    /// First turn to undo, counted from 1
    #[arg(long, value_name = "TURN", conflicts_with = "steps")]
    to: Option<u64>,
    /// Number of turns to undo [default: 1]
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Rewind only the files
    #[arg(long, conflicts_with = "talk")]
    files: bool,
    /// Rewind only the conversation
    #[arg(long)]
    talk: bool,
    /// Rewind files and conversation (the default)
    #[arg(long, conflicts_with_all = ["files", "talk"])]
    both: bool,
    /// Redo the file changes that an earlier rewind to this turn undid
    #[arg(long, requires = "files")]
    redo: bool,
    /// Only show the changes
    #[arg(long)]
    preview: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Runs the command `agentctl rewind`.
pub(crate) async fn handle_rewind(daemon: Daemon, json: bool, args: RewindArgs) -> anyhow::Result<Exit> {
    let id = session::named_or_last(&daemon, args.session.as_deref()).await?;
    let view = daemon.client.session(&id.to_string()).await?;
    if view.live_turn.is_some() {
        let hint = "wait for its end, answer its question, or cancel it";
        anyhow::bail!(Failure::usage("a turn of the session is open").hint(hint));
    }
    let rewind_point = args.to.map_or(RewindPoint::Steps(args.steps.unwrap_or(1)), RewindPoint::Before);
    let turn = rewind_point.turn(view.session.summary.turns)?;
    let (with_files, with_talk) = (!args.talk, !args.files);
    // The preview comes first, so that conflicts are reported before anything changes.
    let preview = if with_files { Some(rewind::files(&daemon, id, turn, args.redo, true).await?) } else { None };
    let changes = preview.as_ref().is_some_and(|report| !report.files.is_empty());
    if args.preview {
        let Some(report) = preview else {
            anyhow::bail!(Failure::usage("--preview shows only changes to files").hint("leave out --talk"));
        };
        report::show(json, &report, || undo::print(&report))?;
        return Ok(undo::exit(&report));
    }
    if !args.yes && is_attended() {
        if let Some(report) = preview.as_ref().filter(|_| changes) {
            undo::print_above_question(report)?;
        }
        if !ask::confirm(&format!("Rewind to before turn {turn}? y/N "))? {
            return Ok(Exit::Cancelled);
        }
    }
    // The conversation is copied before the files are restored, so that a failed copy leaves the files unchanged.
    let new = if with_talk { Some(rewind::talk(&daemon, &view, turn).await?) } else { None };
    let done = if changes { Some(rewind::files(&daemon, id, turn, args.redo, false).await?) } else { None };
    let output = json!({ "session_id": new.unwrap_or(id), "rewound": id, "turn": turn, "files": done });
    report::show(json, &output, || {
        if let Some(report) = &done {
            undo::print_stderr(report);
        }
        match new {
            Some(new) => report::lines([new]),
            None if done.is_none() => report::lines(["no files were changed"]),
            None => Ok(()),
        }
    })?;
    Ok(done.as_ref().map_or(Exit::Done, undo::exit))
}

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
    /// Session: id, title, number in `sessions list`, or `last` [default: last]
    session: Option<String>,
    /// Use the last session
    #[arg(long = "continue", conflicts_with = "session")]
    resume: bool,
    /// Turn, by number or ID [default: the last one with file changes not undone yet]
    #[arg(long, value_name = "N", value_parser = undo::turn)]
    turn: Option<TurnChoice>,
    /// Redo what was undone
    #[arg(long)]
    redo: bool,
    /// Only show the changes
    #[arg(long)]
    preview: bool,
}

/// Runs the command `agentctl undo`.
pub(crate) async fn handle_undo(daemon: Daemon, json: bool, args: UndoArgs) -> anyhow::Result<Exit> {
    let session = session::named_or_last(&daemon, args.session.as_deref()).await?;
    let client = daemon::CLIENT.to_owned();
    let request = UndoRequest { turn: args.turn, redo: args.redo, preview: args.preview, client };
    let report = daemon.client.undo(&session.to_string(), &request).await?;
    report::show(json, &report, || undo::print(&report))?;
    Ok(undo::exit(&report))
}

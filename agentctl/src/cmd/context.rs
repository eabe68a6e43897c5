//! `agentctl context` and `agentctl compact`: what fills the model's window; the older part of a history replaced by a summary, and
//! that taken back.

use std::io::IsTerminal as _;

use agentd_core::{
    context::{CompactionStrategy, ContextView},
    ids::SessionId,
};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::{
    daemon,
    exit::{Exit, Interactivity},
    flags::{Global, one_of},
    keyboard::Keyboard,
    ops::compact::{STRATEGIES, compact, tell_undone},
    render::{context::percent, window},
    report, session,
    terminal::{attention::Attention, look::TerminalStyle},
    turn::{self, AtEnd, NonInteractive, Signals},
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
    /// The session: id, title, number in `sessions list`, or `last` [default: the one that was used last]
    session: Option<String>,
}

#[derive(Serialize)]
struct ContextJson<'a> {
    session_id: SessionId,
    percent: u64,
    #[serde(flatten)]
    view: &'a ContextView,
}

/// Shows.
pub(crate) async fn handle(global: &Global, args: ContextArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let session_id = session::named_or_last(&daemon, args.session.as_deref()).await?;
    let view = daemon.client.context(&session_id.to_string()).await?;
    let told = ContextJson { session_id, percent: percent(view.tokens, view.window), view: &view };
    report::show(global.json, &told, || {
        let look = TerminalStyle::detect();
        // A file or a pipe has no edge.
        let columns = if std::io::stdout().is_terminal() { look.columns() } else { usize::MAX };
        report::lines(&[format!("session   {session_id}")])?;
        report::lines(window::lines(&view, columns, look.out_color))
    })
}

/// The arguments of `compact`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl compact                              the last session
  agentctl compact 0193a5b2 --strategy summarize
  agentctl compact --undo                       the model sees all of it again
  agentctl compact --json | jq .report.tokens_after

Nothing is lost: the replaced part is stored in /conversation_history/, where tools can read it, and --undo brings it back. \
Your own messages are kept word for word, up to a tenth of the window. Ctrl-C cancels without any change.")]
pub(crate) struct CompactArgs {
    /// The session: id, title, number in `sessions list`, or `last` [default: the one that was used last]
    session: Option<String>,
    /// Strategy of the summary
    #[arg(long, value_name = "HOW", default_value = "auto", conflicts_with = "undo", value_parser = one_of(&STRATEGIES))]
    strategy: CompactionStrategy,
    /// Undo the last compaction
    #[arg(long)]
    undo: bool,
}

/// Compacts, or takes that back.
pub(crate) async fn handle_compact(global: &Global, args: CompactArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let session = session::named_or_last(&daemon, args.session.as_deref()).await?;
    if args.undo {
        let (window, undone) = daemon.client.undo_compaction(&session.to_string()).await?;
        return tell_undone(session, window, &undone, global.json);
    }
    // Nothing is lost with it: the history stays as it was.
    let mut signals = Signals::listen(AtEnd::Cancel)?;
    let keyboard = Keyboard::of_terminal();
    let person = turn::Person {
        asker: &mut NonInteractive,
        signals: &mut signals,
        keyboard: &keyboard,
        may_steer: |_| false,
        attention: Attention::Off,
        is_guest: false,
    };
    let done = compact(&daemon, session, args.strategy, !global.json, person).await;
    keyboard.tell_unsent();
    let done = done?;
    let told = json!({
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
    report::show(global.json, &told, || done.print())?;
    Ok(signals.exit(Exit::of_turn(&done.result, Interactivity::Attended)))
}

//! `agentctl context`: what fills the model's window.

use std::io::IsTerminal as _;

use agentd_core::{context::ContextView, ids::SessionId};
use clap::Args;
use serde::Serialize;

use crate::{
    daemon,
    exit::Exit,
    flags::Global,
    render::{context::percent, window},
    report, session,
    terminal::look::TerminalStyle,
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

//! `agentctl trace`: a turn as a tree with times, tokens and money, in the terminal or as a page.

pub(super) mod fetch;
mod follow;
mod label;
pub(super) mod page;
mod requests;
mod tree;

use std::{io::IsTerminal as _, path::PathBuf};

use agentd_core::{error::ErrorKind, ids::SessionId};
use agentd_trace::{TurnTrace, turns};
use clap::Args;
use serde_json::json;

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    report, session,
    terminal::look::TerminalStyle,
};

/// The arguments of `trace`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl trace                               the last turn of the last session
  agentctl trace 0193a5b2 --turn 3             its third turn
  agentctl trace last --all                    every turn
  agentctl trace --follow                      the turn that runs, part by part
  agentctl trace --html trace.html             as a page that needs no network
  agentctl trace --json | jq '.turns[].usage'
  agentctl trace --requests                    requests to models that are kept
  agentctl trace --request 3                   the third as it was sent, new parts marked
  agentctl trace --turn 2 --request 1          the first of the second turn
  agentctl trace --diff 3 4                    the difference of two

Shows model calls, tools, questions and subagents, with the time, tokens and money of each. All of it comes from the journal, \
so that turns that a crash cut off have their trace, too. Times of turns of older versions are estimated.

Requests as they were sent are kept only where that is wanted: `agentctl run --trace`, or `trace: {requests: true}` in agentd.yaml.")]
pub(crate) struct TraceArgs {
    /// The session: id, title, number in `sessions list`, or `last` [default: the one that was used last]
    session: Option<String>,
    /// The turn: its number, from 1, or the start or end of its id [default: the last one]
    #[arg(long, value_name = "N|ID", conflicts_with_all = ["all", "follow"])]
    turn: Option<String>,
    /// Show all turns
    #[arg(long, conflicts_with = "follow")]
    all: bool,
    /// Print parts of the running turn as they end
    #[arg(long, conflicts_with = "html")]
    follow: bool,
    /// Write a page with texts, arguments, results and diffs [default: of all turns]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// List the requests to models that are kept
    #[arg(long, conflicts_with_all = ["all", "follow", "html"])]
    requests: bool,
    /// Show a request as it was sent, with what is new beside the one before it marked, and its answer
    #[arg(long, value_name = "N", conflicts_with_all = ["all", "follow", "html", "requests"])]
    request: Option<u64>,
    /// Show the difference of two requests
    #[arg(long, value_names = ["N", "M"], num_args = 2, conflicts_with_all = ["all", "follow", "html", "requests", "request"])]
    diff: Vec<u64>,
    /// Replace the file of --html if it is there
    #[arg(long, requires = "html")]
    force: bool,
}

/// Shows.
pub(crate) async fn handle(global: &Global, args: TraceArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let session_id = session::named_or_last(&daemon, args.session.as_deref()).await?;
    if args.follow {
        return follow::follow(&daemon, session_id, global.json).await;
    }
    if args.requests || args.request.is_some() || !args.diff.is_empty() {
        return wire(&daemon, session_id, &args, global.json).await;
    }
    let mut trees = turns(&fetch::events(&daemon.client, session_id).await?);
    let every = args.all || (args.html.is_some() && args.turn.is_none());
    if !every {
        trees = vec![chosen(trees, args.turn.as_deref())?];
    }
    fetch::with_subagents(&daemon.client, &mut trees).await?;
    if let Some(path) = &args.html {
        return write_page(&daemon, session_id, &trees, path, args.force, global.json).await;
    }
    report::show(global.json, &json!({ "session_id": session_id, "turns": trees }), || {
        let look = TerminalStyle::detect();
        // A file or a pipe has no edge, and its lines are for people still.
        let columns = if std::io::stdout().is_terminal() { look.columns() } else { tree::USUAL_COLUMNS };
        report::lines(trees.iter().flat_map(|turn| tree::lines(turn, columns, look.out_color)))
    })
}

/// Shows requests as they were on the wire.
async fn wire(daemon: &Daemon, session: SessionId, args: &TraceArgs, json: bool) -> anyhow::Result<Exit> {
    let turn = match &args.turn {
        Some(name) => Some(chosen(turns(&fetch::events(&daemon.client, session).await?), Some(name))?.turn_id),
        None => None,
    };
    let kept = requests::KeptRequests { client: &daemon.client, session, turn, json };
    match (args.request, args.diff.as_slice()) {
        (Some(number), _) => kept.show(number).await,
        (None, [one, other]) => kept.diff(*one, *other).await,
        _ => kept.list().await,
    }
}

async fn write_page(
    daemon: &Daemon,
    session_id: SessionId,
    turns: &[TurnTrace],
    path: &std::path::Path,
    may_replace: bool,
    json: bool,
) -> anyhow::Result<Exit> {
    let title = daemon.client.session(&session_id.to_string()).await?.session.summary.title;
    let page = page::render(&page::PageData { title: &title, session_id, turns })?;
    page::write(path, &page, may_replace)?;
    let told = json!({ "session_id": session_id, "file": path, "turns": turns.len(), "bytes": page.len() });
    let turns = report::count(turns.len() as u64, "turn");
    report::note(json, &told, &format!("{}: {turns}, {}", path.display(), report::bytes(page.len() as u64)))
}

/// The turn that was named, or the last one.
fn chosen(mut turns: Vec<TurnTrace>, name: Option<&str>) -> Result<TurnTrace, Failure> {
    let last = turns.len();
    let Some(name) = name.map(str::trim) else {
        return turns.pop().ok_or_else(|| {
            Failure::new(ErrorKind::NotFound, "the session has no turn yet").hint("`agentctl run` starts one")
        });
    };
    let id = name.to_ascii_lowercase();
    let is_named = |turn: &TurnTrace| {
        let own = turn.turn_id.to_string();
        name.parse() == Ok(turn.number) || (id.len() >= 6 && (own.starts_with(&id) || own.ends_with(&id)))
    };
    let mut found: Vec<usize> = (0..last).filter(|at| is_named(&turns[*at])).collect();
    // A number is one, also where an id has the same digits.
    if let Some(at) = found.iter().copied().find(|at| name.parse() == Ok(turns[*at].number)) {
        found = vec![at];
    }
    match found.as_slice() {
        [at] => Ok(turns.swap_remove(*at)),
        [] => Err(Failure::new(ErrorKind::NotFound, format!("the session has no turn {name:?}")).hint(format!(
            "it has {}; --turn N names one by its number, --all shows them",
            report::count(last as u64, "turn")
        ))),
        _ => Err(Failure::usage(format!("several turns have an id with {name:?}")).hint("give more of the id")),
    }
}

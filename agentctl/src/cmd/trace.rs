//! `agentctl trace`: shows a turn as a tree with times, tokens and cost, in the terminal or as an HTML page.
//!
//! The page needs no network: it contains its style, script and data, and its Content Security Policy blocks everything
//! else. The data is JSON with `<` escaped, so that it cannot close its tag, and the script inserts it only as text.

mod requests;
mod tree;

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    ids::SessionId,
};
use agentd_proto::client::{Client, ClientError, ClientErrorKind};
use agentd_trace::{TurnTrace, nest_all, turns};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Args;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::own_file;
use crate::{daemon::Daemon, exit::Exit, failure::Failure, report, session, terminal::TerminalStyle};

/// The arguments of `trace`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl trace                               the last turn of the last session
  agentctl trace 0193a5b2 --turn 3             its third turn
  agentctl trace last --all                    every turn
  agentctl trace --follow                      the running turn, part by part
  agentctl trace --html trace.html             as a page that works offline
  agentctl trace --json | jq '.turns[].usage'
  agentctl trace --requests                    stored requests to models
  agentctl trace --request 3                   the third as it was sent, new parts marked
  agentctl trace --turn 2 --request 1          the first of the second turn
  agentctl trace --diff 3 4                    the difference between two

Shows model calls, tools, questions and subagents, with the time, tokens and cost of each. Traces are built from the \
journal, so turns interrupted by a crash have one, too. Times of turns of older versions are estimated.

Requests are stored as they were sent only if enabled: `agentctl run --trace`, or `trace: {requests: true}` in \
agentd.yaml.")]
pub(crate) struct TraceArgs {
    /// Session: id, title, number in `sessions list`, or `last` [default: last]
    session: Option<String>,
    /// Turn: its number, from 1, or the start or end of its id [default: the last one]
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
    /// List the stored requests to models
    #[arg(long, conflicts_with_all = ["all", "follow", "html"])]
    requests: bool,
    /// Show a request as it was sent, with additions to the previous one marked, and its answer
    #[arg(long, value_name = "N", conflicts_with_all = ["all", "follow", "html", "requests"])]
    request: Option<u64>,
    /// Show the difference between two requests
    #[arg(long, value_names = ["N", "M"], num_args = 2, conflicts_with_all = ["all", "follow", "html", "requests", "request"])]
    diff: Vec<u64>,
    /// Replace the file of --html if it exists
    #[arg(long, requires = "html")]
    force: bool,
}

/// Runs the command `agentctl trace`.
pub(crate) async fn handle(daemon: Daemon, json: bool, args: TraceArgs) -> anyhow::Result<Exit> {
    let session_id = session::named_or_last(&daemon, args.session.as_deref()).await?;
    if args.follow {
        return tree::follow(&daemon, session_id, json).await;
    }
    if args.requests || args.request.is_some() || !args.diff.is_empty() {
        return show_requests(&daemon, session_id, &args, json).await;
    }
    let mut trees = turns(&events(&daemon.client, session_id).await?);
    let every = args.all || (args.html.is_some() && args.turn.is_none());
    if !every {
        trees = vec![select_turn(trees, args.turn.as_deref())?];
    }
    with_subagents(&daemon.client, &mut trees).await?;
    if let Some(path) = &args.html {
        return write_page(&daemon, session_id, &trees, path, args.force, json).await;
    }
    report::show(json, &json!({ "session_id": session_id, "turns": trees }), || {
        let look = TerminalStyle::detect();
        // Files and pipes have no width limit, but people also read the lines there.
        let columns = if std::io::stdout().is_terminal() { look.columns() } else { tree::DEFAULT_COLUMNS };
        report::lines(trees.iter().flat_map(|turn| tree::lines(turn, columns, look.out_color)))
    })
}

/// Shows requests as they were sent.
async fn show_requests(daemon: &Daemon, session: SessionId, args: &TraceArgs, json: bool) -> anyhow::Result<Exit> {
    let turn = match &args.turn {
        Some(name) => Some(select_turn(turns(&events(&daemon.client, session).await?), Some(name))?.turn_id),
        None => None,
    };
    let logged = requests::LoggedRequests { client: &daemon.client, session, turn, json };
    match (args.request, args.diff.as_slice()) {
        (Some(number), _) => logged.show(number).await,
        (None, [one, other]) => logged.diff(*one, *other).await,
        _ => logged.list().await,
    }
}

async fn write_page(
    daemon: &Daemon,
    session_id: SessionId,
    turns: &[TurnTrace],
    path: &Path,
    may_replace: bool,
    json: bool,
) -> anyhow::Result<Exit> {
    let title = daemon.client.session(&session_id.to_string()).await?.session.summary.title;
    let page = render(&title, session_id, turns)?;
    write(path, &page, may_replace)?;
    let output = json!({ "session_id": session_id, "file": path, "turns": turns.len(), "bytes": page.len() });
    let turns = report::count(turns.len(), "turn");
    report::note(json, &output, &format!("{}: {turns}, {}", path.display(), report::bytes(page.len() as u64)))
}

/// Returns the named turn, or the last one.
fn select_turn(mut turns: Vec<TurnTrace>, name: Option<&str>) -> Result<TurnTrace, Failure> {
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
    // A turn number takes precedence over an id that starts or ends with the same digits.
    if let Some(at) = found.iter().copied().find(|at| name.parse() == Ok(turns[*at].number)) {
        found = vec![at];
    }
    match found.as_slice() {
        [at] => Ok(turns.swap_remove(*at)),
        [] => Err(Failure::new(ErrorKind::NotFound, format!("the session has no turn {name:?}")).hint(format!(
            "it has {}; --turn N selects one by its number, --all shows them",
            report::count(last, "turn")
        ))),
        _ => Err(Failure::usage(format!("several turns match {name:?}")).hint("use a longer part of the id")),
    }
}

/// Loads all stored events of a session.
async fn events(client: &Client, session: SessionId) -> Result<Vec<Event>, ClientError> {
    let id = session.to_string();
    let view = client.session(&id).await?;
    let last = view.session.summary.last_seq;
    let mut stream = client.subscribe(&id, 0, view.live_turn.is_none()).await?;
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Event| event.seq < last) {
        let Some(event) = stream.next().await? else { break };
        if event.kind.is_stored() {
            events.push(without_origin(event));
        }
    }
    Ok(events)
}

/// Removes the origin of an item, which traces do not show.
pub(in crate::cmd) fn without_origin(mut event: Event) -> Event {
    if let EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } = &mut event.kind {
        item.origin = None;
    }
    event
}

/// Nests the turns of subagents. Deleted sessions are left out.
async fn with_subagents(client: &Client, trees: &mut [TurnTrace]) -> Result<(), ClientError> {
    let read = |session| async move {
        match events(client, session).await {
            Err(error) if error.kind == ClientErrorKind::Answered(ErrorKind::NotFound) => Ok(Vec::new()),
            events => events.map(|events| turns(&events)),
        }
    };
    nest_all(trees, read).await
}

const PAGE: &str = include_str!("trace/page/page.html");
const STYLE: &str = include_str!("trace/page/page.css");
const SCRIPT: &str = include_str!("trace/page/page.js");

/// Renders the complete page for turns of a session.
pub(in crate::cmd) fn render(title: &str, session_id: SessionId, turns: &[TurnTrace]) -> serde_json::Result<String> {
    let data = json!({ "title": title, "session_id": session_id, "turns": turns });
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len() + policy.len());
    let mut rest = PAGE;
    // The template is split before each insertion, so that inserted text is never parsed as a placeholder.
    for (mark, content) in
        [("{{policy}}", &*policy), ("{{style}}", STYLE), ("{{data}}", &*data), ("{{script}}", SCRIPT)]
    {
        let Some((before, after)) = rest.split_once(mark) else { continue };
        page.push_str(before);
        page.push_str(content);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// Returns a CSP source expression that allows only this text.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// Writes the page atomically. It contains the conversation, so only its owner may read it.
///
/// # Errors
/// Fails if the file cannot be written, or exists and may not be replaced.
fn write(path: &Path, page: &str, may_replace: bool) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Failure::usage(format!("{} already exists", path.display())).hint("--force replaces it");
        }
        Failure::usage(format!("could not write {}: {error}", path.display())).hint("name a file in an existing folder")
    };
    let mut draft = own_file::draft(path).map_err(failed)?;
    draft.write_all(page.as_bytes()).map_err(failed)?;
    draft.as_file().sync_all().map_err(failed)?;
    let placed = if may_replace { draft.persist(path) } else { draft.persist_noclobber(path) };
    placed.map(drop).map_err(|error| failed(error.error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn trace_text_cannot_end_the_script_or_fill_placeholders() {
        let title = "</script><script>alert(1)</script>{{script}}<!--";
        let page = render(title, SessionId::generate(), &[]).unwrap();
        assert_eq!(page.matches("</script>").count(), 2, "the end of the data, and that of the program");
        assert_eq!(page.matches("<script").count(), 2);
        let (_, data) = page.split_once(r#"type="application/json">"#).unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["title"], title);
        assert!(!page.contains("http://") && !page.contains("https://"), "nothing is loaded");
        assert!(page.contains(&format!("script-src '{}'", hash(SCRIPT))));
    }

    #[test]
    fn trace_page_is_private_and_never_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.html");
        write(&path, "a", false).unwrap();
        assert!(write(&path, "b", false).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }
}

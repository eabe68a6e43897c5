//! `agentctl sessions list`, `prune` and `search`: lists sessions, deletes many at once, and searches their history.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, IsTerminal as _, Write as _},
    ops::Range,
    path::PathBuf,
};

use agentd_core::{
    Timestamp,
    ids::SessionId,
    search::{SearchHit, SearchResult},
    session::{SessionFilter, SessionStatus, SessionSummary},
    visible,
};
use agentd_proto::client::{Client, PruneReport};
use clap::Args;
use serde_json::json;

use super::audit::since;
use crate::{
    daemon::Daemon,
    exit::Exit,
    failure::Failure,
    flags::{Choice, one_of},
    mount::folder_name,
    project,
    report::{self, Table},
    terminal::{QUIET, STRONG, TerminalStyle, ask, clean, note, note_lines, paint},
};

/// Number of sessions among which short ids must be unique.
const ID_SCOPE: usize = 1000;
/// Maximum number of sessions per request.
const PAGE_SIZE: usize = 500;

/// Filter of sessions, as arguments.
#[derive(Debug, Args)]
pub(crate) struct ListFilter {
    /// Only sessions whose project is this folder, or inside it
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    project: Option<PathBuf>,
    /// Only sessions with this status
    #[arg(long, value_name = "STATUS", value_parser = one_of(&STATUSES))]
    status: Vec<StatusGroup>,
    /// Only sessions with all of these words in the title or the project's path
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

/// Statuses that one value of `--status` selects.
type StatusGroup = &'static [SessionStatus];

const STATUSES: [Choice<StatusGroup>; 5] = [
    ("open", "a turn runs or waits", &[SessionStatus::Running, SessionStatus::Waiting]),
    ("running", "a turn runs", &[SessionStatus::Running]),
    ("waiting", "a turn waits for an answer", &[SessionStatus::Waiting]),
    ("idle", "no turn runs", &[SessionStatus::Idle]),
    ("interrupted", "the last turn was interrupted, and can be resumed", &[SessionStatus::Interrupted]),
];

impl ListFilter {
    fn filter(&self, client: &Client, since: Option<Timestamp>) -> Result<SessionFilter, Failure> {
        // Otherwise, an empty variable in a script would select all sessions.
        if self.words.iter().any(|word| word.trim().is_empty()) {
            return Err(Failure::usage("empty search word").hint("leave it out to select all sessions"));
        }
        let project = self.project.as_deref().map(|folder| project::absolute(client, folder)).transpose()?;
        Ok(SessionFilter {
            project: project.map(PathBuf::from),
            since,
            statuses: self.status.iter().copied().flatten().copied().collect(),
            words: self.words.join(" "),
        })
    }
}

/// The arguments of `sessions list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions list
  agentctl sessions list tax papers         with both words in the title
  agentctl sessions list --project .        sessions of this folder
  agentctl sessions list --since 7d --status open
  agentctl sessions list --all              with subagents
  agentctl sessions list --json | jq -r '.[].id'

The numbers can be used as sessions only if the list is not filtered.")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    list_filter: ListFilter,
    /// Only sessions used since this time: `36h`, `7d`, `2w`, or a date such as 2026-01-31
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// Number of sessions to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// List subagents, too, each below its session
    #[arg(long)]
    all: bool,
}

/// Runs the command `agentctl sessions list`.
pub(crate) async fn list(daemon: &Daemon, args: ListArgs, json: bool) -> anyhow::Result<Exit> {
    let filter = args.list_filter.filter(&daemon.client, args.since)?;
    let limit = if json || !filter.is_empty() { args.limit } else { args.limit.max(ID_SCOPE) };
    let sessions = pages(daemon, &filter, limit, args.all).await?;
    report::show(json, &sessions, || table(&sessions, args.limit, filter.is_empty()))
}

async fn pages(
    daemon: &Daemon,
    filter: &SessionFilter,
    limit: usize,
    children: bool,
) -> anyhow::Result<Vec<SessionSummary>> {
    let (mut all, mut tops, mut after) = (Vec::new(), 0, String::new());
    while tops < limit {
        let page = (limit - tops).min(PAGE_SIZE);
        let (sessions, next) = daemon.client.filtered_sessions(&after, page, children, filter).await?;
        tops += sessions.iter().filter(|session| session.parent.is_none()).count();
        all.extend(sessions);
        let Some(next) = next else { break };
        after = next;
    }
    Ok(all)
}

fn table(sessions: &[SessionSummary], limit: usize, is_whole: bool) -> anyhow::Result<()> {
    let ids = report::short_ids(sessions.iter().map(|session| session.id));
    let now = Timestamp::now();
    let rows = sessions.iter().zip(ids).scan(0, |tops, (session, id)| {
        *tops += usize::from(session.parent.is_none());
        let number = if session.parent.is_none() && is_whole { tops.to_string() } else { String::new() };
        let indent = if session.parent.is_some() { "└ " } else { "" };
        let worktree = session.worktree.as_ref().map(|worktree| format!(" [worktree {}]", worktree.name));
        let title = format!("{indent}{}{}", session.title, worktree.unwrap_or_default());
        let [id, used, turns, status, folder, _] = row(session, id, now);
        (*tops <= limit).then_some([number, id, used, turns, status, folder, title])
    });
    Table::of(["#", "ID", "USED", "TURNS", "STATUS", "FOLDER", "TITLE"], rows).print(match is_whole {
        true => "no sessions yet; `agentctl chat` starts one",
        false => "no session matches; `agentctl sessions list` shows all",
    })
}

/// The arguments of `sessions prune`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions prune --dry-run
  agentctl sessions prune --older-than 30d
  agentctl sessions prune --older-than 1d --project . --yes
  agentctl sessions prune --status interrupted 'quick test'

Deletes sessions with their history and files, permanently. Sessions that are running, waiting, in use or pinned are \
kept.")]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    list_filter: ListFilter,
    /// Only sessions not used since this time: `36h`, `7d`, `2w`, or a date such as 2026-01-31
    #[arg(long, value_name = "WHEN", default_value = "30d", value_parser = since)]
    older_than: Timestamp,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Deletes sessions after confirmation.
pub(crate) async fn prune(daemon: &Daemon, args: PruneArgs, json: bool) -> anyhow::Result<Exit> {
    let filter = args.list_filter.filter(&daemon.client, None)?;
    let preview = daemon.client.prune_sessions(&filter, args.older_than, true).await?;
    if args.dry_run || preview.count == 0 {
        return print_pruned(json, &preview, args.dry_run);
    }
    if !args.yes && !confirmed(&preview)? {
        note("nothing was deleted");
        return Ok(Exit::Cancelled);
    }
    let report = daemon.client.prune_sessions(&filter, args.older_than, false).await?;
    print_pruned(json, &report, false)
}

fn confirmed(preview: &PruneReport) -> anyhow::Result<bool> {
    let (sessions, bytes) = (report::count(preview.count, "session"), report::bytes(preview.bytes));
    if !io::stdin().is_terminal() {
        let hint = "add --yes to confirm, or --dry-run to see which";
        anyhow::bail!(Failure::usage(format!("cannot ask whether to delete {sessions}: no terminal")).hint(hint));
    }
    print_sessions(preview)?;
    Ok(ask::confirm(&format!("delete {sessions} ({bytes}) with their histories and files, permanently? [y/N] "))?)
}

fn print_sessions(report: &PruneReport) -> anyhow::Result<()> {
    let ids = report::short_ids(report.sessions.iter().map(|session| session.id));
    let now = Timestamp::now();
    let rows = report.sessions.iter().zip(ids).map(|(session, id)| row(session, id, now));
    Table::of(["ID", "USED", "TURNS", "STATUS", "FOLDER", "TITLE"], rows).print("")
}

fn row(session: &SessionSummary, id: String, now: Timestamp) -> [String; 6] {
    let (used, turns) = (report::ago(session.updated_at, now), session.turns.to_string());
    let status = report::waits(session).map_or_else(|| report::word(session.status), str::to_owned);
    let folder = session.project.as_ref().map_or_else(|| "-".to_owned(), folder_name);
    [id, used, turns, status, folder, session.title.clone()]
}

fn print_pruned(json: bool, report: &PruneReport, dry_run: bool) -> anyhow::Result<Exit> {
    let ids: Vec<_> = report.sessions.iter().map(|session| session.id).collect();
    let output = json!({
        "dry_run": dry_run, "count": report.count, "bytes": report.bytes, "kept": report.kept, "session_ids": ids,
        "problems": report.problems,
    });
    report::show(json, &output, || {
        let (sessions, bytes) = (report::count(report.count, "session"), report::bytes(report.bytes));
        if dry_run && report.count > 0 {
            print_sessions(report)?;
        }
        report::lines([match (report.count, dry_run) {
            (0, _) => "no session is old enough to be deleted".to_owned(),
            (_, true) => format!("{sessions} would be deleted, {bytes}"),
            (_, false) => format!("{sessions} deleted, {bytes}"),
        }])
    })?;
    if report.kept > 0 && !json {
        let skipped = report::count(report.kept, "session");
        note(&format!("{skipped} left alone: in use, waiting or pinned"));
    }
    note_lines(&report.problems);
    Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The arguments of `sessions search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words, a question, or a "quoted phrase"; texts with all the words come first
    #[arg(value_name = "QUERY", required = true, num_args = 1..)]
    query: Vec<String>,
    /// Only in this session: id, title, number in `sessions list`, or `last`
    #[arg(long)]
    session: Option<String>,
    /// Number of matches to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// Runs the command `agentctl sessions search`.
pub(crate) async fn search(daemon: &Daemon, args: SearchArgs, json: bool) -> anyhow::Result<Exit> {
    let session = args.session.as_deref().unwrap_or_default();
    let SearchResult { hits, unsearched } = daemon.client.search(&args.query.join(" "), session, args.limit).await?;
    if unsearched > 0 {
        note(&format!(
            "{unsearched} events are not searched yet: the index is being built; search again later for complete results"
        ));
    }
    report::show(json, &hits, || {
        if hits.is_empty() && unsearched == 0 {
            note("no matches");
        }
        print_hits(&hits)
    })
}

fn print_hits(hits: &[SearchHit]) -> anyhow::Result<()> {
    let (color, now) = (TerminalStyle::detect().out_color, Timestamp::now());
    let sessions: BTreeSet<SessionId> = hits.iter().map(|hit| hit.session_id).collect();
    let ids: BTreeMap<SessionId, String> =
        sessions.iter().copied().zip(report::short_ids(sessions.iter().copied())).collect();
    let mut out = anstream::stdout().lock();
    for hit in hits {
        let id = ids.get(&hit.session_id).cloned().unwrap_or_default();
        let (at, who) = (report::ago(hit.at, now), hit.kind.as_str());
        let head = format!("{id}  {at}  {who}  {}", visible::line(&hit.title));
        writeln!(out, "{}\n    {}", paint(color, QUIET, &head), marked(&hit.excerpt, &hit.marks, color))?;
    }
    Ok(())
}

/// Formats a text on one line, with the marked ranges in bold.
pub(super) fn marked(text: &str, marks: &[Range<usize>], color: bool) -> String {
    let (mut line, mut at) = (String::new(), 0);
    for mark in marks {
        let (Some(before), Some(found)) = (text.get(at..mark.start), text.get(mark.clone())) else {
            continue;
        };
        line.push_str(&sanitize_part(before));
        line.push_str(&paint(color, STRONG, &sanitize_part(found)));
        at = mark.end;
    }
    line.push_str(&sanitize_part(text.get(at..).unwrap_or_default()));
    line
}

/// Sanitizes a part of a line. Unlike `clean_line`, it preserves spaces at both ends.
fn sanitize_part(part: &str) -> String {
    clean(part).replace(['\n', '\r', '\t'], " ")
}

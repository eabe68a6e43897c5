//! `agentctl sessions search`: what was said and done, found by its words.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    ops::Range,
};

use agentd_core::{
    Timestamp,
    ids::SessionId,
    search::{SearchHit, SearchResult},
    visible,
};
use clap::Args;

use crate::{
    daemon::Daemon,
    exit::Exit,
    report,
    terminal::{
        look::TerminalStyle,
        paint::{QUIET, STRONG, paint},
        sanitize::clean,
    },
};

/// The arguments of `sessions search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words that must all be there, "quoted words" together
    #[arg(value_name = "QUERY", required = true, num_args = 1..)]
    query: Vec<String>,
    /// Only in this session: id, title, number in `sessions list`, or `last`
    #[arg(long)]
    session: Option<String>,
    /// Number of finds to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// Searches.
pub(crate) async fn handle(daemon: &Daemon, args: SearchArgs, json: bool) -> anyhow::Result<Exit> {
    let session = args.session.as_deref().unwrap_or_default();
    let SearchResult { hits, unsearched } = daemon.client.search(&args.query.join(" "), session, args.limit).await?;
    if unsearched > 0 {
        crate::terminal::note(&format!(
            "{unsearched} events are not searched yet: the index is being built; search again later for all of it"
        ));
    }
    report::show(json, &hits, || {
        if hits.is_empty() && unsearched == 0 {
            crate::terminal::note("nothing was found");
        }
        print(&hits)
    })
}

fn print(hits: &[SearchHit]) -> anyhow::Result<()> {
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

/// A part of a text in one line, with what was found in bold.
pub(super) fn marked(text: &str, marks: &[Range<usize>], color: bool) -> String {
    let (mut line, mut at) = (String::new(), 0);
    for mark in marks {
        let (Some(before), Some(found)) = (text.get(at..mark.start), text.get(mark.clone())) else {
            continue;
        };
        line.push_str(&in_line(before));
        line.push_str(&paint(color, STRONG, &in_line(found)));
        at = mark.end;
    }
    line.push_str(&in_line(text.get(at..).unwrap_or_default()));
    line
}

/// Without escapes and in one line, as a part of one: spaces at its ends stay.
fn in_line(part: &str) -> String {
    clean(part).replace(['\n', '\r', '\t'], " ")
}

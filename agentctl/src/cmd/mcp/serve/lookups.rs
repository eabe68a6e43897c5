//! What callers may look up: documents of a session, and which sessions there are.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use agentd_core::{
    error::ErrorKind, ids::SessionId, interrupt::Interrupt, knowledge::DocumentQuery, policy::Verdict,
    session::SessionSummary,
};
use agentd_proto::client::{Client, PolicyCall};
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use super::{arguments, reach::Reach, shown};
use crate::{daemon::Daemon, failure::Failure};

/// Finds where nobody says how many.
const FINDS: usize = 10;
/// Finds at the most.
const MOST_FINDS: usize = 50;
/// Sessions where nobody says how many.
const SESSIONS: usize = 20;
/// Sessions at the most.
const MOST_SESSIONS: usize = 100;

/// Searches the documents of a session. The caller is a model, so it sees no more than a model of the session would without
/// asking anybody: the rules are asked about the search and about each file that something was found in.
pub(super) async fn search(daemon: &Daemon, reach: &Reach, args: &arguments::Search) -> anyhow::Result<CallToolResult> {
    let client = &daemon.client;
    let session = reach.session(client, &args.session_id).await?;
    let name = session.to_string();
    let whole = json!({ "query": args.query, "paths": args.paths });
    if let Some(why) = refused(client, &name, "search_documents", &whole).await? {
        return Err(Failure::new(ErrorKind::Rejected, format!("the rules do not let this be searched: {why}"))
            .hint("`agentctl policy explain` says which rule it was")
            .into());
    }
    let limit = args.limit.unwrap_or(FINDS).clamp(1, MOST_FINDS);
    let (text, regex) = (args.query.clone(), args.regex);
    let query = DocumentQuery { text, regex, limit, neighbours: false, begin_by: None };
    let finds = client.search_documents(&name, &args.paths, &query, |_| {}).await?;

    let mut unread = BTreeSet::new();
    let named = finds.hits.iter().map(|hit| &hit.document).chain(finds.broken.iter().map(|(document, _)| document));
    for document in named.collect::<BTreeSet<_>>() {
        if refused(client, &name, "read_file", &json!({ "path": document })).await?.is_some() {
            unread.insert(document.clone());
        }
    }
    let hits = finds.hits.iter().filter(|hit| !unread.contains(&hit.document)).map(|hit| {
        json!({
            "document": shown::line(&hit.document),
            "place": shown::line(&hit.place),
            "citation": shown::line(&hit.citation()),
            "snippet": shown::part(&hit.snippet),
        })
    });
    let broken = finds
        .broken
        .iter()
        .filter(|(document, _)| !unread.contains(document))
        .map(|(document, why)| json!({ "document": shown::line(document), "why": shown::line(why) }));
    let mut notes: Vec<String> = finds.notes.iter().map(|note| shown::line(note)).collect();
    if !unread.is_empty() {
        notes.push("finds in files that the rules do not let be read without asking are left out".to_owned());
    }
    Ok(CallToolResult::structured(json!({
        "session_id": session,
        "hits": hits.collect::<Vec<Value>>(),
        "searched": finds.searched,
        "complete": finds.is_complete(),
        "notes": notes,
        "broken": broken.take(MOST_FINDS).collect::<Vec<Value>>(),
    })))
}

/// Why a call may not run without asking; none where it may.
async fn refused(client: &Client, session: &str, tool: &str, arguments: &Value) -> anyhow::Result<Option<String>> {
    let call = PolicyCall { tool: tool.to_owned(), arguments: arguments.to_string() };
    Ok(match client.explain(&call, Some(session)).await?.verdict {
        Verdict::Allow => None,
        Verdict::Ask { reason, .. } | Verdict::Deny { reason } => Some(reason),
    })
}

/// Lists the sessions that were used last, each with what it waits for.
pub(super) async fn sessions(daemon: &Daemon, reach: &Reach, args: &arguments::List) -> anyhow::Result<CallToolResult> {
    let limit = args.limit.unwrap_or(SESSIONS).clamp(1, MOST_SESSIONS);
    let sessions = match reach.listed() {
        None => daemon.client.sessions(limit).await?,
        Some(own) => begun(&daemon.client, own, limit).await?,
    };
    let mut pending: BTreeMap<SessionId, Vec<Value>> = BTreeMap::new();
    for interrupt in reach.within(&daemon.client, daemon.client.interrupts(None).await?).await {
        let session = top(&daemon.client, &interrupt).await?;
        pending.entry(session).or_default().push(shown::interrupt(&interrupt));
    }
    let sessions = sessions.into_iter().map(|session| {
        json!({
            "session_id": session.id,
            "title": shown::line(&session.title),
            "status": session.status,
            "turns": session.turns,
            "created_at": session.created_at,
            "updated_at": session.updated_at,
            "interrupts": pending.remove(&session.id).unwrap_or_default(),
        })
    });
    Ok(CallToolResult::structured(json!({ "sessions": sessions.collect::<Vec<Value>>() })))
}

/// Those of these sessions that there still are, the last used first.
async fn begun(client: &Client, own: Vec<SessionId>, limit: usize) -> anyhow::Result<Vec<SessionSummary>> {
    let mut sessions = Vec::new();
    for id in own.into_iter().take(limit) {
        match client.session(&id.to_string()).await {
            Ok(view) => sessions.push(view.session.summary),
            Err(error) if error.answered() == Some(ErrorKind::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    sessions.sort_by_key(|session| Reverse(session.updated_at));
    Ok(sessions)
}

/// The session that an interrupt holds up: of a subagent's, the one that the subagent works for.
pub(super) async fn top(client: &Client, interrupt: &Interrupt) -> anyhow::Result<SessionId> {
    let view = client.session(&interrupt.session_id.to_string()).await?;
    Ok(view.session.settings.parent.map_or(interrupt.session_id, |parent| parent.session))
}

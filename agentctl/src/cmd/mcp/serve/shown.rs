//! Results for callers, including documents and sessions. Results are bounded and sanitized, because they come from
//! models and files and are shown to people.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, PoisonError},
};

use agentd_core::{
    error::ErrorKind,
    ids::{InterruptId, SessionId, TurnId},
    interrupt::{Ask, Interrupt},
    knowledge::DocumentQuery,
    policy::Verdict,
    session::SessionSummary,
    turn::{StopReason, TurnResult},
    visible,
};
use agentd_proto::client::{Client, PolicyCall};
use clap::ValueEnum;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use super::tools;
use crate::{
    cmd::interrupts::normalize_id,
    daemon::Daemon,
    failure::Failure,
    terminal::sanitize::{clean, clean_line},
};

/// Maximum characters of a turn's answer.
const MAX_ANSWER: usize = 100_000;
/// Maximum characters of any other text.
const MAX_PART: usize = 8_000;
/// Maximum characters in a text that a user bases a decision on.
const MAX_DECISION_TEXT: usize = 100_000;
/// Maximum entries of a list.
const MAX_ENTRIES: usize = 100;
/// Maximum nesting of arguments.
const MAX_DEPTH: usize = 16;

/// Builds the result for a turn that has ended.
pub(super) fn ended(session: SessionId, result: &TurnResult) -> CallToolResult {
    let text = clean(&result.text);
    let (text, is_cut) = truncate(&text, MAX_ANSWER);
    let denials = result.denials.iter().take(MAX_ENTRIES);
    let mut shown = json!({
        "status": "ended",
        "session_id": session,
        "turn_id": result.turn_id,
        "text": text,
        "stop_reason": result.stop_reason,
        "denials": denials.map(|denial| json!({
            "tool": line(&denial.tool), "reason": line(&denial.reason),
        })).collect::<Vec<_>>(),
        "interrupts": [],
        "files": result.files.iter().take(MAX_ENTRIES).map(|file| json!({
            "path": line(&file.path), "change": file.change,
        })).collect::<Vec<_>>(),
    });
    if is_cut {
        shown["note"] = json!(format!("truncated; `agentctl sessions show {session}` shows the full text"));
    }
    if let Some(error) = &result.error {
        shown["error"] = json!({
            "kind": error.kind, "message": line(&error.message), "hint": error.hint.as_deref().map(line),
        });
    }
    let failed = matches!(
        result.stop_reason,
        StopReason::Failed | StopReason::Interrupted | StopReason::Suspended | StopReason::NoAnswer
    );
    if failed {
        shown["note"] = json!("call ask with this session_id and no prompt to continue the turn");
        return CallToolResult::structured_error(shown);
    }
    CallToolResult::structured(shown)
}

/// Builds the result for a turn that waits for an answer.
pub(super) fn waits(at: WaitingTurn, pending: &[Interrupt], note: &str) -> CallToolResult {
    CallToolResult::structured(json!({
        "status": "waiting",
        "session_id": at.session,
        "turn_id": at.turn,
        "text": "",
        "stop_reason": null,
        "denials": [],
        "interrupts": pending.iter().take(MAX_ENTRIES).map(shown).collect::<Vec<_>>(),
        "note": note,
    }))
}

/// Converts a pending interrupt to JSON.
fn shown(interrupt: &Interrupt) -> Value {
    let mut shown = json!({
        "id": interrupt.id,
        "asked_by": line(&interrupt.asked_by.agent),
        "deadline": interrupt.deadline,
    });
    let more = match &interrupt.ask {
        Ask::Question { question, context, default, required, choices, secret } => json!({
            "kind": "question",
            "question": seen(question),
            "context": context.as_deref().map(seen),
            "default": default.as_deref().map(seen),
            "required": required,
            "secret": secret.then_some(true),
            "choices": (!choices.is_empty()).then(|| choices.iter().map(|choice| seen(choice)).collect::<Vec<_>>()),
        }),
        Ask::Approval { tool, args, risk, reason, preview, .. } => json!({
            "kind": "approval",
            "tool": visible::line(tool),
            "args": value(args),
            "risk": risk,
            "reason": visible::line(reason),
            "preview": preview.as_deref().map(seen),
        }),
    };
    if let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), more) {
        shown.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
        shown.retain(|_, value| !value.is_null());
    }
    shown
}

/// Builds the result for a failed call, with a message for the calling model.
pub(super) fn failed(error: &anyhow::Error) -> CallToolResult {
    let Failure { message, hint, .. } = Failure::from_any(error);
    let hint = hint.map(|hint| format!("\nhint: {}", part(&hint))).unwrap_or_default();
    CallToolResult::error(vec![ContentBlock::text(format!("{}{hint}", part(&message)))])
}

/// Sanitizes and bounds a text, and joins its lines.
pub(super) fn line(text: &str) -> String {
    clean_line(&part(text))
}

/// Sanitizes and bounds a text.
pub(super) fn part(text: &str) -> String {
    let text = clean(text);
    let (start, is_cut) = truncate(&text, MAX_PART);
    if is_cut { format!("{start} […]") } else { start.to_owned() }
}

/// Prepares a text that a user bases a decision on: hidden characters are escaped, and truncation is reported with the
/// missing length.
fn seen(text: &str) -> String {
    let (start, is_cut) = truncate(text, MAX_DECISION_TEXT);
    let shown = visible::lines(start);
    if !is_cut {
        return shown;
    }
    let more = text[start.len()..].chars().count();
    format!(
        "{shown}\n[… {more} more characters: `agentctl interrupts` shows all; do not approve what you have not seen]"
    )
}

/// Prepares the arguments of a call. Arguments that are too long or nested too deeply become truncated text.
fn value(args: &Value) -> Value {
    let text = args.to_string();
    if text.len() > MAX_DECISION_TEXT { Value::String(seen(&text)) } else { visible_value(args, MAX_DEPTH) }
}

fn visible_value(value: &Value, deep: usize) -> Value {
    match value {
        Value::String(text) => Value::String(visible::lines(text)),
        Value::Array(_) | Value::Object(_) if deep == 0 => Value::String(visible::lines(&value.to_string())),
        Value::Array(values) => values.iter().map(|value| visible_value(value, deep - 1)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (visible::line(key), visible_value(value, deep - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Truncates a text to `longest` characters. Returns true if characters were removed.
fn truncate(text: &str, longest: usize) -> (&str, bool) {
    text.char_indices().nth(longest).map_or((text, false), |(at, _)| (&text[..at], true))
}

/// Default number of search results.
const DEFAULT_HITS: usize = 10;
/// Maximum number of search results.
const MAX_HITS: usize = 50;
/// Default number of listed sessions.
const DEFAULT_SESSIONS: usize = 20;
/// Maximum number of listed sessions.
const MAX_SESSIONS: usize = 100;

/// Searches the documents of a session. The policy is checked for the search and for each file with results, because
/// the caller is a model and must not see more than the session's model could see without asking.
pub(super) async fn search(
    daemon: &Daemon,
    access: &SessionAccess,
    args: &tools::Search,
) -> anyhow::Result<CallToolResult> {
    let client = &daemon.client;
    let session = access.session(client, &args.session_id).await?;
    let name = session.to_string();
    let search_args = json!({ "query": args.query, "paths": args.paths });
    if let Some(reason) = refusal_reason(client, &name, "search_documents", &search_args).await? {
        let hint = "`agentctl policy explain` shows the rule";
        anyhow::bail!(Failure::new(ErrorKind::Rejected, format!("search denied by the rules: {reason}")).hint(hint));
    }
    let limit = args.limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
    let (text, regex) = (args.query.clone(), args.regex);
    let query = DocumentQuery { text, regex, limit, neighbours: false, begin_by: None };
    let finds = client.search_documents(&name, &args.paths, &query, |_| {}).await?;

    let mut unread = BTreeSet::new();
    let named = finds.hits.iter().map(|hit| &hit.document).chain(finds.broken.iter().map(|(document, _)| document));
    for document in named.collect::<BTreeSet<_>>() {
        if refusal_reason(client, &name, "read_file", &json!({ "path": document })).await?.is_some() {
            unread.insert(document.clone());
        }
    }
    let hits = finds.hits.iter().filter(|hit| !unread.contains(&hit.document)).map(|hit| {
        json!({
            "document": line(&hit.document),
            "place": line(&hit.place),
            "citation": line(&hit.citation()),
            "snippet": part(&hit.snippet),
        })
    });
    let broken = finds
        .broken
        .iter()
        .filter(|(document, _)| !unread.contains(document))
        .map(|(document, reason)| json!({ "document": line(document), "why": line(reason) }));
    let mut notes: Vec<String> = finds.notes.iter().map(|note| line(note)).collect();
    if !unread.is_empty() {
        notes.push("matches in files that need approval to read are omitted".to_owned());
    }
    Ok(CallToolResult::structured(json!({
        "session_id": session,
        "hits": hits.collect::<Vec<Value>>(),
        "searched": finds.searched,
        "complete": finds.is_complete(),
        "notes": notes,
        "broken": broken.take(MAX_HITS).collect::<Vec<Value>>(),
    })))
}

/// Returns the reason why a call needs approval or is denied. Returns `None` if it may run without asking.
async fn refusal_reason(
    client: &Client,
    session: &str,
    tool: &str,
    arguments: &Value,
) -> anyhow::Result<Option<String>> {
    let call = PolicyCall { tool: tool.to_owned(), arguments: arguments.to_string() };
    Ok(match client.explain(&call, Some(session)).await?.verdict {
        Verdict::Allow => None,
        Verdict::Ask { reason, .. } | Verdict::Deny { reason } => Some(reason),
    })
}

/// Lists the last used sessions with their pending interrupts.
pub(super) async fn sessions(
    daemon: &Daemon,
    access: &SessionAccess,
    args: &tools::List,
) -> anyhow::Result<CallToolResult> {
    let limit = args.limit.unwrap_or(DEFAULT_SESSIONS).clamp(1, MAX_SESSIONS);
    let sessions = match access.listed() {
        None => daemon.client.sessions(limit).await?,
        Some(own) => started_sessions(&daemon.client, own, limit).await?,
    };
    let mut pending: BTreeMap<SessionId, Vec<Value>> = BTreeMap::new();
    for interrupt in access.within(&daemon.client, daemon.client.interrupts(None).await?).await {
        let session = top(&daemon.client, &interrupt).await?;
        pending.entry(session).or_default().push(shown(&interrupt));
    }
    let sessions = sessions.into_iter().map(|session| {
        json!({
            "session_id": session.id,
            "title": line(&session.title),
            "status": session.status,
            "turns": session.turns,
            "created_at": session.created_at,
            "updated_at": session.updated_at,
            "interrupts": pending.remove(&session.id).unwrap_or_default(),
        })
    });
    Ok(CallToolResult::structured(json!({ "sessions": sessions.collect::<Vec<Value>>() })))
}

/// Loads the sessions that still exist, last used first.
async fn started_sessions(client: &Client, own: Vec<SessionId>, limit: usize) -> anyhow::Result<Vec<SessionSummary>> {
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

/// Returns the session that an interrupt blocks. For a subagent's interrupt, this is the parent session.
pub(super) async fn top(client: &Client, interrupt: &Interrupt) -> anyhow::Result<SessionId> {
    let view = client.session(&interrupt.session_id.to_string()).await?;
    Ok(view.session.settings.parent.map_or(interrupt.session_id, |parent| parent.session))
}

/// Sessions that callers can access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sessions {
    /// Sessions started through this server since it started
    Own,
    /// All of your sessions, with their folders and grants: the caller can do what the session can
    All,
}

/// Sessions that a caller can access.
#[derive(Debug)]
pub(super) struct SessionAccess {
    sessions: Sessions,
    started: Mutex<OwnTurns>,
}

/// Sessions and turns started by this server. Sessions are never removed, because an id is small compared to the stored
/// session; turns are removed when they end.
#[derive(Debug, Default)]
struct OwnTurns {
    /// Sorted by age, because ids are ordered by time.
    sessions: BTreeSet<SessionId>,
    turns: BTreeSet<TurnId>,
}

impl SessionAccess {
    /// Creates the access list of a server that has not started any session.
    pub(super) fn new(sessions: Sessions) -> Self {
        Self { sessions, started: Mutex::default() }
    }

    /// Records a started turn, and its session if the session was created with it.
    pub(super) fn record_start(&self, session: Option<SessionId>, turn: TurnId) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.sessions.extend(session);
        started.turns.insert(turn);
    }

    /// Records the end of a turn.
    pub(super) fn record_end(&self, turn: TurnId) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).turns.remove(&turn);
    }

    /// Returns true if this server created the session.
    pub(super) fn has_started(&self, session: SessionId) -> bool {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).sessions.contains(&session)
    }

    /// Returns true if this server started the turn and it has not ended.
    pub(super) fn has_turn(&self, turn: TurnId) -> bool {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).turns.contains(&turn)
    }

    /// Returns the sessions that may be listed, newest first. Returns `None` if all sessions may be listed.
    pub(super) fn listed(&self) -> Option<Vec<SessionId>> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        (self.sessions == Sessions::Own).then(|| started.sessions.iter().rev().copied().collect())
    }

    /// Resolves a session by id or prefix. With `Sessions::Own`, a foreign session and a missing one result in the same
    /// error, without a request to the daemon.
    pub(super) async fn session(&self, client: &Client, named: &str) -> anyhow::Result<SessionId> {
        let Some(own) = self.listed() else { return Ok(client.find_session(named).await?) };
        let normalized = normalize_id(named.trim());
        let mut fitting = own.into_iter().filter(|id| normalize_id(&id.to_string()).starts_with(&normalized));
        match (fitting.next(), fitting.next()) {
            (Some(one), None) if !normalized.is_empty() => Ok(one),
            (Some(_), Some(_)) => Err(Failure::usage("this session_id matches several sessions")
                .hint("use more of the session_id; list_sessions shows all")
                .into()),
            _ => Err(Failure::new(ErrorKind::NotFound, "no session of this caller has this session_id")
                .hint(
                    "list_sessions shows the sessions started through this server; the user can allow all sessions \
                     with `agentctl mcp serve --sessions all`",
                )
                .into()),
        }
    }

    /// Removes interrupts that do not block an accessible session.
    pub(super) async fn within(&self, client: &Client, pending: Vec<Interrupt>) -> Vec<Interrupt> {
        if self.sessions == Sessions::All {
            return pending;
        }
        let mut within = Vec::new();
        for interrupt in pending {
            // An interrupt of a deleted session belongs to no caller.
            let is_own = self.has_started(interrupt.session_id)
                || top(client, &interrupt).await.is_ok_and(|top| self.has_started(top));
            if is_own {
                within.push(interrupt);
            }
        }
        within
    }
}

/// Maximum number of remembered turns. The state of older turns is loaded from the daemon while they wait.
const MAX_WAITING_TURNS: usize = 256;

/// A turn that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitingTurn {
    /// Session of the turn. For a subagent's question, this is the parent session.
    pub(super) session: SessionId,
    /// Id of the turn.
    pub(super) turn: TurnId,
    /// Number of the last event of the session that was reported to the caller.
    pub(super) seen: u64,
}

/// Waiting turns that were reported to callers, by interrupt id.
#[derive(Debug, Default)]
pub(super) struct WaitingTurns {
    known: Mutex<VecDeque<(InterruptId, WaitingTurn)>>,
}

impl WaitingTurns {
    /// Remembers the interrupt that a turn waits for.
    pub(super) fn remember(&self, interrupt: InterruptId, waiting: WaitingTurn) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(id, _)| *id != interrupt);
        if known.len() == MAX_WAITING_TURNS {
            known.pop_front();
        }
        known.push_back((interrupt, waiting));
    }

    /// Returns the turn that waits, or waited, for this interrupt.
    pub(super) fn of(&self, interrupt: InterruptId) -> Option<WaitingTurn> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(id, _)| *id == interrupt).map(|(_, waiting)| *waiting)
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::ids::InterruptId;

    use super::*;
    use crate::samples;

    fn result(text: &str, stop_reason: StopReason) -> TurnResult {
        TurnResult { text: text.to_owned(), ..samples::result(stop_reason) }
    }

    fn content(result: CallToolResult) -> Value {
        result.structured_content.unwrap()
    }

    #[test]
    fn answers_are_bounded_and_sanitised() {
        let long = "é\u{1b}]0;x\u{7}".repeat(MAX_ANSWER + 1);
        let shown = content(ended(SessionId::generate(), &result(&long, StopReason::Completed)));
        assert_eq!(shown["text"].as_str().unwrap(), "é".repeat(MAX_ANSWER));
        assert!(shown["note"].as_str().unwrap().contains("agentctl sessions show"));
        let short = content(ended(SessionId::generate(), &result("a", StopReason::Completed)));
        assert!(short.get("note").is_none());
    }

    #[test]
    fn pending_interrupt_is_shown_sanitised() {
        let args = json!({"command": "ls\u{1b}[2J \u{202e}x", "deep": [[{"a\u{7}": 1}]], "none": null});
        let mut ask = samples::approval("run_bash_command", args, None, &[]);
        if let Ask::Approval { reason, .. } = &mut ask {
            *reason = "it\nruns".to_owned();
        }
        let shown = shown(&samples::interrupt(ask));
        assert_eq!(
            shown["args"],
            json!({"command": "ls\\u{1b}[2J \\u{202e}x", "deep": [[{"a\\u{7}": 1}]], "none": null})
        );
        assert_eq!((&shown["kind"], &shown["reason"]), (&json!("approval"), &json!("it⏎runs")));
        assert!(shown.get("preview").is_none() && shown.get("deadline").is_none());
        let long = value(&json!({"text": "x".repeat(MAX_DECISION_TEXT)}));
        assert!(long.as_str().unwrap().contains("\n[… 11 more characters: `agentctl interrupts` shows all"));
    }

    #[test]
    fn oldest_waiting_turns_are_dropped() {
        let turns = WaitingTurns::default();
        let waiting = WaitingTurn { session: SessionId::generate(), turn: TurnId::generate(), seen: 1 };
        let ids: Vec<InterruptId> = (0..=MAX_WAITING_TURNS).map(|_| InterruptId::generate()).collect();
        for id in &ids {
            turns.remember(*id, waiting);
        }
        assert_eq!((turns.of(ids[0]), turns.of(ids[1])), (None, Some(waiting)));
        let newer_turn = WaitingTurn { seen: 2, ..waiting };
        turns.remember(ids[1], newer_turn);
        assert_eq!((turns.of(ids[1]), turns.of(ids[2])), (Some(newer_turn), Some(waiting)));
    }
}

//! Translates session events into protocol updates. Has no side effects; files are only read before an edit.
//!
//! Calls by subagents are sent in the parent session, under prefixed ids, because the editor has not opened the
//! subagent's session.

use std::collections::HashMap;

use agent_client_protocol_schema::v1::{
    CompactionStatus, CompactionUpdate, ContentBlock, ContentChunk, Cost, Meta, Notice, NoticeSeverity, Plan,
    PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate, Terminal, ToolCall, ToolCallContent, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, UsageUpdate,
};
use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::{CallId, ItemId, SessionId},
    item::{Item, ItemBody, NoticeSource, NoticeTopic},
    model::Slot,
    session::{Todo, TodoPriority, TodoStatus},
    tool::ToolResult,
};
use serde_json::{Value, json};

use super::tool_call::{
    self, LiveOutput, PriorContent, SHELL, SessionRoots, edits_of_call, edits_of_patch, shown_edits,
};
use crate::{
    render::context::notice_line,
    report::short_id,
    terminal::sanitize::{clean, clean_line},
    turn::Arrival,
};

/// Capabilities of an editor that affect its updates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct EditorFeatures {
    /// Shows notices to the user.
    pub(super) notices: bool,
    /// Shows compactions of the history.
    pub(super) compaction: bool,
    /// Shows terminals whose output is sent by agents (`_meta.terminal_output`).
    pub(super) terminals: bool,
    /// Provides files of the project, including unsaved text.
    pub(super) files: bool,
}

/// Maximum total bytes of the edit texts in a live call.
const MAX_LIVE_EDITS: usize = 40 * 1024;

/// Maximum lengths of texts in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Limit for a message or reasoning.
    pub(super) text: usize,
    /// Limit for the result of a call.
    pub(super) result: usize,
}

impl Limits {
    /// Limits for live events. Some editors read lines of at most 64 KiB.
    pub(super) const LIVE: Self = Self { text: usize::MAX, result: 24 * 1024 };
}

/// Separator between an aborted text and its replacement, because the protocol cannot retract text.
const RESTART_NOTE: &str = "\n\n*(Interrupted; starting over.)*\n\n";

/// Translator of the events of one session.
#[derive(Debug)]
pub(super) struct Updates {
    session: SessionId,
    roots: SessionRoots,
    features: EditorFeatures,
    pub(super) limits: Limits,
    /// Place at which the content of a file before a call can be found.
    before: PriorContent,
    /// Context windows by slot.
    pub(super) windows: HashMap<Slot, u64>,
    window: Option<u64>,
    /// Text that the editor has just sent, and therefore already shows.
    pub(super) own_text: Option<String>,
    /// Cost of the session before this turn.
    pub(super) spent: Option<u64>,
    /// True once a compaction was sent.
    pub(super) has_compacted: bool,
    /// Values last sent: tokens in the window, and the session's cost including this turn.
    used: Option<u64>,
    cost: Option<u64>,
    items: HashMap<ItemId, TextItem>,
    /// Kind of the last text if it was sent and then discarded: true for reasoning, false for an answer. Cleared by the
    /// next text or tool call.
    discarded: Option<bool>,
    calls: HashMap<String, Call>,
    running: HashMap<ItemId, (String, LiveOutput)>,
    /// Names of the subagents.
    subagents: HashMap<SessionId, String>,
}

#[derive(Debug)]
struct TextItem {
    is_thought: bool,
    /// Number of bytes already sent.
    sent_bytes: usize,
}

#[derive(Debug)]
struct Call {
    tool: String,
    has_edits: bool,
}

impl Updates {
    /// Creates a translator for live events.
    pub(super) fn live(session: SessionId, roots: SessionRoots, features: EditorFeatures) -> Self {
        Self {
            session,
            roots,
            features,
            limits: Limits::LIVE,
            before: if features.files { PriorContent::InEditor } else { PriorContent::OnDisk },
            windows: HashMap::new(),
            window: None,
            own_text: None,
            spent: None,
            has_compacted: false,
            used: None,
            cost: None,
            items: HashMap::new(),
            discarded: None,
            calls: HashMap::new(),
            running: HashMap::new(),
            subagents: HashMap::new(),
        }
    }

    /// Creates a translator for past events, whose terminals no longer exist.
    pub(super) fn replay(session: SessionId, roots: SessionRoots, features: EditorFeatures, limits: Limits) -> Self {
        let features = EditorFeatures { terminals: false, notices: false, ..features };
        Self { limits, before: PriorContent::Unknown, ..Self::live(session, roots, features) }
    }

    /// Returns the id of a call in the editor.
    pub(super) fn call_id(&self, session: SessionId, call: &CallId) -> String {
        if session == self.session { call.to_string() } else { format!("{}:{call}", short_id(session)) }
    }

    /// Returns true if the call has been sent to the editor.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// Translates an event of the session or of a subagent.
    pub(super) fn arrival(&mut self, arrival: &Arrival) -> Vec<SessionUpdate> {
        match arrival {
            Arrival::Event(event) => self.event(event),
            Arrival::Child(event) => self.child(event),
            _ => Vec::new(),
        }
    }

    /// Translates an event of the session.
    pub(super) fn event(&mut self, event: &Event) -> Vec<SessionUpdate> {
        match &event.kind {
            EventKind::TurnStarted { slot, .. } | EventKind::ModelChosen { slot, .. } => {
                self.window = self.windows.get(slot).copied();
                Vec::new()
            }
            EventKind::ItemStarted { item } => self.started(event.session_id, item),
            EventKind::ItemDelta { item_id, offset, text } => self.delta(*item_id, *offset, text).into_iter().collect(),
            EventKind::ItemCompleted { item, .. } => self.completed(event.session_id, item),
            EventKind::UsageUpdated { usage, turn, delegated: false, prompt, .. } if event.turn_id.is_some() => {
                self.cost = self.spent.into_iter().chain(turn.cost_microusd).reduce(u64::saturating_add);
                // Without a reported token count, the estimated size of the request is used, because the call still
                // fills the window.
                let about = prompt.as_ref().map_or(0, |report| report.tokens);
                let used_tokens = if usage.tokens() > 0 { usage.tokens() } else { about };
                self.used = Some(used_tokens).filter(|used| *used > 0).or(self.used);
                let (Some(size), Some(used)) = (self.window, self.used) else { return Vec::new() };
                vec![usage_update(used, size, self.cost)]
            }
            EventKind::StateChanged { change } => self.changed(change),
            EventKind::Warning { message, .. } => self.notice(NoticeSeverity::Warning, message),
            EventKind::UsageUpdated { .. }
            | EventKind::IntentClassified { .. }
            | EventKind::InterruptRaised { .. }
            | EventKind::InterruptResolved { .. }
            | EventKind::TurnEnded { .. } => Vec::new(),
        }
    }

    /// Translates an event of a subagent. Only its calls are sent: its text is meant for the calling agent.
    pub(super) fn child(&mut self, event: &Event) -> Vec<SessionUpdate> {
        match &event.kind {
            EventKind::ItemStarted { item } if matches!(item.body, ItemBody::ToolResult(_)) => {
                self.started(event.session_id, item)
            }
            EventKind::ItemDelta { item_id, offset, text } if self.running.contains_key(item_id) => {
                self.delta(*item_id, *offset, text).into_iter().collect()
            }
            EventKind::ItemCompleted { item, .. }
                if matches!(item.body, ItemBody::ToolCall(_) | ItemBody::ToolResult(_)) =>
            {
                self.completed(event.session_id, item)
            }
            EventKind::StateChanged { change: change @ StateChange::Subagent(_) } => self.changed(change),
            _ => Vec::new(),
        }
    }

    /// Fails all open calls. Sent texts stay recorded, because a continued turn may produce them again.
    pub(super) fn finish(&mut self) -> Vec<SessionUpdate> {
        self.running.clear();
        let open = self.calls.drain();
        let failed = |id: String| update(id, ToolCallUpdateFields::new().status(ToolCallStatus::Failed));
        open.map(|(id, _)| failed(id)).collect()
    }

    /// Builds the update for a new call.
    pub(super) fn call(&mut self, session: SessionId, id: &CallId, tool: &str, args: &Value) -> SessionUpdate {
        let known = self.call_id(session, id);
        let longest = if self.before == PriorContent::Unknown { self.limits.result } else { MAX_LIVE_EDITS };
        let edits = shown_edits(edits_of_call(tool, args, &self.roots, self.before), longest);
        let mut title = tool_call::title(tool, args);
        if session != self.session {
            let name = self.subagents.get(&session).map_or("subagent", String::as_str);
            title = format!("⤷ {name}: {title}");
        }
        let has_edits = !edits.is_empty();
        let mut call = ToolCall::new(known.clone(), title)
            .name(tool)
            .kind(tool_call::kind(tool, args))
            .locations(tool_call::locations(tool, args, &self.roots))
            .raw_input(tool_call::input(args, self.limits.result))
            .content(edits.into_iter().map(ToolCallContent::from).collect());
        if tool == SHELL && self.features.terminals {
            let folder = self.roots.folder().display().to_string();
            let info = json!({"terminal_id": known, "cwd": folder});
            call = call.content(vec![terminal(&known)]).meta(meta("terminal_info", info));
        }
        self.calls.insert(known, Call { tool: tool.to_owned(), has_edits });
        SessionUpdate::ToolCall(call)
    }

    /// Builds an update for the call that a result belongs to. Returns `None` if the editor already has the call. A
    /// call is missing if it is older than this connection or than the replayed part.
    fn call_of(&mut self, session: SessionId, result: &ToolResult) -> Option<SessionUpdate> {
        if self.knows(&self.call_id(session, &result.call_id)) {
            return None;
        }
        let args = result.ran_with.as_deref().map_or(Value::Null, tool_call::arguments);
        Some(self.call(session, &result.call_id, &result.name, &args))
    }

    fn started(&mut self, session: SessionId, item: &Item) -> Vec<SessionUpdate> {
        match &item.body {
            ItemBody::AgentMessage { text } | ItemBody::Reasoning { text } => {
                let is_thought = matches!(item.body, ItemBody::Reasoning { .. });
                let sent = self.drop_open_texts(is_thought).then(|| text_update(is_thought, item.id, RESTART_NOTE));
                self.items.insert(item.id, TextItem { is_thought, sent_bytes: 0 });
                sent.into_iter().chain(self.delta(item.id, 0, text)).collect()
            }
            // In a replay, only the completed result is sent.
            ItemBody::ToolResult(_) if self.before == PriorContent::Unknown => Vec::new(),
            ItemBody::ToolResult(result) => {
                let call = self.call_of(session, result);
                let id = self.call_id(session, &result.call_id);
                self.running.insert(item.id, (id.clone(), LiveOutput::default()));
                let mut fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
                if result.name == SHELL && self.features.terminals {
                    // The content may be the text of an approval by now, so the terminal is sent again.
                    fields = fields.content(vec![terminal(&id)]);
                }
                call.into_iter().chain([update(id, fields)]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Drops discarded or unfinished texts when another text begins. Returns true if a text of the same kind was sent,
    /// which the new text replaces.
    fn drop_open_texts(&mut self, is_thought: bool) -> bool {
        let was_discarded = self.discarded.take() == Some(is_thought);
        let open = self.items.extract_if(|_, item| item.is_thought == is_thought);
        open.filter(|(_, item)| item.sent_bytes > 0).count() > 0 || was_discarded
    }

    fn delta(&mut self, id: ItemId, offset: u64, text: &str) -> Option<SessionUpdate> {
        if let Some((call, live)) = self.running.get_mut(&id) {
            if self.features.terminals && self.calls.get(call).is_some_and(|call| call.tool == SHELL) {
                live.has_output = true;
                let data = meta("terminal_output", json!({"terminal_id": call, "data": text}));
                return Some(with_meta(call.clone(), ToolCallUpdateFields::new(), data));
            }
            let shown = live.take(text)?;
            return Some(update(call.clone(), ToolCallUpdateFields::new().content(vec![shown.into()])));
        }
        let item = self.items.get_mut(&id)?;
        let offset = usize::try_from(offset).ok()?;
        let new = text.get(item.sent_bytes.checked_sub(offset)?..).filter(|new| !new.is_empty())?;
        item.sent_bytes += new.len();
        Some(text_update(item.is_thought, id, new))
    }

    fn completed(&mut self, session: SessionId, item: &Item) -> Vec<SessionUpdate> {
        match &item.body {
            ItemBody::AgentMessage { text } | ItemBody::Reasoning { text } => {
                let is_thought = matches!(item.body, ItemBody::Reasoning { .. });
                let known = self.items.remove(&item.id);
                if known.as_ref().is_some_and(|known| known.sent_bytes > text.len()) {
                    self.discarded = Some(is_thought);
                    return Vec::new();
                }
                // The beginning of the text was missed during a daemon restart.
                let sent = known.is_none() && self.drop_open_texts(is_thought);
                let sent = sent.then(|| text_update(is_thought, item.id, RESTART_NOTE));
                let rest = text.get(known.map_or(0, |item| item.sent_bytes)..).filter(|rest| !rest.is_empty());
                let rest = rest.map(|rest| text_update(is_thought, item.id, &tool_call::cut(rest, self.limits.text)));
                sent.into_iter().chain(rest).collect()
            }
            ItemBody::ToolCall(call) => {
                self.discarded = None;
                vec![self.call(session, &call.call_id, &call.name, &tool_call::arguments(&call.arguments))]
            }
            ItemBody::ToolResult(result) => {
                let call = self.call_of(session, result);
                call.into_iter().chain([self.result(session, item.id, result)]).collect()
            }
            // The editor already shows the message that started the turn.
            ItemBody::UserMessage { steered: false, .. } if self.before != PriorContent::Unknown => Vec::new(),
            ItemBody::UserMessage { text, .. } if self.own_text.as_ref() == Some(text) => {
                self.own_text = None;
                Vec::new()
            }
            ItemBody::UserMessage { text, typed_bytes, .. } => {
                let typed = typed_bytes.and_then(|bytes| text.get(..usize::try_from(bytes).ok()?)).unwrap_or(text);
                let chunk = chunk(item.id, &tool_call::cut(typed, self.limits.text));
                vec![SessionUpdate::UserMessageChunk(chunk)]
            }
            ItemBody::Compaction(compaction) if self.features.compaction => {
                self.has_compacted = true;
                let summary = tool_call::cut(&compaction.summary, self.limits.result);
                let update = CompactionUpdate::new(item.id.to_string(), CompactionStatus::Completed);
                vec![SessionUpdate::CompactionUpdate(update.summary(vec![ContentBlock::from(summary)]))]
            }
            ItemBody::Compaction(_) => {
                self.has_compacted = true;
                self.notice(NoticeSeverity::Info, "older history was summarized")
            }
            ItemBody::Notice { text, topic: NoticeTopic::General, .. } => self.notice(NoticeSeverity::Info, text),
            ItemBody::Notice { text, topic, sources, .. } if sources.iter().any(NoticeSource::is_cut) => {
                self.notice(NoticeSeverity::Info, &notice_line(text, *topic, sources))
            }
            ItemBody::Notice { .. } => Vec::new(),
        }
    }

    fn result(&mut self, session: SessionId, item: ItemId, result: &ToolResult) -> SessionUpdate {
        let id = self.call_id(session, &result.call_id);
        let live = self.running.remove(&item);
        let call = self.calls.remove(&id);
        let is_failed = result.error.is_some() || result.exit_code.is_some_and(|code| code != 0);
        let status = if is_failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
        let sent = json!({
            "error": result.error.map(|error| error.as_str()),
            "exitCode": result.exit_code,
            "durationMs": result.duration_ms,
            "files": result.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
        });
        let mut fields = ToolCallUpdateFields::new().status(status).raw_output(sent);
        let text = tool_call::cut(result.text.trim_end(), self.limits.result);
        let mut has_edits = call.is_some_and(|call| call.has_edits);
        let diff = result.details.as_ref().and_then(|details| details.diff.as_ref()).filter(|diff| !diff.cut);
        // The result of a command is its output.
        let is_command = result.exit_code.is_some();
        if let Some(diff) = diff.filter(|_| !is_command && !has_edits && self.before != PriorContent::Unknown) {
            let edits = shown_edits(edits_of_patch(&diff.text, &self.roots), self.limits.result);
            has_edits = !edits.is_empty();
            fields = fields.content(edits.into_iter().map(ToolCallContent::from).collect::<Vec<_>>());
        }
        if let Some(ran) = &result.ran_with {
            let args = tool_call::arguments(ran);
            let edits = edits_of_call(&result.name, &args, &self.roots, PriorContent::Unknown);
            let edits = shown_edits(edits, self.limits.result);
            has_edits = !edits.is_empty();
            fields = fields
                .title(format!("{} (edited)", tool_call::title(&result.name, &args)))
                .raw_input(tool_call::input(&args, self.limits.result))
                .content(edits.into_iter().map(ToolCallContent::from).collect::<Vec<_>>());
        }
        if result.name == SHELL && self.features.terminals && live.is_some() {
            // If there was no output while the command ran, the result is its whole output.
            let had_output = live.is_some_and(|(_, output)| output.has_output);
            let exit = json!({"terminal_id": id, "exit_code": result.exit_code, "signal": null});
            let mut sent = meta("terminal_exit", exit);
            if !had_output && !text.is_empty() {
                sent.insert("terminal_output".to_owned(), json!({"terminal_id": id, "data": text}));
            }
            return with_meta(id, fields, sent);
        }
        // For a successful edit, the diff is shown instead of the text.
        if is_failed || !has_edits {
            fields = fields.content(if text.is_empty() { Vec::new() } else { vec![tool_call::fenced(&text).into()] });
        }
        update(id, fields)
    }

    fn changed(&mut self, change: &StateChange) -> Vec<SessionUpdate> {
        match change {
            StateChange::Todos { todos } => vec![plan(todos)],
            StateChange::TokenLevel { tokens, window, .. } => {
                (self.window, self.used) = (Some(*window), Some(*tokens));
                vec![usage_update(*tokens, *window, self.cost.or(self.spent))]
            }
            StateChange::Subagent(subagent) => {
                self.subagents.insert(subagent.session_id, clean_line(&subagent.name));
                Vec::new()
            }
            StateChange::Agent { stack } => {
                let name = stack.last().map_or("main", String::as_str);
                self.notice(NoticeSeverity::Info, &format!("the agent {} is now active", clean_line(name)))
            }
            // Titles and settings are sent by the watcher of the session.
            _ => Vec::new(),
        }
    }

    fn notice(&self, severity: NoticeSeverity, text: &str) -> Vec<SessionUpdate> {
        if !self.features.notices {
            return Vec::new();
        }
        let text = clean(text);
        let (title, rest) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
        if title.is_empty() {
            return Vec::new();
        }
        let notice = Notice::new(severity, clean_line(title));
        let rest = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
        vec![SessionUpdate::Notice(notice.description(rest))]
    }
}

/// Builds an update with the tokens in the window and the cost of the session.
pub(super) fn usage_update(used: u64, size: u64, microusd: Option<u64>) -> SessionUpdate {
    #[expect(clippy::cast_precision_loss, reason = "money for display, far below 2^52")]
    let cost = microusd.map(|cost| Cost::new(cost as f64 / 1e6, "USD"));
    SessionUpdate::UsageUpdate(UsageUpdate::new(used, size).cost(cost))
}

/// Builds an update with the todo list.
pub(super) fn plan(todos: &[Todo]) -> SessionUpdate {
    let entry = |todo: &Todo| {
        let priority = match todo.priority {
            TodoPriority::High => PlanEntryPriority::High,
            TodoPriority::Medium => PlanEntryPriority::Medium,
            TodoPriority::Low => PlanEntryPriority::Low,
        };
        let status = match todo.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
        };
        PlanEntry::new(clean_line(&todo.content), priority, status)
    };
    SessionUpdate::Plan(Plan::new(todos.iter().map(entry).collect()))
}

/// Builds an update with text from agentctl, shown as agent text.
pub(super) fn message(text: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(ContentBlock::from(text)))
}

fn chunk(id: ItemId, text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(text)).message_id(id.to_string().as_str())
}

fn text_update(is_thought: bool, id: ItemId, text: &str) -> SessionUpdate {
    let chunk = chunk(id, text);
    if is_thought { SessionUpdate::AgentThoughtChunk(chunk) } else { SessionUpdate::AgentMessageChunk(chunk) }
}

pub(super) fn update(id: String, fields: ToolCallUpdateFields) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
}

fn with_meta(id: String, fields: ToolCallUpdateFields, meta: Meta) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields).meta(meta))
}

fn meta(name: &str, value: Value) -> Meta {
    Meta::from_iter([(name.to_owned(), value)])
}

fn terminal(id: &str) -> ToolCallContent {
    ToolCallContent::Terminal(Terminal::new(id.to_owned()))
}

#[cfg(test)]
#[path = "updates_tests.rs"]
mod tests;

//! Builder for a session's events from another application's history.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use agentd_core::{
    Timestamp,
    archive::ArchivedSession,
    event::{Event, EventKind, StateChange},
    ids::{CallId, SessionId, TraceId, TurnId},
    item::{Item, ItemBody, ItemStatus},
    model::Slot,
    origin::{ItemOrigin, ServerFields},
    routing::ChoiceRule,
    session::{Mount, SessionSettings},
    tool::{ToolCall, ToolErrorCode, ToolResult},
    turn::{StopReason, TurnResult},
    usage::Usage,
};
use jiff::SignedDuration;
use sha2::{Digest as _, Sha256};
use uuid::Builder;

use super::{ForeignFormat, ForeignHistory};
use crate::ArchiveError;

/// Maximum length of a text in bytes.
const MAX_TEXT: usize = 100_000;
/// Maximum length of a tool name in characters.
const MAX_NAME: usize = 64;
/// Maximum number of distinct names under which skipped content is counted.
const MAX_SKIPPED_KINDS: usize = 20;

/// History that is being built.
pub(super) struct HistoryBuilder {
    format: ForeignFormat,
    id: SessionId,
    events: Vec<Event>,
    at: Timestamp,
    began: Option<Timestamp>,
    turn: Option<OpenTurn>,
    model: String,
    skipped: BTreeMap<String, u64>,
    /// Latest plausible time. Later times are ignored.
    latest: Timestamp,
    /// Session ID in the other application.
    pub(super) foreign_id: String,
    pub(super) title: String,
    pub(super) folder: String,
}

struct OpenTurn {
    /// Index of the turn's first event.
    start: usize,
    began: Timestamp,
    /// Calls without a result: our call IDs and the tool names, by the application's IDs.
    calls: HashMap<String, VecDeque<(CallId, String)>>,
    /// Foreign IDs of calls whose commands failed and whose results have not been read yet.
    failed: HashSet<String>,
    has_work: bool,
    result: TurnResult,
}

impl HistoryBuilder {
    pub(super) fn new(format: ForeignFormat) -> Self {
        Self {
            format,
            // Placeholder: the final ID depends on the events, and is set by `finish`.
            id: SessionId::generate(),
            events: Vec::new(),
            at: Timestamp::UNIX_EPOCH,
            began: None,
            turn: None,
            model: String::new(),
            skipped: BTreeMap::new(),
            latest: Timestamp::now() + SignedDuration::from_hours(24),
            foreign_id: String::new(),
            title: String::new(),
            folder: String::new(),
        }
    }

    /// Sets the time of the following events. Time never moves backwards.
    pub(super) fn set_time(&mut self, at: Option<Timestamp>) {
        // An implausible time would shift all later times.
        let latest = self.latest;
        let Some(at) = at.filter(|at| *at >= Timestamp::UNIX_EPOCH && *at <= latest) else { return };
        self.began.get_or_insert(at);
        self.at = self.at.max(at);
    }

    /// Sets the model of the following answers.
    pub(super) fn model(&mut self, model: &str) {
        if !model.is_empty() && !model.starts_with('<') {
            self.model = model.chars().take(100).collect();
            self.set_model();
        }
    }

    /// Adds the model to the start of the turn, because the model is only known from the first answer.
    fn set_model(&mut self) {
        let start = self.turn.as_ref().and_then(|turn| self.events.get_mut(turn.start));
        if let Some(EventKind::TurnStarted { model, .. }) = start.map(|event| &mut event.kind)
            && model.is_empty()
        {
            model.clone_from(&self.model);
        }
    }

    /// Counts content that is skipped.
    pub(super) fn skip(&mut self, what: &str) {
        let what: String = what.chars().filter(|c| !c.is_control()).take(60).collect();
        let what = if self.skipped.len() < MAX_SKIPPED_KINDS || self.skipped.contains_key(&what) {
            what
        } else {
            "other".into()
        };
        *self.skipped.entry(what).or_default() += 1;
    }

    /// Adds a user message. Starts a new turn if the model has already answered in the current one.
    pub(super) fn user_message(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if self.turn.as_ref().is_some_and(|turn| turn.has_work) {
            self.end_turn();
        }
        let body = ItemBody::UserMessage { text: truncate(text), steered: false, typed_bytes: None, stored: None };
        self.item(body, false);
    }

    /// Adds an answer from the model.
    pub(super) fn assistant_message(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let text = truncate(text);
        self.open_turn().result.text.clone_from(&text);
        self.item(ItemBody::AgentMessage { text }, true);
    }

    /// Adds reasoning from the model.
    pub(super) fn reasoning(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.item(ItemBody::Reasoning { text: truncate(text) }, true);
        }
    }

    /// Adds the summary from a compaction in the other application.
    pub(super) fn summary(&mut self, text: &str) {
        let program = self.format.program();
        self.item(ItemBody::notice(format!("{program} summarized the earlier history:\n{}", truncate(text))), false);
    }

    pub(super) fn call(&mut self, foreign_id: &str, name: &str, arguments: String) {
        let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        // Truncated arguments would not be valid JSON.
        let arguments = match arguments.len() {
            0..=MAX_TEXT => arguments,
            bytes => serde_json::json!({ "left_out": format!("{bytes} bytes of arguments") }).to_string(),
        };
        let call_id = CallId::generate();
        let calls = &mut self.open_turn().calls;
        calls.entry(foreign_id.to_owned()).or_default().push_back((call_id.clone(), name.clone()));
        self.item(ItemBody::ToolCall(ToolCall { call_id, name, arguments }), true);
    }

    /// Marks a pending call as failed if its exit code is not 0. [`Self::result`] adds its result later.
    pub(super) fn exit(&mut self, foreign_id: &str, code: Option<i64>) {
        let has_failed = code.is_some_and(|code| code != 0);
        if let Some(turn) = self.turn.as_mut().filter(|turn| has_failed && turn.calls.contains_key(foreign_id)) {
            turn.failed.insert(foreign_id.to_owned());
        }
    }

    pub(super) fn result(&mut self, foreign_id: &str, text: &str, failed: bool) {
        let calls = self.turn.as_mut().and_then(|turn| turn.calls.get_mut(foreign_id));
        let Some((call_id, name)) = calls.and_then(VecDeque::pop_front) else {
            return self.skip("result without a call");
        };
        let failed = failed || self.turn.as_mut().is_some_and(|turn| turn.failed.remove(foreign_id));
        let error = failed.then_some(ToolErrorCode::Tool);
        let result = ToolResult { text: truncate(text), error, ..ToolResult::empty(call_id, name) };
        self.item(ItemBody::ToolResult(result), true);
    }

    /// Adds the usage of a model call.
    pub(super) fn usage(&mut self, usage: Usage) {
        let model = self.model.clone();
        let result = &mut self.open_turn().result;
        result.steps += 1;
        result.usage += usage;
        let (id, step, turn, slot) = (result.turn_id, result.steps, result.usage, Slot::Base);
        let kind =
            EventKind::UsageUpdated { step, slot, model, usage, turn, prompt: None, timing: None, delegated: false };
        self.push(Some(id), kind);
    }

    /// Returns the session with all its events.
    pub(super) fn finish(mut self) -> Result<ForeignHistory, ArchiveError> {
        self.end_turn();
        if self.events.is_empty() {
            return Err(ArchiveError::Hostile(format!("it has no messages in {}", self.format.program())));
        }
        if !self.title.trim().is_empty() {
            let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
            self.push(None, EventKind::StateChanged { change: StateChange::Title { title } });
        }
        let began = self.began.unwrap_or(Timestamp::UNIX_EPOCH);
        let id = self.session_id(began);
        self.events.iter_mut().for_each(|event| event.session_id = id);
        let folder = PathBuf::from(&self.folder);
        let project = folder.is_absolute().then_some(Mount { path: folder, writable: false });
        let settings = SessionSettings { project, ..SessionSettings::default() };
        let events = self.events.len() as u64;
        let skipped = self.skipped.into_iter().map(|(what, count)| format!("{count} × {what}")).collect();
        let session = ArchivedSession { id, created_at: began, settings, events, context: None };
        Ok(ForeignHistory { session, events: self.events, left_out: skipped })
    }

    /// Derives the session ID from the foreign ID, so that the same session is not imported twice.
    fn session_id(&self, began: Timestamp) -> SessionId {
        if self.foreign_id.is_empty() {
            return self.id;
        }
        let hash = Sha256::digest(format!("{}:{}", self.format.as_str(), self.foreign_id).as_bytes());
        let mut random = [0; 10];
        random.copy_from_slice(&hash[..10]);
        let millis = u64::try_from(began.as_millisecond()).unwrap_or_default();
        let uuid = Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
        uuid.to_string().parse().unwrap_or(self.id)
    }

    fn open_turn(&mut self) -> &mut OpenTurn {
        let turn = self.turn.take().unwrap_or_else(|| self.begin_turn());
        self.turn.insert(turn)
    }

    fn begin_turn(&mut self) -> OpenTurn {
        let (id, trace_id, is_first) = (TurnId::generate(), TraceId::generate(), self.events.is_empty());
        let program = self.format.program();
        let kind = EventKind::TurnStarted {
            trace_id,
            slot: Slot::Base,
            model: self.model.clone(),
            reason: format!("imported from {program}"),
            rule: ChoiceRule::Default,
            max_steps: 0,
            compacts: false,
            environment: Default::default(),
            handed_over: Vec::new(),
            answer_schema: None,
            options: None,
        };
        let start = self.events.len();
        self.push(Some(id), kind);
        if is_first {
            let text = format!(
                "This history comes from {program}. Its tools belong to that program and are not available; files may \
                 have changed since."
            );
            self.complete_item(Item::new(id, ItemBody::notice(text)));
        }
        let result = TurnResult {
            turn_id: id,
            trace_id,
            text: String::new(),
            tool_used: false,
            stop_reason: StopReason::Completed,
            error: None,
            steps: 0,
            usage: Usage::default(),
            denials: Vec::new(),
            files: Vec::new(),
            duration_ms: 0,
            only_compacted: false,
        };
        OpenTurn { start, began: self.at, calls: HashMap::new(), failed: HashSet::new(), has_work: false, result }
    }

    fn item(&mut self, body: ItemBody, is_work: bool) {
        let mark = format!("{}/{}", self.format.as_str(), self.model);
        let turn = self.open_turn();
        turn.has_work |= is_work;
        let mut item = Item::new(turn.result.turn_id, body);
        // Records the other application's model as the origin of its answers.
        if !matches!(item.body, ItemBody::UserMessage { .. } | ItemBody::Notice { .. } | ItemBody::ToolResult(_)) {
            item.origin = Some(Arc::new(ItemOrigin { model: mark, fields: ServerFields::default() }));
        }
        self.complete_item(item);
    }

    fn complete_item(&mut self, item: Item) {
        let turn = Some(item.turn_id);
        let mut started = item.clone();
        match &mut started.body {
            ItemBody::AgentMessage { text } | ItemBody::Reasoning { text } => text.clear(),
            ItemBody::ToolResult(result) => result.text.clear(),
            _ => {}
        }
        self.push(turn, EventKind::ItemStarted { item: started });
        self.push(turn, EventKind::ItemCompleted { item, status: ItemStatus::Done });
    }

    fn end_turn(&mut self) {
        let Some(OpenTurn { began, calls, result: mut ended, .. }) = self.turn.take() else { return };
        let mut open: Vec<_> = calls.into_values().flatten().collect();
        open.sort();
        for (call_id, name) in open {
            let text = "the history has no result for this call".to_owned();
            let error = Some(ToolErrorCode::UnknownOutcome);
            let result = ToolResult { text, error, ..ToolResult::empty(call_id, name) };
            self.complete_item(Item::new(ended.turn_id, ItemBody::ToolResult(result)));
        }
        ended.duration_ms = u64::try_from(self.at.duration_since(began).as_millis()).unwrap_or_default();
        self.push(Some(ended.turn_id), EventKind::TurnEnded { result: Box::new(ended) });
    }

    fn push(&mut self, turn_id: Option<TurnId>, kind: EventKind) {
        let seq = self.events.len() as u64 + 1;
        self.events.push(Event { session_id: self.id, turn_id, seq, at: self.at, kind });
    }
}

/// Truncates a text to [`MAX_TEXT`].
fn truncate(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT);
    format!("{}\n… ({} more bytes omitted)", &text[..end], text.len() - end)
}

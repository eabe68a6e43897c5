//! Running server process and the communication with it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::ports::{ConfinedProcess, ProgramEnd};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::Instant;

use super::{
    DiskChange, OpenText, Question, Reply, ServerAnswer, ServerError, ServerParts,
    documents::{Checks, Documents, FindingSources, TextChange},
    requests::{Loading, PendingRequest, RETRY_DELAY, RETRYABLE, RequestKind, Requests, RetryTime},
    streams::Streams,
};
use crate::{
    message::{self, IncomingMessage, RpcError},
    protocol::{FindingReport, PublishedFindings, findings, initialize, one_line, uri_of_path, uri_to_path},
};

/// Number of consecutive timeouts after which a server counts as hanging.
const MAX_TIMEOUTS: u32 = 3;
/// Maximum number of settings sections in one answer.
const MAX_SECTIONS: usize = 200;

/// Reason why a server does not work, as a message.
pub(super) type Breakdown = String;

pub(super) struct Connection {
    parts: Arc<ServerParts>,
    /// Time until which a silent server is assumed to be loading the project.
    loads_until: Instant,
    /// Path of the project inside the server's sandbox.
    project_path: PathBuf,
    pub(super) streams: Streams,
    pub(super) ended: BoxFuture<'static, ProgramEnd>,
    pub(super) documents: Documents,
    pub(super) checks: Checks,
    requests: Requests,
    loading: Loading,
    pub(super) is_ready: bool,
    /// True if the server supports pull diagnostics.
    pub(super) is_pulled: bool,
    silences: u32,
    answered_once: bool,
    /// True if the server has answered since this field was last reset.
    pub(super) has_answered: bool,
}

impl Connection {
    /// Starts communicating with a new process.
    pub(super) fn begin(parts: Arc<ServerParts>, process: ConfinedProcess) -> Result<Self, Breakdown> {
        let ConfinedProcess { folder: project_path, input, output, ended } = process;
        let streams = Streams::open(input, output).map_err(|error| format!("its pipes cannot be used: {error}"))?;
        let root =
            if parts.root.as_os_str().is_empty() { project_path.clone() } else { project_path.join(&parts.root) };
        let mut connection = Self {
            loads_until: Instant::now() + parts.limits.start_timeout,
            parts,
            project_path,
            streams,
            ended,
            documents: Documents::default(),
            checks: Checks::default(),
            requests: Requests::default(),
            loading: Loading::default(),
            is_ready: false,
            is_pulled: false,
            silences: 0,
            answered_once: false,
            has_answered: false,
        };
        let first = PendingRequest::new(RequestKind::Initialize, connection.loads_until);
        connection.request("initialize", &initialize(&root), first)?;
        Ok(connection)
    }

    // --- Sending ---

    fn send(&self, frame: Vec<u8>) -> Result<(), Breakdown> {
        if self.streams.send(frame) { Ok(()) } else { Err("it does not read its input".to_owned()) }
    }

    fn request(&mut self, method: &str, params: &Value, request: PendingRequest) -> Result<(), Breakdown> {
        let id = self.requests.add(request);
        self.send(message::request(id, method, params))
    }

    fn address(&self, below: &Path) -> String {
        uri_of_path(&self.project_path.join(below))
    }

    /// Sends a text, which is either the text on disk or an earlier text.
    pub(super) fn sync(&mut self, file: &OpenText, is_of_disk: bool) -> Result<(), Breakdown> {
        let OpenText { below, text, stamp } = file;
        let change = self.documents.set(below, text, stamp.filter(|_| is_of_disk), Instant::now());
        let address = self.address(below);
        let version = self.documents.get(below).map_or(0, |document| document.version);
        match change {
            TextChange::Unchanged => return Ok(()),
            TextChange::Opened => {
                let language = self.parts.config.language_of(below).unwrap_or_default();
                let document = json!({"uri": address, "languageId": language, "version": version, "text": &**text});
                self.send(message::notification("textDocument/didOpen", &json!({"textDocument": document})))?;
            }
            TextChange::Changed => {
                let document = json!({"uri": address, "version": version});
                let params = json!({"textDocument": document, "contentChanges": [{"text": &**text}]});
                self.send(message::notification("textDocument/didChange", &params))?;
                if is_of_disk {
                    let params = json!({"textDocument": {"uri": address}});
                    self.send(message::notification("textDocument/didSave", &params))?;
                }
            }
        }
        let mut waited_for = self.checks.files();
        waited_for.push(below.clone());
        while let Some(excess) = self.documents.excess_document(&waited_for) {
            self.close(&excess)?;
        }
        Ok(())
    }

    pub(super) fn close(&mut self, below: &Path) -> Result<(), Breakdown> {
        if !self.documents.close(below) {
            return Ok(());
        }
        let params = json!({"textDocument": {"uri": self.address(below)}});
        self.send(message::notification("textDocument/didClose", &params))
    }

    /// Notifies the server of changes on disk, because the server cannot watch the files itself.
    pub(super) fn notify_changed(&mut self, files: &[(PathBuf, DiskChange)]) -> Result<(), Breakdown> {
        if files.is_empty() {
            return Ok(());
        }
        let change =
            |(below, change): &(PathBuf, DiskChange)| json!({"uri": self.address(below), "type": *change as u8});
        let changes: Vec<Value> = files.iter().map(change).collect();
        self.documents.changed(Instant::now());
        self.send(message::notification("workspace/didChangeWatchedFiles", &json!({"changes": changes})))
    }

    /// Requests a file's findings if the server supports such requests. Otherwise, the server publishes findings by
    /// itself.
    pub(super) fn pull(&mut self, below: &Path) -> Result<(), Breakdown> {
        let Some(document) = self.documents.get(below).filter(|_| self.is_pulled) else { return Ok(()) };
        let is_known = document.findings(FindingSources::Pulled, None, Instant::now()).is_some();
        if is_known || self.requests.is_pulling(below) {
            return Ok(());
        }
        let kind = RequestKind::Pull { below: below.to_path_buf(), generation: self.documents.generation };
        self.retry(PendingRequest::new(kind, self.deadline()))
    }

    /// Repeats the requests for all findings that a check waits for.
    fn pull_again(&mut self) -> Result<(), Breakdown> {
        self.documents.forget_pulled();
        self.pull_awaited()
    }

    fn pull_awaited(&mut self) -> Result<(), Breakdown> {
        self.checks.files().iter().try_for_each(|below| self.pull(below))
    }

    pub(super) fn ask(
        &mut self,
        below: &Path,
        question: Question,
        reply: Reply<ServerAnswer>,
    ) -> Result<(), Breakdown> {
        let Question { method, position, more } = question;
        let mut params = json!({
            "textDocument": {"uri": self.address(below)},
            "position": {"line": position.line, "character": position.character},
        });
        for (name, value) in more {
            params[name] = value;
        }
        self.retry(PendingRequest::new(RequestKind::Question { method, params, reply }, self.deadline()))
    }

    /// Sends a request, initially or as a retry.
    fn retry(&mut self, mut request: PendingRequest) -> Result<(), Breakdown> {
        let (method, params) = match &mut request.kind {
            RequestKind::Initialize => return Ok(()),
            // The findings of a closed file are no longer needed.
            RequestKind::Pull { below, .. } if self.documents.get(below).is_none() => return Ok(()),
            RequestKind::Pull { below, generation } => {
                *generation = self.documents.generation;
                ("textDocument/diagnostic", json!({"textDocument": {"uri": self.address(below)}}))
            }
            RequestKind::Question { method, params, .. } => (*method, params.clone()),
        };
        self.request(method, &params, request)
    }

    /// Returns the deadline for a request sent now. A server that has just started may still be loading the project.
    pub(super) fn deadline(&self) -> Instant {
        let deadline = Instant::now() + self.parts.limits.request_timeout;
        if self.answered_once { deadline } else { deadline.max(self.loads_until) }
    }

    pub(super) fn shut_down(&mut self) {
        let id = self.requests.next_id();
        let _ = self.send(message::request(id, "shutdown", &Value::Null));
        let _ = self.send(message::notification("exit", &Value::Null));
    }

    // --- Receiving ---

    pub(super) fn take(&mut self, message: IncomingMessage) -> Result<(), Breakdown> {
        // A server that sends any message is not hanging.
        self.silences = 0;
        let was_loading = self.loading.is_loading(Instant::now());
        match message {
            IncomingMessage::Answer { id, result } => self.handle_answer(id, result)?,
            IncomingMessage::Request { id, method, params } => self.handle_request(&id, &method, params.as_deref())?,
            IncomingMessage::Notification { method, params } => self.handle_notification(&method, params.as_deref()),
            IncomingMessage::Meaningless => return Ok(()),
        }
        if was_loading && !self.loading.is_loading(Instant::now()) {
            self.pull_again()?;
        }
        self.process_timers()
    }

    /// Sends due retries, and answers checks whose findings are complete.
    pub(super) fn process_timers(&mut self) -> Result<(), Breakdown> {
        let now = Instant::now();
        for request in self.requests.due(now, self.loading.is_loading(now)) {
            self.retry(request)?;
        }
        self.checks.forget_closed();
        let closed =
            ServerError::transient(format!("a file was closed before {} had checked it", self.parts.config.name));
        self.checks.answer(&self.documents, self.is_pulled, now, &closed);
        Ok(())
    }

    fn record_answer(&mut self) {
        (self.has_answered, self.answered_once) = (true, true);
    }

    fn handle_answer(&mut self, id: i64, result: Result<Option<Box<RawValue>>, RpcError>) -> Result<(), Breakdown> {
        let Some(mut request) = self.requests.take_answered(id) else { return Ok(()) };
        let now = Instant::now();
        // An answer while the project is loading is incomplete.
        if self.loading.is_loading(now) && request.count_retry() {
            self.requests.keep(RetryTime::Loaded, request);
            return Ok(());
        }
        if result.as_ref().is_err_and(|error| RETRYABLE.contains(&error.code)) && request.count_retry() {
            self.requests.keep(RetryTime::At(now + RETRY_DELAY), request);
            return Ok(());
        }
        match (request.kind, result) {
            (RequestKind::Initialize, Ok(result)) => {
                let result: Map<String, Value> = read(result.as_deref()).ok_or("invalid answer to initialize")?;
                let provider = result.get("capabilities").and_then(|abilities| abilities.get("diagnosticProvider"));
                self.is_ready = true;
                self.is_pulled |= !matches!(provider, None | Some(Value::Null | Value::Bool(false)));
                self.send(message::notification("initialized", &json!({})))?;
            }
            (RequestKind::Initialize, Err(error)) => return Err(format!("initialize failed: {}", error_line(&error))),
            (RequestKind::Pull { below, generation }, Ok(result)) => {
                // A null result is not an answer. Some servers return it for a file that they have not loaded yet.
                let Some(result) = result else { return Ok(()) };
                let report: FindingReport = read(Some(&*result)).ok_or("invalid diagnostics")?;
                if self.documents.pull(&below, generation, findings(report.items).into()) {
                    self.record_answer();
                }
                // Findings for other files may be outdated by now.
                self.pull_awaited()?;
            }
            // The server publishes the findings by itself, or the check times out.
            (RequestKind::Pull { .. }, Err(_)) => {}
            (RequestKind::Question { reply, .. }, Ok(result)) => {
                self.record_answer();
                let _ = reply.send(Ok(ServerAnswer { result, folder: self.project_path.clone() }));
            }
            (RequestKind::Question { reply, .. }, Err(error)) => {
                let message = format!("{} cannot answer: {}", self.parts.config.name, error_line(&error));
                let _ = reply.send(Err(ServerError::transient(message)));
            }
        }
        Ok(())
    }

    fn handle_request(&mut self, id: &Value, method: &str, params: Option<&RawValue>) -> Result<(), Breakdown> {
        let listed = |key: &str| match read::<Map<String, Value>>(params).and_then(|mut params| params.remove(key)) {
            Some(Value::Array(listed)) => listed,
            _ => Vec::new(),
        };
        let result = match method {
            "workspace/configuration" => Some(Value::Array(vec![Value::Null; listed("items").len().min(MAX_SECTIONS)])),
            "client/registerCapability" => {
                if listed("registrations").iter().any(|one| one["method"] == "textDocument/diagnostic") {
                    self.is_pulled = true;
                    self.pull_again()?;
                }
                Some(Value::Null)
            }
            "workspace/diagnostic/refresh" => {
                self.pull_again()?;
                Some(Value::Null)
            }
            "workspace/applyEdit" => Some(json!({"applied": false})),
            "client/unregisterCapability"
            | "window/workDoneProgress/create"
            | "window/showMessageRequest"
            | "workspace/workspaceFolders"
            | "workspace/codeLens/refresh"
            | "workspace/inlayHint/refresh"
            | "workspace/semanticTokens/refresh" => Some(Value::Null),
            _ => None,
        };
        self.send(message::answer(id, result.as_ref()))
    }

    fn handle_notification(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            "textDocument/publishDiagnostics" => self.handle_diagnostics(params),
            "$/progress" => {
                if let Some(progress) = read(params) {
                    self.loading.progress(&progress, Instant::now());
                }
            }
            "experimental/serverStatus" => {
                let status: Option<Map<String, Value>> = read(params);
                let is_quiescent = status.and_then(|status| status.get("quiescent")?.as_bool());
                self.loading.is_quiescent = is_quiescent.or(self.loading.is_quiescent);
            }
            _ => {}
        }
    }

    fn handle_diagnostics(&mut self, params: Option<&RawValue>) {
        let Some(PublishedFindings { uri, version, diagnostics }) = read(params) else { return };
        let path = uri_to_path(&uri);
        if let Some(below) = path.as_deref().and_then(|path| path.strip_prefix(&self.project_path).ok()) {
            let is_open = self.documents.publish(below, version, findings(diagnostics).into(), Instant::now());
            if is_open && !self.is_pulled {
                self.record_answer();
            }
        }
    }

    // --- Timers ---

    /// Expires requests and checks that have reached their deadline.
    pub(super) fn expire(&mut self, now: Instant) -> Result<(), Breakdown> {
        let name = &self.parts.config.name;
        let is_loading = self.loading.is_loading(now);
        let error_late = ServerError::transient(if is_loading {
            format!("{name} is still loading the project; retry later, or use grep")
        } else {
            format!("{name} did not answer within {} s", self.parts.limits.request_timeout.as_secs_f64())
        });
        let mut is_silent = self.checks.expire(now, &error_late);
        for (id, request) in self.requests.expired(now) {
            if let Some(id) = id {
                self.send(message::notification("$/cancelRequest", &json!({"id": id})))?;
            }
            match request.kind {
                RequestKind::Initialize => return Err("it was not ready in time".to_owned()),
                RequestKind::Question { reply, .. } => {
                    is_silent |= id.is_some();
                    let _ = reply.send(Err(error_late.clone()));
                }
                // The check that waits for the findings also has a deadline.
                RequestKind::Pull { .. } => {}
            }
        }
        let may_load = is_loading || (!self.answered_once && now < self.loads_until);
        self.silences += u32::from(is_silent && !may_load);
        if self.silences >= MAX_TIMEOUTS { Err("it stopped answering".to_owned()) } else { Ok(()) }
    }

    /// Returns the time of the next timer.
    pub(super) fn next_timer(&self, now: Instant) -> Option<Instant> {
        let requests = self.requests.next_timer();
        requests.into_iter().chain(self.checks.next_timer(&self.documents, self.is_pulled, now)).min()
    }

    /// Returns true if no request or check is pending.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.checks.0.is_empty()
    }

    /// Fails all pending requests and checks.
    pub(super) fn fail(&mut self, error: &ServerError) {
        self.checks.fail(error);
        self.requests.fail(error);
    }
}

fn read<T: DeserializeOwned>(value: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(value.map_or("null", RawValue::get)).ok()
}

fn error_line(error: &RpcError) -> String {
    one_line(&error.message, 200)
}

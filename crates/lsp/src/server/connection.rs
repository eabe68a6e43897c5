//! A process that runs, and the conversation with it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentd_core::ports::ConfinedProcess;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};
use tokio::time::Instant;

use super::{
    OpenText, Reply, ServerAnswer, ServerError,
    checks::Checks,
    documents::{Documents, Telling},
    streams::Streams,
};
use crate::{
    config::{LanguageLimits, ServerConfig},
    message::{self, Incoming, RpcError},
    protocol::{
        Capabilities, ConfigurationItems, FindingReport, InitializeResult, PublishedFindings, Registrations, findings,
        initialize,
    },
    source, uri,
};

/// Codes of answers that say that the text has changed meanwhile, or that it was cancelled: it is asked again.
const TRY_AGAIN: [i64; 2] = [-32801, -32802];
/// Times that it is.
const MOST_TRIES: u32 = 4;
/// Answers that do not come, in a row, after which a server counts as hanging.
const MOST_SILENCES: u32 = 3;
/// Sections of settings that are answered at once.
const MAX_SECTIONS: usize = 200;

/// A server that does not work. The sentence says how.
pub(super) type Broken = String;

/// Request that was not answered yet.
enum PendingRequest {
    Initialize,
    /// Findings of a file.
    Pull {
        below: PathBuf,
        version: i32,
        tries: u32,
    },
    Question(Reply<ServerAnswer>),
}

pub(super) struct Connection {
    config: Arc<ServerConfig>,
    timeout: Duration,
    /// The folder of the person, really, and under the server's name.
    folder: PathBuf,
    named: PathBuf,
    pub(super) streams: Streams,
    pub(super) ended: BoxFuture<'static, String>,
    pub(super) documents: Documents,
    pub(super) checks: Checks,
    asked: HashMap<i64, (Instant, PendingRequest)>,
    last_id: i64,
    pub(super) is_ready: bool,
    is_pulled: bool,
    silences: u32,
    /// Set if it has answered since this was last looked at.
    pub(super) has_answered: bool,
}

impl Connection {
    /// Begins the conversation with a process that has just started.
    pub(super) fn begin(
        config: Arc<ServerConfig>,
        limits: &LanguageLimits,
        folder: &Path,
        root: &Path,
        process: ConfinedProcess,
    ) -> Result<Self, Broken> {
        let ConfinedProcess { folder: named, input, output, ended } = process;
        let streams = Streams::open(input, output).map_err(|error| format!("its pipes cannot be used: {error}"))?;
        let mut connection = Self {
            config,
            timeout: limits.request_timeout,
            folder: folder.to_path_buf(),
            named,
            streams,
            ended,
            documents: Documents::default(),
            checks: Checks::default(),
            asked: HashMap::new(),
            last_id: 0,
            is_ready: false,
            is_pulled: false,
            silences: 0,
            has_answered: false,
        };
        let root = if root.as_os_str().is_empty() { connection.named.clone() } else { connection.named.join(root) };
        let params = initialize(&root);
        connection.request("initialize", &params, limits.start_timeout, PendingRequest::Initialize)?;
        Ok(connection)
    }

    // --- What it is told ---

    fn send(&self, frame: Vec<u8>) -> Result<(), Broken> {
        if self.streams.send(frame) { Ok(()) } else { Err("it does not read what it is sent".to_owned()) }
    }

    fn request(&mut self, method: &str, params: &Value, limit: Duration, asked: PendingRequest) -> Result<(), Broken> {
        self.last_id += 1;
        self.asked.insert(self.last_id, (Instant::now() + limit, asked));
        self.send(message::request(self.last_id, method, params))
    }

    fn address(&self, below: &Path) -> String {
        uri::of_path(&self.named.join(below))
    }

    /// Tells it of a text.
    pub(super) fn sync(&mut self, file: &OpenText, follows_disk: bool) -> Result<(), Broken> {
        let OpenText { below, text } = file;
        let stamp = if follows_disk { source::stamp(&self.folder.join(below)) } else { None };
        let telling = self.documents.set(below, text, stamp, Instant::now());
        let address = self.address(below);
        let version = self.documents.get(below).map_or(0, |document| document.version);
        match telling {
            Telling::Nothing => return Ok(()),
            Telling::Open => {
                let language = language_of(&self.config, below);
                let document = json!({"uri": address, "languageId": language, "version": version, "text": &**text});
                self.send(message::notification("textDocument/didOpen", &json!({"textDocument": document})))?;
            }
            Telling::Change => {
                let document = json!({"uri": address, "version": version});
                let params = json!({"textDocument": document, "contentChanges": [{"text": &**text}]});
                self.send(message::notification("textDocument/didChange", &params))?;
                if follows_disk {
                    let params = json!({"textDocument": {"uri": address}});
                    self.send(message::notification("textDocument/didSave", &params))?;
                }
            }
        }
        if let Some(surplus) = self.documents.surplus() {
            self.close(&surplus)?;
        }
        Ok(())
    }

    /// Tells it that a file is nobody's any more.
    pub(super) fn close(&mut self, below: &Path) -> Result<(), Broken> {
        if !self.documents.close(below) {
            return Ok(());
        }
        let params = json!({"textDocument": {"uri": self.address(below)}});
        self.send(message::notification("textDocument/didClose", &params))
    }

    /// Tells it of changes on the disk: it cannot see them by itself.
    pub(super) fn tell_changed(&mut self, files: &[(PathBuf, super::DiskChange)]) -> Result<(), Broken> {
        let change =
            |(below, change): &(PathBuf, super::DiskChange)| json!({"uri": self.address(below), "type": *change as u8});
        let changes: Vec<Value> = files.iter().map(change).collect();
        self.send(message::notification("workspace/didChangeWatchedFiles", &json!({"changes": changes})))
    }

    /// Asks it for findings, if it can be asked. Else it tells them by itself.
    pub(super) fn pull(&mut self, below: &Path, tries: u32) -> Result<(), Broken> {
        let Some(document) = self.documents.get(below).filter(|_| self.is_pulled) else { return Ok(()) };
        if document.findings(true, Instant::now()).is_some() {
            return Ok(());
        }
        let asked = PendingRequest::Pull { below: below.to_path_buf(), version: document.version, tries };
        let params = json!({"textDocument": {"uri": self.address(below)}});
        self.request("textDocument/diagnostic", &params, self.timeout, asked)
    }

    /// Asks it anew for the findings that somebody waits for.
    fn pull_again(&mut self) -> Result<(), Broken> {
        self.documents.forget_pulled();
        self.checks.files().iter().try_for_each(|below| self.pull(below, 0))
    }

    /// Asks it about a place.
    pub(super) fn ask(
        &mut self,
        below: &Path,
        question: super::Question,
        reply: Reply<ServerAnswer>,
    ) -> Result<(), Broken> {
        let super::Question { method, position, more } = question;
        let mut params = json!({
            "textDocument": {"uri": self.address(below)},
            "position": {"line": position.line, "character": position.character},
        });
        for (name, value) in more {
            params[name] = value;
        }
        self.request(method, &params, self.timeout, PendingRequest::Question(reply))
    }

    /// Asks it to end.
    pub(super) fn ask_to_end(&mut self) {
        self.last_id += 1;
        let _ = self.send(message::request(self.last_id, "shutdown", &Value::Null));
        let _ = self.send(message::notification("exit", &Value::Null));
    }

    // --- What it says ---

    /// Takes in a message.
    pub(super) fn take(&mut self, message: Incoming) -> Result<(), Broken> {
        match message {
            Incoming::Answer { id, result } => self.answered(id, result)?,
            Incoming::Request { id, method, params } => self.requested(&id, &method, params.as_deref())?,
            Incoming::Notification { method, params } if method == "textDocument/publishDiagnostics" => {
                self.published(params.as_deref());
            }
            Incoming::Notification { .. } => return Ok(()),
        }
        self.settle();
        Ok(())
    }

    /// Answers those whose findings are whole.
    pub(super) fn settle(&mut self) {
        if self.checks.answer(&self.documents, self.is_pulled, Instant::now()) {
            (self.has_answered, self.silences) = (true, 0);
        }
    }

    fn answered(&mut self, id: i64, result: Result<Option<Box<RawValue>>, RpcError>) -> Result<(), Broken> {
        // One that nobody waits for any more.
        let Some((_, asked)) = self.asked.remove(&id) else { return Ok(()) };
        match (asked, result) {
            (PendingRequest::Initialize, Ok(result)) => {
                let InitializeResult { capabilities } =
                    read(result.as_deref()).ok_or("its answer to initialize makes no sense")?;
                self.initialized(&capabilities)?;
            }
            (PendingRequest::Initialize, Err(error)) => return Err(format!("it refused to begin: {}", told(&error))),
            (PendingRequest::Pull { below, version, .. }, Ok(result)) => {
                let report: FindingReport = read(result.as_deref()).ok_or("its findings make no sense")?;
                self.documents.pull(&below, version, findings(report.items).into());
            }
            (PendingRequest::Pull { below, tries, .. }, Err(error))
                if TRY_AGAIN.contains(&error.code) && tries < MOST_TRIES =>
            {
                self.pull(&below, tries + 1)?;
            }
            // It tells them by itself, or the wait ends.
            (PendingRequest::Pull { .. }, Err(_)) => {}
            (PendingRequest::Question(reply), Ok(result)) => {
                (self.has_answered, self.silences) = (true, 0);
                let _ = reply.send(Ok(ServerAnswer { result, folder: self.named.clone() }));
            }
            (PendingRequest::Question(reply), Err(error)) => {
                let message = format!("{} cannot answer that: {}", self.config.name, told(&error));
                let _ = reply.send(Err(ServerError { message, given_up: false }));
            }
        }
        Ok(())
    }

    fn initialized(&mut self, capabilities: &Capabilities) -> Result<(), Broken> {
        self.is_ready = true;
        self.is_pulled |= capabilities.can_be_pulled();
        self.send(message::notification("initialized", &json!({})))
    }

    fn requested(&mut self, id: &Value, method: &str, params: Option<&RawValue>) -> Result<(), Broken> {
        let result = match method {
            "workspace/configuration" => {
                let ConfigurationItems { items } = read(params).ok_or("it asks for settings that make no sense")?;
                Some(Value::Array(vec![Value::Null; items.len().min(MAX_SECTIONS)]))
            }
            "client/registerCapability" => {
                let Registrations { registrations } = read(params).ok_or("it announces what makes no sense")?;
                if registrations.iter().any(|one| one.method == "textDocument/diagnostic") {
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

    fn published(&mut self, params: Option<&RawValue>) {
        let Some(PublishedFindings { uri, version, diagnostics }) = read(params) else { return };
        let path = uri::to_path(&uri);
        if let Some(below) = path.as_deref().and_then(|path| path.strip_prefix(&self.named).ok()) {
            self.documents.publish(below, version, findings(diagnostics).into(), Instant::now());
        }
    }

    // --- Time ---

    /// Gives up what was waited for long enough.
    pub(super) fn expire(&mut self, now: Instant) -> Result<(), Broken> {
        let over: Vec<i64> = self.asked.iter().filter(|(_, (at, _))| *at <= now).map(|(id, _)| *id).collect();
        let late = ServerError {
            message: format!("{} did not answer within {} s", self.config.name, self.timeout.as_secs_f64()),
            given_up: false,
        };
        let mut is_silent = self.checks.expire(now, &late);
        for id in over {
            let asked = self.asked.remove(&id);
            self.send(message::notification("$/cancelRequest", &json!({"id": id})))?;
            match asked {
                Some((_, PendingRequest::Initialize)) => return Err("it did not get ready in time".to_owned()),
                Some((_, PendingRequest::Question(reply))) => {
                    is_silent = true;
                    let _ = reply.send(Err(late.clone()));
                }
                // Whoever waits for its findings has a deadline too.
                Some((_, PendingRequest::Pull { .. })) | None => {}
            }
        }
        self.silences += u32::from(is_silent);
        if self.silences >= MOST_SILENCES { Err("it does not answer any more".to_owned()) } else { Ok(()) }
    }

    /// When the next thing is due.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let asked = self.asked.values().map(|(at, _)| *at).min();
        asked.into_iter().chain(self.checks.next_look(&self.documents, self.is_pulled, now)).min()
    }

    /// Returns whether nobody waits for it.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.checks.is_empty()
    }

    /// Tells all who wait.
    pub(super) fn fail(&mut self, error: &ServerError) {
        self.checks.fail(error);
        for (_, (_, asked)) in self.asked.drain() {
            if let PendingRequest::Question(reply) = asked {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
}

fn read<T: DeserializeOwned>(value: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(value.map_or("null", RawValue::get)).ok()
}

fn told(error: &RpcError) -> String {
    crate::clean::line(&error.message, 200)
}

/// The name that servers have for the language of a file.
fn language_of(config: &ServerConfig, below: &Path) -> String {
    let extension = below.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    config.languages.get(extension).cloned().unwrap_or_else(|| extension.to_owned())
}

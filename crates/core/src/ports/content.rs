//! Ports for content from outside the daemon: documents, pictures, source code (including language servers), and the
//! web.
//!
//! Also the context of a tool call apart from its arguments: rules for files, the client that has files open, and
//! handles for asking the user and the model.

use std::{
    fmt::{self, Debug},
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{
    client_file::{ClientFileAnswer, FileAction, NoAnswer},
    code::{CodeProgress, CodeQuestion, CodeReply},
    embedding::{EmbeddingReport, SimilarTexts, TextGroup},
    error::{CodeError, ErrorKind, KnowledgeError, ModelError, ModelFuture, WebError, WorkspaceFuture},
    files::PreparedPicture,
    ids::SessionId,
    interrupt::{Answer, Ask},
    knowledge::{
        DocumentExport, DocumentFinds, DocumentProgress, DocumentQuery, DocumentState, KnowledgeStats, OpenDocument,
        PartRange, Reading,
    },
    language::{
        Diagnostic, LanguageError, LanguageNews, Patience, SourceFile, SourceLocation, SourcePosition, SourceRewrite,
    },
    model::Message,
    ports::Workspace,
    tool::FileChangeKind,
    web::{WebAnswer, WebRequest, WebSearchHit},
};

/// Reads the code in folders and answers questions about it. A folder is indexed on first use, and the index is shared
/// by all callers and updated automatically. Parsing is isolated: failures caused by the code are returned as errors.
pub trait CodeReader: Debug + Send + Sync {
    /// Answers a question about a folder of the user, specified by its real path. Dropping the future does not stop the
    /// indexing.
    fn ask(
        &self,
        folder: PathBuf,
        question: CodeQuestion,
        progress: OnCodeProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<CodeReply, CodeError>>;
}

/// Callback for the progress of indexing. Called frequently, so it must not block.
pub type OnCodeProgress = Arc<dyn Fn(CodeProgress) + Send + Sync>;

/// Reads and searches documents. Parsing is isolated: every failure is returned as an error and does not affect other
/// documents.
pub trait Knowledge: Debug + Send + Sync {
    /// Returns true if the file is a document that must be parsed, based on its first bytes and its name. Returns false
    /// for plain text.
    fn is_document(&self, name: &str, head: &[u8]) -> bool;

    /// Returns the reason why a file that is neither a document nor text cannot be read, based on its first bytes.
    /// Returns `None` if the kind of the file is unknown.
    fn refusal(&self, _name: &str, _head: &[u8]) -> Option<String> {
        None
    }

    /// Reads parts of a document. Reports progress if reading takes a long time.
    fn read(
        &self,
        document: OpenDocument,
        range: PartRange,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Reading, KnowledgeError>>;

    /// Converts one sheet of a workbook to CSV, or any other document to text. `sheet` is the number of the sheet,
    /// starting at 1. Reports progress like [`Self::read`].
    fn export(
        &self,
        _document: OpenDocument,
        _sheet: u32,
        _progress: OnProgress,
        _cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<DocumentExport, KnowledgeError>> {
        let error = KnowledgeError::new(ErrorKind::Configuration, "this agentd converts no documents");
        Box::pin(std::future::ready(Err(error)))
    }

    /// Searches only these documents. Indexes documents that are not indexed yet, with progress reports.
    fn search(
        &self,
        documents: Vec<OpenDocument>,
        query: DocumentQuery,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<DocumentFinds, KnowledgeError>>;

    /// Indexes documents that are not indexed yet, or all documents if `again` is true, and returns their states. If a
    /// document cannot be read, its state contains the problem, and the remaining documents are still indexed.
    fn ingest(
        &self,
        documents: Vec<OpenDocument>,
        again: bool,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>>;

    /// Returns the texts of a document to embed, after indexing it. Returns no texts if embeddings do not cover it.
    fn texts(&self, _: OpenDocument, _: CancellationToken) -> BoxFuture<'_, Result<TextGroup, KnowledgeError>> {
        Box::pin(std::future::ready(Ok(TextGroup::default())))
    }

    /// Returns the states of these documents without reading the documents.
    fn states(&self, documents: Vec<OpenDocument>) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>>;

    /// Returns the size of the index, which all sessions share.
    fn stats(&self) -> BoxFuture<'_, Result<KnowledgeStats, KnowledgeError>>;
}

/// Finds texts by their meaning, with vectors that a server computes.
pub trait Embeddings: Send + Sync {
    /// Returns true if the settings name the folder of this real path. Only such texts may be passed.
    fn covers(&self, path: &Path) -> bool;

    /// Adds the texts of a group that have no vector to the report. If the report is about sent texts, sends them to the
    /// server. Vectors that were received before an error or a cancellation are retained.
    fn add<'a>(&'a self, group: &'a TextGroup, report: &'a mut EmbeddingReport) -> ModelFuture<'a, ()>;

    /// Finds the texts of groups that are similar to a query, with a note if some can only be found by words. Takes at
    /// most a few seconds. Each note is returned once.
    fn nearest<'a>(&'a self, query: &'a str, groups: &'a [String]) -> BoxFuture<'a, (SimilarTexts, Option<String>)>;
}

/// Callback for the progress of documents. Called frequently, so it must not block.
pub type OnProgress = Arc<dyn Fn(DocumentProgress) + Send + Sync>;

/// Queries language servers about source code. Servers are isolated: a misbehaving server only causes a bounded wait.
pub trait Languages: Debug + Send + Sync {
    /// Returns true if there is a server for files with this name.
    fn knows(&self, file: &SourceFile) -> bool;

    /// Records the start of a turn. Unreported findings of an earlier turn are checked again before they are reported.
    fn begin_turn(&self, session: SessionId) -> BoxFuture<'_, ()>;

    /// Discards the state of a session that is no longer used.
    fn end_session(&self, session: SessionId);

    /// Records the current state of files that a call is about to change, and starts the servers for these files.
    fn before_edit(&self, session: SessionId, files: Vec<SourceFile>) -> BoxFuture<'_, ()>;

    /// Records files that a call has changed or removed. Includes files in other languages, because diagnostics may
    /// depend on them.
    fn after_edit(&self, session: SessionId, files: Vec<(SourceFile, FileChangeKind)>) -> BoxFuture<'_, ()>;

    /// Returns errors that are new since the session's edits, each only once. Waits at most for the configured time;
    /// later errors are returned by the next call.
    fn news(&self, session: SessionId, patience: Patience) -> BoxFuture<'_, LanguageNews>;

    /// Returns the latest diagnostics of running servers for files of a workspace, sorted by file and position.
    fn last_diagnostics(&self, workspace: Arc<Workspace>) -> BoxFuture<'_, Vec<Diagnostic>>;

    /// Returns the diagnostics of a file, sorted by position.
    fn diagnostics(&self, file: SourceFile) -> BoxFuture<'_, Result<Vec<Diagnostic>, LanguageError>>;

    /// Returns the locations where a symbol is defined.
    fn definition(&self, at: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>>;

    /// Returns the locations where a symbol is used, including its definition.
    fn references(&self, at: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>>;

    /// Computes the edits that rename a symbol, without changing any file.
    fn rename(&self, at: SourcePosition, name: String) -> BoxFuture<'_, Result<Vec<SourceRewrite>, LanguageError>>;
}

/// Implementation without language servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLanguages;

impl NoLanguages {
    fn refuse<T: Send + 'static>(self) -> BoxFuture<'static, Result<T, LanguageError>> {
        Box::pin(std::future::ready(Err(LanguageError::new("no language server is available"))))
    }
}

impl Languages for NoLanguages {
    fn knows(&self, _: &SourceFile) -> bool {
        false
    }

    fn begin_turn(&self, _: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn end_session(&self, _: SessionId) {}

    fn before_edit(&self, _: SessionId, _: Vec<SourceFile>) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn after_edit(&self, _: SessionId, _: Vec<(SourceFile, FileChangeKind)>) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn news(&self, _: SessionId, _: Patience) -> BoxFuture<'_, LanguageNews> {
        Box::pin(std::future::ready(LanguageNews::default()))
    }

    fn last_diagnostics(&self, _: Arc<Workspace>) -> BoxFuture<'_, Vec<Diagnostic>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn diagnostics(&self, _: SourceFile) -> BoxFuture<'_, Result<Vec<Diagnostic>, LanguageError>> {
        self.refuse()
    }

    fn definition(&self, _: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>> {
        self.refuse()
    }

    fn references(&self, _: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>> {
        self.refuse()
    }

    fn rename(&self, _: SourcePosition, _: String) -> BoxFuture<'_, Result<Vec<SourceRewrite>, LanguageError>> {
        self.refuse()
    }
}

/// Prepares pictures for models.
pub trait Pictures: Send + Sync {
    /// Rotates a picture upright and scales it down to the size that models use. With `page`, draws that page of a PDF
    /// document, numbered from 1. Returns `None` if the bytes are not a picture of a supported type.
    ///
    /// # Errors
    /// Fails with kind `InvalidInput` and a hint if the picture is damaged or exceeds the limits, or if there is no such
    /// page.
    fn prepare<'a>(&'a self, content: &'a [u8], page: Option<u32>) -> WorkspaceFuture<'a, Option<PreparedPicture>>;
}

/// Sends requests to web servers. The implementation decides which servers may be accessed; arguments of a call cannot
/// change this decision. Dropping a future cancels the request and closes its connections.
pub trait Web: Debug + Send + Sync {
    /// Checks, without network access, that the request could be sent.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    fn check(&self, request: &WebRequest) -> Result<(), WebError>;

    /// Sends a request. Follows redirects as long as `rules` allow a model to access the target without approval. An
    /// answer with any status is a success.
    fn fetch(&self, request: WebRequest, rules: ReadRules) -> BoxFuture<'_, Result<WebAnswer, WebError>>;

    /// Queries the configured search engine for at most `limit` pages, best first.
    fn search(&self, query: String, limit: usize) -> BoxFuture<'_, Result<Vec<WebSearchHit>, WebError>>;
}

/// Client that has project files open during a turn. Tools only ask about paths that they could open themselves, and
/// treat the answers as untrusted.
pub trait ClientFiles: Debug + Send + Sync {
    /// Returns the current capabilities of the client, or `None` if there is no client and files are only read from
    /// disk.
    fn access(&self) -> Option<ClientFileAccess>;

    /// Sends a request about a file in the project. Returns within seconds, even if the client does not answer.
    fn ask<'a>(&'a self, path: &'a str, action: FileAction) -> BoxFuture<'a, Result<ClientFileAnswer, NoAnswer>>;
}

/// Capabilities of a client that has files open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFileAccess {
    /// The client can only return file text.
    Read,
    /// The client can return and accept file text.
    ReadWrite,
}

/// Handle for asking the user during a tool call. The default handle has no user to ask.
#[derive(Clone, Default)]
pub struct Person(Option<Arc<AskFn>>);

type AskFn = dyn Fn(Ask) -> BoxFuture<'static, Option<Answer>> + Send + Sync;

impl Person {
    /// Creates a handle that asks through this function. The function returns `None` if there is no answer because the
    /// turn was cancelled or runs unattended.
    pub fn new(ask: impl Fn(Ask) -> BoxFuture<'static, Option<Answer>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(ask)))
    }

    /// Asks the user, and waits for the answer without a time limit.
    pub async fn ask(&self, ask: Ask) -> Option<Answer> {
        match &self.0 {
            Some(asking) => asking(ask).await,
            None => None,
        }
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Person").field(&self.0.is_some()).finish()
    }
}

/// Rules for files that a call accesses without approval for their paths. A call may read a file if a model could read
/// the file without approval. Without rules, all files may be read.
#[derive(Clone, Default)]
pub struct ReadRules {
    read: Option<Arc<MayRead>>,
    change: Option<Arc<MayRead>>,
}

/// Predicate on paths that decides whether a file may be read or changed.
type MayRead = dyn Fn(&str) -> bool + Send + Sync;

impl ReadRules {
    /// Creates rules from a predicate on readable files.
    pub fn new(allow: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { read: Some(Arc::new(allow)), change: None }
    }

    /// Adds a predicate on files that the call may change without naming them.
    #[must_use]
    pub fn with_changes(self, allow: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { change: Some(Arc::new(allow)), ..self }
    }

    /// Returns true if the call may change this file in the same manner as the files that it names.
    pub fn allow_change(&self, path: &str) -> bool {
        self.allow(path) && self.change.as_ref().is_none_or(|allow| allow(path))
    }

    /// Returns true if the file may be read without approval.
    pub fn allow(&self, path: &str) -> bool {
        self.read.as_ref().is_none_or(|allow| allow(path))
    }
}

impl std::fmt::Debug for ReadRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadRules").field("read", &self.read.is_some()).finish_non_exhaustive()
    }
}

/// Handle for asking the turn's model during a tool call. The turn pays for the request. The default handle has no
/// model.
///
/// Dropping the future of an answer cancels the request.
#[derive(Clone, Default)]
pub struct Sampler {
    model: String,
    asking: Option<Arc<SampleFn>>,
}

type SampleFn = dyn Fn(SampleRequest) -> BoxFuture<'static, Result<SampleAnswer, ModelError>> + Send + Sync;

/// Request to a model without tools.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRequest {
    /// The conversation. The first message is the system message, the others are [`Message::User`] and
    /// [`Message::Assistant`]. Messages are never blank.
    pub messages: Vec<Message>,
    /// Maximum number of tokens of the answer, at least 1.
    pub max_tokens: u64,
}

/// Answer of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleAnswer {
    /// Text of the answer.
    pub text: String,
    /// ID of the model.
    pub model: String,
    /// True if the answer was truncated at the limit.
    pub cut: bool,
}

impl Sampler {
    /// Creates a handle to the model with this ID. The function fails if the turn's token or time limit is reached.
    pub fn new(
        model: String,
        ask: impl Fn(SampleRequest) -> BoxFuture<'static, Result<SampleAnswer, ModelError>> + Send + Sync + 'static,
    ) -> Self {
        Self { model, asking: Some(Arc::new(ask)) }
    }

    /// Returns the ID of the model, or `None` if there is no model.
    pub fn model(&self) -> Option<&str> {
        self.asking.as_ref().map(|_| self.model.as_str())
    }

    /// Sends the request and waits for the whole answer. Returns `None` if there is no model.
    pub async fn ask(&self, request: SampleRequest) -> Option<Result<SampleAnswer, ModelError>> {
        match &self.asking {
            Some(asking) => Some(asking(request).await),
            None => None,
        }
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sampler").field(&self.model()).finish()
    }
}

/// Handle for finding out during a tool call whether a model sees pictures in the call's output. With the default
/// handle, no model does.
#[derive(Clone, Default)]
pub struct Sight(Option<Arc<SightFn>>);

type SightFn = dyn Fn() -> BoxFuture<'static, bool> + Send + Sync;

impl Sight {
    /// Creates a handle that looks for a model through this function.
    pub fn new(look_up: impl Fn() -> BoxFuture<'static, bool> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(look_up)))
    }

    /// Returns true if the turn's model accepts pictures, or if another model describes pictures for it.
    pub async fn sees(&self) -> bool {
        match &self.0 {
            Some(look_up) => look_up().await,
            None => false,
        }
    }
}

impl fmt::Debug for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sight").field(&self.0.is_some()).finish()
    }
}

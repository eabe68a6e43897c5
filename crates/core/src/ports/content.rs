//! Content that adapters take apart: documents, pictures, source code (also by language servers), and the web.
//!
//! What a call of a tool is given besides its arguments: rules about files, a client that holds files, a person and a model
//! that it may ask.

use std::{
    fmt::{self, Debug},
    path::PathBuf,
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{
    client_file::{ClientFileAnswer, FileAction, NoAnswer},
    code::{CodeProgress, CodeQuestion, CodeReply},
    error::{CodeError, KnowledgeError, ModelError, WebError, WorkspaceError},
    files::PreparedPicture,
    ids::SessionId,
    interrupt::{Answer, Ask},
    knowledge::{
        DocumentFinds, DocumentProgress, DocumentQuery, DocumentState, KnowledgeStats, OpenDocument, PartRange, Reading,
    },
    language::{
        Diagnostic, LanguageError, LanguageNews, Patience, SourceFile, SourceLocation, SourcePosition, SourceRewrite,
    },
    model::Message,
    ports::Workspace,
    tool::FileChangeKind,
    web::{WebAnswer, WebFind, WebRequest},
};

/// Reads the code of folders and answers questions about it. A folder is indexed at its first question, shared by all who
/// ask, and kept current. What code does to whoever parses it stays its own affair: a failure comes back as an error.
pub trait CodeReader: Debug + Send + Sync {
    /// Answers a question about the code of a folder of the person, named by its real path. An answer that is no longer
    /// awaited leaves the index to go on.
    fn ask(
        &self,
        folder: PathBuf,
        question: CodeQuestion,
        progress: OnCodeProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<CodeReply, CodeError>>;
}

/// Told how far an index is that is being made. Called often, from a task that must not wait.
pub type OnCodeProgress = Arc<dyn Fn(CodeProgress) + Send + Sync>;

/// Reads documents and finds what they say. What a document does to whoever reads it stays its own affair: every failure
/// comes back as an error, and the next document is read as if nothing had been.
pub trait Knowledge: Debug + Send + Sync {
    /// Returns whether a file is a document that has to be taken apart to be read, by its first bytes and its name.
    /// Plain text is none.
    fn is_document(&self, name: &str, head: &[u8]) -> bool;

    /// The reason why a file that is neither a document nor text cannot be read, by its first bytes; none where nothing is known
    /// of it.
    fn refusal(&self, _name: &str, _head: &[u8]) -> Option<String> {
        None
    }

    /// Reads parts of a document, with word of how far that is where it takes long.
    fn read(
        &self,
        document: OpenDocument,
        range: PartRange,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Reading, KnowledgeError>>;

    /// Looks for something in these documents and in no others. Those that are not in the index yet are brought there
    /// first, with word of how far that is.
    fn search(
        &self,
        documents: Vec<OpenDocument>,
        query: DocumentQuery,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<DocumentFinds, KnowledgeError>>;

    /// Brings documents into the index that are not there yet, or all of them `again`, and tells what is known of each
    /// afterwards. One that cannot be read is told so, and stops no other.
    fn take_in(
        &self,
        documents: Vec<OpenDocument>,
        again: bool,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>>;

    /// States of these documents; none is read for it.
    fn states(&self, documents: Vec<OpenDocument>) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>>;

    /// Size of the index, of all sessions together.
    fn stats(&self) -> BoxFuture<'_, Result<KnowledgeStats, KnowledgeError>>;
}

/// Told how far documents are. Called often, from a task that must not wait.
pub type OnProgress = Arc<dyn Fn(DocumentProgress) + Send + Sync>;

/// Asks language servers about source code. Whatever a server does stays its own affair: it costs no more than a bounded wait.
pub trait Languages: Debug + Send + Sync {
    /// Returns whether a server for files of this name is there.
    fn knows(&self, file: &SourceFile) -> bool;

    /// Takes note that a turn begins: what was not told of an earlier one is looked at anew before it is.
    fn begin_turn(&self, session: SessionId) -> BoxFuture<'_, ()>;

    /// Forgets a session that nobody uses.
    fn end_session(&self, session: SessionId);

    /// Takes note of files that a call is about to change, as they are now, and starts their servers.
    fn before_edit(&self, session: SessionId, files: Vec<SourceFile>) -> BoxFuture<'_, ()>;

    /// Takes note of files that a call has changed, or removed. Those of no server's language count too: they may be what its
    /// findings depend on.
    fn after_edit(&self, session: SessionId, files: Vec<(SourceFile, FileChangeKind)>) -> BoxFuture<'_, ()>;

    /// Errors that are new since the edits of this session of which nothing was told yet. Each is told once. Waits no longer
    /// than the settings allow: what is not known then is told later.
    fn news(&self, session: SessionId, patience: Patience) -> BoxFuture<'_, LanguageNews>;

    /// Diagnostics that servers which run found last in files of a workspace, by file and position.
    fn last_diagnostics(&self, workspace: Arc<Workspace>) -> BoxFuture<'_, Vec<Diagnostic>>;

    /// Diagnostics of a file, by position.
    fn diagnostics(&self, file: SourceFile) -> BoxFuture<'_, Result<Vec<Diagnostic>, LanguageError>>;

    /// Places at which a symbol is defined.
    fn definition(&self, at: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>>;

    /// Places at which a symbol is used, its definition included.
    fn references(&self, at: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>>;

    /// Edits that give a symbol another name. Nothing is changed.
    fn rename(&self, at: SourcePosition, name: String) -> BoxFuture<'_, Result<Vec<SourceRewrite>, LanguageError>>;
}

/// No language server at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLanguages;

impl NoLanguages {
    fn refuse<T: Send + 'static>(self) -> BoxFuture<'static, Result<T, LanguageError>> {
        Box::pin(std::future::ready(Err(LanguageError::new("there is no language server here"))))
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

/// Makes pictures fit for models.
pub trait Pictures: Send + Sync {
    /// Turns a picture upright and makes it no larger than models make use of. None where the bytes are no picture of a kind
    /// that models see.
    ///
    /// # Errors
    /// Of kind `InvalidInput` where it is damaged or more than the limits allow, with what to do.
    fn prepare<'a>(&'a self, content: &'a [u8]) -> BoxFuture<'a, Result<Option<PreparedPicture>, WorkspaceError>>;
}

/// Asks servers. Which of them may be reached is its own affair, and no argument of a call changes that.
/// Dropping what is asked ends it, and closes what was open for it.
pub trait Web: Debug + Send + Sync {
    /// Returns whether a request could be sent, as far as that is certain without asking anybody.
    ///
    /// # Errors
    /// As of [`Self::fetch`].
    fn check(&self, request: &WebRequest) -> Result<(), WebError>;

    /// Asks a server, and those that it sends the request on to, as far as `rules` let a model go there without asking.
    /// An answer of any status is an answer.
    fn fetch(&self, request: WebRequest, rules: ReadRules) -> BoxFuture<'_, Result<WebAnswer, WebError>>;

    /// Asks the search engine of the configuration for at most that many pages, the best first.
    fn search(&self, query: String, most: usize) -> BoxFuture<'_, Result<Vec<WebFind>, WebError>>;
}

/// The client that holds the project's files for a turn. A tool asks it only about a path that it could open itself, and
/// trusts nothing of the answer.
pub trait ClientFiles: Debug + Send + Sync {
    /// The capabilities of the client that would be asked now; none where there is none, and the disk alone counts.
    fn access(&self) -> Option<ClientFileAccess>;

    /// Asks about a file below the project's folder. It ends within seconds, whatever the client does.
    fn ask<'a>(&'a self, path: &'a str, action: FileAction) -> BoxFuture<'a, Result<ClientFileAnswer, NoAnswer>>;
}

/// Capabilities of a client that holds files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFileAccess {
    /// It gives texts.
    Read,
    /// It gives and takes texts.
    ReadWrite,
}

/// Whom a tool may ask while it runs. Without one, nobody is there.
#[derive(Clone, Default)]
pub struct Person(Option<Arc<AskFn>>);

type AskFn = dyn Fn(Ask) -> BoxFuture<'static, Option<Answer>> + Send + Sync;

impl Person {
    /// Asks by this function. It says nothing where nobody will answer: the turn was cancelled, or runs unattended.
    pub fn new(ask: impl Fn(Ask) -> BoxFuture<'static, Option<Answer>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(ask)))
    }

    /// Asks, and waits for the answer as long as it takes.
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

/// Rules about reading a file by its path, where nobody was asked whether a call may show it: whether they would let a
/// model read it without asking anybody. Where nobody has set any, all may be read.
#[derive(Clone, Default)]
pub struct ReadRules {
    read: Option<Arc<MayRead>>,
    change: Option<Arc<MayRead>>,
}

/// Test of whether the file of that path may be read, or changed.
type MayRead = dyn Fn(&str) -> bool + Send + Sync;

impl ReadRules {
    /// Rules that this function knows.
    pub fn new(allow: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { read: Some(Arc::new(allow)), change: None }
    }

    /// The same, where this function knows whether the call may change files that it does not name.
    #[must_use]
    pub fn with_changes(self, allow: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { change: Some(Arc::new(allow)), ..self }
    }

    /// Returns whether the call may change the file, which it does not name, as it may change those that it names.
    pub fn allow_change(&self, path: &str) -> bool {
        self.allow(path) && self.change.as_ref().is_none_or(|allow| allow(path))
    }

    /// Returns whether the file may be read without asking.
    pub fn allow(&self, path: &str) -> bool {
        self.read.as_ref().is_none_or(|allow| allow(path))
    }
}

impl std::fmt::Debug for ReadRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadRules").field("read", &self.read.is_some()).finish_non_exhaustive()
    }
}

/// A model that a tool may ask while it runs: the turn's, at the turn's cost. Without one, none is there to be asked.
///
/// Whoever stops waiting for the answer takes the request back.
#[derive(Clone, Default)]
pub struct Sampler {
    model: String,
    asking: Option<Arc<SampleFn>>,
}

type SampleFn = dyn Fn(SampleRequest) -> BoxFuture<'static, Result<SampleAnswer, ModelError>> + Send + Sync;

/// Question to a model. It can call nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRequest {
    /// The conversation. The first message is the system message, the others are of [`Message::User`] and
    /// [`Message::Assistant`], and none is blank.
    pub messages: Vec<Message>,
    /// Maximum number of tokens of the answer, from 1.
    pub max_tokens: u64,
}

/// Answer of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleAnswer {
    /// Its words.
    pub text: String,
    /// The model's id.
    pub model: String,
    /// Set if the answer was cut, for it was too long.
    pub cut: bool,
}

impl Sampler {
    /// Asks the model of that id by this function, which refuses where the turn's tokens or its time are used up.
    pub fn new(
        model: String,
        ask: impl Fn(SampleRequest) -> BoxFuture<'static, Result<SampleAnswer, ModelError>> + Send + Sync + 'static,
    ) -> Self {
        Self { model, asking: Some(Arc::new(ask)) }
    }

    /// The id of the model that would be asked; none where there is none.
    pub fn model(&self) -> Option<&str> {
        self.asking.as_ref().map(|_| self.model.as_str())
    }

    /// Asks, and waits for the whole answer. None where there is no model.
    pub async fn ask(&self, asked: SampleRequest) -> Option<Result<SampleAnswer, ModelError>> {
        match &self.asking {
            Some(asking) => Some(asking(asked).await),
            None => None,
        }
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sampler").field(&self.model()).finish()
    }
}

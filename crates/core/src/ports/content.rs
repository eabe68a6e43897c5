//! Content that adapters take apart: documents, pictures, source code (also by language servers), and the web.

use std::{fmt::Debug, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::ReadRules;
use crate::{
    code::{CodeProgress, CodeQuestion, CodeReply},
    error::{CodeError, KnowledgeError, WebError, WorkspaceError},
    files::PreparedPicture,
    ids::SessionId,
    knowledge::{
        DocumentFinds, DocumentProgress, DocumentQuery, DocumentState, KnowledgeStats, OpenDocument, PartRange, Reading,
    },
    language::{
        Diagnostic, LanguageError, LanguageNews, Patience, SourceFile, SourceLocation, SourcePosition, SourceRewrite,
    },
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

//! Language servers, shared by all sessions.

use std::{fmt::Debug, sync::Arc};

use futures_util::future::BoxFuture;

use crate::{
    ids::SessionId,
    language::{
        Diagnostic, LanguageError, LanguageNews, Patience, SourceFile, SourceLocation, SourcePosition, SourceRewrite,
    },
    ports::Workspace,
    tool::FileChangeKind,
};

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

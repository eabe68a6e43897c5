//! The answers of a build without the feature `documents`.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use agentd_core::{
    error::{ErrorKind, KnowledgeError},
    knowledge::{DocumentFinds, DocumentQuery, DocumentState, KnowledgeStats, OpenDocument, PartRange, Reading},
    ports::{Clock, Knowledge, OnProgress, Pictures},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio_util::sync::CancellationToken;

/// The first bytes of documents: PDF, the archives of newer office formats, and the containers of older ones.
const DOCUMENTS: [&[u8]; 3] = [b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"];

/// Refuses to read and to find.
#[derive(Debug)]
pub struct Library;

impl Library {
    /// Closes nothing.
    pub async fn close(&self) {}
}

/// The library of a build that reads no documents.
pub(crate) fn library(_data: &Path, _settings: &crate::config::DaemonSettings, _clock: &Arc<dyn Clock>) -> Library {
    Library
}

/// Shows no pictures to models.
pub(crate) fn pictures() -> Option<Arc<dyn Pictures>> {
    None
}

/// Knows no workers.
#[must_use]
pub fn run_worker(_first: &OsStr, _rest: &[OsString]) -> Option<ExitCode> {
    None
}

/// Releases nothing.
pub(crate) fn give_back() {}

impl Knowledge for Library {
    fn is_document(&self, _name: &str, head: &[u8]) -> bool {
        DOCUMENTS.iter().any(|begin| head.starts_with(begin))
    }

    fn read(
        &self,
        _document: OpenDocument,
        _range: PartRange,
        _progress: OnProgress,
        _cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Reading, KnowledgeError>> {
        refused()
    }

    fn search(
        &self,
        _documents: Vec<OpenDocument>,
        _query: DocumentQuery,
        _progress: OnProgress,
        _cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<DocumentFinds, KnowledgeError>> {
        refused()
    }

    fn take_in(
        &self,
        _documents: Vec<OpenDocument>,
        _again: bool,
        _progress: OnProgress,
        _cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>> {
        refused()
    }

    fn states(&self, _documents: Vec<OpenDocument>) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>> {
        refused()
    }

    fn stats(&self) -> BoxFuture<'_, Result<KnowledgeStats, KnowledgeError>> {
        refused()
    }
}

fn refused<T: Send + 'static>() -> BoxFuture<'static, Result<T, KnowledgeError>> {
    let error = KnowledgeError::new(ErrorKind::Configuration, "this agentd was built without reading documents")
        .with_hint("build it with the feature `documents`, which is on unless it was switched off");
    std::future::ready(Err(error)).boxed()
}

//! Documents, read and found by whoever takes them apart.

use std::{fmt::Debug, sync::Arc};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{
    error::KnowledgeError,
    knowledge::{
        DocumentFinds, DocumentProgress, DocumentQuery, DocumentState, KnowledgeStats, OpenDocument, PartRange, Reading,
    },
};

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

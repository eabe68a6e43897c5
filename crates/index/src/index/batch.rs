//! The documents that the writer is at.

use std::{collections::HashMap, sync::Arc};

use tantivy::TantivyDocument;
use tokio::sync::oneshot;

use super::{
    error::IndexError,
    id::DocumentId,
    schema::{ENTRY_ORDINAL, Fields, key},
    view::Entry,
};
use crate::{chunk::Chunk, document::DocumentPlace};

/// An answer that somebody waits for.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, IndexError>>;

/// A document of which chunks come in.
#[derive(Debug)]
pub(crate) struct PendingDocument {
    pub(crate) id: DocumentId,
    pub(crate) title: Option<String>,
    pub(crate) chunks: u32,
    /// Ordinal of the last chunk, and where it stands.
    last: Option<(u32, DocumentPlace)>,
}

impl PendingDocument {
    pub(crate) const fn new(id: DocumentId, title: Option<String>) -> Self {
        Self { id, title, chunks: 0, last: None }
    }

    /// Counts the next chunk, and returns its ordinal. One is left free where a page ends, so that ordinals follow each other within
    /// a page only.
    pub(crate) fn number(&mut self, place: &DocumentPlace) -> u32 {
        let is_section = |place: &DocumentPlace| matches!(place, DocumentPlace::Section { .. });
        // Where a section ends, the text goes on.
        let is_text = is_section(place) && self.last.as_ref().is_some_and(|(_, last)| is_section(last));
        let ordinal = match &self.last {
            Some((last, before)) => last.saturating_add(if before.is_same(place) || is_text { 1 } else { 2 }),
            None => 0,
        };
        self.chunks = self.chunks.saturating_add(1);
        self.last = Some((ordinal, place.clone()));
        ordinal
    }
}

/// The documents that the writer is at.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// By their numbers: those of which chunks come in.
    pub(crate) open: HashMap<u32, PendingDocument>,
    /// Those that are whole and wait to be written for good, with whoever waits for that.
    pub(crate) done: Vec<(Arc<Entry>, Reply<Arc<Entry>>)>,
    /// Why the last ones came to nothing: whoever goes on with them is told so.
    failure: Option<IndexError>,
}

impl Batch {
    /// All of them come to nothing. Tells which numbers they had.
    pub(crate) fn fail(&mut self, error: &IndexError) -> Vec<u32> {
        let mut owners: Vec<u32> = self.open.drain().map(|(owner, _)| owner).collect();
        for (entry, reply) in self.done.drain(..) {
            owners.push(entry.owner);
            // Who no longer waits needs no answer.
            let _ = reply.send(Err(error.clone()));
        }
        self.failure = Some(error.clone());
        owners
    }

    /// Why a document that was open is not open any longer.
    pub(crate) fn failure(&self) -> IndexError {
        self.failure.clone().unwrap_or_else(|| IndexError::Internal("the document is not being indexed".to_owned()))
    }
}

/// A chunk as the library takes it.
pub(crate) fn chunk_document(
    fields: &Fields,
    owner: u32,
    ordinal: u32,
    title: Option<&str>,
    chunk: &Chunk,
) -> TantivyDocument {
    let mut document = TantivyDocument::new();
    document.add_u64(fields.key, key(owner, ordinal));
    document.add_u64(fields.owner, u64::from(owner));
    document.add_text(fields.words, &chunk.text);
    document.add_text(fields.exact, &chunk.text);
    for heading in title.into_iter().chain(chunk.heading.as_deref()) {
        document.add_text(fields.heading, heading);
    }
    document.add_bytes(fields.record, &record(chunk));
    document
}

/// The entry of a document as the library takes it.
pub(crate) fn entry_document(fields: &Fields, entry: &Entry) -> TantivyDocument {
    let mut document = TantivyDocument::new();
    document.add_u64(fields.key, key(entry.owner, ENTRY_ORDINAL));
    document.add_u64(fields.owner, u64::from(entry.owner));
    document.add_bytes(fields.record, &record(entry));
    document
}

/// Neither has a map whose keys are no strings, so it cannot fail; what is empty cannot be read back and is told then.
fn record(of: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(of).unwrap_or_default()
}

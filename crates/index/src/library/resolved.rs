//! Identity of the documents in a request, and conversion of search results for the caller.

use std::{
    fs::File,
    os::{fd::AsRawFd as _, unix::ffi::OsStrExt as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use agentd_core::knowledge::{DocumentFinds, DocumentHit, DocumentQuery, OpenDocument, SearchedBy};
use tokio_util::sync::CancellationToken;

use super::ingest::{FailureCache, HashCache, IngestReport, KnownDocument};
use crate::{
    DocumentPlace, Failure, Kind, RecognitionStamp,
    handle::IndexHandle,
    index::{ContentHash, DocumentId},
    search::{Answer, Hit, MAX_HITS, Query, Request, Snippet, VisibleDocument},
};

/// Version of readers and chunking. Increment it with every change to extracted text or chunks, so that documents are
/// indexed again.
const READER_VERSION: u32 = 14;

/// Time limit for scanning texts with a regular expression.
const SCAN_TIMEOUT: Duration = Duration::from_secs(10);

/// Documents of a request: those that could be identified and those that could not.
pub(super) struct ResolvedDocuments {
    pub(super) known: Vec<KnownDocument>,
    /// Names of the other documents, each with a reason.
    pub(super) unreadable: Vec<(String, String)>,
    /// Recognition that is currently available.
    pub(super) recognition: RecognitionStamp,
    /// Texts that are similar to the query, as in [`Request::similar`].
    pub(super) similar: Vec<(DocumentId, u64)>,
}

impl ResolvedDocuments {
    /// Hashes documents of up to `max_bytes`. Blocks until done or cancelled.
    ///
    /// Without recognition, an image contributes no text, so images among other documents are skipped. Images are
    /// included if `each` is set, because the caller requests the state of every document, or if there is only one
    /// document.
    pub(super) fn of(
        documents: Vec<OpenDocument>,
        each: bool,
        hash_cache: &HashCache,
        max_bytes: u64,
        recognition: RecognitionStamp,
        cancel: &CancellationToken,
    ) -> Self {
        let includes_pictures = recognition.pages > 0 || each || documents.len() == 1;
        let known = Vec::with_capacity(documents.len());
        let mut resolved = Self { known, unreadable: Vec::new(), recognition, similar: Vec::new() };
        for OpenDocument { name, file, inner, password } in documents {
            if cancel.is_cancelled() {
                break;
            }
            let kind = Kind::of_name(inner.as_deref().unwrap_or(&name)).unwrap_or(Kind::Plain);
            if kind == Kind::Picture && !includes_pictures {
                continue;
            }
            match hash_cache.of(&file, max_bytes, cancel) {
                Ok(Some(hash)) => {
                    let place = place_of(&file, inner.as_deref()).filter(|_| password.is_none());
                    let hash = inner.as_deref().map_or(hash, |path| hash.within(path));
                    let (id, file) = (DocumentId::new(hash, kind, READER_VERSION), Arc::new(file));
                    resolved.known.push(KnownDocument { id, name, file, inner, password, place });
                }
                Ok(None) => resolved.unreadable.push((name, Failure::too_large("its size", max_bytes).sentence())),
                Err(error) => resolved.unreadable.push((name, format!("it cannot be read: {error}"))),
            }
        }
        resolved
    }

    /// Returns the documents, each with the hash of its path.
    pub(super) fn places(&self) -> impl Iterator<Item = (DocumentId, Option<u64>)> {
        self.known.iter().map(|known| (known.id, known.place))
    }

    /// Builds the search request.
    pub(super) fn request(&self, query: &DocumentQuery) -> Request {
        let visible = |known: &KnownDocument| VisibleDocument { id: known.id, name: known.name.clone() };
        let visible = self.known.iter().map(visible).collect();
        let text = query.text.clone();
        let request = Request::new(visible, if query.regex { Query::Regex(text) } else { Query::Words(text) });
        let (limit, similar) = (query.limit.max(1), self.similar.clone());
        Request { limit, context: query.neighbours, within: SCAN_TIMEOUT, similar, ..request }
    }

    /// Returns the names of documents that a password would open.
    fn locked(&self, failures: &FailureCache) -> Vec<String> {
        let is_locked = |known: &&KnownDocument| {
            failures.cached_failure(&known.id, &self.recognition).is_some_and(|reason| reason.needs_password())
        };
        self.known.iter().filter(is_locked).map(|known| known.name.clone()).collect()
    }

    /// Converts the answer and adds the problems: unidentified documents, documents in the report, and documents that
    /// were only partly read.
    pub(super) fn to_finds(
        &self,
        index: &IndexHandle,
        answer: Answer,
        report: IngestReport,
        query: &DocumentQuery,
        failures: &FailureCache,
    ) -> DocumentFinds {
        let IngestReport { unreadable, not_begun } = report;
        let is_phrase = !query.regex && query.text.trim_start().starts_with(['"', '“', '「']);
        let by =
            if is_phrase && answer.searched_by == SearchedBy::Words { SearchedBy::Phrase } else { answer.searched_by };
        let flaw = |known: &KnownDocument| Some((known.name.clone(), index.entry(&known.id)?.about.flaw.clone()?));
        let flawed = self.known.iter().filter_map(flaw);
        let mut finds = DocumentFinds {
            by,
            hits: answer.hits.into_iter().map(document_hit).collect(),
            searched: self.known.len().saturating_sub(unreadable.len() + not_begun),
            not_searched: not_begun,
            broken: self.unreadable.iter().cloned().chain(unreadable).chain(flawed).collect(),
            notes: answer.notes,
            late: !answer.complete,
            more: false,
            is_loose: answer.is_loose,
            locked: self.locked(failures),
        };
        if answer.is_loose {
            finds.note(DocumentFinds::LOOSE.to_owned());
        }
        if answer.more {
            finds.note_more_matches(query.limit.clamp(1, MAX_HITS));
        }
        finds
    }
}

/// Returns the path of an open file. Returns `None` if the path is unknown, as on systems other than Linux.
pub(super) fn path_of(file: &File) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    Some(path).filter(|path| path.is_absolute())
}

/// Returns the hash of the path of an open file and of the path inside the file, if the path is known.
fn place_of(file: &File, inner: Option<&str>) -> Option<u64> {
    let hash = ContentHash::of(path_of(file)?.as_os_str().as_bytes());
    Some(inner.map_or(hash, |inner| hash.within(inner)).number())
}

fn document_hit(hit: Hit) -> DocumentHit {
    let whole = hit.chunk.place.to_string();
    let archive = hit.citation.strip_suffix(whole.as_str()).unwrap_or(&hit.citation).trim_end();
    // A document in an archive gets the name by which it can be read.
    let (document, place) = match &hit.chunk.place {
        DocumentPlace::Inner { path, place } => (format!("{archive}!/{path}"), place.to_string()),
        _ => (archive.to_owned(), whole),
    };
    let Hit { score, snippet: Snippet { text: snippet, hits: marks }, before, after, .. } = hit;
    DocumentHit { document, place, score, snippet, marks, before, after }
}

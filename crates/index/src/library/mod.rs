//! Implementation of the core's port [`Knowledge`] on top of extraction, chunks and index.
//!
//! - `ingest`: indexing of files; cache of hashes that avoids rereading unchanged files; stable copies.
//! - `resolved`: identity of the documents in a request, and conversion of search results.
//! - `export`: conversion of a document to CSV or text; pure.
//! - `reading`: selection of the displayed parts, their size limits, and the cursor to continue from; pure.
//!
//! A document is indexed at its first search and shared by all users who have the same bytes. Users only find documents
//! that they have: a search names its documents, which are identified by their content.

mod export;
mod ingest;
mod reading;
mod resolved;

use std::{fmt, sync::Arc};

use agentd_core::{
    embedding::{TextGroup, group_name},
    error::{ErrorKind, KnowledgeError},
    knowledge::{
        DocumentExport, DocumentFinds, DocumentProgress, DocumentQuery, DocumentState, KnowledgeStats, OpenDocument,
        PartRange, Reading,
    },
    ports::{Embeddings, Knowledge, Models, OnProgress},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use self::{
    ingest::{FailureCache, HashCache, Ingester, KnownDocument},
    reading::Reader,
    resolved::{ResolvedDocuments, path_of},
};
use crate::{
    Extractor, Failure, Kind, Piece, ReadingLimit, ReadingLimits, ReadingPass, RecognitionStamp, WantedParts, Window,
    extract::recognise,
    handle::{IndexHandle, LazyIndex},
    index::{DocumentId, IndexConfig, IndexError},
};

/// Reads and searches documents.
pub struct Library {
    extractor: Extractor,
    lazy_index: LazyIndex,
    hash_cache: HashCache,
    broken: FailureCache,
    models: Option<Arc<dyn Models>>,
}

impl Library {
    /// Creates a library on the index described by `config`. Nothing is opened or started before it is needed. The
    /// memory is released after [`IndexConfig::rest_after`] without use.
    pub fn new(extractor: Extractor, config: IndexConfig) -> Self {
        let (hash_cache, broken) = (HashCache::default(), FailureCache::default());
        Self { extractor, lazy_index: LazyIndex::new(config), hash_cache, broken, models: None }
    }

    /// Also finds texts by meaning, with the embeddings of these models.
    pub fn with_embeddings(self, models: Arc<dyn Models>) -> Self {
        Self { models: Some(models), ..self }
    }

    /// Returns the embeddings, and the documents that they cover with the names of their groups.
    fn covered(&self, resolved: &ResolvedDocuments) -> Option<(Arc<dyn Embeddings>, Vec<DocumentId>, Vec<String>)> {
        let embeddings = self.models.as_ref()?.embeddings()?;
        let is_covered = |known: &&KnownDocument| path_of(&known.file).is_some_and(|path| embeddings.covers(&path));
        let covered = resolved.known.iter().filter(is_covered);
        let (ids, names) = covered.map(|known| (known.id, group_name("document", &known.id.to_string()))).unzip();
        Some((embeddings, ids, names))
    }

    /// Adds the texts that are similar to a query. Returns a note for the answer.
    async fn add_similar(&self, resolved: &mut ResolvedDocuments, query: &DocumentQuery) -> Option<String> {
        // Phrases and regular expressions demand their words.
        if query.regex || query.text.contains(['"', '“', '„', '「']) {
            return None;
        }
        let (embeddings, ids, names) = self.covered(resolved)?;
        let (nearest, note) = embeddings.nearest(&query.text, &names).await;
        resolved.similar = nearest.into_iter().filter_map(|(group, key)| Some((*ids.get(group)?, key))).collect();
        note
    }

    async fn texts_of(&self, document: OpenDocument, cancel: &CancellationToken) -> Result<TextGroup, IndexError> {
        let resolved = self.identify(vec![document], false, cancel).await?;
        let covered = self.covered(&resolved).and_then(|(_, ids, names)| ids.into_iter().zip(names).next());
        let Some((id, name)) = covered else { return Ok(TextGroup::default()) };
        let (index, progress): (_, OnProgress) = (self.lazy_index.take().await?, Arc::new(|_| {}));
        self.ingester(&index, &self.broken, &progress, cancel).ingest_all(&resolved, None).await?;
        Ok(TextGroup { name, texts: index.texts(id).await? })
    }

    /// Commits pending writes and closes the index permanently.
    pub async fn close(&self) {
        self.lazy_index.close().await;
    }

    /// Returns true if the index is open.
    pub async fn is_open(&self) -> bool {
        self.lazy_index.is_open().await
    }

    /// Reads parts of a document.
    async fn parts(
        &self,
        document: OpenDocument,
        range: PartRange,
        progress: &OnProgress,
        cancel: CancellationToken,
    ) -> Result<Reading, Failure> {
        let (limits, row) = (self.lazy_index.config().reading, range.from.row);
        let letter_limits = [limits.pages, limits.sheets, limits.slides, limits.sections].map(|limit| limit.letters);
        // The worker also returns the characters before the displayed ones.
        let before = usize::try_from(range.from.column).unwrap_or(usize::MAX);
        let letters = letter_limits.into_iter().max().unwrap_or(0).saturating_add(before);
        let window = Some(Window { row, letters });
        // Archives are read as a listing of their files, each of which is a separate document. `last` only applies to
        // PDFs, so the default is the page count for documents with pages.
        let count = range.count.unwrap_or(limits.pages.parts).max(1);
        let last = Some(range.first.max(1).saturating_add(count - 1));
        let wanted = WantedParts { first: range.first, last, window, listing: true, ..WantedParts::default() };
        let (reader, failure) = self.collect(document, wanted, (range, limits), progress, cancel).await?;
        match failure {
            None => Ok(reader.finish(None)),
            // Return the part that was read despite the failure.
            Some(failure) if reader.selected.iter().any(|(_, part)| !part.is_empty()) => {
                Ok(reader.finish(Some(failure.sentence())))
            }
            // All pages were read. A problem with some of them only matters if a requested page exists.
            Some(failure @ Failure::Scanned { unread, pages, .. }) if unread.scans() < pages => {
                let reason = (!reader.selected.is_empty()).then(|| failure.sentence());
                Ok(reader.finish(reason))
            }
            Some(failure) => Err(failure),
        }
    }

    /// Reads the wanted parts of a document, and returns them with the failure that ended the reading early. If a quick
    /// pass finds that the document needs recognition, reads it again in a full pass.
    async fn collect(
        &self,
        document: OpenDocument,
        wanted: WantedParts,
        selection: (PartRange, ReadingLimits),
        progress: &OnProgress,
        cancel: CancellationToken,
    ) -> Result<(Reader, Option<Failure>), Failure> {
        let again = document.with_password(document.password.clone());
        match self.collect_in(ReadingPass::Quick, document, &wanted, selection, &|_| {}, cancel.clone()).await {
            Err(Failure::NeedsRecognition) => {
                let again = again.map_err(|error| Failure::Worker(error.to_string()))?;
                let name = again.name.clone();
                let on_progress =
                    move |parts| progress(DocumentProgress { document: name.clone(), parts, total: None });
                on_progress(0);
                self.collect_in(ReadingPass::Full, again, &wanted, selection, &on_progress, cancel).await
            }
            read => read,
        }
    }

    async fn collect_in(
        &self,
        pass: ReadingPass,
        document: OpenDocument,
        wanted: &WantedParts,
        (range, limits): (PartRange, ReadingLimits),
        on_progress: &(dyn Fn(u32) + Send + Sync),
        cancel: CancellationToken,
    ) -> Result<(Reader, Option<Failure>), Failure> {
        let OpenDocument { name, file, inner, password } = document;
        let wanted = WantedParts { named: Kind::of_name(&name), inner, password, ..wanted.clone() };
        let turn = self.extractor.turn(pass, &cancel).await?;
        let mut extraction = self.extractor.extract_in(turn, file, wanted, cancel)?;
        let (mut reader, mut read) = (Reader::new(range, limits), 0);
        loop {
            match extraction.next().await {
                Some(Ok(Piece::Head(head))) => reader.head = Some(head),
                Some(Ok(Piece::Part(part))) => {
                    read += 1;
                    on_progress(read);
                    if reader.take(part).is_break() {
                        return Ok((reader, None));
                    }
                }
                Some(Ok(Piece::End { .. })) | None => return Ok((reader, None)),
                Some(Err(failure @ (Failure::Cancelled | Failure::NeedsRecognition))) => return Err(failure),
                Some(Err(failure)) => return Ok((reader, Some(failure))),
            }
        }
    }

    /// Identifies documents by hash, on a blocking thread.
    async fn identify(
        &self,
        documents: Vec<OpenDocument>,
        each: bool,
        cancel: &CancellationToken,
    ) -> Result<ResolvedDocuments, IndexError> {
        let (hash_cache, max_bytes) = (self.hash_cache.clone(), self.extractor.limits().bytes_in);
        let recognition = self.extractor.recognition().stamp();
        // Dropping this future also cancels the blocking thread.
        let stop = cancel.child_token();
        let _abandoned = stop.clone().drop_guard();
        let resolve = move || ResolvedDocuments::of(documents, each, &hash_cache, max_bytes, recognition, &stop);
        tokio::task::spawn_blocking(resolve).await.map_err(|_| IndexError::Closed)
    }

    /// Creates an ingester for `index`.
    fn ingester<'a>(
        &'a self,
        index: &'a Arc<IndexHandle>,
        failures: &'a FailureCache,
        progress: &'a OnProgress,
        cancel: &'a CancellationToken,
    ) -> Ingester<'a> {
        let (extractor, chunks) = (&self.extractor, self.lazy_index.config().chunks);
        Ingester { extractor, index, failures, chunks, progress, cancel }
    }

    /// Identifies and searches documents.
    async fn ask(
        &self,
        documents: Vec<OpenDocument>,
        query: &DocumentQuery,
        progress: &OnProgress,
        cancel: &CancellationToken,
    ) -> Result<DocumentFinds, IndexError> {
        let (open, locked): (Vec<_>, Vec<_>) = documents.into_iter().partition(|document| document.password.is_none());
        let mut finds = DocumentFinds::default();
        if !open.is_empty() {
            let index = self.lazy_index.take().await?;
            let mut resolved = self.identify(open, false, cancel).await?;
            let note = self.add_similar(&mut resolved, query).await;
            let ingester = self.ingester(&index, &self.broken, progress, cancel);
            let mut found = ingester.find(&resolved, query).await;
            if let Err(IndexError::Lost(reason)) = &found {
                tracing::warn!(why = %reason, "searching again, because the index was rebuilt");
                found = ingester.find(&resolved, query).await;
            }
            finds = found?;
            finds.notes.extend(note);
        }
        for document in locked {
            // Documents with a password use an in-memory index that is dropped after the answer.
            let config = IndexConfig { in_memory: true, ..self.lazy_index.config().clone() };
            let index = Arc::new(IndexHandle::open(config).await?);
            let resolved = self.identify(vec![document], false, cancel).await?;
            let found =
                self.ingester(&index, &FailureCache::default(), progress, cancel).find(&resolved, query).await?;
            index.close().await?;
            finds.add(found, query.limit);
        }
        Ok(finds)
    }

    async fn take(
        &self,
        documents: Vec<OpenDocument>,
        again: bool,
        progress: OnProgress,
        cancel: &CancellationToken,
    ) -> Result<Vec<DocumentState>, IndexError> {
        // A caller who adds documents receives the state of each document.
        let resolved = self.identify(documents, !again, cancel).await?;
        let named = |known: &KnownDocument| (known.id, known.name.clone());
        let names: Vec<(DocumentId, String)> = resolved.known.iter().map(named).collect();
        let index = self.lazy_index.take().await?;
        if again {
            for (id, _) in &names {
                self.broken.forget(id);
                index.remove(id).await?;
            }
        }
        let report = self.ingester(&index, &self.broken, &progress, cancel).ingest_all(&resolved, None).await?;
        let ResolvedDocuments { unreadable, recognition, .. } = resolved;
        Ok(self.states_of(&index, names, unreadable.into_iter().chain(report.unreadable).collect(), &recognition))
    }

    fn states_of(
        &self,
        index: &IndexHandle,
        names: impl IntoIterator<Item = (DocumentId, String)>,
        unreadable: Vec<(String, String)>,
        recognition: &RecognitionStamp,
    ) -> Vec<DocumentState> {
        let mut states = Vec::new();
        for (id, name) in names {
            let entry = index.entry(&id);
            let about = entry.as_ref().map(|entry| entry.about.clone()).unwrap_or_default();
            let stored_problem = || {
                let current_reason =
                    unreadable.iter().find(|(broken, _)| *broken == name).map(|(_, reason)| reason.clone());
                current_reason
                    .or_else(|| self.broken.cached_failure(&id, recognition).map(|failure| failure.sentence()))
            };
            states.push(DocumentState {
                format: about.kind.or_else(|| Kind::of_name(&name)).unwrap_or(Kind::Plain).to_string(),
                title: entry.as_ref().and_then(|entry| entry.title.clone()),
                parts: about.parts,
                chunks: entry.as_ref().map(|entry| entry.chunks),
                problem: if entry.is_some() { about.flaw } else { stored_problem() },
                name,
            });
        }
        let known: Vec<String> = states.iter().map(|state| state.name.clone()).collect();
        let never_opened = unreadable.into_iter().filter(|(name, _)| !known.contains(name));
        states.extend(never_opened.map(|(name, reason)| {
            let (format, problem) = (String::new(), Some(reason));
            DocumentState { format, title: None, parts: 0, chunks: None, problem, name }
        }));
        states
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

impl Knowledge for Library {
    fn is_document(&self, name: &str, head: &[u8]) -> bool {
        let named = Kind::of_name(name);
        // The head does not show the content of the container, so the name decides.
        if head.starts_with(b"PK\x03\x04") || head.starts_with(b"\xd0\xcf\x11\xe0") {
            return named.is_some_and(|kind| !kind.is_text());
        }
        // Mail and notebooks look like plain text, and the head of a compressed archive shows too little.
        let named = named.filter(|kind| matches!(kind, Kind::Eml | Kind::Ipynb | Kind::Tar | Kind::Mbox));
        recognise(head, named).is_ok_and(|kind| !kind.is_text())
    }

    fn refusal(&self, _name: &str, head: &[u8]) -> Option<String> {
        recognise(head, None).err().map(|failure| failure.sentence())
    }

    fn read(
        &self,
        document: OpenDocument,
        range: PartRange,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Reading, KnowledgeError>> {
        async move { Ok(self.parts(document, range, &progress, cancel).await?) }.boxed()
    }

    fn export(
        &self,
        document: OpenDocument,
        sheet: u32,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<DocumentExport, KnowledgeError>> {
        let wanted = WantedParts { first: sheet, listing: true, values_only: true, ..WantedParts::default() };
        let count = if Kind::of_name(&document.name).is_some_and(Kind::has_sheets) { 1 } else { u32::MAX };
        let range = PartRange { first: sheet, count: Some(count), ..PartRange::default() };
        let whole = ReadingLimit { parts: count, letters: usize::MAX };
        let limits = ReadingLimits { pages: whole, sheets: whole, slides: whole, sections: whole };
        async move {
            let (reader, failure) = self.collect(document, wanted, (range, limits), &progress, cancel).await?;
            export::export(&reader, failure, self.extractor.limits().bytes_out)
        }
        .boxed()
    }

    fn search(
        &self,
        documents: Vec<OpenDocument>,
        query: DocumentQuery,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<DocumentFinds, KnowledgeError>> {
        async move { until_cancelled(self.ask(documents, &query, &progress, &cancel), &cancel).await }.boxed()
    }

    fn ingest(
        &self,
        documents: Vec<OpenDocument>,
        again: bool,
        progress: OnProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>> {
        async move { until_cancelled(self.take(documents, again, progress, &cancel), &cancel).await }.boxed()
    }

    fn texts(&self, one: OpenDocument, stop: CancellationToken) -> BoxFuture<'_, Result<TextGroup, KnowledgeError>> {
        async move { until_cancelled(self.texts_of(one, &stop), &stop).await }.boxed()
    }

    fn states(&self, documents: Vec<OpenDocument>) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>> {
        Box::pin(async move {
            let resolved = self.identify(documents, true, &CancellationToken::new()).await?;
            let ResolvedDocuments { known, unreadable, recognition, .. } = resolved;
            let index = self.lazy_index.take().await?;
            let names = known.into_iter().map(|known| (known.id, known.name));
            Ok(self.states_of(&index, names, unreadable, &recognition))
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<KnowledgeStats, KnowledgeError>> {
        async { Ok(self.lazy_index.take().await?.stats().await?) }.boxed()
    }
}

async fn until_cancelled<T>(
    work: impl Future<Output = Result<T, IndexError>>,
    cancel: &CancellationToken,
) -> Result<T, KnowledgeError> {
    let done = tokio::select! {
        done = work => done,
        // Dropping the work kills its worker and leaves nothing of its document in the index.
        () = cancel.cancelled() => Err(IndexError::Cancelled),
    };
    // Cancelled work may finish first with a partial result, which is not an answer.
    let done = if cancel.is_cancelled() { Err(IndexError::Cancelled) } else { done };
    Ok(done?)
}

impl From<Failure> for KnowledgeError {
    fn from(failure: Failure) -> Self {
        let kind = match failure {
            Failure::TookTooLong { .. } => ErrorKind::Timeout,
            Failure::Worker(_) | Failure::Cancelled => ErrorKind::Internal,
            _ => ErrorKind::Rejected,
        };
        let error = Self::new(kind, failure.to_string()).with_hint(failure.hint());
        error.with_password_needed(failure.needs_password())
    }
}

impl From<IndexError> for KnowledgeError {
    fn from(error: IndexError) -> Self {
        let kind = match error {
            IndexError::Closed => ErrorKind::ShuttingDown,
            IndexError::Cancelled | IndexError::Internal(_) => ErrorKind::Internal,
            _ => ErrorKind::Storage,
        };
        Self::new(kind, error.to_string()).with_hint(error.hint())
    }
}

//! A document on its way from a file into the index.

use std::{
    fs::File,
    mem,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use agentd_core::knowledge::{DocumentProgress, Password};
use futures_util::{StreamExt as _, stream};
use lru::LruCache;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::digests;
use crate::{
    ChunkConfig, Extractor, Failure, Kind, Piece, ReadingPass, RecognitionStamp, UnreadReason, WantedParts, WorkerTurn,
    chunk::Chunker,
    handle::IndexHandle,
    index::{About, Claim, DocumentId, IndexError, Indexing},
};

/// Documents whose failures are remembered, so that a broken one is not read anew by each search. Each takes some hundred bytes.
const MAX_BROKEN: NonZeroUsize = match NonZeroUsize::new(50_000) {
    Some(most) => most,
    None => NonZeroUsize::MIN,
};

/// Passes over new documents, with the number that is brought in at the same time. Quick ones are more than are read at once, so
/// that some are read while others are written for good together. Of scans one is recognised while the next is copied.
const PASSES: [(ReadingPass, usize); 2] = [(ReadingPass::Quick, 8), (ReadingPass::Full, 2)];

/// Whoever wants to know how far it is.
pub(super) type Progress<'a> = &'a (dyn Fn(DocumentProgress) + Send + Sync);

/// A document that somebody may see, and its file.
#[derive(Debug, Clone)]
pub(super) struct KnownDocument {
    pub(super) id: DocumentId,
    pub(super) name: String,
    pub(super) file: Arc<File>,
    /// Path in the archive that the file is.
    pub(super) inner: Option<String>,
    pub(super) password: Option<Password>,
    /// Number of the path where it is, by which a later document at the same path is known.
    pub(super) place: Option<u64>,
}

/// Documents that could not be read at all, and why, each with the recognition by which it was tried. One that took more than it may is
/// tried once more.
#[derive(Debug, Clone)]
pub(super) struct FailureCache(Arc<Mutex<LruCache<DocumentId, KnownFailure>>>);

impl Default for FailureCache {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(MAX_BROKEN))))
    }
}

#[derive(Debug)]
struct KnownFailure {
    failure: Failure,
    recognition: RecognitionStamp,
    is_final: bool,
}

impl FailureCache {
    /// The reason why it could not be read, where that is known and trying again with this recognition would come to the same.
    pub(super) fn why(&self, id: &DocumentId, recognition: &RecognitionStamp) -> Option<Failure> {
        let broken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let KnownFailure { failure, recognition: before, is_final } = broken.peek(id)?;
        let is_outdated = failure.lacks_recognition() && recognition.promises_more_than(before);
        Some(failure.clone()).filter(|_| *is_final && !is_outdated)
    }

    pub(super) fn forget(&self, id: &DocumentId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop(id);
    }

    /// Remembers a failure. What went wrong with the machine and not with the document is tried again, and so it is not.
    fn remember(&self, id: DocumentId, failure: Failure, recognition: RecognitionStamp) {
        if is_passing(&failure) || has_failed_recognition(&failure, &recognition) {
            return;
        }
        let mut broken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_final = !failure.may_pass() || broken.peek(&id).is_some_and(|before| before.failure.may_pass());
        broken.put(id, KnownFailure { failure, recognition, is_final });
    }
}

const fn is_passing(failure: &Failure) -> bool {
    matches!(failure, Failure::Worker(_) | Failure::Cancelled | Failure::NeedsRecognition)
}

/// Returns whether recognition itself failed: the models that are there cannot be used, or there was no time for a single page.
const fn has_failed_recognition(failure: &Failure, recognition: &RecognitionStamp) -> bool {
    match failure {
        Failure::Scanned { unread, .. } => match unread.why {
            UnreadReason::NoModels => recognition.pages > 0,
            UnreadReason::OutOfTime { first } => first == 1,
            _ => false,
        },
        _ => false,
    }
}

/// Documents that did not come into the index.
#[derive(Debug, Default)]
pub(super) struct IngestReport {
    /// Those that could not be read, by their names, and why.
    pub(super) unreadable: Vec<(String, String)>,
    /// Number of those for which there was no time.
    pub(super) not_begun: usize,
}

/// Outcome for a document, where nothing is wrong with the index.
enum Outcome {
    /// It can be found, or what could be read of it.
    Indexed,
    /// It could not be read.
    Unreadable(Failure),
    /// Letters of it have to be recognised: nothing of it was kept.
    NeedsRecognition,
    /// There was no time to begin with it.
    NotBegun,
}

/// Brings documents into the index.
#[derive(Debug)]
pub(super) struct Ingester<'a> {
    pub(super) extractor: &'a Extractor,
    pub(super) index: &'a Arc<IndexHandle>,
    pub(super) broken: &'a FailureCache,
    pub(super) chunks: ChunkConfig,
    /// Time from which on no document is begun.
    pub(super) begin_by: Option<Instant>,
    /// The recognition that there is: what was read with less is read again.
    pub(super) recognition: &'a RecognitionStamp,
    pub(super) cancel: &'a CancellationToken,
}

impl Ingester<'_> {
    /// Brings documents in: first all that can be read at once, then those whose letters have to be recognised, so that none waits
    /// behind a scan. A document that fails does so alone; a failing index fails all.
    pub(super) async fn bring_all(
        &self,
        documents: Vec<KnownDocument>,
        progress: Progress<'_>,
    ) -> Result<IngestReport, IndexError> {
        let mut report = IngestReport::default();
        let mut waiting = documents;
        for (pass, at_once) in PASSES {
            let bring = |known: KnownDocument| async move { (known.clone(), self.bring(known, pass, progress).await) };
            let mut brought = stream::iter(mem::take(&mut waiting).into_iter().map(bring)).buffer_unordered(at_once);
            while let Some((known, outcome)) = brought.next().await {
                match outcome? {
                    Outcome::Indexed => {}
                    Outcome::NotBegun => report.not_begun += 1,
                    Outcome::Unreadable(failure) => report.unreadable.push((known.name, super::told(&failure))),
                    Outcome::NeedsRecognition => waiting.push(known),
                }
            }
        }
        let left = waiting.into_iter().map(|known| (known.name, super::told(&Failure::NeedsRecognition)));
        report.unreadable.extend(left);
        Ok(report)
    }

    /// Brings a document in, unless it is there already. Waits while somebody else does the same. Whatever fails leaves
    /// nothing half done; of a document that breaks in the middle, what could be read is kept.
    async fn bring(
        &self,
        known: KnownDocument,
        pass: ReadingPass,
        progress: Progress<'_>,
    ) -> Result<Outcome, IndexError> {
        let claim = self.index.claim(&known.id, self.recognition);
        let Some(claimed) = self.in_time(claim).await else { return Ok(Outcome::NotBegun) };
        let Some(claim) = claimed? else { return Ok(Outcome::Indexed) };
        // Whoever was at it before may have found out.
        if let Some(failure) = self.broken.why(&known.id, self.recognition) {
            return Ok(Outcome::Unreadable(failure));
        }
        let id = known.id;
        let read = match self.copy(&known).await? {
            Ok(copy) => match self.in_time(self.extractor.turn(pass, self.cancel)).await {
                None => return Ok(Outcome::NotBegun),
                Some(Ok(turn)) => self.read(claim, known, copy, turn, progress).await?,
                Some(Err(failure)) => Err(failure),
            },
            Err(failure) => Err(failure),
        };
        match read {
            Ok(()) => Ok(Outcome::Indexed),
            Err(Failure::Cancelled) => Err(IndexError::Cancelled),
            Err(Failure::NeedsRecognition) => Ok(Outcome::NeedsRecognition),
            Err(failure) => {
                self.broken.remember(id, failure.clone(), self.recognition.clone());
                Ok(Outcome::Unreadable(failure))
            }
        }
    }

    /// Outcome of this, where there is time for it.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.begin_by {
            Some(end) if Instant::now() >= end => None,
            Some(end) => timeout_at(end.into(), work).await.ok(),
            None => Some(work.await),
        }
    }

    /// A copy of a document's file, which holds the bytes by which the document is known.
    async fn copy(&self, known: &KnownDocument) -> Result<Result<File, Failure>, IndexError> {
        let (folder, most) = (self.index.folder().to_owned(), self.extractor.limits().bytes_in);
        let (file, stop) = (Arc::clone(&known.file), self.cancel.clone());
        let copied = tokio::task::spawn_blocking(move || digests::copy(&file, &folder, most, &stop)).await;
        let copied = copied.map_err(|_| IndexError::Closed)?;
        let (hash, copy) = match copied {
            Ok(copied) => copied,
            Err(error) => match IndexError::from(error) {
                full @ IndexError::Full(_) => return Err(full),
                error => return Ok(Err(Failure::Worker(error.to_string()))),
            },
        };
        let hash = known.inner.as_deref().map_or(hash, |path| hash.within(path));
        let is_same = known.id.is_of(hash);
        Ok(is_same.then_some(copy).ok_or_else(|| Failure::Worker("it was changed while it was being read".to_owned())))
    }

    async fn read(
        &self,
        claim: Claim,
        KnownDocument { id, name, inner, password, place, .. }: KnownDocument,
        copy: File,
        turn: WorkerTurn,
        progress: Progress<'_>,
    ) -> Result<Result<(), Failure>, IndexError> {
        let named = Kind::of_name(&name);
        let stamp = turn.recognition().stamp();
        let wanted = WantedParts { named, inner, password, ..WantedParts::default() };
        let mut extraction = match self.extractor.extract_in(turn, copy, wanted, self.cancel.clone()) {
            Ok(extraction) => extraction,
            Err(failure) => return Ok(Err(failure)),
        };
        let head = match extraction.next().await {
            Some(Ok(Piece::Head(head))) => head,
            Some(Err(failure)) => return Ok(Err(failure)),
            Some(Ok(_)) | None => return Ok(Err(Failure::Worker("its reader returned nothing".to_owned()))),
        };
        let mut about = About { kind: Some(head.kind), place, ..About::default() };
        let tell = |parts| progress(DocumentProgress { document: name.clone(), parts, total: head.parts });
        tell(0);
        let mut indexing = claim.begin(head.title.clone()).await?;
        let mut chunker = Chunker::new(self.chunks);
        let mut last = None;
        let failure = loop {
            match extraction.next().await {
                Some(Ok(Piece::Part(part))) => {
                    if let Some(why) = part.unread {
                        note_unread(&mut about.recognition, why, &stamp);
                    }
                    indexing.add(chunker.chunks(&part)).await?;
                    if last.as_ref().is_none_or(|last| !part.place.is_same(last)) {
                        about.parts += 1;
                        tell(about.parts);
                        last = Some(part.place);
                    }
                }
                Some(Err(failure)) => break Some(failure),
                Some(Ok(Piece::Head(_) | Piece::End(_))) | None => break None,
            }
        };
        // The next document is read while this one is written for good.
        drop(extraction);
        let was_cut = self.index.entry(&id).is_some_and(|former| former.about.retry);
        about.retry = !was_cut && failure.as_ref().is_some_and(Failure::may_pass);
        finish(indexing, about, failure).await
    }
}

/// Takes note of the recognition that did not reach a page. One that had no more time is worth another try.
fn note_unread(known: &mut Option<RecognitionStamp>, why: UnreadReason, now: &RecognitionStamp) {
    if why == UnreadReason::Undrawn {
        return;
    }
    let known = known.get_or_insert_with(|| RecognitionStamp { late_in: None, ..now.clone() });
    if matches!(why, UnreadReason::OutOfTime { .. }) {
        known.late_in = now.late_in;
    }
}

/// Finishes a document: what could be read of a broken one can be found; of an abandoned one nothing is kept, and the
/// next caller reads it from its start.
async fn finish(
    indexing: Indexing,
    mut about: About,
    failure: Option<Failure>,
) -> Result<Result<(), Failure>, IndexError> {
    if let Some(failure) = failure {
        if indexing.chunks() == 0 || is_passing(&failure) {
            return Ok(Err(failure));
        }
        about.flaw = Some(super::told(&failure));
    }
    indexing.finish(about).await?;
    Ok(Ok(()))
}

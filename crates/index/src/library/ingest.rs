//! Ingestion of documents: identification by hash, copying, reading in a worker, and indexing.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    mem,
    num::NonZeroUsize,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use agentd_core::{
    knowledge::{DocumentFinds, DocumentProgress, DocumentQuery, Password},
    mutex::lock,
    ports::OnProgress,
};
use futures_util::{StreamExt as _, stream};
use lru::LruCache;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::resolved::ResolvedDocuments;
use crate::{
    ChunkConfig, Extractor, Failure, Kind, Piece, ReadingPass, RecognitionStamp, UnreadReason, WantedParts, WorkerTurn,
    chunk::Chunker,
    failure::fail_if,
    handle::IndexHandle,
    index::{Claim, ContentHash, DocumentId, DocumentProperties, IndexError, folder::create_private_folder},
    worker::CancellableReader,
};

/// Maximum number of cached failures, which prevent a search from rereading broken documents. Each takes a few hundred
/// bytes.
const MAX_CACHED_FAILURES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(49_999);

/// Passes over new documents, each with its concurrency. The quick pass handles more documents than there are reading
/// turns, so that some are read while others are committed together. In the full pass, one scan is recognised while the
/// next one is copied.
const PASSES: [(ReadingPass, usize); 2] = [(ReadingPass::Quick, 8), (ReadingPass::Full, 2)];

/// Document that the caller may see, with its open file.
#[derive(Debug, Clone)]
pub(super) struct KnownDocument {
    pub(super) id: DocumentId,
    pub(super) name: String,
    pub(super) file: Arc<File>,
    /// Path of the document inside the archive, if the file is one.
    pub(super) inner: Option<String>,
    pub(super) password: Option<Password>,
    /// Hash of the document's path. A later document at the same path replaces this one.
    pub(super) place: Option<u64>,
}

/// Cache of unreadable documents, each with the failure and the recognition that was tried. A document that exceeded
/// time or memory is retried once.
#[derive(Debug, Clone)]
pub(super) struct FailureCache(Arc<Mutex<LruCache<DocumentId, CachedFailure>>>);

impl Default for FailureCache {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(MAX_CACHED_FAILURES))))
    }
}

#[derive(Debug)]
struct CachedFailure {
    failure: Failure,
    recognition: RecognitionStamp,
    is_final: bool,
}

impl FailureCache {
    /// Returns the cached failure, unless a retry with this recognition could succeed.
    pub(super) fn cached_failure(&self, id: &DocumentId, recognition: &RecognitionStamp) -> Option<Failure> {
        let broken = lock(&self.0);
        let CachedFailure { failure, recognition: before, is_final } = broken.peek(id)?;
        let is_outdated = failure.could_be_recognised() && recognition.may_improve_on(before);
        Some(failure.clone()).filter(|_| *is_final && !is_outdated)
    }

    pub(super) fn forget(&self, id: &DocumentId) {
        lock(&self.0).pop(id);
    }

    /// Caches a failure. Failures of the host or of recognition itself are not cached, so that the document is retried.
    fn store_failure(&self, id: DocumentId, failure: Failure, recognition: RecognitionStamp) {
        if is_uncached(&failure) || has_failed_recognition(&failure, &recognition) {
            return;
        }
        let mut broken = lock(&self.0);
        let is_final = !failure.is_transient() || broken.peek(&id).is_some_and(|before| before.failure.is_transient());
        broken.put(id, CachedFailure { failure, recognition, is_final });
    }
}

const fn is_uncached(failure: &Failure) -> bool {
    matches!(failure, Failure::Worker(_) | Failure::Cancelled | Failure::NeedsRecognition)
}

/// Returns true if recognition itself failed: the models are unusable, or time ran out before the first page.
const fn has_failed_recognition(failure: &Failure, recognition: &RecognitionStamp) -> bool {
    let Failure::Scanned { unread, .. } = failure else { return false };
    match unread.why {
        UnreadReason::NoModels => recognition.pages > 0,
        UnreadReason::OutOfTime { first } => first == 1,
        _ => false,
    }
}

/// Documents that were not indexed.
#[derive(Debug, Default)]
pub(super) struct IngestReport {
    /// Names of unreadable documents, each with a reason.
    pub(super) unreadable: Vec<(String, String)>,
    /// Number of documents that were not started because time ran out.
    pub(super) not_begun: usize,
}

/// Result for one document, if the index itself is fine.
enum Outcome {
    /// The document, or its readable part, is searchable.
    Indexed,
    /// The document could not be read.
    Unreadable(Failure),
    /// The document needs recognition. Nothing has been stored.
    NeedsRecognition,
    /// The document was not started because time ran out.
    NotBegun,
}

/// Indexes documents and searches them.
pub(super) struct Ingester<'a> {
    pub(super) extractor: &'a Extractor,
    pub(super) index: &'a Arc<IndexHandle>,
    pub(super) failures: &'a FailureCache,
    pub(super) chunks: ChunkConfig,
    pub(super) progress: &'a OnProgress,
    pub(super) cancel: &'a CancellationToken,
}

impl Ingester<'_> {
    /// Searches documents after indexing the missing ones.
    pub(super) async fn find(
        &self,
        resolved: &ResolvedDocuments,
        query: &DocumentQuery,
    ) -> Result<DocumentFinds, IndexError> {
        let is_current = self.index.has_all(resolved.known.iter().map(|known| &known.id), &resolved.recognition)
            && self.index.replaced(resolved.places()).is_empty();
        let report = match is_current {
            true => IngestReport::default(),
            false => self.ingest_all(resolved, query.begin_by).await?,
        };
        let answer = self.index.search(resolved.request(query), self.cancel.clone()).await?;
        Ok(resolved.to_finds(self.index, answer, report, query, self.failures))
    }

    /// Indexes missing or outdated documents. Documents that need recognition come last, so that other documents do not
    /// wait for a scan. A document that fails is reported with a reason and does not affect the others. An index error
    /// fails the whole call. No document is started after `begin_by`.
    pub(super) async fn ingest_all(
        &self,
        resolved: &ResolvedDocuments,
        begin_by: Option<Instant>,
    ) -> Result<IngestReport, IndexError> {
        let ResolvedDocuments { known, recognition, .. } = resolved;
        let ids: Vec<DocumentId> = known.iter().map(|known| known.id).collect();
        let missing = self.index.missing(&ids).await?;
        let (mut report, mut known_failures, mut waiting) = (IngestReport::default(), Vec::new(), Vec::new());
        let is_new = |id: &DocumentId| {
            let is_outdated = || self.index.entry(id).is_some_and(|entry| entry.about.is_outdated(recognition));
            missing.contains(id) || is_outdated()
        };
        for known in known.iter().filter(|known| is_new(&known.id)) {
            match self.failures.cached_failure(&known.id, recognition) {
                Some(failure) => known_failures.push((known.name.clone(), failure.sentence())),
                None => waiting.push(known.clone()),
            }
        }
        for (pass, at_once) in PASSES {
            let ingest_one = |known: KnownDocument| async move {
                (known.clone(), self.ingest_one(known, pass, recognition, begin_by).await)
            };
            let mut outcomes =
                stream::iter(mem::take(&mut waiting).into_iter().map(ingest_one)).buffer_unordered(at_once);
            while let Some((known, outcome)) = outcomes.next().await {
                match outcome? {
                    Outcome::Indexed => {}
                    Outcome::NotBegun => report.not_begun += 1,
                    Outcome::Unreadable(failure) => report.unreadable.push((known.name, failure.sentence())),
                    Outcome::NeedsRecognition => waiting.push(known),
                }
            }
        }
        let left = waiting.into_iter().map(|known| (known.name, Failure::NeedsRecognition.sentence()));
        report.unreadable.extend(left.chain(known_failures));
        for id in self.index.replaced(resolved.places()) {
            self.index.remove(&id).await?;
        }
        Ok(report)
    }

    /// Indexes a document unless it is already indexed. Waits while another task indexes it. A failure leaves no
    /// incomplete document, but if a document is damaged in the middle, its readable part is retained.
    async fn ingest_one(
        &self,
        known: KnownDocument,
        pass: ReadingPass,
        recognition: &RecognitionStamp,
        begin_by: Option<Instant>,
    ) -> Result<Outcome, IndexError> {
        let claim = self.index.claim(&known.id, recognition);
        let Some(claimed) = run_until(begin_by, claim).await else { return Ok(Outcome::NotBegun) };
        let Some(claim) = claimed? else { return Ok(Outcome::Indexed) };
        // The previous holder of the claim may have found the failure.
        if let Some(failure) = self.failures.cached_failure(&known.id, recognition) {
            return Ok(Outcome::Unreadable(failure));
        }
        let id = known.id;
        let read = match self.copy(&known).await? {
            Ok(copy) => match run_until(begin_by, self.extractor.turn(pass, self.cancel)).await {
                None => return Ok(Outcome::NotBegun),
                Some(Ok(turn)) => self.read(claim, known, copy, turn).await?,
                Some(Err(failure)) => Err(failure),
            },
            Err(failure) => Err(failure),
        };
        match read {
            Ok(()) => Ok(Outcome::Indexed),
            Err(Failure::Cancelled) => Err(IndexError::Cancelled),
            Err(Failure::NeedsRecognition) => Ok(Outcome::NeedsRecognition),
            Err(failure) => {
                self.failures.store_failure(id, failure.clone(), recognition.clone());
                Ok(Outcome::Unreadable(failure))
            }
        }
    }

    /// Copies a document's file and checks that the copy has the document's hash.
    async fn copy(&self, known: &KnownDocument) -> Result<Result<File, Failure>, IndexError> {
        let (folder, max_bytes) = (self.index.folder().to_owned(), self.extractor.limits().bytes_in);
        let (file, stop) = (Arc::clone(&known.file), self.cancel.clone());
        let copied = tokio::task::spawn_blocking(move || copy(&file, &folder, max_bytes, &stop)).await;
        let copied = copied.map_err(|_| IndexError::Closed)?;
        let (hash, copy) = match copied {
            Ok(copied) => copied,
            Err(error) => match IndexError::from(error) {
                full @ IndexError::Full(_) => return Err(full),
                error => return Ok(Err(Failure::Worker(error.to_string()))),
            },
        };
        let hash = known.inner.as_deref().map_or(hash, |path| hash.within(path));
        let is_same = known.id.content == hash;
        Ok(is_same.then_some(copy).ok_or_else(|| Failure::Worker("it changed while being read".to_owned())))
    }

    async fn read(
        &self,
        claim: Claim,
        KnownDocument { id, name, inner, password, place, .. }: KnownDocument,
        copy: File,
        turn: WorkerTurn,
    ) -> Result<Result<(), Failure>, IndexError> {
        let named = Kind::of_name(&name);
        let stamp = turn.recognition.stamp();
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
        let mut about = DocumentProperties { kind: Some(head.kind), place, ..DocumentProperties::default() };
        let on_progress =
            |parts| (self.progress)(DocumentProgress { document: name.clone(), parts, total: head.parts });
        on_progress(0);
        let mut indexing = claim.begin(head.title.clone()).await?;
        let mut chunker = Chunker::new(self.chunks);
        let mut last = None;
        let failure = loop {
            match extraction.next().await {
                Some(Ok(Piece::Part(part))) => {
                    if let Some(reason) = part.unread {
                        record_unread(&mut about.recognition, reason, &stamp);
                    }
                    indexing.add(chunker.chunks(&part)).await?;
                    if last.as_ref().is_none_or(|last| !part.place.is_same(last)) {
                        about.parts += 1;
                        on_progress(about.parts);
                        last = Some(part.place);
                    }
                }
                Some(Err(failure)) => break Some(failure),
                Some(Ok(Piece::Head(_) | Piece::End { .. })) | None => break None,
            }
        };
        // End the worker first, so that the next document is read while this one is committed.
        drop(extraction);
        let was_cut = self.index.entry(&id).is_some_and(|previous| previous.about.retry);
        about.retry = !was_cut && failure.as_ref().is_some_and(Failure::is_transient);
        if let Some(failure) = failure {
            // Nothing is stored for a cancelled document. The next caller reads it from the start.
            if indexing.chunks() == 0 || is_uncached(&failure) {
                return Ok(Err(failure));
            }
            about.flaw = Some(failure.sentence());
        }
        indexing.finish(about).await?;
        Ok(Ok(()))
    }
}

/// Starts `work` and waits for it, but only until `begin_by`. Returns `None` if that time has passed.
async fn run_until<T>(begin_by: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match begin_by {
        Some(end) if Instant::now() >= end => None,
        Some(end) => timeout_at(end.into(), work).await.ok(),
        None => Some(work.await),
    }
}

/// Records the recognition that left a page unread. A timeout is recorded with the current daemon run, so that a later
/// run retries.
fn record_unread(known: &mut Option<RecognitionStamp>, reason: UnreadReason, now: &RecognitionStamp) {
    if reason == UnreadReason::Undrawn {
        return;
    }
    let known = known.get_or_insert_with(|| RecognitionStamp { late_in: None, ..now.clone() });
    if matches!(reason, UnreadReason::OutOfTime { .. }) {
        known.late_in = now.late_in;
    }
}

/// Maximum number of cached hashes, of about 200 bytes each.
const MAX_CACHED_HASHES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99_999);
/// Minimum time since a file's last change before its hash is cached. A more recently changed file may change again
/// within the resolution of its timestamp.
const MIN_AGE: Duration = Duration::from_secs(2);

/// Cache of file hashes.
#[derive(Debug, Clone)]
pub(super) struct HashCache(Arc<Mutex<Hashes>>);

impl Default for HashCache {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(MAX_CACHED_HASHES))))
    }
}

/// Hashes by device and inode number.
type Hashes = LruCache<(u64, u64), (Stamp, ContentHash)>;

/// File metadata that changes whenever the content does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &File) -> io::Result<((u64, u64), Self)> {
        let found = file.metadata()?;
        fail_if(!found.is_file(), || io::Error::other("it is not a regular file"))?;
        let (modified, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
        Ok(((found.dev(), found.ino()), Self { size: found.len(), modified, changed }))
    }

    /// Returns true if the next change will alter the metadata.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let last = u64::try_from(self.modified.0.max(self.changed.0)).unwrap_or_default();
        now.saturating_sub(last) > MIN_AGE.as_secs()
    }
}

impl HashCache {
    /// Returns the content hash of a file, or `None` if the file exceeds `max_bytes`. Blocks until done or cancelled.
    /// The file position does not change.
    pub(super) fn of(
        &self,
        file: &File,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> io::Result<Option<ContentHash>> {
        let (identity, stamp) = Stamp::of(file)?;
        if stamp.size > max_bytes {
            return Ok(None);
        }
        if let Some((known, hash)) = lock(&self.0).peek(&identity)
            && *known == stamp
        {
            return Ok(Some(*hash));
        }
        let is_settled = stamp.is_settled();
        // The file may grow during the read.
        let mut rest = CancellableReader { file, position: 0, cancel }.take(max_bytes.saturating_add(1));
        let hash = ContentHash::read(&mut rest)?;
        if rest.limit() == 0 {
            return Ok(None);
        }
        if is_settled && Stamp::of(file)?.1 == stamp {
            lock(&self.0).put(identity, (stamp, hash));
        }
        Ok(Some(hash))
    }
}

/// Copies at most `max_bytes + 1` bytes of a file to an unnamed file in `folder` and returns the copy with its hash.
/// Blocks.
///
/// The hash is computed from the same copy that is later read, so writes to the original cannot cause a mismatch: the
/// index is shared, and no user may store false text under the hash of another user's document.
pub(super) fn copy(
    file: &File,
    folder: &Path,
    max_bytes: u64,
    cancel: &CancellationToken,
) -> io::Result<(ContentHash, File)> {
    Stamp::of(file)?;
    create_private_folder(folder)?;
    let mut copy = tempfile::tempfile_in(folder)?;
    io::copy(&mut CancellableReader { file, position: 0, cancel }.take(max_bytes.saturating_add(1)), &mut copy)?;
    copy.flush()?;
    let hash = ContentHash::read(CancellableReader { file: &copy, position: 0, cancel })?;
    copy.rewind()?;
    Ok((hash, copy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_change_is_detected_and_copy_keeps_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "one").unwrap();
        let hash_cache = HashCache::default();
        let file = File::open(&path).unwrap();
        let cancel = CancellationToken::new();
        assert_eq!(hash_cache.of(&file, 100, &cancel).unwrap(), Some(ContentHash::of(b"one")));
        let (hash, mut copied) = copy(&file, &folder.path().join("copies"), 100, &cancel).unwrap();
        // Written in place, so that the inode stays the same.
        std::fs::write(&path, "two").unwrap();
        assert_eq!(hash_cache.of(&file, 100, &cancel).unwrap(), Some(ContentHash::of(b"two")));
        let mut content = String::new();
        copied.read_to_string(&mut content).unwrap();
        assert_eq!((content.as_str(), hash), ("one", ContentHash::of(b"one")));
        assert!(
            hash_cache.of(&File::open(folder.path()).unwrap(), 100, &cancel).is_err(),
            "a folder is not a document"
        );
        assert_eq!(hash_cache.of(&file, 2, &cancel).unwrap(), None);
        cancel.cancel();
        std::fs::write(&path, "three").unwrap();
        hash_cache.of(&file, 100, &cancel).unwrap_err();
        assert!(copy(&file, &folder.path().join("copies"), 100, &cancel).is_err());
    }
}

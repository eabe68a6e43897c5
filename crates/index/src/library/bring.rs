//! A document on its way from a file into the index.

use std::{
    collections::HashMap,
    fs::File,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use agentd_core::knowledge::{DocumentProgress, Password};
use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::digests;
use crate::{
    ChunkConfig, Extractor, Failure, Kind, Piece, ReadingPass, WantedParts,
    chunk::Chunker,
    index::{About, Claim, DocumentId, IndexError, IndexHandle, Indexing},
};

/// Documents whose failures are remembered, so that a broken one is not read anew by each search.
const MAX_BROKEN: usize = 1000;

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
}

/// Documents that could not be read at all, and why.
#[derive(Debug, Default, Clone)]
pub(super) struct FailureCache(Arc<Mutex<HashMap<DocumentId, Failure>>>);

impl FailureCache {
    /// Why it could not be read, where that is known and trying again would come to the same. What went wrong with the
    /// machine and not with the document is tried again.
    pub(super) fn why(&self, id: &DocumentId) -> Option<Failure> {
        let broken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get(id).filter(|failure| !is_passing(failure)).cloned()
    }

    pub(super) fn forget(&self, id: &DocumentId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn remember(&self, id: DocumentId, failure: Failure) {
        let mut broken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if broken.len() >= MAX_BROKEN {
            broken.clear();
        }
        broken.insert(id, failure);
    }
}

const fn is_passing(failure: &Failure) -> bool {
    matches!(failure, Failure::Worker(_) | Failure::Cancelled | Failure::NeedsRecognition)
}

/// Outcome for a document, where nothing is wrong with the index.
enum Outcome {
    /// It can be found, or what could be read of it.
    Indexed,
    /// It could not be read.
    Unreadable(Failure),
    /// Letters of it have to be recognised: nothing of it was kept.
    NeedsRecognition,
}

/// Brings documents into the index.
#[derive(Debug)]
pub(super) struct Ingester<'a> {
    pub(super) extractor: &'a Extractor,
    pub(super) index: &'a Arc<IndexHandle>,
    pub(super) broken: &'a FailureCache,
    pub(super) chunks: ChunkConfig,
    pub(super) cancel: &'a CancellationToken,
}

impl Ingester<'_> {
    /// Brings documents in: first all that can be read at once, then those whose letters have to be recognised, so that none waits
    /// behind a scan. Returns those that could not be read, by their names, and why. A failing index fails all.
    pub(super) async fn bring_all(
        &self,
        documents: Vec<KnownDocument>,
        progress: Progress<'_>,
    ) -> Result<Vec<(String, String)>, IndexError> {
        let mut unreadable = Vec::new();
        let mut waiting = documents;
        for (pass, at_once) in PASSES {
            let bring = |known: KnownDocument| async move { (known.clone(), self.bring(known, pass, progress).await) };
            let mut brought = stream::iter(mem::take(&mut waiting).into_iter().map(bring)).buffer_unordered(at_once);
            while let Some((known, outcome)) = brought.next().await {
                match outcome? {
                    Outcome::Indexed => {}
                    Outcome::Unreadable(failure) => unreadable.push((known.name, super::told(&failure))),
                    Outcome::NeedsRecognition => waiting.push(known),
                }
            }
        }
        let left = waiting.into_iter().map(|known| (known.name, super::told(&Failure::NeedsRecognition)));
        unreadable.extend(left);
        Ok(unreadable)
    }

    /// Brings a document in, unless it is there already. Waits while somebody else does the same. Whatever fails leaves
    /// nothing half done; of a document that breaks in the middle, what could be read is kept.
    async fn bring(
        &self,
        known: KnownDocument,
        pass: ReadingPass,
        progress: Progress<'_>,
    ) -> Result<Outcome, IndexError> {
        let Some(claim) = self.index.claim(&known.id).await? else { return Ok(Outcome::Indexed) };
        // Whoever was at it before may have found out.
        if let Some(failure) = self.broken.why(&known.id) {
            return Ok(Outcome::Unreadable(failure));
        }
        let id = known.id;
        match self.read(claim, known, pass, progress).await? {
            Ok(()) => Ok(Outcome::Indexed),
            Err(Failure::Cancelled) => Err(IndexError::Cancelled),
            Err(Failure::NeedsRecognition) => Ok(Outcome::NeedsRecognition),
            Err(failure) => {
                self.broken.remember(id, failure.clone());
                Ok(Outcome::Unreadable(failure))
            }
        }
    }

    async fn read(
        &self,
        claim: Claim,
        KnownDocument { id, name, file, inner, password }: KnownDocument,
        pass: ReadingPass,
        progress: Progress<'_>,
    ) -> Result<Result<(), Failure>, IndexError> {
        let named = Kind::of_name(&name);
        let (folder, most) = (self.index.folder().to_owned(), self.extractor.limits().bytes_in);
        let stop = self.cancel.clone();
        let copied = tokio::task::spawn_blocking(move || digests::copy(&file, &folder, most, &stop)).await;
        let copied = copied.map_err(|_| IndexError::Closed)?;
        let (hash, copy) = match copied {
            Ok(copied) => copied,
            Err(error) => match IndexError::from(error) {
                full @ IndexError::Full(_) => return Err(full),
                error => return Ok(Err(Failure::Worker(error.to_string()))),
            },
        };
        let hash = inner.as_deref().map_or(hash, |path| hash.within(path));
        if !id.is_of(hash) {
            return Ok(Err(Failure::Worker("it was changed while it was being read".to_owned())));
        }
        let wanted = WantedParts { named, inner, password, ..WantedParts::default() };
        let turn = match self.extractor.turn(pass, self.cancel).await {
            Ok(turn) => turn,
            Err(failure) => return Ok(Err(failure)),
        };
        let mut extraction = match self.extractor.extract_in(turn, copy, wanted, self.cancel.clone()) {
            Ok(extraction) => extraction,
            Err(failure) => return Ok(Err(failure)),
        };
        let head = match extraction.next().await {
            Some(Ok(Piece::Head(head))) => head,
            Some(Err(failure)) => return Ok(Err(failure)),
            Some(Ok(_)) | None => return Ok(Err(Failure::Worker("its reader returned nothing".to_owned()))),
        };
        let mut about = About { kind: Some(head.kind), ..About::default() };
        let tell = |parts| progress(DocumentProgress { document: name.clone(), parts, total: head.parts });
        tell(0);
        let mut indexing = claim.begin(head.title.clone()).await?;
        let mut chunker = Chunker::new(self.chunks);
        let mut last = None;
        let failure = loop {
            match extraction.next().await {
                Some(Ok(Piece::Part(part))) => {
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
        finish(indexing, about, failure).await
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

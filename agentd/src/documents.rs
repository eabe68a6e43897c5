//! Documents and pictures: the adapter of the feature `documents`, or a substitute for a build without the feature.

#[cfg(feature = "documents")]
mod adapter {
    //! Adapter that reads documents in workers and searches them in an index.

    use std::{
        ffi::{OsStr, OsString},
        path::Path,
        process::ExitCode,
        sync::Arc,
    };

    use agentd_core::ports::{Clock, Pictures};
    pub use agentd_index::Library;
    pub(crate) use agentd_index::release_memory;
    use agentd_index::{
        ChunkConfig, Extractor, IndexConfig, Limits, PICTURE_WORKER_ARGUMENT, PictureReader, ReadingLimit,
        ReadingLimits, RecognitionConfig, WORKER_ARGUMENT, run_picture_worker,
    };

    use crate::{config::DaemonSettings, environment::OWN_PROGRAM};

    /// Number of documents that are read at the same time, in addition to one that is being recognised (OCR).
    const WORKERS: usize = 2;

    /// Creates the library of a data folder. Nothing is opened or started before the first search.
    pub(crate) fn library(data: &Path, settings: &DaemonSettings, clock: &Arc<dyn Clock>) -> Library {
        let clock = Arc::clone(clock);
        let now = Arc::new(move || u64::try_from(clock.now().as_second()).unwrap_or_default());
        let (reading, index) = (&settings.reading, &settings.index);
        let folders = [Some(data.join("models")), agentd_proto::packaged::models()].into_iter().flatten().collect();
        let pages = u32::try_from(reading.recognised_pages.0).unwrap_or(u32::MAX);
        let extractor = Extractor::new(OWN_PROGRAM.into(), Limits::default(), WORKERS);
        let extractor = extractor.recognising(RecognitionConfig { folders, pages });
        let limit =
            |parts: usize, letters: usize| ReadingLimit { parts: u32::try_from(parts).unwrap_or(u32::MAX), letters };
        let config = IndexConfig {
            stale_after: index.stale_after.0,
            gone_after: index.keep.0,
            most_bytes: index.max_bytes.0,
            chunks: ChunkConfig {
                letters: index.chunk_chars.size(),
                overlap: index.chunk_overlap.size(),
                rows: index.chunk_rows.size(),
                row_overlap: index.row_overlap.size(),
                ..ChunkConfig::default()
            },
            reading: ReadingLimits {
                pages: limit(reading.document_pages.size(), reading.document_chars.size()),
                sheets: limit(reading.workbook_sheets.size(), reading.workbook_chars.size()),
                slides: limit(reading.presentation_slides.size(), reading.presentation_chars.size()),
                ..ReadingLimits::default()
            },
            ..IndexConfig::new(data.join("index"), now)
        };
        Library::new(extractor, config)
    }

    /// Creates the converter that prepares pictures for models.
    pub(crate) fn pictures() -> Option<Arc<dyn Pictures>> {
        Some(Arc::new(PictureReader::new(OWN_PROGRAM.into())))
    }

    /// Runs the worker for documents or pictures if the first argument requests one.
    pub fn run_worker(first: &OsStr, rest: &[OsString]) -> Option<ExitCode> {
        if first == WORKER_ARGUMENT {
            Some(agentd_index::run_worker(rest))
        } else if first == PICTURE_WORKER_ARGUMENT {
            Some(run_picture_worker(rest))
        } else {
            None
        }
    }
}

#[cfg(not(feature = "documents"))]
mod substitute {
    //! Substitutes for a build without the feature `documents`.

    use std::{
        ffi::{OsStr, OsString},
        path::Path,
        process::ExitCode,
        sync::Arc,
    };

    use agentd_core::{
        error::{ErrorKind, KnowledgeError},
        knowledge::{DocumentFinds, DocumentQuery, DocumentState, KnowledgeStats, OpenDocument, PartRange, Reading},
        ports::{Clock, Knowledge, Models, OnProgress, Pictures},
    };
    use futures_util::{FutureExt as _, future::BoxFuture};
    use tokio_util::sync::CancellationToken;

    /// First bytes of documents: PDF, archives in newer office formats, containers in older office formats.
    const DOCUMENT_SIGNATURES: [&[u8]; 3] = [b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"];

    /// Library that refuses to read or search.
    #[derive(Debug)]
    pub struct Library;

    impl Library {
        /// Does nothing, because nothing is open.
        pub async fn close(&self) {}

        /// Does nothing, because nothing is searched.
        pub(crate) fn with_embeddings(self, _models: Arc<dyn Models>) -> Self {
            self
        }
    }

    /// Creates the library for a build that reads no documents.
    pub(crate) fn library(_data: &Path, _settings: &crate::config::DaemonSettings, _clock: &Arc<dyn Clock>) -> Library {
        Library
    }

    /// Returns `None`: this build shows no pictures to models.
    pub(crate) fn pictures() -> Option<Arc<dyn Pictures>> {
        None
    }

    /// Returns `None`: this build has no document workers.
    pub fn run_worker(_first: &OsStr, _rest: &[OsString]) -> Option<ExitCode> {
        None
    }

    /// Does nothing, because this build retains no memory.
    pub(crate) fn release_memory() {}

    impl Knowledge for Library {
        fn is_document(&self, _name: &str, head: &[u8]) -> bool {
            DOCUMENT_SIGNATURES.iter().any(|signature| head.starts_with(signature))
        }

        fn read(
            &self,
            _document: OpenDocument,
            _range: PartRange,
            _progress: OnProgress,
            _cancel: CancellationToken,
        ) -> BoxFuture<'_, Result<Reading, KnowledgeError>> {
            unsupported()
        }

        fn search(
            &self,
            _documents: Vec<OpenDocument>,
            _query: DocumentQuery,
            _progress: OnProgress,
            _cancel: CancellationToken,
        ) -> BoxFuture<'_, Result<DocumentFinds, KnowledgeError>> {
            unsupported()
        }

        fn ingest(
            &self,
            _documents: Vec<OpenDocument>,
            _reindex: bool,
            _progress: OnProgress,
            _cancel: CancellationToken,
        ) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>> {
            unsupported()
        }

        fn states(&self, _documents: Vec<OpenDocument>) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>> {
            unsupported()
        }

        fn stats(&self) -> BoxFuture<'_, Result<KnowledgeStats, KnowledgeError>> {
            unsupported()
        }
    }

    fn unsupported<T: Send + 'static>() -> BoxFuture<'static, Result<T, KnowledgeError>> {
        let error = KnowledgeError::new(ErrorKind::Configuration, "this agentd was built without document support")
            .with_hint("build it with the feature `documents` (on by default)");
        std::future::ready(Err(error)).boxed()
    }
}

#[cfg(feature = "documents")]
use adapter as chosen;
#[cfg(not(feature = "documents"))]
use substitute as chosen;

pub use chosen::{Library, run_worker};
pub(crate) use chosen::{library, pictures, release_memory};

//! Documents read by workers and found in an index.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use agentd_core::ports::{Clock, Pictures};
pub use agentd_index::Library;
pub(crate) use agentd_index::give_back;
use agentd_index::{
    ChunkConfig, Extractor, IndexConfig, Limits, PICTURE_WORKER_ARGUMENT, PictureReader, ReadingLimit, ReadingLimits,
    RecognitionConfig, WORKER_ARGUMENT, run_picture_worker,
};

use crate::{config::DaemonSettings, environment::OWN_PROGRAM};

/// Documents that are read at the same time, besides one whose letters are recognised.
const WORKERS: usize = 2;

/// The library of a data folder. Nothing is opened and nothing runs before a document is searched.
pub(crate) fn library(data: &Path, settings: &DaemonSettings, clock: &Arc<dyn Clock>) -> Library {
    let clock = Arc::clone(clock);
    let now = Arc::new(move || u64::try_from(clock.now().as_second()).unwrap_or_default());
    let (reading, index) = (&settings.reading, &settings.index);
    let folders = [Some(data.join("models")), agentd_proto::packaged::models()].into_iter().flatten().collect();
    let pages = u32::try_from(reading.recognised_pages.0).unwrap_or(u32::MAX);
    let extractor = Extractor::new(OWN_PROGRAM.into(), Limits::default(), WORKERS);
    let extractor = extractor.recognising(RecognitionConfig { folders, pages });
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limit = |parts: u64, letters: u64| ReadingLimit {
        parts: u32::try_from(parts).unwrap_or(u32::MAX),
        letters: size(letters),
    };
    let config = IndexConfig {
        stale_after: index.stale_after.0,
        gone_after: index.keep.0,
        most_bytes: index.max_bytes.0,
        chunks: ChunkConfig {
            letters: size(index.chunk_chars.0),
            overlap: size(index.chunk_overlap.0),
            rows: size(index.chunk_rows.0),
            row_overlap: size(index.row_overlap.0),
            ..ChunkConfig::default()
        },
        reading: ReadingLimits {
            pages: limit(reading.document_pages.0, reading.document_chars.0),
            sheets: limit(reading.workbook_sheets.0, reading.workbook_chars.0),
            slides: limit(reading.presentation_slides.0, reading.presentation_chars.0),
            ..ReadingLimits::default()
        },
        ..IndexConfig::new(data.join("index"), now)
    };
    Library::new(extractor, config)
}

/// Makes pictures fit for models.
pub(crate) fn pictures() -> Option<Arc<dyn Pictures>> {
    Some(Arc::new(PictureReader::new(OWN_PROGRAM.into())))
}

/// Does the work of a reader of documents or pictures, where the first argument says that this process is one.
#[must_use]
pub fn run_worker(first: &OsStr, rest: &[OsString]) -> Option<ExitCode> {
    if first == WORKER_ARGUMENT {
        Some(agentd_index::run_worker(rest))
    } else if first == PICTURE_WORKER_ARGUMENT {
        Some(run_picture_worker(rest))
    } else {
        None
    }
}

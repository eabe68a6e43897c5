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
    Extractor, IndexConfig, Limits, PICTURE_WORKER_ARGUMENT, PictureReader, WORKER_ARGUMENT, run_picture_worker,
};

use crate::boot::OWN_PROGRAM;

/// Documents that are read at the same time.
const WORKERS: usize = 2;

/// The library of a data folder. Nothing is opened and nothing runs before a document is searched.
pub(crate) fn library(data: &Path, clock: &Arc<dyn Clock>) -> Library {
    let clock = Arc::clone(clock);
    let now = Arc::new(move || u64::try_from(clock.now().as_second()).unwrap_or_default());
    let extractor = Extractor::new(OWN_PROGRAM.into(), Limits::default(), WORKERS);
    Library::new(extractor, IndexConfig::new(data.join("index"), now))
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

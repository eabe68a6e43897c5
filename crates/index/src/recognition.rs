//! Text recognition (OCR) in images and scanned pages: location of the models and limits for one document.

use std::{
    io,
    num::NonZeroUsize,
    path::PathBuf,
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use agentd_core::knowledge::RECOGNITION_MODELS;
use serde::{Deserialize, Serialize};

use crate::failure::UnreadReason;

/// Maximum number of threads for one document. The other cores stay free for interactive work.
const MAX_THREADS: usize = 4;
/// Time limit for loading the models and the first page; [`TIMEOUT_PER_PAGE`] is added for every page.
const BASE_TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_PER_PAGE: Duration = Duration::from_secs(3);
/// Upper bound on the time limit, for any number of pages.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// Memory for the networks and a rendered page, in bytes, in addition to the limit for reading.
pub(crate) const MEMORY: u64 = 768 * 1024 * 1024;

/// Settings of text recognition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecognitionConfig {
    /// Folders that may contain the model files. The first folder with all files is used.
    pub folders: Vec<PathBuf>,
    /// Maximum number of pages in one document that are recognised in one call. Zero disables recognition.
    pub pages: u32,
}

impl RecognitionConfig {
    /// Returns the current availability of recognition. Not cached, because model files may be added or removed while
    /// the daemon runs.
    pub fn now(&self) -> Recognition {
        if !cfg!(feature = "ocr") {
            return Recognition::Missing(UnreadReason::NotBuilt);
        }
        if self.pages == 0 {
            return Recognition::Missing(UnreadReason::Off);
        }
        let has_models = |folder: &&PathBuf| RECOGNITION_MODELS.iter().all(|name| folder.join(name).is_file());
        let Some(folder) = self.folders.iter().find(has_models) else {
            return Recognition::Missing(UnreadReason::NoModels);
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS);
        let time = BASE_TIMEOUT.saturating_add(TIMEOUT_PER_PAGE.saturating_mul(self.pages)).min(MAX_TIMEOUT);
        let budget = RecognitionBudget { pages: self.pages, time, threads };
        Recognition::Ready { folder: folder.clone(), budget }
    }
}

/// Settings and model files that determine the result of recognition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecognitionStamp {
    /// Maximum number of recognised pages per document. Zero if recognition is unavailable.
    pub pages: u32,
    /// Size in bytes and modification time in nanoseconds since 1970 of each model file.
    pub models: Vec<(u64, u128)>,
    /// Identifier of this daemon run. In a document's entry, the run in which recognition timed out, or `None` if it
    /// did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_in: Option<u64>,
}

impl RecognitionStamp {
    /// Returns true if a document that was only partly recognised with `before` is worth reading again. A document that
    /// timed out is retried once per run: the host may have been busy, but the document may also be as slow again.
    pub fn may_improve_on(&self, before: &Self) -> bool {
        let may_be_faster = before.late_in.is_some() && self.late_in != before.late_in;
        self.pages > 0 && (self.models != before.models || self.pages > before.pages || may_be_faster)
    }
}

/// Identifier of this daemon run.
static DAEMON_RUN: LazyLock<u64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
});

/// Recognition for one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recognition {
    /// Recognition is unavailable for this reason.
    Missing(UnreadReason),
    /// Recognition is available but must wait for a turn. This pass ends with
    /// [`NeedsRecognition`](crate::Failure::NeedsRecognition) at the first page that needs recognition.
    Deferred,
    /// Recognition with the models in a folder.
    Ready {
        /// Folder with the model files.
        folder: PathBuf,
        /// Limits on pages, time and threads.
        budget: RecognitionBudget,
    },
}

impl Default for Recognition {
    fn default() -> Self {
        Self::Missing(UnreadReason::default())
    }
}

impl Recognition {
    /// Returns the limits. `None` unless recognition is [`Ready`](Self::Ready).
    pub const fn budget(&self) -> Option<RecognitionBudget> {
        match self {
            Self::Missing(_) | Self::Deferred => None,
            Self::Ready { budget, .. } => Some(*budget),
        }
    }

    /// Returns the stamp by which a change of models or settings is detected.
    pub fn stamp(&self) -> RecognitionStamp {
        let Self::Ready { folder, budget } = self else { return RecognitionStamp::default() };
        let of = |name| {
            let found = folder.join(name).metadata()?;
            let since = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok((found.len(), since.as_nanos()))
        };
        let models: io::Result<Vec<_>> = RECOGNITION_MODELS.into_iter().map(of).collect();
        let stamp = |models| RecognitionStamp { pages: budget.pages, models, late_in: Some(*DAEMON_RUN) };
        models.map(stamp).unwrap_or_default()
    }
}

/// Limits on the cost of recognising one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecognitionBudget {
    /// Maximum number of pages.
    pub pages: u32,
    /// Time limit for all pages together.
    pub time: Duration,
    /// Number of worker threads.
    pub threads: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pages_or_other_models_justify_rereading() {
        let stamp = |pages, size| RecognitionStamp { pages, models: vec![(size, 0)], late_in: Some(7) };
        assert!(stamp(9, 1).may_improve_on(&RecognitionStamp::default()));
        assert!(stamp(9, 1).may_improve_on(&stamp(8, 1)) && stamp(9, 1).may_improve_on(&stamp(9, 2)));
        assert!(!stamp(9, 1).may_improve_on(&stamp(9, 1)) && !stamp(8, 1).may_improve_on(&stamp(9, 1)));
        // A timeout is retried once in each later daemon run.
        let timed_out_in = |run| RecognitionStamp { late_in: run, ..stamp(9, 1) };
        assert!(stamp(9, 1).may_improve_on(&timed_out_in(Some(6))) && !stamp(9, 1).may_improve_on(&timed_out_in(None)));
        // Without recognition, nothing is read again, so that recognised text stays in the index.
        assert!(!RecognitionStamp::default().may_improve_on(&stamp(9, 1)));
    }
}

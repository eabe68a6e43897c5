//! Recognition of letters in pictures: where its models are, and how much of a document may be recognised at once.

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

/// Threads that recognise one document, at the most: some of a machine stays free for who waits.
const MOST_THREADS: usize = 4;
/// Time for the models and the first page, and for each page.
const FIRST: Duration = Duration::from_secs(30);
const EACH: Duration = Duration::from_secs(3);
/// Time limit, however many pages there are.
const MOST_TIME: Duration = Duration::from_secs(600);
/// Memory of the networks and of a drawn page, in bytes, beyond what reading takes.
pub(crate) const MEMORY: u64 = 768 * 1024 * 1024;

/// Settings of recognition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecognitionConfig {
    /// Folders that may have the models' files; the first that has them all counts.
    pub folders: Vec<PathBuf>,
    /// Pages of one document that are recognised at once; none switches it off.
    pub pages: u32,
}

impl RecognitionConfig {
    /// Recognition as it can be had now: the models may come and go while the daemon runs.
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
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_THREADS);
        let time = FIRST.saturating_add(EACH.saturating_mul(self.pages)).min(MOST_TIME);
        let budget = RecognitionBudget { pages: self.pages, time, threads };
        Recognition::Ready { folder: folder.clone(), budget }
    }
}

/// State of recognition that decides which letters are recognised.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecognitionStamp {
    /// Pages of one document that are recognised; 0 where there is no recognition.
    pub pages: u32,
    /// Size and time of each file of the models, in nanoseconds since 1970.
    pub models: Vec<(u64, u128)>,
    /// This run of the program. Of a document it is that in which its pages took too long; none where they did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_in: Option<u64>,
}

impl RecognitionStamp {
    /// Returns whether a document that was not recognised to its end with `before` is worth reading again. One that took too long is
    /// so once in each run: the machine may have been busy, and it may be as slow again.
    pub fn promises_more_than(&self, before: &Self) -> bool {
        let may_be_faster = before.late_in.is_some() && self.late_in != before.late_in;
        self.pages > 0 && (self.models != before.models || self.pages > before.pages || may_be_faster)
    }
}

/// A number by which this run of the program differs from others.
static RUN: LazyLock<u64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
});

/// Recognition for one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recognition {
    /// There is none, and why.
    Missing(UnreadReason),
    /// There is, and reading ends where it is needed: it has to wait for its turn.
    Deferred,
    /// With the models of this folder.
    Ready {
        /// The folder.
        folder: PathBuf,
        /// The limits.
        budget: RecognitionBudget,
    },
}

impl Default for Recognition {
    fn default() -> Self {
        Self::Missing(UnreadReason::default())
    }
}

impl Recognition {
    /// Limits on its cost; none where there is none.
    pub const fn budget(&self) -> Option<RecognitionBudget> {
        match self {
            Self::Missing(_) | Self::Deferred => None,
            Self::Ready { budget, .. } => Some(*budget),
        }
    }

    /// Its state, by which a change is known.
    pub fn stamp(&self) -> RecognitionStamp {
        let Self::Ready { folder, budget } = self else { return RecognitionStamp::default() };
        let of = |name| {
            let found = folder.join(name).metadata()?;
            let since = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok((found.len(), since.as_nanos()))
        };
        let models: io::Result<Vec<_>> = RECOGNITION_MODELS.into_iter().map(of).collect();
        let stamp = |models| RecognitionStamp { pages: budget.pages, models, late_in: Some(*RUN) };
        models.map(stamp).unwrap_or_default()
    }
}

/// Limits on the cost of recognising one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecognitionBudget {
    /// Pages.
    pub pages: u32,
    /// Time for all of them.
    pub time: Duration,
    /// Threads that compute.
    pub threads: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pages_and_other_models_promise_more() {
        let stamp = |pages, size| RecognitionStamp { pages, models: vec![(size, 0)], late_in: Some(7) };
        assert!(stamp(9, 1).promises_more_than(&RecognitionStamp::default()));
        assert!(stamp(9, 1).promises_more_than(&stamp(8, 1)) && stamp(9, 1).promises_more_than(&stamp(9, 2)));
        assert!(!stamp(9, 1).promises_more_than(&stamp(9, 1)) && !stamp(8, 1).promises_more_than(&stamp(9, 1)));
        // What took too long is tried again in another run of the program, and once in each.
        let late = |run| RecognitionStamp { late_in: run, ..stamp(9, 1) };
        assert!(stamp(9, 1).promises_more_than(&late(Some(6))) && !stamp(9, 1).promises_more_than(&late(None)));
        // Without recognition nothing is read again, so that what was recognised stays.
        assert!(!RecognitionStamp::default().promises_more_than(&stamp(9, 1)));
    }
}

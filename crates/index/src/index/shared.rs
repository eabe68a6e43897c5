//! State that the writer shares with all who search.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use super::{config::IndexConfig, uses::Uses, view::View};
use crate::analyze::Dictionary;

/// State that the writer shares with everybody else.
pub(crate) struct Shared {
    pub(crate) config: IndexConfig,
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) uses: Uses,
    view: RwLock<Arc<View>>,
    /// Set if the writer waits without an end, so that it does not look by itself for what may be given back.
    is_asleep: AtomicBool,
}

impl Shared {
    pub(crate) fn new(config: IndexConfig, dictionary: Arc<Dictionary>, uses: Uses, view: View) -> Self {
        Self { config, dictionary, uses, view: RwLock::new(Arc::new(view)), is_asleep: AtomicBool::new(false) }
    }

    /// The writer holds nothing, and waits for nothing but commands.
    pub(crate) fn fall_asleep(&self) {
        self.is_asleep.store(true, Ordering::Release);
    }

    /// The writer is at work.
    pub(crate) fn wake(&self) {
        self.is_asleep.store(false, Ordering::Release);
    }

    /// Returns whether the writer is asleep.
    pub(crate) fn is_asleep(&self) -> bool {
        self.is_asleep.load(Ordering::Acquire)
    }

    /// Returns whether the writer has to be roused, as a search loaded what it is to put away.
    pub(crate) fn must_rouse(&self) -> bool {
        self.dictionary.is_loaded() && self.is_asleep.swap(false, Ordering::AcqRel)
    }

    /// The current view.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows this from now on.
    pub(crate) fn publish(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }
}

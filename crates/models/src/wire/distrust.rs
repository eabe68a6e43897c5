//! Earlier thoughts that a server has refused: they are not sent to it again, while all others are.

use std::{
    collections::HashSet,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Refused ones that are known at the same time.
const MAX_KNOWN: usize = 4096;

/// The answers whose thoughts were refused, each by what a wire knows it by.
pub(crate) struct DistrustedThoughts<T>(Mutex<HashSet<T>>);

impl<T> Default for DistrustedThoughts<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Eq + Hash> DistrustedThoughts<T> {
    /// All that are known.
    pub(crate) fn known(&self) -> MutexGuard<'_, HashSet<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of more of them.
    pub(crate) fn extend(&self, refused: impl IntoIterator<Item = T>) {
        let mut known = self.known();
        if known.len() > MAX_KNOWN {
            known.clear();
        }
        known.extend(refused);
    }
}

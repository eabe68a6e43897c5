//! Locks that nobody gives up.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, also where a thread panicked that held the lock.
pub fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Giving freed memory back to the system.

/// Gives freed memory back to the system, here after the index has closed.
///
/// The allocator keeps freed blocks for whoever asks next, of the dictionary and the writer some tens of megabytes. In a
/// daemon that idles for days nobody asks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator offers this as a foreign function only")]
pub fn give_back() {
    // SAFETY: `malloc_trim` takes a number and no pointer, may be called at any time from any thread, and touches
    // nothing but pages that hold no allocation.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Other allocators give back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

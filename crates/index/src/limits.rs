//! What reading one document may cost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits on the cost of reading one document. Whatever is beyond ends it with a [`Failure`](crate::Failure) that says
/// so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of the file.
    pub bytes_in: u64,
    /// Bytes of all text that is told.
    pub bytes_out: u64,
    /// Pages, sheets or slides.
    pub parts: u32,
    /// Cells of all sheets, the empty ones before the last one of each row included.
    pub cells: u64,
    /// Time limit, from start to end.
    pub time: Duration,
    /// Bytes of address space of the worker, its program and the file included.
    pub memory: u64,
}

const MIB: u64 = 1024 * 1024;

impl Default for Limits {
    /// Enough for a book of ten thousand pages, too little to hurt a small machine.
    fn default() -> Self {
        Self {
            bytes_in: 100 * MIB,
            bytes_out: 64 * MIB,
            parts: 20_000,
            cells: 5_000_000,
            time: Duration::from_secs(120),
            memory: 1024 * MIB,
        }
    }
}

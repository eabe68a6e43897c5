//! What reading one document may cost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Kind;

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
    /// Enough for any book, too little to hurt a small machine.
    fn default() -> Self {
        Self {
            bytes_in: 100 * MIB,
            bytes_out: 64 * MIB,
            parts: 200_000,
            cells: 5_000_000,
            time: Duration::from_secs(120),
            memory: 1024 * MIB,
        }
    }
}

/// Amounts of a document that are read at once where nobody says how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingLimits {
    /// Of documents with pages.
    pub pages: ReadingLimit,
    /// Of workbooks, in sheets.
    pub sheets: ReadingLimit,
    /// Of presentations, in slides.
    pub slides: ReadingLimit,
    /// Of texts without pages, in sections.
    pub sections: ReadingLimit,
}

/// Amount of one kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingLimit {
    /// Pages, sheets, slides or sections.
    pub parts: u32,
    /// Characters of all that is shown.
    pub letters: usize,
}

impl Default for ReadingLimits {
    fn default() -> Self {
        let limit = |parts, letters| ReadingLimit { parts, letters };
        Self {
            pages: limit(10, 30_000),
            sheets: limit(3, 20_000),
            slides: limit(15, 25_000),
            sections: limit(16, 50_000),
        }
    }
}

impl ReadingLimits {
    /// Characters of whatever shows most.
    pub(crate) fn most_letters(&self) -> usize {
        [self.pages, self.sheets, self.slides, self.sections].map(|limit| limit.letters).into_iter().max().unwrap_or(0)
    }

    pub(crate) const fn of(&self, kind: Kind) -> ReadingLimit {
        use Kind::{Csv, Html, Markdown, Odp, Ods, Plain, Ppt, Pptx, Tar, Xls, Xlsb, Xlsx, Zip};
        match kind {
            Xlsx | Xls | Xlsb | Ods => self.sheets,
            Pptx | Ppt | Odp => self.slides,
            Csv | Html | Markdown | Plain | Zip | Tar => self.sections,
            _ => self.pages,
        }
    }
}

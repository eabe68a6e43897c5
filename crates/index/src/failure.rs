//! Limits on the cost of reading one document, and reading errors with messages for users.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::Kind;

/// Reason why a document was not read, or only partly. Parts that were returned before the failure remain valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The document needs a password.
    #[error("could not read the {0}: it is encrypted and requires a password")]
    Encrypted(Kind),
    /// The document is encrypted with a method that is not supported, even with a password.
    #[error("could not read the {kind}: {how}")]
    Protected {
        /// Type of the document.
        kind: Kind,
        /// Description of the protection.
        how: String,
    },
    /// Some pages are images that were not recognised. All other pages were returned, and so was any text layer on
    /// these pages.
    #[error(
        "could not read {}the {kind}: {}{}{}",
        if .unread.scans() < *.pages { "all of " } else { "" },
        unread.of(*.kind, *.pages),
        if *.kind == Kind::Picture && *.pages == 1 { String::new() } else { unread.why.first_page_clause() },
        besides.as_deref().map(|besides| format!("; {besides}")).unwrap_or_default()
    )]
    Scanned {
        /// Type of the document.
        kind: Kind,
        /// Pages that are images.
        unread: UnreadPages,
        /// Number of all pages.
        pages: u32,
        /// Other problems, each a sentence without its full stop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        besides: Option<String>,
    },
    /// The document is damaged. Unreadable parts were returned without text or omitted.
    #[error("could not read {}the {kind}: it is damaged ({why})", if *.parts == 0 { "" } else { "all of " })]
    Broken {
        /// Type of the document.
        kind: Kind,
        /// Number of pages, sheets or slides that were read.
        parts: u32,
        /// Description of the damage.
        why: String,
    },
    /// The file extension contradicts the content.
    #[error("could not read the file as a {named}: {found}")]
    Mismatch {
        /// Kind indicated by the file name.
        named: Kind,
        /// Description of the actual format.
        found: String,
    },
    /// Some text was omitted because one location contains too much. The rest was returned.
    #[error("could not read all of the {kind}: {what}; the rest was left out")]
    Truncated {
        /// Type of the document.
        kind: Kind,
        /// Locations, with the amount that exceeds the limit.
        what: String,
    },
    /// Some files in an archive were not read. The others were returned.
    #[error("could not read all of the {kind}: {failed} of its {entries} files were not read ({why})")]
    Entries {
        /// Kind of the archive.
        kind: Kind,
        /// Number of files that were not read.
        failed: u32,
        /// Number of all files.
        entries: u32,
        /// Unread files, each with a reason.
        why: String,
    },
    /// The archive contains no such file.
    #[error("no such file in the archive: {path}")]
    NoEntry {
        /// Path of the file.
        path: String,
    },
    /// The format is not supported.
    #[error("could not read the file: {found}")]
    Foreign {
        /// Format of the file.
        found: String,
    },
    /// The document exceeds a limit.
    #[error("could not read {}: {what} exceeds {most}", if *.parts == 0 { "the file" } else { "the file to its end" })]
    TooLarge {
        /// Quantity that exceeds the limit.
        what: String,
        /// Limit with its unit.
        most: String,
        /// Number of pages, sheets or slides that were read.
        parts: u32,
    },
    /// Reading exceeded the time limit.
    #[error("could not read the file{}: it took longer than {} seconds", progress_suffix(*.parts), limit.as_secs_f32())]
    TookTooLong {
        /// Time limit for reading.
        limit: Duration,
        /// Number of pages, sheets or slides that were read.
        parts: u32,
    },
    /// Reading ran out of memory.
    #[error(
        "could not read the file{}: it needs more than {} MiB of memory",
        progress_suffix(*.parts),
        limit / (1024 * 1024)
    )]
    OutOfMemory {
        /// Memory limit in bytes.
        limit: u64,
        /// Number of pages, sheets or slides that were read.
        parts: u32,
    },
    /// A page needs recognition, which a quick pass does not perform. The caller starts a full pass instead.
    #[error("could not read the file: its text has to be recognised first")]
    NeedsRecognition,
    /// The caller no longer waits for the result.
    #[error("stopped reading the file: it was cancelled")]
    Cancelled,
    /// The worker could not be started or sent invalid data.
    #[error("could not read the file: {0}")]
    Worker(String),
}

impl Failure {
    /// Creates the error for a count that exceeds its limit.
    pub(crate) fn too_many(what: &str, most: impl ToString) -> Self {
        Self::TooLarge { what: what.to_owned(), most: most.to_string(), parts: 0 }
    }

    /// Creates the error for a size that exceeds its limit in bytes.
    pub(crate) fn too_large(what: &str, most: u64) -> Self {
        let most = if most >= MIB { format!("{} MiB", most / MIB) } else { format!("{most} bytes") };
        Self::too_many(what, most)
    }

    /// Returns the failure and its advice as one sentence.
    pub(crate) fn sentence(&self) -> String {
        format!("{self}; {}", self.hint())
    }

    /// Returns advice for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Encrypted(kind) if kind.opens_with_password() => {
                "read_file, search_file and agentctl docs show ask for the password if a user can answer; the document \
                 is not indexed; or save a copy without a password"
            }
            Self::Encrypted(_) => {
                "save it without a password in the program that created it, or in a format with supported passwords: \
                 PDF, ZIP, or Office 2007 and later"
            }
            Self::Protected { .. } => {
                "passwords for this protection are not supported: save or export an unprotected copy in the program \
                 that created it"
            }
            Self::Entries { .. } => {
                "read_file lists the files of an archive with their problems; unpack the archive to fix them"
            }
            Self::NoEntry { .. } => "read the archive itself to list its files",
            Self::Scanned { unread, .. } => unread.why.hint(),
            Self::Broken { .. } => "open it in the program that created it and save it again, or download it again",
            Self::Mismatch { .. } => "give it the right file extension",
            Self::Foreign { .. } => {
                "save or export it as PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, RTF, EPUB, CSV, HTML, Markdown or plain text"
            }
            Self::Truncated { .. } => "split it, or open it in the program that created it",
            Self::TooLarge { .. } => "split it into smaller ones",
            Self::TookTooLong { .. } | Self::OutOfMemory { .. } => {
                "split it, or save it again in the program that created it: it may be damaged or malicious"
            }
            Self::NeedsRecognition | Self::Cancelled => "retry",
            Self::Worker(_) => "retry; if it persists, see the daemon's log",
        }
    }

    /// Returns true if the document exceeded time or memory, which may be due to a busy host.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::TookTooLong { .. } | Self::OutOfMemory { .. })
    }

    /// Returns true if only a password is missing.
    pub const fn needs_password(&self) -> bool {
        matches!(self, Self::Encrypted(kind) if kind.opens_with_password())
    }

    /// Returns true if other models or settings could recognise the unread pages.
    pub const fn could_be_recognised(&self) -> bool {
        matches!(self, Self::Scanned { unread, .. } if !matches!(unread.why, UnreadReason::Undrawn))
    }

    /// Adds a description of truncated text to a [`Scanned`](Self::Scanned) failure. Other failures are unchanged.
    pub fn with_truncated(mut self, what: &str) -> Self {
        if let Self::Scanned { besides, .. } = &mut self {
            let before = besides.take().map(|before| format!("{before}; ")).unwrap_or_default();
            *besides = Some(format!("{before}{what}; the rest was left out"));
        }
        self
    }

    /// Sets the number of parts that were read before the failure.
    pub fn after(mut self, read: u32) -> Self {
        match &mut self {
            Self::Broken { parts, .. }
            | Self::TooLarge { parts, .. }
            | Self::TookTooLong { parts, .. }
            | Self::OutOfMemory { parts, .. } => *parts = read,
            _ => {}
        }
        self
    }
}

/// Reason why a page that is an image was not recognised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnreadReason {
    /// The binary was built without recognition.
    #[default]
    NotBuilt,
    /// Recognition is disabled in the configuration.
    Off,
    /// The model files are missing or damaged.
    NoModels,
    /// The maximum number of pages has been recognised.
    Spent {
        /// First page that was not recognised.
        first: u32,
    },
    /// Recognition timed out. A retry may get further.
    OutOfTime {
        /// First page that was not recognised.
        first: u32,
    },
    /// The page cannot be rendered.
    Undrawn,
}

impl UnreadReason {
    /// Returns the more helpful of two reasons: a page that cannot be rendered does not explain the other pages.
    pub const fn or(self, other: Self) -> Self {
        match self {
            Self::Undrawn => other,
            why => why,
        }
    }

    /// Returns advice for the user.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NotBuilt => {
                "run it through text recognition (OCR) first, or build agentd with the feature `ocr`, as `make install` does and \
                 `make chat` does not"
            }
            Self::Off => {
                "set reading.recognised_pages in agentd.yaml above 0, or run it through text recognition (OCR) first"
            }
            Self::NoModels => {
                "`make recognition` installs the recognition models; agentctl doctor shows the command if agentd was \
                 installed from a package"
            }
            Self::Spent { .. } | Self::OutOfTime { .. } => {
                "request them by page: read_file recognises the pages requested with offset"
            }
            Self::Undrawn => "open it in the program that created it and save it again",
        }
    }

    /// Names the first unrecognised page, as the end of a sentence.
    fn first_page_clause(self) -> String {
        match self {
            Self::Spent { first } | Self::OutOfTime { first } => {
                format!("; pages from {first} on were not recognised yet")
            }
            _ => String::new(),
        }
    }
}

/// Pages that are images and were not recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadPages {
    /// Number of these pages.
    pub pictures: u32,
    /// Number of these pages with a text layer, such as a stamp or the output of another OCR program.
    pub with_text: u32,
    /// Reason why these pages were not recognised.
    pub why: UnreadReason,
}

impl UnreadPages {
    /// Creates the value for a single page.
    pub fn one(why: UnreadReason, has_text: bool) -> Self {
        Self { pictures: 1, with_text: u32::from(has_text), why }
    }

    /// Adds the pages that follow these pages.
    pub const fn and(self, next: Self) -> Self {
        Self {
            pictures: self.pictures.saturating_add(next.pictures),
            with_text: self.with_text.saturating_add(next.with_text),
            why: self.why.or(next.why),
        }
    }

    /// Returns the number of these pages without text.
    pub const fn scans(&self) -> u32 {
        self.pictures.saturating_sub(self.with_text)
    }

    /// Formats problem and advice for the displayed pages.
    pub(crate) fn describe_shown(&self) -> String {
        let problem = self.problem(|pages| format!("{pages} of the pages shown"));
        format!("{problem}; {}", self.why.hint())
    }

    /// Describes the problem of a document with `pages` pages.
    fn of(&self, kind: Kind, pages: u32) -> String {
        if kind == Kind::Picture && pages == 1 {
            return "its text was not recognised".to_owned();
        }
        self.problem(|some| page_count(some, pages))
    }

    /// Describes the problem for some pages. `which` formats the number of pages.
    fn problem(&self, which: impl Fn(u32) -> String) -> String {
        match (self.scans(), self.with_text) {
            (scans, 0) => format!("{} {}", which(scans), scan_clause(scans)),
            (0, with_text) => unsearched_clause(&which(with_text), with_text),
            (scans, 1) => format!("{} {}; {}", which(scans), scan_clause(scans), unsearched_clause("1 other", 1)),
            (scans, others) => {
                let unsearched = unsearched_clause(&format!("{others} others"), others);
                format!("{} {}; {unsearched}", which(scans), scan_clause(scans))
            }
        }
    }
}

fn page_count(some: u32, pages: u32) -> String {
    match (some, pages) {
        (1, 1) => "its one page".to_owned(),
        (some, pages) if some < pages => format!("{some} of its {pages} pages"),
        (_, pages) => format!("its {pages} pages"),
    }
}

const fn scan_clause(pages: u32) -> &'static str {
    if pages == 1 { "is a picture, probably scanned" } else { "are pictures, probably scanned" }
}

fn unsearched_clause(which: &str, pages: u32) -> String {
    let (picture, was) = if pages == 1 { ("picture", "was") } else { ("pictures", "were") };
    format!("the {picture} on {which} {was} not searched for text")
}

fn progress_suffix(parts: u32) -> String {
    match parts {
        0 => String::new(),
        1 => " beyond its first part".to_owned(),
        parts => format!(" beyond its first {parts} parts"),
    }
}

/// Limits on the cost of reading one document. Exceeding a limit ends the reading with the matching [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum size of the file in bytes.
    pub bytes_in: u64,
    /// Maximum size of all extracted text in bytes.
    pub bytes_out: u64,
    /// Maximum number of pages, sheets or slides.
    pub parts: u32,
    /// Maximum number of cells in all sheets, including empty ones before the last cell of each row.
    pub cells: u64,
    /// Time limit for the whole reading.
    pub time: Duration,
    /// Address space of the worker in bytes, including its binary and the file.
    pub memory: u64,
}

pub(crate) const MIB: u64 = 1024 * 1024;

impl Default for Limits {
    /// Returns limits that are sufficient for any book without overloading a small machine.
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

/// Limits for the part of a document that one call returns if the caller specifies no count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingLimits {
    /// Limit for documents with pages.
    pub pages: ReadingLimit,
    /// Limit for workbooks, in sheets.
    pub sheets: ReadingLimit,
    /// Limit for presentations, in slides.
    pub slides: ReadingLimit,
    /// Limit for texts without pages, in sections.
    pub sections: ReadingLimit,
}

/// Default limit for one kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingLimit {
    /// Number of pages, sheets, slides or sections.
    pub parts: u32,
    /// Maximum number of characters.
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

/// Fails if the condition holds.
pub(crate) fn fail_if<E>(has_failed: bool, failure: impl FnOnce() -> E) -> Result<(), E> {
    if has_failed { Err(failure()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_with_text_is_not_reported_as_scanned() {
        let message = |pictures: u32, with_text: u32, pages: u32| {
            let unread = UnreadPages { pictures, with_text, why: UnreadReason::Off };
            Failure::Scanned { kind: Kind::Pdf, unread, pages, besides: None }.to_string()
        };
        for (pictures, with_text, pages, expected) in [
            (1, 0, 1, "the PDF: its one page is a picture, probably scanned"),
            (3, 0, 3, "the PDF: its 3 pages are pictures, probably scanned"),
            (1, 0, 3, "all of the PDF: 1 of its 3 pages is a picture, probably scanned"),
            (1, 1, 1, "all of the PDF: the picture on its one page was not searched for text"),
            (1, 1, 6, "all of the PDF: the picture on 1 of its 6 pages was not searched for text"),
            (6, 6, 6, "all of the PDF: the pictures on its 6 pages were not searched for text"),
            (
                4,
                2,
                4,
                "all of the PDF: 2 of its 4 pages are pictures, probably scanned; the pictures on 2 others were not \
                 searched for text",
            ),
            (
                3,
                1,
                9,
                "all of the PDF: 2 of its 9 pages are pictures, probably scanned; the picture on 1 other was not \
                 searched for text",
            ),
        ] {
            assert_eq!(message(pictures, with_text, pages), format!("could not read {expected}"));
        }
        let shown =
            UnreadPages::one(UnreadReason::Off, true).and(UnreadPages::one(UnreadReason::Off, false)).describe_shown();
        assert!(
            shown.starts_with("1 of the pages shown is a picture, probably scanned; the picture on 1 other"),
            "{shown}"
        );
    }

    #[test]
    fn undrawn_page_does_not_hide_unreached_pages() {
        let spent = UnreadReason::Spent { first: 51 };
        assert_eq!((UnreadReason::Undrawn.or(spent), spent.or(UnreadReason::Undrawn)), (spent, spent));
        assert_eq!(spent.or(UnreadReason::Spent { first: 52 }), spent);
    }
}

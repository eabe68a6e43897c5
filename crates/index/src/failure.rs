//! What reading one document may cost, and how it can fail, in words for people.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::Kind;

/// Why a document was not read, or not to its end. What was told before holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// It needs a password.
    #[error("could not read the {0}: it is encrypted and opens with a password only")]
    Encrypted(Kind),
    /// It is encrypted in a way that no password opens here.
    #[error("could not read the {kind}: {how}")]
    Protected {
        /// Its kind.
        kind: Kind,
        /// The protection, in words.
        how: String,
    },
    /// Pages of it are pictures whose letters were not recognised. All others are told, and so is text that stands on these.
    #[error(
        "could not read {}the {kind}: {}{}{}",
        if .unread.scans() < *.pages { "all of " } else { "" },
        unread.of(*.kind, *.pages),
        if *.kind == Kind::Picture && *.pages == 1 { String::new() } else { unread.why.beginning() },
        besides.as_deref().map(|besides| format!("; {besides}")).unwrap_or_default()
    )]
    Scanned {
        /// Its kind.
        kind: Kind,
        /// Its pages that are pictures.
        unread: UnreadPages,
        /// Number of its pages.
        pages: u32,
        /// Its other flaws, each a sentence without its full stop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        besides: Option<String>,
    },
    /// It is damaged. Parts that could not be read are told without text, or not at all.
    #[error("could not read {}the {kind}: it is damaged ({why})", if *.parts == 0 { "" } else { "all of " })]
    Broken {
        /// Its kind.
        kind: Kind,
        /// Number of pages, sheets or slides that could be read.
        parts: u32,
        /// The damage.
        why: String,
    },
    /// Its name says what it is, and its bytes say otherwise.
    #[error("could not read the file as a {named}: {found}")]
    Mismatch {
        /// Kind by its name.
        named: Kind,
        /// Kind by its bytes.
        found: String,
    },
    /// Text of it was left out, because there is too much in one place. All else is told.
    #[error("could not read all of the {kind}: {what}; what is beyond was left out")]
    Truncated {
        /// Its kind.
        kind: Kind,
        /// The places, each with what it has too much of.
        what: String,
    },
    /// Files of an archive were not read. All others are told.
    #[error("could not read all of the {kind}: {failed} of its {entries} files were not read ({why})")]
    Entries {
        /// Its kind.
        kind: Kind,
        /// Number of files that were not read.
        failed: u32,
        /// Number of files.
        entries: u32,
        /// The files that were not read, each with its reason.
        why: String,
    },
    /// There is no such file in the archive.
    #[error("could not find {path} in the archive")]
    NoEntry {
        /// Its path.
        path: String,
    },
    /// It is something whose text is not read here.
    #[error("could not read the file: {found}")]
    Foreign {
        /// Its format.
        found: String,
    },
    /// It is more than the limits allow.
    #[error("could not read {}: {what} is more than {most}", if *.parts == 0 { "the file" } else { "the file to its end" })]
    TooLarge {
        /// The thing of which there is too much.
        what: String,
        /// The limit, with its unit.
        most: String,
        /// Number of pages, sheets or slides that could be read.
        parts: u32,
    },
    /// It was not done in time.
    #[error("could not read the file{}: it took longer than {} seconds", read_so_far(*.parts), limit.as_secs_f32())]
    TookTooLong {
        /// The limit.
        limit: Duration,
        /// Number of pages, sheets or slides that could be read.
        parts: u32,
    },
    /// It needs more memory than it may have.
    #[error("could not read the file{}: it needs more memory than {} MiB", read_so_far(*.parts), limit / (1024 * 1024))]
    OutOfMemory {
        /// The limit, in bytes.
        limit: u64,
        /// Number of pages, sheets or slides that could be read.
        parts: u32,
    },
    /// Letters of a page can only be recognised, and a quick reading does not do that. A full one is begun instead.
    #[error("could not read the file: letters of it have to be recognised first")]
    NeedsRecognition,
    /// Nobody waits for it any longer.
    #[error("stopped reading the file: it was cancelled")]
    Cancelled,
    /// The worker could not be started, or said what no worker says.
    #[error("could not read the file: {0}")]
    Worker(String),
}

impl Failure {
    /// More of something than is read.
    pub(crate) fn too_many(what: &str, most: impl ToString) -> Self {
        Self::TooLarge { what: what.to_owned(), most: most.to_string(), parts: 0 }
    }

    /// More than the limits allow; a size in bytes.
    pub(crate) fn too_large(what: &str, most: u64) -> Self {
        let most = if most >= MIB { format!("{} MiB", most / MIB) } else { format!("{most} bytes") };
        Self::too_many(what, most)
    }

    /// Hint on what to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Encrypted(kind) if kind.opens_with_password() => {
                "read_file, search_file and agentctl docs show ask for the password where a person can answer; it is left out \
                 of the index; or open it with its password and save a copy without one"
            }
            Self::Encrypted(_) => {
                "open it in the program that made it and save it without a password, or in a format whose password is taken: PDF, \
                 ZIP, or Office 2007 and later"
            }
            Self::Protected { .. } => {
                "no password opens it here: open it in the program that it was made for, and save or export a copy without \
                 that protection"
            }
            Self::Entries { .. } => {
                "read_file names the files of an archive, with what is wrong; unpack it to see to those"
            }
            Self::NoEntry { .. } => "read the archive itself to see the names of the files in it",
            Self::Scanned { unread, .. } => unread.why.hint(),
            Self::Broken { .. } => "open it in the program that made it and save it again, or get it once more",
            Self::Mismatch { .. } => "give it the ending of what it really is",
            Self::Foreign { .. } => {
                "save or export it as PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, RTF, EPUB, CSV, HTML, Markdown or plain text"
            }
            Self::Truncated { .. } => "split it, or look at that place in the program that made it",
            Self::TooLarge { .. } => "split it into smaller ones",
            Self::TookTooLong { .. } | Self::OutOfMemory { .. } => {
                "split it, or save it again in the program that made it: it may be damaged, or made to do harm"
            }
            Self::NeedsRecognition | Self::Cancelled => "ask again",
            Self::Worker(_) => "try again; if it stays so, the log of the daemon says more",
        }
    }

    /// Returns true if it took more than it may, which a busy machine can be the reason for.
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::TookTooLong { .. } | Self::OutOfMemory { .. })
    }

    /// Returns whether a password is all that it needs.
    pub const fn needs_password(&self) -> bool {
        matches!(self, Self::Encrypted(kind) if kind.opens_with_password())
    }

    /// Returns whether letters were not recognised that other models or settings may.
    pub const fn lacks_recognition(&self) -> bool {
        matches!(self, Self::Scanned { unread, .. } if !matches!(unread.why, UnreadReason::Undrawn))
    }

    /// The same failure, with what was left out besides.
    pub fn with_truncated(mut self, what: &str) -> Self {
        if let Self::Scanned { besides, .. } = &mut self {
            let before = besides.take().map(|before| format!("{before}; ")).unwrap_or_default();
            *besides = Some(format!("{before}{what}; what is beyond was left out"));
        }
        self
    }

    /// The same failure, after so many parts.
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

/// Reason why the letters of a page that is a picture were not recognised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnreadReason {
    /// This program was built without recognition.
    #[default]
    NotBuilt,
    /// The configuration switches it off.
    Off,
    /// The models that recognise are not there, or are damaged.
    NoModels,
    /// As many pages were recognised as are at once.
    Spent {
        /// The first page that was not.
        first: u32,
    },
    /// Recognition took as long as it may. Another time it may come farther.
    OutOfTime {
        /// The first page that was not recognised.
        first: u32,
    },
    /// The page cannot be drawn.
    Undrawn,
}

impl UnreadReason {
    /// The one of two reasons that says more about what to do: a page that cannot be drawn says nothing about the others.
    pub const fn or(self, other: Self) -> Self {
        match self {
            Self::Undrawn => other,
            why => why,
        }
    }

    /// Hint on what to do.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NotBuilt => {
                "run it through text recognition (OCR) first, or build agentd with the feature `ocr`, as `make install` does and \
                 `make chat` does not"
            }
            Self::Off => {
                "set reading.recognised_pages in agentd.yaml to more than 0, or run it through text recognition (OCR) first"
            }
            Self::NoModels => {
                "`make recognition` brings the models that recognise letters; agentctl doctor names the command where agentd \
                 was installed from a package"
            }
            Self::Spent { .. } | Self::OutOfTime { .. } => {
                "ask for them by page: read_file recognises those that it is asked for with offset"
            }
            Self::Undrawn => "open it in the program that made it and save it again",
        }
    }

    /// The page where it begins, as the end of a sentence.
    fn beginning(self) -> String {
        match self {
            Self::Spent { first } | Self::OutOfTime { first } => {
                format!("; those from page {first} on were not recognised yet")
            }
            _ => String::new(),
        }
    }
}

/// Pages that are pictures whose letters were not recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadPages {
    /// Number of them.
    pub pictures: u32,
    /// Number of those with text of their own: a stamp, or what another program recognised.
    pub with_text: u32,
    /// The reason why their letters were not recognised.
    pub why: UnreadReason,
}

impl UnreadPages {
    /// One page.
    pub fn one(why: UnreadReason, has_text: bool) -> Self {
        Self { pictures: 1, with_text: u32::from(has_text), why }
    }

    /// These and other pages, which come behind them.
    pub const fn and(self, next: Self) -> Self {
        Self {
            pictures: self.pictures.saturating_add(next.pictures),
            with_text: self.with_text.saturating_add(next.with_text),
            why: self.why.or(next.why),
        }
    }

    /// Number of them without text.
    pub const fn scans(&self) -> u32 {
        self.pictures.saturating_sub(self.with_text)
    }

    /// Problem and hint where these are among the pages that are shown.
    pub(crate) fn of_shown(&self) -> String {
        let problem = self.problem(|pages| format!("{pages} of the pages shown"));
        format!("{problem}; {}", self.why.hint())
    }

    /// Problem of a document with so many pages.
    fn of(&self, kind: Kind, pages: u32) -> String {
        if kind == Kind::Picture && pages == 1 {
            return "its letters were not recognised".to_owned();
        }
        self.problem(|some| of_its(some, pages))
    }

    /// Problem of pages of which `which` names so many.
    fn problem(&self, which: impl Fn(u32) -> String) -> String {
        match (self.scans(), self.with_text) {
            (scans, 0) => format!("{} {}", which(scans), are_scans(scans)),
            (0, with_text) => unsearched(&which(with_text), with_text),
            (scans, 1) => format!("{} {}; {}", which(scans), are_scans(scans), unsearched("1 other", 1)),
            (scans, others) => {
                let unsearched = unsearched(&format!("{others} others"), others);
                format!("{} {}; {unsearched}", which(scans), are_scans(scans))
            }
        }
    }
}

fn of_its(some: u32, pages: u32) -> String {
    match (some, pages) {
        (1, 1) => "its one page".to_owned(),
        (some, pages) if some < pages => format!("{some} of its {pages} pages"),
        (_, pages) => format!("its {pages} pages"),
    }
}

const fn are_scans(pages: u32) -> &'static str {
    if pages == 1 { "is a picture, probably scanned" } else { "are pictures, probably scanned" }
}

fn unsearched(which: &str, pages: u32) -> String {
    let (picture, was) = if pages == 1 { ("picture", "was") } else { ("pictures", "were") };
    format!("the {picture} on {which} {was} not searched for letters")
}

fn read_so_far(parts: u32) -> String {
    match parts {
        0 => String::new(),
        1 => " beyond its first part".to_owned(),
        parts => format!(" beyond its first {parts} parts"),
    }
}

/// Limits on the cost of reading one document. Whatever is beyond ends it with a [`Failure`] that says
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

pub(crate) const MIB: u64 = 1024 * 1024;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_with_text_is_not_called_scanned() {
        let told = |pictures: u32, with_text: u32, pages: u32| {
            let unread = UnreadPages { pictures, with_text, why: UnreadReason::Off };
            Failure::Scanned { kind: Kind::Pdf, unread, pages, besides: None }.to_string()
        };
        for (pictures, with_text, pages, expected) in [
            (1, 0, 1, "the PDF: its one page is a picture, probably scanned"),
            (3, 0, 3, "the PDF: its 3 pages are pictures, probably scanned"),
            (1, 0, 3, "all of the PDF: 1 of its 3 pages is a picture, probably scanned"),
            (1, 1, 1, "all of the PDF: the picture on its one page was not searched for letters"),
            (1, 1, 6, "all of the PDF: the picture on 1 of its 6 pages was not searched for letters"),
            (6, 6, 6, "all of the PDF: the pictures on its 6 pages were not searched for letters"),
            (
                4,
                2,
                4,
                "all of the PDF: 2 of its 4 pages are pictures, probably scanned; the pictures on 2 others were not \
                 searched for letters",
            ),
            (
                3,
                1,
                9,
                "all of the PDF: 2 of its 9 pages are pictures, probably scanned; the picture on 1 other was not \
                 searched for letters",
            ),
        ] {
            assert_eq!(told(pictures, with_text, pages), format!("could not read {expected}"));
        }
        let shown =
            UnreadPages::one(UnreadReason::Off, true).and(UnreadPages::one(UnreadReason::Off, false)).of_shown();
        assert!(
            shown.starts_with("1 of the pages shown is a picture, probably scanned; the picture on 1 other"),
            "{shown}"
        );
    }

    #[test]
    fn a_page_that_cannot_be_drawn_does_not_hide_those_that_were_not_reached() {
        let spent = UnreadReason::Spent { first: 51 };
        assert_eq!((UnreadReason::Undrawn.or(spent), spent.or(UnreadReason::Undrawn)), (spent, spent));
        assert_eq!(spent.or(UnreadReason::Spent { first: 52 }), spent);
    }
}

//! Documents: what of one is read, what is looked for in many, and what is found. Pure.

mod finds;

use std::{fs::File, path::PathBuf, time::Instant};

use serde::{Deserialize, Serialize};

pub use self::finds::{DocumentFinds, DocumentHit, SearchedBy};

/// Ends of the names of documents: what has pages, sheets, slides or chapters and is searched rather than read. Not `dot` and
/// `pot`, old templates: more often they are graphs and translations, which are text.
pub const DOCUMENT_ENDINGS: [&str; 31] = [
    "pdf", "docx", "docm", "dotx", "dotm", "doc", "xlsx", "xlsm", "xltx", "xltm", "xls", "xlt", "xlsb", "ods", "ots",
    "pptx", "pptm", "ppsx", "ppsm", "potx", "ppt", "pps", "odt", "ott", "odp", "otp", "rtf", "epub", "eml", "msg",
    "ipynb",
];

/// Names of the files of the models that recognise letters: the network that finds lines, the one that reads them, and the letters
/// that it knows.
pub const RECOGNITION_MODELS: [&str; 3] = ["ocr-detection.onnx", "ocr-recognition.onnx", "ocr-letters.txt"];

/// Returns whether a file is a document by its name, whatever the case of its letters.
pub fn has_document_name(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| DOCUMENT_ENDINGS.contains(&&*ending))
}

/// A document that is open, under the name by which it is cited. What is read is what was opened, whatever happens to
/// the path meanwhile.
#[derive(Debug)]
pub struct OpenDocument {
    /// Such as `uploads/report.pdf`.
    pub name: String,
    /// Open for reading.
    pub file: File,
    /// Path of the document in the archive or mail that the file is; none where it is the file itself.
    pub inner: Option<String>,
    /// The password that may open it. What such a document says is kept nowhere.
    pub password: Option<Password>,
}

impl OpenDocument {
    /// A file that is a document.
    pub const fn new(name: String, file: File) -> Self {
        Self { name, file, inner: None, password: None }
    }

    /// The same document once more, with a password or without.
    ///
    /// # Errors
    /// Fails if too many files are open.
    pub fn again(&self, password: Option<Password>) -> std::io::Result<Self> {
        Ok(Self { name: self.name.clone(), file: self.file.try_clone()?, inner: self.inner.clone(), password })
    }
}

/// A password. It has no form that could be shown or stored by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// The words that a person typed.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for whoever opens the document.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Ends of the names of archives, whose documents are named with `!/` behind them.
const ARCHIVE_ENDINGS: [&str; 4] = [".zip", ".tar", ".tgz", ".tar.gz"];

/// Returns whether a file is an archive of documents by its name, whatever the case of its letters.
pub fn has_archive_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ARCHIVE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Ends of the names of mails, whose attached files are named as those in archives are.
const MAIL_ENDINGS: [&str; 2] = [".eml", ".msg"];

/// Returns whether a file has documents within by its name: an archive, or a mail with attached files.
fn has_documents_within(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    has_archive_name(name) || MAIL_ENDINGS.iter().any(|ending| lower.ends_with(ending))
}

/// The archive or mail and the path in it, of a name such as `uploads/all.zip!/report.pdf`; the slash may be left out.
pub fn in_archive(name: &str) -> Option<(&str, &str)> {
    name.match_indices('!').find_map(|(at, _)| {
        let (archive, inner) = (&name[..at], name[at + 1..].trim_start_matches('/'));
        (has_documents_within(archive) && !inner.is_empty()).then_some((archive, inner))
    })
}

/// The documents of a session, as many as may be open at once.
#[derive(Debug, Default)]
pub struct DocumentPage {
    /// Those that are open, in the order of their paths.
    pub documents: Vec<OpenDocument>,
    /// The number from the first one on that was asked for: more than are open where there is another page.
    pub found: usize,
    /// The reason why some were not looked for, if that is so.
    pub cut: Option<String>,
}

names! {
    /// Kind of the parts of a document.
    pub enum PartKind {
        /// Pages, counted from 1.
        Page = "page",
        /// Sheets, which have names.
        Sheet = "sheet",
        /// Slides, counted from 1.
        Slide = "slide",
        /// Sections of a text that has no pages.
        Section = "section",
    }
}

/// Which parts of a document are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartRange {
    /// The first, counted from 1.
    pub first: u32,
    /// Maximum number; none for as many as are usual for that kind of document.
    pub count: Option<u32>,
    /// Place in the first one at which to begin.
    pub from: PartCursor,
}

impl Default for PartRange {
    fn default() -> Self {
        Self { first: 1, count: None, from: PartCursor::default() }
    }
}

/// A place within a page, sheet or slide, from which it is read on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartCursor {
    /// The row of a sheet, by its number; 0 for its beginning.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub row: u32,
    /// The character of the text that begins there, counted from 1; 0 for its beginning.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub column: u32,
}

names! {
    /// Unit in which the extent of what is shown of a part is told.
    pub enum ExtentUnit {
        /// Rows of a sheet, by their numbers.
        Row = "row",
        /// Characters.
        Character = "character",
    }
}

/// Extent of what is shown of a part, of how much in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Unit of the numbers.
    pub unit: ExtentUnit,
    /// The first that is shown, counted from 1.
    pub first: u32,
    /// The last.
    pub last: u32,
    /// The last that there is.
    pub total: u32,
}

/// Such as `rows 2-412 of 5000`.
impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { unit, first, last, total } = self;
        write!(f, "{unit}s {first}-{last} of {total}")
    }
}

/// Parts that were read of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Its format, in a word or two, such as `PDF`.
    pub format: String,
    /// Its own title.
    pub title: Option<String>,
    /// Kind of its parts.
    pub parts_are: PartKind,
    /// Number of parts, as far as they could be counted.
    pub total: u32,
    /// Those that were wanted, as far as there was room.
    pub parts: Vec<ReadPart>,
    /// Why it could not be read to its end, and what to do.
    pub broken: Option<String>,
    /// Set if nothing of it was read because it needs a password, or another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
}

/// A part that was read.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPart {
    /// Its number, counted from 1.
    pub number: u32,
    /// Its label, such as `page 12` or `sheet Sales (A1:F200)`.
    pub label: String,
    /// Its text, as Markdown.
    pub text: String,
    /// Set if there is more of it behind.
    pub cut: bool,
    /// Extent of that, where it is not all of it.
    pub shown: Option<Extent>,
    /// Place at which it goes on, if it does.
    pub next: Option<PartCursor>,
}

/// Query for documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentQuery {
    /// Words, phrases in double quotes, or a regular expression.
    pub text: String,
    /// Set if it is a regular expression.
    pub regex: bool,
    /// Finds at the most.
    pub limit: usize,
    /// Set if the text before and behind each find is wanted, too.
    pub neighbours: bool,
    /// Time from which on no further document is brought into the index for it; none where that takes as long as it takes.
    pub begin_by: Option<Instant>,
}

/// Progress of a document on its way into the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentProgress {
    /// Its name, as it was given.
    pub document: String,
    /// Pages, sheets or slides that were read.
    pub parts: u32,
    /// Their number, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
}

/// State of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentState {
    /// Its name, as it was given.
    pub name: String,
    /// Its format, in a word or two, such as `PDF`.
    pub format: String,
    /// Its own title.
    pub title: Option<String>,
    /// Pages, sheets or slides that were read of it; 0 where none was yet.
    pub parts: u32,
    /// Number of its chunks in the index; none where it is not there.
    pub chunks: Option<u32>,
    /// Why it could not be read, or not to its end, and what to do.
    pub problem: Option<String>,
}

/// States of documents, and a word on those that may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentListing {
    /// In the order of their paths, unless others were named.
    pub documents: Vec<DocumentState>,
    /// Reasons why some may be missing, each a sentence without its full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Size of the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnowledgeStats {
    /// Documents that can be found by whoever has them.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Bytes of the index's files.
    pub bytes: u64,
    /// Documents that nobody used for so long that they may go when room is needed.
    pub stale: u64,
    /// Where the files are.
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_in_an_archive_is_named_behind_it() {
        let check = |name: &str, expected: Option<(&str, &str)>| assert_eq!(in_archive(name), expected, "{name}");
        check("uploads/all.zip!/a/b.pdf", Some(("uploads/all.zip", "a/b.pdf")));
        check("all.TAR.GZ!b.pdf", Some(("all.TAR.GZ", "b.pdf")));
        check("a!b/all.tgz!/c!.pdf", Some(("a!b/all.tgz", "c!.pdf")));
        check("all.zip!/", None);
        check("uploads/fees.eml!/plan.pdf", Some(("uploads/fees.eml", "plan.pdf")));
        check("all.pdf!/a", None);
        check("all.zip", None);
        assert_eq!(format!("{:?}", Password::new("secret".to_owned())), "Password(…)");
    }
}

//! Pure types for reading parts of a document and for searching many documents.

mod results;

use std::{fs::File, path::PathBuf, time::Instant};

use serde::{Deserialize, Serialize};

pub use self::results::{DocumentFinds, DocumentHit, SearchedBy};

/// File extensions of documents with pages, sheets, slides or chapters. Such files are searched instead of being read
/// as text. The extensions `dot` and `pot` of old templates are not included, because most files with these extensions
/// are graphs and translations in plain text.
pub const DOCUMENT_EXTENSIONS: [&str; 31] = [
    "pdf", "docx", "docm", "dotx", "dotm", "doc", "xlsx", "xlsm", "xltx", "xltm", "xls", "xlt", "xlsb", "ods", "ots",
    "pptx", "pptm", "ppsx", "ppsm", "potx", "ppt", "pps", "odt", "ott", "odp", "otp", "rtf", "epub", "eml", "msg",
    "ipynb",
];

/// File names of the text recognition models: the network that detects lines, the network that recognises their text,
/// and its alphabet.
pub const RECOGNITION_MODELS: [&str; 3] = ["ocr-detection.onnx", "ocr-recognition.onnx", "ocr-letters.txt"];

/// Returns true if the file name has the extension of a document, ignoring case.
pub fn has_document_name(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| DOCUMENT_EXTENSIONS.contains(&&*ending))
}

/// Open document with its name for citations. All reads use the open file, even if the path changes meanwhile.
#[derive(Debug)]
pub struct OpenDocument {
    /// Name such as `uploads/report.pdf`.
    pub name: String,
    /// File, open for reading.
    pub file: File,
    /// Path inside the archive or mail. `None` if the file itself is the document.
    pub inner: Option<String>,
    /// Password to try. Content of a password-protected document is never stored.
    pub password: Option<Password>,
}

impl OpenDocument {
    /// Creates a document from a file that is not an archive.
    pub const fn new(name: String, file: File) -> Self {
        Self { name, file, inner: None, password: None }
    }

    /// Clones the open document and sets this password.
    ///
    /// # Errors
    /// Fails if too many files are open.
    pub fn with_password(&self, password: Option<Password>) -> std::io::Result<Self> {
        Ok(Self { name: self.name.clone(), file: self.file.try_clone()?, inner: self.inner.clone(), password })
    }
}

/// Password text. The type prevents accidental display and serialisation.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Wraps a password as typed by the user.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the password as text, for opening the document.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(…)")
    }
}

/// File extensions of archives. Documents in archives are named by appending `!/` and the path inside the archive.
const ARCHIVE_ENDINGS: [&str; 5] = [".zip", ".tar", ".tgz", ".tar.gz", ".mbox"];

/// Returns true if the file name has an archive extension, ignoring case.
pub fn has_archive_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ARCHIVE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// File extensions of mails. Attachments are named like documents in archives.
const MAIL_ENDINGS: [&str; 2] = [".eml", ".msg"];

/// Returns true if the name is that of an archive or a mail, which can contain documents.
fn has_documents_within(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    has_archive_name(name) || MAIL_ENDINGS.iter().any(|ending| lower.ends_with(ending))
}

/// Splits a name such as `uploads/all.zip!/report.pdf` into the archive or mail, and the path inside it. The slash
/// after `!` is optional.
pub fn split_archive_path(name: &str) -> Option<(&str, &str)> {
    name.match_indices('!').find_map(|(at, _)| {
        let (archive, inner) = (&name[..at], name[at + 1..].trim_start_matches('/'));
        (has_documents_within(archive) && !inner.is_empty()).then_some((archive, inner))
    })
}

/// Documents of a session, limited to the number that may be open at the same time.
#[derive(Debug, Default)]
pub struct DocumentPage {
    /// Open documents, ordered by path.
    pub documents: Vec<OpenDocument>,
    /// Total number of documents, starting at the first requested one. Larger than the number of open documents if
    /// there is another page.
    pub found: usize,
    /// Reason why the document search ended early, if it did.
    pub cut: Option<String>,
}

names! {
    /// Kind of a document's parts.
    pub enum PartKind {
        /// Pages, numbered from 1.
        Page = "page",
        /// Sheets of a workbook, identified by name.
        Sheet = "sheet",
        /// Slides, numbered from 1.
        Slide = "slide",
        /// Sections of a text without pages.
        Section = "section",
    }
}

/// Requested parts of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartRange {
    /// First part, numbered from 1.
    pub first: u32,
    /// Maximum number of parts. `None` for the default of that kind of document.
    pub count: Option<u32>,
    /// Start position in the first part.
    pub from: PartCursor,
}

impl Default for PartRange {
    fn default() -> Self {
        Self { first: 1, count: None, from: PartCursor::default() }
    }
}

/// Position within a page, sheet or slide at which reading continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartCursor {
    /// Row number in a sheet, or 0 for the beginning.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub row: u32,
    /// Character in the text, starting at 1, or 0 for the beginning.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub column: u32,
}

names! {
    /// Unit of an [`Extent`].
    pub enum ExtentUnit {
        /// Rows of a sheet, by number.
        Row = "row",
        /// Characters of the text.
        Character = "character",
    }
}

/// Range of a part that is shown, with the part's total size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Unit of all three numbers.
    pub unit: ExtentUnit,
    /// First row or character shown, starting at 1.
    pub first: u32,
    /// Last row or character shown.
    pub last: u32,
    /// Last row or character of the part.
    pub total: u32,
}

/// Formats as `rows 2-412 of 5000`.
impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { unit, first, last, total } = self;
        write!(f, "{unit}s {first}-{last} of {total}")
    }
}

/// Parts that were read from a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Short name of the format, such as `PDF`.
    pub format: String,
    /// Title in the document's metadata.
    pub title: Option<String>,
    /// Kind of the document's parts.
    pub parts_are: PartKind,
    /// Number of parts, as far as they could be counted.
    pub total: u32,
    /// Requested parts, up to the size limit.
    pub parts: Vec<ReadPart>,
    /// Reason why the document could not be read completely, with a hint.
    pub broken: Option<String>,
    /// True if nothing was read because the password is missing or wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
}

/// Sheet of a workbook as CSV, or any other document as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentExport {
    /// Exported content, such as `sheet Sales`, or `the text` for a whole document.
    pub content: String,
    /// Text, with `\n` at line ends.
    pub text: String,
    /// Number of rows of the sheet, or of lines of the text.
    pub rows: usize,
    /// Number of columns of the sheet, or 0 for a text.
    pub columns: usize,
    /// Reason why the document could not be read completely, with a hint.
    pub broken: Option<String>,
}

/// Part that was read from a document.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPart {
    /// Number of the part, starting at 1.
    pub number: u32,
    /// Label of the part, such as `page 12` or `sheet Sales (A1:F200)`.
    pub label: String,
    /// Text of the part, as Markdown.
    pub text: String,
    /// True if there is more text in the part after this range.
    pub cut: bool,
    /// Shown range. `None` if the whole part is shown.
    pub shown: Option<Extent>,
    /// Position at which the text continues, if there is more text.
    pub next: Option<PartCursor>,
}

/// Query for searching documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentQuery {
    /// Words, phrases in double quotes, or a regular expression.
    pub text: String,
    /// True if `text` is a regular expression.
    pub regex: bool,
    /// Maximum number of hits.
    pub limit: usize,
    /// True if the text before and after each hit is requested as well.
    pub neighbours: bool,
    /// Time after which no further documents are indexed for the query. `None` for no limit.
    pub begin_by: Option<Instant>,
}

/// Progress of indexing a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentProgress {
    /// Name of the document in the request.
    pub document: String,
    /// Number of pages, sheets or slides read so far.
    pub parts: u32,
    /// Total number of parts, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
}

/// State of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentState {
    /// Name of the document in the request.
    pub name: String,
    /// Short name of the format, such as `PDF`.
    pub format: String,
    /// Title in the document's metadata.
    pub title: Option<String>,
    /// Number of pages, sheets or slides that were read, or 0 if the document has not been read yet.
    pub parts: u32,
    /// Number of the document's chunks in the index. `None` if the document is not indexed.
    pub chunks: Option<u32>,
    /// Reason why the document could not be read, or only partly, with a hint.
    pub problem: Option<String>,
}

/// States of documents, with notes on possibly missing documents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentListing {
    /// States of the documents, sorted by path unless documents were requested by name.
    pub documents: Vec<DocumentState>,
    /// Reasons why documents may be missing. Each is a sentence without a final full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Size of the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnowledgeStats {
    /// Number of documents in the index.
    pub documents: u64,
    /// Number of chunks in the index.
    pub chunks: u64,
    /// Size of the index's files, in bytes.
    pub bytes: u64,
    /// Number of documents that have been unused for so long that they may be removed to free space.
    pub stale: u64,
    /// Folder that contains the index's files.
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_document_name_splits_at_its_archive() {
        let check =
            |name: &str, expected: Option<(&str, &str)>| assert_eq!(split_archive_path(name), expected, "{name}");
        check("uploads/all.zip!/a/b.pdf", Some(("uploads/all.zip", "a/b.pdf")));
        check("all.TAR.GZ!b.pdf", Some(("all.TAR.GZ", "b.pdf")));
        check("a!b/all.tgz!/c!.pdf", Some(("a!b/all.tgz", "c!.pdf")));
        check("all.zip!/", None);
        check("uploads/box.mbox!/0001 Barn!.eml", Some(("uploads/box.mbox", "0001 Barn!.eml")));
        check("uploads/fees.eml!/plan.pdf", Some(("uploads/fees.eml", "plan.pdf")));
        check("all.pdf!/a", None);
        check("all.zip", None);
        assert_eq!(format!("{:?}", Password::new("secret".to_owned())), "Password(…)");
    }
}

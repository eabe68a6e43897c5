//! Documents: what of one is read, what is looked for in many, and what is found. Pure.

use std::{fs::File, ops::Range, path::PathBuf, time::Instant};

use serde::{Deserialize, Serialize};

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
#[must_use]
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
    /// Path of the document in the archive that the file is; none where it is the file itself.
    pub inner: Option<String>,
    /// The password that may open it. What such a document says is kept nowhere.
    pub password: Option<Password>,
}

impl OpenDocument {
    /// A file that is a document.
    #[must_use]
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
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for whoever opens the document.
    #[must_use]
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
#[must_use]
pub fn has_archive_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ARCHIVE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The archive and the path in it, of a name such as `uploads/all.zip!/report.pdf`; the slash may be left out.
#[must_use]
pub fn in_archive(name: &str) -> Option<(&str, &str)> {
    name.match_indices('!').find_map(|(at, _)| {
        let (archive, inner) = (&name[..at], name[at + 1..].trim_start_matches('/'));
        (has_archive_name(archive) && !inner.is_empty()).then_some((archive, inner))
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

/// Kind of the parts of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// Pages, counted from 1.
    Page,
    /// Sheets, which have names.
    Sheet,
    /// Slides, counted from 1.
    Slide,
    /// Sections of a text that has no pages.
    Section,
}

impl PartKind {
    /// Its name, for one.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Sheet => "sheet",
            Self::Slide => "slide",
            Self::Section => "section",
        }
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
    #[serde(default, skip_serializing_if = "is_zero")]
    pub row: u32,
    /// The character of the text that begins there, counted from 1; 0 for its beginning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub column: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Unit in which the extent of what is shown of a part is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtentUnit {
    /// Rows of a sheet, by their numbers.
    Row,
    /// Characters.
    Character,
}

impl ExtentUnit {
    /// Its name, for one.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Character => "character",
        }
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
        write!(f, "{}s {first}-{last} of {total}", unit.noun())
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Extent>,
    /// Place at which it goes on, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// Way in which a query was searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchedBy {
    /// By its words, in the index.
    #[default]
    Words,
    /// By a phrase, in the index.
    Phrase,
    /// By a regular expression, in what the index says could match.
    NarrowedRegex,
    /// In every text.
    Scan,
}

/// Finds in documents, the best first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DocumentFinds {
    /// Way in which the query was searched.
    pub by: SearchedBy,
    /// The finds.
    pub hits: Vec<DocumentHit>,
    /// Documents that were searched, or what could be read of them.
    pub searched: usize,
    /// Documents that were not, for there was no time to begin with them.
    #[serde(default)]
    pub not_searched: usize,
    /// Documents that could not be searched, or not to their end, and why.
    pub broken: Vec<(String, String)>,
    /// Notes on how the query was read, each a sentence without its full stop.
    pub notes: Vec<String>,
    /// Set if the search was ended before it had seen everything.
    pub late: bool,
    /// Names of documents that were not searched because they need a password.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locked: Vec<String>,
}

impl DocumentFinds {
    /// True if all documents were searched to the end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.late && self.not_searched == 0 && self.broken.is_empty()
    }

    /// Adds what was found in other documents by the same query, and keeps the best.
    pub fn add(&mut self, other: Self, limit: usize) {
        self.by = other.by;
        self.hits.extend(other.hits);
        // Scores of one index can be compared; of equal ones the first stays first.
        self.hits.sort_by(|left, right| right.score.total_cmp(&left.score));
        self.hits.truncate(limit);
        self.searched += other.searched;
        self.not_searched += other.not_searched;
        self.broken.extend(other.broken);
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        self.late |= other.late;
        self.locked.extend(other.locked);
    }
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

/// A find.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentHit {
    /// The document's name, as it was given.
    pub document: String,
    /// Place in it, as it is cited: `p. 12`, `Sales!A2:F20`, `slide 7`, `:120-134` for lines. Empty where there is only one place.
    pub place: String,
    /// Its score; only to be compared with others of the same search.
    pub score: f32,
    /// The text around what was looked for.
    pub snippet: String,
    /// Where in it that is, in bytes.
    pub marks: Vec<Range<usize>>,
    /// The text before it, where that was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The text behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl DocumentHit {
    /// As it is cited: `report.pdf p. 12`.
    #[must_use]
    pub fn citation(&self) -> String {
        let name = self.document.rsplit('/').next().unwrap_or(&self.document);
        self.behind(name, " ")
    }

    /// The place behind a name of its document, with a gap between them unless it is lines.
    #[must_use]
    pub fn behind(&self, name: &str, gap: &str) -> String {
        match self.place.as_str() {
            "" => name.to_owned(),
            lines if lines.starts_with(':') => format!("{name}{lines}"),
            place => format!("{name}{gap}{place}"),
        }
    }

    /// The snippet with what was looked for between marks.
    #[must_use]
    pub fn marked(&self, open: &str, close: &str) -> String {
        let (mut shown, mut from) = (String::new(), 0);
        for mark in &self.marks {
            let (Some(before), Some(hit)) = (self.snippet.get(from..mark.start), self.snippet.get(mark.clone())) else {
                continue;
            };
            shown.push_str(before);
            shown.push_str(open);
            shown.push_str(hit);
            shown.push_str(close);
            from = mark.end;
        }
        shown.push_str(self.snippet.get(from..).unwrap_or_default());
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "one mark is one range")]
    fn finds_are_shown_with_their_place_and_their_marks() {
        let check = |document: &str, place: &str, marks: Vec<Range<usize>>, cited: &str, marked: &str| {
            let hit = DocumentHit {
                document: document.to_owned(),
                place: place.to_owned(),
                score: 1.0,
                snippet: "纳税 is due".to_owned(),
                marks,
                before: None,
                after: None,
            };
            assert_eq!((hit.citation().as_str(), hit.marked("**", "**").as_str()), (cited, marked));
        };
        check("uploads/report.pdf", "p. 12", vec![0..6], "report.pdf p. 12", "**纳税** is due");
        check("notes.md", "", Vec::new(), "notes.md", "纳税 is due");
        check("a/b.xlsx", "Sales!A2:F20", vec![0..3, 10..13], "b.xlsx Sales!A2:F20", "**纳**税 is **due**");
        check("uploads/notes.md", ":120-134", Vec::new(), "notes.md:120-134", "纳税 is due");
        // Marks that do not fit the text are left out.
        check("a", "", vec![1..2, 9..99], "a", "纳税 is due");
    }

    #[test]
    fn a_document_in_an_archive_is_named_behind_it() {
        let check = |name: &str, expected: Option<(&str, &str)>| assert_eq!(in_archive(name), expected, "{name}");
        check("uploads/all.zip!/a/b.pdf", Some(("uploads/all.zip", "a/b.pdf")));
        check("all.TAR.GZ!b.pdf", Some(("all.TAR.GZ", "b.pdf")));
        check("a!b/all.tgz!/c!.pdf", Some(("a!b/all.tgz", "c!.pdf")));
        check("all.zip!/", None);
        check("all.pdf!/a", None);
        check("all.zip", None);
        assert_eq!(format!("{:?}", Password::new("secret".to_owned())), "Password(…)");
    }
}

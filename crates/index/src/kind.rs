//! Document types, detected first by content and second by name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Document types whose text can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Document in PDF format.
    Pdf,
    /// Word text document since 2007.
    Docx,
    /// Excel workbook since 2007.
    Xlsx,
    /// Excel workbook before 2007.
    Xls,
    /// Workbook in OpenDocument format.
    Ods,
    /// PowerPoint presentation since 2007.
    Pptx,
    /// Word text document before 2007.
    Doc,
    /// PowerPoint presentation before 2007.
    Ppt,
    /// Excel workbook in binary form.
    Xlsb,
    /// Text document in OpenDocument format.
    Odt,
    /// Presentation in OpenDocument format.
    Odp,
    /// Text in Rich Text Format.
    Rtf,
    /// Book in EPUB format.
    Epub,
    /// RFC 822 mail message.
    Eml,
    /// Mail message in Outlook's format.
    Msg,
    /// Jupyter notebook with its output.
    Ipynb,
    /// Comma- or tab-separated values.
    Csv,
    /// HTML or XHTML page.
    Html,
    /// Text in Markdown format.
    Markdown,
    /// Any other plain text.
    Plain,
    /// ZIP archive of files.
    Zip,
    /// TAR archive, optionally compressed with gzip.
    Tar,
    /// Mailbox, a file of mail messages.
    Mbox,
    /// Image whose text is recognised by OCR.
    Picture,
}

/// Kinds with their name in document keys, their display name and their file extensions.
const KINDS: [(Kind, &str, &str, &[&str]); 24] = [
    (Kind::Pdf, "pdf", "PDF", &["pdf"]),
    (Kind::Docx, "docx", "Word document", &["docx", "docm", "dotx", "dotm"]),
    (Kind::Xlsx, "xlsx", "Excel workbook", &["xlsx", "xlsm", "xltx", "xltm"]),
    (Kind::Xls, "xls", "Excel workbook", &["xls", "xlt"]),
    (Kind::Ods, "ods", "OpenDocument spreadsheet", &["ods", "ots"]),
    (Kind::Pptx, "pptx", "PowerPoint presentation", &["pptx", "pptm", "ppsx", "ppsm", "potx"]),
    (Kind::Doc, "doc", "Word document", &["doc", "dot"]),
    (Kind::Ppt, "ppt", "PowerPoint presentation", &["ppt", "pps", "pot"]),
    (Kind::Xlsb, "xlsb", "Excel workbook", &["xlsb"]),
    (Kind::Odt, "odt", "OpenDocument text", &["odt", "ott"]),
    (Kind::Odp, "odp", "OpenDocument presentation", &["odp", "otp"]),
    (Kind::Rtf, "rtf", "RTF document", &["rtf"]),
    (Kind::Epub, "epub", "EPUB book", &["epub"]),
    (Kind::Eml, "eml", "mail", &["eml"]),
    (Kind::Msg, "msg", "Outlook message", &["msg"]),
    (Kind::Ipynb, "ipynb", "Jupyter notebook", &["ipynb"]),
    (Kind::Csv, "csv", "CSV file", &["csv", "tsv", "tab"]),
    (Kind::Html, "html", "HTML page", &["html", "htm", "xhtml"]),
    (Kind::Markdown, "markdown", "Markdown file", &["md", "markdown", "mdown", "mkd"]),
    (Kind::Plain, "plain", "text file", &["txt", "text", "log", "rst"]),
    (Kind::Zip, "zip", "ZIP archive", &["zip"]),
    (Kind::Tar, "tape", "TAR archive", &["tar", "tgz"]),
    (Kind::Mbox, "mailbox", "mailbox", &["mbox"]),
    (Kind::Picture, "picture", "picture", &["png", "jpg", "jpeg", "tif", "tiff", "webp", "gif", "bmp"]),
];

impl Kind {
    /// Returns the kind for a file name, ignoring case, or `None` if the extension is unknown.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let (_, ending) = name.rsplit_once('.')?;
        let ending = if name.ends_with(".tar.gz") { "tar" } else { ending };
        KINDS.iter().find(|(.., endings)| endings.contains(&ending)).map(|(kind, ..)| *kind)
    }

    /// Returns the kind for the name of a document inside another one. A mailbox is text there, because nested archives
    /// are not opened.
    pub(crate) fn of_inner_name(name: &str) -> Option<Self> {
        Self::of_name(name).map(|kind| if kind == Self::Mbox { Self::Plain } else { kind })
    }

    /// Returns the kind with this name in document keys.
    pub(crate) fn from_key_name(word: &str) -> Option<Self> {
        KINDS.iter().find(|(_, key_name, ..)| *key_name == word).map(|(kind, ..)| *kind)
    }

    fn row(self) -> (&'static str, &'static str) {
        let row = KINDS.iter().find(|(kind, ..)| *kind == self);
        row.map(|(_, word, name, _)| (*word, *name)).unwrap_or_default()
    }

    /// Returns true if the content is plain text throughout, so that its bytes look like those of any other text.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Html | Self::Markdown | Self::Plain)
    }

    /// Returns true if documents of this kind consist of sheets.
    pub const fn has_sheets(self) -> bool {
        matches!(self, Self::Xlsx | Self::Xls | Self::Xlsb | Self::Ods | Self::Csv)
    }

    /// Returns true if this is an archive of documents.
    pub const fn is_archive(self) -> bool {
        matches!(self, Self::Zip | Self::Tar | Self::Mbox)
    }

    /// Returns true if encrypted documents of this kind can be opened with a password.
    pub const fn opens_with_password(self) -> bool {
        matches!(self, Self::Pdf | Self::Docx | Self::Xlsx | Self::Xlsb | Self::Pptx | Self::Zip)
    }

    /// Returns the name in document keys, which are stored in the index.
    pub(crate) fn word(self) -> &'static str {
        self.row().0
    }
}

/// Display name for use in a sentence: `PDF`, `CSV file`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

//! Which kind of document it is: bytes say it first, the name second.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kinds of documents whose text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Pages.
    Pdf,
    /// A text document of Word.
    Docx,
    /// A workbook of Excel.
    Xlsx,
    /// A workbook of Excel before 2007.
    Xls,
    /// A workbook of LibreOffice.
    Ods,
    /// Slides of PowerPoint.
    Pptx,
    /// A text document of Word before 2007.
    Doc,
    /// Slides of PowerPoint before 2007.
    Ppt,
    /// A workbook of Excel in its binary form.
    Xlsb,
    /// A text document of LibreOffice.
    Odt,
    /// Slides of LibreOffice.
    Odp,
    /// Rich text.
    Rtf,
    /// A book.
    Epub,
    /// A message, as mail servers keep it.
    Eml,
    /// A message of Outlook.
    Msg,
    /// A notebook of Jupyter.
    Ipynb,
    /// A table as text.
    Csv,
    /// A page of the web.
    Html,
    /// Text with marks.
    Markdown,
    /// Any other text.
    Plain,
    /// An archive of files.
    Zip,
    /// An archive of files on a tape, maybe packed.
    Tar,
    /// A picture, of which the letters are recognised.
    Picture,
}

/// Each kind with the word for it that stands in what is written down, its name in a sentence, and the endings of its files.
const KINDS: [(Kind, &str, &str, &[&str]); 23] = [
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
    (Kind::Picture, "picture", "picture", &["png", "jpg", "jpeg", "tif", "tiff", "webp", "gif", "bmp"]),
];

impl Kind {
    /// Kind by a name, whatever the case of its letters; none where its extension is unknown.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let (_, ending) = name.rsplit_once('.')?;
        let ending = if name.ends_with(".tar.gz") { "tar" } else { ending };
        KINDS.iter().find(|(.., endings)| endings.contains(&ending)).map(|(kind, ..)| *kind)
    }

    /// Kind by the word for it.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known, ..)| *known == word).map(|(kind, ..)| *kind)
    }

    fn row(self) -> (&'static str, &'static str) {
        let row = KINDS.iter().find(|(kind, ..)| *kind == self);
        row.map(|(_, word, name, _)| (*word, *name)).unwrap_or_default()
    }

    /// Returns whether it is text all through, so that its bytes look like those of any other text.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Html | Self::Markdown | Self::Plain)
    }

    /// Returns whether it is an archive of documents.
    pub const fn is_archive(self) -> bool {
        matches!(self, Self::Zip | Self::Tar)
    }

    /// Returns whether a password opens it here.
    pub const fn opens_with_password(self) -> bool {
        matches!(self, Self::Pdf | Self::Docx | Self::Xlsx | Self::Xlsb | Self::Pptx | Self::Zip)
    }

    /// One word for it, which stands in what is written down.
    pub(crate) fn word(self) -> &'static str {
        self.row().0
    }
}

/// As in a sentence: `PDF`, `CSV file`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

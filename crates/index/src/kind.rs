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

impl Kind {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::Pdf,
        Self::Docx,
        Self::Xlsx,
        Self::Xls,
        Self::Ods,
        Self::Pptx,
        Self::Doc,
        Self::Ppt,
        Self::Xlsb,
        Self::Odt,
        Self::Odp,
        Self::Rtf,
        Self::Epub,
        Self::Eml,
        Self::Msg,
        Self::Ipynb,
        Self::Csv,
        Self::Html,
        Self::Markdown,
        Self::Plain,
        Self::Zip,
        Self::Tar,
        Self::Picture,
    ];

    /// Kind by a name, whatever the case of its letters; none where its extension is unknown.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let (before, ending) = name.rsplit_once('.')?;
        let is_packed_tar = || before.rsplit_once('.').is_some_and(|(_, ending)| ending.eq_ignore_ascii_case("tar"));
        Some(match ending.to_ascii_lowercase().as_str() {
            "pdf" => Self::Pdf,
            "docx" | "docm" | "dotx" | "dotm" => Self::Docx,
            "xlsx" | "xlsm" | "xltx" | "xltm" => Self::Xlsx,
            "xls" | "xlt" => Self::Xls,
            "ods" | "ots" => Self::Ods,
            "pptx" | "pptm" | "ppsx" | "ppsm" | "potx" => Self::Pptx,
            "doc" | "dot" => Self::Doc,
            "ppt" | "pps" | "pot" => Self::Ppt,
            "xlsb" => Self::Xlsb,
            "odt" | "ott" => Self::Odt,
            "odp" | "otp" => Self::Odp,
            "rtf" => Self::Rtf,
            "epub" => Self::Epub,
            "eml" => Self::Eml,
            "msg" => Self::Msg,
            "ipynb" => Self::Ipynb,
            "csv" | "tsv" | "tab" => Self::Csv,
            "html" | "htm" | "xhtml" => Self::Html,
            "md" | "markdown" | "mdown" | "mkd" => Self::Markdown,
            "zip" => Self::Zip,
            "tar" | "tgz" => Self::Tar,
            "gz" if is_packed_tar() => Self::Tar,
            "png" | "jpg" | "jpeg" | "tif" | "tiff" | "webp" | "gif" | "bmp" => Self::Picture,
            "txt" | "text" | "log" | "rst" => Self::Plain,
            _ => return None,
        })
    }

    /// Returns whether it is text all through, so that its bytes look like those of any other text.
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Html | Self::Markdown | Self::Plain)
    }

    /// Returns whether it is an archive of documents.
    #[must_use]
    pub const fn is_archive(self) -> bool {
        matches!(self, Self::Zip | Self::Tar)
    }

    /// Returns whether a password opens it here.
    #[must_use]
    pub const fn opens_with_password(self) -> bool {
        matches!(self, Self::Pdf | Self::Docx | Self::Xlsx | Self::Xlsb | Self::Pptx | Self::Zip)
    }

    /// One word for it, which stands in what is written down.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Docx => "docx",
            Self::Xlsx => "xlsx",
            Self::Xls => "xls",
            Self::Ods => "ods",
            Self::Pptx => "pptx",
            Self::Doc => "doc",
            Self::Ppt => "ppt",
            Self::Xlsb => "xlsb",
            Self::Odt => "odt",
            Self::Odp => "odp",
            Self::Rtf => "rtf",
            Self::Epub => "epub",
            Self::Eml => "eml",
            Self::Msg => "msg",
            Self::Ipynb => "ipynb",
            Self::Csv => "csv",
            Self::Html => "html",
            Self::Markdown => "markdown",
            Self::Plain => "plain",
            Self::Zip => "zip",
            Self::Tar => "tape",
            Self::Picture => "picture",
        }
    }
}

/// As in a sentence: `PDF`, `CSV file`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pdf => "PDF",
            Self::Docx | Self::Doc => "Word document",
            Self::Odt => "OpenDocument text",
            Self::Odp => "OpenDocument presentation",
            Self::Rtf => "RTF document",
            Self::Epub => "EPUB book",
            Self::Eml => "mail",
            Self::Msg => "Outlook message",
            Self::Ipynb => "Jupyter notebook",
            Self::Xlsx | Self::Xls | Self::Xlsb => "Excel workbook",
            Self::Ods => "OpenDocument spreadsheet",
            Self::Pptx | Self::Ppt => "PowerPoint presentation",
            Self::Csv => "CSV file",
            Self::Html => "HTML page",
            Self::Markdown => "Markdown file",
            Self::Plain => "text file",
            Self::Zip => "ZIP archive",
            Self::Tar => "TAR archive",
            Self::Picture => "picture",
        })
    }
}

//! Extraction: from bytes to parts, with one module per format. The modules run in a [worker](crate::worker), never in
//! the daemon.
//!
//! - [`recognise()`]: type detection by content.
//! - `emitter`: [`Emitter`] enforces the limits and splits large parts.
//! - `pdf`, `office` (Word and PowerPoint), `rtf`, `html` (also books and notebooks), `open_document`, `mail`: text
//!   formats. `package`: ZIP and XML, on which many of these formats are based.
//! - `xlsx`: workbooks, including older and OpenDocument workbooks. `sheet` emits workbooks and CSV files row by row;
//!   `cell` formats cells and reads comments.
//! - `archive`: documents in archives. `unlock`: password-encrypted documents of Office 2007 and later.
//! - `scan`: recognition of pages that are images.
//! - [`clean`]: decoding and sanitising of text.

mod archive;
mod cell;
pub mod clean;
mod emitter;
mod html;
mod mail;
mod office;
mod open_document;
mod package;
mod pdf;
pub(crate) mod picture;
mod recognise;
mod rtf;
mod scan;
mod sheet;
mod unlock;
mod xlsx;

pub(crate) use archive::entry;
pub use emitter::Emitter;
pub(crate) use emitter::sections;
pub use recognise::recognise;
pub(crate) use scan::{Scanner, render_page};
pub(crate) use unlock::decrypt_office;

use crate::{
    document::{Row, Table},
    failure::Failure,
    kind::Kind,
};

/// Reads a document of this kind and emits its parts.
///
/// # Errors
/// Fails if the document is damaged, if text was omitted, or if the listener fails. Parts that were emitted before
/// remain valid.
pub fn extract(bytes: Vec<u8>, kind: Kind, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let outcome = match kind {
        Kind::Pdf => pdf::extract(bytes, emitter),
        Kind::Zip | Kind::Tar | Kind::Mbox => archive::extract(bytes, kind, emitter),
        Kind::Docx | Kind::Doc => office::text(bytes, kind, emitter),
        Kind::Pptx | Kind::Ppt => office::slides(bytes, kind, emitter),
        Kind::Odt => open_document::text(bytes, emitter),
        Kind::Odp => open_document::presentation(bytes, emitter),
        Kind::Rtf => rtf::extract(&bytes, emitter),
        Kind::Epub => html::book(bytes, emitter),
        Kind::Eml => mail::message(&bytes, emitter),
        Kind::Msg => mail::outlook(bytes, emitter),
        Kind::Ipynb => html::notebook(&bytes, emitter),
        Kind::Xlsx => xlsx::xlsx(bytes, emitter),
        Kind::Xls => xlsx::xls(bytes, emitter),
        Kind::Xlsb => xlsx::xlsb(bytes, emitter),
        Kind::Ods => xlsx::ods(bytes, emitter),
        Kind::Csv => sheet::csv(&bytes, emitter),
        Kind::Html => html::extract(&bytes, emitter),
        Kind::Picture => scan::picture(bytes, emitter),
        Kind::Markdown | Kind::Plain => lines(&bytes, kind, emitter),
    };
    match (outcome, emitter.truncated()) {
        (Ok(()), None) => emitter.end(),
        (Ok(()), Some(what)) => Err(Failure::Truncated { kind, what }),
        (Err(failure), Some(what)) => Err(failure.with_truncated(&what)),
        (Err(failure), None) => Err(failure),
    }
}

/// Emits a text with its line numbers. In Markdown, the first heading is the title.
fn lines(bytes: &[u8], kind: Kind, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let text = clean::decode(bytes, None);
    let title = text.lines().find_map(|line| line.strip_prefix("# ")).filter(|_| kind == Kind::Markdown);
    emitter.head(title, None)?;
    emitter.lines(&text)
}

/// Creates the error for a damaged document.
pub(crate) fn broken(kind: Kind, reason: &str) -> Failure {
    Failure::Broken { kind, parts: 0, why: clean::line(reason, 200) }
}

/// Formats rows as a Markdown table, or returns `None` if all cells are empty.
fn table(rows: Vec<Vec<String>>) -> Option<String> {
    let width = rows.iter().map(Vec::len).max()?;
    let is_empty = rows.iter().flatten().all(|cell| cell.trim().is_empty());
    let row = |(number, mut cells): (u32, Vec<String>)| {
        cells.resize(width, String::new());
        Row { number, cells }
    };
    let mut rows = (1..).zip(rows).map(row);
    let table = Table { first_column: 0, header: rows.next(), rows: rows.collect() };
    (!is_empty).then(|| table.markdown().trim_end().to_owned())
}

/// Adds header and footer lines, each only once, because many sections repeat them.
fn add_margins(blocks: &mut Vec<String>, margins: Vec<String>) {
    let mut lines: Vec<String> = Vec::new();
    for line in margins {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let (above, below): (Vec<String>, Vec<String>) = lines.into_iter().partition(|line| line.starts_with("Header"));
    blocks.splice(0..0, above);
    blocks.extend(below);
}

//! From bytes to parts: one file a format. All of this runs in a [worker](crate::worker), never in the daemon.
//!
//! - [`recognise()`]: what the bytes are, whatever the name says.
//! - `teller`: [`Teller`] keeps the limits, and cuts what is large into pieces.
//! - `pdf`, `office` (Word and PowerPoint), `rtf`, `html` (and books and notebooks): one file a format.
//! - `open_document`: texts and presentations of LibreOffice. `mail`: messages. `package`: what many formats are made of.
//! - `xlsx`: workbooks, those of Excel before 2007 and of LibreOffice too. They and tables as text are told by `sheet`, row by row; what a
//!   `cell` shows, and comments on it.
//! - `archive`: documents in archives. `unlock`: documents of Office 2007 and later that are encrypted with a password.
//! - `scan`: pages that are pictures, whose letters are recognised.
//! - [`clean`]: text as everybody can show it, from the bytes of files.

mod archive;
mod cell;
pub mod clean;
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
mod teller;
mod unlock;
mod xlsx;

pub(crate) use archive::entry;
pub use recognise::recognise;
pub(crate) use scan::Scanner;
pub use teller::Teller;
pub(crate) use teller::sections;
pub(crate) use unlock::unlocked;

use crate::{
    document::{Row, Table},
    failure::Failure,
    kind::Kind,
};

/// Tells of a document of this kind part by part.
///
/// # Errors
/// The damage, what was left out, and whatever the teller's listener refuses. What was told before holds.
pub fn extract(bytes: Vec<u8>, kind: Kind, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let told = match kind {
        Kind::Pdf => pdf::extract(bytes, teller),
        Kind::Zip | Kind::Tar => archive::extract(bytes, kind, teller),
        Kind::Docx | Kind::Doc => office::text(bytes, kind, teller),
        Kind::Pptx | Kind::Ppt => office::slides(bytes, kind, teller),
        Kind::Odt => open_document::text(bytes, teller),
        Kind::Odp => open_document::presentation(bytes, teller),
        Kind::Rtf => rtf::extract(&bytes, teller),
        Kind::Epub => html::book(bytes, teller),
        Kind::Eml => mail::message(&bytes, teller),
        Kind::Msg => mail::outlook(bytes, teller),
        Kind::Ipynb => html::notebook(&bytes, teller),
        Kind::Xlsx => xlsx::xlsx(bytes, teller),
        Kind::Xls => xlsx::xls(bytes, teller),
        Kind::Xlsb => xlsx::xlsb(bytes, teller),
        Kind::Ods => xlsx::ods(bytes, teller),
        Kind::Csv => sheet::csv(&bytes, teller),
        Kind::Html => html::extract(&bytes, teller),
        Kind::Picture => scan::picture(bytes, teller),
        Kind::Markdown | Kind::Plain => lines(&bytes, kind, teller),
    };
    match (told, teller.truncated()) {
        (Ok(()), None) => teller.end(),
        (Ok(()), Some(what)) => Err(Failure::Truncated { kind, what }),
        (Err(failure), Some(what)) => Err(failure.with_truncated(&what)),
        (Err(failure), None) => Err(failure),
    }
}

/// Tells of a text as it is, with its lines. Markdown is called by its first heading.
fn lines(bytes: &[u8], kind: Kind, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let text = clean::decode(bytes, None);
    let title = text.lines().find_map(|line| line.strip_prefix("# ")).filter(|_| kind == Kind::Markdown);
    teller.head(title, None)?;
    teller.lines(&text)
}

/// Damaged, in words for people.
pub(crate) fn broken(kind: Kind, why: &str) -> Failure {
    Failure::Broken { kind, parts: 0, why: clean::line(why, 200) }
}

/// Rows of cells as a Markdown table; none where nothing is in them.
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

/// Adds what stands above and below the pages of a text, each line once: many sections repeat it.
fn add_margins(blocks: &mut Vec<String>, margins: Vec<String>) {
    let mut told: Vec<String> = Vec::new();
    for line in margins {
        if !told.contains(&line) {
            told.push(line);
        }
    }
    let (above, below): (Vec<String>, Vec<String>) = told.into_iter().partition(|line| line.starts_with("Header"));
    blocks.splice(0..0, above);
    blocks.extend(below);
}

//! From bytes to parts: one file a format. All of this runs in a [worker](crate::worker), never in the daemon.
//!
//! - [`recognise()`]: what the bytes are, whatever the name says.
//! - `teller`: [`Teller`] keeps the limits, and cuts what is large into pieces.
//! - `pdf`, `docx`, `pptx`, `html`, `markdown`, `plain`: one file a format.
//! - `xlsx`: workbooks, those of Excel before 2007 and of LibreOffice too; `csv`; both are told by `sheet`, row by row.
//! - [`encoding`]: bytes of text files as text.
//! - [`clean`]: text as everybody can show it.

pub mod clean;
mod csv;
mod docx;
pub mod encoding;
mod html;
mod markdown;
mod office;
mod pdf;
mod plain;
mod pptx;
mod recognise;
mod sheet;
mod teller;
mod xlsx;

pub use recognise::recognise;
pub use teller::Teller;

use crate::{failure::Failure, kind::Kind};

/// Tells of a document of this kind part by part.
///
/// # Errors
/// The damage, and whatever the teller's listener refuses. What was told before holds.
pub fn extract(bytes: Vec<u8>, kind: Kind, teller: &mut Teller<'_>) -> Result<(), Failure> {
    match kind {
        Kind::Pdf => pdf::extract(bytes, teller),
        Kind::Docx => docx::extract(bytes, teller),
        Kind::Pptx => pptx::extract(bytes, teller),
        Kind::Xlsx => xlsx::xlsx(bytes, teller),
        Kind::Xls => xlsx::xls(bytes, teller),
        Kind::Ods => xlsx::ods(bytes, teller),
        Kind::Csv => csv::extract(&bytes, teller),
        Kind::Html => html::extract(&bytes, teller),
        Kind::Markdown => markdown::extract(&bytes, teller),
        Kind::Plain => plain::extract(&bytes, teller),
    }?;
    teller.end()
}

/// More than the limits allow; a size in bytes.
pub(crate) fn too_large(what: &str, most: u64) -> Failure {
    const MIB: u64 = 1024 * 1024;
    let most = if most >= MIB { format!("{} MiB", most / MIB) } else { format!("{most} bytes") };
    Failure::TooLarge { what: what.to_owned(), most, parts: 0 }
}

/// Damaged, in words for people.
fn broken(kind: Kind, why: &str) -> Failure {
    Failure::Broken { kind, parts: 0, why: clean::line(why, 200) }
}

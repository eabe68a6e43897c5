//! What documents of Word and PowerPoint have in common: one library reads them into one form.

use std::io::Cursor;

use office_oxide::{
    Document as Office, DocumentFormat, DocumentIR, OfficeError,
    ir::{Element, Section},
    limits,
    options::ParseOptions,
};

use super::broken;
use crate::{failure::Failure, kind::Kind, limits::Limits};

/// Reads it whole; the library has its own limits, which are told to be no wider than ours. With it comes what is missing,
/// because it is damaged or too large.
pub(super) fn read(bytes: Vec<u8>, kind: Kind, ours: &Limits) -> Result<(DocumentIR, Result<(), Failure>), Failure> {
    let format = match kind {
        Kind::Pptx => DocumentFormat::Pptx,
        Kind::Ppt => DocumentFormat::Ppt,
        Kind::Doc => DocumentFormat::Doc,
        _ => DocumentFormat::Docx,
    };
    let mut options = ParseOptions::default();
    options.limits = limits::Limits::strict();
    options.limits.text_chars = usize::try_from(ours.bytes_out).unwrap_or(usize::MAX);
    let office =
        Office::from_reader_with(Cursor::new(bytes), format, &options).map_err(|error| failure(&error, kind))?;
    let losses = office.damage().into_iter().find(office_oxide::options::Damage::is_loss);
    let whole = losses.map_or(Ok(()), |loss| Err(broken(kind, &loss.to_string())));
    Ok((office.to_ir(), whole))
}

/// Some of a document as Markdown.
pub(super) fn markdown(elements: Vec<Element>) -> String {
    let section = Section { elements, ..Section::default() };
    DocumentIR { sections: vec![section], ..DocumentIR::default() }.to_markdown()
}

fn failure(error: &OfficeError, kind: Kind) -> Failure {
    broken(kind, &error.to_string())
}

//! Word: one text, for its pages are made when it is printed. Headings, lists, tables and notes are kept.

use super::{Teller, office};
use crate::{document::DocumentPlace, failure::Failure, kind::Kind};

pub(super) fn extract(bytes: Vec<u8>, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let (document, whole) = office::read(bytes, Kind::Docx, teller.limits())?;
    teller.head(document.metadata.title.as_deref(), None)?;
    let text: Vec<String> = document.sections.into_iter().map(|section| office::markdown(section.elements)).collect();
    teller.text(DocumentPlace::Whole, text.join("\n\n"), None)?;
    whole
}

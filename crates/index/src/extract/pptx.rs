//! PowerPoint: slide by slide, with the speaker's notes.

use super::{Teller, office};
use crate::{document::DocumentPlace, failure::Failure, kind::Kind};

pub(super) fn extract(bytes: Vec<u8>, kind: Kind, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let (document, whole) = office::read(bytes, kind, teller.limits())?;
    teller.head(document.metadata.title.as_deref(), Some(document.sections.len()))?;
    for (number, slide) in (1..).zip(document.sections) {
        let notes = slide.speaker_notes.map(office::markdown);
        teller.text(DocumentPlace::Slide(number), office::markdown(slide.elements), notes)?;
    }
    whole
}

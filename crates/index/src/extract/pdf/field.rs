//! What stands on a page and is not part of it: what was filled into a form, and texts that were put on it.

use pdf_oxide::{
    PdfDocument,
    annotation_types::{AnnotationFlags, AnnotationSubtype},
    annotations::Annotation,
    object::Object,
};

use super::line::Piece;

/// Characters that are read of one.
const MOST_LETTERS: usize = 4000;

/// The texts of the fields and notes of a page, where they stand.
pub(super) fn pieces(document: &PdfDocument, page: usize) -> Vec<Piece> {
    if !has_texts(document, page) {
        return Vec::new();
    }
    let annotations = document.get_annotations(page).unwrap_or_default();
    annotations.iter().flat_map(pieces_of).collect()
}

/// Returns whether there may be any on a page. The library looks for them by going through all pages before it, which takes
/// the square of the time for a book; most pages have none, or links only.
fn has_texts(document: &PdfDocument, page: usize) -> bool {
    let resolved = |object: &Object| document.resolve_object(object).ok();
    let Ok(page) = document.get_page(page) else { return false };
    let Some(notes) = page.as_dict().and_then(|page| resolved(page.get("Annots")?)) else { return false };
    notes.as_array().is_some_and(|notes| {
        notes.iter().any(|note| {
            let note = resolved(note);
            let subtype = note.as_ref().and_then(|note| note.as_dict()?.get("Subtype")?.as_name());
            matches!(subtype, Some("Widget" | "FreeText" | "Stamp"))
        })
    })
}

fn pieces_of(annotation: &Annotation) -> Vec<Piece> {
    let text = match annotation.subtype_enum {
        AnnotationSubtype::Widget => annotation.field_value.as_ref(),
        AnnotationSubtype::FreeText | AnnotationSubtype::Stamp => annotation.contents.as_ref(),
        _ => None,
    };
    const UNSEEN: u32 = AnnotationFlags::INVISIBLE | AnnotationFlags::HIDDEN | AnnotationFlags::NO_VIEW;
    let is_seen = annotation.flags.bits() & UNSEEN == 0;
    let (Some(text), Some(corners), true) = (text, annotation.rect, is_seen) else {
        return Vec::new();
    };
    #[expect(clippy::cast_possible_truncation, reason = "points on a page")]
    let [one_x, one_y, other_x, other_y] = corners.map(|corner| corner as f32);
    if ![one_x, one_y, other_x, other_y].iter().all(|corner| corner.is_finite()) {
        return Vec::new();
    }
    let (left, right, top) = (one_x.min(other_x), one_x.max(other_x), one_y.max(other_y));
    let lines: Vec<String> = text.lines().map(|line| line.chars().take(MOST_LETTERS).collect()).collect();
    let size = ((top - one_y.min(other_y)) / lines.len().max(1) as f32 / 1.4).clamp(4.0, 12.0);
    let mut base = top;
    let mut pieces = Vec::new();
    for line in lines.into_iter().filter(|line: &String| !line.trim().is_empty()) {
        base -= 1.1 * size;
        let text = line.trim().to_owned();
        pieces.push(Piece { text, left, right, base, size, is_bold: false, is_mono: false, is_table: false });
    }
    pieces
}

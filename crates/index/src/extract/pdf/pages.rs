//! The pages of a PDF, one by one: their own text, and what is recognised on those that are pictures.

use hayro_syntax::{
    Pdf,
    object::{Object, Stream},
    page::Page,
};

use super::{
    column,
    content::Content,
    field::{self, Beside},
    font::Fonts,
    layer::Layers,
    line, ruled, stream, text, turn,
};
use crate::{
    document::DocumentPlace,
    extract::{
        Teller,
        scan::{MORE_TEXT, RecognisedText},
    },
    failure::{Failure, UnreadPages, UnreadReason},
};

/// Flaws of the pages that were told.
#[derive(Default)]
pub(super) struct PageFlaws {
    /// Pages that are pictures and were not recognised.
    pub(super) unread: Option<UnreadPages>,
    /// Set if pages behind the last one that is wanted were not looked at.
    pub(super) is_partial: bool,
    /// Failure of the first page that could not be read; the others are read nevertheless.
    pub(super) first_error: Option<String>,
}

/// Tells the pages that are wanted.
pub(super) fn tell(document: &Pdf, teller: &mut Teller<'_>) -> Result<PageFlaws, Failure> {
    let mut flaws = PageFlaws::default();
    let (fonts, layers) = (Fonts::new(), Layers::of(document));
    let first = usize::try_from(teller.first() - 1).unwrap_or(usize::MAX);
    for (page, number) in document.pages().iter().zip(1..).skip(first) {
        if teller.last_page().is_some_and(|last| number > last) {
            flaws.is_partial = true;
            break;
        }
        let stored = stored(page);
        let mut content = Content::of(page, stored.as_deref().unwrap_or_default(), &fonts, &layers);
        let is_scan = content.is_scan();
        let is_looked_at = is_scan || content.may_be_scan() && teller.scanner().is_wanted();
        let recognised = if is_looked_at { Some(teller.scanner().page(number, page)?) } else { None };
        let (mut place, mut texts, mut unread) = (DocumentPlace::Page(number), Vec::new(), None);
        match recognised {
            // A picture below the letters of the page, which says nothing.
            Some(Ok(RecognisedText { text, .. })) if !is_scan && text.trim().is_empty() => {}
            // What another program recognised before says the same.
            Some(Ok(RecognisedText { text, is_cut })) if content.hidden_letters() <= letters(&text) => {
                if is_cut {
                    teller.leave_out(format!("page {number} has {MORE_TEXT}"));
                }
                content.glyphs.retain(|glyph| !glyph.is_hidden);
                place = DocumentPlace::ScannedPage(number);
                texts.push(text);
            }
            Some(Err(UnreadReason::Undrawn)) if !is_scan => {}
            Some(Err(why)) => unread = Some(why),
            Some(Ok(_)) | None => {}
        }
        let beside = Beside::of(page);
        for what in [&content.truncated, &beside.truncated].into_iter().flatten() {
            teller.leave_out(format!("page {number} has {what}"));
        }
        texts.extend(own_texts(beside, &content));
        if number == 1 {
            texts.extend(field::attached(document).iter().map(|file| format!("Attached file: {file}")));
        }
        texts.retain(|text| !text.trim().is_empty());
        if let Some(why) = unread {
            let page = UnreadPages::one(why, !texts.is_empty());
            flaws.unread = Some(flaws.unread.map_or(page, |before| before.and(page)));
        }
        if stored.is_none() {
            flaws.first_error.get_or_insert(format!("page {number}: its content cannot be unpacked"));
        }
        teller.page(place, texts.join("\n\n"), unread)?;
    }
    Ok(flaws)
}

/// Number of letters of a text.
fn letters(text: &str) -> usize {
    text.chars().filter(|letter| letter.is_alphanumeric()).count()
}

/// The content of a page, which may be stored in parts. None if there is some and nothing of it can be unpacked.
fn stored(page: &Page<'_>) -> Option<Vec<u8>> {
    let parts: Vec<Stream<'_>> = match page.raw().get::<Object<'_>>("Contents") {
        Some(Object::Stream(whole)) => vec![whole],
        Some(Object::Array(parts)) => parts.iter::<Stream<'_>>().collect(),
        _ => Vec::new(),
    };
    let mut stored = Vec::new();
    for part in &parts {
        if let Some(part) = stream::unpacked(part) {
            stored.extend_from_slice(&part);
            // No word goes on from one part to the next.
            stored.push(b'\n');
        }
    }
    let has_some = || parts.iter().any(|part| !part.raw_data().trim_ascii().is_empty());
    (!stored.trim_ascii().is_empty() || !has_some()).then_some(stored)
}

/// The texts of a page itself: what is upright or most, then what is turned, then comments.
fn own_texts(beside: Beside, content: &Content) -> Vec<String> {
    let mut texts = Vec::new();
    for view in turn::views(content) {
        let mut letters = view.letters.clone();
        let mut pieces = line::pieces(letters.clone());
        if has_cells(&pieces) {
            let tables = ruled::tables(&mut letters, &ruled::strokes(content, &view));
            if !tables.is_empty() {
                pieces = line::pieces(letters);
                pieces.extend(tables);
            }
        }
        if view.is_upright {
            pieces.extend(beside.pieces(&view));
        }
        texts.push(text::markdown(&column::regions(pieces)));
    }
    texts.push(turn::others(content));
    texts.extend(beside.comments);
    texts.extend(beside.files.iter().map(|file| format!("Attached file: {file}")));
    texts
}

/// Returns whether some lines have gaps as between cells, so that it is worth while to look for a table.
fn has_cells(pieces: &[line::Piece]) -> bool {
    let has_gap = |row: &&Vec<line::Piece>| row.windows(2).any(|pair| pair[0].is_far_from(&pair[1]));
    line::rows(pieces.to_vec()).iter().filter(has_gap).count() > 1
}

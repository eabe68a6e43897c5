//! PDF: text page by page in reading order, with headings and tables.
//!
//! Libraries parse the file and its fonts. These modules interpret the content and lay it out:
//!
//! - [`drawing`]: content interpreter. [`font`]: fonts and text operators.
//! - [`turn`]: rotated text. [`direction`]: right-to-left and vertical scripts.
//! - [`line`](mod@line): characters and pieces of lines. `recognised_text`: layout of recognised text.
//! - [`field`]: form values, comments and attachments. [`ruled_tables`]: tables drawn with lines. [`text`]: reading
//!   order, paragraphs, headings, lists and listings.

mod direction;
mod drawing;
mod field;
mod font;
mod line;
#[cfg(feature = "ocr")]
mod recognised_text;
mod ruled_tables;
mod text;
mod turn;

use hayro_syntax::{
    DecryptionError, LoadPdfError, Pdf, PdfData,
    object::{Object, Stream},
    page::Page,
};
use memchr::memmem;

#[cfg(feature = "ocr")]
pub(super) use self::recognised_text::recognised;
use self::{
    drawing::{Content, Layers},
    field::AnnotationTexts,
    font::Fonts,
};
use super::{
    Emitter, broken, clean,
    scan::{MORE_TEXT, RecognisedText},
};
use crate::{
    document::DocumentPlace,
    failure::{Failure, UnreadReason, fail_if},
    kind::Kind,
};

/// Marker near the end of every complete PDF.
const END_MARK: &[u8] = b"%%EOF";
const END_MARK_SEARCH_BYTES: usize = 4096;

pub(super) fn extract(bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let tail = &bytes[bytes.len().saturating_sub(END_MARK_SEARCH_BYTES)..];
    let is_whole = tail.windows(END_MARK.len()).any(|window| window == END_MARK);
    const TRUNCATED: &str = "it ends early, as if copied incompletely";
    let cut_off = || broken(Kind::Pdf, TRUNCATED);
    // Many files are encrypted with an empty password, only to restrict operations such as printing.
    let data = PdfData::from(bytes);
    let is_locked = |opened: &Result<Pdf, LoadPdfError>| {
        match opened {
            Err(LoadPdfError::Decryption(DecryptionError::PasswordProtected)) => true,
            // If the cross-reference table is also damaged, only this key indicates a missing password.
            Err(LoadPdfError::Invalid) => memmem::find(data.as_ref(), b"/Encrypt").is_some(),
            _ => false,
        }
    };
    let mut opened = Pdf::new(data.clone());
    if let (true, Some(password)) = (is_locked(&opened), &emitter.wanted.password) {
        opened = Pdf::new_with_password(data.clone(), password.reveal());
    }
    fail_if(is_locked(&opened), || Failure::Encrypted(Kind::Pdf))?;
    let document = opened.map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::UnsupportedAlgorithm) => {
            Failure::Protected { kind: Kind::Pdf, how: "its encryption is not supported".to_owned() }
        }
        LoadPdfError::Decryption(_) => broken(Kind::Pdf, "its encryption is damaged"),
        LoadPdfError::Invalid if is_whole => broken(Kind::Pdf, "it is damaged, and no pages were found"),
        LoadPdfError::Invalid => cut_off(),
    })?;
    let pages = document.pages().len();
    if pages == 0 {
        return Err(if is_whole { broken(Kind::Pdf, "it has no pages") } else { cut_off() });
    }
    let title = document.metadata().title.as_deref().map(line::string);
    emitter.head(title.as_deref(), Some(pages))?;
    let first_error = emit_pages(&document, emitter)?;
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    let damage = if is_whole || emitter.is_partial { first_error } else { Some(TRUNCATED.to_owned()) };
    match (emitter.unread(), damage) {
        (Some(unread), damage) => {
            let besides = damage.map(|damage| clean::line(&format!("it is also damaged ({damage})"), 200));
            Err(Failure::Scanned { kind: Kind::Pdf, unread, pages, besides })
        }
        (None, Some(damage)) => Err(broken(Kind::Pdf, &damage)),
        (None, None) => Ok(()),
    }
}

/// Emits the requested pages. Returns the problem of the first unreadable page; the other pages are still read.
fn emit_pages(document: &Pdf, emitter: &mut Emitter<'_>) -> Result<Option<String>, Failure> {
    let mut first_error = None;
    let (fonts, layers) = (Fonts::new(), Layers::of(document));
    for (page, number) in document.pages().iter().zip(1..).skip(emitter.before()) {
        if emitter.is_past_last_page(number) {
            break;
        }
        let page_content = page_content(page);
        let mut content = Content::of(page, page_content.as_deref().unwrap_or_default(), &fonts, &layers);
        let is_scan = content.is_scan();
        let is_looked_at = is_scan || content.may_be_scan() && emitter.scanner.is_wanted();
        let recognised = if is_looked_at { Some(emitter.scanner.page(number, page)?) } else { None };
        let (mut place, mut texts, mut unread) = (DocumentPlace::Page(number), Vec::new(), None);
        match recognised {
            // A background image without text.
            Some(Ok(RecognisedText { text, .. })) if !is_scan && text.trim().is_empty() => {}
            // The recognised text replaces another program's OCR layer, unless that layer has more text.
            Some(Ok(RecognisedText { text, is_cut })) if content.hidden_letters() <= letters(&text) => {
                if is_cut {
                    emitter.leave_out(format!("page {number} has {MORE_TEXT}"));
                }
                content.glyphs.retain(|glyph| !glyph.is_hidden);
                place = DocumentPlace::ScannedPage(number);
                texts.push(text);
            }
            Some(Err(UnreadReason::Undrawn)) if !is_scan => {}
            Some(Err(reason)) => unread = Some(reason),
            Some(Ok(_)) | None => {}
        }
        let annotations = AnnotationTexts::of(page);
        for what in [&content.truncated, &annotations.truncated].into_iter().flatten() {
            emitter.leave_out(format!("page {number} has {what}"));
        }
        texts.extend(own_texts(annotations, &content));
        if number == 1 {
            texts.extend(field::attached_files(document).iter().map(|file| format!("Attached file: {file}")));
        }
        texts.retain(|text| !text.trim().is_empty());
        if page_content.is_none() {
            first_error.get_or_insert(format!("page {number}: its content cannot be unpacked"));
        }
        emitter.text(place, texts.join("\n\n"), None, unread)?;
    }
    Ok(first_error)
}

/// Returns the number of letters and digits in a text.
fn letters(text: &str) -> usize {
    text.chars().filter(|letter| letter.is_alphanumeric()).count()
}

/// Returns the content of a page, which may be stored in several streams, or `None` if no stream can be decompressed.
fn page_content(page: &Page<'_>) -> Option<Vec<u8>> {
    let parts: Vec<Stream<'_>> = match page.raw().get::<Object<'_>>("Contents") {
        Some(Object::Stream(whole)) => vec![whole],
        Some(Object::Array(parts)) => parts.iter::<Stream<'_>>().collect(),
        _ => Vec::new(),
    };
    let mut page_content = Vec::new();
    for part in &parts {
        if let Ok(part) = part.decoded_data() {
            page_content.extend_from_slice(&part);
            // Tokens never continue in the next stream.
            page_content.push(b'\n');
        }
    }
    let has_some = || parts.iter().any(|part| !part.raw_data().trim_ascii().is_empty());
    (!page_content.trim_ascii().is_empty() || !has_some()).then_some(page_content)
}

/// Returns the texts of a page: its views, the remaining rotated characters, then comments.
fn own_texts(annotations: AnnotationTexts, content: &Content) -> Vec<String> {
    let mut texts = Vec::new();
    for view in turn::views(content) {
        let mut letters = view.letters.clone();
        let mut pieces = line::pieces(letters.clone());
        // Only look for a table if some lines have gaps like those between cells.
        let has_gap = |row: &&Vec<line::Piece>| row.windows(2).any(|pair| pair[0].is_far_from(&pair[1]));
        if line::rows(pieces.clone()).iter().filter(has_gap).count() > 1 {
            let tables = ruled_tables::tables(&mut letters, &ruled_tables::ruling_lines(content, &view));
            if !tables.is_empty() {
                pieces = line::pieces(letters);
                pieces.extend(tables);
            }
        }
        if view.is_upright {
            pieces.extend(annotations.pieces(&view));
        }
        texts.push(text::markdown(&text::regions(pieces)));
    }
    texts.push(turn::unassigned_text(content));
    texts.extend(annotations.comments);
    texts.extend(annotations.files.iter().map(|file| format!("Attached file: {file}")));
    texts
}

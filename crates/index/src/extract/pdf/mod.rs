//! PDF: page by page, in reading order, with headings and tables.
//!
//! Libraries read the file and its fonts. What is drawn, and what it makes, is told here:
//!
//! - [`content`]: what is drawn on a page. [`drawing`]: the operators, with those of [`setting`] and [`path`]; [`font`]: their fonts,
//!   [`glyph`]: the letters as they are drawn. [`layer`]: what is switched off.
//! - [`letter`]: the letters. [`turn`]: which of them stand upright together. [`direction`]: scripts that are not read from the left.
//! - [`line`](mod@line): pieces of lines, with [`accent`]s on their letters. [`column`](mod@column): in which order they are read.
//! - `recognised`: pages that are pictures, laid out by the letters that were recognised on them.
//! - [`field`]: what was filled in, comments and attached files. [`string`]: their texts. [`ruled`]: tables that are drawn with lines. [`text`]: paragraphs, headings, lists and listings.

mod accent;
mod column;
mod content;
mod direction;
mod drawing;
mod field;
mod font;
mod glyph;
mod layer;
mod letter;
mod line;
mod path;
#[cfg(feature = "ocr")]
mod recognised;
mod ruled;
mod setting;
mod string;
mod text;
mod turn;

use hayro_syntax::{
    DecryptionError, LoadPdfError, Pdf, PdfData,
    object::{Object, Stream},
    page::Page,
};

#[cfg(feature = "ocr")]
pub(super) use self::recognised::recognised;
use self::{content::Content, field::Beside, font::Fonts, layer::Layers};
use super::{Teller, broken, scan::scanned};
use crate::{
    document::DocumentPlace,
    failure::{Failure, UnreadReason},
    kind::Kind,
};

/// Mark that must stand near the end of every PDF that came whole.
const END_MARK: &[u8] = b"%%EOF";
const END_MARK_WITHIN: usize = 4096;

pub(super) fn extract(bytes: Vec<u8>, teller: &mut Teller<'_>, password: Option<&str>) -> Result<(), Failure> {
    let tail = &bytes[bytes.len().saturating_sub(END_MARK_WITHIN)..];
    let is_whole = tail.windows(END_MARK.len()).any(|window| window == END_MARK);
    let cut_off = || broken(Kind::Pdf, "it ends early, as if it was not copied whole");
    // Many are encrypted without a password, only to forbid things to programs that ask.
    let data = PdfData::from(bytes);
    let is_locked = |opened: &Result<Pdf, LoadPdfError>| {
        matches!(opened, Err(LoadPdfError::Decryption(DecryptionError::PasswordProtected)))
    };
    let mut opened = Pdf::new(data.clone());
    if let (true, Some(password)) = (is_locked(&opened), password) {
        opened = Pdf::new_with_password(data, password);
    }
    let document = opened.map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => Failure::Encrypted(Kind::Pdf),
        LoadPdfError::Decryption(_) => broken(Kind::Pdf, "its encryption is damaged or of an unknown kind"),
        LoadPdfError::Invalid if is_whole => broken(Kind::Pdf, "it is damaged, and no pages can be found in it"),
        LoadPdfError::Invalid => cut_off(),
    })?;
    let pages = document.pages().len();
    if pages == 0 {
        return Err(if is_whole { broken(Kind::Pdf, "it has no pages") } else { cut_off() });
    }
    let title = document.metadata().title.as_deref().map(string::text);
    teller.head(title.as_deref(), Some(pages))?;
    let read = tell_pages(&document, teller)?;
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    let scanned = scanned(Kind::Pdf, read.pictures, pages, read.why);
    // Those of pages that were not looked at are not known; each one that is told says so itself.
    let has_pictures = read.pictures > 0 && teller.first() == 1;
    match read.first_error {
        _ if !read.has_text && has_pictures => Err(scanned),
        _ if !is_whole => Err(cut_off()),
        Some(why) => Err(broken(Kind::Pdf, &why)),
        None if has_pictures => Err(scanned),
        None => Ok(()),
    }
}

#[derive(Default)]
struct PageContent {
    /// Set if some page has text.
    has_text: bool,
    /// Pages that are pictures and were not recognised.
    pictures: u32,
    /// The reason why the first of them was not.
    why: UnreadReason,
    /// Failure of the first page that could not be read; the others are read nevertheless.
    first_error: Option<String>,
}

fn tell_pages(document: &Pdf, teller: &mut Teller<'_>) -> Result<PageContent, Failure> {
    let mut read = PageContent::default();
    let (fonts, layers) = (Fonts::new(), Layers::of(document));
    let first = usize::try_from(teller.first() - 1).unwrap_or(usize::MAX);
    for (page, number) in document.pages().iter().zip(1..).skip(first) {
        let stored = stored(page);
        let content = Content::of(page, stored.as_deref().unwrap_or_default(), &fonts, &layers);
        let mut text = markdown(page, &content);
        let has_text = !text.trim().is_empty();
        if number == 1 {
            let attached = field::attached(document);
            text.push_str(&attached.iter().map(|file| format!("\n\nAttached file: {file}")).collect::<String>());
        }
        let mut place = DocumentPlace::Page(number);
        if !has_text && content.has_picture {
            match teller.scanner().page(number, page)? {
                Ok(recognised) => {
                    text.insert_str(0, &recognised);
                    place = DocumentPlace::ScannedPage(number);
                }
                Err(why) => {
                    read.why = if read.pictures == 0 { why } else { read.why };
                    read.pictures += 1;
                    teller.picture(place, why)?;
                    continue;
                }
            }
        }
        if stored.is_none() {
            read.first_error.get_or_insert(format!("page {number}: its content cannot be unpacked"));
        }
        read.has_text |= !text.trim().is_empty();
        teller.text(place, text, None)?;
    }
    Ok(read)
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
        if let Some(part) = font::unpacked(part) {
            stored.extend_from_slice(&part);
            // No word goes on from one part to the next.
            stored.push(b'\n');
        }
    }
    let has_some = || parts.iter().any(|part| !part.raw_data().trim_ascii().is_empty());
    (!stored.trim_ascii().is_empty() || !has_some()).then_some(stored)
}

/// The text of a page: what is upright or most, then what is turned, then comments.
fn markdown(page: &Page<'_>, content: &Content) -> String {
    let beside = Beside::of(page);
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
    texts.extend(beside.comments);
    texts.extend(beside.files.iter().map(|file| format!("Attached file: {file}")));
    texts.retain(|text| !text.trim().is_empty());
    texts.join("\n\n")
}

/// Returns whether some lines have gaps as between cells, so that it is worth while to look for a table.
fn has_cells(pieces: &[line::Piece]) -> bool {
    let has_gap = |row: &&Vec<line::Piece>| row.windows(2).any(|pair| pair[0].is_far_from(&pair[1]));
    line::rows(pieces.to_vec()).iter().filter(has_gap).count() > 1
}

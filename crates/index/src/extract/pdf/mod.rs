//! PDF: page by page, in reading order, with headings and tables.
//!
//! The library finds the letters of a page with their places. What they make is told here:
//!
//! - [`letter`]: the letters. [`turn`]: which of them stand upright together. [`direction`]: scripts that are not read from the left.
//! - [`line`](mod@line): pieces of lines, with [`accent`]s on their letters. [`column`](mod@column): in which order they are read.
//! - [`field`]: what was filled in, comments and attached files. [`string`]: their texts. [`ruled`]: tables that are drawn with lines. [`text`]: paragraphs, headings, lists and listings.

mod accent;
mod column;
mod direction;
mod field;
mod letter;
mod line;
mod ruled;
mod string;
mod text;
mod turn;

use pdf_oxide::{PdfDocument, object::Object};

use self::field::Beside;
use super::{Teller, broken};
use crate::{document::DocumentPlace, failure::Failure, kind::Kind};

/// Mark that must stand near the end of every PDF that came whole.
const END_MARK: &[u8] = b"%%EOF";
const END_MARK_WITHIN: usize = 4096;

pub(super) fn extract(bytes: Vec<u8>, teller: &mut Teller<'_>, password: Option<&str>) -> Result<(), Failure> {
    let tail = &bytes[bytes.len().saturating_sub(END_MARK_WITHIN)..];
    let is_whole = tail.windows(END_MARK.len()).any(|window| window == END_MARK);
    let cut_off = || broken(Kind::Pdf, "it ends early, as if it was not copied whole");
    let document = PdfDocument::from_bytes(bytes)
        .map_err(|error| if is_whole { broken(Kind::Pdf, &error.to_string()) } else { cut_off() })?;
    // Many are encrypted without a password, only to forbid things to programs that ask.
    let opens = |word: &str| matches!(document.authenticate(word.as_bytes()), Ok(true));
    if document.is_encrypted() && !opens("") && !password.is_some_and(opens) {
        return Err(Failure::Encrypted(Kind::Pdf));
    }
    if revision(&document) == Some(5) {
        return Err(broken(Kind::Pdf, "its encryption is that of Acrobat 9 only (AES-256, revision 5)"));
    }
    let pages = document.page_count().map_err(|error| broken(Kind::Pdf, &error.to_string()))?;
    if pages == 0 {
        return Err(if is_whole { broken(Kind::Pdf, "it has no pages") } else { cut_off() });
    }
    teller.head(title(&document).as_deref(), Some(pages))?;
    let read = tell_pages(&document, pages, teller)?;
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    let scanned = Failure::Scanned { kind: Kind::Pdf, pictures: read.pictures, pages };
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
    /// Pages that are pictures without text.
    pictures: u32,
    /// Failure of the first page that could not be read; the others are read nevertheless.
    first_error: Option<String>,
}

fn tell_pages(document: &PdfDocument, pages: usize, teller: &mut Teller<'_>) -> Result<PageContent, Failure> {
    let mut read = PageContent::default();
    for page in usize::try_from(teller.first() - 1).unwrap_or(usize::MAX)..pages {
        let number = u32::try_from(page + 1).unwrap_or(u32::MAX);
        let mut text = markdown(document, page).unwrap_or_else(|error| {
            read.first_error.get_or_insert(format!("page {number}: {error}"));
            String::new()
        });
        let has_text = !text.trim().is_empty();
        if page == 0 {
            let attached = field::attached(document);
            text.push_str(&attached.iter().map(|file| format!("\n\nAttached file: {file}")).collect::<String>());
        }
        if !has_text && shows_picture(document, page) {
            read.pictures += 1;
            teller.picture(DocumentPlace::Page(number))?;
            continue;
        }
        if !has_text && let Some(why) = damage(document, page) {
            read.first_error.get_or_insert(format!("page {number}: {why}"));
        }
        read.has_text |= has_text;
        teller.text(DocumentPlace::Page(number), text, None)?;
    }
    Ok(read)
}

/// The text of a page: what is upright or most, then what is turned, then comments.
fn markdown(document: &PdfDocument, page: usize) -> pdf_oxide::Result<String> {
    let beside = Beside::of(document, page);
    let mut texts = Vec::new();
    for view in turn::views(document, page)? {
        let mut letters = view.letters.clone();
        let mut pieces = line::pieces(letters.clone());
        if has_cells(&pieces) {
            let tables = ruled::tables(&mut letters, &ruled::strokes(document, page, &view));
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
    Ok(texts.join("\n\n"))
}

/// Returns whether some lines have gaps as between cells, so that it is worth while to look for a table.
fn has_cells(pieces: &[line::Piece]) -> bool {
    let has_gap = |row: &&Vec<line::Piece>| row.windows(2).any(|pair| pair[0].is_far_from(&pair[1]));
    line::rows(pieces.to_vec()).iter().filter(has_gap).count() > 1
}

fn shows_picture(document: &PdfDocument, page: usize) -> bool {
    document.page_image_handles(page).is_ok_and(|pictures| !pictures.is_empty())
}

/// Returns what is wrong with a page that tells nothing although there is something on it.
fn damage(document: &PdfDocument, page: usize) -> Option<String> {
    let content = match document.get_page_content_data(page) {
        Ok(content) => content,
        Err(error) => return Some(error.to_string()),
    };
    let is_blank = content.iter().all(u8::is_ascii_whitespace);
    let object = document.get_page(page).ok()?;
    let streams = document.resolve_object(object.as_dict()?.get("Contents")?).ok()?;
    let streams = match streams {
        Object::Array(streams) => streams,
        stream => vec![stream],
    };
    let is_stored = |stream: &Object| match document.resolve_object(stream) {
        // What compresses nothing takes less.
        Ok(Object::Stream { data, .. }) => data.len() > 16,
        Ok(_) => false,
        Err(_) => true,
    };
    (is_blank && streams.iter().any(is_stored)).then(|| "its content cannot be unpacked".to_owned())
}

/// Revision of the encryption.
fn revision(document: &PdfDocument) -> Option<i64> {
    let encryption = document.resolve_object(document.trailer().as_dict()?.get("Encrypt")?).ok()?;
    encryption.as_dict()?.get("R")?.as_integer()
}

/// Title in the document's own notes. They are read with care: a reference may lead anywhere.
fn title(document: &PdfDocument) -> Option<String> {
    let resolved = |object: &Object| document.resolve_object(object).ok();
    let information = resolved(document.trailer().as_dict()?.get("Info")?)?;
    let title = resolved(information.as_dict()?.get("Title")?)?;
    Some(string::text(title.as_string()?))
}

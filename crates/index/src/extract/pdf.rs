//! PDF: page by page, in reading order, with headings and tables.

use pdf_oxide::{PdfDocument, converters::ConversionOptions, object::Object};

use super::{Teller, broken};
use crate::{document::Place, failure::Failure, kind::Kind};

/// What must stand near the end of every PDF that came whole.
const END_MARK: &[u8] = b"%%EOF";
const END_MARK_WITHIN: usize = 4096;

pub(super) fn extract(bytes: Vec<u8>, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let tail = &bytes[bytes.len().saturating_sub(END_MARK_WITHIN)..];
    let is_whole = tail.windows(END_MARK.len()).any(|window| window == END_MARK);
    let cut_off = || broken(Kind::Pdf, "it ends early, as if it was not copied whole");
    let document = PdfDocument::from_bytes(bytes)
        .map_err(|error| if is_whole { broken(Kind::Pdf, &error.to_string()) } else { cut_off() })?;
    // Many are encrypted without a password, only to forbid things to programs that ask.
    if document.is_encrypted() && !matches!(document.authenticate(b""), Ok(true)) {
        return Err(Failure::Encrypted(Kind::Pdf));
    }
    let pages = document.page_count().map_err(|error| broken(Kind::Pdf, &error.to_string()))?;
    if pages == 0 {
        return Err(if is_whole { broken(Kind::Pdf, "it has no pages") } else { cut_off() });
    }
    teller.head(title(&document).as_deref(), Some(pages))?;
    let read = tell_pages(&document, pages, teller)?;
    if read.with_text == 0 && read.pictures > 0 {
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        return Err(Failure::Scanned { kind: Kind::Pdf, pages });
    }
    match read.first_error {
        _ if !is_whole => Err(cut_off()),
        Some(why) => Err(broken(Kind::Pdf, &why)),
        None => Ok(()),
    }
}

#[derive(Default)]
struct Read {
    with_text: usize,
    pictures: usize,
    /// What was wrong with the first page that could not be read; the others are told nevertheless.
    first_error: Option<String>,
}

fn tell_pages(document: &PdfDocument, pages: usize, teller: &mut Teller<'_>) -> Result<Read, Failure> {
    let mut read = Read::default();
    for page in 0..pages {
        let number = u32::try_from(page + 1).unwrap_or(u32::MAX);
        let text = markdown(document, page).unwrap_or_else(|error| {
            read.first_error.get_or_insert(format!("page {number}: {error}"));
            String::new()
        });
        let has_text = !text.trim().is_empty();
        teller.text(Place::Page(number), text, None)?;
        if has_text {
            read.with_text += 1;
        } else if shows_picture(document, page) {
            read.pictures += 1;
            teller.was_picture();
        }
    }
    Ok(read)
}

fn markdown(document: &PdfDocument, page: usize) -> pdf_oxide::Result<String> {
    let options = ConversionOptions { include_images: false, extract_tables: true, ..ConversionOptions::default() };
    let text = document.to_markdown(page, &options)?;
    match tables(&text) {
        Tables::None => Ok(text),
        Tables::Dense if is_ruled(document, page) => Ok(text),
        _ => document.extract_text(page),
    }
}

/// What looks like tables to the library. Running text whose words happen to stand below each other does as well.
#[derive(Debug, PartialEq, Eq)]
enum Tables {
    None,
    Dense,
    /// Tables that people draw have gaps, but not in a third of their cells.
    Sparse,
}

fn tables(text: &str) -> Tables {
    let (mut cells, mut empty) = (0, 0);
    for line in text.lines().filter(|line| line.starts_with('|') && line.ends_with('|') && !line.starts_with("|--")) {
        for cell in line.trim_matches('|').split('|') {
            cells += 1;
            empty += usize::from(cell.trim().is_empty());
        }
    }
    match cells {
        0 => Tables::None,
        cells if empty * 3 > cells => Tables::Sparse,
        _ => Tables::Dense,
    }
}

/// Whether enough lines are drawn on a page for a table, and not only to set off its foot.
fn is_ruled(document: &PdfDocument, page: usize) -> bool {
    const LINES: usize = 4;
    let lines = document.extract_lines(page).map_or(0, |lines| lines.len());
    lines >= LINES || lines + document.extract_rects(page).map_or(0, |rects| rects.len()) >= LINES
}

fn shows_picture(document: &PdfDocument, page: usize) -> bool {
    document.page_image_handles(page).is_ok_and(|pictures| !pictures.is_empty())
}

/// What the document's own notes say. They are asked for with care: a reference may lead anywhere.
fn title(document: &PdfDocument) -> Option<String> {
    let resolved = |object: &Object| document.resolve_object(object).ok();
    let information = resolved(document.trailer().as_dict()?.get("Info")?)?;
    let title = resolved(information.as_dict()?.get("Title")?)?;
    Some(text_string(title.as_string()?))
}

/// A string of a PDF: UTF-16 or UTF-8 where a mark says so, and otherwise close enough to Latin-1.
fn text_string(bytes: &[u8]) -> String {
    match bytes {
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0xef, 0xbb, 0xbf, ..] => super::encoding::decode(bytes, None),
        bytes => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

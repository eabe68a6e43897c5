//! Sanitising and decoding of text: removes control characters, bounds sizes, and detects encodings.

use agentd_core::charset;
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};

use crate::{
    document::{Body, DocumentPlace, Part, Row},
    failure::Failure,
    frame::Head,
};

/// Maximum number of columns in any spreadsheet program.
pub(crate) const MAX_COLUMNS: u32 = 16_384;
/// Maximum number of rows. Well above the limit of spreadsheet programs, since text files may have more rows.
pub(crate) const MAX_ROWS: u32 = 1 << 30;
const NAME_BYTES: usize = 300;
const PATH_BYTES: usize = 1000;
const TITLE_BYTES: usize = 500;

/// Removes control characters except line ends and tabs, and bidirectional formatting characters. Normalises line ends.
pub fn text(text: &str) -> String {
    clean_owned(text.to_owned())
}

/// Sanitises a text like [`text()`], without a copy if nothing changes.
pub fn clean_owned(text: String) -> String {
    if !text.contains(is_unwanted) {
        return text;
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' if letters.peek() == Some(&'\n') => {}
            // A page break ends the line.
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' => cleaned.push('\n'),
            letter if is_unwanted(letter) => {}
            letter => cleaned.push(letter),
        }
    }
    cleaned
}

fn is_unwanted(letter: char) -> bool {
    let is_control = letter.is_control() && !matches!(letter, '\n' | '\t');
    is_control
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns the text as one line of at most `most` bytes, plus an ellipsis if the text was cut.
pub fn line(text: &str, most: usize) -> String {
    let mut line = self::text(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > most {
        line.truncate(line.floor_char_boundary(most));
        line.push('…');
    }
    line
}

/// Returns the sanitised title of a document, or `None` if the title is empty.
pub fn title(text: &str) -> Option<String> {
    Some(line(text, TITLE_BYTES)).filter(|title| !title.is_empty())
}

pub(crate) fn head(head: Head) -> Head {
    Head { title: head.title.as_deref().and_then(title), ..head }
}

pub(crate) fn part(part: Part) -> Part {
    let body = match part.body {
        Body::Text(text) => Body::Text(clean_owned(text)),
        Body::Table(mut table) => {
            for cell in table.header.iter_mut().chain(&mut table.rows).flat_map(|row| &mut row.cells) {
                *cell = clean_owned(std::mem::take(cell));
            }
            Body::Table(table)
        }
    };
    Part { place: place(part.place), body, notes: part.notes.map(clean_owned), unread: part.unread }
}

fn place(place: DocumentPlace) -> DocumentPlace {
    match place {
        DocumentPlace::Sheet { number, name, range } => {
            DocumentPlace::Sheet { number, name: line(&name, NAME_BYTES), range }
        }
        DocumentPlace::Section { number, .. } => DocumentPlace::Section { number, heading: None },
        DocumentPlace::Inner { path, place } => {
            DocumentPlace::Inner { path: line(&path, PATH_BYTES), place: Box::new(self::place(*place)) }
        }
        place => place,
    }
}

/// Returns true if the location is valid and contains the cells of the part.
pub(crate) fn is_valid(part: &Part) -> bool {
    // Archives in archives are not opened.
    let at = match &part.place {
        DocumentPlace::Inner { place, .. } if matches!(**place, DocumentPlace::Inner { .. }) => return false,
        DocumentPlace::Inner { place, .. } => &**place,
        place => place,
    };
    let number = match at {
        DocumentPlace::Page(number)
        | DocumentPlace::ScannedPage(number)
        | DocumentPlace::Slide(number)
        | DocumentPlace::Section { number, .. }
        | DocumentPlace::Sheet { number, .. } => *number,
        DocumentPlace::Lines { first, last } => (*first).min(last.saturating_sub(*first).saturating_add(1)),
        DocumentPlace::Whole | DocumentPlace::Inner { .. } => 1,
    };
    if number == 0 {
        return false;
    }
    let Body::Table(table) = &part.body else { return true };
    let DocumentPlace::Sheet { range, .. } = at else { return false };
    let is_ordered = table.rows.windows(2).all(|pair| pair[0].number < pair[1].number);
    let columns = |row: &Row| u64::from(table.first_column) + row.cells.len() as u64;
    let fits = |row: &Row| (1..=MAX_ROWS).contains(&row.number) && columns(row) <= MAX_COLUMNS.into();
    let all_fit = table.header.iter().chain(&table.rows).all(fits);
    // The location may include rows that were not requested.
    let is_within = match (range, table.range_of(&table.rows)) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(whole), Some(part)) => whole.around(part) == *whole,
    };
    is_ordered && all_fit && is_within
}

/// Shortens the strings in a failure.
pub(crate) fn failure(mut failure: Failure) -> Failure {
    const REASON_BYTES: usize = 300;
    match &mut failure {
        Failure::Broken { why: text, .. }
        | Failure::Scanned { besides: Some(text), .. }
        | Failure::Mismatch { found: text, .. }
        | Failure::Entries { why: text, .. }
        | Failure::Truncated { what: text, .. }
        | Failure::NoEntry { path: text }
        | Failure::Foreign { found: text }
        | Failure::Worker(text) => *text = line(text, REASON_BYTES),
        Failure::TooLarge { what, most, .. } => (*what, *most) = (line(what, REASON_BYTES), line(most, REASON_BYTES)),
        _ => {}
    }
    failure
}

/// Encodings that are evident from the bytes, regardless of a declaration.
const DETECTABLE_ENCODINGS: [&Encoding; 4] = [UTF_8, UTF_16LE, UTF_16BE, ISO_2022_JP];

/// Number of bytes used for detection.
const SAMPLE_BYTES: usize = 64 * 1024;

/// Decodes a text. The encoding in `declared` is used if it is plausible.
pub fn decode(bytes: &[u8], declared: Option<&str>) -> String {
    let found = charset::detect(bytes, true).unwrap_or(charset::Charset::UTF_8);
    let declared = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    let declared = declared
        .filter(|encoding| !DETECTABLE_ENCODINGS.contains(encoding) && !DETECTABLE_ENCODINGS.contains(&found.encoding));
    declared.unwrap_or(found.encoding).decode_without_bom_handling(&bytes[found.bom..]).0.into_owned()
}

/// Returns true if the bytes are text in some encoding.
pub fn is_text(bytes: &[u8]) -> bool {
    charset::detect(&bytes[..bytes.len().min(SAMPLE_BYTES)], bytes.len() <= SAMPLE_BYTES).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(text("a\r\nb\rc\u{c}d\u{1b}[31m\u{202e}e\0\tf\u{feff}"), "a\nb\nc\nd[31me\tf");
        assert_eq!(line(" a\n\n b\u{7} ", 99), "a b");
        assert_eq!(line("äöü", 3), "ä…");
        assert_eq!(title("\u{feff} \n"), None);
    }

    #[test]
    fn utf16_is_text_with_and_without_bom() {
        let little: Vec<u8> = "\u{feff}报告 report".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big_endian: Vec<u8> = "a plain report".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!((is_text(&little), decode(&little, None)), (true, "报告 report".to_owned()));
        assert_eq!((is_text(&big_endian), decode(&big_endian, None)), (true, "a plain report".to_owned()));
    }

    #[test]
    fn declared_encoding_applies_if_valid() {
        assert_eq!(decode(b"\xc4\xe3", Some("gbk")), "你");
        assert_eq!(decode("你".as_bytes(), Some("gbk")), "你");
    }
}

//! Text as everybody can show it: no control characters, and nothing that is told without bound.

use crate::{
    document::{Body, DocumentPlace, Part, Row},
    failure::Failure,
    frame::Head,
};

/// Columns that any spreadsheet has at most.
pub(crate) const MAX_COLUMNS: u32 = 16_384;
/// Rows that any spreadsheet has at most, with room for text files.
pub(crate) const MAX_ROWS: u32 = 1 << 30;
const NAME_BYTES: usize = 300;
const PATH_BYTES: usize = 1000;
const TITLE_BYTES: usize = 500;

/// Without control characters but line ends and tabs, without marks that turn the direction of what follows, and with plain
/// line ends.
#[must_use]
pub fn text(text: &str) -> String {
    owned(text.to_owned())
}

/// The same without a copy where there is nothing to do.
#[must_use]
pub fn owned(text: String) -> String {
    if !text.contains(is_unwanted) {
        return text;
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' if letters.peek() == Some(&'\n') => {}
            // The end of a page is the end of a line.
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

/// One line of at most so many bytes.
#[must_use]
pub fn line(text: &str, most: usize) -> String {
    let mut line = self::text(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > most {
        line.truncate(line.floor_char_boundary(most));
        line.push('…');
    }
    line
}

/// Title of a document; none where it is empty.
#[must_use]
pub fn title(text: &str) -> Option<String> {
    Some(line(text, TITLE_BYTES)).filter(|title| !title.is_empty())
}

pub(crate) fn head(head: Head) -> Head {
    Head { title: head.title.as_deref().and_then(title), ..head }
}

pub(crate) fn part(part: Part) -> Part {
    let body = match part.body {
        Body::Text(text) => Body::Text(owned(text)),
        Body::Table(mut table) => {
            for cell in table.header.iter_mut().chain(&mut table.rows).flat_map(|row| &mut row.cells) {
                *cell = owned(std::mem::take(cell));
            }
            Body::Table(table)
        }
    };
    Part { place: place(part.place), body, notes: part.notes.map(owned), unread: part.unread }
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

/// Returns whether a part is at a place that can be, with cells where its place says.
pub(crate) fn is_sound(part: &Part) -> bool {
    // One archive in another is never told.
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
    let fits = table
        .header
        .iter()
        .chain(&table.rows)
        .all(|row| (1..=MAX_ROWS).contains(&row.number) && columns(row) <= MAX_COLUMNS.into());
    // Rows that nobody wants are not told, though the place has them.
    let is_within = match (range, table.range_of(&table.rows)) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(whole), Some(told)) => whole.around(told) == *whole,
    };
    is_ordered && fits && is_within
}

pub(crate) fn failure(failure: Failure) -> Failure {
    const WHY_BYTES: usize = 300;
    let short = |why: String| line(&why, WHY_BYTES);
    match failure {
        Failure::Broken { kind, parts, why } => Failure::Broken { kind, parts, why: short(why) },
        Failure::Scanned { kind, unread, pages, besides } => {
            Failure::Scanned { kind, unread, pages, besides: besides.map(short) }
        }
        Failure::Mismatch { named, found } => Failure::Mismatch { named, found: short(found) },
        Failure::Entries { kind, failed, entries, why } => Failure::Entries { kind, failed, entries, why: short(why) },
        Failure::Truncated { kind, what } => Failure::Truncated { kind, what: short(what) },
        Failure::NoEntry { path } => Failure::NoEntry { path: short(path) },
        Failure::Foreign { found } => Failure::Foreign { found: short(found) },
        Failure::TooLarge { what, most, parts } => Failure::TooLarge { what: short(what), most: short(most), parts },
        Failure::Worker(why) => Failure::Worker(short(why)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_or_a_reader_could_stumble_over_is_gone() {
        assert_eq!(text("a\r\nb\rc\u{c}d\u{1b}[31m\u{202e}e\0\tf\u{feff}"), "a\nb\nc\nd[31me\tf");
        assert_eq!(line(" a\n\n b\u{7} ", 99), "a b");
        assert_eq!(line("äöü", 3), "ä…");
        assert_eq!(title("\u{feff} \n"), None);
    }
}

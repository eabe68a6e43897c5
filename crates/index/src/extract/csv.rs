//! Tables as text: commas, semicolons, tabs or bars between the cells.

use super::{Teller, broken, clean, sheet::Sheet};
use crate::{failure::Failure, kind::Kind};

const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Lines that are looked at to tell what separates the cells.
const SAMPLE_LINES: usize = 20;

pub(super) fn extract(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    let text = clean::decode(bytes, None);
    teller.head(None, Some(1))?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator(&text))
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut sheet = Sheet::new(1, String::new());
    let mut record = csv::StringRecord::new();
    let mut row = 0_u32;
    while reader.read_record(&mut record).map_err(|error| broken(Kind::Csv, &error.to_string()))? {
        let start = record.position().map_or(0, csv::Position::byte);
        let empty = empty_lines(text.as_bytes(), usize::try_from(start).unwrap_or(usize::MAX));
        row = row.saturating_add(empty).saturating_add(1);
        for (column, cell) in (0..).zip(&record) {
            sheet.cell(row, column, cell.to_owned(), teller)?;
        }
    }
    sheet.end(teller)
}

/// Number of lines without anything before the record that begins there: rows of a spreadsheet that are no records.
fn empty_lines(text: &[u8], start: usize) -> u32 {
    // The end of the line before may come in two halves.
    let is_half = start.checked_sub(1).is_some_and(|before| text.get(before..=start) == Some(b"\r\n"));
    let mut rest = text.get(start + usize::from(is_half)..).unwrap_or_default();
    let mut count = 0;
    while let [b'\r', b'\n', behind @ ..] | [b'\r' | b'\n', behind @ ..] = rest {
        rest = behind;
        count += 1;
    }
    count
}

/// The separator that gives most lines the same number of cells, and more than one.
fn separator(text: &str) -> u8 {
    let score = |separator: &u8| {
        let counts: Vec<usize> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .take(SAMPLE_LINES)
            .map(|line| count_outside_quotes(line, *separator))
            .collect();
        let first = counts.first().copied().unwrap_or_default();
        let alike = counts.iter().filter(|count| **count == first && first > 0).count();
        (alike, first)
    };
    // Of equals the first one.
    SEPARATORS.into_iter().rev().max_by_key(score).unwrap_or(b',')
}

fn count_outside_quotes(line: &str, separator: u8) -> usize {
    let mut is_quoted = false;
    line.bytes()
        .filter(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == separator && !is_quoted
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Limits, Piece};

    #[test]
    fn rows_are_counted_as_spreadsheets_do() {
        let numbers = |text: &str| {
            let (limits, mut rows) = (Limits::default(), Vec::new());
            let mut listener = |piece| {
                if let Piece::Part(part) = piece
                    && let Body::Table(table) = part.body
                {
                    rows.extend(table.header.iter().chain(&table.rows).map(|row| row.number));
                }
                Ok(())
            };
            extract(text.as_bytes(), &mut Teller::new(Kind::Csv, &limits, &mut listener)).unwrap();
            rows
        };
        for end in ["\n", "\r\n", "\r"] {
            let lines = |text: &str| numbers(&text.replace('\n', end));
            assert_eq!(lines("a,b\n\n1,2\n\n\n3,\"x\ny\"\n\n4,5\n\n"), [1, 3, 6, 8], "{end:?}");
            assert_eq!(lines("\n\na,b\n1,2"), [3, 4], "{end:?}");
            assert_eq!(lines("1,2\n , \n3,4\n"), [1, 3], "{end:?}");
        }
    }

    #[test]
    fn the_separator_is_what_makes_rows_alike() {
        let check = |text: &str, expected: u8| assert_eq!(char::from(separator(text)), char::from(expected), "{text}");
        check("a,b\n1,2\n", b',');
        check("name;price\nx;1,50\ny;2,75\n", b';');
        check("a\tb, c\n1\t2\n", b'\t');
        check("\"a;b\",c\n\"d;e;f\",g\n", b',');
        check("one column\n", b',');
        check("", b',');
    }
}

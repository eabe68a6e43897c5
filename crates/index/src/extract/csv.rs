//! Tables as text: commas, semicolons, tabs or bars between the cells.

use super::{Teller, broken, encoding, sheet::Sheet};
use crate::{failure::Failure, kind::Kind};

const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Lines that are looked at to tell what separates the cells.
const SAMPLE_LINES: usize = 20;

pub(super) fn extract(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    let text = encoding::decode(bytes, None);
    teller.head(None, Some(1))?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator(&text))
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut sheet = Sheet::new(1, String::new());
    let mut record = csv::StringRecord::new();
    let mut row = 0;
    while reader.read_record(&mut record).map_err(|error| broken(Kind::Csv, &error.to_string()))? {
        row += 1;
        for (column, cell) in (0..).zip(&record) {
            sheet.cell(row, column, cell.to_owned(), teller)?;
        }
    }
    sheet.end(teller)
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

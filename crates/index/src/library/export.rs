//! Conversion of documents for other programs: one sheet of a workbook to CSV, any other document to text. No side
//! effects.

use std::iter::repeat_n;

use agentd_core::{
    error::{ErrorKind, KnowledgeError},
    knowledge::DocumentExport,
};

use super::reading::Reader;
use crate::{
    Body, DocumentPlace, Kind, Row,
    failure::{Failure, fail_if},
    frame::Head,
};

/// Converts a document or a sheet that was read to its end, or up to the failure.
pub(super) fn export(
    reader: &Reader,
    failure: Option<Failure>,
    max_bytes: u64,
) -> Result<DocumentExport, KnowledgeError> {
    let Some(Head { kind, .. }) = &reader.head else {
        return Err(failure.unwrap_or(Failure::Worker("its reader returned nothing".to_owned())).into());
    };
    let found = "it is a picture or a folder of documents; name a document in it".to_owned();
    fail_if(*kind == Kind::Picture || kind.is_archive(), || Failure::Foreign { found })?;
    let found = "it is not a workbook, despite its name".to_owned();
    fail_if(reader.range.count == Some(1) && !kind.has_sheets(), || Failure::Foreign { found })?;
    let sheet = reader.range.first;
    let (mut rows, mut texts, mut content) = (Vec::<(usize, &Row)>::new(), Vec::new(), "the text".to_owned());
    for (_, part) in &reader.selected {
        match (&part.body, &part.place) {
            (Body::Table(table), DocumentPlace::Sheet { number, name, .. }) if *number == sheet => {
                content = format!("sheet {name}").trim_end().to_owned();
                let first = usize::try_from(table.first_column).unwrap_or_default();
                // Each part of the sheet repeats the header.
                let last = rows.last().map_or(0, |(_, row)| row.number);
                let header = table.header.iter().filter(|header| header.number > last);
                rows.extend(header.chain(&table.rows).map(|row| (first, row)));
            }
            (Body::Table(_), _) => {}
            (Body::Text(_), _) => texts.push(part.markdown()),
        }
    }
    let text = texts.join("\n\n").trim().to_owned() + "\n";
    match failure {
        Some(failure) if rows.is_empty() && text == "\n" => Err(failure.into()),
        _ if rows.is_empty() && (text == "\n" || sheet > 1) => Err(KnowledgeError::new(
            ErrorKind::InvalidInput,
            format!("it has no cells in a sheet {sheet}; omit offset to save the text of a document without sheets"),
        )),
        failure => {
            let count = if rows.is_empty() { text.lines().count() } else { rows.len() };
            let (text, columns) = if rows.is_empty() { (text, 0) } else { csv(&rows, max_bytes)? };
            let broken = failure.map(|failure| failure.sentence());
            Ok(DocumentExport { content, text, rows: count, columns, broken })
        }
    }
}

/// Writes rows, each with the column of its first cell. All rows get the same number of cells, which is also returned, so
/// that programs find each column.
fn csv(rows: &[(usize, &Row)], max_bytes: u64) -> Result<(String, usize), Failure> {
    let first = rows.iter().map(|(column, _)| *column).min().unwrap_or_default();
    let end = rows.iter().map(|(column, row)| column + row.cells.len()).max().unwrap_or_default();
    let size: usize = rows.iter().map(|(_, row)| row.size() + end - first).sum();
    fail_if(size as u64 > max_bytes, || Failure::too_large("its size as CSV", max_bytes))?;
    let mut text = String::with_capacity(size);
    for (column, row) in rows {
        text.extend(repeat_n(',', column - first));
        text.push_str(&row.cells.iter().map(|cell| field(cell)).collect::<Vec<_>>().join(","));
        text.extend(repeat_n(',', end - column - row.cells.len()));
        text.push('\n');
    }
    Ok((text, end - first))
}

/// Quotes a cell where necessary, as in RFC 4180.
fn field(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::knowledge::PartRange;

    use super::*;
    use crate::{CellRange, Part, ReadingLimit, ReadingLimits, Table};

    fn row(number: u32, cells: &[&str]) -> Row {
        Row { number, cells: cells.iter().map(|cell| (*cell).to_owned()).collect() }
    }

    fn sheet(number: u32, first_column: u32, header: Option<Row>, rows: Vec<Row>) -> Part {
        let range = Some(CellRange { first: (first_column, 1), last: (first_column, 9) });
        let place = DocumentPlace::Sheet { number, name: format!("S{number}"), range };
        Part { place, body: Body::Table(Table { first_column, header, rows }), notes: None, unread: None }
    }

    /// Exports parts up to `count` parts after `first`, with at most 100 bytes.
    fn exported(kind: Kind, first: u32, count: u32, parts: Vec<Part>) -> Result<DocumentExport, String> {
        let whole = ReadingLimit { parts: u32::MAX, letters: usize::MAX };
        let limits = ReadingLimits { pages: whole, sheets: whole, slides: whole, sections: whole };
        let mut reader = Reader::new(PartRange { first, count: Some(count), ..PartRange::default() }, limits);
        reader.head = Some(Head { kind, title: None, parts: Some(3) });
        let _last = parts.into_iter().find_map(|part| reader.take(part).is_break().then_some(()));
        export(&reader, None, 100).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_padded_and_the_header_is_written_once() {
        let header = Some(row(2, &["a,b", "n"]));
        let parts = vec![
            sheet(1, 0, None, vec![row(1, &["other"])]),
            sheet(2, 2, None, vec![row(1, &["title"])]),
            sheet(2, 2, header.clone(), vec![row(3, &["say \"hi\"", "1"])]),
            sheet(2, 1, header, vec![row(9, &["x", "two\nlines"])]),
            sheet(3, 0, None, vec![row(1, &["other"])]),
        ];
        let expected = ",title,\n,\"a,b\",n\n,\"say \"\"hi\"\"\",1\nx,\"two\nlines\",\n";
        // A workbook without the name of one is read with all of its sheets.
        for count in [1, u32::MAX] {
            let export = exported(Kind::Xlsx, 2, count, parts.clone()).unwrap();
            assert_eq!((export.text.as_str(), export.rows, export.columns), (expected, 4, 3));
            assert_eq!(export.content, "sheet S2");
        }
    }

    #[test]
    fn sparse_sheet_cannot_fill_the_disk() {
        let parts = [0, 90].map(|column| sheet(1, column, None, vec![row(column + 1, &["x"])]));
        let error = exported(Kind::Xlsx, 1, 1, parts.into()).unwrap_err();
        assert!(error.contains("its size as CSV"), "{error}");
    }

    #[test]
    fn text_is_exported_as_a_whole() {
        let pages = [(1, "one "), (1, "more"), (2, "two\n\n")];
        let pages = || pages.map(|(page, text)| Part::text(DocumentPlace::Page(page), text)).into();
        let export = exported(Kind::Pdf, 1, u32::MAX, pages()).unwrap();
        assert_eq!((export.text.as_str(), export.rows, export.columns), ("one more\n\ntwo\n", 3, 0));
        assert!(exported(Kind::Pdf, 2, u32::MAX, pages()).unwrap_err().contains("omit offset"));
        assert!(exported(Kind::Pdf, 1, 1, pages()).unwrap_err().contains("it is not a workbook"));
    }

    #[test]
    fn documents_without_content_are_refused() {
        let empty = || vec![sheet(1, 0, None, Vec::new()), sheet(2, 0, None, Vec::new())];
        for number in [1, 2, 4] {
            let error = exported(Kind::Ods, number, 1, empty()).unwrap_err();
            assert!(error.contains(&format!("no cells in a sheet {number};")), "{error}");
        }
        for kind in [Kind::Picture, Kind::Zip, Kind::Tar, Kind::Mbox] {
            let error = exported(kind, 1, u32::MAX, vec![Part::text(DocumentPlace::Whole, "text")]).unwrap_err();
            assert!(error.contains("it is a picture or a folder"), "{kind}: {error}");
        }
    }
}

//! Workbooks as displayed by spreadsheet programs. Cells are streamed if the format allows it, because a two-kilobyte
//! file can declare billions of cells.

use std::{borrow::Cow, io::Cursor, rc::Rc};

use calamine::{
    Ods, OdsError, Reader, SheetType, Xls, XlsError, Xlsb, XlsbError, Xlsx, XlsxError, XlsxFormulaMetadata,
};
use regex::bytes::{Captures, Regex};

use super::{
    Emitter, broken,
    cell::{self, MAX_UNREADABLE_CELLS, SheetFormats, display_text, is_unreadable},
    package::Package,
    sheet::{MergedCells, MergingSheet, Sheet, merged},
};
use crate::{Limits, failure::Failure, kind::Kind};

/// File content that is read several times.
pub(super) type Bytes = Cursor<Rc<[u8]>>;

pub(super) fn cursor(bytes: Vec<u8>) -> Bytes {
    Cursor::new(bytes.into())
}

pub(super) fn xlsx(bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let comments = (!emitter.wanted.values_only).then(|| cell::book_comments(&bytes, emitter.limits));
    let mut comments = comments.unwrap_or_default();
    let repaired_bytes = has_blanks(&bytes, emitter.limits).then(|| without_blanks(&bytes, emitter.limits)).flatten();
    let bytes = repaired_bytes.unwrap_or(bytes);
    let is_macro_sheet_error = |error: &XlsxError| matches!(error, XlsxError::Unrecognized { .. });
    let opened: Result<(_, Xlsx<Bytes>), _> = open_workbook(bytes, emitter.limits, is_macro_sheet_error);
    let (bytes, mut workbook) = opened.map_err(|error| xlsx_failure(&error))?;
    let names = workbook.sheet_names();
    emitter.head(None, Some(names.len()))?;
    comments.truncated.into_iter().for_each(|sheet| emitter.leave_out(sheet));
    let mut damage = None;
    let mut is_repaired = false;
    let mut has_merged = None;
    for (number, name) in (1..).zip(names) {
        if emitter.skip_sheet(number, &name)? {
            continue;
        }
        // Merged regions follow all cells in the file.
        let may_have_merged = *has_merged.get_or_insert_with(|| may_have_merged(bytes.get_ref(), emitter.limits));
        let regions = may_have_merged.then(|| workbook.merge_cells_by_sheet_name(&name).unwrap_or_default());
        let merged = merged(regions.unwrap_or_default());
        let mut sheet = MergingSheet::new(number, name.clone(), merged);
        sheet.comments = comments.sheets.remove(&name).unwrap_or_default();
        let mut last = None;
        let mut emitted = xlsx_sheet(&mut workbook, &name, &mut sheet, &mut last, !is_repaired, emitter)?;
        // Rows that have been read are retained. The rest is read again with repaired numbers.
        if !is_repaired
            && emitted.as_ref().is_err_and(is_unreadable)
            && let Some(repaired) = without_blanks(bytes.get_ref(), emitter.limits)
        {
            is_repaired = true;
            if let Ok(again) = Xlsx::new(cursor(repaired)) {
                workbook = again;
                emitted = xlsx_sheet(&mut workbook, &name, &mut sheet, &mut last, false, emitter)?;
            }
        }
        if !matches!(emitted, Err(XlsxError::NotAWorksheet(_))) {
            sheet.end(emitter)?;
        }
        match emitted {
            // The sheet is a chart, a dialog or a macro sheet.
            Err(XlsxError::NotAWorksheet(_)) | Ok(()) => {}
            // Continue with the other sheets.
            Err(error) => damage = damage.or(Some(xlsx_failure(&error))),
        }
    }
    damage.map_or(Ok(()), Err)
}

/// Opens a workbook, and also returns the bytes that could be opened. If `is_macro_sheet_error` matches the error, Excel 4
/// macro sheets are declared as dialogs, which have no cells either, so that the other sheets can be read.
fn open_workbook<R: Reader<Bytes>>(
    bytes: Vec<u8>,
    limits: &Limits,
    is_macro_sheet_error: impl Fn(&R::Error) -> bool,
) -> Result<(Bytes, R), R::Error> {
    let bytes = cursor(bytes);
    R::new(bytes.clone()).map(|workbook| (bytes.clone(), workbook)).or_else(|error| {
        let other = if is_macro_sheet_error(&error) { without_macros(&bytes, limits).map(cursor) } else { None };
        other.and_then(|other| Some((other.clone(), R::new(other).ok()?))).ok_or(error)
    })
}

/// Declares macro sheets as dialogs. Returns `None` if there are no macro sheets.
pub(super) fn without_macros(bytes: &Bytes, limits: &Limits) -> Option<Vec<u8>> {
    const NAMES: [(&str, &str); 3] = [
        ("/xlMacrosheet\"", "/dialogsheet\""),
        ("/xlIntlMacrosheet\"", "/dialogsheet\""),
        ("macrosheets/", "dialogsheets/"),
    ];
    let mut package = Package::open(bytes.get_ref().clone(), Kind::Xlsx, limits).ok()?;
    let is_list = |name: &String| name.ends_with("workbook.xml.rels") || name.ends_with("workbook.bin.rels");
    let list = package.names().into_iter().find(is_list)?;
    let text = package.text(&list).ok().flatten()?;
    let changed = NAMES.into_iter().fold(text.clone(), |text, (macros, dialog)| text.replace(macros, dialog));
    if changed == text { None } else { package.rewrite(&[(list, changed.into_bytes())]).ok() }
}

/// Returns true if values are surrounded by blanks, judged by the beginning of each sheet. The library misreads such
/// values.
fn has_blanks(bytes: &[u8], limits: &Limits) -> bool {
    const SAMPLE_BYTES: u64 = 64 * 1024;
    let Ok(mut package) = Package::open(bytes, Kind::Xlsx, limits) else { return false };
    let sheets: Vec<String> = package.names().into_iter().filter(|name| is_sheet(name)).collect();
    let has_blank = |start: &str| {
        start.split("<v>").skip(1).any(|value| {
            let value = value.split("</v>").next().unwrap_or_default();
            value != value.trim() && !value.contains('<')
        })
    };
    sheets.iter().any(|name| package.beginning(name, SAMPLE_BYTES).is_some_and(|start| has_blank(&start)))
}

/// Returns true if any sheet may have merged cells.
fn may_have_merged(bytes: &[u8], limits: &Limits) -> bool {
    // Large files that are not sheets. Any other file may be a sheet, regardless of its name.
    const NON_SHEET_PATHS: [&str; 4] = ["xl/sharedStrings.xml", "xl/styles.xml", "xl/media/", "xl/pivotCache/"];
    let Ok(mut package) = Package::open(bytes, Kind::Xlsx, limits) else { return true };
    package.may_have_tag("mergeCell", |name| NON_SHEET_PATHS.iter().any(|other| name.starts_with(other)))
}

fn is_sheet(name: &str) -> bool {
    name.replace('\\', "/").contains("worksheets/sheet")
}

/// Removes blanks around cell values, which some programs write. Returns `None` if nothing changes.
fn without_blanks(bytes: &[u8], limits: &Limits) -> Option<Vec<u8>> {
    let mut package = Package::open(bytes, Kind::Xlsx, limits).ok()?;
    let blank = regex::Regex::new(r"(<(?:\w+:)?v(?:\s[^>]*)?>)\s*([^<\s]+)\s*(</(?:\w+:)?v>)").ok()?;
    let mut changed = Vec::new();
    for name in package.names().into_iter().filter(|name| is_sheet(name)) {
        let text = package.text(&name).ok().flatten()?;
        if let std::borrow::Cow::Owned(text) = blank.replace_all(&text, "$1$2$3") {
            changed.push((name, text.into_bytes()));
        }
    }
    if changed.is_empty() { None } else { package.rewrite(&changed).ok() }
}

/// Reads the cells after `last`. Unreadable values are skipped, or end the sheet if `stops` is set.
fn xlsx_sheet(
    workbook: &mut Xlsx<Bytes>,
    name: &str,
    sheet: &mut MergingSheet,
    last: &mut Option<(u32, u32)>,
    stops: bool,
    emitter: &mut Emitter<'_>,
) -> Result<Result<(), XlsxError>, Failure> {
    let (row, max_cells) = emitter.wanted_cells(sheet.sheet.number);
    // Cells that were already emitted do not count again.
    let row = last.map_or(row, |(last, _)| row.max(last));
    let mut formats = SheetFormats::of(workbook, name, (row, max_cells));
    let mut cells = match workbook.worksheet_cells_reader(name) {
        Ok(cells) => cells,
        Err(error) => return Ok(Err(error)),
    };
    let mut unreadable: Option<XlsxError> = None;
    let mut times = 0;
    let declared = cells.dimensions();
    loop {
        if sheet.is_done(declared, emitter)? {
            return Ok(unreadable.map_or(Ok(()), Err));
        }
        // The call that expands shared formulas is avoided, because it trusts the declared number of formulas.
        match cells.next_cell_with_formula_metadata() {
            Ok(Some(cell)) => {
                let (row, column) = cell.pos;
                if last.is_some_and(|last| (row, column) <= last) {
                    continue;
                }
                *last = Some((row, column));
                let text =
                    display_text(&cell.value, formats.at(row, column)).or_else(|| cell.formula.and_then(formula));
                sheet.cell(row, column, text.unwrap_or_default(), emitter)?;
            }
            Ok(None) => return Ok(unreadable.map_or(Ok(()), Err)),
            // Skip a cell with an unreadable value.
            Err(error) if !stops && is_unreadable(&error) && times < MAX_UNREADABLE_CELLS => {
                times += 1;
                unreadable.get_or_insert(error);
            }
            // Cells before the damage are kept.
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Returns the text of a formula that has no computed value.
fn formula(formula: XlsxFormulaMetadata) -> Option<String> {
    match formula {
        XlsxFormulaMetadata::Normal { formula } | XlsxFormulaMetadata::Shared { formula, .. } => {
            Some(format!("={formula}"))
        }
        _ => None,
    }
}

/// Creates the failure for a locked or damaged workbook.
fn workbook_failure(kind: Kind, is_locked: bool, error: &impl ToString) -> Failure {
    if is_locked { Failure::Encrypted(kind) } else { broken(kind, &error.to_string()) }
}

fn xlsx_failure(error: &XlsxError) -> Failure {
    workbook_failure(Kind::Xlsx, matches!(error, XlsxError::Password), error)
}

/// Reads an Excel workbook before 2007. Sheets have at most 65,536 rows, so they cannot declare too many cells.
pub(super) fn xls(bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let failure = |error: XlsError| workbook_failure(Kind::Xls, matches!(error, XlsError::Password), &error);
    let workbook: Xls<Bytes> = Xls::new(cursor(bytes)).map_err(failure)?;
    let regions = |workbook: &Xls<Bytes>, name: &str| workbook.merge_cells_by_sheet_name(name).unwrap_or_default();
    ranges(workbook, |workbook, name| merged(regions(workbook, name)), failure, emitter)
}

/// Reads an OpenDocument workbook. The library limits the number of cells.
pub(super) fn ods(bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let failure = |error: OdsError| workbook_failure(Kind::Ods, matches!(error, OdsError::Password), &error);
    let workbook: Ods<Bytes> = Ods::new(cursor(bytes)).map_err(failure)?;
    ranges(workbook, |_, _| MergedCells::new(), failure, emitter)
}

/// Emits the sheets of a workbook that the library can only read as a whole.
fn ranges<R: Reader<Bytes>>(
    mut workbook: R,
    merged: impl Fn(&R, &str) -> MergedCells,
    failure: impl Fn(R::Error) -> Failure,
    emitter: &mut Emitter<'_>,
) -> Result<(), Failure> {
    let names = workbook.sheet_names();
    emitter.head(None, Some(names.len()))?;
    let mut damage = None;
    for (number, name) in (1..).zip(names) {
        if emitter.skip_sheet(number, &name)? {
            continue;
        }
        let merged = merged(&workbook, &name);
        // Continue with the other sheets.
        match workbook.worksheet_range(&name) {
            Ok(range) => {
                let (first_row, first_column) = range.start().unwrap_or_default();
                let at = |first: u32, offset: usize| first.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX));
                let mut sheet = MergingSheet::new(number, name, merged);
                for (row, column, value) in range.used_cells() {
                    let text = display_text(value, None).unwrap_or_default();
                    sheet.cell(at(first_row, row), at(first_column, column), text, emitter)?;
                }
                sheet.end(emitter)?;
            }
            Err(error) => {
                damage.get_or_insert(failure(error));
                Sheet::new(number, name).end(emitter)?;
            }
        }
    }
    damage.map_or(Ok(()), Err)
}

/// Reads a binary Excel workbook. Cells are streamed.
pub(super) fn xlsb(bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let failure = |error: &XlsbError| workbook_failure(Kind::Xlsb, matches!(error, XlsbError::Password), error);
    let is_macro_sheet_error = |error: &XlsbError| matches!(error, XlsbError::Unrecognized { .. });
    let opened: Result<(_, Xlsb<Bytes>), _> =
        open_workbook(convert_beta(bytes, emitter.limits), emitter.limits, is_macro_sheet_error);
    let (_, mut workbook) = opened.map_err(|error| failure(&error))?;
    let sheets = workbook.sheets_metadata().to_vec();
    emitter.head(None, Some(sheets.len()))?;
    let mut damage = None;
    for (number, calamine::Sheet { name, typ, .. }) in (1..).zip(sheets) {
        // Charts, dialogs and macro sheets have no cells.
        if emitter.skip_sheet(number, &name)? || typ != SheetType::WorkSheet {
            continue;
        }
        let mut cells = match workbook.worksheet_cells_reader(&name) {
            Ok(cells) => cells,
            Err(error) => {
                damage.get_or_insert(failure(&error));
                Sheet::new(number, name).end(emitter)?;
                continue;
            }
        };
        let mut sheet = MergingSheet::new(number, name, MergedCells::new());
        let declared = cells.dimensions();
        let whole = loop {
            if sheet.is_done(declared, emitter)? {
                break Ok(());
            }
            match cells.next_cell() {
                Ok(Some(cell)) => {
                    let (row, column) = cell.get_position();
                    sheet.cell(row, column, display_text(cell.get_value(), None).unwrap_or_default(), emitter)?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(failure(&error)),
            }
        };
        sheet.end(emitter)?;
        damage = damage.or(whole.err());
    }
    damage.map_or(Ok(()), Err)
}

/// Converts the sheet list in a workbook from a beta of Excel 2007 to the released form, the only form that the library
/// reads. Other workbooks are returned unchanged.
fn convert_beta(bytes: Vec<u8>, limits: &Limits) -> Vec<u8> {
    const WORKBOOK_PART: &str = "xl/workbook.bin";
    // Record of a sheet (`BrtBundleSh`, [MS-XLSB] 2.4.311): length, state, four zero bytes that Beta 2 writes and that
    // are not in the specification, number, and relation to the file.
    const SHEET_RECORD: &str = r"(?s-u)\x9C\x01([\x18-\x7F])(.{4})\x00{4}(.{4}.\x00{3}r\x00I\x00d\x00)";
    let converted = || {
        let mut package = Package::open(bytes.as_slice(), Kind::Xlsb, limits).ok()?;
        let list = package.bytes(WORKBOOK_PART).ok()??;
        let shorter = |found: &Captures<'_>| [&[0x9C, 0x01, found[1][0] - 4][..], &found[2], &found[3]].concat();
        match Regex::new(SHEET_RECORD).ok()?.replace_all(&list, shorter) {
            Cow::Borrowed(_) => None,
            Cow::Owned(released) => package.rewrite(&[(WORKBOOK_PART.to_owned(), released)]).ok(),
        }
    };
    converted().unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::{super::sheet::MAX_TRAILING_CELLS, *};
    use crate::{Body, DocumentPlace, Limits, Piece, frame::Window};

    /// Builds a workbook with one sheet from XML.
    fn workbook(sheet: &str) -> Vec<u8> {
        const MAIN_NAMESPACE: &str = r#"xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main""#;
        let book = include_bytes!("../../tests/fixtures/cached.xlsx");
        let package = Package::open(book.to_vec(), Kind::Xlsx, &Limits::default()).unwrap();
        // The second style is a percentage.
        let styles = format!(
            r#"<styleSheet {MAIN_NAMESPACE}><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="10"/></cellXfs></styleSheet>"#
        );
        let sheet = format!(r#"<worksheet {MAIN_NAMESPACE}>{sheet}</worksheet>"#);
        let parts = [("xl/styles.xml", styles), ("xl/worksheets/sheet1.xml", sheet)];
        package.rewrite(&parts.map(|(name, text)| (name.to_owned(), text.into_bytes()))).unwrap()
    }

    /// Returns the cells emitted from a row on, and the location of the whole sheet.
    fn emitted(workbook: Vec<u8>, row: u32, letters: usize) -> (Vec<String>, String) {
        let (mut cells, mut place) = (Vec::new(), None::<crate::Part>);
        let mut listener = |piece| {
            if let Piece::Part(part) = piece {
                if let Body::Table(table) = &part.body {
                    cells.extend(table.rows.iter().flat_map(|row| row.cells.clone()));
                }
                match &mut place {
                    Some(whole) => assert!(whole.join(part).is_none()),
                    None => place = Some(part),
                }
            }
            Ok(())
        };
        let limits = Limits::default();
        let mut emitter = Emitter::new(Kind::Xlsx, &limits, &mut listener);
        emitter.wanted.window = Some(Window { row, letters });
        xlsx(workbook, &mut emitter).unwrap();
        (cells, place.map(|part| part.place).unwrap_or(DocumentPlace::Whole).to_string())
    }

    fn rows(count: u32) -> String {
        let row = |row| format!(r#"<row r="{row}"><c r="A{row}"><v>{row}</v></c><c r="B{row}"><v>7</v></c></row>"#);
        format!("<sheetData>{}</sheetData>", (1..=count).map(row).collect::<String>())
    }

    #[test]
    fn very_large_sheet_is_read_up_to_the_wanted_rows() {
        let many = MAX_TRAILING_CELLS / 2 + 2000;
        let claimed = format!(r#"<dimension ref="A1:C900000"/>{}"#, rows(many));
        let (cells, place) = emitted(workbook(&claimed), 1, 20);
        assert_eq!((&cells[..4], cells.len() < 100), (&["1", "7", "2", "7"].map(str::to_owned)[..], true));
        assert_eq!(place, "Totals!A1:C900000", "the declared extent");
        // A window further down is read completely, and so is a sheet without a declared extent.
        for (sheet, row) in [(claimed, many - 3), (rows(many), 1)] {
            let (cells, place) = emitted(workbook(&sheet), row, 20);
            assert_eq!((cells[0].as_str(), place), (row.to_string().as_str(), format!("Totals!A1:B{many}")));
        }
    }

    #[test]
    fn wrong_sheet_dimension_is_corrected() {
        let sheet = format!(r#"<dimension ref="A1"/>{}"#, rows(3000));
        assert_eq!(emitted(workbook(&sheet), 1, 20).1, "Totals!A1:B3000");
        let sheet = format!(r#"<dimension ref="A1:XFD1048576"/>{}"#, rows(3000));
        assert_eq!(emitted(workbook(&sheet), 1, 20).1, "Totals!A1:B3000", "small sheets are read to their end");
    }

    /// Generates rows of empty cells with a style.
    fn styled_rows(from: u32, count: u32) -> String {
        let cells = |row| ["A", "B", "C", "D"].map(|column| format!(r#"<c r="{column}{row}" s="1"/>"#)).concat();
        (from..from + count).map(|row| format!(r#"<row r="{row}">{}</row>"#, cells(row))).collect()
    }

    #[test]
    fn styled_empty_cells_keep_later_formats() {
        let share = r#"<row r="900"><c r="A900" s="1"><v>0.125</v></c></row>"#;
        // Formulas with an empty result also count as empty.
        for empty in ["/>", r#" t="str"><f>1</f><v></v></c>"#] {
            let above = styled_rows(1, 800).replace("/>", empty);
            let sheet = format!("<sheetData>{above}{share}</sheetData>");
            for row in [1, 800, 900] {
                let emitted = emitted(workbook(&sheet), row, 1000).0;
                assert_eq!(emitted.last().map(String::as_str), Some("12.50%"), "{row} {empty}");
            }
        }
    }

    #[test]
    fn sheet_ends_at_its_last_text_not_its_last_style() {
        let rows = rows(50).replace("</sheetData>", "");
        let count = MAX_TRAILING_CELLS / 4 + 100;
        let sheet = format!(r#"<dimension ref="A1:D{}"/>{rows}{}</sheetData>"#, 50 + count, styled_rows(51, count));
        assert_eq!(emitted(workbook(&sheet), 1, 20).1, "Totals!A1:B50");
    }
}

//! Workbooks of Excel in its binary form.

use std::borrow::Cow;

use calamine::{Reader as _, SheetType, Xlsb, XlsbError};
use regex::bytes::{Captures, Regex};

use super::{
    Teller, broken,
    cell::shown,
    package::Package,
    sheet::{MergedCells, Merging},
    xlsx::{Bytes, cursor, lost, without_macros},
};
use crate::{Limits, failure::Failure, kind::Kind};

/// A workbook of Excel in its binary form. Cells come one by one.
pub(super) fn xlsb(bytes: Vec<u8>, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let failure = |error: &XlsbError| match error {
        XlsbError::Password => Failure::Encrypted(Kind::Xlsb),
        error => broken(Kind::Xlsb, &error.to_string()),
    };
    let bytes = cursor(as_released(bytes, teller.limits));
    let opened: Result<Xlsb<Bytes>, XlsbError> = match Xlsb::new(bytes.clone()) {
        Err(error @ XlsbError::Unrecognized { .. }) => match without_macros(&bytes, teller.limits) {
            Some(other) => Xlsb::new(cursor(other)),
            None => Err(error),
        },
        opened => opened,
    };
    let mut workbook = opened.map_err(|error| failure(&error))?;
    let sheets = workbook.sheets_metadata().to_vec();
    teller.head(None, Some(sheets.len()))?;
    let mut damage = None;
    for (number, calamine::Sheet { name, typ, .. }) in (1..).zip(sheets) {
        // Charts, dialogs and macros have no cells of their own.
        if teller.skips(number, &name)? || typ != SheetType::WorkSheet {
            continue;
        }
        let mut cells = match workbook.worksheet_cells_reader(&name) {
            Ok(cells) => cells,
            Err(error) => {
                lost(number, name, failure(&error), &mut damage, teller)?;
                continue;
            }
        };
        let mut sheet = Merging::new(number, name, MergedCells::new());
        let declared = cells.dimensions();
        let whole = loop {
            if sheet.is_done(declared, teller)? {
                break Ok(());
            }
            match cells.next_cell() {
                Ok(Some(cell)) => {
                    let (row, column) = cell.get_position();
                    sheet.cell(row, column, shown(cell.get_value(), None).unwrap_or_default(), teller)?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(failure(&error)),
            }
        };
        sheet.end(teller)?;
        damage = damage.or(whole.err());
    }
    damage.map_or(Ok(()), Err)
}

/// Converts the list of sheets of a workbook that a beta of Excel 2007 wrote to the form of its releases, which is all that the
/// library reads. Other workbooks stay as they are.
fn as_released(bytes: Vec<u8>, limits: &Limits) -> Vec<u8> {
    const LIST: &str = "xl/workbook.bin";
    // The record of a sheet (`BrtBundleSh`, [MS-XLSB] 2.4.311): its length, its state, four zeros that Beta 2 writes and the
    // specification does not have, its number, and the relation that names its file.
    const SHEET: &str = r"(?s-u)\x9C\x01([\x18-\x7F])(.{4})\x00{4}(.{4}.\x00{3}r\x00I\x00d\x00)";
    let converted = || {
        let mut package = Package::open(bytes.as_slice(), Kind::Xlsb, limits).ok()?;
        let list = package.bytes(LIST).ok()??;
        let shorter = |found: &Captures<'_>| [&[0x9C, 0x01, found[1][0] - 4][..], &found[2], &found[3]].concat();
        match Regex::new(SHEET).ok()?.replace_all(&list, shorter) {
            Cow::Borrowed(_) => None,
            Cow::Owned(released) => package.rewritten(&[(LIST.to_owned(), released)]).ok(),
        }
    };
    converted().unwrap_or(bytes)
}

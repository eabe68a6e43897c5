//! Shown text of a cell, which is not always what it holds.

use std::io::{Read, Seek};

use calamine::{Cell, DataRef, DataType, ExcelDateTime, Style, Xlsx, XlsxCellReader, XlsxError};

use super::number::{self, NumberFormat};

/// Styles of a workbook that are looked at. Excel takes fewer.
const MOST_STYLES: usize = 65_536;
/// Cells of a sheet whose formats are known. The numbers of others are shown as if they had none.
const MOST_CELLS: usize = 2_000_000;

/// Cells of a sheet that may be unreadable before it is left.
pub(super) const UNREADABLE: u32 = 1000;

/// Formats of the numbers of a sheet, cell by cell.
#[derive(Debug, Default)]
pub(super) struct SheetFormats {
    formats: Vec<Option<NumberFormat>>,
    /// Row, column and style, in the order of the sheet.
    cells: Vec<(u32, u32, u32)>,
    /// The next of them.
    next: usize,
}

impl SheetFormats {
    /// Those of a sheet: the call that tells formulas tells no styles. A workbook without a format of its own is not read once more, and no
    /// more of a sheet than as many cells that hold something as can be told from a row on, counted from 0.
    pub(super) fn of<RS: Read + Seek>(workbook: &mut Xlsx<RS>, name: &str, (row, most): (u32, usize)) -> Self {
        // Whoever reads the cells says what is wrong with them.
        let Ok(mut reader) = workbook.worksheet_cells_reader(name) else { return Self::default() };
        let format = |style: &Style| NumberFormat::parse(&style.number_format.as_ref()?.format_code);
        let formats: Vec<_> = reader.styles().iter().take(MOST_STYLES).map(format).collect();
        let has_formats = formats.iter().any(Option::is_some);
        let (mut cells, mut wanted, mut times) = (Vec::new(), 0, 0);
        while has_formats && cells.len() < MOST_CELLS && wanted <= most {
            let cell = match StyledCell::next(&mut reader, most < usize::MAX) {
                Ok(Some(cell)) => cell,
                Err(error) if is_unreadable(&error) && times < UNREADABLE => {
                    times += 1;
                    continue;
                }
                Ok(None) | Err(_) => break,
            };
            wanted += usize::from(cell.row >= row && cell.holds_something);
            if formats.get(cell.style).is_some_and(Option::is_some) {
                cells.extend(u32::try_from(cell.style).ok().map(|style| (cell.row, cell.column, style)));
            }
        }
        Self { formats, cells, next: 0 }
    }

    /// Format of a cell. Cells are asked for in the order of the sheet.
    pub(super) fn at(&mut self, row: u32, column: u32) -> Option<&NumberFormat> {
        let before = |cell: &&(u32, u32, u32)| (cell.0, cell.1) < (row, column);
        self.next += self.cells.get(self.next..).unwrap_or_default().iter().take_while(before).count();
        let (.., style) = self.cells.get(self.next).filter(|cell| (cell.0, cell.1) == (row, column))?;
        self.next += 1;
        self.formats.get(usize::try_from(*style).ok()?)?.as_ref()
    }
}

/// A cell that may have a style.
struct StyledCell {
    row: u32,
    column: u32,
    style: usize,
    /// Known if it was looked into.
    holds_something: bool,
}

impl StyledCell {
    fn next<RS: Read + Seek>(reader: &mut XlsxCellReader<'_, RS>, looks_into: bool) -> Result<Option<Self>, XlsxError> {
        if !looks_into {
            let of = |(row, column, style)| Self { row, column, style, holds_something: false };
            return Ok(reader.next_style_id()?.map(of));
        }
        let of = |(cell, style): (Cell<DataRef<'_>>, usize)| {
            let (row, column) = cell.get_position();
            let value = cell.get_value();
            // Formulas often tell an empty text, which is not told.
            let holds_something = value.get_string().map_or(!value.is_empty(), |text| !text.trim().is_empty());
            Self { row, column, style, holds_something }
        };
        Ok(reader.next_cell_with_style_id()?.map(of))
    }
}

/// Returns whether only this one cell cannot be read.
pub(super) const fn is_unreadable(error: &XlsxError) -> bool {
    matches!(error, XlsxError::ParseFloat(_) | XlsxError::ParseInt(_) | XlsxError::CellError(_))
}

/// Shown text of a cell; none where it is empty.
pub(super) fn shown(value: &impl DataType, format: Option<&NumberFormat>) -> Option<String> {
    if let Some(date) = value.get_datetime() {
        return Some(date_shown(date));
    }
    if let Some(error) = value.get_error() {
        return Some(error.to_string());
    }
    // Those of the other forms: text, numbers, truth, and dates that are written out.
    let text = value.get_string().map(str::to_owned);
    let text =
        text.or_else(|| value.get_datetime_iso().or_else(|| value.get_duration_iso()).map(|iso| iso.replace('T', " ")));
    let text = text.or_else(|| {
        #[expect(clippy::cast_precision_loss, reason = "spreadsheets keep fewer digits")]
        let whole = |number: i64| format.map_or_else(|| number.to_string(), |format| format.shown(number as f64));
        value.get_int().map(whole)
    });
    let text = text.or_else(|| {
        value.get_float().map(|number| format.map_or_else(|| number::general(number), |format| format.shown(number)))
    });
    text.or_else(|| value.get_bool().map(|truth| if truth { "TRUE" } else { "FALSE" }.to_owned()))
}

/// `2024-03-05`, `2024-03-05 14:30`, `14:30:15`, and hours for a span of time.
fn date_shown(date: ExcelDateTime) -> String {
    const DAY_SECONDS: f64 = 86_400.0;
    let value = date.as_f64();
    // There are no days before the first one; spreadsheets show them as so much time before it, or not at all.
    if date.is_duration() || value < 0.0 {
        let seconds = value * DAY_SECONDS;
        let sign = if seconds < 0.0 { "-" } else { "" };
        // A span of more seconds than fit is shown as the longest one.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float is cut to what fits")]
        let seconds = seconds.abs().round() as u64;
        return format!("{sign}{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = date.to_ymd_hms_milli();
    let time = match (hour, minute, second) {
        (0, 0, 0) if value >= 1.0 => String::new(),
        (hour, minute, 0) => format!("{hour:02}:{minute:02}"),
        (hour, minute, second) => format!("{hour:02}:{minute:02}:{second:02}"),
    };
    // Before the first day there is only the time of day.
    let day = if value < 1.0 { String::new() } else { format!("{year:04}-{month:02}-{day:02}") };
    format!("{day}{}{time}", if day.is_empty() || time.is_empty() { "" } else { " " })
}

#[cfg(test)]
mod tests {
    use calamine::{Data, ExcelDateTimeType};

    use super::*;

    #[test]
    fn dates_read_as_dates() {
        let check = |value: f64, kind: ExcelDateTimeType, expected: &str| {
            assert_eq!(date_shown(ExcelDateTime::new(value, kind, false)), expected);
        };
        check(45_943.0, ExcelDateTimeType::DateTime, "2025-10-13");
        check(45_943.5, ExcelDateTimeType::DateTime, "2025-10-13 12:00");
        check(0.604_340_277_8, ExcelDateTimeType::DateTime, "14:30:15");
        check(1.25, ExcelDateTimeType::TimeDelta, "30:00:00");
        check(f64::MAX, ExcelDateTimeType::DateTime, "9999-12-31");
        check(f64::NAN, ExcelDateTimeType::TimeDelta, "0:00:00");
        check(-0.5, ExcelDateTimeType::DateTime, "-12:00:00");
        check(-2.25, ExcelDateTimeType::DateTime, "-54:00:00");
    }

    #[test]
    fn cells_show_what_people_see() {
        assert_eq!(shown(&DataRef::Float(3.0), None).as_deref(), Some("3"));
        assert_eq!(shown(&DataRef::Float(0.1 + 0.2), None).as_deref(), Some("0.3"));
        let percent = NumberFormat::parse("0.0%");
        assert_eq!(shown(&DataRef::Float(0.125), percent.as_ref()).as_deref(), Some("12.5%"));
        assert_eq!(shown(&DataRef::Int(2), percent.as_ref()).as_deref(), Some("200.0%"));
        assert_eq!(shown(&Data::Bool(true), None).as_deref(), Some("TRUE"));
        assert_eq!(
            shown(&Data::DateTimeIso("2024-03-05T14:30:00".to_owned()), None).as_deref(),
            Some("2024-03-05 14:30:00")
        );
        assert_eq!(shown(&Data::Empty, None), None);
    }
}

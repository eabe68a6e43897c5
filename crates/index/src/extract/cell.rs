//! Shown text of a cell, which is not always what it holds: numbers have the decimals, thousands, percent and currency signs of their
//! format.

use std::io::{Read, Seek};

use calamine::{Cell, DataRef, DataType, ExcelDateTime, Style, Xlsx, XlsxCellReader, XlsxError};

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
        value.get_float().map(|number| format.map_or_else(|| general(number), |format| format.shown(number)))
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

/// Significant digits of a number that a spreadsheet keeps. Further ones come from binary arithmetic.
const KEPT: i32 = 15;
/// Significant digits of a number without a format that are shown where it has a fraction.
const SHOWN: i32 = 11;
/// Limit above which not every whole number can be distinguished from the next one.
const WHOLE: f64 = 9_007_199_254_740_992.0;
/// Limit of a number from which on it is shown with a power of ten, whatever its format.
const LARGE: f64 = 1e15;
/// Digits that a format can ask for.
const MOST_DIGITS: usize = 40;
/// Bytes of a format; Excel takes as many letters.
const LONGEST: usize = 1024;

/// A number without a format: whole ones to the last digit, fractions with eleven digits at the most.
pub(super) fn general(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < WHOLE {
        // Adding zero makes a negative zero positive.
        return format!("{:.0}", value + 0.0);
    }
    if !value.is_finite() {
        return value.to_string();
    }
    let written = format!("{:.10e}", kept(value).0);
    let Some((mantissa, exponent)) = written.split_once('e') else { return value.to_string() };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-9..KEPT).contains(&exponent) {
        return format!("{}E{exponent:+03}", without_zeros(mantissa));
    }
    // Of a large one with a fraction, such as an amount of money, two decimals are shown nevertheless.
    without_zeros(&rounded(value, usize::try_from(SHOWN - 1 - exponent).unwrap_or_default().max(2))).to_owned()
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// The number with as many digits as spreadsheets keep, and its power of ten. It is away from zero by less than one of
/// them, so that halves round up.
fn kept(value: f64) -> (f64, i32) {
    let written = format!("{value:.14e}");
    let exponent = written.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or_default();
    let kept = written.parse::<f64>().unwrap_or(value) * (1.0 + f64::EPSILON);
    (kept.clamp(f64::MIN, f64::MAX), exponent)
}

fn rounded(value: f64, decimals: usize) -> String {
    let (kept, exponent) = kept(value);
    let known = usize::try_from(KEPT - 1 - exponent).unwrap_or_default().min(decimals);
    let point = if known == 0 && decimals > 0 { "." } else { "" };
    format!("{kept:.known$}{point}{}", "0".repeat(decimals - known))
}

/// Format of the numbers of a cell: digits with text around them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NumberFormat {
    before: String,
    after: String,
    least_whole: usize,
    least_decimals: usize,
    decimals: usize,
    has_groups: bool,
    is_percent: bool,
    /// Numbers that are not positive have a form without the text of this one.
    is_for_positive: bool,
}

impl NumberFormat {
    /// Reads the code of a format: of its forms the first one. `None` for codes that are more than digits, thousands,
    /// decimals, a percent sign and text around them: their numbers are shown as without a format.
    pub(super) fn parse(code: &str) -> Option<Self> {
        if code.len() > LONGEST {
            return None;
        }
        let (mut format, mut digits) = (Self::default(), String::new());
        let mut letters = code.chars();
        while let Some(letter) = letters.next() {
            let text: String = match letter {
                ';' => {
                    let is_in_others = |text: &str| letters.as_str().contains(text.trim());
                    format.is_for_positive = !is_in_others(&format.before) || !is_in_others(&format.after);
                    break;
                }
                '0' | '#' | ',' | '.' if format.after.is_empty() => {
                    digits.push(letter);
                    continue;
                }
                '"' => letters.by_ref().take_while(|letter| *letter != '"').collect(),
                '\\' => letters.next().into_iter().collect(),
                // As much room as a letter takes, or as is left.
                '_' | '*' => letters.next().map(|_| String::new())?,
                // A currency and its country; colours and conditions are not understood.
                '[' => {
                    let inside: String = letters.by_ref().take_while(|letter| *letter != ']').collect();
                    inside.strip_prefix('$')?.split('-').next()?.to_owned()
                }
                '%' if !std::mem::replace(&mut format.is_percent, true) => "%".to_owned(),
                '%' | '?' | '@' | '/' | '#' | ',' | '.' => return None,
                letter if letter.is_ascii_alphanumeric() => return None,
                letter => letter.to_string(),
            };
            if digits.is_empty() { format.before += &text } else { format.after += &text }
        }
        format.with_digits(&digits)
    }

    fn with_digits(mut self, digits: &str) -> Option<Self> {
        let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
        // Commas at either end scale the number.
        let is_plain = !whole.starts_with(',') && !whole.ends_with(',') && !decimals.contains([',', '.']);
        if !is_plain || whole.is_empty() || digits.len() > MOST_DIGITS {
            return None;
        }
        self.has_groups = whole.contains(',');
        self.least_whole = whole.matches('0').count();
        self.decimals = decimals.len();
        self.least_decimals = decimals.rfind('0').map_or(0, |at| at + 1);
        Some(self)
    }

    /// A number as it is shown.
    pub(super) fn shown(&self, value: f64) -> String {
        let scaled = if self.is_percent { value * 100.0 } else { value };
        if !scaled.is_finite() || scaled.abs() >= LARGE || (self.is_for_positive && value <= 0.0) {
            return general(value);
        }
        let number = rounded(scaled.abs(), self.decimals);
        let (whole, decimals) = number.split_once('.').unwrap_or((&number, ""));
        let whole = format!("{whole:0>least$}", least = self.least_whole);
        let more = decimals.get(self.least_decimals..).unwrap_or_default().trim_end_matches('0').len();
        let decimals = &decimals[..decimals.len().min(self.least_decimals + more)];
        let sign = if value < 0.0 && number.contains(|digit| ('1'..='9').contains(&digit)) { "-" } else { "" };
        let point = if decimals.is_empty() { "" } else { "." };
        let whole = if self.has_groups { grouped(&whole) } else { whole };
        format!("{sign}{}{whole}{point}{decimals}{}", self.before, self.after).trim().to_owned()
    }
}

/// Digits in groups of thousands.
fn grouped(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
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

#[cfg(test)]
mod number_tests {
    use proptest::{prelude::any, proptest};

    use super::*;

    #[test]
    fn numbers_without_a_format_have_no_digits_of_chance() {
        let cases = [
            (0.1 + 0.2, "0.3"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (0.0, "0"),
            (-0.0, "0"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.33333333333"),
            (std::f64::consts::PI, "3.1415926536"),
            // Numbers of books and telephones are whole, and so they stay.
            (9_783_161_484_100.0, "9783161484100"),
            (1_234_567_890_123_456.0, "1234567890123456"),
            (123_456_789_012.34, "123456789012.34"),
            (1_234_567.891_234_5, "1234567.8912"),
            (0.000_012_345, "0.000012345"),
            (9.999_999_999_999, "10"),
            (1e300, "1E+300"),
            (1.5e-20, "1.5E-20"),
            (-1.25e18, "-1.25E+18"),
            (f64::INFINITY, "inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(general(value), expected);
        }
    }

    #[test]
    fn a_format_shows_a_number_as_people_see_it() {
        let cases = [
            ("0%", 0.125, "13%"),
            ("0.0%", 0.125, "12.5%"),
            ("0.##%", 0.07, "7%"),
            ("0%;[Red]\\(0%\\)", -0.07, "-7%"),
            ("0.00", 1.005, "1.01"),
            ("0.00", 8.574_999_999_999_998, "8.58"),
            ("0.00", -0.001, "0.00"),
            ("0.00", 2.0, "2.00"),
            ("0", 1234.5, "1235"),
            ("#,##0", 1_234_567.4, "1,234,567"),
            ("#,##0.00", -1234.5, "-1,234.50"),
            ("#,##0.00", 12.0, "12.00"),
            ("0.0##", 1.5, "1.5"),
            ("#.##", 0.25, "0.25"),
            ("#", 0.0, "0"),
            ("000", 7.0, "007"),
            ("0.00", 1e18, "1E+18"),
            ("0.00", 123_456_789_012_345.67, "123456789012346.00"),
            ("0.00000000000000000000", 0.1, "0.10000000000000000000"),
            ("0.00000000000000", 9.876_543_210_987_65, "9.87654321098765"),
            ("\"$\"#,##0.00", 1234.5, "$1,234.50"),
            ("\"$\"#,##0_);[Red](\"$\"#,##0)", -1234.0, "-$1,234"),
            ("[$€-407]#,##0.00", 5.0, "€5.00"),
            ("#,##0.00 [$€-407]", 5.0, "5.00 €"),
            ("0.00\" kg\"", 2.5, "2.50 kg"),
            ("_(* #,##0.00_);_(* (#,##0.00);_(* \"-\"??_);_(@_)", -3.0, "-3.00"),
            ("_(* #,##0.00_);_(* (#,##0.00);_(* \"-\"??_);_(@_)", 0.0, "0.00"),
            // The text of positive numbers is not said of others.
            ("\"gain \"0;\"loss \"0", 5.4, "gain 5"),
            ("\"gain \"0;\"loss \"0", -5.4, "-5.4"),
            ("0%;-0", -0.5, "-0.5"),
            ("#,##0 \"kr\";[Red]-#,##0 \"kr\"", -5000.0, "-5,000 kr"),
            ("0\" left\";-0;\"none\"", 0.0, "0"),
        ];
        for (code, value, expected) in cases {
            let format = NumberFormat::parse(code).unwrap_or_else(|| panic!("{code}"));
            assert_eq!(format.shown(value), expected, "{code} of {value}");
        }
    }

    #[test]
    fn a_format_that_is_not_understood_shows_the_plain_number() {
        let codes = "General|@|# ?/?|yyyy-mm-dd|[h]:mm|[>100]0;0.0|[Red]0.00|000-00-0000|[DBNum1]0|##0.0E+0|0.00E+00|0.0,,\" M\"|0,.0|\
            0%%|0.0.0|[$|;;;|\"text\"|General\" pieces\"|.00|_";
        for code in codes.split('|') {
            assert_eq!(NumberFormat::parse(code), None, "{code}");
        }
    }

    proptest! {
        #[test]
        fn no_format_and_no_number_is_too_much(code in "[0#?.,%Ee+;_*\\[\\]\"$ a€\\\\-]{0,24}", value in any::<f64>()) {
            let general = general(value);
            assert!(general.len() < 40 && !general.is_empty(), "{general}");
            if let Some(format) = NumberFormat::parse(&code) {
                assert!(!format.shown(value).is_empty());
            }
        }
    }
}

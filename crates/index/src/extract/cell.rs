//! Displayed text of cells: dates, percentages, and numbers without artefacts of binary arithmetic. Also reads the
//! comments in a workbook.

use std::{
    collections::{BTreeMap, HashMap},
    io::{Read, Seek},
};

use calamine::{DataType, ExcelDateTime, Style, Xlsx, XlsxError};

use super::{
    clean,
    package::{self, Node, Package},
    recognise::contains,
};
use crate::{
    failure::{Failure, Limits},
    kind::Kind,
};

/// Maximum number of styles in a workbook. Excel allows fewer.
const MAX_STYLES: usize = 65_536;
/// Maximum number of percentage cells per sheet. Further cells are shown as plain numbers.
const MAX_PERCENT_CELLS: usize = 2_000_000;

/// Number of unreadable cells after which a sheet is abandoned.
pub(super) const MAX_UNREADABLE_CELLS: u32 = 1000;

/// Cells of a sheet that display percentages.
#[derive(Debug, Default)]
pub(super) struct SheetFormats {
    /// Row, column and decimals, in sheet order.
    cells: Vec<(u32, u32, usize)>,
    /// Index of the next cell.
    next: usize,
}

impl SheetFormats {
    /// Reads the percentage cells of a sheet in a separate pass, because the call that returns formulas returns no
    /// styles. Skips the pass if the workbook has no percentages. Stops after `most` non-empty cells from the
    /// zero-based `row` on, since no more can be emitted.
    pub(super) fn of<RS: Read + Seek>(workbook: &mut Xlsx<RS>, name: &str, (row, most): (u32, usize)) -> Self {
        let mut found = Self::default();
        // Errors are reported when the cells are read.
        let Ok(mut reader) = workbook.worksheet_cells_reader(name) else { return found };
        let decimals = |style: &Style| percent_decimals(&style.number_format.as_ref()?.format_code);
        let formats: Vec<Option<usize>> = reader.styles().iter().take(MAX_STYLES).map(decimals).collect();
        let has_formats = formats.iter().any(Option::is_some);
        let (mut wanted, mut times) = (0, 0);
        while has_formats && found.cells.len() < MAX_PERCENT_CELLS && wanted <= most {
            let (cell, style) = match reader.next_cell_with_style_id() {
                Ok(Some(found)) => found,
                Err(error) if is_unreadable(&error) && times < MAX_UNREADABLE_CELLS => {
                    times += 1;
                    continue;
                }
                Ok(None) | Err(_) => break,
            };
            let ((own_row, column), value) = (cell.get_position(), cell.get_value());
            // Formulas often have an empty result, which is not emitted.
            let has_content = value.get_string().map_or(!value.is_empty(), |text| !text.trim().is_empty());
            wanted += usize::from(own_row >= row && has_content);
            found.cells.extend(formats.get(style).copied().flatten().map(|decimals| (own_row, column, decimals)));
        }
        found
    }

    /// Returns the number of decimals if the cell displays a percentage. Must be called in sheet order.
    pub(super) fn at(&mut self, row: u32, column: u32) -> Option<usize> {
        let before = |cell: &&(u32, u32, usize)| (cell.0, cell.1) < (row, column);
        self.next += self.cells.get(self.next..).unwrap_or_default().iter().take_while(before).count();
        let (.., decimals) = self.cells.get(self.next).filter(|cell| (cell.0, cell.1) == (row, column))?;
        self.next += 1;
        Some(*decimals)
    }
}

/// Returns true if the error affects only this cell.
pub(super) const fn is_unreadable(error: &XlsxError) -> bool {
    matches!(error, XlsxError::ParseFloat(_) | XlsxError::ParseInt(_) | XlsxError::CellError(_))
}

/// Returns the displayed text of a cell, or `None` if the cell is empty. With `decimals`, a number is shown as a
/// percentage.
pub(super) fn display_text(value: &impl DataType, decimals: Option<usize>) -> Option<String> {
    if let Some(date) = value.get_datetime() {
        return Some(display_date(date));
    }
    // Errors, text, ISO dates, numbers and booleans.
    let text = value.get_error().map(ToString::to_string).or_else(|| value.get_string().map(str::to_owned));
    let text =
        text.or_else(|| value.get_datetime_iso().or_else(|| value.get_duration_iso()).map(|iso| iso.replace('T', " ")));
    let text = text.or_else(|| match (value.get_int(), decimals) {
        (Some(whole), None) => Some(whole.to_string()),
        (whole, _) => {
            let number = whole.map(|whole| whole as f64).or_else(|| value.get_float())?;
            Some(decimals.map_or_else(|| general(number), |decimals| percentage(number, decimals)))
        }
    });
    text.or_else(|| value.get_bool().map(|boolean| if boolean { "TRUE" } else { "FALSE" }.to_owned()))
}

/// Formats `2024-03-05`, `2024-03-05 14:30` or `14:30:15`. Durations are in hours.
fn display_date(date: ExcelDateTime) -> String {
    const DAY_SECONDS: f64 = 86_400.0;
    let value = date.as_f64();
    // There is no day before the first one. Spreadsheets show negative values as durations or not at all.
    if date.is_duration() || value < 0.0 {
        let seconds = value * DAY_SECONDS;
        let sign = if seconds < 0.0 { "-" } else { "" };
        // The conversion saturates at the largest duration.
        let seconds = seconds.abs().round() as u64;
        return format!("{sign}{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = date.to_ymd_hms_milli();
    let time = match (hour, minute, second) {
        (0, 0, 0) if value >= 1.0 => String::new(),
        (hour, minute, 0) => format!("{hour:02}:{minute:02}"),
        (hour, minute, second) => format!("{hour:02}:{minute:02}:{second:02}"),
    };
    // Before the first day, there is only a time of day.
    let day = if value < 1.0 { String::new() } else { format!("{year:04}-{month:02}-{day:02}") };
    format!("{day}{}{time}", if day.is_empty() || time.is_empty() { "" } else { " " })
}

/// Number of significant digits that spreadsheets store. Further digits are artefacts of binary arithmetic.
const STORED_DIGITS: i32 = 15;
/// Number of significant digits shown for a fraction without a format.
const SHOWN_DIGITS: i32 = 11;
/// Limit above which integers are no longer exact.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
/// Limit above which numbers are shown with an exponent in any format.
const MAX_PLAIN: f64 = 1e15;
/// Maximum number of decimals in a format.
const MAX_DECIMALS: usize = 30;

/// Formats a number without a format: integers exactly, fractions with at most eleven digits.
pub(super) fn general(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < MAX_EXACT_INTEGER {
        // Adding zero turns negative zero into zero.
        return format!("{:.0}", value + 0.0);
    }
    if !value.is_finite() {
        return value.to_string();
    }
    let written = format!("{:.10e}", round_to_stored_digits(value).0);
    let Some((mantissa, exponent)) = written.split_once('e') else { return value.to_string() };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-9..STORED_DIGITS).contains(&exponent) {
        return format!("{}E{exponent:+03}", without_zeros(mantissa));
    }
    // Large numbers with a fraction, such as amounts of money, retain two decimals.
    without_zeros(&rounded(value, usize::try_from(SHOWN_DIGITS - 1 - exponent).unwrap_or_default().max(2))).to_owned()
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Returns the number rounded to the stored digits, and its exponent. The number is moved away from zero by less than
/// one digit, so that halves round up.
fn round_to_stored_digits(value: f64) -> (f64, i32) {
    let written = format!("{value:.14e}");
    let exponent = written.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or_default();
    let rounded_value = written.parse::<f64>().unwrap_or(value) * (1.0 + f64::EPSILON);
    (rounded_value.clamp(f64::MIN, f64::MAX), exponent)
}

fn rounded(value: f64, decimals: usize) -> String {
    let (rounded_value, exponent) = round_to_stored_digits(value);
    let known = usize::try_from(STORED_DIGITS - 1 - exponent).unwrap_or_default().min(decimals);
    let point = if known == 0 && decimals > 0 { "." } else { "" };
    format!("{rounded_value:.known$}{point}{}", "0".repeat(decimals - known))
}

/// Returns the decimals of a percentage format for positive numbers. `None` for other formats.
fn percent_decimals(code: &str) -> Option<usize> {
    let digits = code.split(';').next()?.strip_suffix('%')?.trim_end_matches([' ', '\u{a0}', '\\']);
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain = !whole.is_empty()
        && whole.trim_matches(['0', '#', ',']).is_empty()
        && decimals.trim_matches(['0', '#']).is_empty();
    Some(decimals.len()).filter(|decimals| is_plain && *decimals <= MAX_DECIMALS)
}

fn percentage(value: f64, decimals: usize) -> String {
    let hundredths = value * 100.0;
    if !hundredths.is_finite() || hundredths.abs() >= MAX_PLAIN {
        return general(value);
    }
    let number = rounded(hundredths.abs(), decimals);
    let sign = if value < 0.0 && number.contains(|digit: char| matches!(digit, '1'..='9')) { "-" } else { "" };
    format!("{sign}{number}%")
}

/// Comments of a sheet by row and column, both starting at 0.
pub(super) type Comments = BTreeMap<(u32, u32), String>;

/// Comments of a workbook.
#[derive(Debug, Default)]
pub(super) struct BookComments {
    pub(super) sheets: HashMap<String, Comments>,
    /// Sheets with truncated comments, each with a reason.
    pub(super) truncated: Vec<String>,
}

/// Maximum number of comments per sheet.
const MAX_COMMENTS: usize = 100_000;
/// Maximum length of a comment in bytes, about as long as a cell.
const MAX_COMMENT_BYTES: usize = 32 * 1024;

/// Reads the comments of all sheets. Damage is ignored, as it is reported when the cells are read.
pub(super) fn book_comments(bytes: &[u8], limits: &Limits) -> BookComments {
    if !contains(bytes, b"comments") {
        return BookComments::default();
    }
    Package::open(bytes, Kind::Xlsx, limits).and_then(|mut package| found(&mut package)).unwrap_or_default()
}

fn found(package: &mut Package<&[u8]>) -> Result<BookComments, Failure> {
    let mut all = BookComments::default();
    let Some(book) = tree(package, "xl/workbook.xml")? else { return Ok(all) };
    let sheets = relationships(package, "xl/workbook.xml")?;
    let named = book.all("sheet");
    for sheet in named {
        let (Some(name), Some(id)) = (sheet.attribute("name"), sheet.attribute("id")) else { continue };
        let Some((_, _, path)) = sheets.iter().find(|(own, ..)| own == id) else { continue };
        let related = relationships(package, path)?;
        let Some((_, _, path)) = related.iter().find(|(_, kind, _)| kind.ends_with("/comments")) else { continue };
        if let Some(parsed) = tree(package, path)? {
            let (comments, truncated) = comments(&parsed);
            all.truncated.extend(truncated.map(|reason| format!("sheet {name} has {reason}")));
            all.sheets.insert(name.to_owned(), comments);
        }
    }
    Ok(all)
}

fn tree(package: &mut Package<&[u8]>, path: &str) -> Result<Option<Node>, Failure> {
    Ok(package.text(path)?.and_then(|text| package::parse(&text).ok()))
}

/// Returns the files that a file references, each with ID, type and path.
fn relationships(package: &mut Package<&[u8]>, path: &str) -> Result<Vec<(String, String, String)>, Failure> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some(list) = tree(package, &format!("{folder}/_rels/{name}.rels"))? else { return Ok(Vec::new()) };
    let found = list.all("Relationship");
    let of = |node: &&Node| {
        let target = node.attribute("Target")?;
        let path = package::resolve_target(if target.starts_with('/') { "" } else { folder }, target);
        Some((node.attribute("Id")?.to_owned(), node.attribute("Type")?.to_owned(), path))
    };
    Ok(found.iter().filter_map(of).collect())
}

/// Returns the comments of a sheet, and a description of what was truncated.
fn comments(parsed: &Node) -> (Comments, Option<String>) {
    let mut is_long = false;
    let authors = parsed.all("author");
    let list = parsed.all("comment");
    let mut of = |comment: &&Node| {
        let place = place(comment.attribute("ref")?)?;
        let by: Option<usize> = comment.attribute("authorId").and_then(|id| id.parse().ok());
        let by = by.and_then(|by| authors.get(by)).map(|by| by.text()).unwrap_or_default();
        let text = comment.node("text").map(Node::text).unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Many programs repeat the author in the comment.
        let text = text.strip_prefix(by.trim()).map(|rest| rest.trim_start_matches([':', ' '])).unwrap_or(&text);
        is_long |= text.len() > MAX_COMMENT_BYTES;
        let text = text.get(..text.floor_char_boundary(MAX_COMMENT_BYTES)).unwrap_or_default();
        let by = if by.trim().is_empty() { String::new() } else { format!(" by {}", by.trim()) };
        (!text.is_empty()).then(|| (place, format!("[Comment{by}: {text}]")))
    };
    let comments = list.iter().take(MAX_COMMENTS).filter_map(&mut of).collect();
    let truncated = match is_long {
        _ if list.len() > MAX_COMMENTS => Some(format!("more than {MAX_COMMENTS} comments")),
        true => Some(format!("a comment of more than {} KiB", MAX_COMMENT_BYTES / 1024)),
        false => None,
    };
    (comments, truncated)
}

/// Parses a reference such as `B3` into a zero-based row and column. Returns `None` if no sheet can have that cell.
fn place(name: &str) -> Option<(u32, u32)> {
    let digits = name.find(|letter: char| letter.is_ascii_digit())?;
    let (letters, number) = name.split_at(digits);
    let column = letters.bytes().try_fold(0_u32, |column, letter| {
        let letter = letter.to_ascii_uppercase().checked_sub(b'A').filter(|letter| *letter < 26)?;
        column.checked_mul(26)?.checked_add(u32::from(letter) + 1)
    })?;
    let (row, column) = (number.parse::<u32>().ok()?, column.checked_sub(1)?);
    let is_valid_cell = (1..=clean::MAX_ROWS).contains(&row) && column < clean::MAX_COLUMNS;
    is_valid_cell.then_some((row.checked_sub(1)?, column))
}

#[cfg(test)]
mod tests {
    use calamine::{Data, ExcelDateTimeType};
    use proptest::{prelude::any, proptest};

    use super::*;

    #[test]
    fn dates_are_formatted_by_kind() {
        let check = |value: f64, kind: ExcelDateTimeType, expected: &str| {
            assert_eq!(display_date(ExcelDateTime::new(value, kind, false)), expected);
        };
        check(45_943.0, ExcelDateTimeType::DateTime, "2025-10-13");
        check(45_943.5, ExcelDateTimeType::DateTime, "2025-10-13 12:00");
        check(0.604_340_277_8, ExcelDateTimeType::DateTime, "14:30:15");
        check(1.25, ExcelDateTimeType::TimeDelta, "30:00:00");
        check(f64::MAX, ExcelDateTimeType::DateTime, "9999-12-31");
        check(f64::NAN, ExcelDateTimeType::TimeDelta, "0:00:00");
        check(-2.25, ExcelDateTimeType::DateTime, "-54:00:00");
        let iso = Data::DateTimeIso("2024-03-05T14:30:00".to_owned());
        assert_eq!(display_text(&iso, None).as_deref(), Some("2024-03-05 14:30:00"));
    }

    #[test]
    fn general_numbers_hide_rounding_digits() {
        for (value, expected) in [
            (0.1 + 0.2, "0.3"),
            (-2.5, "-2.5"),
            (-0.0, "0"),
            (1.0 / 3.0, "0.33333333333"),
            // Integers such as ISBNs and telephone numbers stay exact.
            (1_234_567_890_123_456.0, "1234567890123456"),
            (123_456_789_012.34, "123456789012.34"),
            (0.000_012_345, "0.000012345"),
            (9.999_999_999_999, "10"),
            (1.5e-20, "1.5E-20"),
            (-1.25e18, "-1.25E+18"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(general(value), expected);
        }
    }

    #[test]
    fn percent_formats_are_applied_and_others_ignored() {
        for (code, value, expected) in [
            ("0%", 0.125, "13%"),
            ("0.00%", 0.125, "12.50%"),
            ("0.##%", 0.07, "7.00%"),
            ("0%;[Red]\\(0%\\)", -0.07, "-7%"),
            ("0%", -0.001, "0%"),
            ("0%", 1e18, "1E+18"),
        ] {
            assert_eq!(percentage(value, percent_decimals(code).unwrap()), expected, "{code} of {value}");
        }
        for code in ["General", "0.00", "# ?/?%", "0%%", "\"$\"0", "%", "0.0.0%", "yyyy"] {
            assert_eq!(percent_decimals(code), None, "{code}");
        }
    }

    proptest! {
        #[test]
        fn any_format_and_number_stays_short(code in "[0#.%;,]{0,40}", value in any::<f64>()) {
            let general = general(value);
            assert!(general.len() < 40 && !general.is_empty(), "{general}");
            if let Some(decimals) = percent_decimals(&code) {
                assert!(percentage(value, decimals).len() < 60);
            }
        }
    }

    #[test]
    fn comments_are_placed_at_valid_cells() {
        assert_eq!((place("B3"), place("AA10"), place("3")), (Some((2, 1)), Some((9, 26)), None));
        assert_eq!((place("XFD1"), place("XFE1"), place("A0")), (Some((0, 16_383)), None, None));
        assert_eq!((place("A1073741825"), place("ZZZZZZ1")), (None, None));
        let long = "x".repeat(MAX_COMMENT_BYTES + 1);
        let parsed = format!(
            "<comments><commentList><comment ref='A1'><text><t>{long}</t></text></comment></commentList></comments>"
        );
        let (parsed, truncated) = comments(&package::parse(&parsed).unwrap());
        assert_eq!((parsed.len(), truncated.as_deref()), (1, Some("a comment of more than 32 KiB")));
    }
}

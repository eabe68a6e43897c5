//! Numbers as spreadsheets show them: with the decimals, thousands, percent and currency signs of their format.

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

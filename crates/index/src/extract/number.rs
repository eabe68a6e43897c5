//! Numbers as spreadsheets show them: by the format of their cell, or by none.

/// Digits of a number that a spreadsheet keeps. What is behind them comes of computing with twos.
const KEPT: usize = 15;
/// Digits of a number without a format that are shown where it has a fraction.
const SHOWN: i32 = 11;
/// From here on not every whole number can be told from the next one.
const WHOLE: f64 = 9_007_199_254_740_992.0;
/// Decimals that a format can ask for.
const MOST_DECIMALS: usize = 30;
/// Bytes of a format; Excel takes as many letters.
const LONGEST: usize = 1024;

/// A number without a format: whole ones to the last digit, fractions with eleven digits at the most.
pub(super) fn general(value: f64) -> String {
    if value.fract() == 0.0 && value != 0.0 && value.abs() < WHOLE {
        return format!("{value:.0}");
    }
    let Some(mut number) = Decimal::of(value) else { return value.to_string() };
    let sign = if value < 0.0 { "-" } else { "" };
    if !(-9..KEPT as i32).contains(&number.exponent) {
        number.round(SHOWN - 1 - number.exponent);
        return format!("{sign}{}", number.scientific(0, usize::MAX, 2, true));
    }
    // Of a large one with a fraction, such as an amount of money, two decimals are shown nevertheless.
    let whole = number.exponent.max(0) + 1;
    let decimals = if number.exponent < 0 { SHOWN - 1 - number.exponent } else { (SHOWN - whole).max(2) };
    number.round(decimals);
    let (whole, fraction) = number.plain(1, 0);
    let sign = if number.is_zero() { "" } else { sign };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A number in tens: its digits without zeros at either end, and the power of ten of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Decimal {
    digits: Vec<u8>,
    exponent: i32,
}

impl Decimal {
    /// The size of a number; none of what is no number.
    fn of(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let written = format!("{:.*e}", KEPT - 1, value.abs());
        let (mantissa, exponent) = written.split_once('e')?;
        let digits = mantissa.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
        let mut number = Self { digits, exponent: exponent.parse().ok()? };
        number.trim();
        Some(number)
    }

    const fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    fn trim(&mut self) {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            self.exponent = 0;
        }
    }

    /// Rounds it to so many decimals, halves up. Less than none rounds to tens and so on.
    fn round(&mut self, decimals: i32) {
        let kept = self.exponent.saturating_add(1).saturating_add(decimals);
        let Ok(kept) = usize::try_from(kept) else {
            self.digits.clear();
            return self.trim();
        };
        let Some(next) = self.digits.get(kept).copied() else { return };
        self.digits.truncate(kept);
        if next >= 5 {
            self.carry();
        }
        self.trim();
    }

    /// Adds one to the last digit.
    fn carry(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
        self.exponent += 1;
    }

    /// The digits before the point and behind it, with zeros up to so many.
    fn plain(&self, least_whole: usize, least_decimals: usize) -> (String, String) {
        let digit = |power: i32| {
            let at = usize::try_from(self.exponent - power).ok().filter(|_| !self.is_zero());
            char::from(b'0' + at.and_then(|at| self.digits.get(at)).copied().unwrap_or_default())
        };
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let has_whole = !self.is_zero() && self.exponent >= 0;
        let count = number(least_whole).max(if has_whole { self.exponent + 1 } else { 0 });
        let whole = (0..count).rev().map(digit).collect();
        let last = if self.is_zero() { 0 } else { number(self.digits.len()) - 1 - self.exponent };
        let fraction = (1..=last.max(number(least_decimals))).map(|power| digit(-power)).collect();
        (whole, fraction)
    }

    /// With one digit before the point, and a power of ten.
    fn scientific(mut self, least: usize, most: usize, exponent_digits: usize, has_plus: bool) -> String {
        if let Ok(decimals) = i32::try_from(most) {
            self.round(decimals.saturating_sub(self.exponent));
        }
        let exponent = std::mem::take(&mut self.exponent);
        let (whole, fraction) = self.plain(1, least);
        let point = if fraction.is_empty() { "" } else { "." };
        let sign = match exponent {
            ..0 => "-",
            _ if has_plus => "+",
            _ => "",
        };
        format!("{whole}{point}{fraction}E{sign}{:0exponent_digits$}", exponent.unsigned_abs())
    }
}

/// Format of the numbers of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumberFormat {
    /// For all numbers, or for those above zero, below it, and zero.
    sections: Vec<Section>,
}

/// One form of a format: digits with text around them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Section {
    before: String,
    after: String,
    /// Set once a digit came.
    has_digits: bool,
    is_general: bool,
    least_whole: usize,
    least_decimals: usize,
    most_decimals: usize,
    has_groups: bool,
    /// Powers of ten that the number is multiplied with.
    shift: i32,
    /// Digits of the power of ten and whether it has a plus, where it is shown by one.
    exponent: Option<(usize, bool)>,
}

impl NumberFormat {
    /// Reads the code of a format. None of one that shows numbers as none does, and of what is told otherwise: dates, fractions, and
    /// conditions.
    pub(super) fn parse(code: &str) -> Option<Self> {
        if code.len() > LONGEST || code.eq_ignore_ascii_case("general") {
            return None;
        }
        let sections: Option<Vec<Section>> = sections(code).into_iter().take(3).map(Section::parse).collect();
        sections.filter(|sections| !sections.is_empty()).map(|sections| Self { sections })
    }

    /// A number as it is shown. One that its format hides is shown as if it had none, so that it can be found.
    pub(super) fn shown(&self, value: f64) -> String {
        let of = |at: usize| self.sections.get(at);
        let (section, has_sign) = match (of(0), of(1), of(2)) {
            (_, Some(negative), _) if value < 0.0 => (Some(negative), false),
            (_, _, Some(zero)) if value == 0.0 => (Some(zero), false),
            (first, ..) => (first, value < 0.0),
        };
        let shown = section.and_then(|section| section.shown(value, has_sign)).unwrap_or_default();
        if shown.trim().is_empty() { general(value) } else { shown.trim().to_owned() }
    }
}

/// The sections of a code, apart where a `;` is no text.
fn sections(code: &str) -> Vec<&str> {
    let (mut sections, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, letter) in code.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '"' => is_quoted = !is_quoted,
            '\\' | '_' | '*' if !is_quoted => is_escaped = true,
            ';' if !is_quoted => {
                sections.push(&code[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    sections.push(&code[start..]);
    sections
}

impl Section {
    fn parse(code: &str) -> Option<Self> {
        let mut section = Self::default();
        let (mut has_point, mut commas, mut whole) = (false, 0, 0);
        let mut rest = code;
        while let Some(letter) = rest.chars().next() {
            let after = &rest[letter.len_utf8()..];
            if rest.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("general")) {
                (section.is_general, section.has_digits) = (true, true);
                rest = &rest[7..];
                continue;
            }
            rest = after;
            match letter {
                '"' => {
                    let (text, behind) = after.split_once('"').unwrap_or((after, ""));
                    section.text(text);
                    rest = behind;
                }
                '\\' => {
                    let end = after.chars().next().map_or(0, char::len_utf8);
                    section.text(&after[..end]);
                    rest = &after[end..];
                }
                // As much room as a letter takes, or as is left.
                '_' | '*' => rest = &after[after.chars().next().map_or(0, char::len_utf8)..],
                '[' => {
                    let (what, behind) = after.split_once(']')?;
                    section.bracket(what)?;
                    rest = behind;
                }
                '0' | '#' | '?' => {
                    // Text among the digits, as in numbers of telephones.
                    if section.is_general || !section.after.is_empty() || section.exponent.is_some() {
                        return None;
                    }
                    section.has_digits = true;
                    section.has_groups |= commas > 0 && !has_point;
                    commas = 0;
                    let is_least = usize::from(letter == '0');
                    if has_point {
                        section.most_decimals += 1;
                        let least = if is_least > 0 { section.most_decimals } else { section.least_decimals };
                        section.least_decimals = least;
                    } else {
                        section.least_whole += is_least;
                        whole += 1;
                    }
                }
                '.' if !has_point && !section.is_general => {
                    // Those right before the point stand for thousands, as those at the end do.
                    section.shift -= 3 * std::mem::take(&mut commas);
                    (has_point, section.has_digits) = (true, true);
                }
                ',' if section.has_digits => commas += 1,
                '%' => {
                    section.shift += 2;
                    section.text("%");
                }
                'E' | 'e' if section.has_digits && after.starts_with(['+', '-']) => {
                    let digits = after[1..].chars().take_while(|digit| matches!(digit, '0' | '#' | '?')).count();
                    section.exponent = Some((digits.max(1), after.starts_with('+')));
                    rest = &after[1 + digits..];
                }
                '/' if section.has_digits => return None,
                // Parts of dates, and text.
                letter if letter.is_ascii_alphabetic() || letter == '@' => return None,
                letter => section.text(letter.encode_utf8(&mut [0; 4])),
            }
        }
        section.shift -= 3 * commas;
        let is_engineering = section.exponent.is_some() && whole != 1;
        (section.most_decimals <= MOST_DECIMALS && !is_engineering).then_some(section)
    }

    fn text(&mut self, text: &str) {
        if self.has_digits { self.after.push_str(text) } else { self.before.push_str(text) }
    }

    /// A currency, or a colour. None of what changes the number or when it is shown.
    fn bracket(&mut self, what: &str) -> Option<()> {
        const COLOURS: [&str; 9] = ["black", "blue", "cyan", "green", "magenta", "red", "white", "yellow", "color"];
        if let Some(currency) = what.strip_prefix('$') {
            self.text(currency.rsplit_once('-').map_or(currency, |(currency, _)| currency));
            return Some(());
        }
        let name = what.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim().to_ascii_lowercase();
        COLOURS.contains(&name.as_str()).then_some(())
    }

    fn shown(&self, value: f64, has_sign: bool) -> Option<String> {
        let Self { before, after, .. } = self;
        let sign = |number: &Decimal| if has_sign && !number.is_zero() { "-" } else { "" };
        if self.is_general {
            let size = general(value.abs());
            return Some(format!("{}{before}{size}{after}", if has_sign { "-" } else { "" }));
        }
        let mut number = Decimal::of(value)?;
        if !self.has_digits {
            return Some(format!("{}{before}", sign(&number)));
        }
        if !number.is_zero() {
            number.exponent += self.shift;
        }
        if let Some((digits, has_plus)) = self.exponent {
            let sign = sign(&number);
            let number = number.scientific(self.least_decimals, self.most_decimals, digits, has_plus);
            return Some(format!("{sign}{before}{number}{after}"));
        }
        number.round(i32::try_from(self.most_decimals).ok()?);
        let (whole, fraction) = number.plain(self.least_whole, self.least_decimals);
        let whole = if self.has_groups { grouped(&whole) } else { whole };
        let point = if fraction.is_empty() { "" } else { "." };
        Some(format!("{}{before}{whole}{point}{fraction}{after}", sign(&number)))
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
            ("0.00", 1.005, "1.01"),
            ("0.00", -0.001, "0.00"),
            ("0.00", 2.0, "2.00"),
            ("0", 1234.5, "1235"),
            ("#,##0", 1_234_567.4, "1,234,567"),
            ("#,##0.00", -1234.5, "-1,234.50"),
            ("#,##0.00", 12.0, "12.00"),
            ("0.0##", 1.5, "1.5"),
            ("#.##", 0.25, ".25"),
            ("000", 7.0, "007"),
            ("\"$\"#,##0.00", 1234.5, "$1,234.50"),
            ("\"$\"#,##0_);[Red](\"$\"#,##0)", -1234.0, "($1,234)"),
            ("[$€-407]#,##0.00", 5.0, "€5.00"),
            ("#,##0.00 [$€-407]", 5.0, "5.00 €"),
            ("0.00\" kg\"", 2.5, "2.50 kg"),
            ("_(* #,##0.00_);_(* (#,##0.00);_(* \"-\"??_);_(@_)", 0.0, "-"),
            ("_(* #,##0.00_);_(* (#,##0.00);_(* \"-\"??_);_(@_)", -3.0, "(3.00)"),
            ("0.00E+00", 12345.0, "1.23E+04"),
            ("0.00E+00", 0.00099999, "1.00E-03"),
            ("0.0,,\" M\"", 12_345_678.0, "12.3 M"),
            ("0,,.0\" M\"", 12_345_678.0, "12.3 M"),
            ("#,##0,.00", 12_345_678.0, "12,345.68"),
            ("General\" pieces\"", 3.0, "3 pieces"),
            ("General;-General", -3.5, "-3.5"),
            ("0;-0;\"none\"", 0.0, "none"),
            // What is hidden is told.
            (";;;", 4.25, "4.25"),
        ];
        for (code, value, expected) in cases {
            let format = NumberFormat::parse(code).unwrap_or_else(|| panic!("{code}"));
            assert_eq!(format.shown(value), expected, "{code} of {value}");
        }
    }

    #[test]
    fn what_is_no_format_of_digits_is_none() {
        for code in ["General", "@", "# ?/?", "yyyy-mm-dd", "[>100]0;0.0", "000-00-0000", "[DBNum1]0", "##0.0E+0", "[$"]
        {
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

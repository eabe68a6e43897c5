//! Exact calculator for expressions with `+ - * / ^ %` and parentheses.

use super::{
    phrases::{Language, PlainText},
    request_kind::RequestKind,
};

/// Maximum number of decimals in a result.
const MAX_DECIMALS: u32 = 10;
/// Maximum length of an expression in bytes, because nested parentheses use the stack.
const MAX_LENGTH: usize = 200;
/// Maximum exponent in a power.
const MAX_EXPONENT: u128 = 512;

/// Fraction in lowest terms with a positive denominator.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fraction {
    top: i128,
    bottom: i128,
}

/// Reason why an expression has no result.
#[derive(Debug, PartialEq)]
enum SumError {
    /// The text is not an arithmetic expression, or its numbers are too large.
    Unreadable,
    ZeroDivision,
}

/// Answers a request that consists of an expression and words that ask for its result.
pub(crate) fn answer(request: &str, language: &Language) -> Option<RequestKind> {
    let mut text = format!(" {} ", request.to_lowercase());
    for (list, sign) in [("times", "*"), ("over", "/"), ("plus", "+"), ("minus", "-")] {
        text = language.replace_terms(list, sign, &text);
    }
    let letters: Vec<char> = text.chars().map(plain_sign).collect();
    let is_part = |at: usize| {
        let near = |at: Option<usize>| {
            at.and_then(|at| letters.get(at)).is_some_and(|near| near.is_ascii_digit() || *near == ' ')
        };
        match letters[at] {
            '0'..='9' | '+' | '-' | '*' | '/' | '^' | '(' | ')' | '%' => true,
            // Decimal or thousands separator between digits.
            '.' | ',' => {
                letters.get(at + 1).is_some_and(char::is_ascii_digit) && at > 0 && letters[at - 1].is_ascii_digit()
            }
            'x' => near(at.checked_sub(1)) && near(Some(at + 1)),
            _ => false,
        }
    };
    let (mut sum, mut words) = (String::new(), String::new());
    for (at, letter) in letters.iter().enumerate() {
        if is_part(at) {
            sum.push(if *letter == 'x' { '*' } else { *letter });
            words.push(' ');
        } else {
            if !sum.ends_with(' ') {
                sum.push(' ');
            }
            words.push(*letter);
        }
    }
    // "15 % of 80" is a product.
    let parts: Vec<&str> = sum.split('%').map(str::trim).collect();
    let sum = parts.join("%");
    let sum = (0..=9).fold(sum, |sum, digit| sum.replace(&format!("%{digit}"), &format!("%*{digit}")));
    let is_asked = PlainText::new(&language.remove_terms("sum", &words)).words().is_empty();
    if !is_asked || sum.len() > MAX_LENGTH || !sum.contains(['+', '-', '*', '/', '^', '%']) {
        return None;
    }
    let mut reader = Reader { rest: sum.trim(), has_decimal_comma: language.has_decimal_comma(), numbers: 0 };
    let result =
        reader.sum().and_then(|result| if reader.rest.is_empty() { Ok(result) } else { Err(SumError::Unreadable) });
    match result {
        Ok(_) if reader.numbers < 2 => None,
        Ok(result) => {
            let shown =
                sum.split_whitespace().collect::<String>().replace('*', " × ").replace('/', " ÷ ").replace('+', " + ");
            let (sign, result) = result.format(language.has_decimal_comma());
            Some(RequestKind::Equation(format!("{shown} {sign} {result}")))
        }
        Err(SumError::ZeroDivision) => Some(RequestKind::Fixed("undefined")),
        Err(SumError::Unreadable) => None,
    }
}

/// Returns the ASCII equivalent of an operator sign.
fn plain_sign(letter: char) -> char {
    match letter {
        '×' | '·' | '⋅' | '＊' => '*',
        '÷' | '／' => '/',
        '−' | '–' | '－' => '-',
        '＋' => '+',
        '（' => '(',
        '）' => ')',
        '０'..='９' => char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter),
        other => other,
    }
}

struct Reader<'a> {
    rest: &'a str,
    /// True if the decimal separator is a comma.
    has_decimal_comma: bool,
    numbers: usize,
}

impl Reader<'_> {
    fn next_is(&mut self, sign: char) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Result<Fraction, SumError> {
        let mut sum = self.product()?;
        loop {
            if self.next_is('+') {
                sum = sum.plus(self.product()?)?;
            } else if self.next_is('-') {
                sum = sum.plus(self.product()?.negate()?)?;
            } else {
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<Fraction, SumError> {
        let mut product = self.signed()?;
        loop {
            if self.next_is('*') {
                product = product.times(self.signed()?)?;
            } else if self.next_is('/') {
                product = product.times(self.signed()?.invert()?)?;
            } else {
                return Ok(product);
            }
        }
    }

    fn signed(&mut self) -> Result<Fraction, SumError> {
        if self.next_is('-') { self.signed()?.negate() } else { self.power() }
    }

    fn power(&mut self) -> Result<Fraction, SumError> {
        let base = self.part()?;
        if !self.next_is('^') {
            return Ok(base);
        }
        let exponent = self.signed()?;
        if exponent.bottom != 1 || exponent.top.unsigned_abs() > MAX_EXPONENT {
            return Err(SumError::Unreadable);
        }
        let base = if exponent.top < 0 { base.invert()? } else { base };
        (0..exponent.top.unsigned_abs()).try_fold(Fraction { top: 1, bottom: 1 }, |power, _| power.times(base))
    }

    fn part(&mut self) -> Result<Fraction, SumError> {
        let part = if self.next_is('(') {
            let inner = self.sum()?;
            if !self.next_is(')') {
                return Err(SumError::Unreadable);
            }
            inner
        } else {
            self.number()?
        };
        if self.next_is('%') { part.times(Fraction { top: 1, bottom: 100 }) } else { Ok(part) }
    }

    fn number(&mut self) -> Result<Fraction, SumError> {
        self.rest = self.rest.trim_start();
        let length = self.rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != ',');
        let (number, rest) = self.rest.split_at(length.unwrap_or(self.rest.len()));
        self.rest = rest;
        self.numbers += 1;
        let (thousands, point) = if self.has_decimal_comma { ('.', ',') } else { (',', '.') };
        // In a language with a decimal point, a comma is also a decimal separator unless a group of three digits
        // follows, and vice versa.
        let is_grouped = |text: &str| {
            text.split(thousands).skip(1).all(|part| part.split(point).next().is_some_and(|part| part.len() == 3))
        };
        let number = match is_grouped(number) {
            true => number.replace(thousands, "").replace(point, "."),
            false => number.replace(thousands, "."),
        };
        let (whole, decimals) = number.split_once('.').unwrap_or((&number, ""));
        // Dates and telephone numbers are not expressions.
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(SumError::Unreadable);
        }
        let power = u32::try_from(decimals.len()).ok().and_then(|length| 10_i128.checked_pow(length));
        let top = format!("{whole}{decimals}").parse().map_err(|_| SumError::Unreadable)?;
        Fraction::new(top, power.ok_or(SumError::Unreadable)?)
    }
}

fn multiply(a: i128, b: i128) -> Result<i128, SumError> {
    a.checked_mul(b).ok_or(SumError::Unreadable)
}

impl Fraction {
    fn new(top: i128, bottom: i128) -> Result<Self, SumError> {
        let (mut a, mut b) = (top.unsigned_abs(), bottom.unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let divisor = i128::try_from(a.max(1)).map_err(|_| SumError::Unreadable)?;
        Ok(Self { top: top / divisor, bottom: bottom / divisor })
    }

    fn plus(self, other: Self) -> Result<Self, SumError> {
        let (left, right) = (multiply(self.top, other.bottom)?, multiply(other.top, self.bottom)?);
        let top = left.checked_add(right).ok_or(SumError::Unreadable)?;
        Self::new(top, multiply(self.bottom, other.bottom)?)
    }

    fn times(self, other: Self) -> Result<Self, SumError> {
        Self::new(multiply(self.top, other.top)?, multiply(self.bottom, other.bottom)?)
    }

    fn negate(self) -> Result<Self, SumError> {
        self.times(Self { top: -1, bottom: 1 })
    }

    fn invert(self) -> Result<Self, SumError> {
        match self.top {
            0 => Err(SumError::ZeroDivision),
            top => Self::new(multiply(self.bottom, top.signum())?, multiply(top, top.signum())?),
        }
    }

    /// Returns the equals or approximation sign, and the result.
    fn format(self, has_decimal_comma: bool) -> (&'static str, String) {
        let mut rest = self.top.unsigned_abs() % self.bottom.unsigned_abs();
        let mut decimals = String::new();
        while rest != 0 && decimals.len() < MAX_DECIMALS as usize {
            let Some(ten) = rest.checked_mul(10) else { break };
            decimals.push_str(&(ten / self.bottom.unsigned_abs()).to_string());
            rest = ten % self.bottom.unsigned_abs();
        }
        let minus = if self.top < 0 { "-" } else { "" };
        let point = match decimals.is_empty() {
            true => "",
            false if has_decimal_comma => ",",
            false => ".",
        };
        let sign = if rest == 0 { "=" } else { "≈" };
        (sign, format!("{minus}{}{point}{decimals}", self.top.unsigned_abs() / self.bottom.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_and_other_requests_are_ignored() {
        let check = |request: &str, expected: Option<&str>| {
            let found = answer(request, Language::default_language());
            assert_eq!(found, expected.map(|text| RequestKind::Equation(text.to_owned())), "{request}");
        };
        check("what's 17*23", Some("17 × 23 = 391"));
        check("0.1 + 0.2 = ?", Some("0.1 + 0.2 = 0.3"));
        check("how much is 1,000 plus 1", Some("1,000 + 1 = 1001"));
        check("2 - 3 * (4 - -5) / 2", Some("2-3 × (4--5) ÷ 2 = -11.5"));
        check("10/3", Some("10 ÷ 3 ≈ 3.3333333333"));
        check("2^-3", Some("2^-3 = 0.125"));
        check("15% of 80", Some("15% × 80 = 12"));
        check("2 ^ 100", Some("2^100 = 1267650600228229401496703205376"));
        check("２×３", Some("2 × 3 = 6"));
        for other in
            ["2024-01-05", "+49 170 123", "1-2 sentences", "17", "3 * x", "9^999", "2 + ", "page 3-4", "-", "", "100%"]
        {
            check(other, None);
        }
        check("2^(-170141183460469231731687303715884105727-1)", None);
        check(&"(".repeat(5_000), None);
        check(&format!("1{}", "+1".repeat(5_000)), None);
        assert_eq!(answer("1/0", Language::default_language()), Some(RequestKind::Fixed("undefined")));
    }
}

//! The head and the tail of a text that is too long, and words for sizes. Pure.

use std::ops::Range;

use crate::tokens::estimate;

/// Shown and hidden parts of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excerpt<'a> {
    /// First part, shown.
    pub head: &'a str,
    /// Middle part, left out.
    pub between: &'a str,
    /// Last part, shown.
    pub tail: &'a str,
}

impl<'a> Excerpt<'a> {
    /// At most so many tokens of a text, three fifths of them from its head, cut where lines end. A line that is longer
    /// than that is cut itself, between two characters.
    pub fn of(text: &'a str, tokens: u64) -> Self {
        let for_head = tokens * 3 / 5;
        let head_end = head_end(text, for_head);
        let rest = &text[head_end..];
        let tail_start = head_end + tail_start(rest, tokens - for_head);
        Self { head: &text[..head_end], between: &text[head_end..tail_start], tail: &text[tail_start..] }
    }
}

/// The beginning of a text in at most so many tokens, cut where a line ends, if that does not give half of it away.
pub fn beginning(text: &str, tokens: u64) -> &str {
    &text[..head_end(text, tokens)]
}

/// Where the head of so many tokens ends.
fn head_end(text: &str, tokens: u64) -> usize {
    let fits = |end: usize| estimate(&text[..floor(text, end)]) <= tokens;
    let end = floor(text, last_fitting(0..reach(text, tokens), fits));
    match text[..end].rfind('\n') {
        // The end of a line, if that does not give half of the head away.
        Some(newline) if end < text.len() && newline >= end / 2 => newline + 1,
        _ => end,
    }
}

/// Where the tail of so many tokens begins.
fn tail_start(text: &str, tokens: u64) -> usize {
    let start_of = |length: usize| ceil(text, text.len() - length);
    let fits = |length: usize| estimate(&text[start_of(length)..]) <= tokens;
    let start = start_of(last_fitting(0..reach(text, tokens), fits));
    match text[start..].find('\n') {
        Some(newline) if start > 0 && newline < (text.len() - start) / 2 => start + newline + 1,
        _ => start,
    }
}

/// The largest number that fits, where all below it do.
fn last_fitting(numbers: Range<usize>, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (numbers.start, numbers.end);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// Maximum number of bytes of so many tokens, so that a long text is not counted whole again and again.
fn reach(text: &str, tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(16)).unwrap_or(usize::MAX).min(text.len())
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Number of lines of a text; one without an end counts.
pub fn lines(text: &str) -> usize {
    text.lines().count()
}

/// The size of a text in all three measures.
pub fn sizes(text: &str) -> String {
    let lines = lines(text);
    let noun = if lines == 1 { "line" } else { "lines" };
    format!("{} bytes, {} {noun}, about {} tokens", grouped(text.len()), grouped(lines), grouped(estimate(text)))
}

/// A number as people write it, such as `12,345`.
pub fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
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
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, tokens: u64, head: &str, tail: &str) {
        let found = Excerpt::of(text, tokens);
        assert_eq!((found.head, found.tail), (head, tail), "{text:?}");
    }

    #[test]
    fn cuts_fall_where_lines_end() {
        check("one\ntwo\nthree\nfour\nfive\nsix\n", 5, "one\ntwo\n", "six\n");
        check("short", 100, "short", "");
        check("", 10, "", "");
    }

    #[test]
    fn a_huge_line_is_cut_between_characters() {
        check(&"x".repeat(1000), 10, &"x".repeat(24), &"x".repeat(16));
        check(&"火".repeat(100), 5, "火火火", "火火");
        let after_a_short_line = format!("a\n{}\nb", "x".repeat(1000));
        let found = Excerpt::of(&after_a_short_line, 10);
        assert!(found.head.starts_with("a\nxxxx") && found.tail.ends_with("xxx\nb"), "{found:?}");
    }

    #[test]
    fn sizes_are_said_in_words() {
        assert_eq!(sizes("a\n"), "2 bytes, 1 line, about 1 tokens");
        assert_eq!(sizes(&"abc\n".repeat(1234)), "4,936 bytes, 1,234 lines, about 1,234 tokens");
        assert_eq!((grouped(0), grouped(999), grouped(1_000_000)), ("0".into(), "999".into(), "1,000,000".into()));
    }

    proptest! {
        #[test]
        fn an_excerpt_is_within_its_tokens_and_loses_nothing(text in "([a-z火é\u{1f600} ]{0,30}\n?){0,20}", tokens in 0u64..60) {
            let Excerpt { head, between, tail } = Excerpt::of(&text, tokens);
            prop_assert_eq!(format!("{head}{between}{tail}"), text.as_str());
            prop_assert!(estimate(head) + estimate(tail) <= tokens);
        }
    }
}

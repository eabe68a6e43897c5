//! Texts of others in a request: the head and the tail of one that is too long, how the rest of it is read, words for sizes, and
//! words of a file among the daemon's own, never mistaken for the daemon's.

use agentd_core::{
    error::WorkspaceError,
    untrusted::{OF_DAEMON_AND_PERSON, OF_FILES},
};
use tokio::task::JoinError;

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

    /// Both ends, and how much is left out between them.
    pub fn ends(&self) -> String {
        let line_end = if self.head.is_empty() || self.head.ends_with('\n') { "" } else { "\n" };
        format!("{}{line_end}[… {} left out …]\n{}", self.head, sizes(self.between), self.tail)
    }
}

/// The head of a text in at most so many tokens, cut where a line ends, if that does not give half of it away.
pub fn head(text: &str, tokens: u64) -> &str {
    &text[..head_end(text, tokens)]
}

/// Where the head of so many tokens ends.
fn head_end(text: &str, tokens: u64) -> usize {
    let fits = |end: usize| estimate(&text[..text.floor_char_boundary(end)]) <= tokens;
    let end = text.floor_char_boundary(last_fitting(text, tokens, fits));
    match text[..end].rfind('\n') {
        // The end of a line, if that does not give half of the head away.
        Some(newline) if end < text.len() && newline >= end / 2 => newline + 1,
        _ => end,
    }
}

/// Where the tail of so many tokens begins.
fn tail_start(text: &str, tokens: u64) -> usize {
    let start_of = |length: usize| text.ceil_char_boundary(text.len() - length);
    let fits = |length: usize| estimate(&text[start_of(length)..]) <= tokens;
    let start = start_of(last_fitting(text, tokens, fits));
    match text[start..].find('\n') {
        Some(newline) if start > 0 && newline < (text.len() - start) / 2 => start + newline + 1,
        _ => start,
    }
}

/// The largest number of bytes that fits so many tokens, where all below it do. Those that no text of so many tokens has are not tried, so
/// that a long text is not counted whole again and again.
fn last_fitting(text: &str, tokens: u64, fits: impl Fn(usize) -> bool) -> usize {
    let reach = usize::try_from(tokens.saturating_mul(16)).unwrap_or(usize::MAX);
    let (mut low, mut high) = (0, reach.min(text.len()));
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

/// The part of a window that one result may take.
const PART_OF_WINDOW: u64 = 4;
/// Limit of a result in the smallest window.
const LEAST_LIMIT: u64 = 256;
/// Above this many bytes, texts are looked at where they keep nobody waiting.
const WHILE_OTHERS_WAIT: usize = 128 * 1024;

/// Above how many estimated tokens a result is not shown whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultLimits {
    /// Any result.
    pub large: u64,
    /// Limit of a command's output; none where it is shown whole up to `large`.
    pub feedback: Option<u64>,
}

impl ResultLimits {
    /// The configured limits, as far as a window of that size has room for them.
    pub fn of(large: u64, feedback: Option<u64>, window: u64) -> Self {
        let large = (window / PART_OF_WINDOW).max(LEAST_LIMIT).min(large);
        Self { large, feedback: feedback.map(|tokens| tokens.min(large / 2)) }
    }
}

/// The reason of an error with its hint, in one line.
pub fn reason(error: &WorkspaceError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

/// Looks at a text: here, or on another thread where that takes long.
pub async fn aside<T: Send + 'static>(text: String, look: impl FnOnce(&str) -> T + Send + 'static) -> (String, T) {
    if text.len() <= WHILE_OTHERS_WAIT {
        let seen = look(&text);
        return (text, seen);
    }
    let looking = tokio::task::spawn_blocking(move || {
        let seen = look(&text);
        (text, seen)
    });
    match looking.await.map_err(JoinError::try_into_panic) {
        Ok(seen) => seen,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // Only when the whole runtime ends is it not looked at any more.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// Words on how a line that is too long is read.
pub const IN_PARTS: &str = "a line of it in parts, with offset for the line and column for the first character";

/// The number of lines that tools may be asked for at once, in words.
pub fn at_once(lines: Option<u64>) -> String {
    lines.map_or("one line in parts".to_owned(), |lines| format!("at most about {lines} lines at once"))
}

/// From where on a text is read whose beginning is known, as arguments of the tool that reads files.
pub fn from_behind(head: &str, at_once: Option<u64>) -> String {
    let lines = lines(head);
    if head.is_empty() || head.ends_with('\n') {
        return format!("offset={}", lines + 1);
    }
    let mut from = format!("offset={}", lines.max(1));
    if at_once.is_none() {
        let cut = head.rsplit('\n').next().unwrap_or_default();
        from.push_str(&format!(" and column={}", cut.chars().count() + 1));
    }
    from
}

/// Number of the text's lines that have about three quarters of the limit; none where not even one has.
pub fn lines_at_once(text: &str, limit: u64) -> Option<u64> {
    let tokens = estimate(text).max(1);
    let lines = lines(text) as u64;
    Some(lines * limit * 3 / 4 / tokens).filter(|lines| *lines > 0)
}

/// The text without what would look like the daemon's own words to a model.
pub fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        safe.push_str(before);
        safe.push_str(if opens_own(&tag[1..]) { "&lt;" } else { "<" });
        rest = &tag[1..];
    }
    safe.push_str(rest);
    safe
}

fn opens_own(tag: &str) -> bool {
    let name = tag.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
    let begins = |own: &str| name.get(..own.len()).is_some_and(|start| start.eq_ignore_ascii_case(own));
    let ends_behind =
        |own: &str| !name[own.len()..].starts_with(|next: char| next.is_alphanumeric() || "_-".contains(next));
    OF_DAEMON_AND_PERSON.into_iter().any(begins) || OF_FILES.into_iter().any(|own| begins(own) && ends_behind(own))
}

/// The same on one line, without characters that only steer a terminal.
pub fn one_line(text: &str) -> String {
    harmless(&text.replace(char::is_control, "\u{fffd}"))
}

/// The first bytes of a text, cut between characters.
pub fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
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

    #[test]
    fn limits_fit_the_window() {
        let check = |window: u64, large: u64, feedback: Option<u64>| {
            let found = ResultLimits::of(20_000, Some(4_000), window);
            assert_eq!(found, ResultLimits { large, feedback }, "{window}");
        };
        check(1_000_000, 20_000, Some(4_000));
        check(80_000, 20_000, Some(4_000));
        check(16_384, 4_096, Some(2_048));
        check(0, 256, Some(128));
        assert_eq!(ResultLimits::of(100, None, 16_384), ResultLimits { large: 100, feedback: None });
    }
}

//! Untrusted text in a request: excerpts of long texts with hints on how to read more, sizes as text, and functions
//! that escape markup imitating the daemon's own text.

use agentd_core::{
    error::WorkspaceError,
    untrusted::{DAEMON_AND_USER_TAGS, FILE_TAGS},
};
use tokio::task::JoinError;

use crate::tokens::estimate;

/// Text whose middle is omitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excerpt<'a> {
    /// First part, which is included.
    pub head: &'a str,
    /// Middle part, which is omitted.
    pub between: &'a str,
    /// Last part, which is included.
    pub tail: &'a str,
}

impl<'a> Excerpt<'a> {
    /// Creates an excerpt of at most `tokens` tokens of `text`, with three fifths of them at its start. Cuts at line
    /// ends, or between characters if a line is too long.
    pub fn of(text: &'a str, tokens: u64) -> Self {
        let for_head = tokens * 3 / 5;
        let head_end = head_end(text, for_head);
        let rest = &text[head_end..];
        let tail_start = head_end + tail_start(rest, tokens - for_head);
        Self { head: &text[..head_end], between: &text[head_end..tail_start], tail: &text[tail_start..] }
    }

    /// Returns both ends, separated by the size of the omitted part.
    pub fn ends(&self) -> String {
        let line_end = if self.head.is_empty() || self.head.ends_with('\n') { "" } else { "\n" };
        format!("{}{line_end}[… {} left out …]\n{}", self.head, sizes(self.between), self.tail)
    }
}

/// Returns the start of a text with at most `tokens` tokens. Cuts at a line end unless this loses half of the start.
pub fn head(text: &str, tokens: u64) -> &str {
    &text[..head_end(text, tokens)]
}

/// Returns the end of the head with at most `tokens` tokens.
fn head_end(text: &str, tokens: u64) -> usize {
    let fits = |end: usize| estimate(&text[..text.floor_char_boundary(end)]) <= tokens;
    let end = text.floor_char_boundary(last_fitting(text, tokens, fits));
    match text[..end].rfind('\n') {
        // Cut at a line end unless this loses half of the head.
        Some(newline) if end < text.len() && newline >= end / 2 => newline + 1,
        _ => end,
    }
}

/// Returns the start of the tail with at most `tokens` tokens.
fn tail_start(text: &str, tokens: u64) -> usize {
    let start_of = |length: usize| text.ceil_char_boundary(text.len() - length);
    let fits = |length: usize| estimate(&text[start_of(length)..]) <= tokens;
    let start = start_of(last_fitting(text, tokens, fits));
    match text[start..].find('\n') {
        Some(newline) if start > 0 && newline < (text.len() - start) / 2 => start + newline + 1,
        _ => start,
    }
}

/// Returns the largest number of bytes that fits into `tokens`, by binary search. Skips lengths that cannot fit, so
/// that a long text is not repeatedly estimated as a whole.
fn last_fitting(text: &str, tokens: u64, fits: impl Fn(usize) -> bool) -> usize {
    let max_bytes = usize::try_from(tokens.saturating_mul(16)).unwrap_or(usize::MAX);
    let (mut low, mut high) = (0, max_bytes.min(text.len()));
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

/// Returns the number of lines in a text, including an unterminated last line.
pub fn lines(text: &str) -> usize {
    text.lines().count()
}

/// Formats the size of a text in bytes, lines and tokens.
pub fn sizes(text: &str) -> String {
    let lines = lines(text);
    let noun = if lines == 1 { "line" } else { "lines" };
    format!("{} bytes, {} {noun}, about {} tokens", grouped(text.len()), grouped(lines), grouped(estimate(text)))
}

/// Formats a number with thousands separators, such as `12,345`.
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

/// Divisor for the part of a window that one result may use: one part in `RESULT_DIVISOR`.
const RESULT_DIVISOR: u64 = 4;
/// Limit for a result in the smallest window, in tokens.
const MIN_LIMIT: u64 = 256;
/// Size in bytes above which texts are processed on a blocking thread.
const BLOCKING_BYTES: usize = 128 * 1024;

/// Limits, in estimated tokens, above which results are shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultLimits {
    /// Limit for any result.
    pub large: u64,
    /// Limit for a command's output. If `None`, `large` applies.
    pub feedback: Option<u64>,
}

impl ResultLimits {
    /// Reduces the configured limits to values that fit into a window of this size.
    pub fn of(large: u64, feedback: Option<u64>, window: u64) -> Self {
        let large = (window / RESULT_DIVISOR).max(MIN_LIMIT).min(large);
        Self { large, feedback: feedback.map(|tokens| tokens.min(large / 2)) }
    }
}

/// Returns an error's message and hint on one line.
pub fn reason(error: &WorkspaceError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

/// Applies `work` to `text`, on a blocking thread if the text is long.
pub async fn run_blocking_if_long<T: Send + 'static>(
    text: String,
    work: impl FnOnce(&str) -> T + Send + 'static,
) -> (String, T) {
    if text.len() <= BLOCKING_BYTES {
        let result = work(&text);
        return (text, result);
    }
    let task = tokio::task::spawn_blocking(move || {
        let result = work(&text);
        (text, result)
    });
    match task.await.map_err(JoinError::try_into_panic) {
        Ok(result) => result,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The join only fails if the whole runtime is shutting down.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// Instruction for reading an overlong line.
pub const IN_PARTS: &str = "one line in parts, with offset for the line and column for the first character";

/// Formats the maximum number of lines to read at once.
pub fn at_once(lines: Option<u64>) -> String {
    lines.map_or("one line in parts".to_owned(), |lines| format!("at most about {lines} lines at once"))
}

/// Formats the position after `head` as arguments for the tool that reads files.
pub fn offset_after(head: &str, at_once: Option<u64>) -> String {
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

/// Returns the number of lines that fit into about three quarters of the limit, or `None` if not even one line fits.
pub fn lines_at_once(text: &str, limit: u64) -> Option<u64> {
    let tokens = estimate(text).max(1);
    let lines = lines(text) as u64;
    Some(lines * limit * 3 / 4 / tokens).filter(|lines| *lines > 0)
}

/// Escapes tags that a model could mistake for the daemon's own text.
pub fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        safe.push_str(before);
        safe.push_str(if opens_daemon_tag(&tag[1..]) { "&lt;" } else { "<" });
        rest = &tag[1..];
    }
    safe.push_str(rest);
    safe
}

fn opens_daemon_tag(tag: &str) -> bool {
    let name = tag.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
    let begins_with_name = |own: &str| name.get(..own.len()).is_some_and(|start| start.eq_ignore_ascii_case(own));
    let ends_name =
        |own: &str| !name[own.len()..].starts_with(|next: char| next.is_alphanumeric() || "_-".contains(next));
    DAEMON_AND_USER_TAGS.into_iter().any(begins_with_name)
        || FILE_TAGS.into_iter().any(|own| begins_with_name(own) && ends_name(own))
}

/// Like [`harmless`], but also puts the text on one line and removes control characters.
pub fn one_line(text: &str) -> String {
    harmless(&text.replace(char::is_control, "\u{fffd}"))
}

/// Returns the typed part of an input. Piped text after the typed part is a document, regardless of its content.
pub fn typed_part(text: &str, typed_bytes: Option<u64>) -> &str {
    let typed = typed_bytes.map_or(Some(text), |bytes| text.get(..usize::try_from(bytes).ok()?));
    typed.unwrap_or_default()
}

/// Returns the first `limit` bytes of a text, cut between characters.
pub fn beginning(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
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
    fn excerpts_are_cut_at_line_ends() {
        check("one\ntwo\nthree\nfour\nfive\nsix\n", 5, "one\ntwo\n", "six\n");
        check("short", 100, "short", "");
        check("", 10, "", "");
    }

    #[test]
    fn huge_line_is_cut_between_characters() {
        check(&"x".repeat(1000), 10, &"x".repeat(24), &"x".repeat(16));
        check(&"火".repeat(100), 5, "火火火", "火火");
        let after_a_short_line = format!("a\n{}\nb", "x".repeat(1000));
        let found = Excerpt::of(&after_a_short_line, 10);
        assert!(found.head.starts_with("a\nxxxx") && found.tail.ends_with("xxx\nb"), "{found:?}");
    }

    proptest! {
        #[test]
        fn excerpt_fits_its_tokens_and_partitions_the_text(text in "([a-z火é\u{1f600} ]{0,30}\n?){0,20}", tokens in 0u64..60) {
            let Excerpt { head, between, tail } = Excerpt::of(&text, tokens);
            prop_assert_eq!(format!("{head}{between}{tail}"), text.as_str());
            prop_assert!(estimate(head) + estimate(tail) <= tokens);
        }
    }
}

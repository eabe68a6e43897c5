//! Texts that are too long for a window: how much of them fits, and how the rest is read.

use agentd_core::error::WorkspaceError;
use tokio::task::JoinError;

use super::{excerpt, tokens::estimate};

/// The part of a window that one result may take.
const PART_OF_WINDOW: u64 = 4;
/// Limit of a result in the smallest window.
const LEAST: u64 = 256;
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
        let large = (window / PART_OF_WINDOW).max(LEAST).min(large);
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
    let lines = excerpt::lines(head);
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
    let lines = excerpt::lines(text) as u64;
    Some(lines * limit * 3 / 4 / tokens).filter(|lines| *lines > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

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

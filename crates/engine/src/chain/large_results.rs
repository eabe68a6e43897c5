//! A result that is too long for the model's window is kept whole in a file of the session, and the model gets its head,
//! its tail and the way to the rest. It is so with every tool and with errors too: what overflows the window ends the
//! session for good, and what is cut away cannot be asked for again.

use agentd_core::{error::WorkspaceError, event::EventKind, ports::KeptArea, tool::ToolOutput};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde::de::IgnoredAny;
use tokio::task::JoinError;

use super::{
    Invocation, Link, Next,
    excerpt::{self, Excerpt, sizes},
};
use crate::{prompt::tokens::estimate, turn::Stop};

/// The part of a window that one result may take.
const PART_OF_WINDOW: u64 = 4;
/// The part of its limit that is shown of a result above it, and tokens that are shown at the most.
const PART_SHOWN: u64 = 2;
const MOST_SHOWN: u64 = 2_000;
/// What a result may have in the smallest window.
const LEAST: u64 = 256;
/// The tool that shows parts of files: what it shows need not be kept once more.
const READS_FILES: &str = "read_file";
/// Above this many bytes, texts are looked at where they keep nobody waiting.
const WHILE_OTHERS_WAIT: usize = 128 * 1024;

/// Above how many estimated tokens a result is not shown whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResultLimits {
    /// Any result.
    pub(crate) large: u64,
    /// What a command says; nothing where it is shown whole up to `large`.
    pub(crate) feedback: Option<u64>,
}

impl ResultLimits {
    /// What is configured, as far as a window of that size has room for it.
    pub(crate) fn of(large: u64, feedback: Option<u64>, window: u64) -> Self {
        let large = (window / PART_OF_WINDOW).max(LEAST).min(large);
        Self { large, feedback: feedback.map(|tokens| tokens.min(large / 2)) }
    }
}

pub(crate) struct LargeResults;

impl Link for LargeResults {
    fn name(&self) -> &'static str {
        "large_results"
    }

    fn about(&self) -> &'static str {
        "around all that answers calls: what is too long for the window is kept in a file, and the model gets its ends"
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> BoxFuture<'a, Result<ToolOutput, Stop>> {
        async move {
            let output = next.run(call).await?;
            let limit = call.context.results.large;
            // No token has less than a byte.
            if output.text.len() as u64 <= limit {
                return Ok(output);
            }
            let (text, fits) = aside(output.text, move |text| estimate(text) <= limit).await;
            let text = if fits { text } else { shortened(call, text, limit).await? };
            Ok(ToolOutput { text, ..output })
        }
        .boxed()
    }
}

/// What the model is shown of a text that is too long, when that text is kept.
async fn shortened(call: &Invocation<'_>, text: String, limit: u64) -> Result<String, Stop> {
    if call.context.toolbox.canonical_name(&call.call.name) == READS_FILES {
        return Ok(aside(text, move |text| shown(text, limit, &Kept::Already)).await.1);
    }
    let kept = match keep(call, &text).await {
        Ok(path) => Kept::At(path),
        Err(error) => {
            let why = reason(&error);
            let message = format!("a part of the result of {} is lost: it could not be kept, {why}", call.call.name);
            call.context.recorder.fact(EventKind::Warning { code: "result_lost".to_owned(), message }).await?;
            Kept::Nowhere(why)
        }
    };
    Ok(aside(text, move |text| shown(text, limit, &kept)).await.1)
}

pub(crate) fn reason(error: &WorkspaceError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

/// Keeps a result whole, and says where tools find it.
pub(super) async fn keep(call: &Invocation<'_>, text: &str) -> Result<String, WorkspaceError> {
    let (content, ending) = aside(text.to_owned(), ending).await;
    let name = format!("{}.{ending}", call.call.call_id);
    call.context.files.keep(KeptArea::LargeToolResults, name, content.into_bytes()).await
}

fn ending(text: &str) -> &'static str {
    let may_be_json = text.trim_start().starts_with(['{', '[']);
    if may_be_json && serde_json::from_str::<IgnoredAny>(text).is_ok() { "json" } else { "txt" }
}

/// Looks at a text: here, or on another thread where that takes long.
pub(crate) async fn aside<T: Send + 'static>(
    text: String,
    look: impl FnOnce(&str) -> T + Send + 'static,
) -> (String, T) {
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

/// Where the whole of a text is.
#[derive(Debug)]
enum Kept {
    /// In this file.
    At(String),
    /// In the file that the tool has read.
    Already,
    /// Nowhere, for this reason.
    Nowhere(String),
}

fn shown(text: &str, limit: u64, kept: &Kept) -> String {
    let Excerpt { head, between, tail } = Excerpt::of(text, (limit / PART_SHOWN).min(MOST_SHOWN));
    let at_once = lines_at_once(text, limit);
    let line_end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let tail = tail.trim_end_matches('\n');
    let way = match kept {
        Kept::At(path) => {
            let (from, amount) = (from_behind(head, at_once), self::at_once(at_once));
            format!(
                "All of it is in {path}: read on there with read_file and {from}, {amount}, or find the place with grep"
            )
        }
        Kept::Already => {
            let less = at_once.map_or(IN_PARTS.to_owned(), |lines| format!("limit={lines}"));
            format!("Read less of the file at once: {less}, or find the place with grep")
        }
        Kept::Nowhere(why) => {
            format!("The rest is lost, because it could not be kept: {why}. If you need it, ask again for less at once")
        }
    };
    format!(
        "{head}{line_end}[… {} left out …]\n{tail}\n\n[This result is too long to be shown whole: it has {}. {way}.]",
        sizes(between),
        sizes(text)
    )
}

/// How a line that is too long is read.
const IN_PARTS: &str = "a line of it in parts, with offset for the line and column for the first character";

/// The number of lines that tools may be asked for at once, in words.
pub(crate) fn at_once(lines: Option<u64>) -> String {
    lines.map_or("one line in parts".to_owned(), |lines| format!("at most about {lines} lines at once"))
}

/// From where on a text is read whose beginning is known, as arguments of the tool that reads files.
pub(crate) fn from_behind(head: &str, at_once: Option<u64>) -> String {
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

/// How many of the text's lines have about three quarters of the limit; none where not even one has.
pub(crate) fn lines_at_once(text: &str, limit: u64) -> Option<u64> {
    let tokens = estimate(text).max(1);
    let lines = excerpt::lines(text) as u64;
    Some(lines * limit * 3 / 4 / tokens).filter(|lines| *lines > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn a_file_of_json_is_called_so() {
        let check = |text: &str, expected: &str| assert_eq!(ending(text), expected, "{text}");
        check("{\"a\": [1, 2]}\n", "json");
        check("[]", "json");
        check("[not json]", "txt");
        check("12", "txt");
        check("exit code 0\nstdout:\n{}", "txt");
    }

    #[test]
    fn the_model_is_told_how_to_go_on() {
        let text: String = (1..=4000).map(|n| format!("line number {n}\n")).collect();
        let shown = shown(&text, 1_000, &Kept::At("/large_tool_results/c.txt".to_owned()));
        let head: String = (1..=80).map(|n| format!("line number {n}\n")).collect();
        assert!(shown.starts_with(&format!("{head}[… ")), "{shown}");
        for words in [
            "3,873 lines",
            "line number 4000\n\n[This result",
            "4,000 lines",
            "/large_tool_results/c.txt",
            "offset=81, at most about 179 lines",
        ] {
            assert!(shown.contains(words), "{words:?} is missing in {shown}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_read_in_parts() {
        let text = format!("{{}}\n{}", "x".repeat(100_000));
        let check = |kept: Kept, words: &str| {
            let shown = shown(&text, 1_000, &kept);
            assert!(shown.contains(words) && !shown.contains("limit=1"), "{shown}");
        };
        let head = shown(&text, 1_000, &Kept::Already).lines().nth(1).unwrap().len();
        let at = Kept::At("/large_tool_results/c.json".to_owned());
        check(at, &format!("offset=2 and column={}, one line in parts", head + 1));
        check(
            Kept::Already,
            "Read less of the file at once: a line of it in parts, with offset for the line and column",
        );
    }

    #[test]
    fn what_is_lost_is_said() {
        let shown = shown(&"x".repeat(10_000), 1_000, &Kept::Nowhere("the disk is full".to_owned()));
        assert!(shown.contains("The rest is lost, because it could not be kept: the disk is full."), "{shown}");
        assert!(!shown.contains("/large_tool_results"), "{shown}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_within_the_limit(text in "([a-z火 ]{0,60}\n?){50,200}", limit in 256u64..600) {
            prop_assume!(estimate(&text) > limit);
            let shown = shown(&text, limit, &Kept::At("/large_tool_results/call_0123456789.txt".to_owned()));
            prop_assert!(estimate(&shown) <= limit + 60, "{} of {limit}", estimate(&shown));
        }
    }
}

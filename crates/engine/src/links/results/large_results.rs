//! A result that is too long for the model's window is kept whole in a file of the session, and the model gets its head,
//! its tail and the way to the rest. It is so with every tool and with errors too: what overflows the window ends the
//! session for good, and what is cut away cannot be asked for again.

use agentd_context::{
    text::{Excerpt, IN_PARTS, aside, from_behind, lines_at_once, reason, sizes},
    tokens::estimate,
};
use agentd_core::{error::WorkspaceError, ports::ArtifactDir, tool::ToolOutput};
use futures_util::FutureExt as _;
use serde::de::IgnoredAny;

use crate::turn::{
    TurnExit,
    hooks::{Hook, Invocation, Link, Next},
};

/// The part of its limit that is shown of a result above it, and tokens that are shown at the most.
const PART_SHOWN: u64 = 2;
const MOST_SHOWN: u64 = 2_000;
/// The tool that shows parts of files: a model reads on in the file itself, and a person in what is stored.
const READS_FILES: &str = "read_file";
pub(crate) struct Truncation;

impl Link for Truncation {
    fn name(&self) -> &'static str {
        "large_results"
    }

    fn description(&self) -> &'static str {
        "around all that answers calls: what is too long for the window is kept in a file, and the model gets its ends"
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        async move {
            let output = next.run(call).await?;
            let limit = call.context.prompt.results.large;
            // No token has less than a byte.
            if output.text.len() as u64 <= limit {
                return Ok(output);
            }
            let (text, fits) = aside(output.text, move |text| estimate(text) <= limit).await;
            let output = ToolOutput { text, ..output };
            if fits { Ok(output) } else { shortened(call, output, limit).await }
        }
        .boxed()
    }
}

/// The result with the shown part of a text that is too long, which is stored whole.
async fn shortened(call: &Invocation<'_>, mut output: ToolOutput, limit: u64) -> Result<ToolOutput, TurnExit> {
    let is_file = call.context.tool(&call.call.name).is_some_and(|tool| tool.name == READS_FILES);
    let details = output.details.get_or_insert_default();
    let kept = match keep(call, &output.text).await {
        Ok(path) => {
            details.stored = Some(path.clone());
            if is_file { SpillFile::Already } else { SpillFile::At(path) }
        }
        Err(_) if is_file => SpillFile::Already,
        Err(error) => {
            let why = reason(&error);
            let message = format!("a part of the result of {} is lost: it could not be stored, {why}", call.call.name);
            call.context.recorder.warn("result_lost", message).await?;
            SpillFile::Nowhere(why)
        }
    };
    let (own, advice) = aside(output.text, move |text| shown(text, limit, &kept)).await.1;
    details.own_bytes = Some(own.len() as u64);
    output.text = own + &advice;
    Ok(output)
}

/// Keeps a result whole, and says where tools find it.
pub(crate) async fn keep(call: &Invocation<'_>, text: &str) -> Result<String, WorkspaceError> {
    let (content, ending) = aside(text.to_owned(), ending).await;
    let name = format!("{}.{ending}", call.call.call_id);
    call.context.files.session.keep(ArtifactDir::LargeToolResults, name, content.into_bytes()).await
}

fn ending(text: &str) -> &'static str {
    let may_be_json = text.trim_start().starts_with(['{', '[']);
    if may_be_json && serde_json::from_str::<IgnoredAny>(text).is_ok() { "json" } else { "txt" }
}

/// Where the whole of a text is.
#[derive(Debug)]
enum SpillFile {
    /// In this file.
    At(String),
    /// In the file that the tool has read.
    Already,
    /// Nowhere, for this reason.
    Nowhere(String),
}

/// The ends of a text, and what a model is told of the rest.
fn shown(text: &str, limit: u64, kept: &SpillFile) -> (String, String) {
    let Excerpt { head, between, tail } = Excerpt::of(text, (limit / PART_SHOWN).min(MOST_SHOWN));
    let at_once = lines_at_once(text, limit);
    let line_end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let tail = tail.trim_end_matches('\n');
    let way = match kept {
        SpillFile::At(path) => {
            let (from, amount) = (from_behind(head, at_once), agentd_context::text::at_once(at_once));
            format!(
                "All of it is in {path}: read on there with read_file and {from}, {amount}, or find the place with grep"
            )
        }
        SpillFile::Already => {
            let less = at_once.map_or(IN_PARTS.to_owned(), |lines| format!("limit={lines}"));
            format!("Read less of the file at once: {less}, or find the place with grep")
        }
        SpillFile::Nowhere(why) => {
            format!(
                "The rest is lost, because it could not be stored: {why}. If you need it, ask again for less at once"
            )
        }
    };
    let own = format!("{head}{line_end}[… {} left out …]\n{tail}", sizes(between));
    (own, format!("\n\n[This result is too long to be shown whole: it has {}. {way}.]", sizes(text)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(text: &str, limit: u64, kept: &SpillFile) -> String {
        let (own, advice) = shown(text, limit, kept);
        own + &advice
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
        let shown = told(&text, 1_000, &SpillFile::At("/large_tool_results/c.txt".to_owned()));
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
        let check = |kept: SpillFile, words: &str| {
            let shown = told(&text, 1_000, &kept);
            assert!(shown.contains(words) && !shown.contains("limit=1"), "{shown}");
        };
        let head = told(&text, 1_000, &SpillFile::Already).lines().nth(1).unwrap().len();
        let at = SpillFile::At("/large_tool_results/c.json".to_owned());
        check(at, &format!("offset=2 and column={}, one line in parts", head + 1));
        check(
            SpillFile::Already,
            "Read less of the file at once: a line of it in parts, with offset for the line and column",
        );
    }

    #[test]
    fn what_is_lost_is_said() {
        let shown = told(&"x".repeat(10_000), 1_000, &SpillFile::Nowhere("the disk is full".to_owned()));
        assert!(shown.contains("The rest is lost, because it could not be stored: the disk is full."), "{shown}");
        assert!(!shown.contains("/large_tool_results"), "{shown}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_within_the_limit(text in "([a-z火 ]{0,60}\n?){50,200}", limit in 256u64..600) {
            prop_assume!(estimate(&text) > limit);
            let shown = told(&text, limit, &SpillFile::At("/large_tool_results/call_0123456789.txt".to_owned()));
            prop_assert!(estimate(&shown) <= limit + 60, "{} of {limit}", estimate(&shown));
        }
    }
}

//! The summary that stands in for what was replaced: seven parts, of which a model may write what no fact tells. Pure.

use std::{fmt::Write as _, sync::Arc};

use agentd_core::{
    context::CompactionStrategy,
    ids::SessionId,
    item::{Item, ItemBody},
    model::{Message, ModelRequest},
};

use super::{
    facts::{Facts, part_bytes},
    transcript,
};

/// The seven parts, in order.
const PARTS: [&str; 7] = [
    "What the person wants",
    "Constraints and rules",
    "Decisions and reasons",
    "Files and what was done to them",
    "Commands and results",
    "Open problems",
    "Next steps",
];

/// Bytes that a token has at the least, in texts of any script: so that what is sent to be summed up fits for certain.
const BYTES_A_TOKEN: u64 = 2;
/// Tokens that a summary in detail has at the most.
const MAX_TOKENS: u64 = 1440;
/// What stands before the rules.
const RULES_FOLLOW: &str = "The person said, word for word:";
/// What stands before the request that is under way.
const UNDER_WAY: &str = "## The request that you are working on, word for word";
/// Bytes of one part of an earlier summary that are kept, where no model sums it up anew: so that it does not grow.
const MAX_CARRIED: usize = 1200;

/// Asks a model for the parts that no fact tells.
pub(crate) fn request(
    session_id: SessionId,
    instructions: &str,
    earlier: Option<&str>,
    items: &[Arc<Item>],
    strategy: CompactionStrategy,
    window: u64,
) -> ModelRequest {
    let length = match strategy {
        CompactionStrategy::Summarize => "Use at most 200 words in all.".to_owned(),
        _ => format!("Use at most {} words in all.", MAX_TOKENS.min(window / 8) * 2 / 3),
    };
    let system = format!("{}\n\n{length}", instructions.trim_end());
    let room = window.saturating_sub(MAX_TOKENS.min(window / 8)).saturating_mul(3) / 4;
    let bytes = usize::try_from(room.saturating_mul(BYTES_A_TOKEN)).unwrap_or(usize::MAX).saturating_sub(system.len());
    // What was summed up before comes first and whole: it stands for the most.
    let earlier = earlier.map(|text| format!("<earlier_summary>\n{text}\n</earlier_summary>\n")).unwrap_or_default();
    let items: Vec<Arc<Item>> =
        items.iter().filter(|item| !matches!(item.body, ItemBody::Compaction(_))).cloned().collect();
    let items = transcript::within(&items, bytes.saturating_sub(earlier.len()));
    let text = format!("{earlier}<history>\n{items}\n</history>");
    ModelRequest {
        session_id,
        messages: vec![Message::System { text: system }, Message::User { text }],
        tools: Arc::from([]),
        known_paths: Vec::new(),
    }
}

/// The words that a summary has besides what is known for certain.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Words<'a> {
    /// What a model wrote now, of all that is replaced.
    Written(&'a str),
    /// The summary that is replaced itself, where no model writes one: what it knew is not lost with it.
    Earlier(&'a str),
    /// There are none.
    None,
}

/// Puts a summary together. What a model wrote is under its headings; what is known for certain stands there whatever it
/// wrote.
pub(crate) fn compose(words: Words<'_>, facts: &Facts, rules: &[String], path: Option<&str>, window: u64) -> String {
    let most = part_bytes(window);
    let parts = match words {
        Words::Written(text) => written_parts(text, most),
        Words::Earlier(summary) => carried_parts(summary, most),
        Words::None => Default::default(),
    };
    let certain: [Vec<String>; 7] = [
        facts.requests.clone(),
        rules.to_vec(),
        facts.answers.iter().map(|answer| format!("You answered: {answer}")).collect(),
        facts.files.clone(),
        facts.commands.clone(),
        facts.problems.clone(),
        facts.next.clone(),
    ];
    let mut text = "What came before in this session was replaced by this summary.".to_owned();
    if let Some(path) = path {
        let _ = write!(text, " All of it is in {path}: read or grep that file for what is not here.");
    }
    for (index, heading) in PARTS.iter().enumerate() {
        let said = parts[index].trim();
        // The person's own words stand for what is wanted, where no model has put it better.
        let better = index == 0 && matches!(words, Words::Written(_)) && !said.is_empty();
        let listed = if better { &[] } else { certain[index].as_slice() };
        if said.is_empty() && listed.is_empty() {
            continue;
        }
        let _ = write!(text, "\n\n## {heading}\n");
        if !said.is_empty() {
            let _ = writeln!(text, "{said}");
        }
        if index == 1 && !listed.is_empty() {
            text.push_str(RULES_FOLLOW);
            text.push('\n');
        }
        // A list that was carried over has some of it already. Rules stand by themselves.
        let known = |line: &String| index != 1 && said.lines().any(|known| known.strip_prefix("- ") == Some(line));
        for line in listed.iter().filter(|line| !known(line)) {
            let _ = writeln!(text, "- {line}");
        }
        text.truncate(text.trim_end().len());
    }
    if let Some(request) = &facts.under_way {
        let _ = write!(text, "\n\n{UNDER_WAY}\n{request}");
    }
    text
}

/// The request that a summary says is under way, word for word.
pub(crate) fn under_way(summary: &str) -> Option<&str> {
    summary.rsplit_once(UNDER_WAY).map(|(_, request)| request.trim())
}

/// What a model wrote, part by part.
fn written_parts(text: &str, most: usize) -> [String; 7] {
    let mut parts = parts(text).map(|part| transcript::shortened(&part, most));
    // A model that kept to no heading has still said something.
    if parts.iter().all(String::is_empty) {
        parts[2] = transcript::shortened(text.trim(), most);
    }
    parts
}

/// What is kept of an earlier summary: all but what is said anew each time, the rules, what is under way and what is next.
fn carried_parts(summary: &str, most: usize) -> [String; 7] {
    let summary = summary.rsplit_once(UNDER_WAY).map_or(summary, |(before, _)| before);
    let mut parts = parts(summary);
    if let Some((before, _)) = parts[1].split_once(RULES_FOLLOW) {
        parts[1].truncate(before.len());
    }
    parts[6].clear();
    parts.map(|part| transcript::shortened(part.trim(), MAX_CARRIED.min(most)))
}

/// What stands under each of the seven headings.
fn parts(written: &str) -> [String; 7] {
    let mut parts: [String; 7] = Default::default();
    let mut current = None;
    for line in written.lines() {
        match heading(line) {
            Some(index) => current = Some(index),
            None => {
                if let Some(index) = current {
                    parts[index].push_str(line);
                    parts[index].push('\n');
                }
            }
        }
    }
    parts.map(|part| part.trim().to_owned())
}

/// The number of the heading that the line is, however the model decorates it.
fn heading(line: &str) -> Option<usize> {
    let bare = line.trim_matches(|c: char| !c.is_alphabetic()).to_lowercase();
    let is_heading =
        line.trim_start().starts_with(['#', '*']) || line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    PARTS.iter().position(|part| is_heading && bare == part.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 100_000;

    fn facts() -> Facts {
        Facts {
            requests: vec!["build it".to_owned()],
            files: vec!["a.rs (changed)".to_owned()],
            commands: vec!["make -> ok".to_owned()],
            under_way: Some("build it\nnow".to_owned()),
            ..Facts::default()
        }
    }

    #[test]
    fn rules_and_facts_stand_whatever_the_model_wrote() {
        let rules = ["Never push.".to_owned()];
        let written = "## What the person wants\nA build.\n\n**3. Decisions and reasons**\nUse make, it is there.\n# Open problems\nnone";
        let text = compose(Words::Written(written), &facts(), &rules, Some("/conversation_history/x.md"), WINDOW);
        for part in [
            "A build.",
            "- Never push.",
            "Use make, it is there.",
            "- a.rs (changed)",
            "- make -> ok",
            "build it\nnow",
            "x.md",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("- build it\n"), "{text}");
        let without = compose(Words::None, &facts(), &rules, None, WINDOW);
        assert!(without.contains("- build it") && without.contains("- Never push."), "{without}");
        let formless = compose(Words::Written("I would say that all is well."), &facts(), &rules, None, WINDOW);
        assert!(formless.contains("all is well"), "{formless}");
    }

    #[test]
    fn the_request_under_way_can_be_read_back() {
        let text = compose(Words::None, &facts(), &[], None, WINDOW);
        assert_eq!(under_way(&text), Some("build it\nnow"));
        assert_eq!(under_way(&compose(Words::None, &Facts::default(), &[], None, WINDOW)), None);
    }

    #[test]
    fn an_earlier_summary_outlives_one_that_no_model_writes() {
        let rules = ["Never push.".to_owned()];
        let written = "## Decisions and reasons\nUse make, it is there.\n## Next steps\nRun it.";
        let first = compose(Words::Written(written), &facts(), &rules, None, WINDOW);
        let mut last = first;
        for _ in 0..20 {
            last = compose(Words::Earlier(&last), &facts(), &rules, None, WINDOW);
        }
        for part in ["Use make, it is there.", "- build it", "- make -> ok", "## The request that you"] {
            assert!(last.contains(part), "{part} in {last}");
        }
        assert_eq!(last.matches("Never push.").count(), 1, "{last}");
        assert_eq!(last.matches(UNDER_WAY).count(), 1, "{last}");
        assert!(!last.contains("Run it."), "what was next then is not next now: {last}");
        assert!(last.len() < 7 * MAX_CARRIED + 2000, "{}", last.len());
    }
}

//! The summary that stands in for what was replaced: seven parts, of which a model may write what no fact tells. Pure.

use std::{fmt::Write as _, sync::Arc};

use agentd_core::{
    context::CompactionStrategy,
    ids::SessionId,
    item::Item,
    model::{Message, ModelRequest},
};

use super::{facts::Facts, transcript};

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
/// Bytes of one part of a model's summary at the most: what a model repeats without end must not fill the window anew.
const MAX_PART: usize = 6000;

/// Asks a model for the parts that no fact tells.
pub(crate) fn request(
    session_id: SessionId,
    instructions: &str,
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
    let text = format!("<history>\n{}\n</history>", transcript::within(items, bytes));
    ModelRequest {
        session_id,
        messages: vec![Message::System { text: system }, Message::User { text }],
        tools: Arc::from([]),
        known_paths: Vec::new(),
    }
}

/// Puts a summary together. What a model wrote is under its headings; what is known for certain stands there whatever it
/// wrote.
pub(crate) fn compose(written: Option<&str>, facts: &Facts, rules: &[String], path: Option<&str>) -> String {
    let mut parts = written.map(parts).unwrap_or_default();
    // A model that kept to no heading has still said something.
    if let (Some(text), true) = (written, parts.iter().all(String::is_empty)) {
        parts[2] = shortened(text.trim());
    }
    let certain: [Vec<String>; 7] = [
        facts.requests.clone(),
        rules.to_vec(),
        Vec::new(),
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
        let listed = if index == 0 && !said.is_empty() { &[] } else { certain[index].as_slice() };
        if said.is_empty() && listed.is_empty() {
            continue;
        }
        let _ = write!(text, "\n\n## {heading}\n");
        if !said.is_empty() {
            let _ = writeln!(text, "{said}");
        }
        if index == 1 && !listed.is_empty() {
            text.push_str("The person said, word for word:\n");
        }
        for line in listed {
            let _ = writeln!(text, "- {line}");
        }
        text.truncate(text.trim_end().len());
    }
    if let Some(request) = &facts.under_way {
        let _ = write!(text, "\n\n## The request that you are working on, word for word\n{request}");
    }
    text
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
    parts.map(|part| shortened(part.trim()))
}

fn shortened(part: &str) -> String {
    transcript::shortened(part, MAX_PART)
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
        let text = compose(Some(written), &facts(), &rules, Some("/conversation_history/x.md"));
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
        let without = compose(None, &facts(), &rules, None);
        assert!(without.contains("- build it") && without.contains("- Never push."), "{without}");
        let formless = compose(Some("I would say that all is well."), &facts(), &rules, None);
        assert!(formless.contains("all is well"), "{formless}");
    }
}

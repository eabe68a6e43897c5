//! Expectations, and the facts of a play that they are held to.

use agentd_core::{
    event::{Event, EventKind},
    interrupt::Ask,
    item::ItemBody,
    turn::TurnResult,
    usage::Usage,
};
use regex::Regex;
use serde::Deserialize;

/// Expectations of a test. What is absent is not looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Expectations {
    /// Why the last turn ends, such as `completed`.
    end: Option<String>,
    /// The last answer.
    text: TextExpectations,
    /// Tools that were called.
    tools: ToolExpectations,
    /// Tools that a person was asked about, in order.
    asked: Option<Vec<String>>,
    /// Files that were changed.
    files: FileExpectations,
    /// Cost of all turns.
    cost: CostExpectations,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TextExpectations {
    equals: Option<String>,
    contains: Vec<String>,
    excludes: Vec<String>,
    matches: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ToolExpectations {
    called: Vec<String>,
    not_called: Vec<String>,
    /// Most calls.
    at_most: Option<usize>,
    /// Set if no call may fail.
    no_failures: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileExpectations {
    changed: Vec<String>,
    not_changed: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CostExpectations {
    max_steps: Option<u32>,
    max_tokens: Option<u64>,
    /// In US dollars. A play of which a price is not known fails it.
    max_usd: Option<f64>,
}

/// Facts of the turns that were played.
#[derive(Debug, Default)]
pub(super) struct PlayedTurns {
    last: Option<TurnResult>,
    called: Vec<String>,
    failed: Vec<String>,
    asked: Vec<String>,
    changed: Vec<String>,
    steps: u32,
    usage: Usage,
}

impl PlayedTurns {
    /// Takes note of an event.
    pub(super) fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ItemCompleted { item, .. } => match &item.body {
                ItemBody::ToolCall(call) => self.called.push(call.name.clone()),
                ItemBody::ToolResult(result) => {
                    if let Some(error) = result.error {
                        self.failed.push(format!("{} ({})", result.name, error.as_str()));
                    }
                }
                _ => {}
            },
            EventKind::InterruptRaised { interrupt } => {
                if let Ask::Approval { tool, .. } = &interrupt.ask {
                    self.asked.push(tool.clone());
                }
            }
            EventKind::TurnEnded { result } => {
                self.steps += result.steps;
                self.usage += result.usage;
                self.changed.extend(result.files.iter().map(|file| file.path.clone()));
                self.last = Some((**result).clone());
            }
            _ => {}
        }
    }
}

impl Expectations {
    /// Refuses what could never be looked at.
    pub(super) fn check(&self) -> Result<(), String> {
        self.pattern().map(drop)
    }

    fn pattern(&self) -> Result<Option<Regex>, String> {
        let pattern = self.text.matches.as_deref().map(Regex::new).transpose();
        pattern.map_err(|error| format!("expect.text.matches is no regular expression: {error}"))
    }

    /// Everything that is not as expected, a sentence each.
    pub(super) fn failures(&self, played: &PlayedTurns) -> anyhow::Result<Vec<String>> {
        let mut failures = Vec::new();
        let Some(last) = &played.last else { return Ok(vec!["no turn came to an end".to_owned()]) };
        let end = serde_json::to_value(last.stop_reason)?;
        let end = end.as_str().unwrap_or_default();
        match &self.end {
            Some(expected) if expected != end => failures.push(format!("expected end: {expected}, and it is {end}")),
            _ => {}
        }
        self.text_failures(&last.text, &mut failures)?;
        self.tool_failures(played, &mut failures);
        self.file_failures(played, &mut failures);
        self.cost_failures(played, &mut failures);
        Ok(failures)
    }

    fn text_failures(&self, text: &str, failures: &mut Vec<String>) -> anyhow::Result<()> {
        let TextExpectations { equals, contains, excludes, .. } = &self.text;
        let answer = || format!("the answer is: {}", crate::report::cut(text, 2000));
        if let Some(equals) = equals.as_ref().filter(|equals| equals.trim_end() != text.trim_end()) {
            failures.push(format!("expected the answer {equals:?}; {}", answer()));
        }
        for part in contains.iter().filter(|part| !text.contains(part.as_str())) {
            failures.push(format!("expected {part:?} in the answer; {}", answer()));
        }
        for part in excludes.iter().filter(|part| text.contains(part.as_str())) {
            failures.push(format!("expected no {part:?} in the answer; {}", answer()));
        }
        if let Some(pattern) = self.pattern().map_err(anyhow::Error::msg)?
            && !pattern.is_match(text)
        {
            failures.push(format!("expected the answer to match {:?}; {}", pattern.as_str(), answer()));
        }
        Ok(())
    }

    fn tool_failures(&self, played: &PlayedTurns, failures: &mut Vec<String>) {
        let ToolExpectations { called, not_called, at_most, no_failures } = &self.tools;
        let was_called = |tool: &&String| played.called.contains(*tool);
        for tool in called.iter().filter(|tool| !was_called(tool)) {
            failures.push(format!("expected a call of {tool}; called were: {}", listed(&played.called)));
        }
        for tool in not_called.iter().filter(was_called) {
            failures.push(format!("expected no call of {tool}"));
        }
        if let Some(most) = at_most.filter(|most| played.called.len() > *most) {
            let calls = played.called.len();
            failures.push(format!("expected at most {most} calls; there are {calls}: {}", listed(&played.called)));
        }
        if *no_failures && !played.failed.is_empty() {
            failures.push(format!("expected no failed call; failed: {}", listed(&played.failed)));
        }
        if let Some(asked) = self.asked.as_ref().filter(|asked| **asked != played.asked) {
            failures.push(format!(
                "expected to be asked about {}; asked was: {}",
                listed(asked),
                listed(&played.asked)
            ));
        }
    }

    fn file_failures(&self, played: &PlayedTurns, failures: &mut Vec<String>) {
        let is_changed = |path: &&String| played.changed.contains(*path);
        for path in self.files.changed.iter().filter(|path| !is_changed(path)) {
            failures.push(format!("expected a change of {path}; changed were: {}", listed(&played.changed)));
        }
        for path in self.files.not_changed.iter().filter(is_changed) {
            failures.push(format!("expected no change of {path}"));
        }
    }

    fn cost_failures(&self, played: &PlayedTurns, failures: &mut Vec<String>) {
        let CostExpectations { max_steps, max_tokens, max_usd } = self.cost;
        if let Some(most) = max_steps.filter(|most| played.steps > *most) {
            failures.push(format!("expected at most {most} steps; there are {}", played.steps));
        }
        if let Some(most) = max_tokens.filter(|most| played.usage.tokens() > *most) {
            failures.push(format!("expected at most {most} tokens; there are {}", played.usage.tokens()));
        }
        let Some(most) = max_usd else { return };
        match played.usage.cost_microusd.filter(|_| played.usage.unpriced_calls == 0) {
            // Millionths are far below what a float cannot hold.
            #[expect(clippy::cast_precision_loss, reason = "money for a comparison, far below 2^52")]
            Some(cost) if cost as f64 / 1e6 > most => {
                failures.push(format!("expected at most ${most}; it costs ${}", cost as f64 / 1e6));
            }
            Some(_) => {}
            None => failures.push(format!("expected at most ${most}; the price of its model calls is not known")),
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

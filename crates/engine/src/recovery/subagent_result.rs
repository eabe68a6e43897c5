//! What the model that delegated is told of a subagent's work. Pure.

use agentd_core::{
    agent::Subagent,
    event::EventKind,
    item::{Item, ItemBody},
    tool::{FileChange, ToolErrorCode, ToolOutput},
    turn::{Denial, StopReason, TurnResult},
    undo::folded,
    usage::Usage,
};
use serde_json::json;

use crate::{state_changes::ROOT, turn::side_effects::DelegatedWork};

/// Output of the call that a subagent worked for, and what that work means for the turn.
#[derive(Debug)]
pub(crate) struct SubagentOutput {
    pub(crate) output: ToolOutput,
    pub(crate) delegated: DelegatedWork,
}

/// Result of a subagent's work for one call, as far as it is known.
#[derive(Debug)]
pub(crate) struct SubagentResult {
    subagent: Subagent,
    /// Results of its turns, in order.
    turns: Vec<TurnResult>,
    files: Vec<FileChange>,
    usage: Usage,
    steps: u32,
    /// Why the parent told it to end.
    stopped: Option<StopReason>,
    /// Why nobody knows its end.
    lost: Option<String>,
}

impl SubagentResult {
    pub(crate) fn new(subagent: Subagent) -> Self {
        Self {
            subagent,
            turns: Vec::new(),
            files: Vec::new(),
            usage: Usage::default(),
            steps: 0,
            stopped: None,
            lost: None,
        }
    }

    pub(crate) fn subagent(&self) -> &Subagent {
        &self.subagent
    }

    /// Takes in what the subagent's journal tells.
    pub(crate) fn take_in(&mut self, fact: &EventKind) {
        match fact {
            EventKind::UsageUpdated { usage, .. } => {
                self.usage += *usage;
                self.steps = self.steps.saturating_add(1);
            }
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => {
                // What it keeps in its own state is no file that the parent could see. Whether it or another subagent
                // changed a file is one to the turn of the parent; only after a crash may it have been somebody else.
                let is_cut_off = result.error == Some(ToolErrorCode::UnknownOutcome);
                let shared = result.files.iter().filter(|file| !file.path.starts_with(ROOT));
                self.files.extend(shared.map(|file| FileChange { late: file.late && is_cut_off, ..file.clone() }));
            }
            EventKind::TurnEnded { result } => self.turns.push((**result).clone()),
            _ => {}
        }
    }

    /// The parent told it to end.
    pub(crate) fn stopped_for(&mut self, reason: StopReason) {
        self.stopped.get_or_insert(reason);
    }

    /// Nobody will hear its end.
    pub(crate) fn end_lost(&mut self, why: String) {
        self.lost = Some(why);
    }

    /// It could not be followed at all.
    pub(crate) fn lost(mut self, why: &str) -> SubagentOutput {
        self.end_lost(why.to_owned());
        self.output()
    }

    /// Result of its last turn.
    pub(crate) fn last(&self) -> Option<&TurnResult> {
        self.turns.last()
    }

    /// Returns whether it has come to an answer, whatever became of the question for detail.
    pub(crate) fn has_answered(&self) -> bool {
        self.turns.iter().any(|turn| turn.stop_reason == StopReason::Completed)
    }

    /// Returns whether it shall be asked for detail: it came to its end, said little, and was not asked yet.
    pub(crate) fn wants_detail(&self, short: usize) -> bool {
        let [only] = self.turns.as_slice() else { return false };
        self.stopped.is_none()
            && self.lost.is_none()
            && only.stop_reason == StopReason::Completed
            && only.text.trim().chars().nth(short - 1).is_none()
    }

    /// Calls that it was denied, each under its name.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        let named = |denial: &Denial| {
            let tool = format!("{} of {}", denial.tool, self.subagent.name);
            Denial { tool, ..denial.clone() }
        };
        self.turns.iter().flat_map(|turn| &turn.denials).map(named).collect()
    }

    /// The part that concerns the turn, where there is one. A run that asks nobody and shall fail then fails with it.
    fn delegated(&self) -> DelegatedWork {
        let denials = self.denials();
        let fails = !denials.is_empty() && self.last().is_some_and(|last| last.stop_reason == StopReason::Denied);
        DelegatedWork { usage: self.usage, denials, fails }
    }

    /// The result of the call.
    pub(crate) fn output(self) -> SubagentOutput {
        let reason = self.stopped.or(self.last().map(|last| last.stop_reason));
        let error = self.error(reason);
        let said = self.said();
        let mut result = json!({
            "ok": error.is_none(),
            "result": said.unwrap_or_default(),
            "context_id": self.subagent.session_id,
            "loops": self.steps,
        });
        if let Some((_, why)) = &error {
            result["error"] = why.as_str().into();
        }
        let (error, files) = (error.map(|(code, _)| code), folded(&self.files));
        let output = ToolOutput { text: result.to_string(), error, files, ..ToolOutput::default() };
        SubagentOutput { output, delegated: self.delegated() }
    }

    /// Its answer. Where it was asked for detail and came to nothing, what it had said before.
    fn said(&self) -> Option<&str> {
        let whole = self.turns.iter().rev().filter(|turn| turn.stop_reason == StopReason::Completed);
        let any = self.turns.iter().rev();
        whole.chain(any).map(|turn| turn.text.as_str()).find(|text| !text.trim().is_empty())
    }

    fn error(&self, reason: Option<StopReason>) -> Option<(ToolErrorCode, String)> {
        use ToolErrorCode::{Cancelled, Tool, UnknownOutcome};
        let go_on = "call delegate_task with this context_id to continue it";
        if let (Some(why), None) = (&self.lost, self.stopped) {
            return Some((Tool, format!("the subagent's end is not known: {why}")));
        }
        let told = |what: &str| format!("{what}; what it had until then is in `result`; {go_on}");
        match reason? {
            StopReason::Completed => None,
            StopReason::Cancelled | StopReason::Suspended => {
                Some((Cancelled, format!("the subagent was cancelled; what it did until then is done; {go_on}")))
            }
            // Asked for detail it could not give any: its first answer stands.
            _ if self.has_answered() && self.stopped.is_none() => None,
            StopReason::MaxSteps => Some((Tool, told("the subagent came to the limit of its steps"))),
            StopReason::TimeLimit => Some((Tool, told("the time of the turn was over before the subagent ended"))),
            StopReason::Budget => Some((Tool, told("the tokens of the turn were spent before the subagent ended"))),
            StopReason::Loop => Some((Tool, told("the subagent repeated the same calls with the same results"))),
            StopReason::NoAnswer => Some((Tool, told("the subagent's model gave no answer"))),
            StopReason::Cut => Some((Tool, told("the subagent's answer is cut"))),
            StopReason::WrongForm => Some((Tool, told("the subagent's answer is in the wrong form"))),
            StopReason::Filtered => Some((Tool, told("the provider withheld the subagent's answer"))),
            StopReason::Interrupted => Some((UnknownOutcome, interrupted(go_on))),
            StopReason::Denied => Some((Tool, format!("the subagent needed an answer and got none; {go_on}"))),
            StopReason::Failed => {
                let why = self.last().and_then(|last| last.error.as_ref()).map_or("", |error| &error.message);
                Some((Tool, format!("the subagent failed: {why}; {go_on}, or do it another way")))
            }
        }
    }

    /// Output for one that a stop of the daemon cut off.
    pub(crate) fn cut_off(self) -> SubagentOutput {
        let result = json!({
            "ok": false,
            "result": "",
            "context_id": self.subagent.session_id,
            "loops": self.steps,
            "error": interrupted("call delegate_task with this context_id to continue it"),
        });
        let failed = ToolOutput::error(ToolErrorCode::UnknownOutcome, result.to_string());
        SubagentOutput { output: ToolOutput { files: folded(&self.files), ..failed }, delegated: self.delegated() }
    }
}

fn interrupted(go_on: &str) -> String {
    format!("the daemon stopped while the subagent worked; what it had done is done, and it knows of it; {go_on}")
}

/// The start of a text, on one line.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if line.chars().count() + word.chars().count() >= most {
            let room = most.saturating_sub(line.chars().count() + 1);
            line.extend(word.chars().take(room));
            line.push('…');
            return line.trim_start().to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    line.trim_start().to_owned()
}

//! Detection of unusable answers, and the end of the turn if retries do not help. No side effects. A link writes the
//! notice for the model.

use agentd_core::{
    model::{Finish, UnrunReason},
    turn::StopReason,
};

/// Maximum number of retries in a row.
const MAX_RETRIES: u32 = 2;

/// Maximum size of a runaway answer after which the model is asked again, in bytes.
const MAX_RETRY_BYTES: usize = 256 << 10;

/// Maximum length of a tool name in a notice, in characters. Bounded because the name comes from a model.
const MAX_NAME: usize = 64;

/// Reason why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The answer has neither text nor calls; it may have reasoning.
    Empty { has_reasoning: bool },
    /// The token limit cut the answer's text, which can be continued.
    CutText,
    /// The token limit was reached before the first text.
    CutReasoning,
    /// The token limit cut the answer's last call.
    CutCall { tool: String },
    /// The answer was cut because it repeated endlessly. There is no retry if the answer is too long to be sent
    /// again.
    Runaway { is_long: bool },
    /// The answer contains a call written as text, in an unrecognised syntax.
    ForeignCall { tool: String },
    /// The answer contains text that may be a call, or only an example of a call.
    DoubtfulCall { tool: String },
    /// The provider withheld the answer or the rest of it.
    Filtered,
    /// The answer does not match the required schema, for these reasons.
    WrongForm { reasons: Vec<String> },
}

/// Returns the reason why an answer cannot be used, if there is one. `text_bytes` is the length of the answer's text,
/// or 0 if the text is blank.
pub(crate) fn problem(
    finish: Finish,
    text_bytes: usize,
    has_reasoning: bool,
    has_calls: bool,
    unrun: Option<&(String, UnrunReason)>,
) -> Option<Problem> {
    let (tool, reason) = unrun.map_or((String::new(), None), |(tool, reason)| {
        (tool.chars().filter(|letter| !letter.is_control()).take(MAX_NAME).collect(), Some(*reason))
    });
    Some(match (finish, reason) {
        (Finish::Filtered, _) => Problem::Filtered,
        (_, Some(UnrunReason::Cut)) => Problem::CutCall { tool },
        _ if has_calls => return None,
        (_, Some(UnrunReason::Foreign)) => Problem::ForeignCall { tool },
        (Finish::Runaway, _) => Problem::Runaway { is_long: text_bytes > MAX_RETRY_BYTES },
        (Finish::Length, _) if text_bytes > 0 => Problem::CutText,
        (Finish::Length, _) => Problem::CutReasoning,
        (Finish::Stop, Some(UnrunReason::Doubtful)) if text_bytes > 0 => Problem::DoubtfulCall { tool },
        (Finish::Stop, _) if text_bytes > 0 => return None,
        (Finish::Stop, _) => Problem::Empty { has_reasoning },
    })
}

impl Problem {
    /// Returns the reason for ending a turn that stops at this problem.
    fn stop_reason(&self) -> StopReason {
        match self {
            Self::Empty { .. } | Self::ForeignCall { .. } | Self::DoubtfulCall { .. } => StopReason::NoAnswer,
            Self::CutText | Self::CutReasoning | Self::CutCall { .. } | Self::Runaway { .. } => StopReason::Cut,
            Self::Filtered => StopReason::Filtered,
            Self::WrongForm { .. } => StopReason::WrongForm,
        }
    }
}

/// Consecutive unusable answers. The count restarts after a daemon restart.
#[derive(Debug, Default)]
pub(crate) struct UnusableAnswers {
    last: Option<Problem>,
    pub(crate) in_a_row: u32,
    /// True once the model was notified of the last problem.
    is_reported: bool,
    /// True if a retry would be pointless.
    is_final: bool,
}

impl UnusableAnswers {
    /// Records the problem of the last answer. There is no retry if the provider withheld the answer or if `is_final`
    /// is set, for example for the embedded model, which reads no notices.
    pub(crate) fn record(&mut self, problem: Option<Problem>, is_final: bool) {
        let Some(problem) = problem else {
            *self = Self::default();
            return;
        };
        self.is_final = is_final || matches!(problem, Problem::Filtered | Problem::Runaway { is_long: true });
        self.in_a_row += 1;
        self.is_reported = false;
        self.last = Some(problem);
    }

    /// Returns the reasons why the form of the last answer is wrong, if any.
    pub(crate) fn wrong_form(&self) -> Option<&[String]> {
        match &self.last {
            Some(Problem::WrongForm { reasons }) => Some(reasons),
            _ => None,
        }
    }

    /// Returns the reason to end the turn now, once the retries are exhausted.
    pub(crate) fn end(&self) -> Option<StopReason> {
        let last = self.last.as_ref()?;
        (self.is_final || self.in_a_row > MAX_RETRIES).then(|| last.stop_reason())
    }

    /// Returns the problem to report to the model, once per problem, and the number of unusable answers in a row.
    pub(crate) fn take_unreported(&mut self) -> Option<(&Problem, u32)> {
        if self.is_reported || self.end().is_some() {
            return None;
        }
        self.is_reported = true;
        self.last.as_ref().map(|last| (last, self.in_a_row))
    }
}

/// Earlier text of an answer, to be joined with the next text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartialAnswer {
    /// The text was cut, and the next text continues it.
    Cut(String),
    /// The text is complete, and the next text is placed below it.
    Whole(String),
    /// The text was possibly meant as a call, and the next text replaces it.
    Doubted(String),
}

impl PartialAnswer {
    /// Joins the answer with its next text.
    pub(crate) fn with(partial: Option<&Self>, more: &str) -> String {
        match partial {
            Some(Self::Cut(text)) => format!("{text}{more}"),
            Some(Self::Whole(text)) => format!("{text}\n\n{more}"),
            Some(Self::Doubted(_)) | None => more.to_owned(),
        }
    }

    /// Returns the text of any variant.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Cut(text) | Self::Whole(text) | Self::Doubted(text) => text,
        }
    }

    /// Returns true if the text is an answer by itself.
    pub(crate) fn is_whole(&self) -> bool {
        !matches!(self, Self::Cut(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_embedded_answer_is_not_retried() {
        let mut embedded = UnusableAnswers::default();
        embedded.record(Some(Problem::CutText), true);
        assert_eq!(embedded.end(), Some(StopReason::Cut));
    }
}

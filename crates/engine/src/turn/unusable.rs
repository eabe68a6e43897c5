//! Answers that a turn cannot end with: what is wrong with one, and how the turn ends where asking again did not help.
//! Pure. What the model is told of it is said by a link.

use agentd_core::{
    model::{Finish, UnrunReason},
    turn::StopReason,
};

/// Number of times in a row that a model is told of such an answer and asked again.
const MOST_ASKS: u32 = 2;

/// The bytes of a runaway answer that a model may be asked to read again.
const MAX_READ_AGAIN: usize = 256 << 10;

/// The longest name of a tool that is told, in characters. A model wrote it.
const MAX_NAME: usize = 64;

/// Reason why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It has neither words nor calls; it may have thoughts.
    Empty { thoughts: bool },
    /// The token limit cut its words, which may be gone on with.
    CutWords,
    /// It reached the token limit before its first word.
    CutThoughts,
    /// The token limit cut its last call.
    CutCall { tool: String },
    /// It was cut because it went on without end. One that is too long to be read again is not asked for again.
    Runaway { is_long: bool },
    /// Its call came as words, in a spelling that nobody reads.
    ForeignCall { tool: String },
    /// It holds words that may be a call, or an example of one.
    DoubtfulCall { tool: String },
    /// Its provider withheld it, or the rest of it.
    Filtered,
    /// It does not match the schema that it has to be in, for these reasons.
    WrongForm { reasons: Vec<String> },
}

/// Reason why an answer cannot be used, if there is one: of so many bytes of words that are more than blanks, thoughts or not,
/// and calls or not.
pub(crate) fn problem(
    finish: Finish,
    words: usize,
    thoughts: bool,
    has_calls: bool,
    unrun: Option<&(String, UnrunReason)>,
) -> Option<Problem> {
    let (tool, why) = unrun.map_or((String::new(), None), |(tool, why)| {
        (tool.chars().filter(|letter| !letter.is_control()).take(MAX_NAME).collect(), Some(*why))
    });
    Some(match (finish, why) {
        (Finish::Filtered, _) => Problem::Filtered,
        (_, Some(UnrunReason::Cut)) => Problem::CutCall { tool },
        _ if has_calls => return None,
        (_, Some(UnrunReason::Foreign)) => Problem::ForeignCall { tool },
        (Finish::Runaway, _) => Problem::Runaway { is_long: words > MAX_READ_AGAIN },
        (Finish::Length, _) if words > 0 => Problem::CutWords,
        (Finish::Length, _) => Problem::CutThoughts,
        (Finish::Stop, Some(UnrunReason::Doubtful)) if words > 0 => Problem::DoubtfulCall { tool },
        (Finish::Stop, _) if words > 0 => return None,
        (Finish::Stop, _) => Problem::Empty { thoughts },
    })
}

impl Problem {
    /// Why a turn ends that comes to nothing else.
    fn stop_reason(&self) -> StopReason {
        match self {
            Self::Empty { .. } | Self::ForeignCall { .. } | Self::DoubtfulCall { .. } => StopReason::NoAnswer,
            Self::CutWords | Self::CutThoughts | Self::CutCall { .. } | Self::Runaway { .. } => StopReason::Cut,
            Self::Filtered => StopReason::Filtered,
            Self::WrongForm { .. } => StopReason::WrongForm,
        }
    }
}

/// The answers in a row that could not be used. It begins anew after a restart.
#[derive(Debug, Default)]
pub(crate) struct UnusableAnswers {
    last: Option<Problem>,
    pub(crate) in_a_row: u32,
    /// Set once the model has been told of the last one.
    is_told: bool,
    /// Set where telling the model is of no use.
    is_final: bool,
}

impl UnusableAnswers {
    /// Takes in what is wrong with the last answer. Nobody is asked again for what its provider withheld, or where that is of
    /// no use: the embedded model reads no notices.
    pub(crate) fn take(&mut self, problem: Option<Problem>, is_final: bool) {
        let Some(problem) = problem else {
            *self = Self::default();
            return;
        };
        self.is_final = is_final || matches!(problem, Problem::Filtered | Problem::Runaway { is_long: true });
        self.in_a_row += 1;
        self.is_told = false;
        self.last = Some(problem);
    }

    /// Reasons why the form of the last answer is wrong, where it is.
    pub(crate) fn wrong_form(&self) -> Option<&[String]> {
        match &self.last {
            Some(Problem::WrongForm { reasons }) => Some(reasons),
            _ => None,
        }
    }

    /// Why the turn ends now, if asking again has not helped.
    pub(crate) fn end(&self) -> Option<StopReason> {
        let last = self.last.as_ref()?;
        (self.is_final || self.in_a_row > MOST_ASKS).then(|| last.stop_reason())
    }

    /// The problem that the model is to be told of, once, and its number in a row.
    pub(crate) fn tell(&mut self) -> Option<(&Problem, u32)> {
        if self.is_told || self.end().is_some() {
            return None;
        }
        self.is_told = true;
        self.last.as_ref().map(|last| (last, self.in_a_row))
    }
}

/// Words of an answer that the next ones belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BegunAnswer {
    /// They were cut: the next ones go on where they stop.
    Cut(String),
    /// They are whole, and the next ones stand below them.
    Whole(String),
    /// They may have been meant as a call: the next ones take their place.
    Doubted(String),
}

impl BegunAnswer {
    /// The answer with its next words.
    pub(crate) fn with(begun: Option<&Self>, more: &str) -> String {
        match begun {
            Some(Self::Cut(text)) => format!("{text}{more}"),
            Some(Self::Whole(text)) => format!("{text}\n\n{more}"),
            Some(Self::Doubted(_)) | None => more.to_owned(),
        }
    }

    /// The words themselves.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Cut(text) | Self::Whole(text) | Self::Doubted(text) => text,
        }
    }

    /// Returns whether they are an answer by themselves.
    pub(crate) fn is_whole(&self) -> bool {
        !matches!(self, Self::Cut(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_model_that_is_cut_is_not_asked_again() {
        let mut embedded = UnusableAnswers::default();
        embedded.take(Some(Problem::CutWords), true);
        assert_eq!(embedded.end(), Some(StopReason::Cut));
    }
}

//! The model that a conversation is written for: which of what servers sent it gets back, and in which form.

use agentd_core::origin::{AnswerOrigin, ServerFields};
use serde_json::value::RawValue;

/// Gemini's own word for a call that another model made: from its third version on it demands a signature of each step.
const NO_SIGNATURE: &str = r#"{"google":{"thought_signature":"skip_thought_signature_validator"}}"#;

/// The model that a conversation is written for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipient<'a> {
    /// Its id.
    pub(super) id: &'a str,
    /// Its name in the origin of what it said.
    pub(super) origin: &'a str,
    /// Set if it wants earlier thoughts back.
    pub(super) wants_thoughts: bool,
    /// Set if it takes no words of the person right behind a tool's result.
    pub(super) wants_turns: bool,
}

impl Recipient<'_> {
    /// The thoughts of an answer, if it wants them. Such models demand the field beside calls also where the answer has none:
    /// it is of another model, or its thoughts were not kept.
    pub(super) fn thoughts<'a>(
        &self,
        reasoning: Option<&'a str>,
        origin: &'a AnswerOrigin,
        has_calls: bool,
    ) -> Option<&'a str> {
        let own = reasoning.or(origin.unsent_reasoning.as_deref());
        let thoughts = own.filter(|_| !origin.is_thought_by_another(self.origin)).or(has_calls.then_some(""));
        thoughts.filter(|_| self.wants_thoughts)
    }

    /// Signed thoughts of an answer, if it was its own.
    pub(super) fn details<'a>(&self, origin: &'a AnswerOrigin) -> Option<&'a RawValue> {
        origin.details_of(self.origin).and_then(raw)
    }

    /// The signature of a call: its own, or the word for one of another model, in the place where it demands one.
    pub(super) fn extra_content<'a>(&self, own: Option<&'a ServerFields>, is_first: bool) -> Option<&'a RawValue> {
        match own {
            Some(fields) => raw(fields.extra_content.as_deref()?),
            None if is_first && demands_signatures(self.id) => raw(NO_SIGNATURE),
            None => None,
        }
    }
}

/// Returns whether the id is that of a Gemini that refuses calls without a signature.
fn demands_signatures(id: &str) -> bool {
    let version = id.strip_prefix("models/").unwrap_or(id).strip_prefix("gemini-");
    let major = version.and_then(|version| version.split(|letter: char| !letter.is_ascii_digit()).next());
    major.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 3)
}

/// JSON as it came; none where it is none, as in a journal that was changed by hand.
fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_another_model_says_so_to_gemini() {
        let check = |id: &str, demands: bool| {
            let recipient = Recipient { id, origin: "", wants_thoughts: false, wants_turns: false };
            let first = recipient.extra_content(None, true).map(RawValue::get);
            assert_eq!(first, demands.then_some(NO_SIGNATURE), "{id}");
            assert!(recipient.extra_content(None, false).is_none());
            // Its own are as they came, also where none had come.
            assert!(recipient.extra_content(Some(&ServerFields::default()), true).is_none());
        };
        check("gemini-3-pro-preview", true);
        check("models/gemini-3.6-flash", true);
        check("gemini-12-x", true);
        check("gemini-2.5-pro", false);
        check("gemini-flash-latest", false);
        check("google/gemini-3-pro", false);
        check("gpt-5", false);
    }
}

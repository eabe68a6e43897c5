//! What a server refused. Each field is dropped or renamed once, and stays so for the life of the model, so that a
//! server that does not know it costs one refused request and no more.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::AdaptedForm;

/// Facts learnt of a server.
#[derive(Debug, Default)]
pub(super) struct Adaptation {
    without_stream_options: AtomicBool,
    max_completion_tokens: AtomicBool,
    without_temperature: AtomicBool,
    without_named_tools: AtomicBool,
}

impl Adaptation {
    /// Returns whether the usage is asked for.
    pub(super) fn asks_for_usage(&self) -> bool {
        !self.without_stream_options.load(Ordering::Relaxed)
    }

    /// Returns whether the limit of the answer goes by its newer name.
    pub(super) fn renames_max_tokens(&self) -> bool {
        self.max_completion_tokens.load(Ordering::Relaxed)
    }

    /// Returns whether the temperature may be sent.
    pub(super) fn sends_temperature(&self) -> bool {
        !self.without_temperature.load(Ordering::Relaxed)
    }

    /// Returns whether tools may be named that must not be called.
    pub(super) fn names_tools_only(&self) -> bool {
        !self.without_named_tools.load(Ordering::Relaxed)
    }

    /// Takes note that no such tools are to be named any more.
    pub(super) fn name_tools_no_more(&self) {
        learn(&self.without_named_tools);
    }

    /// Learns from what a server said, in lower case, when it refused a request, which may have named tools that must
    /// not be called (`named_only`); says what is changed, if anything. Whether it was the tools is not known before the
    /// same request was taken without them.
    pub(super) fn adapt(&self, refusal: &str, named_only: bool) -> Option<AdaptedForm> {
        let names_a_field = |fields: &[&str]| fields.iter().any(|field| refusal.contains(field));
        // The field is in the last request of a turn only: where no other is named, it is the first to be suspected.
        let names_another = names_a_field(&["max_completion_tokens", "temperature", "stream_options", "include_usage"]);
        if named_only && (!names_another || names_a_field(&["tool_choice"])) {
            let change = "the server may not take tools that may not be called, asking without tools";
            return Some(AdaptedForm::TryWithoutTools(change.to_owned()));
        }
        let learnt = |change: &str| Some(AdaptedForm::Learnt(change.to_owned()));
        if names_a_field(&["max_completion_tokens"]) && learn(&self.max_completion_tokens) {
            return learnt("the server expects max_completion_tokens instead of max_tokens");
        }
        if names_a_field(&["temperature"]) && learn(&self.without_temperature) {
            return learnt("the server refuses the temperature, asking without it");
        }
        let vague = ["unknown", "unrecognized", "unsupported", "not supported", "not permitted", "extra", "unexpected"];
        if (names_a_field(&["stream_options", "include_usage"]) || names_a_field(&vague))
            && learn(&self.without_stream_options)
        {
            return learnt("the server refuses stream_options, asking without them");
        }
        None
    }
}

/// Sets a flag and returns whether it is new.
fn learn(flag: &AtomicBool) -> bool {
    !flag.swap(true, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_learnt_once() {
        let adaptation = Adaptation::default();
        let refusal = "unsupported parameter: 'max_tokens'. use 'max_completion_tokens' instead.";
        assert!(adaptation.adapt(refusal, false).is_some() && adaptation.renames_max_tokens());
        assert!(
            adaptation.adapt("'temperature' does not support 0.2", true).is_some() && !adaptation.sends_temperature()
        );
        assert!(adaptation.adapt("extra inputs: stream_options", true).is_some() && !adaptation.asks_for_usage());
        assert!(adaptation.names_tools_only());
        assert_eq!(adaptation.adapt(refusal, false), None);
        assert_eq!(adaptation.adapt("the model is on fire", false), None);
        assert_eq!(adaptation.adapt("extra inputs are not permitted", false), None);
        let tried = adaptation.adapt("extra inputs are not permitted", true);
        assert!(matches!(tried, Some(AdaptedForm::TryWithoutTools(_))) && adaptation.names_tools_only());
        adaptation.name_tools_no_more();
        assert!(!adaptation.names_tools_only());
    }
}

//! Events into the answer.

use agentd_core::{model::Finish, usage::Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    answer::{Answer, Kind, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        dialect::AnswerReader,
        lenient::{Count, Text},
        openai::Timings,
    },
};

/// Reads one answer.
pub(super) struct Reader;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    #[serde(default)]
    stop: bool,
    #[serde(borrow)]
    stop_type: Option<Text<'a>>,
    /// Older servers' mark that the limit was reached.
    #[serde(default)]
    stopped_limit: bool,
    tokens_predicted: Option<Count>,
    tokens_evaluated: Option<Count>,
    timings: Option<Timings>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    /// Message of an error that comes without a wrapping.
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

impl AnswerReader for Reader {
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let data = data.trim();
        if data == "[DONE]" {
            answer.done = true;
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| Failure::unreadable(target, data, &error))?;
        if let Some(error) = chunk.error {
            return Err(Failure::reported(target, error.get()));
        }
        if chunk.content.is_none() && chunk.message.is_some() {
            return Err(Failure::reported(target, data));
        }
        if let Some(words) = &chunk.content {
            answer.push(Kind::Text, words.as_str())?;
        }
        if chunk.stop {
            let by_limit = chunk.stopped_limit || chunk.stop_type.as_ref().is_some_and(|kind| kind.as_str() == "limit");
            answer.finish = Some(if by_limit { Finish::Length } else { Finish::Stop });
            answer.usage = usage(&chunk);
            // The account comes with the last event; there is nothing to wait for.
            answer.done = true;
        }
        Ok(())
    }

    fn calls(&mut self) -> Vec<RawCall> {
        Vec::new()
    }
}

fn usage(chunk: &Chunk<'_>) -> Option<Usage> {
    let counted = match (chunk.tokens_evaluated, chunk.tokens_predicted) {
        (None, None) => None,
        (evaluated, predicted) => Some(Usage {
            prompt_tokens: evaluated.unwrap_or_default().0,
            completion_tokens: predicted.unwrap_or_default().0,
            ..Usage::default()
        }),
    };
    chunk.timings.map_or(counted, |timings| Some(timings.complete(counted)))
}

//! Events into the answer.

use agentd_core::{model::Finish, origin::ServerFields, usage::Usage};
use serde_json::value::RawValue;

use super::{
    cache,
    calls::Calls,
    chunk::{Choice, Chunk, Delta},
    details::ReasoningDetails,
};
use crate::{
    answer::{Answer, Kind, RawCall},
    http::{failure::Failure, target::Target},
    wire::dialect::AnswerReader,
};

/// Reads one answer.
#[derive(Default)]
pub(super) struct Reader {
    calls: Calls,
    details: ReasoningDetails,
}

impl AnswerReader for Reader {
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let data = data.trim();
        if data == "[DONE]" {
            answer.finish.get_or_insert(Finish::Stop);
            answer.done = true;
            return Ok(());
        }
        if data.starts_with('[') {
            return self.array(target, data, answer);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| Failure::unreadable(target, data, &error))?;
        // First, for an answer that failed is paid for, too.
        account(target, &chunk, answer);
        if let Some(error) = chunk.error {
            return Err(Failure::reported(target, error.get()));
        }
        let bare = chunk.choices.is_none() && chunk.message.is_some_and(|message| message.get().starts_with('"'));
        if bare || chunk.object.is_some_and(is_error) {
            return Err(Failure::reported(target, data));
        }
        for choice in chunk.choices.iter().flatten() {
            // Only one answer is asked for; a server that sends more is read as if it had not.
            if choice.index.is_none_or(|index| index.0 == 0) {
                self.choice(target, choice, answer)?;
            }
        }
        Ok(())
    }

    fn calls(&mut self) -> Vec<RawCall> {
        self.calls.take()
    }

    fn fields(&mut self) -> Option<ServerFields> {
        let details = self.details.take()?;
        Some(ServerFields { reasoning_details: Some(details), ..ServerFields::default() })
    }
}

impl Reader {
    /// Several events in an array, in which Gemini wraps its errors.
    fn array(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let events: Vec<&RawValue> =
            serde_json::from_str(data).map_err(|error| Failure::unreadable(target, data, &error))?;
        let objects = events.iter().map(|event| event.get()).filter(|event| event.starts_with('{'));
        objects.into_iter().try_for_each(|event| self.event(target, event, answer))
    }

    fn choice(&mut self, target: &Target, choice: &Choice<'_>, answer: &mut Answer) -> Result<(), Failure> {
        for delta in [&choice.delta, &choice.message].into_iter().flatten() {
            self.delta(target, delta, answer)?;
        }
        let reason = choice.finish_reason.as_ref().map(|reason| reason.as_str()).unwrap_or_default();
        if let Some(finish) = finish(target, reason)? {
            answer.finish = Some(finish);
        }
        if choice.message.is_some() {
            answer.finish.get_or_insert(Finish::Stop);
        }
        Ok(())
    }

    fn delta(&mut self, target: &Target, delta: &Delta<'_>, answer: &mut Answer) -> Result<(), Failure> {
        answer.push(Kind::Reasoning, delta.reasoning())?;
        if let Some(details) = delta.reasoning_details {
            self.details.add(details);
            answer.size += details.get().len();
        }
        for words in [&delta.content, &delta.refusal].into_iter().flatten() {
            answer.push(Kind::Text, words.as_str())?;
        }
        let before = self.calls.argument_bytes;
        for call in delta.tool_calls.iter().flatten() {
            if let Some(what) = self.calls.add(target, call)? {
                answer.runaway = Some(what);
            }
        }
        answer.size += self.calls.argument_bytes - before;
        answer.began |= !self.calls.is_empty();
        Ok(())
    }
}

fn finish(target: &Target, reason: &str) -> Result<Option<Finish>, Failure> {
    // Gateways hand on what providers say in capitals, such as MAX_TOKENS.
    Ok(Some(match reason.to_ascii_lowercase().as_str() {
        "" => return Ok(None),
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "safety" | "sensitive" | "recitation" | "blocklist" | "prohibited_content" | "spii" => {
            Finish::Filtered
        }
        "error" | "network_error" | "insufficient_system_resource" | "engine_overloaded" => {
            return Err(Failure::reported(target, &format!("the answer broke off ({reason})")));
        }
        _ => Finish::Stop,
    }))
}

fn account(target: &Target, chunk: &Chunk<'_>, answer: &mut Answer) {
    let in_choice = || chunk.choices.iter().flatten().find_map(|choice| choice.usage.as_ref());
    let in_extension = || chunk.x_groq.as_ref().and_then(|extension| extension.usage.as_ref());
    if let Some(usage) = chunk.usage.as_ref().or_else(in_choice).or_else(in_extension) {
        // Elsewhere a field of that name may mean anything.
        let charged = usage.charged_microusd().filter(|_| cache::is_openrouter(target.host()));
        answer.usage = Some(Usage { cost_microusd: charged, ..usage.usage() });
    }
    if let Some(timings) = chunk.timings {
        answer.usage = Some(timings.complete(answer.usage));
    }
}

fn is_error(object: &RawValue) -> bool {
    object.get() == "\"error\""
}

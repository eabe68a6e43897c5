//! llama.cpp's own `/completion`: the conversation as one prompt, with tools in the text.

use std::borrow::Cow;

use agentd_core::{
    model::{Finish, Message},
    usage::Usage,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    dialect::{AnswerReader, Dialect, EncodedRequest, RequestPlan, parse},
    lenient::{Count, Text},
    openai::Timings,
};
use crate::{
    answer::{Answer, Kind, RawCall, text_protocol},
    config::{ChatTemplate, Frame},
    http::{failure::Failure, target::Target},
};

/// Dialect of llama.cpp's own API.
pub(crate) struct LlamaCpp;

impl Dialect for LlamaCpp {
    fn encode(&self, plan: &RequestPlan<'_>) -> Result<EncodedRequest, Failure> {
        let RequestPlan { config, request, .. } = *plan;
        let messages = text_protocol::conversation(&request.messages, &request.tools);
        let stops = config.chat_template.stop.iter().map(String::as_str).filter(|stop| !stop.is_empty());
        let own = (!request.tools.is_empty()).then_some(text_protocol::STOP);
        let stop: Vec<&str> = stops.chain(own).collect();
        let mut body = plan.body();
        body.set("prompt", &prompt(&config.chat_template, &messages))?;
        body.set("stream", &true)?;
        body.set("cache_prompt", &true)?;
        body.set_some("temperature", config.temperature)?;
        body.set_some("n_predict", config.max_answer_tokens(request))?;
        body.set_some("stop", Some(stop).filter(|stop| !stop.is_empty()))?;
        let path = plan.target.root_path("/completion");
        Ok(EncodedRequest { path, body: body.finish(), reader: Box::new(Reader) })
    }
}

struct Reader;

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Chunk<'a> {
    content: Option<Text<'a>>,
    stop: bool,
    stop_type: Text<'a>,
    /// Older servers' flag that the limit was reached.
    stopped_limit: bool,
    tokens_predicted: Option<Count>,
    tokens_evaluated: Option<Count>,
    timings: Option<Timings>,
    error: Option<&'a RawValue>,
    /// Message of an error without an error object.
    message: Option<&'a RawValue>,
}

impl AnswerReader for Reader {
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let chunk: Chunk<'_> = parse(target, data)?;
        if let Some(error) = chunk.error {
            return Err(Failure::reported(target, error.get()));
        }
        if chunk.content.is_none() && chunk.message.is_some() {
            return Err(Failure::reported(target, data));
        }
        if let Some(text) = &chunk.content {
            answer.push(Kind::Text, text);
        }
        if chunk.stop {
            let by_limit = chunk.stopped_limit || &*chunk.stop_type == "limit";
            answer.finish = Some(if by_limit { Finish::Length } else { Finish::Stop });
            answer.usage = usage(&chunk);
            // The last event includes the usage, so nothing else is expected.
            answer.done = true;
        }
        Ok(())
    }

    fn calls(&mut self) -> Vec<RawCall> {
        Vec::new()
    }
}

fn usage(chunk: &Chunk<'_>) -> Option<Usage> {
    let counts = match (chunk.tokens_evaluated, chunk.tokens_predicted) {
        (None, None) => None,
        (evaluated, predicted) => Some(Usage {
            prompt_tokens: evaluated.unwrap_or_default().0,
            completion_tokens: predicted.unwrap_or_default().0,
            ..Usage::default()
        }),
    };
    chunk.timings.map_or(counts, |timings| Some(timings.complete(counts)))
}

/// Writes the prompt, which ends with the start of the model's answer.
fn prompt(template: &ChatTemplate, messages: &[Message]) -> String {
    let markers = markers(template);
    let mut prompt = String::new();
    for message in messages {
        let (frame, text) = match message {
            Message::System { text } => (&template.system, text),
            // Results were converted to user messages before.
            Message::User { text } | Message::Pictures { text, .. } | Message::Tool { text, .. } => {
                (&template.user, text)
            }
            Message::Assistant { text, .. } => (&template.assistant, text),
        };
        prompt.push_str(&frame.before);
        prompt.push_str(&escape_markers(text, &markers));
        prompt.push_str(&frame.after);
    }
    prompt.push_str(&template.assistant.before);
    prompt
}

/// Returns the markers that must not occur in a message. Otherwise a document could impersonate the user or the system.
fn markers(template: &ChatTemplate) -> Vec<&str> {
    let frames = [&template.system, &template.user, &template.assistant];
    let frame_texts = frames.into_iter().flat_map(|Frame { before, after }| [before, after]);
    let mut markers: Vec<&str> = frame_texts
        .chain(&template.stop)
        .flat_map(|text| text.split_whitespace())
        // Plain words such as a role's name are not markers.
        .filter(|word| word.chars().any(|character| !character.is_alphanumeric()) && word.len() >= 3)
        // Only the special part of a word such as `<|im_start|>user` is a marker.
        .map(|word| word.find('>').filter(|_| word.starts_with('<')).map_or(word, |end| &word[..=end]))
        .collect();
    markers.sort_unstable();
    markers.dedup();
    markers
}

/// Inserts a blank into each marker in the text, even if markers overlap.
fn escape_markers<'a>(text: &'a str, markers: &[&str]) -> Cow<'a, str> {
    if !markers.iter().any(|marker| text.contains(marker)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for (at, letter) in text.char_indices() {
        escaped.push(letter);
        if markers.iter().any(|marker| text[at..].starts_with(marker)) {
            escaped.push(' ');
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn text_never_contains_prompt_markers(text in "[#<|>a im_start/\\[\\]INST\n]{0,60}") {
            let markers = ["###", "<|im_start|>", "<|", "[INST]", "[/INST]", "##a"];
            let safe = escape_markers(&text, &markers);
            for marker in markers {
                proptest::prop_assert!(!safe.contains(marker), "{marker} in {safe:?} of {text:?}");
            }
            proptest::prop_assert_eq!(safe.replace(' ', ""), text.replace(' ', ""));
        }
    }
}

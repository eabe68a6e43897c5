//! The rule for refused requests: retry without a part, and remember what helped.

use std::mem;

use agentd_core::{
    model::{Message, ModelChunk},
    mutex::lock,
    untrusted,
};

use super::{Call, Inner};
use crate::{
    config::Wire,
    http::{
        failure::Failure,
        refusals::{Change, SentParts, candidates, fingerprint, picture_fingerprint},
    },
};

/// Maximum number of remembered parts that the server accepted.
const MAX_UNNEEDED: usize = 4096;

/// Fields that only users set.
const USER_FIELDS: [&str; 3] = ["temperature", "max_tokens", "max_output_tokens"];

impl Call {
    /// Selects another form after a refusal, and returns its description.
    pub(super) fn adapt(&mut self, failure: &mut Failure) -> Option<String> {
        let refusal = *failure.refusal.take()?;
        let may_pass = refusal.status == 500 && self.model.facts.config.retries > 0;
        if may_pass && !mem::replace(&mut self.has_failed, true) {
            return None;
        }
        let candidates = candidates(&refusal, &self.sent(), &lock(&self.model.unneeded));
        let changes: Vec<String> = self.trials.after(refusal, candidates)?.iter().map(ToString::to_string).collect();
        Some(format!("{}; retrying {}", failure.error, changes.join(", and ")))
    }

    /// Returns the optional parts of the request in this model's usual form.
    fn sent(&self) -> SentParts {
        let Inner { facts, dialect, .. } = &*self.model;
        let (config, form) = (&facts.config, facts.form());
        let request_plan = self.model.request_plan(&self.request, &form);
        let is_native = form.native_tools(config);
        let named_only = is_native && self.names_only();
        let left_out = named_only && form.has(&Change::WithoutNamedTools);
        let tools = self.tools.iter().filter(|tool| is_native && !left_out && form.sends_tool(&tool.name));
        let is_answer = |message: &Message| matches!(message, Message::Assistant { .. });
        let messages = &self.request.messages;
        let pictures = messages.iter().flat_map(Message::pictures);
        let fields = dialect.optional_fields(&request_plan);
        let is_extra = |field: &&String| !config.body.contains_key(*field) && !USER_FIELDS.contains(&field.as_str());
        SentParts {
            tools: tools.map(|tool| tool.name.clone()).collect(),
            named_only: named_only && !left_out,
            insists_on_native: config.native_tools == Some(true),
            chosen_limit: config.wire == Wire::Anthropic && config.max_answer_tokens(&self.request).is_none(),
            signed_thoughts: messages.iter().any(has_blocks),
            history: config.wire == Wire::OpenAi && messages.iter().any(is_answer),
            text_after_results: !form.has(&Change::WordsInResults) && has_text_after_results(messages),
            echoes_reasoning: form.echoes_reasoning(config),
            schema: dialect.sent_schema(&request_plan).map(fingerprint),
            pictures: pictures.filter(|picture| form.shows(picture)).filter_map(picture_fingerprint).collect(),
            extras: fields.iter().filter(is_extra).cloned().collect(),
            fields,
        }
    }

    /// Counts the changes with which the server accepted and answered the request, and records unnecessary ones.
    pub(super) fn record_accepted_changes(&mut self) {
        let accepted = self.trials.take_accepted();
        let mut sent = self.sent();
        sent.tools.retain(|tool| {
            !accepted.contains(&Change::TextTools) && !accepted.contains(&Change::WithoutTool(tool.clone()))
        });
        sent.pictures.retain(|print| !accepted.contains(&Change::WithoutPicture(*print)));
        {
            let mut unneeded = lock(&self.model.unneeded);
            if unneeded.len() > MAX_UNNEEDED {
                unneeded.clear();
            }
            unneeded.extend(sent.unneeded().filter(|change| !accepted.contains(change)));
            self.model.facts.record.refute(&unneeded);
        }
        if accepted.contains(&Change::WithoutSignedThoughts) {
            self.model.dialect.distrust_thoughts(&self.model.request_plan(&self.request, &self.model.facts.form()));
        }
        let mut lasting: Vec<Change> = accepted.into_iter().filter(Change::is_lasting).collect();
        // A model that refused two pictures and never accepted one does not support pictures.
        let is_of_pictures = lasting.iter().any(|change| matches!(change, Change::WithoutPicture(_)));
        if is_of_pictures && !lock(&self.model.unneeded).contains(&Change::WithoutPictures) {
            lasting.push(Change::WithoutPictures);
        }
        if lasting.is_empty() {
            return;
        }
        let new = self.model.facts.count(&lasting);
        let id = &self.model.facts.info().id;
        let mut notices: Vec<ModelChunk> = new.iter().filter_map(|change| notice(change, id)).collect();
        notices.dedup();
        // Inserted before the end chunk, which must stay last.
        notices.into_iter().for_each(|notice| self.chunks.push_front(notice));
    }
}

/// Returns true if a user's text directly follows a tool result, ignoring daemon messages in between.
fn has_text_after_results(messages: &[Message]) -> bool {
    let is_from_daemon =
        |message: &&Message| matches!(message, Message::User { text } if untrusted::is_from_daemon(text));
    let relevant: Vec<&Message> = messages.iter().filter(|message| !is_from_daemon(message)).collect();
    relevant.windows(2).any(|pair| matches!(pair, [Message::Tool { .. }, Message::User { .. }]))
}

/// Returns true if a message has blocks that must be sent back to its server unchanged.
fn has_blocks(message: &Message) -> bool {
    matches!(message, Message::Assistant { origin, .. }
        if origin.whole.as_ref().is_some_and(|whole| whole.fields.blocks.is_some()))
}

/// Returns a notice that the model works without a feature. The user gets it only once.
fn notice(change: &Change, model: &str) -> Option<ModelChunk> {
    let (code, limitation) = match change {
        Change::TextTools => (
            "tools_in_text",
            "native tools, so calls are written as text, one at a time and less reliably: let it parse tool calls (llama.cpp: \
             --jinja; vLLM: --enable-auto-tool-choice and --tool-call-parser), or use a model with tool support"
                .to_owned(),
        ),
        Change::WithoutTool(name) => ("tool_left_out", format!("the tool {name}, which is omitted: fix its schema")),
        Change::WithoutPicture(_) => (
            "pictures_not_shown",
            "pictures, so they are not sent; the files are kept. Set a vision model in the slot `vision`".to_owned(),
        ),
        _ => return None,
    };
    let message = format!("the server of {model} refuses {limitation}; `agentctl models test` retries");
    Some(ModelChunk::Notice { code, message })
}

//! The changes that may get a refused request taken, out of what the server said. Pure. None of them is believed before the
//! server has taken the request with it.

use super::Change;

/// A server's words when it refused a request, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its status.
    pub(crate) status: u16,
    /// All that it wrote.
    pub(crate) words: String,
}

/// The parts of a refused request that it could do without.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentParts {
    /// It named tools in the wire's own field.
    pub(crate) tools: bool,
    /// None of them may be called.
    pub(crate) named_only: bool,
    /// The configuration insists on the wire's own field.
    pub(crate) insists_on_native: bool,
    /// It holds words or calls of the model.
    pub(crate) history: bool,
    /// It holds words of the person right behind a tool's result.
    pub(crate) words_behind_results: bool,
    /// Earlier thoughts are sent back.
    pub(crate) echoes: bool,
    /// Signed thoughts are sent back.
    pub(crate) signed_thoughts: bool,
    /// It limits the answer to a number of tokens that nobody has set.
    pub(crate) chosen_limit: bool,
    /// Fingerprint of the schema of the answer, where it is sent in a field of its own.
    pub(crate) schema: Option<u64>,
    /// The fields of the body that are no part of the conversation.
    pub(crate) fields: Vec<String>,
}

/// Words of servers and gateways that have no tools for this model.
const NO_TOOLS: [&str; 16] = [
    "does not support tools",
    "not support tool use",
    "not support tool call",
    "not support function call",
    "support tool use",
    "requires --jinja",
    "--enable-auto-tool-choice",
    "tool-call-parser",
    "tools are not supported",
    "tools is not supported",
    "tool use is not",
    "tool calling is not",
    "function calling is not",
    "supplied: tools",
    "parameter: 'tools'",
    "unsupported parameter: tools",
];

/// Words of servers whose templates want the person and the model in turns.
const TURNS: [&str; 4] = ["after role 'tool'", "after role \"tool\"", "roles must alternate", "must alternate user"];

/// Words of servers that do not take signed or encrypted thoughts where they stand.
const SIGNED: [&str; 11] = [
    "`signature` in `thinking`",
    "bound to a different",
    "`thinking` or `redacted_thinking` blocks",
    "cannot be modified",
    "final block in an assistant message",
    "expected `thinking`",
    "invalid_encrypted_content",
    "encrypted content could not",
    "required following item",
    "required 'reasoning' item",
    "items are not persisted",
];

/// Words of servers that do not know the field of efforts and summaries.
const REASONING: [&str; 4] = ["'reasoning'", "\"reasoning\"", ": reasoning\"", "supplied: reasoning"];

/// Words of servers whose model does not think.
const NO_ENCRYPTION: &str = "encrypted content is not supported";

/// Words of servers that do not know a field, or do not name the one that they mean.
const VAGUE: [&str; 8] =
    ["unknown", "unrecognized", "unrecognised", "unsupported", "not supported", "not permitted", "extra", "unexpected"];

/// Words of servers that do not take the field of a schema, or not this schema.
const SCHEMA: [&str; 8] = [
    "response_format",
    "json_schema",
    "text.format",
    "output_config",
    "schema",
    "structured output",
    "grammar",
    "guided",
];

/// The changes to try, the likeliest first.
pub(crate) fn candidates(refusal: &Refusal, sent: &SentParts) -> Vec<Change> {
    let says = |words: &[&str]| words.iter().any(|word| refusal.words.contains(word));
    let mut changes = Vec::new();
    // Also where a server fails over it: it makes a grammar of it.
    if let Some(schema) = sent.schema.filter(|_| says(&SCHEMA)) {
        changes.push(Change::WithoutSchema(schema));
    }
    if sent.history && says(&["reasoning_content"]) {
        changes.push(if sent.echoes { Change::WithoutEcho } else { Change::EchoReasoning });
    }
    if sent.signed_thoughts && says(&SIGNED) {
        return vec![Change::WithoutSignedThoughts];
    }
    if let Some(tokens) = answer_limit(&refusal.words).filter(|_| sent.chosen_limit) {
        return vec![Change::AnswerLimit(tokens)];
    }
    if sent.words_behind_results && says(&TURNS) {
        changes.push(Change::WordsInResults);
    }
    if sent.tools && !sent.insists_on_native && says(&NO_TOOLS) {
        changes.push(Change::TextTools);
    }
    // A path that is not there, or a server in trouble: only what is said in so many words is its reason.
    if refusal.status == 404 || refusal.status >= 500 {
        return changes;
    }
    // Tools that may not be called are in the last request of a turn only: where no other field is named, they are the first
    // to be suspected.
    let named = |field: &String| match field.as_str() {
        "stream_options" => says(&["stream_options", "include_usage"]),
        "max_tokens" => says(&["max_tokens", "max_completion_tokens"]),
        "output_config" => says(&["output_config", "effort"]),
        "include" => {
            says(&["'include'", "\"include\"", ": include", "include[", "reasoning.encrypted_content", NO_ENCRYPTION])
        }
        "reasoning" => says(&REASONING),
        "reasoning.summary" => says(&["reasoning.summary", "reasoning summar"]),
        "reasoning.effort" => says(&["reasoning.effort", "reasoning effort"]),
        field => says(&[field]),
    };
    let names_another = sent.fields.iter().any(named) || says(&["max_completion_tokens"]);
    if sent.named_only && (!names_another || says(&["tool_choice"])) {
        changes.push(Change::WithoutNamedTools);
    }
    let without = |field: &str| Change::WithoutField(field.to_owned());
    for field in sent.fields.iter().filter(|field| named(field)) {
        match field.as_str() {
            "max_tokens" if says(&["max_completion_tokens"]) => changes.push(Change::MaxCompletionTokens),
            // It may only be too large, and then it is for a person to set another one.
            "max_tokens" | "max_output_tokens" if !says(&VAGUE) => {}
            field => changes.push(without(field)),
        }
    }
    // Of fields that no name is given of, that of a schema is the rarest.
    if let Some(schema) = sent.schema.filter(|_| changes.is_empty()) {
        changes.push(Change::WithoutSchema(schema));
    }
    if says(&VAGUE) && sent.fields.iter().any(|field| field == "stream_options") {
        changes.push(without("stream_options"));
    }
    changes.dedup();
    changes
}

/// The largest answer that a server names: `max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens`.
fn answer_limit(words: &str) -> Option<u64> {
    let before = &words[..words.find(", which is the maximum allowed number of output tokens")?];
    let number = before.rsplit(|letter: char| !letter.is_ascii_digit()).next()?;
    number.parse().ok().filter(|tokens| *tokens > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(fields: &[&str]) -> SentParts {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        SentParts { tools: true, history: true, fields, ..SentParts::default() }
    }

    #[track_caller]
    fn check(status: u16, words: &str, sent: &SentParts, expected: &[Change]) {
        let refusal = Refusal { status, words: words.to_lowercase() };
        assert_eq!(candidates(&refusal, sent), expected, "{words}");
    }

    #[test]
    fn servers_without_tools_are_known_by_their_words() {
        let sent = sent(&["stream_options"]);
        let text = [Change::TextTools];
        check(400, "registry.ollama.ai/library/gemma3:latest does not support tools", &sent, &text);
        check(404, "No endpoints found that support tool use. To learn more about provider routing", &sent, &text);
        check(500, "tools param requires --jinja flag", &sent, &text);
        let vllm = "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set";
        check(400, vllm, &sent, &text);
        check(
            400,
            "Unrecognized request argument supplied: tools",
            &sent,
            &[text[0].clone(), without("stream_options")],
        );
        check(400, "tool_choice: only 'auto' is supported", &sent, &[]);
        check(404, "model not found", &sent, &[]);
        check(500, "unexpected end of input", &sent, &[]);
        let insists = SentParts { insists_on_native: true, ..sent.clone() };
        check(400, "gemma does not support tools", &insists, &[]);
        check(400, "gemma does not support tools", &SentParts { tools: false, ..sent }, &[]);
    }

    fn without(field: &str) -> Change {
        Change::WithoutField(field.to_owned())
    }

    #[test]
    fn fields_are_known_by_their_names() {
        let all = sent(&["temperature", "max_tokens", "stream_options", "top_p"]);
        let renamed = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
        check(400, renamed, &all, &[Change::MaxCompletionTokens, without("stream_options")]);
        check(400, "use max_completion_tokens", &all, &[Change::MaxCompletionTokens]);
        check(400, "'temperature' does not support 0.2", &all, &[without("temperature")]);
        check(422, "top_p: range is 0 to 1", &all, &[without("top_p")]);
        check(400, "extra inputs: stream_options", &all, &[without("stream_options")]);
        check(400, "max_tokens must be at most 8192", &all, &[]);
        check(
            400,
            "image input is not supported - hint: if this is unexpected, load an mmproj",
            &all,
            &[without("stream_options")],
        );
        check(400, "the model is on fire", &all, &[]);
        check(400, "extra inputs are not permitted", &sent(&[]), &[]);
    }

    #[test]
    fn a_schema_is_taken_out_of_its_field_where_it_is_meant_or_nothing_else_is() {
        let schema = SentParts { schema: Some(7), ..sent(&["temperature", "output_config"]) };
        let only = [Change::WithoutSchema(7)];
        check(400, "Invalid schema for response_format 'answer': 'oneOf' is not permitted", &schema, &only);
        check(400, "'response_format' of type 'json_schema' is not supported with this model", &schema, &only);
        check(500, "failed to parse grammar", &schema, &only);
        check(400, "Bad Request", &schema, &only);
        check(400, "output_config.format.schema: unknown", &schema, &[only[0].clone(), without("output_config")]);
        check(400, "'temperature' does not support 0.2", &schema, &[without("temperature")]);
        check(500, "the model is on fire", &schema, &[]);
        check(400, "invalid schema for response_format", &sent(&[]), &[]);
    }

    #[test]
    fn fields_of_thinking_are_told_apart() {
        let all = sent(&["include", "reasoning", "reasoning.summary", "reasoning.effort", "max_output_tokens"]);
        let unsupported = |field: &str| format!("Unsupported parameter: '{field}' is not supported with this model.");
        for field in ["reasoning", "reasoning.summary", "reasoning.effort", "max_output_tokens", "include"] {
            check(400, &unsupported(field), &all, &[without(field)]);
        }
        let signed = SentParts { signed_thoughts: true, ..all };
        check(400, "Encrypted content is not supported with this model.", &signed, &[without("include")]);
        check(400, "To generate reasoning summaries, verify it", &signed, &[without("reasoning.summary")]);
        check(400, "max_output_tokens is above 4096", &signed, &[]);
        for words in [
            "The encrypted content gAAA could not be verified. Reason: Encrypted content could not be decrypted or parsed.",
            r#"{"error":{"message":"No.","code":"invalid_encrypted_content"}}"#,
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
            "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        ] {
            check(400, words, &signed, &[Change::WithoutSignedThoughts]);
        }
    }

    #[test]
    fn a_limit_that_nobody_set_is_the_one_that_the_server_names() {
        let too_many = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for m";
        let chosen = SentParts { chosen_limit: true, ..sent(&["temperature"]) };
        check(400, too_many, &chosen, &[Change::AnswerLimit(8192)]);
        check(400, too_many, &sent(&[]), &[]);
        check(400, "max_tokens: 1 > , which is the maximum allowed number of output tokens", &chosen, &[]);
    }

    #[test]
    fn signed_thoughts_are_left_out_where_they_are_refused() {
        let signed = SentParts { signed_thoughts: true, ..sent(&["thinking"]) };
        for words in [
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            "messages.3.content.0: The block is bound to a different conversation",
        ] {
            check(400, words, &signed, &[Change::WithoutSignedThoughts]);
        }
        check(400, "adaptive thinking is not supported on this model", &signed, &[without("thinking")]);
    }

    #[test]
    fn thoughts_are_sent_or_left_out_as_the_server_wants_them() {
        let plain = sent(&[]);
        let missing = "The reasoning_content in the thinking mode must be passed back to the API.";
        check(400, missing, &plain, &[Change::EchoReasoning]);
        check(400, missing, &SentParts { history: false, ..plain.clone() }, &[]);
        check(
            400,
            "property 'reasoning_content' is unsupported",
            &SentParts { echoes: true, ..plain },
            &[Change::WithoutEcho],
        );
    }

    #[test]
    fn tools_that_may_not_be_called_are_suspected_where_nothing_else_is_named() {
        let last = SentParts { named_only: true, ..sent(&["temperature", "stream_options"]) };
        check(400, "Bad Request", &last, &[Change::WithoutNamedTools]);
        check(400, "extra inputs are not permitted", &last, &[Change::WithoutNamedTools, without("stream_options")]);
        check(400, "tool_choice and temperature", &last, &[Change::WithoutNamedTools, without("temperature")]);
        check(400, "'temperature' does not support 0.2", &last, &[without("temperature")]);
        check(500, "Bad Request", &last, &[]);
    }
}

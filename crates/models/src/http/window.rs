//! The size of a model's window, out of its server's words when a request does not fit. Some servers repeat in their
//! error the request, so only the error itself is read, up to its first quotation, and where it names two windows,
//! nothing is learnt. Pure.

use serde_json::Value;

/// Names of a window: the number right behind one is its size.
const NAMES: [&str; 10] = [
    "context length",
    "context window",
    "context size",
    "max_model_len",
    "model length",
    "prompt length",
    "token limit",
    "tokens allowed",
    "`max_new_tokens` must be",
    " > ",
];
/// The name of a window whose size stands right before it.
const NAME_BEHIND: &str = " maximum context length";
/// Words that may stand between the two.
const BETWEEN: [&str; 7] = ["is", "of", "only", "size", "n_ctx", "=", "<="];
/// Plausible windows, in tokens. In less than that nothing can be done.
pub(crate) const PLAUSIBLE: std::ops::RangeInclusive<u64> = 1024..=100_000_000;
/// The longest message that is read, in bytes. Longer ones repeat what was sent.
const MAX_MESSAGE: usize = 2_000;

/// The window that the body of an error names, or the error in the middle of a stream.
pub(crate) fn named(body: &[u8]) -> Option<u64> {
    let body = unwrapped(serde_json::from_slice(body).ok()?);
    let error = body.get("error").unwrap_or(&body);
    let message = error.as_str().or_else(|| error.get("message").or_else(|| error.get("detail"))?.as_str());
    // llama.cpp adds it in a field of its own.
    let window = error.get("n_ctx").and_then(Value::as_u64).or_else(|| in_words(message?));
    window.filter(|window| PLAUSIBLE.contains(window))
}

fn in_words(message: &str) -> Option<u64> {
    if message.len() > MAX_MESSAGE {
        return None;
    }
    let message = unquoted(message);
    let behind = NAMES.iter().flat_map(|name| message.split(name).skip(1)).filter_map(number);
    let before = message.match_indices(NAME_BEHIND).filter_map(|(at, _)| number(message[..at].rsplit(' ').next()?));
    let mut found = behind.chain(before);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// The error out of the array in which Gemini wraps it.
pub(crate) fn unwrapped(mut body: Value) -> Value {
    match body.get_mut(0) {
        Some(first @ Value::Object(_)) => first.take(),
        _ => body,
    }
}

/// The words of a message up to its first quotation or data, in lower case.
pub(crate) fn unquoted(message: &str) -> String {
    let is_own = |word: &&str| !begins_quotation(word) && !word.contains('{');
    let words: Vec<&str> = message.split_whitespace().take_while(is_own).collect();
    words.join(" ").to_lowercase()
}

/// The number that a text begins with, but not that of `8k`.
fn number(text: &str) -> Option<u64> {
    let mut words = text.split([' ', '(', ')', ':']).filter(|word| !word.is_empty());
    let number = words.find(|word| !BETWEEN.contains(word))?;
    number.trim_end_matches([',', '.', ';']).replace([',', '_'], "").parse().ok()
}

/// Returns true if a quotation begins in the word that does not end in it. Apostrophes within a word quote nothing.
fn begins_quotation(word: &str) -> bool {
    let letter = char::is_alphanumeric;
    let is_apostrophe = |at: usize| word[..at].ends_with(letter) && word[at + 1..].starts_with(letter);
    let is_quote = |(at, mark): &(usize, char)| match mark {
        '\'' => !is_apostrophe(*at),
        mark => matches!(mark, '"' | '`' | '“' | '”' | '«' | '»'),
    };
    word.char_indices().filter(is_quote).count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(body: &str, window: Option<u64>) {
        assert_eq!(named(body.as_bytes()), window, "{body}");
    }

    fn check_message(message: &str, window: Option<u64>) {
        check(&json!({"error": {"message": message, "code": "context_length_exceeded"}}).to_string(), window);
    }

    #[test]
    fn servers_name_their_window_in_many_words() {
        let check = |message: &str, window: u64| check_message(message, Some(window));
        check(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            8192,
        );
        check("litellm.BadRequestError: ...maximum context length is 4,096 tokens, however you requested 5000", 4096);
        check("'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your", 4096);
        check("request (9001 tokens) exceeds the available context size (n_ctx = 4096)", 4096);
        check("request (9001 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096);
        check("prompt is too long: 208310 tokens > 200000 maximum", 200_000);
        check(
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length",
            200_000,
        );
        check("The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).", 1_048_576);
        check("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", 4096);
        check("the model is loaded with context length of only 4096 tokens, which is not enough", 4096);
        check("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072);
        check("The decoder prompt (length 20000) is longer than the maximum model length of 16384.", 16_384);
        check("The input (9000 tokens) is longer than the model's context length (8192 tokens).", 8192);
        check("Invalid request: Your request exceeded model token limit: 8192", 8192);
        check(
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            32_768,
        );
    }

    #[test]
    fn the_error_is_read_in_all_its_shapes() {
        const WORDS: &str = "This model's maximum context length is 8192 tokens.";
        check(&json!({"error": {"message": WORDS}}).to_string(), Some(8192));
        check(&json!({"error": WORDS, "error_type": "validation"}).to_string(), Some(8192));
        check(&json!({"object": "error", "message": WORDS, "code": 400}).to_string(), Some(8192));
        check(&json!({"detail": WORDS}).to_string(), Some(8192));
        check(&json!(WORDS).to_string(), Some(8192));
        check(
            &json!([{"error": {"code": 400, "message": WORDS, "status": "INVALID_ARGUMENT"}}]).to_string(),
            Some(8192),
        );
        let own = json!({"code": 400, "message": "it does not fit", "type": "exceed_context_size_error",
            "n_prompt_tokens": 9001, "n_ctx": 2048});
        check(&json!({"error": own}).to_string(), Some(2048));
        check(&own.to_string(), Some(2048));
    }

    #[test]
    fn nothing_is_learnt_from_anything_else() {
        const WORDS: &str = "This model's maximum context length is 2048 tokens.";
        // No error that could be read.
        check("", None);
        check(WORDS, None);
        check(&format!("<html><body>{WORDS}</body></html>"), None);
        check(&format!("{{\"error\": {{\"message\": \"{WORDS}"), None);
        check(&json!([WORDS]).to_string(), None);
        // Not the message.
        let error = json!({"message": "it does not fit the context window", "param": WORDS, "input": WORDS,
            "request_id": 2048, "limits": {"n_ctx": 2048}});
        check(&json!({"error": error, "n_ctx": 2048, "message": WORDS, "detail": WORDS}).to_string(), None);
        check(&json!({"detail": [{"loc": ["body"], "input": WORDS}]}).to_string(), None);
        check(&json!({"error": {"message": {"maximum context length is 2048 tokens": 1}}}).to_string(), None);
        check(&json!({"error": {"message": "too long", "n_ctx": "2048"}}).to_string(), None);
        // What was sent, repeated.
        for quoted in [format!("\"{WORDS}\""), format!("'{WORDS}'"), format!("`{WORDS}`"), format!("“{WORDS}”")] {
            check_message(&format!("the prompt is too long for the context window: {quoted}"), None);
        }
        check_message(&format!("the model's context window cannot take \"It's said: {WORDS}"), None);
        check_message(&format!("The maximum context length is 8192 tokens. You said: {WORDS}"), None);
        check_message(&format!("the prompt does not fit the context size: {}{WORDS}", "so long ".repeat(300)), None);
        // Other numbers.
        check_message("please reduce the length of the messages (request 4096)", None);
        check_message("maximum context length is exceeded, request id 12345678", None);
        check_message("too large for model with 32k maximum context length", None);
        check_message("Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 7000", None);
        check_message("your plan has a 6000 token limit per minute; see the context window of your plan", None);
        check_message("`max_tokens` must be less than or equal to `8192`, less than the context window", None);
        check_message("the context window takes temperature must be <= 2000", None);
        check_message("maximum context length is 8k tokens", None);
        check_message("maximum context length is 8192k tokens", None);
        // No window.
        check_message("maximum context length is 1 token", None);
        check_message("maximum context length is 1023 tokens", None);
        check_message("maximum context length is 99999999999999999999999 tokens", None);
        check(r#"{"error":{"message":"it does not fit","n_ctx":0}}"#, None);
    }

    #[test]
    fn apostrophes_quote_nothing() {
        check_message("That didn't fit: this model's maximum context length is 4096 tokens", Some(4096));
        check_message("model 'm': its context window of 4096 tokens is full", Some(4096));
        check_message("prompt \"Hi\" and 2 others: maximum context length is 4096 tokens", Some(4096));
    }

    proptest! {
        #[test]
        fn whatever_a_server_says_nothing_breaks(words in ".{0,80}", number in any::<u64>()) {
            let said = format!("{words} maximum context length is {words}{number} tokens > {number} maximum{words}");
            let bodies = [said.clone(), json!({"error": {"message": said}}).to_string()];
            for window in bodies.iter().filter_map(|body| named(body.as_bytes())) {
                prop_assert!(PLAUSIBLE.contains(&window));
            }
        }
    }
}

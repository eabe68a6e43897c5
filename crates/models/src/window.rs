//! How large a model's window is, out of what its server says when a request does not fit. Every server has its own words. Pure.

/// What stands before the number.
const BEFORE: [&str; 20] = [
    "maximum context length is",
    "maximum context length of",
    "context length is only",
    "context length is",
    "context length of only",
    "context length of",
    "context window is",
    "context window of",
    "context window size is",
    "context size is",
    "context size of",
    "\"n_ctx\"",
    "n_ctx",
    "max_model_len of",
    "max_model_len",
    "maximum prompt length is",
    "maximum number of tokens allowed",
    "tokens allowed is",
    "must be <=",
    "must be less than or equal to",
];
/// What stands behind it.
const BEHIND: [&str; 5] = [" maximum context length", " maximum", " token context", "-token context", " token limit"];
/// What can be a window, in tokens.
const SOUND: std::ops::RangeInclusive<u64> = 256..=100_000_000;
/// Bytes of an answer that are looked at.
const MAX_BODY: usize = 16_384;

/// The window that these words of a server name.
pub(crate) fn named(said: &[u8]) -> Option<u64> {
    let said = String::from_utf8_lossy(&said[..said.len().min(MAX_BODY)]).to_lowercase();
    let before = BEFORE.iter().flat_map(|phrase| said.match_indices(phrase)).filter_map(|(at, phrase)| {
        let rest = said[at + phrase.len()..].trim_start_matches([' ', ':', '=', '(', '"', '\\', '\'', '`']);
        leading(rest)
    });
    let behind =
        BEHIND.iter().flat_map(|phrase| said.match_indices(phrase)).filter_map(|(at, _)| trailing(&said[..at]));
    before.chain(behind).find(|window| SOUND.contains(window))
}

/// The number with which the text begins.
fn leading(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !is_part(letter)).unwrap_or(text.len());
    // "8k" or "v2" is no count of tokens.
    let whole = !text[end..].starts_with(char::is_alphabetic);
    number(text[..end].trim_end_matches([',', '_'])).filter(|_| whole)
}

/// The number with which the text ends.
fn trailing(text: &str) -> Option<u64> {
    let begin = text
        .rfind(|letter: char| !is_part(letter))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    number(text[begin..].trim_start_matches([',', '_']))
}

fn is_part(letter: char) -> bool {
    letter.is_ascii_digit() || matches!(letter, ',' | '_')
}

fn number(digits: &str) -> Option<u64> {
    digits.replace([',', '_'], "").parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn servers_name_their_window_in_many_words() {
        let check = |said: &str, window: Option<u64>| assert_eq!(named(said.as_bytes()), window, "{said}");
        check(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            Some(8192),
        );
        check(
            r#"{"error":{"message":"...maximum context length is 4,096 tokens, however you requested 5000"}}"#,
            Some(4096),
        );
        check(
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":9001,"n_ctx":2048}}"#,
            Some(2048),
        );
        check(r#"request (9001 tokens) exceeds the available context size (n_ctx = 4096)"#, Some(4096));
        check("prompt is too long: 208310 tokens > 200000 maximum", Some(200_000));
        check("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", Some(32_768));
        check(
            "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
            Some(1_048_576),
        );
        check("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", Some(4096));
        check("the model is loaded with context length of only 4096 tokens, which is not enough", Some(4096));
        check("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", Some(131_072));
        check("longer than the max_model_len of 16384", Some(16_384));
        check("please reduce the length of the messages", None);
        check("maximum context length is 8k", None);
        check("maximum context length is 1 token", None);
        check("maximum context length is 99999999999999999999999", None);
        check("", None);
    }

    proptest! {
        #[test]
        fn whatever_a_server_says_nothing_breaks(words in ".{0,80}", number in any::<u64>()) {
            let said = format!("{words} maximum context length is {words}{number} maximum{words}");
            if let Some(window) = named(said.as_bytes()) {
                prop_assert!(SOUND.contains(&window));
            }
        }
    }
}

//! The server's words in an error, out of the many shapes of error bodies.

use serde::Deserialize;
use serde_json::Value;

use crate::http::Target;

/// The longest part of a server's words that a message carries, in characters.
const MAX_EXCERPT: usize = 400;

/// The longest part of a server's words that is looked through, in characters.
const MAX_WORDS: usize = 2_000;

/// The server's message, out of the many shapes of error bodies, in one short line.
pub(super) fn said(target: &Target, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return "it said nothing more".to_owned();
    }
    if text.starts_with('<') {
        return "it sent an HTML page".to_owned();
    }
    // Gemini wraps it in an array.
    let first = || serde_json::from_str::<Vec<ErrorBody>>(text).ok()?.into_iter().next();
    let body = if text.starts_with('[') { first() } else { serde_json::from_str(text).ok() };
    let words = body.and_then(ErrorBody::words);
    excerpt(target, words.as_deref().unwrap_or(text))
}

/// The server's message, to be looked through, in lower case.
pub(super) fn words(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let words = serde_json::from_str::<ErrorBody>(&text).ok().and_then(ErrorBody::words);
    let words = words.unwrap_or_else(|| text.into_owned());
    words.chars().take(MAX_WORDS).collect::<String>().to_lowercase()
}

/// Codes of errors that only a person can clear, who gives more money or leave to spend it.
const SPENT: [&str; 4] =
    ["enforced_spend_limit_reached", "contract_spend_limit_reached", "billing_error", "credit balance is too low"];

/// Returns whether an error says so: in its own words, its type or its details, not in what it repeats of a request.
pub(super) fn is_spent(body: &[u8]) -> bool {
    let Some(error) = serde_json::from_slice::<ErrorBody>(body).ok().and_then(|body| body.error) else { return false };
    let places = ["/message", "/type", "/code", "/details/error_code"];
    let texts = places.iter().filter_map(|place| error.pointer(place)?.as_str());
    texts.map(str::to_lowercase).any(|text| SPENT.iter().any(|code| text.contains(code)))
}

/// Returns whether an error says by its code that the key is wrong.
pub(super) fn names_key(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    ["\"API_KEY_INVALID\"", "\"invalid_api_key\""].iter().any(|code| text.contains(code))
}

/// Type of the error, as Anthropic and servers in its form name it.
pub(super) fn error_type(body: &[u8]) -> Option<String> {
    let error = serde_json::from_slice::<ErrorBody>(body).ok()?;
    let named = error.error.as_ref().and_then(|error| error.get("type")?.as_str());
    named.or_else(|| error.r#type.as_ref()?.as_str()).map(str::to_owned)
}

/// Code of the error, as OpenAI and servers in its form name it.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    let error = serde_json::from_slice::<ErrorBody>(body).ok()?;
    let named = error.error.as_ref().and_then(|error| error.get("code")?.as_str());
    named.or_else(|| error.code.as_ref()?.as_str()).map(str::to_owned)
}

/// The status that an error would have had, had it come before the answer.
pub(super) fn code_of(error_type: &str) -> Option<u64> {
    Some(match error_type {
        name if name.contains("image") || name.ends_with("_policy") || name.starts_with("invalid_prompt") => 400,
        "misalignment_policy_violation" | "data_residency_mismatch" => 400,
        "rate_limit_exceeded" => 429,
        "server_error" | "server_is_overloaded" => 500,
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "api_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

/// Returns whether a server says that it loads its model.
pub(super) fn is_loading(words: &str) -> bool {
    words.contains("loading") && words.contains("model")
}

/// An error as servers write it.
#[derive(Deserialize)]
pub(super) struct ErrorBody {
    error: Option<Value>,
    message: Option<Value>,
    detail: Option<Value>,
    code: Option<Value>,
    r#type: Option<Value>,
    /// Anthropic's name of the request.
    pub(super) request_id: Option<Value>,
}

impl ErrorBody {
    fn words(self) -> Option<String> {
        let (message, code, kind) = match self.error {
            Some(Value::Object(mut error)) => (error.remove("message"), error.remove("code"), error.remove("type")),
            Some(error) => (Some(error), self.code, self.r#type),
            None => (self.message.or(self.detail), self.code, self.r#type),
        };
        let text = |value: Value| match value {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        };
        let message = message.and_then(text);
        let label = code.and_then(text).or_else(|| kind.and_then(text));
        match (message, label) {
            (Some(message), Some(label)) => Some(format!("{message} ({label})")),
            (message, label) => message.or(label),
        }
    }
}

/// A short, printable, single line of what somebody else wrote, without our key in it.
pub(crate) fn excerpt(target: &Target, text: &str) -> String {
    let mut out = String::new();
    let text: String = text.chars().take(MAX_EXCERPT * 4).collect();
    let text = target.redact(&text);
    for (count, character) in text.trim().chars().enumerate() {
        if count == MAX_EXCERPT {
            out.push('…');
            break;
        }
        out.push(if character.is_control() { ' ' } else { character });
    }
    out
}

/// Returns whether a server says that its window is too small.
pub(super) fn speaks_of_context(said: &str) -> bool {
    const WORDS: [&str; 15] = [
        "context length",
        "context_length",
        "context window",
        "context size",
        "exceed_context",
        "maximum context",
        "max_model_len",
        "too many tokens",
        "token limit",
        "prompt is too long",
        "exceed context limit",
        "input is too long",
        "prompt too long",
        "reduce the length",
        "maximum prompt length",
    ];
    let said = said.to_lowercase();
    WORDS.iter().any(|word| said.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_are_read_in_all_their_shapes() {
        let target = Target::for_tests("http://user:pa55word@host/v1", "sk-secret");
        let check = |body: &str, expected: &str| assert_eq!(said(&target, body.as_bytes()), expected, "{body}");
        check("", "it said nothing more");
        check("<html>", "it sent an HTML page");
        check("plain\nwords", "plain words");
        check(r#"{"error":{"message":"no","code":null,"type":"bad"}}"#, "no (bad)");
        check(r#"{"error":{"message":"no","code":"c1","type":"bad"}}"#, "no (c1)");
        check(r#"{"error":"no"}"#, "no");
        check(r#"{"message":"no","code":40}"#, "no (40)");
        check(r#"{"detail":[{"loc":["x"]}]}"#, r#"[{"loc":["x"]}]"#);
        check(r#"{"other":1}"#, r#"{"other":1}"#);
        check(r#"[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]"#, "no (400)");
        check(r#"["no"]"#, r#"["no"]"#);
        check("Incorrect API key: sk-secret.", "Incorrect API key: [key].");
        assert_eq!(said(&target, "x".repeat(10_000).as_bytes()).chars().count(), MAX_EXCERPT + 1);
    }
}

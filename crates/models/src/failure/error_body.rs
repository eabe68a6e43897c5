//! A server's error, out of the many shapes of error bodies: what it says, and what that means.

use serde_json::Value;

use crate::http::Target;

/// The longest part of a server's words that a message carries, in characters.
const MAX_EXCERPT: usize = 400;

/// The longest part of a server's words that is looked through, in characters.
const MAX_WORDS: usize = 2_000;

/// A kind of error that the status alone does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Only a person can clear it, who gives more money or leave to spend it.
    Spent,
    /// The key is wrong.
    Key,
    /// More was asked than the provider takes, of late.
    Rate,
    /// The same, counted by the minute: it may speak of tokens, but is no sign of a full window.
    Minute,
    /// The server loads its model.
    Loading,
    /// The model has spoilt its answer by chance.
    Spoilt,
    /// The request does not fit the window.
    Window,
}

impl Cause {
    /// Returns true if an error of that status can have this cause, whatever it says.
    fn fits(self, status: u16) -> bool {
        match self {
            Self::Spent => status < 500,
            Self::Loading => status == 503,
            Self::Window => !matches!(status, 401..=404 | 429),
            _ => true,
        }
    }
}

/// What errors of these causes are known by: codes, types, and wordings of those that have none. The first one counts.
const SIGNS: [(Cause, &[&str]); 6] = [
    (
        Cause::Spent,
        &[
            "insufficient_quota",
            "exceeded your current quota",
            "spend_limit",
            "billing_error",
            "credit balance is too low",
        ],
    ),
    (Cause::Key, &["invalid_api_key", "api_key_invalid"]),
    (Cause::Minute, &["rate_limit_exceeded", "tokens per min", "(tpm)", "requests per min", "(rpm)"]),
    (Cause::Loading, &["loading model", "is loading", "currently loading"]),
    (Cause::Spoilt, &["tool_use_failed"]),
    (
        Cause::Window,
        &[
            "context_length",
            "exceed_context",
            "max_model_len",
            "context length",
            "context window",
            "context size",
            "context limit",
            "maximum context",
            "maximum prompt length",
            "prompt is too long",
            "prompt too long",
            "input is too long",
            "reduce the length",
            "too many tokens",
            "token limit",
        ],
    ),
];

/// Parts of codes and types of errors in the middle of an answer, and the status that each would have had before it. All
/// others are the server's own trouble.
const STATUSES: [(&str, u16); 9] = [
    ("rate_limit", 429),
    ("invalid", 400),
    ("image", 400),
    ("policy", 400),
    ("mismatch", 400),
    ("authentication", 401),
    ("permission", 403),
    ("not_found", 404),
    ("too_large", 413),
];

/// A server's error.
pub(super) struct ServerError<'a> {
    pub(super) body: &'a [u8],
    /// Its message with its code or type, for people.
    words: String,
    /// Its codes and types, in lower case.
    codes: String,
    /// The same and its message: what it is known by. JSON of any other form may repeat what was sent, and is not read.
    signs: String,
    /// The status that it names.
    number: Option<u16>,
    /// Anthropic's name of the request.
    pub(super) request_id: Option<String>,
}

impl<'a> ServerError<'a> {
    pub(super) fn read(body: &'a [u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        let mut json = serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
        // Gemini wraps it in an array.
        if let Some(first @ Value::Object(_)) = json.get_mut(0) {
            json = first.take();
        }
        let error = json.get("error").filter(|error| !error.is_null()).unwrap_or(&json);
        let field = |name: &str| error.get(name).or_else(|| json.get(name)).filter(|value| is_there(value));
        let message = Some(error).filter(|error| error.is_string() && is_there(error));
        let message = message.or_else(|| field("message")).or_else(|| field("detail"));
        let (code, kind) = (field("code"), field("type"));
        let words = match (message.map(text_of), code.or(kind).map(text_of)) {
            _ if text.is_empty() => "it said nothing more".to_owned(),
            _ if text.starts_with('<') => "it sent an HTML page".to_owned(),
            (Some(message), Some(label)) => format!("{message} ({label})"),
            (message, label) => message.or(label).unwrap_or_else(|| text.to_owned()),
        };
        let details = ["/details/error_code", "/details/0/reason"].map(|place| error.pointer(place));
        let codes: Vec<String> = [kind, code].into_iter().chain(details).flatten().map(text_of).collect();
        let codes = codes.join(" ").to_lowercase();
        let message = if json.is_null() { words.as_str() } else { message.and_then(Value::as_str).unwrap_or_default() };
        let signs = format!("{codes} {message}").chars().take(MAX_WORDS).collect::<String>().to_lowercase();
        let number = [code, field("status")].into_iter().flatten().find_map(|number| text_of(number).parse().ok());
        let request_id = json.get("request_id").and_then(Value::as_str).map(str::to_owned);
        Self { body, words, codes, signs, number, request_id }
    }

    /// What it says, in one short line.
    pub(super) fn said(&self, target: &Target) -> String {
        excerpt(target, &self.words)
    }

    /// What it is known by.
    pub(super) fn signs(&self) -> &str {
        &self.signs
    }

    /// The status of an error in the middle of an answer, as far as it names one.
    pub(super) fn status(&self) -> Option<u16> {
        let named = || STATUSES.iter().find(|(part, _)| self.codes.contains(part)).map(|(_, status)| *status);
        // Some providers number their errors in their own way.
        self.number.filter(|number| (400..600).contains(number)).or_else(named)
    }

    /// Its cause, if that is known.
    pub(super) fn cause(&self, status: u16) -> Option<Cause> {
        let is_it = |(cause, signs): &&(Cause, &[&str])| {
            cause.fits(status) && signs.iter().any(|sign| self.signs.contains(sign))
        };
        let by_status = match status {
            402 => Some(Cause::Spent),
            401 | 403 => Some(Cause::Key),
            413 => Some(Cause::Window),
            429 => Some(Cause::Rate),
            _ => None,
        };
        SIGNS.iter().find(is_it).map(|(cause, _)| *cause).or(by_status)
    }
}

fn is_there(value: &Value) -> bool {
    !value.is_null() && value != ""
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_are_read_in_all_their_shapes() {
        let target = Target::for_tests("http://user:pa55word@host/v1", "sk-secret");
        let said = |body: &str| ServerError::read(body.as_bytes()).said(&target);
        let check = |body: &str, expected: &str| assert_eq!(said(body), expected, "{body}");
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
        assert_eq!(said(&"x".repeat(10_000)).chars().count(), MAX_EXCERPT + 1);
    }
}

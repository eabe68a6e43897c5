//! Parsing of error bodies in their many formats: message and cause. Also related headers: the request ID and the time
//! to retry, which some servers only give in the message.
//!
//! If a request does not fit the context window, the error may name the window size. Some servers repeat the request
//! in their error. So only the error itself is read, up to its first quotation, and nothing is learnt if the error
//! names two windows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::http::{failure::UNKNOWN_STATUS, target::Target};

/// Maximum length of a server's text in a message, in characters.
const MAX_EXCERPT: usize = 400;

/// Maximum length of a server's text that is searched, in characters.
const MAX_SEARCHED: usize = 2_000;

/// Causes of errors that the status alone does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Money or quota is exhausted. Only the user can resolve it.
    Exhausted,
    /// The key is invalid.
    Key,
    /// The rate limit is exceeded.
    Rate,
    /// A limit per minute is exceeded. The message may mention tokens, but the window is not full.
    Minute,
    /// The server is loading its model.
    Loading,
    /// The model wrote an invalid answer by chance.
    InvalidOutput,
    /// The request does not fit the window.
    Window,
}

impl Cause {
    /// Returns true if an error with this status can have the cause, regardless of its text.
    fn allows_status(self, status: u16) -> bool {
        match self {
            Self::Exhausted => matches!(status, UNKNOWN_STATUS | 400 | 401 | 403 | 412 | 429),
            Self::Key => matches!(status, UNKNOWN_STATUS | 400),
            Self::Minute => matches!(status, UNKNOWN_STATUS | 400 | 413 | 422 | 429 | 500..=599),
            Self::Loading => status == 503,
            Self::Window => !matches!(status, 401..=404 | 429),
            Self::Rate | Self::InvalidOutput => true,
        }
    }
}

/// Signs of causes: parts of codes and types, and phrases in messages. The first matching row applies.
const SIGNS: [(Cause, &str, &str); 6] = [
    (
        Cause::Minute,
        "rate_limit_exceeded; token_quota_exceeded; request_quota_exceeded",
        "tokens per min; (tpm); requests per min; (rpm)",
    ),
    (
        Cause::Exhausted,
        "insufficient_quota; insufficient_balance; insufficient_credits; exceeded_current_quota; quota_exceeded; quotaexceeded; \
         budget_exceeded; exceededbudget; exceededtokenbudget; spend_limit; usage_limit_reached; billing_; arrearage; freetieronly; \
         blocked_api_access",
        "exceeded your current quota; credit balance is too low; credits are depleted; available credits; insufficient balance; \
         api usage limits; key limit exceeded; spending limit; spending cap; over budget",
    ),
    (Cause::Key, "invalid_api_key; api_key_invalid", ""),
    (Cause::Loading, "", "loading"),
    (Cause::InvalidOutput, "tool_use_failed", ""),
    (
        Cause::Window,
        "context_length; exceed_context",
        "max_model_len; contextwindowexceeded; context length; context window; context size; context limit; maximum context; \
         maximum prompt length; prompt is too long; prompt too long; input is too long; reduce the length; too many tokens; \
         token limit; tokens allowed; `max_new_tokens` must be",
    ),
];

/// Further locations of codes and reasons within an error.
const CODE_PATHS: [&str; 6] =
    ["/error_code", "/reason", "/details/error_code", "/details/0/reason", "/errors/0/reason", "/innererror/code"];

/// Phrase for a request that alone exceeds a limit per minute.
const TOO_LARGE: &str = "request too large";

/// Parts of codes and types of errors within an answer, with the equivalent HTTP status. All others are failures
/// of the server.
const STATUSES: [(&str, u16); 11] = [
    ("rate_limit", 429),
    ("invalid", 400),
    ("image", 400),
    ("policy", 400),
    ("mismatch", 400),
    ("authentication", 401),
    ("permission", 403),
    ("not_found", 404),
    ("too_large", 413),
    ("server_error", 500),
    ("api_error", 500),
];

/// Parsed error from a server.
pub(super) struct ServerError {
    pub(super) body: Vec<u8>,
    /// Message with its code or type, for display.
    pub(super) shown: String,
    /// Codes and types, in lower case.
    codes: String,
    /// Message up to the first quotation, in lower case. Quotations and other JSON may repeat the request.
    plain: String,
    /// The complete message. Used for signs of a full window, where a false positive only leads to a retry with a
    /// smaller request.
    message: String,
    /// Status named in the error.
    number: Option<u16>,
    /// Wait that the error requests.
    pub(super) wait: Option<Duration>,
    /// Time at which an exhausted quota is renewed.
    pub(super) reset: Option<Timestamp>,
    /// Request ID in Anthropic's error body.
    pub(super) request_id: Option<String>,
}

impl ServerError {
    /// Parses an error. If a gateway forwards a provider's error, the provider's text is used.
    pub(super) fn read(body: &[u8]) -> Self {
        let outer = Self::read_one(body.to_owned());
        let Some(inner) = upstream(body).map(Self::read_one) else { return outer };
        let codes = format!("{} {}", inner.codes, outer.codes);
        Self {
            codes,
            number: inner.number.or(outer.number),
            wait: inner.wait.or(outer.wait),
            reset: inner.reset.or(outer.reset),
            request_id: inner.request_id.or(outer.request_id),
            ..inner
        }
    }

    fn read_one(body: Vec<u8>) -> Self {
        let text = String::from_utf8_lossy(&body).into_owned();
        let text = text.trim();
        let json = unwrap_array(serde_json::from_str(text).unwrap_or(Value::Null));
        let error = json.get("error").filter(|error| !error.is_null()).unwrap_or(&json);
        let field = |name: &str| error.get(name).or_else(|| json.get(name)).filter(|value| is_present(value));
        let message = Some(error).filter(|error| error.is_string() && is_present(error));
        let message = message.or_else(|| field("message")).or_else(|| field("detail"));
        let (code, kind) = (field("code"), field("type"));
        let shown = match (message.map(text_of), code.or(kind).map(text_of)) {
            _ if text.is_empty() => "no details".to_owned(),
            _ if text.starts_with('<') => "it sent an HTML page".to_owned(),
            (Some(message), Some(label)) => format!("{message} ({label})"),
            (message, label) => message.or(label).unwrap_or_else(|| text.to_owned()),
        };
        let reasons = CODE_PATHS.map(|path| error.pointer(path));
        // Some servers send a code in place of the error object.
        let bare = Some(error).filter(|error| error.as_str().is_some_and(|text| !text.contains(char::is_whitespace)));
        let codes: Vec<String> = [kind, code, bare].into_iter().chain(reasons).flatten().map(text_of).collect();
        let codes = codes.join(" ").to_lowercase();
        let message = if json.is_null() { shown.as_str() } else { message.and_then(Value::as_str).unwrap_or_default() };
        let message = message.chars().take(MAX_SEARCHED).collect::<String>().to_lowercase();
        let plain = before_quotation(&message);
        let number = [code, field("status")].into_iter().flatten().find_map(|number| text_of(number).parse().ok());
        let request_id = json.get("request_id").and_then(Value::as_str).map(str::to_owned);
        let now = Timestamp::now();
        let reset = [error, &json].into_iter().find_map(|object| reset(object, now));
        // Google's format for the wait.
        let delays = || error.get("details")?.as_array()?.iter().find_map(|detail| detail.get("retryDelay")?.as_str());
        let wait = wait_in(&plain).or_else(|| Duration::try_from(delays()?.parse::<SignedDuration>().ok()?).ok());
        Self { shown, codes, plain, message, number, wait, reset, request_id, body }
    }

    /// Returns true if the request alone exceeds a limit per minute.
    pub(super) fn is_too_large(&self, status: u16) -> bool {
        status == 413 || self.plain.contains(TOO_LARGE)
    }

    /// Returns true if the message names a quota or money, not a rate.
    pub(super) fn names_quota(&self) -> bool {
        ["quota", "credit", "balance"].iter().any(|word| self.plain.contains(word))
    }

    /// Status of an error within an answer, if it names one.
    pub(super) fn status(&self) -> Option<u16> {
        let named = || STATUSES.iter().find(|(part, _)| self.codes.contains(part)).map(|(_, status)| *status);
        // Some providers use their own error numbers.
        self.number.filter(|number| (400..600).contains(number)).or_else(named)
    }

    /// Returns the cause of the error, if known.
    pub(super) fn cause(&self, status: u16) -> Option<Cause> {
        let contains_sign =
            |text: &str, signs: &str| signs.split("; ").any(|sign| !sign.is_empty() && text.contains(sign));
        // Cerebras uses the same codes for its daily limits.
        let is_daily_limit = self.codes.contains("_quota_exceeded") && self.plain.contains("per day");
        let matches = |(cause, codes, phrases): &&(Cause, &str, &str)| {
            let text = if *cause == Cause::Window { &self.message } else { &self.plain };
            let is_known = contains_sign(&self.codes, codes) || contains_sign(text, phrases);
            // Gemini also calls a limit per minute a quota. Only such a limit names a wait, and ends without user
            // action.
            is_known
                && cause.allows_status(status)
                && (*cause != Cause::Exhausted || self.wait.is_none())
                && (*cause != Cause::Minute || !is_daily_limit)
        };
        let by_status = match status {
            402 => Some(Cause::Exhausted),
            403 if self.plain.contains("quota exceeded") && self.wait.is_some() => Some(Cause::Rate),
            403 if self.plain.contains("quota exceeded") => Some(Cause::Exhausted),
            // The key is valid, and can be used with another model.
            403 if self.codes.contains("model_not_found") => None,
            401 | 403 => Some(Cause::Key),
            413 => Some(Cause::Window),
            429 => Some(Cause::Rate),
            _ => None,
        };
        SIGNS.iter().find(matches).map(|(cause, ..)| *cause).or(by_status)
    }
}

/// Returns the provider's error within a gateway's error (OpenRouter).
fn upstream(body: &[u8]) -> Option<Vec<u8>> {
    let json = unwrap_array(serde_json::from_slice(body).ok()?);
    match json.pointer("/error/metadata/raw")? {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone().into_bytes()),
        raw @ Value::Object(_) => serde_json::to_vec(raw).ok(),
        _ => None,
    }
}

fn is_present(value: &Value) -> bool {
    !value.is_null() && value != ""
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a short, printable, single-line excerpt of untrusted text, without our key.
pub(crate) fn excerpt(target: &Target, text: &str) -> String {
    let mut excerpt_text = String::new();
    let text: String = text.chars().take(MAX_EXCERPT * 4).collect();
    let text = target.redact(&text);
    for (count, character) in text.trim().chars().enumerate() {
        if count == MAX_EXCERPT {
            excerpt_text.push('…');
            break;
        }
        excerpt_text.push(if character.is_control() { ' ' } else { character });
    }
    excerpt_text
}

/// Phrases before the time that a provider asks to wait.
const WAIT_PHRASES: [&str; 4] = ["try again in ", "retry in ", "try again after ", "retry after "];

/// Maximum wait that is accepted: a day.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

/// Returns the server's request ID, which the provider's support needs.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
    let of = |name: &str| headers.get(name)?.to_str().ok().map(str::trim).filter(|id| !id.is_empty());
    of("request-id").or_else(|| of("x-request-id"))
}

/// Returns the wait requested by a server: seconds, milliseconds, or a date relative to the server's own clock.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str| text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    if let Some(wait) = text("retry-after-ms").and_then(seconds) {
        return Some(wait / 1000);
    }
    let value = text(RETRY_AFTER.as_str())?;
    seconds(value).or_else(|| {
        let parser = rfc2822::DateTimeParser::new();
        let until = parser.parse_timestamp(value).ok()?;
        let now = text(DATE.as_str()).and_then(|now| parser.parse_timestamp(now).ok()).unwrap_or_else(Timestamp::now);
        Some(Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO))
    })
}

/// Returns the wait until a limit is reset, as given by OpenRouter in milliseconds since 1970.
pub(super) fn limit_reset(headers: &HeaderMap) -> Option<Duration> {
    let until = headers.get("x-ratelimit-reset")?.to_str().ok()?.trim().parse().ok()?;
    let until = Timestamp::from_millisecond(until).ok().filter(|_| until > MILLISECONDS)?;
    Duration::try_from(until.duration_since(Timestamp::now())).ok()
}

/// Threshold above which a time is in milliseconds since 1970. Smaller numbers are in seconds.
const MILLISECONDS: i64 = 100_000_000_000;

/// Maximum time in seconds until a quota is renewed: a bit more than a year.
const MAX_RESET: i64 = 400 * 86_400;

/// Returns the time at which an exhausted quota is renewed: in seconds since 1970, as a date, or in seconds from now.
fn reset(error: &Value, now: Timestamp) -> Option<Timestamp> {
    let number = |name: &str| {
        let value = error.get(name)?;
        let number: i64 = text_of(value).split('.').next()?.parse().ok()?;
        Some(if number > MILLISECONDS { number / 1000 } else { number })
    };
    let date = || error.get("resets_at")?.as_str()?.parse::<Timestamp>().ok();
    let from_now = || number("resets_in_seconds").map(|seconds| now.as_second().saturating_add(seconds));
    let at = number("resets_at").or_else(|| date().map(Timestamp::as_second)).or_else(from_now)?;
    let is_ahead = (1..=MAX_RESET).contains(&at.saturating_sub(now.as_second()));
    is_ahead.then(|| Timestamp::from_second(at).ok()).flatten()
}

/// Returns the retry time named by a server that accepts no more requests. Short waits are ignored, as they come with
/// every error.
pub(super) fn retry_at(headers: &HeaderMap) -> Option<Timestamp> {
    let wait = retry_after(headers).filter(|wait| wait.as_secs() >= 60)?;
    Timestamp::now().checked_add(SignedDuration::try_from(wait).ok()?).ok()
}

/// Returns the wait in a lower-case message, such as `7.66s`, `820ms`, `1m2.5s` or `30 seconds`.
fn wait_in(message: &str) -> Option<Duration> {
    let (_, rest) = WAIT_PHRASES.iter().find_map(|wait| message.split_once(wait))?;
    let words: Vec<&str> = rest.split_whitespace().take(4).collect();
    let of = |count: usize| words[..count].join(" ").trim_end_matches(['.', ',', ';']).parse::<SignedDuration>().ok();
    let wait = (1..=words.len()).rev().find_map(of)?;
    Duration::try_from(wait).ok().filter(|wait| *wait <= MAX_WAIT)
}

/// Names of a window that are followed by its size.
const WINDOW_NAMES: [&str; 10] = [
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
/// Name of a window that is preceded by its size.
const TRAILING_NAME: &str = " maximum context length";
/// Words allowed between name and size.
const FILLER_WORDS: [&str; 7] = ["is", "of", "only", "size", "n_ctx", "=", "<="];
/// Plausible windows, in tokens. Smaller windows are useless.
pub(crate) const PLAUSIBLE: std::ops::RangeInclusive<u64> = 1024..=100_000_000;
/// Maximum length of a message that is searched, in bytes. Longer messages repeat the request.
const MAX_MESSAGE: usize = 2_000;

/// Returns the window named in the body of an error, or in an error within a stream.
pub(super) fn window_in(body: &[u8]) -> Option<u64> {
    let body = unwrap_array(serde_json::from_slice(body).ok()?);
    let error = body.get("error").unwrap_or(&body);
    let message = error.as_str().or_else(|| error.get("message").or_else(|| error.get("detail"))?.as_str());
    // llama.cpp adds the window in a separate field.
    let window = error.get("n_ctx").and_then(Value::as_u64).or_else(|| window_in_text(message?));
    window.filter(|window| PLAUSIBLE.contains(window))
}

fn window_in_text(message: &str) -> Option<u64> {
    if message.len() > MAX_MESSAGE {
        return None;
    }
    let message = before_quotation(message);
    let after = WINDOW_NAMES.iter().flat_map(|name| message.split(name).skip(1)).filter_map(number);
    let before = message.match_indices(TRAILING_NAME).filter_map(|(at, _)| number(message[..at].rsplit(' ').next()?));
    let mut found = after.chain(before);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// Returns the error within the array in which Gemini wraps it.
fn unwrap_array(mut body: Value) -> Value {
    match body.get_mut(0) {
        Some(first @ Value::Object(_)) => first.take(),
        _ => body,
    }
}

/// Returns the text of a message up to its first quotation or data, in lower case.
fn before_quotation(message: &str) -> String {
    let is_own = |word: &&str| !begins_quotation(word) && !word.contains('{');
    let words: Vec<&str> = message.split_whitespace().take_while(is_own).collect();
    words.join(" ").to_lowercase()
}

/// Returns the number at the start of a text. Numbers with a suffix such as `8k` are rejected.
fn number(text: &str) -> Option<u64> {
    let mut words = text.split([' ', '(', ')', ':']).filter(|word| !word.is_empty());
    let number = words.find(|word| !FILLER_WORDS.contains(word))?;
    number.trim_end_matches([',', '.', ';']).replace([',', '_'], "").parse().ok()
}

/// Returns true if a quotation starts in the word and does not end in it. Apostrophes within a word do not count.
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
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn error_messages_are_read_in_all_body_forms() {
        let target = Target::for_tests("http://user:pa55word@host/v1", "sk-secret");
        let shown = |body: &str| excerpt(&target, &ServerError::read(body.as_bytes()).shown);
        let check = |body: &str, expected: &str| assert_eq!(shown(body), expected, "{body}");
        check("", "no details");
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
        assert_eq!(shown(&"x".repeat(10_000)).chars().count(), MAX_EXCERPT + 1);
    }

    #[test]
    fn retry_delays_are_read_from_headers() {
        let check = |headers: &[(&'static str, &str)], wait: Option<u64>| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, HeaderValue::from_str(value).unwrap());
            }
            assert_eq!(retry_after(&map), wait.map(Duration::from_millis), "{headers:?}");
        };
        check(&[], None);
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", "0.25")], Some(250));
        check(&[("retry-after-ms", "125"), ("retry-after", "7")], Some(125));
        check(&[("retry-after", "-3")], None);
        check(&[("retry-after", "soon")], None);
        let date = "Sun, 06 Nov 1994 08:49:30 GMT";
        check(&[("date", date), ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(7_000));
        check(&[("date", date), ("retry-after", "Sun, 06 Nov 1994 08:49:20 GMT")], Some(0));
        let (soon, late) =
            (Timestamp::now() + SignedDuration::from_mins(5), Timestamp::now() + SignedDuration::from_mins(4));
        let headers = [("x-ratelimit-reset", soon.as_millisecond().to_string())];
        let map = headers.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let wait = limit_reset(&map).unwrap();
        assert!(
            wait > Duration::try_from(late.duration_since(Timestamp::now())).unwrap() && wait <= Duration::from_mins(5)
        );
        let map = [("x-ratelimit-reset", "12")]
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        assert_eq!(limit_reset(&map.collect()), None);
        for at in [json!(1_900_000_000), json!("1900000000"), json!(1_900_000_000.7), json!(1_900_000_000_123_u64)] {
            let now = Timestamp::from_second(1_899_999_000).unwrap();
            assert_eq!(reset(&json!({ "resets_at": at }), now).map(Timestamp::as_second), Some(1_900_000_000), "{at}");
        }
    }

    #[test]
    fn retry_delays_are_read_from_messages() {
        let check = |text: &str, milliseconds: Option<u64>| {
            assert_eq!(wait_in(text), milliseconds.map(Duration::from_millis), "{text}");
        };
        check("(tpm): limit 6000, used 5000, requested 2000. please try again in 9.98s.", Some(9980));
        check("please try again in 820ms. visit", Some(820));
        check("try again in 1m2.5s.", Some(62_500));
        check("please retry in 34.5 seconds, or", Some(34_500));
        check("retry after 2 minutes 5 seconds", Some(125_000));
        check("please reduce your message size and try again.", None);
        check("try again in a while", None);
        check("try again in 7", None);
        check("try again in 99999h", None);
        check("try again in -7s", None);
        check("7s", None);
    }

    proptest! {
        #[test]
        fn retry_delay_of_any_message_is_bounded(text in "(try again in )?[0-9a-z. é-]{0,40}", more in ".{0,20}") {
            let message = text + &more;
            prop_assert!(wait_in(&message).is_none_or(|wait| wait <= MAX_WAIT));
        }
    }

    fn check(body: &str, window: Option<u64>) {
        assert_eq!(window_in(body.as_bytes()), window, "{body}");
    }

    fn check_message(message: &str, window: Option<u64>) {
        check(&json!({"error": {"message": message, "code": "context_length_exceeded"}}).to_string(), window);
    }

    #[test]
    fn window_is_read_from_many_error_messages() {
        let check = |message: &str, window: u64| check_message(message, Some(window));
        check("This model's maximum context length is 8192 tokens. However, your messages have 9000 tokens.", 8192);
        check("litellm.BadRequestError: ...maximum context length is 4,096 tokens, however you requested 5000", 4096);
        check("'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your", 4096);
        check("request (9001 tokens) exceeds the available context size (n_ctx = 4096)", 4096);
        check("request (9001 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096);
        check("prompt is too long: 208310 tokens > 200000 maximum", 200_000);
        check("input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease", 200_000);
        check("The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).", 1_048_576);
        check("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", 4096);
        check("the model is loaded with context length of only 4096 tokens, which is not enough", 4096);
        check("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072);
        check("The decoder prompt (length 20000) is longer than the maximum model length of 16384.", 16_384);
        check("The input (9000 tokens) is longer than the model's context length (8192 tokens).", 8192);
        check("Invalid request: Your request exceeded model token limit: 8192", 8192);
        check("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768);
    }

    #[test]
    fn window_is_read_in_all_body_forms() {
        const WORDS: &str = "This model's maximum context length is 8192 tokens.";
        check(&json!({"error": {"message": WORDS}}).to_string(), Some(8192));
        check(&json!({"error": WORDS, "error_type": "validation"}).to_string(), Some(8192));
        check(&json!({"object": "error", "message": WORDS, "code": 400}).to_string(), Some(8192));
        check(&json!({"detail": WORDS}).to_string(), Some(8192));
        check(&json!(WORDS).to_string(), Some(8192));
        check(&json!([{"error": {"code": 400, "message": WORDS}}]).to_string(), Some(8192));
        let own = json!({"code": 400, "message": "it does not fit", "type": "exceed_context_size_error",
            "n_prompt_tokens": 9001, "n_ctx": 2048});
        check(&json!({"error": own}).to_string(), Some(2048));
        check(&own.to_string(), Some(2048));
    }

    #[test]
    fn window_is_not_read_from_unrelated_errors() {
        const WORDS: &str = "This model's maximum context length is 2048 tokens.";
        // Not an error that can be parsed.
        check("", None);
        check(WORDS, None);
        check(&format!("<html><body>{WORDS}</body></html>"), None);
        check(&format!("{{\"error\": {{\"message\": \"{WORDS}"), None);
        check(&json!([WORDS]).to_string(), None);
        // Not in the message.
        let error = json!({"message": "it does not fit the context window", "param": WORDS, "input": WORDS,
            "request_id": 2048, "limits": {"n_ctx": 2048}});
        check(&json!({"error": error, "n_ctx": 2048, "message": WORDS, "detail": WORDS}).to_string(), None);
        check(&json!({"detail": [{"loc": ["body"], "input": WORDS}]}).to_string(), None);
        check(&json!({"error": {"message": {"maximum context length is 2048 tokens": 1}}}).to_string(), None);
        check(&json!({"error": {"message": "too long", "n_ctx": "2048"}}).to_string(), None);
        // Repeats the request.
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
        // Not a plausible window.
        check_message("maximum context length is 1 token", None);
        check_message("maximum context length is 1023 tokens", None);
        check_message("maximum context length is 99999999999999999999999 tokens", None);
        check(r#"{"error":{"message":"it does not fit","n_ctx":0}}"#, None);
    }

    #[test]
    fn apostrophes_do_not_quote_a_window() {
        check_message("That didn't fit: this model's maximum context length is 4096 tokens", Some(4096));
        check_message("model 'm': its context window of 4096 tokens is full", Some(4096));
        check_message("prompt \"Hi\" and 2 others: maximum context length is 4096 tokens", Some(4096));
    }

    proptest! {
        #[test]
        fn window_of_any_message_is_plausible(text in ".{0,80}", number in any::<u64>()) {
            let message = format!("{text} maximum context length is {text}{number} tokens > {number} maximum{text}");
            let bodies = [message.clone(), json!({"error": {"message": message}}).to_string()];
            for window in bodies.iter().filter_map(|body| window_in(body.as_bytes())) {
                prop_assert!(PLAUSIBLE.contains(&window));
            }
        }
    }
}

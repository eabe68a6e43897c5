//! What went wrong with a call, and whether trying again can help.
//!
//! - `error_body`: the server's words, out of the many shapes of error bodies. `error_headers`: what stands beside them.

mod error_body;
mod error_headers;

use std::time::Duration;

use agentd_core::error::{ErrorKind, ModelError};
use reqwest::{
    StatusCode,
    header::{HeaderMap, LOCATION},
};
use serde_json::Value;

pub(crate) use self::{error_body::excerpt, error_headers::request_id};
use self::{
    error_body::{
        ErrorBody, code_of, error_code, error_type, is_loading, is_spent, names_key, said, speaks_of_context, words,
    },
    error_headers::retry_after,
};
use crate::{http::Target, learning::Refusal, server::PLAUSIBLE, throttle, window};

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ModelError,
    pub(crate) again: Again,
    /// The server's words when it refused the request, which may be taken in another form.
    pub(crate) refusal: Option<Box<Refusal>>,
}

/// Prospects of another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    Never,
    /// After the usual wait.
    Later,
    /// After the wait that the server asked for.
    After(Duration),
    /// After a part of a minute, of which the provider takes only so much: as it asks for, where it does. Only `once` where
    /// this request alone may be too much.
    Limited {
        wait: Option<Duration>,
        once: bool,
    },
    /// Once the server has loaded the model, which takes a large one minutes.
    Loading,
    /// At once: the model has spoilt its answer by chance.
    Anew,
}

/// Hint where nothing better is known.
fn usual_hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Protocol => {
            Some("is the model's wire in models.yaml the one that this server speaks? the server's log may tell more")
        }
        ErrorKind::CutStream => Some("ask again; if it happens often, look at the log of the model server"),
        ErrorKind::Provider => Some("the trouble is the model server's own: look at its log, or ask again later"),
        _ => None,
    }
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let again = match kind {
            ErrorKind::RateLimited
            | ErrorKind::Unreachable
            | ErrorKind::Timeout
            | ErrorKind::CutStream
            | ErrorKind::Provider => Again::Later,
            _ => Again::Never,
        };
        let failure = Self { error: ModelError::new(kind, message), again, refusal: None };
        match usual_hint(kind) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.error = self.error.with_hint(hint);
        self
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }

    pub(crate) fn cut(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::CutStream, message)
    }

    pub(crate) fn html(target: &Target) -> Self {
        Self::protocol(format!("asked the model at {target}: the server answered with HTML, is base_url right?"))
            .hint("base_url must lead to the model's API, such as http://127.0.0.1:8080/v1, not to a web page")
    }

    /// A request that got no answer.
    pub(crate) fn unsent(target: &Target, error: reqwest::Error) -> Self {
        // The address may carry a password or a key; the target's own text does not.
        let error = error.without_url();
        if error.is_connect() && error.is_timeout() {
            let message = format!("connecting to the model at {target} {} took too long", target.route());
            return Self::new(ErrorKind::Timeout, message)
                .hint("is base_url right, and is the server reachable from here?");
        }
        if error.is_connect() {
            let cause = innermost(&error);
            let mut failure = Self::new(
                ErrorKind::Unreachable,
                format!("could not connect to the model at {target} {}: {}", target.route(), excerpt(target, &cause)),
            )
            .hint("is the model server running, and is base_url right?");
            failure.error = failure.error.with_source(error);
            return failure;
        }
        if error.is_builder() {
            return Self::new(ErrorKind::Configuration, format!("could not write the request to {target}: {error}"));
        }
        let cause = innermost(&error);
        let mut failure = Self::new(
            ErrorKind::CutStream,
            format!(
                "the model at {target} closed the connection without an answer: {}{}",
                excerpt(target, &cause),
                target.proxy_note()
            ),
        );
        failure.error = failure.error.with_source(error);
        failure
    }

    /// An answer with a status other than success.
    pub(crate) fn status(target: &Target, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let (mut said, words) = (said(target, body), words(body));
        if let Some(id) = request_id(headers) {
            said.push_str(&format!(" [request {}]", excerpt(target, id)));
        }
        let code = status.as_u16();
        // What stands between may have answered in place of the server.
        if matches!(code, 407 | 502..=504) {
            said.push_str(&target.proxy_note());
        }
        let refused = |kind| Self::new(kind, format!("the model at {target} refused the request ({status}): {said}"));
        match code {
            300..=399 => {
                let location = headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("another address");
                refused(ErrorKind::Rejected)
                    .hint(&format!("the server redirects to {}; set base_url to it", excerpt(target, location)))
            }
            // Before the refusals of a key: some say so in the same status.
            400 if names_key(body) => refused(ErrorKind::Auth).hint("check the api_key of this model"),
            401 | 403 if !is_spent(body) => refused(ErrorKind::Auth).hint("check the api_key of this model"),
            402 => {
                let mut failure = refused(ErrorKind::RateLimited);
                failure.again = Again::Never;
                failure.hint("the provider asks for payment: check the account's balance")
            }
            400 | 403 | 429 if is_spent(body) => Self::spent(target, &said),
            429 => Self::limited(target, &said, &words, headers),
            400 | 413 | 422 | 500..=599 if throttle::is_limit(&words) => Self::limited(target, &said, &words, headers),
            503 if is_loading(&words) => {
                let mut failure = Self::new(ErrorKind::Provider, format!("the model at {target} is not ready: {said}"));
                failure.again = Again::Loading;
                failure.hint("its server is still loading it: ask again in a few minutes, or look at the server's log")
            }
            400 if words.contains("tool_use_failed") => {
                let mut failure = refused(ErrorKind::Rejected).hint(
                    "the model wrote a tool call that its server could not read: ask again, or use another model",
                );
                failure.again = Again::Anew;
                failure
            }
            408 | 409 | 500..=599 => {
                if speaks_of_context(&said) {
                    return Self::overflow(target, &said, body);
                }
                let mut failure =
                    Self::new(ErrorKind::Provider, format!("the model at {target} failed ({status}): {said}"));
                failure.again = retry_after(headers).map_or(Again::Later, Again::After);
                failure.refusal = Refusal::of(code, body);
                failure
            }
            413 => Self::overflow(target, &said, body),
            400 | 422 if speaks_of_context(&said) => Self::overflow(target, &said, body),
            404 => {
                let mut failure = refused(ErrorKind::Rejected)
                    .hint("is the model's id right, and does base_url end where the API begins (often in /v1)?");
                failure.refusal = Refusal::of(code, body);
                failure
            }
            _ => {
                let mut failure = refused(ErrorKind::Rejected);
                failure.refusal = Refusal::of(code, body);
                failure
            }
        }
    }

    /// A request that an account has no money for, or may not spend it on: waiting does not help.
    fn spent(target: &Target, said: &str) -> Self {
        let mut failure = Self::new(
            ErrorKind::RateLimited,
            format!("the provider of the model at {target} takes no more requests: {said}"),
        );
        failure.again = Again::Never;
        failure.hint(
            "a spending limit or the balance is used up: raise it in the provider's console, or use another model",
        )
    }

    /// A request that comes too soon behind others.
    fn limited(target: &Target, said: &str, words: &str, headers: &HeaderMap) -> Self {
        let mut failure = Self::new(ErrorKind::RateLimited, format!("the model at {target} is rate limited: {said}"));
        if said.contains("insufficient_quota") || said.contains("exceeded your current quota") {
            failure.again = Again::Never;
            return failure.hint("the account's quota is used up: check its plan and balance");
        }
        let wait = retry_after(headers).or_else(|| throttle::wait_in(words));
        let once = throttle::is_hopeless(words);
        failure.again = match wait {
            wait if throttle::is_limit(words) => Again::Limited { wait, once },
            Some(wait) => Again::After(wait),
            None => Again::Later,
        };
        if once {
            return failure.hint(
                "one request alone has more tokens than the provider takes in a minute: use another model, or a plan with a \
                 higher limit",
            );
        }
        failure.hint("wait a little, or ask less at once")
    }

    /// An error that came inside of an answer that had begun well.
    pub(crate) fn reported(target: &Target, error: &str) -> Self {
        let mut said = said(target, error.as_bytes());
        let named = serde_json::from_str::<ErrorBody>(error).ok().and_then(|body| body.request_id);
        if let Some(Value::String(id)) = named {
            said.push_str(&format!(" [request {}]", excerpt(target, &id)));
        }
        let code = serde_json::from_str::<Value>(error).ok().and_then(|value| {
            let code = value.get("code").or_else(|| value.get("status"))?;
            code.as_u64().or_else(|| code.as_str()?.parse().ok())
        });
        if is_spent(error.as_bytes()) {
            return Self::spent(target, &said);
        }
        if throttle::is_limit(&words(error.as_bytes())) || said.contains("insufficient_quota") {
            return Self::limited(target, &said, &words(error.as_bytes()), &HeaderMap::new());
        }
        if speaks_of_context(&said) {
            return Self::overflow(target, &said, error.as_bytes());
        }
        let code = code.or_else(|| code_of(error_type(error.as_bytes()).as_deref()?));
        let code = code.or_else(|| code_of(error_code(error.as_bytes()).as_deref()?));
        if code == Some(413) {
            return Self::overflow(target, &said, error.as_bytes());
        }
        let kind = match code {
            Some(401 | 403) => ErrorKind::Auth,
            Some(429) => ErrorKind::RateLimited,
            Some(408 | 409) => ErrorKind::Provider,
            Some(400..=499) => ErrorKind::Rejected,
            _ => ErrorKind::Provider,
        };
        let mut failure = Self::new(kind, format!("the model at {target} reported an error: {said}"));
        failure.refusal = code.and_then(|code| Refusal::of(u16::try_from(code).ok()?, error.as_bytes()));
        failure
    }

    /// An answer that fills the window, which has so many tokens, as far as its server counted.
    pub(crate) fn window_full(target: &Target, tokens: Option<u64>) -> Self {
        let message = format!("the conversation and the answer fill the context window of the model at {target}");
        let mut failure = Self::new(ErrorKind::ContextOverflow, message)
            .hint("start a new session, or set context_window to what the server really has");
        failure.error = failure.error.with_window(tokens.filter(|tokens| PLAUSIBLE.contains(tokens)));
        failure
    }

    /// An answer with more calls than that.
    pub(crate) fn too_many_calls(target: &Target, most: usize) -> Self {
        Self::protocol(format!("the model at {target} asked for more than {most} tool calls in one answer"))
            .hint("the model may be confused: ask again, or try another one")
    }

    /// An answer whose calls have arguments without end.
    pub(crate) fn too_long_arguments(target: &Target) -> Self {
        Self::protocol(format!("the model at {target} wrote more than 1 MiB of tool arguments"))
            .hint("ask it to work in smaller steps")
    }

    /// A request that did not fit. Many servers say how large the window is.
    fn overflow(target: &Target, said: &str, body: &[u8]) -> Self {
        let mut failure = Self::new(
            ErrorKind::ContextOverflow,
            format!("the conversation does not fit the context window of the model at {target}: {said}"),
        )
        .hint("start a new session, or set context_window to what the server really has");
        failure.error = failure.error.with_window(window::named(body));
        failure
    }
}
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_kinds() {
        let target = Target::for_tests("http://host/v1", "");
        let check = |status: u16, body: &str, kind: ErrorKind, again: bool| {
            let status = StatusCode::from_u16(status).unwrap();
            let failure = Failure::status(&target, status, &HeaderMap::new(), body.as_bytes());
            assert_eq!((failure.error.kind(), failure.again != Again::Never), (kind, again), "{status} {body}");
        };
        check(307, "", ErrorKind::Rejected, false);
        check(400, "bad", ErrorKind::Rejected, false);
        check(400, r#"{"error":{"message":"maximum context length is 4096"}}"#, ErrorKind::ContextOverflow, false);
        check(400, r#"{"error":{"type":"exceed_context_size_error"}}"#, ErrorKind::ContextOverflow, false);
        check(401, "", ErrorKind::Auth, false);
        check(402, "", ErrorKind::RateLimited, false);
        check(403, "", ErrorKind::Auth, false);
        check(404, "<html>", ErrorKind::Rejected, false);
        check(408, "", ErrorKind::Provider, true);
        check(409, "", ErrorKind::Provider, true);
        check(413, "", ErrorKind::ContextOverflow, false);
        const MINUTE: &str =
            r#"{"error":{"message":"Request too large on tokens per minute (TPM): Limit 6000, Used 1, Requested 9"}}"#;
        check(413, MINUTE, ErrorKind::RateLimited, true);
        check(400, MINUTE, ErrorKind::RateLimited, true);
        check(
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            ErrorKind::Provider,
            true,
        );
        check(400, r#"{"error":{"message":"no","code":"tool_use_failed"}}"#, ErrorKind::Rejected, true);
        check(429, "", ErrorKind::RateLimited, true);
        check(429, r#"{"error":{"code":"insufficient_quota"}}"#, ErrorKind::RateLimited, false);
        check(500, "", ErrorKind::Provider, true);
        check(529, "", ErrorKind::Provider, true);
        let body = br#"{"error":{"message":"it does not fit the context size","n_ctx":2048}}"#;
        let failure = Failure::status(&target, StatusCode::BAD_REQUEST, &HeaderMap::new(), body);
        assert_eq!(failure.error.window(), Some(2048));
    }
}

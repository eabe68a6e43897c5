//! Failures of model calls, and whether a retry can help.
//!
//! - `error_body`: parsing of error bodies in their many formats: message, cause, request ID, wait times and the
//!   model's window.

mod error_body;

use std::time::Duration;

use agentd_core::{
    Timestamp,
    error::{ErrorKind, ModelError},
};
use agentd_http::{CertificateProblem, certificate_problem};
use reqwest::{
    StatusCode,
    header::{HeaderMap, LOCATION},
};

use self::error_body::{Cause, ServerError, limit_reset, retry_after, retry_at, window_in};
pub(crate) use self::error_body::{PLAUSIBLE, excerpt, request_id};
use crate::http::{refusals::Refusal, target::Target};

/// Status for an error within an answer that names no status.
const UNKNOWN_STATUS: u16 = 0;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ModelError,
    pub(crate) retry: RetryCondition,
    /// The refusal, if another form of the request may be accepted.
    pub(crate) refusal: Option<Box<Refusal>>,
}

/// Condition for another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryCondition {
    Never,
    /// After the usual backoff.
    Later,
    /// After the wait that the server requested.
    After(Duration),
    /// After a fraction of a minute, because of a limit per minute. Uses the requested wait, if any. With `once`, this
    /// request alone may exceed the limit, so only one retry is made.
    Limited {
        wait: Option<Duration>,
        once: bool,
    },
    /// Once the server has loaded the model, which may take minutes.
    Loading,
    /// Immediately, because the model happened to write an invalid answer.
    Immediately,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let retry = match kind {
            ErrorKind::RateLimited
            | ErrorKind::Unreachable
            | ErrorKind::Timeout
            | ErrorKind::CutStream
            | ErrorKind::Provider => RetryCondition::Later,
            _ => RetryCondition::Never,
        };
        let failure = Self { error: ModelError::new(kind, message), retry, refusal: None };
        // Default hints.
        match kind {
            ErrorKind::Protocol => {
                failure.hint("check that the model's wire in models.yaml matches this server, and see the server's log")
            }
            ErrorKind::CutStream => failure.hint("try again; if it happens often, check the log of the model server"),
            ErrorKind::Provider => failure.hint("check the log of the model server, or try again later"),
            _ => failure,
        }
    }

    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.error = self.error.with_hint(hint);
        self
    }

    pub(crate) fn caused_by(mut self, error: reqwest::Error) -> Self {
        self.error = self.error.with_source(error.without_url());
        self
    }

    fn with_retry(self, retry: RetryCondition) -> Self {
        Self { retry, ..self }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }

    pub(crate) fn cut(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::CutStream, message)
    }

    /// Returns a failure for an event from another wire.
    pub(crate) fn other_wire(target: &Target, data: &str) -> Self {
        let data = excerpt(target, data);
        Self::protocol(format!("the model at {target} sent an event that is invalid for this wire: {data}"))
    }

    pub(crate) fn html(target: &Target) -> Self {
        Self::protocol(format!("the model at {target} answered with HTML"))
            .hint("base_url must be the model's API, such as http://127.0.0.1:8080/v1, not a web page")
    }

    /// Returns a failure for a request without an answer.
    pub(crate) fn from_send_error(target: &Target, error: reqwest::Error) -> Self {
        // The URL may contain a password or a key. The text of `target` does not.
        let error = error.without_url();
        let cause = excerpt(target, &innermost_cause(&error));
        if let Some(problem) = certificate_problem(&error) {
            return Self::certificate(target, problem, &cause).caused_by(error);
        }
        if error.is_connect() && error.is_timeout() {
            let message = format!("connecting to the model at {target} {} took too long", target.route());
            return Self::new(ErrorKind::Timeout, message)
                .hint("check base_url, and that the server is reachable from here");
        }
        if error.is_connect() {
            let message = format!("could not connect to the model at {target} {}: {cause}", target.route());
            return Self::new(ErrorKind::Unreachable, message)
                .hint("check that the model server is running, and that base_url is right")
                .caused_by(error);
        }
        if error.is_builder() {
            return Self::new(ErrorKind::Configuration, format!("could not write the request to {target}: {error}"));
        }
        let note = target.proxy_note();
        Self::cut(format!("the model at {target} closed the connection without an answer: {cause}{note}"))
            .caused_by(error)
    }

    /// Returns a failure for a connection whose certificates were not accepted. A retry cannot help.
    fn certificate(target: &Target, problem: CertificateProblem, cause: &str) -> Self {
        let (ca, cert) = (&target.certificates.ca_file, &target.certificates.client_cert_file);
        let (kind, setting, file, problem) = match problem {
            CertificateProblem::Server => {
                (ErrorKind::Unreachable, "ca_file", ca, "has a certificate that is not accepted")
            }
            CertificateProblem::Client => {
                (ErrorKind::Auth, "client_cert_file", cert, "requires a client certificate that it accepts")
            }
        };
        let file = file.as_ref().map_or("not set".to_owned(), |file| file.display().to_string());
        let message = format!("the model at {target} {problem} ({}): {cause}", target.route());
        let hint = format!("check {setting} of this model ({file}), its base_url, and the clock of this machine");
        Self::new(kind, message).with_retry(RetryCondition::Never).hint(&hint)
    }

    /// Returns a failure for a key that could not be read from its source.
    pub(crate) fn no_key(target: &Target, reason: &str) -> Self {
        let message = format!("could not get the key for the model at {target}: {reason}");
        Self::new(ErrorKind::Auth, message).hint(&target.key_hint())
    }

    /// Returns a failure for an answer with an error status.
    pub(crate) fn status(target: &Target, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let error = ServerError::read(body);
        let code = status.as_u16();
        let mut details = server_message(target, &error, request_id(headers));
        // A proxy may have answered instead of the server.
        if matches!(code, 407 | 502..=504) {
            details.push_str(&target.proxy_note());
        }
        let outcome = if is_server_failure(code) { "failed" } else { "refused the request" };
        let message = format!("the model at {target} {outcome} ({status}): {details}");
        if status.is_redirection() {
            let location = headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("another address");
            return Self::new(ErrorKind::Rejected, message)
                .hint(&format!("the server redirects to {}; set base_url to it", excerpt(target, location)));
        }
        Self::answered(target, code, headers, &error, &details, message)
    }

    /// Returns a failure for an error within an answer that had started successfully.
    pub(crate) fn reported(target: &Target, error: &str) -> Self {
        let error = ServerError::read(error.as_bytes());
        let details = server_message(target, &error, error.request_id.as_deref());
        let message = format!("the model at {target} reported an error: {details}");
        let code = error.status().unwrap_or(UNKNOWN_STATUS);
        Self::answered(target, code, &HeaderMap::new(), &error, &details, message)
    }

    /// Returns a failure for an error with this status. `message` is used if the cause is unknown.
    fn answered(
        target: &Target,
        status: u16,
        headers: &HeaderMap,
        error: &ServerError,
        details: &str,
        message: String,
    ) -> Self {
        let Some(cause) = error.cause(status) else {
            let mut failure = match status {
                _ if is_server_failure(status) => Self::new(ErrorKind::Provider, message)
                    .with_retry(retry_after(headers).map_or(RetryCondition::Later, RetryCondition::After)),
                404 => Self::new(ErrorKind::Rejected, message)
                    .hint("check the model's id, and that base_url ends where the API begins (often in /v1)"),
                _ => Self::new(ErrorKind::Rejected, message),
            };
            failure.refusal = Refusal::of(status, &error.body);
            return failure;
        };
        let once = error.is_too_large(status);
        let retry_time = error.reset.or_else(|| retry_at(headers));
        match cause {
            // An invalid key is never retried.
            Cause::Key if status == 403 && retry_time.is_some() => Self::exhausted(target, details, retry_time),
            Cause::Key => Self::new(ErrorKind::Auth, message).hint(&target.key_hint()),
            Cause::Exhausted => Self::exhausted(target, details, retry_time),
            Cause::Rate | Cause::Minute => {
                let is_quota = cause == Cause::Rate && error.names_quota();
                let problem = if is_quota { "is over its quota" } else { "is rate limited" };
                let message = format!("the model at {target} {problem}: {details}");
                let retry = match retry_after(headers).or(error.wait).or_else(|| limit_reset(headers)) {
                    wait if cause == Cause::Minute => RetryCondition::Limited { wait, once },
                    Some(wait) => RetryCondition::After(wait),
                    None => RetryCondition::Later,
                };
                Self::new(ErrorKind::RateLimited, message).with_retry(retry).hint(match once {
                    true => {
                        "a single request exceeds the provider's token limit per minute: use another model, or a plan with a \
                         higher limit"
                    }
                    false if is_quota => "wait, raise the quota in the provider's console, or use another model",
                    false => "wait a moment, or send fewer requests",
                })
            }
            Cause::Loading => Self::new(ErrorKind::Provider, format!("the model at {target} is not ready: {details}"))
                .with_retry(RetryCondition::Loading)
                .hint("the server is still loading the model; try again in a few minutes, or check the server's log"),
            Cause::InvalidOutput => Self::new(ErrorKind::Rejected, message)
                .with_retry(RetryCondition::Immediately)
                .hint("the model wrote a tool call that its server could not parse; try again, or use another model"),
            Cause::Window => {
                let message =
                    format!("the conversation does not fit the context window of the model at {target}: {details}");
                Self::overflow(message, window_in(&error.body))
            }
        }
    }

    /// Returns a failure for a quota, spending limit or balance that is exhausted until the given time, if the time is
    /// known.
    fn exhausted(target: &Target, details: &str, until: Option<Timestamp>) -> Self {
        let (kind, when) = match until {
            Some(until) => (ErrorKind::RateLimited, format!(" until {}", until.strftime("%Y-%m-%d %H:%M UTC"))),
            None => (ErrorKind::QuotaExceeded, String::new()),
        };
        let message = format!("the provider of the model at {target} accepts no more requests: {details}");
        Self::new(kind, message).with_retry(RetryCondition::Never).hint(&format!(
            "a quota, a spending limit or the balance is used up{when}: raise it in the provider's console, or use \
             another model"
        ))
    }

    /// Returns a failure for an answer that fills the window. `tokens` is the size of the window by the server's count.
    pub(crate) fn window_full(target: &Target, tokens: Option<u64>) -> Self {
        let message = format!("the conversation and the answer fill the context window of the model at {target}");
        Self::overflow(message, tokens.filter(|tokens| PLAUSIBLE.contains(tokens)))
    }

    fn overflow(message: String, window: Option<u64>) -> Self {
        let mut failure = Self::new(ErrorKind::ContextOverflow, message)
            .hint("start a new session, or set context_window to the server's actual window");
        failure.error = failure.error.with_window(window);
        failure
    }
}

/// Returns the message from the server, with the request ID.
fn server_message(target: &Target, error: &ServerError, request_id: Option<&str>) -> String {
    let mut message = excerpt(target, &error.shown);
    if let Some(id) = request_id {
        message.push_str(&format!(" [request {}]", excerpt(target, id)));
    }
    message
}

/// Returns true if the status indicates a failure of the server that may not affect the next attempt.
fn is_server_failure(status: u16) -> bool {
    matches!(status, UNKNOWN_STATUS | 408 | 409 | 500..=599)
}

fn innermost_cause(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failed(status: u16, body: &str) -> Failure {
        let (target, status) = (Target::for_tests("http://host/v1", ""), StatusCode::from_u16(status).unwrap());
        Failure::status(&target, status, &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn statuses_map_to_error_kinds() {
        let check = |status: u16, body: &str, kind: ErrorKind, retry: bool| {
            let failure = failed(status, body);
            assert_eq!(
                (failure.error.kind(), failure.retry != RetryCondition::Never),
                (kind, retry),
                "{status} {body}"
            );
        };
        check(307, "", ErrorKind::Rejected, false);
        check(400, "bad", ErrorKind::Rejected, false);
        check(400, r#"{"error":{"message":"maximum context length is 4096"}}"#, ErrorKind::ContextOverflow, false);
        check(400, r#"{"error":{"type":"exceed_context_size_error"}}"#, ErrorKind::ContextOverflow, false);
        // Text repeated from the request is ignored.
        let vllm = |input: &str| {
            let message = format!("[{{'type':'string_type','input':'{input}'}}]");
            json!({"object": "error", "message": message, "type": "BadRequestError", "code": 400}).to_string()
        };
        for input in ["why do I get insufficient_quota?", "exceeded your current quota", "invalid_api_key", "(TPM)"] {
            check(400, &vllm(input), ErrorKind::Rejected, false);
        }
        check(400, r#"{"error":{"message":"no insufficient_quota, no invalid_api_key"}}"#, ErrorKind::Rejected, false);
        check(404, r#"{"error":{"message":"no","code":"insufficient_quota"}}"#, ErrorKind::Rejected, false);
        let repeated = r#"{"detail":[{"loc":["body"],"input":"maximum context length is 4096"}]}"#;
        check(422, repeated, ErrorKind::Rejected, false);
        check(429, r#"{"error":{"message":"the context window"}}"#, ErrorKind::RateLimited, true);
        check(401, "", ErrorKind::Auth, false);
        check(402, "", ErrorKind::QuotaExceeded, false);
        check(403, "", ErrorKind::Auth, false);
        check(404, "<html>", ErrorKind::Rejected, false);
        check(408, "", ErrorKind::Provider, true);
        check(409, "", ErrorKind::Provider, true);
        check(413, "", ErrorKind::ContextOverflow, false);
        const MINUTE: &str =
            r#"{"error":{"message":"Request too large on tokens per minute (TPM): Limit 6000, Used 1, Requested 9"}}"#;
        check(413, MINUTE, ErrorKind::RateLimited, true);
        check(400, MINUTE, ErrorKind::RateLimited, true);
        let tokens = "The input token count (9001) exceeds the maximum number of tokens allowed (8192).";
        let gemini = |code: u16, message: &str| format!(r#"[{{"error":{{"code":{code},"message":"{message}"}}}}]"#);
        check(400, &gemini(400, tokens), ErrorKind::ContextOverflow, false);
        const QUOTA: &str = "You exceeded your current quota, please check your plan. Please retry in 34.07s.";
        check(429, &gemini(429, QUOTA), ErrorKind::RateLimited, true);
        check(429, &gemini(429, "You exceeded your current quota."), ErrorKind::QuotaExceeded, false);
        check(400, r#"{"error":{"message":"no","code":"tool_use_failed"}}"#, ErrorKind::Rejected, true);
        check(429, "", ErrorKind::RateLimited, true);
        check(429, r#"{"error":{"code":"insufficient_quota"}}"#, ErrorKind::QuotaExceeded, false);
        check(500, "", ErrorKind::Provider, true);
        check(529, "", ErrorKind::Provider, true);
        let body = r#"{"error":{"message":"it does not fit the context size","n_ctx":2048}}"#;
        assert_eq!(failed(400, body).error.window(), Some(2048));
        let large = "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested \
            44113. The input or output tokens must be reduced in order to run successfully.";
        let large = json!({"error": {"message": large, "code": "rate_limit_exceeded"}}).to_string();
        assert_eq!(failed(429, &large).retry, RetryCondition::Limited { wait: None, once: true });
        assert_eq!(failed(429, &gemini(429, QUOTA)).retry, RetryCondition::After(Duration::from_millis(34_070)));
        for message in ["Loading model", "The server is loading"] {
            assert_eq!(failed(503, &gemini(503, message)).retry, RetryCondition::Loading);
        }
    }

    /// Errors as observed from providers and gateways.
    #[test]
    fn exhausted_credit_is_neither_rate_limit_nor_auth_error() {
        let check = |status: u16, error: serde_json::Value, kind: ErrorKind| {
            let body = json!({ "error": error }).to_string();
            let failure = failed(status, &body);
            assert_eq!(failure.error.kind(), kind, "{status} {body}");
            failure
        };
        let says = |message: &str| json!({ "message": message });
        for (status, error) in [
            (400, says("You have reached your specified API usage limits. You will regain access on 2026-12-01.")),
            (400, json!({"message": "Access denied", "code": "Arrearage"})),
            (400, says("ExceededBudget: User=a over budget. Spend=1.2, Budget=1")),
            (401, json!({"message": "no", "type": "budget_exceeded"})),
            (403, says("Key limit exceeded (weekly limit). Manage it at https://openrouter.ai/settings/keys")),
            (403, says("Quota exceeded")),
            (403, json!({"message": "no", "code": "AllocationQuota.FreeTierOnly"})),
            (412, says("Account is suspended, possibly due to reaching the monthly spending limit")),
            (429, says("Your team has either used all available credits or reached its monthly spending limit")),
            (429, says("Your prepayment credits are depleted.")),
        ] {
            check(status, error, ErrorKind::QuotaExceeded);
        }
        for code in ["token_quota_exceeded", "request_quota_exceeded"] {
            let error = json!({"message": "Tokens per minute limit exceeded", "code": code});
            assert_ne!(check(429, error, ErrorKind::RateLimited).retry, RetryCondition::Never);
        }
        let error = json!({"message": "Tokens per day limit exceeded", "code": "token_quota_exceeded"});
        check(429, error, ErrorKind::QuotaExceeded);
        let details = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]);
        let error = json!({"message": "You exceeded your current quota.", "details": details});
        let failure = check(429, error, ErrorKind::RateLimited);
        assert_eq!(failure.retry, RetryCondition::After(Duration::from_millis(34_500)));
        assert!(failure.error.to_string().contains("is over its quota: "), "{}", failure.error);
        let failure = check(429, says("You are out of credits"), ErrorKind::RateLimited);
        assert!(!failure.error.to_string().contains("rate limited"), "{}", failure.error);
        check(403, json!({"message": "no access to model x", "code": "model_not_found"}), ErrorKind::Rejected);
        // A gateway includes the provider's error in its own.
        let raw = r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#;
        for raw in [json!(raw), serde_json::from_str(raw).unwrap()] {
            let error = json!({"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}});
            let failure = check(400, error, ErrorKind::ContextOverflow);
            assert!(failure.error.to_string().contains("210000"), "{}", failure.error);
        }
        let reported = r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"x is busy"}}}"#;
        let target = Target::for_tests("http://host/v1", "");
        assert_eq!(Failure::reported(&target, reported).error.kind(), ErrorKind::RateLimited);
        let error = json!({"message": "Provider returned error", "metadata": {"raw": "x is busy upstream"}});
        assert!(check(429, error, ErrorKind::RateLimited).error.to_string().contains("busy upstream"));
    }
}

//! Pending requests and retries. Also detects a server that is still loading the project, because its answers are
//! incomplete. Pure.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use serde_json::Value;
use tokio::time::Instant;

use super::{Reply, ServerAnswer, ServerError};

/// Error codes for changed content and server cancellation, after which a request is retried.
pub(super) const RETRYABLE: [i64; 2] = [-32801, -32802];
/// Maximum number of retries.
const MAX_RETRIES: u32 = 4;
/// Pause before a retry.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Kind of a request to a server.
pub(super) enum RequestKind {
    Initialize,
    /// Findings in a file, with the generation in which the findings were requested.
    Pull {
        below: PathBuf,
        generation: u64,
    },
    /// Query about a position.
    Question {
        method: &'static str,
        params: Value,
        reply: Reply<ServerAnswer>,
    },
}

/// Request that has not been answered.
pub(super) struct PendingRequest {
    pub(super) kind: RequestKind,
    deadline: Instant,
    tries: u32,
}

/// Time of a retry.
pub(super) enum RetryTime {
    At(Instant),
    /// As soon as the server has loaded the project.
    Loaded,
}

/// Pending requests of a server.
#[derive(Default)]
pub(super) struct Requests {
    in_flight: HashMap<i64, PendingRequest>,
    retries: Vec<(RetryTime, PendingRequest)>,
    last_id: i64,
}

impl Requests {
    /// Returns a new request ID.
    pub(super) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// Adds a request that is sent now, and returns its ID.
    pub(super) fn add(&mut self, request: PendingRequest) -> i64 {
        let id = self.next_id();
        self.in_flight.insert(id, request);
        id
    }

    /// Removes and returns the answered request, or `None` if the request has expired.
    pub(super) fn take_answered(&mut self, id: i64) -> Option<PendingRequest> {
        self.in_flight.remove(&id)
    }

    /// Returns true if the findings in this file have already been requested.
    pub(super) fn is_pulling(&self, file: &std::path::Path) -> bool {
        let mut all = self.in_flight.values().chain(self.retries.iter().map(|(_, request)| request));
        all.any(|request| matches!(&request.kind, RequestKind::Pull { below, .. } if below == file))
    }

    /// Queues a request for a retry.
    pub(super) fn keep(&mut self, retries: RetryTime, request: PendingRequest) {
        self.retries.push((retries, request));
    }

    /// Removes and returns the requests to retry now.
    pub(super) fn due(&mut self, now: Instant, is_loading: bool) -> Vec<PendingRequest> {
        let is_due = |(retries, _): &mut (RetryTime, PendingRequest)| match retries {
            RetryTime::At(at) => *at <= now,
            RetryTime::Loaded => !is_loading,
        };
        self.retries.extract_if(.., is_due).map(|(_, request)| request).collect()
    }

    /// Removes and returns the requests that have reached their deadline. Requests that were sent have an ID; requests
    /// that wait for a retry have none.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<(Option<i64>, PendingRequest)> {
        let unanswered = self.in_flight.extract_if(|_, request| request.deadline <= now);
        let unsent = self.retries.extract_if(.., |(_, request)| request.deadline <= now);
        unanswered.map(|(id, request)| (Some(id), request)).chain(unsent.map(|(_, request)| (None, request))).collect()
    }

    /// Returns the time of the next retry or deadline of a request.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        let retries = self.retries.iter().map(|(retries, PendingRequest { deadline, .. })| match retries {
            RetryTime::At(at) => *at.min(deadline),
            RetryTime::Loaded => *deadline,
        });
        self.in_flight.values().map(|request| request.deadline).chain(retries).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.retries.is_empty()
    }

    /// Fails all queries with this error.
    pub(super) fn fail(&mut self, error: &ServerError) {
        let retries = self.retries.drain(..).map(|(_, request)| request);
        for request in self.in_flight.drain().map(|(_, request)| request).chain(retries) {
            if let RequestKind::Question { reply, .. } = request.kind {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
}

impl PendingRequest {
    pub(super) fn new(kind: RequestKind, deadline: Instant) -> Self {
        Self { kind, deadline, tries: 0 }
    }

    /// Counts a retry. Returns true if the retry is allowed.
    pub(super) fn count_retry(&mut self) -> bool {
        self.tries += 1;
        self.tries <= MAX_RETRIES && !matches!(self.kind, RequestKind::Initialize)
    }
}

/// Maximum number of progress tokens.
const MAX_PROGRESS: usize = 64;
/// Time after which work without an end notification is considered done.
const MAX_AGE: Duration = Duration::from_secs(300);

/// Progress of a server.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// Start of each task, by its token.
    progress: HashMap<String, Instant>,
    /// Status reported by the server itself, which takes precedence, or `None` if the server reports no status.
    pub(super) is_quiescent: Option<bool>,
}

impl Loading {
    /// Handles a progress notification, whose token is a number or a string.
    pub(super) fn progress(&mut self, params: &Value, now: Instant) {
        let token = params["token"].to_string();
        match params["value"]["kind"].as_str() {
            Some("begin") if self.progress.len() < MAX_PROGRESS => drop(self.progress.insert(token, now)),
            Some("end") => drop(self.progress.remove(&token)),
            _ => {}
        }
    }

    pub(super) fn is_loading(&self, now: Instant) -> bool {
        match self.is_quiescent {
            Some(is_quiescent) => !is_quiescent,
            None => self.progress.values().any(|start| now < *start + MAX_AGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn request_is_resent_after_a_pause_or_project_load() {
        let (mut requests, start) = (Requests::default(), Instant::now());
        let (later, deadline) = (start + RETRY_DELAY, start + RETRY_DELAY * 4);
        let pull =
            |below: &str| PendingRequest::new(RequestKind::Pull { below: below.into(), generation: 0 }, deadline);
        requests.keep(RetryTime::At(later), pull("soon"));
        requests.keep(RetryTime::Loaded, pull("loaded"));
        assert!(requests.is_pulling("soon".as_ref()) && requests.is_pulling("loaded".as_ref()));
        assert_eq!(requests.next_timer(), Some(later));
        assert_eq!(requests.due(start, true).len(), 0);
        assert_eq!(requests.due(later, true).len(), 1);
        assert_eq!(requests.due(later, false).len(), 1);
        let id = requests.add(pull("asked"));
        requests.keep(RetryTime::Loaded, pull("loaded"));
        let expired_ids: Vec<_> = requests.expired(deadline).into_iter().map(|(id, _)| id).collect();
        assert_eq!((expired_ids, requests.is_empty()), (vec![Some(id), None], true));
        let mut pull = pull("tried");
        assert!((0..MAX_RETRIES).all(|_| pull.count_retry()) && !pull.count_retry());
    }

    #[test]
    fn unfinished_load_progress_expires() {
        let (mut loading, start) = (Loading::default(), Instant::now());
        loading.progress(&json!({"token": 1, "value": {"kind": "begin"}}), start);
        assert!(loading.is_loading(start) && !loading.is_loading(start + MAX_AGE));
    }
}

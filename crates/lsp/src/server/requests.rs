//! Requests that a server has not answered, and those that it is sent again. Pure.
//!
//! Signs that a server still reads the project: what it answers then is not the whole truth. Pure.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use serde_json::Value;
use tokio::time::Instant;

use super::{Reply, ServerAnswer, ServerError};
use crate::{
    message::RpcError,
    protocol::{Progress, ProgressKind},
};

/// Codes of answers that say that the text has changed meanwhile, or that it was cancelled: it is asked again.
const TRY_AGAIN: [i64; 2] = [-32801, -32802];
/// Times that it is.
const MOST_TRIES: u32 = 4;
/// Pause before it.
const PAUSE: Duration = Duration::from_millis(250);

/// Request that was not answered yet.
pub(super) enum PendingRequest {
    Initialize,
    Pull(Pull),
    Question(AskedQuestion),
}

/// Request for the findings of a file.
pub(super) struct Pull {
    pub(super) below: PathBuf,
    /// Count of what has made findings old, as it was asked.
    pub(super) generation: u64,
    pub(super) tries: u32,
}

/// Question about a place.
pub(super) struct AskedQuestion {
    pub(super) method: &'static str,
    pub(super) params: Value,
    pub(super) tries: u32,
    pub(super) reply: Reply<ServerAnswer>,
}

/// Moment at which a request is sent again.
enum Again {
    At(Instant),
    /// As soon as the server has loaded the project.
    Loaded,
}

/// All that a server was asked.
#[derive(Default)]
pub(super) struct Requests {
    asked: HashMap<i64, (Instant, PendingRequest)>,
    again: Vec<(Again, Instant, PendingRequest)>,
    last_id: i64,
}

impl Requests {
    /// An id that was not used yet.
    pub(super) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn add(&mut self, id: i64, deadline: Instant, request: PendingRequest) {
        self.asked.insert(id, (deadline, request));
    }

    /// The request that is answered, with its deadline; none where nobody waits for it any more.
    pub(super) fn answered(&mut self, id: i64) -> Option<(Instant, PendingRequest)> {
        self.asked.remove(&id)
    }

    /// Returns whether the findings of this file are asked for already.
    pub(super) fn is_pulling(&self, below: &std::path::Path) -> bool {
        let again = self.again.iter().map(|(_, _, request)| request);
        let all = self.asked.values().map(|(_, request)| request).chain(again);
        all.into_iter().any(|request| matches!(request, PendingRequest::Pull(pull) if pull.below == below))
    }

    /// Keeps a request for when the server has loaded the project.
    pub(super) fn ask_when_loaded(&mut self, deadline: Instant, request: PendingRequest) {
        self.again.push((Again::Loaded, deadline, request));
    }

    /// Keeps a request for a moment.
    pub(super) fn ask_soon(&mut self, now: Instant, deadline: Instant, request: PendingRequest) {
        self.again.push((Again::At(now + PAUSE), deadline, request));
    }

    /// The requests that are to be sent again now, with their deadlines.
    pub(super) fn due(&mut self, now: Instant, is_loading: bool) -> Vec<(Instant, PendingRequest)> {
        let is_due = |(again, _, _): &mut (Again, Instant, PendingRequest)| match again {
            Again::At(at) => *at <= now,
            Again::Loaded => !is_loading,
        };
        self.again.extract_if(.., is_due).map(|(_, deadline, request)| (deadline, request)).collect()
    }

    /// The requests whose time is over: those that were sent and not answered, with their ids, and those that were not sent again.
    pub(super) fn expired(&mut self, now: Instant) -> (Vec<(i64, PendingRequest)>, Vec<PendingRequest>) {
        let over: Vec<i64> = self.asked.iter().filter(|(_, (at, _))| *at <= now).map(|(id, _)| *id).collect();
        let unanswered = over.into_iter().filter_map(|id| Some((id, self.asked.remove(&id)?.1))).collect();
        let unsent = self.again.extract_if(.., |(_, deadline, _)| *deadline <= now);
        (unanswered, unsent.map(|(_, _, request)| request).collect())
    }

    /// Moment at which the next thing is due.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let again = self.again.iter().map(|(again, deadline, _)| match again {
            Again::At(at) => *at.min(deadline),
            Again::Loaded => *deadline,
        });
        self.asked.values().map(|(at, _)| *at).chain(again).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.again.is_empty()
    }

    /// Tells all who wait.
    pub(super) fn fail(&mut self, error: &ServerError) {
        let again = self.again.drain(..).map(|(_, _, request)| request);
        for request in self.asked.drain().map(|(_, (_, request))| request).chain(again) {
            if let PendingRequest::Question(question) = request {
                let _ = question.reply.send(Err(error.clone()));
            }
        }
    }
}

impl PendingRequest {
    /// Returns whether it may be asked once more, and counts that.
    pub(super) fn try_again(&mut self) -> bool {
        let tries = match self {
            Self::Initialize => return false,
            Self::Pull(pull) => &mut pull.tries,
            Self::Question(question) => &mut question.tries,
        };
        *tries += 1;
        *tries <= MOST_TRIES
    }
}

impl RpcError {
    /// Returns whether the same question may be answered a moment later.
    pub(super) fn is_passing(&self) -> bool {
        TRY_AGAIN.contains(&self.code)
    }
}

/// Work that is remembered as under way.
const MAX_PROGRESS: usize = 64;
/// Time after which work whose end was never told counts as done.
const MAX_AGE: Duration = Duration::from_secs(300);

/// Work of a server that it has told of.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// Start of each piece of work, by its token.
    progress: HashMap<String, Instant>,
    /// The server's own word, which counts more; none where it says nothing of it.
    is_quiescent: Option<bool>,
}

impl Loading {
    pub(super) fn progress(&mut self, told: &Progress, now: Instant) {
        let token = told.token.to_string();
        match told.value.kind {
            Some(ProgressKind::Begin) if self.progress.len() < MAX_PROGRESS => drop(self.progress.insert(token, now)),
            Some(ProgressKind::End) => drop(self.progress.remove(&token)),
            _ => {}
        }
    }

    pub(super) fn status(&mut self, is_quiescent: bool) {
        self.is_quiescent = Some(is_quiescent);
    }

    pub(super) fn is_under_way(&self, now: Instant) -> bool {
        match self.is_quiescent {
            Some(is_quiescent) => !is_quiescent,
            None => self.progress.values().any(|begun| now < *begun + MAX_AGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_is_sent_again_when_it_is_time_or_the_project_is_loaded() {
        let (mut requests, begun) = (Requests::default(), Instant::now());
        let pull = |below: &str| PendingRequest::Pull(Pull { below: below.into(), generation: 0, tries: 0 });
        let (later, deadline) = (begun + PAUSE, begun + PAUSE * 4);
        requests.ask_soon(begun, deadline, pull("soon"));
        requests.ask_when_loaded(deadline, pull("loaded"));
        assert!(requests.is_pulling("soon".as_ref()) && requests.is_pulling("loaded".as_ref()));
        assert_eq!(requests.next_look(), Some(later));
        assert_eq!(requests.due(begun, true).len(), 0);
        assert_eq!(requests.due(later, true).len(), 1);
        assert_eq!(requests.due(later, false).len(), 1);
        requests.add(7, deadline, pull("asked"));
        requests.ask_when_loaded(deadline, pull("loaded"));
        let (unanswered, unsent) = requests.expired(deadline);
        assert_eq!((unanswered.len(), unsent.len(), requests.is_empty()), (1, 1, true));
    }

    #[test]
    fn tries_are_counted() {
        let mut pull = PendingRequest::Pull(Pull { below: "a".into(), generation: 0, tries: 0 });
        assert!((0..MOST_TRIES).all(|_| pull.try_again()));
        assert!(!pull.try_again());
    }

    #[test]
    fn a_server_loads_while_it_says_so() {
        let (mut loading, begun) = (Loading::default(), Instant::now());
        let tell = |loading: &mut Loading, token: serde_json::Value, kind: &str| {
            let told = serde_json::from_value(json!({"token": token, "value": {"kind": kind}})).unwrap();
            loading.progress(&told, begun);
        };
        assert!(!loading.is_under_way(begun));
        tell(&mut loading, json!(1), "begin");
        tell(&mut loading, json!("1"), "begin");
        tell(&mut loading, json!(1), "end");
        tell(&mut loading, json!("1"), "other");
        assert!(loading.is_under_way(begun));
        assert!(!loading.is_under_way(begun + MAX_AGE), "an end that is never told");
        tell(&mut loading, json!("1"), "end");
        assert!(!loading.is_under_way(begun));
        loading.status(false);
        assert!(loading.is_under_way(begun));
        loading.status(true);
        tell(&mut loading, json!(2), "begin");
        assert!(!loading.is_under_way(begun), "its own word counts more");
    }
}

//! Last answers of sessions: a server that is told which one it was can say why it did not find that request in its cache.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{ids::SessionId, model::ModelRequest};

/// Sessions that are known at the same time.
const MAX_KNOWN: usize = 1024;

/// The longest id of an answer, in bytes.
const MAX_ID: usize = 256;

/// The server's ids of the last answers. A request whose tools may not be called is the end of a turn or a summary, and one without
/// tools is no part of a conversation: both pass by.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastAnswers(Arc<Mutex<HashMap<SessionId, String>>>);

impl LastAnswers {
    /// The id of the answer before this request, where one is known.
    pub(crate) fn before(&self, request: &ModelRequest) -> Option<String> {
        self.known().get(&request.session_id).cloned()
    }

    /// A note of the answer to this request.
    pub(crate) fn note_of(&self, request: &ModelRequest) -> AnswerNote {
        let goes_on = request.may_call && !request.tools.is_empty();
        let session = goes_on.then_some(request.session_id);
        AnswerNote { answers: self.clone(), session }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A note of one answer, to be made once its id is known.
#[derive(Debug, Default)]
pub(crate) struct AnswerNote {
    answers: LastAnswers,
    session: Option<SessionId>,
}

impl AnswerNote {
    /// Stores the id as that of the session's last answer.
    pub(crate) fn record(&self, id: &str) {
        let Some(session) = self.session.filter(|_| !id.is_empty() && id.len() <= MAX_ID) else { return };
        let mut known = self.answers.known();
        if known.len() >= MAX_KNOWN && !known.contains_key(&session) {
            // Any of them: a session that it is takes no comparison once.
            let other = known.keys().next().copied();
            other.and_then(|other| known.remove(&other));
        }
        known.insert(session, id.to_owned());
    }
}

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

/// The server's ids of the last answers. Requests without tools are no part of a conversation, and pass by.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastAnswers(Arc<Mutex<HashMap<SessionId, String>>>);

impl LastAnswers {
    /// The id of the answer before this request, where one is known.
    pub(crate) fn before(&self, request: &ModelRequest) -> Option<String> {
        self.known().get(&request.session_id).cloned()
    }

    /// A note of the answer to this request.
    pub(crate) fn note_of(&self, request: &ModelRequest) -> AnswerNote {
        let session = (!request.tools.is_empty()).then_some(request.session_id);
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
    /// Makes it.
    pub(crate) fn make(&self, id: &str) {
        let Some(session) = self.session.filter(|_| !id.is_empty() && id.len() <= MAX_ID) else { return };
        let mut known = self.answers.known();
        if known.len() >= MAX_KNOWN && !known.contains_key(&session) {
            known.clear();
        }
        known.insert(session, id.to_owned());
    }
}

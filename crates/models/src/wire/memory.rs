//! What a dialect remembers from one request to the next: the tools as they were written last, thoughts that the server has
//! refused, and which answer was the last one of a session.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{ids::SessionId, model::ModelRequest, tool::ToolSpec};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::dialect::{Order, unwritable};
use crate::http::failure::Failure;

/// The memory of a dialect whose servers sign thoughts, and compare requests.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) tools: WrittenTools,
    /// The answers whose thoughts the server has refused, each by what a wire knows it by: they are not sent to it again, while
    /// all others are.
    distrusted: Mutex<HashSet<String>>,
    pub(crate) last_answers: LastAnswers,
}

/// Tools, held so that no others can stand at their place in memory, and their JSON.
type ToolsAsJson = (Arc<[ToolSpec]>, Arc<RawValue>);

/// The tools that were written last. They are most of what a short request holds, and the same from step to step, and from turn to
/// turn where nothing is mentioned.
#[derive(Debug, Default)]
pub(crate) struct WrittenTools(Mutex<Option<ToolsAsJson>>);

impl WrittenTools {
    /// The tools of a request that has them in their own field, as JSON, each in the form of the wire.
    pub(crate) fn of(
        &self,
        order: &Order<'_>,
        form: impl Fn(&ToolSpec) -> Value,
    ) -> Result<Option<Arc<RawValue>>, Failure> {
        let specs = &order.request.tools;
        if specs.is_empty() || !order.is_native() {
            return Ok(None);
        }
        self.written(specs, form).map(Some).map_err(unwritable)
    }

    fn written(&self, specs: &Arc<[ToolSpec]>, form: impl Fn(&ToolSpec) -> Value) -> serde_json::Result<Arc<RawValue>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, json)) = last.as_ref().filter(|(written, _)| Arc::ptr_eq(written, specs)) {
            return Ok(Arc::clone(json));
        }
        let json: Arc<RawValue> = to_raw_value(&specs.iter().map(form).collect::<Value>())?.into();
        *last = Some((Arc::clone(specs), Arc::clone(&json)));
        Ok(json)
    }
}

/// Refused answers that are known at the same time.
const MAX_REFUSED: usize = 4096;

impl Memory {
    /// All answers whose thoughts the server has refused.
    pub(crate) fn distrusted(&self) -> MutexGuard<'_, HashSet<String>> {
        self.distrusted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of more of them.
    pub(crate) fn distrust(&self, refused: impl IntoIterator<Item = String>) {
        let mut known = self.distrusted();
        if known.len() > MAX_REFUSED {
            known.clear();
        }
        known.extend(refused);
    }
}

/// Sessions that are known at the same time.
const MAX_SESSIONS: usize = 1024;

/// The longest id of an answer, in bytes.
const MAX_ID: usize = 256;

/// The server's ids of the last answers of sessions: told which one it was, it can say why it did not find that request in its
/// cache. A request whose tools may not be called is the end of a turn or a summary, and one without
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
        if known.len() >= MAX_SESSIONS && !known.contains_key(&session) {
            // Any of them: a session that it is takes no comparison once.
            let other = known.keys().next().copied();
            other.and_then(|other| known.remove(&other));
        }
        known.insert(session, id.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;

    use super::*;

    fn tools(name: &str) -> Arc<[ToolSpec]> {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: "looks".to_owned(),
            parameters: serde_json::json!({"type": "object"}),
            effect: Effect::Read,
        };
        Arc::from([spec])
    }

    #[test]
    fn tools_are_written_once_and_never_as_others() {
        let written = WrittenTools::default();
        let (first, second) = (tools("read_file"), tools("grep"));
        let of = |specs| written.written(specs, |spec| spec.name.as_str().into()).unwrap();
        let once = of(&first);
        assert!(Arc::ptr_eq(&once, &of(&first)));
        assert_eq!(of(&second).get(), r#"["grep"]"#);
        assert_eq!(of(&first).get(), once.get());
    }
}

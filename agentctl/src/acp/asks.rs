//! Questions that are open on the editor's screen.

use std::collections::{HashMap, HashSet};

use agent_client_protocol_schema::v1::{CLIENT_METHOD_NAMES, SessionId};
use agentd_core::{
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
};
use futures_util::{
    StreamExt as _,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};

use super::{peer::Peer, permission, places::Places, question};

/// An answer of the editor; none where the person has put it off.
pub(super) type EditorAnswer = (Interrupt, Option<Answer>);

/// The open questions of a turn.
#[derive(Default)]
pub(super) struct Asks {
    open: FuturesUnordered<Abortable<BoxFuture<'static, EditorAnswer>>>,
    handles: HashMap<InterruptId, AbortHandle>,
    /// All that were ever asked here, so that none is asked twice.
    seen: HashSet<InterruptId>,
}

impl Asks {
    /// Asks, in a form or by options. False where the editor has no way to ask this, and where it was asked before.
    pub(super) fn ask(
        &mut self,
        peer: &Peer,
        session: &SessionId,
        call: Option<String>,
        interrupt: &Interrupt,
        places: &Places,
    ) -> bool {
        if !self.seen.insert(interrupt.id) {
            return true;
        }
        let (peer, interrupt) = (peer.clone(), interrupt.clone());
        let id = interrupt.id;
        let asking: BoxFuture<'static, EditorAnswer> = match &interrupt.ask {
            Ask::Approval { .. } => {
                let call = call.unwrap_or_else(|| id.to_string());
                let Some(request) = permission::request(session, call, &interrupt, places) else { return false };
                Box::pin(async move {
                    let method = CLIENT_METHOD_NAMES.session_request_permission;
                    let outcome = peer.request(method, &request).await;
                    let answer = outcome.as_ref().and_then(permission::answer);
                    (interrupt, answer)
                })
            }
            Ask::Question { .. } => {
                let Some(form) = question::form(session, call.as_deref(), &interrupt) else { return false };
                Box::pin(async move {
                    let outcome = peer.request(CLIENT_METHOD_NAMES.elicitation_create, &form).await;
                    let answer = outcome.as_ref().and_then(question::answer);
                    // An empty form is no answer where one is needed.
                    let answer = answer.filter(|answer| answer.misfit(&interrupt.ask).is_none());
                    (interrupt, answer)
                })
            }
        };
        let (handle, registration) = AbortHandle::new_pair();
        self.handles.insert(id, handle);
        self.open.push(Abortable::new(asking, registration));
        true
    }

    /// Returns whether this was asked here.
    pub(super) fn knows(&self, id: InterruptId) -> bool {
        self.seen.contains(&id)
    }

    /// The next answer; never where nothing is open. Dropping the wait loses nothing.
    pub(super) async fn next(&mut self) -> EditorAnswer {
        loop {
            match self.open.next().await {
                Some(Ok(asked)) => {
                    self.handles.remove(&asked.0.id);
                    return asked;
                }
                Some(Err(_withdrawn)) => {}
                None => return std::future::pending().await,
            }
        }
    }

    /// Takes a question off the screen that somebody else has answered.
    pub(super) fn withdraw(&mut self, id: InterruptId) {
        if let Some(handle) = self.handles.remove(&id) {
            handle.abort();
        }
    }

    /// Takes all of them off the screen.
    pub(super) fn withdraw_all(&mut self) {
        self.handles.clear();
        self.open.clear();
    }
}

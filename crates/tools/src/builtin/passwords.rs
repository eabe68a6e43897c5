//! Passwords of documents: asked of the person whose call it is, and kept in memory as long as the session.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use agentd_core::{
    error::KnowledgeError,
    ids::SessionId,
    interrupt::{Answer, Ask},
    knowledge::{OpenDocument, Password},
    ports::ToolContext,
};
use agentd_workspace::failure::Failure;
use futures_util::future::BoxFuture;

use super::documents;

/// Times that a person is asked for the password of one document by one call.
const TRIES: usize = 3;
/// Passwords of one session that are kept; the oldest goes first.
const KEPT: usize = 32;

/// Passwords that people gave, by session.
#[derive(Debug, Default)]
pub(crate) struct Passwords(Mutex<VecDeque<(SessionId, Password)>>);

impl Passwords {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(SessionId, Password)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of a session, the newest first.
    fn of(&self, session: SessionId) -> Vec<Password> {
        self.lock().iter().rev().filter(|(owner, _)| *owner == session).map(|(_, password)| password.clone()).collect()
    }

    fn keep(&self, session: SessionId, password: Password) {
        let mut kept = self.lock();
        kept.retain(|known| *known != (session, password.clone()));
        if kept.iter().filter(|(owner, _)| *owner == session).count() >= KEPT
            && let Some(oldest) = kept.iter().position(|(owner, _)| *owner == session)
        {
            kept.remove(oldest);
        }
        kept.push_back((session, password));
    }

    /// Forgets those of a session that is gone.
    pub(crate) fn forget(&self, session: SessionId) {
        self.lock().retain(|(owner, _)| *owner != session);
    }
}

/// Does something with a document; where it needs a password, with each that the session knows, and then with those that
/// the person types.
pub(super) async fn unlocked<'a, T>(
    context: &ToolContext,
    passwords: &Passwords,
    document: OpenDocument,
    doing: &str,
    act: impl Fn(OpenDocument) -> BoxFuture<'a, Result<T, KnowledgeError>> + Send + Sync,
) -> Result<T, Failure> {
    let name = document.name.clone();
    let again = |password: Option<Password>| document.again(password).map_err(|error| Failure::io(doing, &error));
    let failed = |error: &KnowledgeError| documents::failed(doing, error);
    let mut last = match act(again(None)?).await {
        Err(error) if error.needs_password() => error,
        done => return done.map_err(|error| failed(&error)),
    };
    for known in passwords.of(context.session_id) {
        match act(again(Some(known))?).await {
            Err(error) if error.needs_password() => last = error,
            done => return done.map_err(|error| failed(&error)),
        }
    }
    for tried in 0..TRIES {
        let password = match context.person.ask(question(&name, tried)).await {
            Some(Answer::Text { text }) => Password::new(text),
            Some(_) => return Err(Failure::tool(format!("could not {doing}: the person gave no password for it"))),
            None => return Err(failed(&last)),
        };
        match act(again(Some(password.clone()))?).await {
            Err(error) if error.needs_password() => last = error,
            // Where something else is wrong nobody knows whether it was the right one.
            Err(error) => return Err(failed(&error)),
            Ok(done) => {
                passwords.keep(context.session_id, password);
                return Ok(done);
            }
        }
    }
    Err(Failure::tool(format!(
        "could not {doing}: it needs a password, and the {TRIES} that the person typed did not open it; ask the person before \
         you try again"
    )))
}

/// The question for a password. Each has its own words, so that an answer is the answer to one.
fn question(name: &str, tried: usize) -> Ask {
    let wrong = match tried {
        0 => String::new(),
        tried => format!("That password did not open it (try {} of {TRIES}).\n", tried + 1),
    };
    Ask::Question {
        question: format!("What is the password of {name}?"),
        context: Some(format!(
            "{wrong}The document is encrypted. The password is kept in memory for this session only: the model does not see \
             it, and nothing stores it."
        )),
        default: None,
        required: true,
        choices: Vec::new(),
        secret: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_those_of_one_session_and_go_with_it() {
        let passwords = Passwords::default();
        let (one, other) = (SessionId::generate(), SessionId::generate());
        for number in 0..40 {
            passwords.keep(one, Password::new(number.to_string()));
        }
        passwords.keep(other, Password::new("secret".to_owned()));
        passwords.keep(one, Password::new("39".to_owned()));
        let known = passwords.of(one);
        assert_eq!((known.len(), known[0].reveal(), known[31].reveal()), (KEPT, "39", "8"));
        passwords.forget(one);
        assert_eq!((passwords.of(one).len(), passwords.of(other).len()), (0, 1));
        assert!(!format!("{passwords:?}").contains("secret"));
    }
}

//! What people have allowed: for good, which is kept in the journal and seen by every session at once, and for one
//! session, which that session keeps itself.

use std::sync::Arc;

use agentd_core::{
    Timestamp,
    audit::{AuditEntry, AuditFact},
    error::{ErrorKind, StoreError},
    grant::{Grant, GrantScope, HeldGrant},
    ids::SessionId,
    interrupt::AnsweredBy,
    ports::Store,
};
use agentd_policy::{check_grant, check_grant_of_other};
use tokio::sync::{mpsc, oneshot, watch};

use super::Engine;
use crate::error::EngineError;

/// Characters that are kept of a client's name.
const MAX_NAME: usize = 100;

/// Changes that wait to be taken in at the most.
const QUEUE: usize = 64;

/// The rules that are kept for good, as they are now.
///
/// One task reads them from the journal after each change. So however changes and reads meet, what everybody sees in
/// the end is what is stored.
#[derive(Clone)]
pub(crate) struct KeptHandle {
    changes: mpsc::Sender<oneshot::Sender<Result<(), StoreError>>>,
    now: watch::Receiver<Arc<[Grant]>>,
}

impl KeptHandle {
    /// Starts the task. Until the first [`Self::reload`], nothing is kept. It ends with the last handle.
    pub(super) fn spawn(store: Arc<dyn Store>) -> Self {
        let (changes, mut asked) = mpsc::channel::<oneshot::Sender<Result<(), StoreError>>>(QUEUE);
        let (publish, now) = watch::channel(Arc::from([]));
        tokio::spawn(async move {
            while let Some(reply) = asked.recv().await {
                let read = store.grants().await;
                // Where nobody knows what is kept, nothing is: a rule that was taken back must not live on.
                let grants = read.as_deref().map(Arc::from).unwrap_or_else(|_| Arc::from([]));
                publish.send_replace(grants);
                let _ = reply.send(read.map(drop));
            }
        });
        Self { changes, now }
    }

    /// Takes in what was changed in the journal. It holds in every session when this returns.
    pub(crate) async fn reload(&self) -> Result<(), EngineError> {
        let (reply, done) = oneshot::channel();
        self.changes.send(reply).await.map_err(|_| EngineError::stopping())?;
        Ok(done.await.map_err(|_| EngineError::stopping())??)
    }

    /// The rules as they are now.
    pub(crate) fn now(&self) -> Arc<[Grant]> {
        Arc::clone(&self.now.borrow())
    }
}

/// What is allowed in one session, as it stands now: unlike the settings of a turn it changes while the turn runs,
/// so that a rule that is taken back does not hold for the next call.
#[derive(Clone)]
pub(crate) struct LiveGrants {
    pub(crate) of_session: watch::Receiver<Arc<[Grant]>>,
    pub(crate) kept: KeptHandle,
}

impl LiveGrants {
    /// The rules of this session alone.
    pub(crate) fn of_session(&self) -> Vec<Grant> {
        self.of_session.borrow().to_vec()
    }

    /// Waits until the rules of the session change.
    pub(crate) async fn changed(&mut self) {
        if self.of_session.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The rules that are kept for good.
    pub(crate) fn for_good(&self) -> Arc<[Grant]> {
        self.kept.now()
    }
}

impl Engine {
    /// The rules that people keep: those for good, then those of sessions; of one session, all that hold in it.
    ///
    /// # Errors
    /// When there is no such session or the journal cannot be read.
    pub async fn grants(&self, session: Option<SessionId>) -> Result<Vec<HeldGrant>, EngineError> {
        let store = &self.shared.parts.store;
        let mut held: Vec<HeldGrant> =
            store.grants().await?.into_iter().map(|grant| HeldGrant { session_id: None, grant }).collect();
        match session {
            None => held.extend(store.session_grants().await?),
            Some(id) => {
                let settings = self.session(id).await?.show().await?.session.settings;
                held.extend(settings.grants.into_iter().map(|grant| HeldGrant { session_id: session, grant }));
            }
        }
        Ok(held)
    }

    /// Keeps a rule for one session, or for good. It holds for the next call of running turns too.
    ///
    /// # Errors
    /// When the rule makes no sense, there is no such session, or the journal cannot be written.
    pub async fn add_grant(&self, session: Option<SessionId>, rule: String, client: String) -> Result<(), EngineError> {
        let rule = rule.trim().to_owned();
        let client: String = client.chars().take(MAX_NAME).collect();
        let config = self.shared.config();
        let tools = self.tools();
        check_grant_of_other(&config.policy, &rule, &tools, &self.shared.stock().others())
            .unwrap_or_else(|| check_grant(&config.policy, &rule, &tools))
            .map_err(|unfit| EngineError::new(ErrorKind::InvalidInput, unfit.problem).with_hint(unfit.hint))?;
        let at = self.shared.parts.clock.now();
        let fact = AuditFact::GrantAdded {
            rule: rule.clone(),
            scope: scope(session).as_str().to_owned(),
            by: AnsweredBy::Client(client.clone()),
        };
        // What is not in the audit log is not allowed.
        self.shared.parts.audit.record(entry(at, session, fact)).await?;
        let grant = Grant { rule, at: Some(at), by: Some(client) };
        match session {
            Some(id) => self.session(id).await?.grant(grant).await,
            None => {
                self.shared.parts.store.keep_grant(grant).await?;
                self.shared.kept.reload().await
            }
        }
    }

    /// Takes a rule back, from one session or from what is kept for good. It no longer holds for the next call of
    /// running turns either.
    ///
    /// # Errors
    /// When no such rule is kept there, or the journal cannot be written.
    pub async fn revoke_grant(
        &self,
        session: Option<SessionId>,
        rule: String,
        client: String,
    ) -> Result<(), EngineError> {
        let fact = AuditFact::GrantRevoked {
            rule: rule.clone(),
            scope: scope(session).as_str().to_owned(),
            by: AnsweredBy::Client(client),
        };
        match session {
            Some(id) => self.session(id).await?.revoke(rule).await?,
            None => self.revoke_for_good(rule).await?,
        }
        // What is taken back must not wait for a log that cannot be written.
        self.shared.parts.audit.note(entry(self.shared.parts.clock.now(), session, fact)).await;
        Ok(())
    }

    async fn revoke_for_good(&self, rule: String) -> Result<(), EngineError> {
        let kept = self.shared.parts.store.grants().await?;
        if !kept.iter().any(|grant| grant.rule == rule) {
            return Err(not_kept("for good", &rule));
        }
        self.shared.parts.store.revoke_grant(rule).await?;
        self.shared.kept.reload().await
    }
}

fn scope(session: Option<SessionId>) -> GrantScope {
    if session.is_some() { GrantScope::Session } else { GrantScope::ForGood }
}

fn entry(at: Timestamp, session: Option<SessionId>, fact: AuditFact) -> AuditEntry {
    match session {
        Some(id) => AuditEntry::of_session(at, id, fact),
        None => AuditEntry::general(at, fact),
    }
}

/// There is nothing to take back.
pub(crate) fn not_kept(place: &str, rule: &str) -> EngineError {
    let shown: String = rule.chars().take(200).collect();
    EngineError::new(ErrorKind::NotFound, format!("no rule {shown:?} is kept {place}"))
        .with_hint("agentctl grants list shows what is kept, word for word")
}

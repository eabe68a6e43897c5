//! What people have allowed: for good, which is kept in the journal and seen by every session at once, and for one
//! session, which that session keeps itself.

use agentd_core::{
    Timestamp,
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    grant::{Grant, GrantScope, HeldGrant},
    ids::SessionId,
    interrupt::AnsweredBy,
};
use agentd_policy::{check_grant, check_grant_of_other};

use super::Engine;
use crate::{error::EngineError, grants::not_kept};

/// Characters that are kept of a client's name.
const MAX_NAME: usize = 100;

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

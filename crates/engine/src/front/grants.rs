//! What people have allowed: for good, which is kept in the journal and seen by every session at once, and for one
//! session, which that session keeps itself; and the projects that they trust. Nothing that a model does leads here.

use std::path::PathBuf;

use agentd_core::{
    Timestamp,
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    grant::{Grant, GrantScope, HeldGrant},
    ids::SessionId,
    interrupt::AnsweredBy,
    ports::Projects,
    project::{ProjectProblem, ProjectReport},
};
use agentd_policy::{check_grant, check_grant_of_other};

use crate::{agents::handoff_tools, error::EngineError, front::Engine, grants::not_kept};

/// Characters that are kept of a client's name.
const MAX_NAME: usize = 100;

impl Engine {
    /// The rules that people keep: those for good, then those of sessions; of one session, all that hold in it.
    ///
    /// # Errors
    /// When there is no such session or the journal cannot be read.
    pub async fn grants(&self, session: Option<SessionId>) -> Result<Vec<HeldGrant>, EngineError> {
        let store = &self.shared.ports.store;
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
            .map_err(|unfit| EngineError::invalid(unfit.problem, unfit.hint))?;
        let at = self.shared.ports.clock.now();
        let fact = AuditFact::GrantAdded {
            rule: rule.clone(),
            scope: scope(session).as_str().to_owned(),
            by: AnsweredBy::Client(client.clone()),
        };
        // What is not in the audit log is not allowed.
        self.shared.ports.audit.record(entry(at, session, fact)).await?;
        let grant = Grant { rule, at: Some(at), by: Some(client) };
        match session {
            Some(id) => self.session(id).await?.grant(grant).await,
            None => {
                self.shared.ports.store.keep_grant(grant).await?;
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
        self.shared.ports.audit.note(entry(self.shared.ports.clock.now(), session, fact)).await;
        Ok(())
    }

    async fn revoke_for_good(&self, rule: String) -> Result<(), EngineError> {
        let kept = self.shared.ports.store.grants().await?;
        if !kept.iter().any(|grant| grant.rule == rule) {
            return Err(not_kept("for good", &rule));
        }
        self.shared.ports.store.revoke_grant(rule).await?;
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

/// Characters that are kept of a client's name.
const MAX_CLIENT: usize = 100;

impl Engine {
    /// All that is known of a project: what it brings along, and whether the person trusts it.
    ///
    /// # Errors
    /// When there is no such folder, or it cannot be read.
    pub async fn show_project(&self, project: PathBuf) -> Result<ProjectReport, EngineError> {
        let report = self.projects()?.show(project).await?;
        Ok(self.checked(report))
    }

    /// Trusts a project as long as its content has this hash, in a client's name.
    ///
    /// # Errors
    /// When it has another hash, there is nothing to trust, or the audit log or the trust cannot be stored.
    pub async fn trust_project(
        &self,
        project: PathBuf,
        hash: String,
        client: String,
    ) -> Result<ProjectReport, EngineError> {
        let projects = self.projects()?;
        let now = projects.show(project.clone()).await?;
        if !now.hash.is_empty() && now.hash == hash {
            let fact = AuditFact::ProjectTrusted {
                project: now.path.display().to_string(),
                sha256: hash.clone(),
                by: client_of(&client),
            };
            // What is not in the audit log is not allowed.
            self.shared.ports.audit.record(self.entry(fact)).await?;
        }
        let report = projects.trust(project, hash, client).await?;
        Ok(self.checked(report))
    }

    /// Trusts a project no longer, in a client's name.
    ///
    /// # Errors
    /// When it is not trusted, or that cannot be stored.
    pub async fn distrust_project(&self, project: PathBuf, client: String) -> Result<ProjectReport, EngineError> {
        let report = self.projects()?.distrust(project).await?;
        let project = report.path.display().to_string();
        let fact = AuditFact::ProjectDistrusted { project, by: client_of(&client) };
        // What is taken back must not wait for a log that cannot be written.
        self.shared.ports.audit.note(self.entry(fact)).await;
        Ok(self.checked(report))
    }

    fn projects(&self) -> Result<&dyn Projects, EngineError> {
        self.shared.ports.workspaces.projects().ok_or_else(|| {
            EngineError::new(ErrorKind::Configuration, "this daemon keeps no trust in projects")
                .with_hint("start it as usual")
        })
    }

    fn entry(&self, fact: AuditFact) -> AuditEntry {
        AuditEntry::general(self.shared.ports.clock.now(), fact)
    }

    /// The report with what the configuration has to say about its agents.
    fn checked(&self, mut report: ProjectReport) -> ProjectReport {
        let (configured, tools) = (self.agents(), self.tools());
        let is_tool = |name: &str| tools.iter().any(|tool| tool.name == handoff_tools::canonical_name(name));
        let mut problem = |message: String, is_fatal: bool| {
            report.problems.push(ProjectProblem { file: String::new(), message, is_fatal });
        };
        for card in &report.agents {
            if configured.get(&card.id).is_some() {
                let told = "is not used, because the configuration has an agent of this name";
                problem(format!("the agent `{}` {told}", card.id), true);
            }
            for name in card.named_tools().filter(|name| !is_tool(name)) {
                problem(format!("the agent `{}` names the tool {name:?}, which is not there", card.id), false);
            }
        }
        report
    }
}

fn client_of(name: &str) -> AnsweredBy {
    AnsweredBy::Client(name.chars().take(MAX_CLIENT).collect())
}

//! Trust of the person in projects. Nothing that a model does leads here.

use std::path::PathBuf;

use agentd_core::{
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    interrupt::AnsweredBy,
    ports::Projects,
    project::{ProjectProblem, ProjectReport},
};

use super::Engine;
use crate::{agents::delegate_tool, error::EngineError};

/// Characters that are kept of a client's name.
const MAX_NAME: usize = 100;

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
            self.shared.parts.audit.record(self.entry(fact)).await?;
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
        self.shared.parts.audit.note(self.entry(fact)).await;
        Ok(self.checked(report))
    }

    fn projects(&self) -> Result<&dyn Projects, EngineError> {
        self.shared.parts.workspaces.projects().ok_or_else(|| {
            EngineError::new(ErrorKind::Configuration, "this daemon keeps no trust in projects")
                .with_hint("start it as usual")
        })
    }

    fn entry(&self, fact: AuditFact) -> AuditEntry {
        AuditEntry::general(self.shared.parts.clock.now(), fact)
    }

    /// The report with what the configuration has to say about its agents.
    fn checked(&self, mut report: ProjectReport) -> ProjectReport {
        let (configured, tools) = (self.agents(), self.tools());
        let is_tool = |name: &str| tools.iter().any(|tool| tool.name == delegate_tool::canonical_name(name));
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
    AnsweredBy::Client(name.chars().take(MAX_NAME).collect())
}

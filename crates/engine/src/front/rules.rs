//! Grants by the user: permanent grants, which are stored in the journal and visible to all sessions at once, and
//! grants for one session, which are stored in its settings. Also trust in projects. No action of a model calls this
//! module.
//!
//! Also dry runs of calls, for users who want to check in advance the verdict on a call and its effect.

use std::{path::PathBuf, sync::Arc};

use agentd_core::{
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    files::SessionTree,
    grant::{Grant, GrantScope, ScopedGrant},
    ids::{CallId, InterruptId, SessionId, TurnId},
    interrupt::{AnsweredBy, Ask, Interrupt},
    policy::{Confinement, Explanation, Verdict},
    ports::{Projects, ToolContext, Workspace},
    project::{ProjectProblem, ProjectReport},
    session::SessionSettings,
    tool::{Effect, FollowedLink, StartFolder, ToolCall, ToolSpec},
};
use agentd_policy::{CallContext, ForeignTools, Policy, check_grant, check_grant_of_other, is_shallow, roots};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    agents,
    error::{EngineError, Result},
    front::Engine,
    grants::unknown_grant,
    links::check_preview_size,
    session::turns::interrupts::denied_edit_error,
};

/// Maximum length of a stored client name, in characters.
const MAX_NAME: usize = 100;

impl Engine {
    /// Lists permanent grants followed by the grants of all sessions, or all grants that apply in one session.
    ///
    /// # Errors
    /// Fails if there is no such session or the journal cannot be read.
    pub async fn grants(&self, session: Option<SessionId>) -> Result<Vec<ScopedGrant>> {
        let store = &self.shared.ports.store;
        let mut grants: Vec<ScopedGrant> =
            store.grants().await?.into_iter().map(|grant| ScopedGrant { session_id: None, grant }).collect();
        match session {
            None => grants.extend(store.session_grants().await?),
            Some(id) => {
                let settings = self.session(id).await?.show().await?.session.settings;
                grants.extend(settings.grants.into_iter().map(|grant| ScopedGrant { session_id: session, grant }));
            }
        }
        Ok(grants)
    }

    /// Adds a grant to one session, or a permanent one. The grant also applies to the next call in running turns.
    ///
    /// # Errors
    /// Fails if the rule is invalid, there is no such session, or the audit log or the journal cannot be written.
    pub async fn add_grant(&self, session: Option<SessionId>, rule: String, client: String) -> Result<()> {
        let rule = rule.trim().to_owned();
        let client: String = client.chars().take(MAX_NAME).collect();
        let config = self.shared.config();
        let tools = self.tools();
        check_grant_of_other(&config.policy, &rule, &tools, &self.shared.catalog().owners())
            .unwrap_or_else(|| check_grant(&config.policy, &rule, &tools))
            .map_err(|unfit| EngineError::invalid(unfit.problem, unfit.hint))?;
        let by = AnsweredBy::Client(client.clone());
        let fact = AuditFact::GrantAdded { rule: rule.clone(), scope: scope(session), by };
        let entry = self.entry(session, fact);
        let grant = Grant { rule, at: Some(entry.at), by: Some(client) };
        // A grant takes effect only if it is in the audit log.
        self.shared.ports.audit.record(entry).await?;
        match session {
            Some(id) => self.session(id).await?.grant(grant).await,
            None => {
                self.shared.ports.store.store_grant(grant).await?;
                self.shared.permanent_grants.reload().await
            }
        }
    }

    /// Revokes a grant of one session, or a permanent one. The grant no longer applies to the next call in running
    /// turns.
    ///
    /// # Errors
    /// Fails if there is no such grant, or the journal cannot be written.
    pub async fn revoke_grant(&self, session: Option<SessionId>, rule: String, client: String) -> Result<()> {
        let by = AnsweredBy::Client(client);
        let fact = AuditFact::GrantRevoked { rule: rule.clone(), scope: scope(session), by };
        match session {
            Some(id) => self.session(id).await?.revoke(rule).await?,
            None => {
                let store = &self.shared.ports.store;
                if !store.grants().await?.iter().any(|grant| grant.rule == rule) {
                    return Err(unknown_grant("permanent", &rule));
                }
                store.revoke_grant(rule).await?;
                self.shared.permanent_grants.reload().await?;
            }
        }
        // A revocation must not wait for a log that cannot be written.
        self.shared.ports.audit.note(self.entry(session, fact)).await;
        Ok(())
    }

    /// Reports the contents that a project provides, and the user's trust in it.
    ///
    /// # Errors
    /// Fails if there is no such folder, or it cannot be read.
    pub async fn show_project(&self, project: PathBuf) -> Result<ProjectReport> {
        let report = self.projects()?.show(project).await?;
        Ok(self.with_agent_problems(report))
    }

    /// Trusts a project on behalf of a client if the project's content has this hash.
    ///
    /// # Errors
    /// Fails if the hash differs, there is nothing to trust, or the audit log or the trust cannot be stored.
    pub async fn trust_project(&self, project: PathBuf, hash: String, client: String) -> Result<ProjectReport> {
        let projects = self.projects()?;
        let now = projects.show(project.clone()).await?;
        if !now.hash.is_empty() && now.hash == hash {
            let fact = AuditFact::ProjectTrusted {
                project: now.path.display().to_string(),
                sha256: hash.clone(),
                by: client_of(&client),
            };
            // Trust takes effect only if it is in the audit log.
            self.shared.ports.audit.record(self.entry(None, fact)).await?;
        }
        let report = projects.trust(project, hash, client).await?;
        Ok(self.with_agent_problems(report))
    }

    /// Revokes the trust in a project on behalf of a client.
    ///
    /// # Errors
    /// Fails if the project is not trusted, or the change cannot be stored.
    pub async fn distrust_project(&self, project: PathBuf, client: String) -> Result<ProjectReport> {
        let report = self.projects()?.distrust(project).await?;
        let project = report.path.display().to_string();
        let fact = AuditFact::ProjectDistrusted { project, by: client_of(&client) };
        // A revocation must not wait for a log that cannot be written.
        self.shared.ports.audit.note(self.entry(None, fact)).await;
        Ok(self.with_agent_problems(report))
    }

    fn projects(&self) -> Result<&dyn Projects> {
        self.shared.ports.workspaces.projects().ok_or_else(|| {
            EngineError::new(ErrorKind::Configuration, "this daemon does not store trust in projects")
                .with_hint("start it normally")
        })
    }

    fn entry(&self, session: Option<SessionId>, fact: AuditFact) -> AuditEntry {
        let at = self.shared.ports.clock.now();
        match session {
            Some(id) => AuditEntry::of_session(at, id, fact),
            None => AuditEntry::general(at, fact),
        }
    }

    /// Adds problems of the project's agents with the current configuration to a report.
    fn with_agent_problems(&self, mut report: ProjectReport) -> ProjectReport {
        let (config, tools) = (self.shared.config(), self.tools());
        let is_tool = |name: &str| tools.iter().any(|tool| tool.name == agents::canonical_name(name));
        let mut problem = |message: String, is_fatal: bool| {
            report.problems.push(ProjectProblem { file: String::new(), message, is_fatal });
        };
        for card in &report.agents {
            if config.agents.get(&card.id).is_some() {
                let reason = "is not used, because the configuration has an agent with this name";
                problem(format!("the agent `{}` {reason}", card.id), true);
            }
            for name in card.named_tools().filter(|name| !is_tool(name)) {
                problem(format!("the agent `{}` names the tool {name:?}, which does not exist", card.id), false);
            }
        }
        report
    }

    /// Creates the dry run context of a session, or of a new session without a project.
    ///
    /// # Errors
    /// Fails if there is no such session, or the journal cannot be read.
    pub async fn dry_run_subject(&self, session: Option<SessionId>) -> Result<DryRunSubject> {
        let grants = self.shared.permanent_grants.now();
        let others = Arc::new(self.shared.catalog().owners());
        let unheld = !self.shared.ports.toolbox.can_enforce_read_only().await;
        let contained = self.shared.ports.toolbox.can_contain_commands().await;
        let at =
            DryRunSubject { settings: self.session_defaults(), workspace: None, grants, others, unheld, contained };
        let Some(id) = session else { return Ok(at) };
        let unknown = || EngineError::new(ErrorKind::NotFound, format!("no such session: {id}"));
        let settings = self.shared.ports.store.session(id).await?.ok_or_else(unknown)?.settings;
        // `locate` creates nothing, because this is only a query. If the project is gone, no rule covers its files, but
        // the session's settings and grants still apply.
        let workspace = match self.shared.ports.workspaces.locate(id, settings.mounts()).await {
            Ok(workspace) => Some(Arc::new(workspace)),
            Err(error) => {
                tracing::debug!(session = %id, "judging calls without the session's folders: {error}");
                None
            }
        };
        Ok(DryRunSubject { settings, workspace, ..at })
    }

    /// Resolves the files of a call in this context.
    pub async fn look_up(&self, at: &DryRunSubject, tool: &ToolSpec, arguments: &str) -> LookedUp {
        let Some(workspace) = at.workspace.clone() else { return LookedUp::default() };
        let call = call(tool, arguments);
        self.look_up_in(&self.context_of(&call, SessionId::generate(), workspace), &call).await
    }

    async fn look_up_in(&self, context: &ToolContext, call: &ToolCall) -> LookedUp {
        let toolbox = &self.shared.ports.toolbox;
        LookedUp { followed: toolbox.follow(context, call).await, start: toolbox.start(context, call).await }
    }

    /// Resolves aliases in a call's arguments, as the engine does before it judges a model's call.
    pub fn adapted_arguments(&self, tool: &ToolSpec, arguments: String) -> String {
        let call = call(tool, &arguments);
        self.shared.ports.toolbox.adapt(&call).map_or(arguments, |adapted| adapted.arguments)
    }

    /// Previews the question for a pending call with other arguments, including the risk and the effect. Nothing runs,
    /// and nothing is answered.
    ///
    /// # Errors
    /// Fails if no approval with this ID is pending, the rules deny these arguments, the call would fail with them, or
    /// its effect is too large to be shown.
    pub async fn foresee(&self, id: InterruptId, args: Value) -> Result<Ask> {
        let pending_question = self.shared.ports.store.interrupt(id).await?;
        let pending_question = pending_question.filter(|stored| stored.answer.is_none()).map(|stored| stored.interrupt);
        let is_plan = pending_question.as_ref().is_some_and(|interrupt| interrupt.ask.plan().is_some());
        let Some(Interrupt { session_id, ask: Ask::Approval { tool, .. }, .. }) = pending_question else {
            let hint = "list pending questions with `agentctl interrupts`";
            return Err(EngineError::not_found(format!("no pending approval {id}"), hint));
        };
        if !args.is_object() || !is_shallow(&args) {
            let message = "the edited arguments are not a JSON object, or are nested too deeply";
            return Err(EngineError::new(ErrorKind::InvalidInput, message));
        }
        if is_plan {
            let plan = args.get(Ask::PLAN).and_then(Value::as_str).filter(|plan| !plan.trim().is_empty());
            let refused = || EngineError::invalid("the edited plan is empty", r#"edit it as {"plan": "1. …"}"#);
            return plan.map(Ask::of_plan).ok_or_else(refused);
        }
        let spec = self.tool(&tool)?;
        let (_, SessionTree { workspace, state }) = self.session(session_id).await?.tree().await?;
        let at =
            DryRunSubject { workspace: Some(Arc::clone(&workspace)), ..self.dry_run_subject(Some(session_id)).await? };
        let call = call(&spec, &args.to_string());
        let context = ToolContext { state_files: state, ..self.context_of(&call, session_id, workspace) };
        let toolbox = &self.shared.ports.toolbox;
        let looked_up = self.look_up_in(&context, &call).await;
        let explanation = at.judge(&self.shared.config().policy, &spec, &call.arguments, &looked_up);
        let reason = match &explanation.verdict {
            Verdict::Deny { reason } => return Err(denied_edit_error(reason)),
            Verdict::Ask { reason, .. } => reason.clone(),
            Verdict::Allow => String::new(),
        };
        // For the engine's own tools, the arguments already show the effect.
        let has_preview = toolbox.specs().iter().any(|known| known.name == spec.name);
        let shown = if has_preview { toolbox.preview(&context, &call).await } else { Ok(None) };
        let shown = shown.map(|shown| shown.or_else(|| looked_up.followed.map(|followed| followed.to_string())));
        let preview = shown.and_then(check_preview_size).map_err(|output| {
            let hint = "the question is still pending: edit it differently, approve it unchanged, or reject it";
            EngineError::invalid(format!("the call would fail with these arguments: {}", output.text), hint)
        })?;
        Ok(Ask::Approval {
            tool,
            args,
            risk: explanation.verdict.risk(),
            reason,
            preview,
            layer: Some(explanation.layer),
            rule: Some(explanation.rule),
            grants: Vec::new(),
            wider: Vec::new(),
            for_good: Vec::new(),
            owner: None,
        })
    }

    /// Returns the tool context of a call that is not executed.
    fn context_of(&self, call: &ToolCall, session_id: SessionId, workspace: Arc<Workspace>) -> ToolContext {
        ToolContext {
            session_id,
            turn_id: TurnId::generate(),
            call_id: call.call_id.clone(),
            workspace,
            state_files: Arc::default(),
            client_files: None,
            reading: Default::default(),
            environment: Arc::default(),
            progress: Default::default(),
            person: Default::default(),
            sampler: Default::default(),
            sight: Default::default(),
            stands_for: None,
            confinement: Confinement::Usual,
            guarded: Default::default(),
            closed: Arc::default(),
            now: self.shared.ports.clock.now(),
            cancel: CancellationToken::new(),
        }
    }

    /// Finds a tool by its name.
    ///
    /// # Errors
    /// Fails if there is no such tool.
    pub fn tool(&self, name: &str) -> Result<ToolSpec> {
        let hint = "list all tools with `agentctl tools`; put a command line after `--`";
        let unknown = || EngineError::not_found(format!("no such tool: {name:?}"), hint);
        self.tools().into_iter().find(|tool| tool.name == name).ok_or_else(unknown)
    }
}

fn client_of(name: &str) -> AnsweredBy {
    AnsweredBy::Client(name.chars().take(MAX_NAME).collect())
}

fn scope(session: Option<SessionId>) -> String {
    let scope = if session.is_some() { GrantScope::Session } else { GrantScope::ForGood };
    scope.as_str().to_owned()
}

/// Context of a dry run: everything on which a verdict depends, except the call and the rules.
#[derive(Debug, Clone, Default)]
pub struct DryRunSubject {
    settings: SessionSettings,
    workspace: Option<Arc<Workspace>>,
    grants: Arc<[Grant]>,
    /// Tools of MCP servers and other foreign sources.
    others: Arc<ForeignTools>,
    /// True if commands are not held, see [`CallContext::held`].
    unheld: bool,
    /// True if commands are contained, see [`CallContext::contained`].
    contained: bool,
}

/// State of the files to which a call refers. Empty if the dry run has no folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LookedUp {
    /// Resolved target, if a path in the call leads through a link.
    pub followed: Option<FollowedLink>,
    /// Folder in which the call's command starts, if the call runs a command.
    pub start: Option<StartFolder>,
}

impl DryRunSubject {
    /// Judges a call under a policy, with the results of [`Engine::look_up`].
    pub fn judge(&self, rules: &Policy, tool: &ToolSpec, arguments: &str, looked_up: &LookedUp) -> Explanation {
        let workspace = self.workspace.as_deref();
        rules.judge(&CallContext {
            tool,
            foreign: self.others.get(&tool.name).map(|other| &**other),
            arguments,
            followed: looked_up.followed.as_ref(),
            start: looked_up.start.as_ref(),
            settings: &self.settings,
            roots: &workspace.map(roots).unwrap_or_default(),
            memories: workspace.and_then(|workspace| workspace.memories.as_deref()),
            kept: &self.grants,
            held: !self.unheld,
            contained: self.contained,
        })
    }
}

fn call(tool: &ToolSpec, arguments: &str) -> ToolCall {
    ToolCall { call_id: CallId::generate(), name: tool.name.clone(), arguments: arguments.to_owned() }
}

/// Returns a stand-in for a tool that no longer exists. The stand-in is rated as able to do anything.
pub fn unknown_tool(name: &str) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: String::new(), parameters: json!({}), effect: Effect::Execute }
}

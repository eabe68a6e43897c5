//! Calls for policy rules, grants, and questions to the user.
//!
//! Also calls for projects and their trust, plugins, skills, and git worktrees of sessions. A worktree is identified by
//! its name, or by a session that uses it.

use agentd_core::{
    Timestamp,
    grant::ScopedGrant,
    guide::SkillReport,
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
    plugin::PluginReport,
    policy::Explanation,
    project::ProjectReport,
    worktree::{WorktreeApplied, WorktreeDiff, WorktreeReport},
};
use serde_json::Value;

use crate::{
    client::{AuditComparison, Client, ClientError, Comparison, PolicyCall, RuleText},
    convert::{self, Wire as _, WireError},
    v1::{self, check_skill_request::What as CheckedSkill, show_plugin_request::What as ShownPlugin},
};

calls! {
    /// Explains the verdict of the current rules on a call, in the session with this ID or unique prefix, or in a new
    /// session.
    ///
    /// # Errors
    /// Fails if there is no such tool or session, or the connection fails.
    fn explain(call: &PolicyCall, session: Option<&str>) -> Explanation = policy.explain(v1::ExplainRequest {
        call: Some(call.into()), session: session.unwrap_or_default().to_owned(),
    }) whole;

    /// Compares the verdicts of a rule file on some calls with those of the current rules.
    ///
    /// # Errors
    /// Fails if the file is invalid, there is no such tool or session, or the connection fails.
    fn test_rules(rules: &RuleText, calls: &[PolicyCall], session: Option<&str>) -> Vec<Comparison> =
        policy.test(v1::TestRulesRequest {
            rules: Some(rules.into()), calls: calls.iter().map(Into::into).collect(),
            session: session.unwrap_or_default().to_owned(),
        }) all comparisons;

    /// Compares the verdicts of a rule file with those of the current rules on the calls in the audit log.
    ///
    /// # Errors
    /// Fails if the file is invalid, the log cannot be read, or the connection fails.
    fn test_rules_on_audit(rules: &RuleText, since: Option<Timestamp>) -> AuditComparison =
        policy.test_audit(v1::TestAuditRequest { rules: Some(rules.into()), since: since.to_wire() }) whole;

    /// Returns the grants that apply in the session with this ID or unique prefix, or the grants of all sessions.
    /// Permanent grants come first.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    fn grants(session: Option<&str>) -> Vec<ScopedGrant> = grants_client.list(ListGrantsRequest) all grants;

    /// Adds a grant for a session, or a permanent grant. `client` is the name of this client.
    ///
    /// # Errors
    /// Fails with `InvalidInput` for a rule that could never match, or if the connection fails.
    fn add_grant(rule: &str, session: Option<&str>, client: &str) -> () = grants_client.add(AddGrantRequest) nothing;

    /// Revokes a grant of a session, or a permanent grant. `client` is the name of this client.
    ///
    /// # Errors
    /// Fails with `NotFound` if there is no such grant, or if the connection fails.
    fn revoke_grant(rule: &str, session: Option<&str>, client: &str) -> () =
        grants_client.revoke(RevokeGrantRequest) nothing;

    /// Answers an interrupt. `client` is the name of this client.
    ///
    /// # Errors
    /// Fails with `NotFound` for an unknown interrupt, with `Conflict` for an interrupt that is already answered, with
    /// `InvalidInput` for an answer that does not fit the question, or if the connection fails.
    fn answer(id: InterruptId, answer: &Answer, client: &str) -> () =
        interrupts_client.answer(v1::AnswerRequest {
            interrupt_id: id.to_string(), answer: Some(answer.into()), client: client.to_owned(),
        }) nothing;

    /// Describes the project in a folder, given by its absolute path.
    ///
    /// # Errors
    /// Fails if there is no such folder, or the connection fails.
    fn project(folder: &str) -> ProjectReport = projects_service.show(ShowProjectRequest) whole;

    /// Trusts the version of a project with this hash. `client` is the name of this client.
    ///
    /// # Errors
    /// Fails with `Conflict` if the hash has changed, or if the connection fails.
    fn trust_project(folder: &str, hash: &str, client: &str) -> ProjectReport =
        projects_service.trust(TrustProjectRequest) whole;

    /// Revokes the trust in a project. `client` is the name of this client.
    ///
    /// # Errors
    /// Fails with `NotFound` if the project is not trusted, or if the connection fails.
    fn distrust_project(folder: &str, client: &str) -> ProjectReport =
        projects_service.distrust(DistrustProjectRequest) whole;

    /// Returns all plugins, in the order in which they were added.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn plugins() -> Vec<PluginReport> = plugins_service.list(ListPluginsRequest + as_known: false) all plugins;

    /// Returns all plugins in the daemon's last known state, without checking for name conflicts.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn known_plugins() -> Vec<PluginReport> = plugins_service.list(ListPluginsRequest + as_known: true) all plugins;

    /// Returns the plugin with this name.
    ///
    /// # Errors
    /// Fails with `NotFound` if there is no such plugin, or if the connection fails.
    fn plugin(name: &str) -> PluginReport =
        plugins_service.show(v1::ShowPluginRequest { what: Some(ShownPlugin::Name(name.to_owned())) }) whole;

    /// Inspects the folder at an absolute path as a plugin, without adding it.
    ///
    /// # Errors
    /// Fails if the folder is not a plugin, or the connection fails.
    fn plugin_in(folder: &str) -> PluginReport =
        plugins_service.show(v1::ShowPluginRequest { what: Some(ShownPlugin::Folder(folder.to_owned())) }) whole;

    /// Adds the version of the plugin in a folder with this hash. `client` is the name of this client.
    ///
    /// # Errors
    /// Fails with `Conflict` if the hash has changed, or if the connection fails.
    fn add_plugin(folder: &str, hash: &str, source: &str, client: &str) -> PluginReport =
        plugins_service.add(AddPluginRequest) whole;

    /// Returns a skill by name, with the text of its `SKILL.md`.
    ///
    /// # Errors
    /// Fails if there is no such skill or session, or the connection fails.
    fn skill(session: &str, name: &str) -> SkillReport = skills_service.check(v1::CheckSkillRequest {
        session: session.to_owned(), what: Some(CheckedSkill::Name(name.to_owned())),
    }) whole;

    /// Checks the folder at an absolute path as a skill.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn check_skill(folder: &str) -> SkillReport = skills_service.check(v1::CheckSkillRequest {
        session: String::new(), what: Some(CheckedSkill::Folder(folder.to_owned())),
    }) whole;

    /// Returns all skills, sorted by name. With a session, also those of its project.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    fn skills(session: &str) -> Vec<SkillReport> = skills_service.list(ListSkillsRequest) all skills;

    /// Copies the folder at an absolute path into the user's own skills.
    ///
    /// # Errors
    /// Fails if the folder is not a valid skill, its name is taken and `replace` is false, or the connection fails.
    fn add_skill(folder: &str, replace: bool) -> SkillReport = skills_service.add(AddSkillRequest) whole;

    /// Returns all worktrees, sorted by name.
    ///
    /// # Errors
    /// Fails if the worktrees cannot be listed, or the connection fails.
    fn worktrees() -> Vec<WorktreeReport> = worktrees_service.list(ListWorktreesRequest) all worktrees;

    /// Returns the diff of a worktree against its base commit.
    ///
    /// # Errors
    /// Fails if there is no such worktree, git fails, or the connection fails.
    fn diff_worktree(worktree: &str) -> WorktreeDiff = worktrees_service.diff(DiffWorktreeRequest) whole;

    /// Merges a worktree into the branch that is checked out in the main worktree.
    ///
    /// # Errors
    /// Fails with `Conflict` and the conflicting files, with `Busy` while a turn runs in the worktree, or if git or the
    /// connection fails.
    fn apply_worktree(worktree: &str) -> WorktreeApplied = worktrees_service.apply(ApplyWorktreeRequest) whole;

    /// Removes a worktree and its branch, and returns its name.
    ///
    /// # Errors
    /// Fails with `Conflict` if the worktree has unmerged changes and `force` is false, or if the connection fails.
    fn remove_worktree(worktree: &str, force: bool) -> String =
        worktrees_service.remove(RemoveWorktreeRequest) only name;
}

impl Client {
    /// Returns the pending interrupts of all sessions, or of the session with this ID or unique prefix, oldest first.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    pub async fn interrupts(&self, session: Option<&str>) -> Result<Vec<Interrupt>, ClientError> {
        let mut pending: Vec<Interrupt> = Vec::new();
        loop {
            let after = pending.last().map(|last| last.id.to_string()).unwrap_or_default();
            let request = v1::ListInterruptsRequest { session: session.unwrap_or_default().to_owned(), after };
            let v1::ListInterruptsResponse { interrupts, more } =
                self.interrupts_client().list(request).await?.into_inner();
            let is_end = !more || interrupts.is_empty();
            pending.extend(convert::all::<_, Interrupt>(interrupts)?);
            if is_end {
                return Ok(pending);
            }
        }
    }

    /// Previews a pending call with other arguments. Returns the question that the user would be asked.
    ///
    /// # Errors
    /// Fails with `NotFound` if no approval with that ID is pending, with `InvalidInput` for arguments that the rules
    /// deny or with which the call would fail, or if the connection fails.
    pub async fn foresee(&self, id: InterruptId, args: &Value) -> Result<Ask, ClientError> {
        let request = v1::ForeseeRequest { interrupt_id: id.to_string(), args_json: args.to_string() };
        let approval = self.interrupts_client().foresee(request).await?.into_inner().approval;
        let approval = approval.ok_or(WireError::Missing("the preview of a call"))?;
        Ok(v1::interrupt::Ask::Approval(approval).try_into()?)
    }

    /// Removes a plugin, and returns it, or `None` if there is no such plugin. `client` is the name of this client.
    ///
    /// # Errors
    /// Fails if the change cannot be stored, or the connection fails.
    pub async fn remove_plugin(&self, name: &str, client: &str) -> Result<Option<PluginReport>, ClientError> {
        let request = v1::RemovePluginRequest { name: name.to_owned(), client: client.to_owned() };
        let removed = self.plugins_service().remove(request).await?.into_inner();
        Ok(removed.plugin.map(TryInto::try_into).transpose()?)
    }
}

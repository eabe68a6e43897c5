//! Calls about the rules of what may run, those that a person keeps, and the questions that they raise.
//!
//! Calls about projects and the trust in them, plugins, skills, and git worktrees of sessions. A worktree is named by its name,
//! or by a session that works in it.

use agentd_core::{
    Timestamp,
    grant::HeldGrant,
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
    /// Explains the verdict of the rules in force on a call: in the session with this id or unique prefix, or in a new
    /// one.
    ///
    /// # Errors
    /// When there is no such tool or session, or the connection fails.
    fn explain(call: &PolicyCall, session: Option<&str>) -> Explanation = policy.explain(v1::ExplainRequest {
        call: Some(call.into()), session: session.unwrap_or_default().to_owned(),
    }) whole;

    /// Verdicts of a file of rules on calls, beside those of the rules in force.
    ///
    /// # Errors
    /// When the file has a mistake, there is no such tool or session, or the connection fails.
    fn test_rules(rules: &RuleText, calls: &[PolicyCall], session: Option<&str>) -> Vec<Comparison> =
        policy.test(v1::TestRulesRequest {
            rules: Some(rules.into()), calls: calls.iter().map(Into::into).collect(),
            session: session.unwrap_or_default().to_owned(),
        }) all comparisons;

    /// Verdicts of a file of rules on the calls in the audit log.
    ///
    /// # Errors
    /// When the file has a mistake, the log cannot be read, or the connection fails.
    fn test_rules_on_audit(rules: &RuleText, since: Option<Timestamp>) -> AuditComparison =
        policy.test_audit(v1::TestAuditRequest { rules: Some(rules.into()), since: since.to_wire() }) whole;

    /// The rules that are kept: all that hold in the session with this id or unique prefix, or those of all sessions.
    /// Those for good come first.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
    fn grants(session: Option<&str>) -> Vec<HeldGrant> =
        grants_client.list(v1::ListGrantsRequest { session: session.unwrap_or_default().to_owned() }) all grants;

    /// Keeps a rule for a session, or for good, in this client's name.
    ///
    /// # Errors
    /// `InvalidInput` for a rule that could never hold, and when the connection fails.
    fn add_grant(rule: &str, session: Option<&str>, client: &str) -> () =
        grants_client.add(v1::AddGrantRequest {
            rule: rule.to_owned(), session: session.unwrap_or_default().to_owned(), client: client.to_owned(),
        }) nothing;

    /// Takes a rule back that a session keeps, or that is kept for good, in this client's name.
    ///
    /// # Errors
    /// `NotFound` for one that is not kept there, and when the connection fails.
    fn revoke_grant(rule: &str, session: Option<&str>, client: &str) -> () =
        grants_client.revoke(v1::RevokeGrantRequest {
            rule: rule.to_owned(), session: session.unwrap_or_default().to_owned(), client: client.to_owned(),
        }) nothing;

    /// Answers an interrupt in this client's name.
    ///
    /// # Errors
    /// `NotFound` for an unknown one, `Conflict` for one that has its answer, `InvalidInput` for an answer that does
    /// not fit, and when the connection fails.
    fn answer(id: InterruptId, answer: &Answer, client: &str) -> () =
        interrupts_client.answer(v1::AnswerRequest {
            interrupt_id: id.to_string(), answer: Some(answer.into()), client: client.to_owned(),
        }) nothing;

    /// All that is known of a project; its path is absolute.
    ///
    /// # Errors
    /// When there is no such folder or the connection fails.
    fn project(folder: &str) -> ProjectReport =
        projects_service.show(v1::ShowProjectRequest { folder: folder.to_owned() }) whole;

    /// Trusts a project as it was shown with this hash, in this client's name.
    ///
    /// # Errors
    /// `Conflict` when it has another hash now, and when the connection fails.
    fn trust_project(folder: &str, hash: &str, client: &str) -> ProjectReport =
        projects_service.trust(v1::TrustProjectRequest {
            folder: folder.to_owned(), hash: hash.to_owned(), client: client.to_owned(),
        }) whole;

    /// Trusts a project no longer, in this client's name.
    ///
    /// # Errors
    /// `NotFound` for one that is not trusted, and when the connection fails.
    fn distrust_project(folder: &str, client: &str) -> ProjectReport =
        projects_service.distrust(v1::DistrustProjectRequest {
            folder: folder.to_owned(), client: client.to_owned(),
        }) whole;

    /// All plugins, in the order in which they were added.
    ///
    /// # Errors
    /// When the connection fails.
    fn plugins() -> Vec<PluginReport> = plugins_service.list(v1::ListPluginsRequest { as_known: false }) all plugins;

    /// All plugins as they were when the daemon looked at them last, without problems of names.
    ///
    /// # Errors
    /// When the connection fails.
    fn known_plugins() -> Vec<PluginReport> =
        plugins_service.list(v1::ListPluginsRequest { as_known: true }) all plugins;

    /// The plugin of that name.
    ///
    /// # Errors
    /// `NotFound` when there is none, and when the connection fails.
    fn plugin(name: &str) -> PluginReport =
        plugins_service.show(v1::ShowPluginRequest { what: Some(ShownPlugin::Name(name.to_owned())) }) whole;

    /// A folder as a plugin; its path is absolute. Nothing is added.
    ///
    /// # Errors
    /// When it is no plugin, and when the connection fails.
    fn plugin_in(folder: &str) -> PluginReport =
        plugins_service.show(v1::ShowPluginRequest { what: Some(ShownPlugin::Folder(folder.to_owned())) }) whole;

    /// Adds the plugin in a folder as it was shown with this hash, in this client's name.
    ///
    /// # Errors
    /// `Conflict` when it has another hash now, and when the connection fails.
    fn add_plugin(folder: &str, hash: &str, source: &str, client: &str) -> PluginReport =
        plugins_service.add(v1::AddPluginRequest {
            folder: folder.to_owned(), hash: hash.to_owned(), source: source.to_owned(), client: client.to_owned(),
        }) whole;

    /// One skill by its name, with the words of its `SKILL.md`.
    ///
    /// # Errors
    /// When there is no such skill or session, or the connection fails.
    fn skill(session: &str, name: &str) -> SkillReport = skills_service.check(v1::CheckSkillRequest {
        session: session.to_owned(), what: Some(CheckedSkill::Name(name.to_owned())),
    }) whole;

    /// Checks a folder as a skill; its path is absolute.
    ///
    /// # Errors
    /// When the connection fails.
    fn check_skill(folder: &str) -> SkillReport = skills_service.check(v1::CheckSkillRequest {
        session: String::new(), what: Some(CheckedSkill::Folder(folder.to_owned())),
    }) whole;

    /// All skills, sorted by name: those of a session's project too, where one is named.
    ///
    /// # Errors
    /// When there is no such session or the connection fails.
    fn skills(session: &str) -> Vec<SkillReport> =
        skills_service.list(v1::ListSkillsRequest { session: session.to_owned() }) all skills;

    /// Takes a folder, by its absolute path, into the person's own skills.
    ///
    /// # Errors
    /// When it is no sound skill, one of its name is there and shall not be replaced, or the connection fails.
    fn add_skill(folder: &str, replace: bool) -> SkillReport =
        skills_service.add(v1::AddSkillRequest { folder: folder.to_owned(), replace }) whole;

    /// All worktrees, sorted by name.
    ///
    /// # Errors
    /// When they cannot be listed, or the connection fails.
    fn worktrees() -> Vec<WorktreeReport> = worktrees_service.list(v1::ListWorktreesRequest {}) all worktrees;

    /// Difference of a worktree from the commit that it began from.
    ///
    /// # Errors
    /// When there is none of that name, git fails, or the connection does.
    fn diff_worktree(name: &str) -> WorktreeDiff =
        worktrees_service.diff(v1::DiffWorktreeRequest { worktree: name.to_owned() }) whole;

    /// Merges a worktree into what the main tree has checked out.
    ///
    /// # Errors
    /// `Conflict` with the files in the way, `Busy` while a turn runs in it, and when git or the connection fails.
    fn apply_worktree(name: &str) -> WorktreeApplied =
        worktrees_service.apply(v1::ApplyWorktreeRequest { worktree: name.to_owned() }) whole;

    /// Removes a worktree and its branch, and returns its name.
    ///
    /// # Errors
    /// `Conflict` where it has changes that are merged nowhere and it is not forced, and when the connection fails.
    fn remove_worktree(name: &str, force: bool) -> String =
        worktrees_service.remove(v1::RemoveWorktreeRequest { worktree: name.to_owned(), force }) only name;
}

impl Client {
    /// Pending interrupts, oldest first: of the session with this id or unique prefix, or of all.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
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

    /// Preview of a call that waits for an approval, with other arguments, as a person would be asked for it.
    ///
    /// # Errors
    /// `NotFound` where no approval of that id waits, `InvalidInput` for arguments that the rules deny or with which it
    /// would fail, and when the connection fails.
    pub async fn foresee(&self, id: InterruptId, args: &Value) -> Result<Ask, ClientError> {
        let request = v1::ForeseeRequest { interrupt_id: id.to_string(), args_json: args.to_string() };
        let approval = self.interrupts_client().foresee(request).await?.into_inner().approval;
        let approval = approval.ok_or(WireError::Missing("what a call would do"))?;
        Ok(v1::interrupt::Ask::Approval(approval).try_into()?)
    }

    /// Removes a plugin, in this client's name. None where there is none of that name.
    ///
    /// # Errors
    /// When that cannot be stored, and when the connection fails.
    pub async fn remove_plugin(&self, name: &str, client: &str) -> Result<Option<PluginReport>, ClientError> {
        let request = v1::RemovePluginRequest { name: name.to_owned(), client: client.to_owned() };
        let removed = self.plugins_service().remove(request).await?.into_inner();
        Ok(removed.plugin.map(TryInto::try_into).transpose()?)
    }
}

//! Every call gets a verdict, including calls that links answer. If the verdict is to ask, the user decides. Fails
//! closed.
//!
//! A call that reads through a symbolic link is judged both as written and with the link's target, and the form with
//! the target is the one that runs. The tool follows no links, so it opens exactly the path that was judged and shown.
//!
//! An edit in a read-only project first asks the user to make the project writable.

use std::sync::Arc;

use agentd_core::{
    audit::DecidedBy,
    catalogue::ForeignTool,
    client_tool::CLIENT_TOOL_PREFIX,
    interrupt::{AFTER_REFUSAL as INSTEAD, Answer, Ask, Owner, REFUSAL_PREFIX},
    policy::{Explanation, Layer, Verdict},
    ports::{SkillPackages, ToolContext, Workspace},
    session::{Mount, SessionMode},
    tool::{FollowedLink, ToolCall, ToolErrorCode, ToolOutput, ToolSpec, WRITE_TOOL},
    turn::OnInterrupt,
};
use agentd_policy::{CallContext, SHELL_TOOL, for_good, roots};
use serde_json::{Value, json};

use crate::{
    links::{
        gates::audit::{arguments, check_preview_size},
        results::undo,
        tools::session_tools,
    },
    turn::{
        Flow, Phase, TurnExit, TurnFiles,
        call_record::{require_approval, require_package_approval},
        hooks::{Hook, Invocation, Link, Next},
        recorder::{CallAnswers, ResolvedInterrupt},
    },
};

/// Start of the paths of files in the project.
const IN_PROJECT: &str = "/project/";

pub(crate) struct Approvals;

impl Link for Approvals {
    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        Box::pin(async move {
            let context = call.context;
            if context.is_in_flight(call.call) {
                // The call was approved before the restart and is still running.
                call.record.entries().passed = true;
                return next.run(call).await;
            }
            let Some(tool) = call.tool() else { return answer_unknown_tool(call).await };
            // Agents that list their tools can change files only if they list a tool that changes files.
            if tool.effect_of(&call.call.arguments) != tool.effect && context.tool(WRITE_TOOL).is_none() {
                let text = format!("save_to requires {WRITE_TOOL}, which is not available to you; read it in parts");
                return Ok(ToolOutput::error(ToolErrorCode::UnknownTool, text));
            }
            let failed = context.tools.chain.prepare_call(call).await?;
            let gated = GatedCall { call, next, tool, followed: followed(call).await? };
            let judgement = gated.judge().await?;
            if failed.is_none()
                && let Some(refused) = gated.make_writable(&judgement).await?
            {
                return Ok(refused);
            }
            let earlier = context.rules.answered.get(&call.call.call_id).and_then(CallAnswers::decision);
            let decision = decide(&judgement.verdict, failed.is_some(), earlier, context.rules.answering.now());
            match (decision, failed) {
                (Decision::Deny(reason), _) => Ok(ToolOutput::error(ToolErrorCode::Denied, reason)),
                (Decision::Fail, failed) => Ok(failed.unwrap_or_else(|| refuse("it could not be prepared"))),
                (Decision::Run, _) => {
                    // No user has reviewed this call, regardless of its verdict.
                    confine(call);
                    gated.run().await
                }
                (Decision::Apply(answered), _) => {
                    call.record.answer(answered);
                    gated.apply_decision(answered.clone()).await
                }
                (Decision::Refuse(reason), _) => Ok(refuse(&format!("this run cannot ask for approval: {reason}"))),
                (Decision::EndTurn(reason), _) => Err(TurnExit::Denied(call.denial(&tool.name, reason))),
                (Decision::Ask, _) => gated.ask(judgement).await,
            }
        })
    }
}

/// A call with the remaining chain, the call's tool, and its arguments after following a link through which the call
/// reads.
struct GatedCall<'a> {
    call: &'a Invocation<'a>,
    next: Next<'a>,
    tool: &'a ToolSpec,
    followed: Option<FollowedLink>,
}

impl GatedCall<'_> {
    /// Judges the call in its current form, with the current grants. The verdict is also recorded for the audit log.
    async fn judge(&self) -> Flow<Explanation> {
        let Self { call, tool, followed, .. } = self;
        let (context, toolbox) = (call.context, &call.context.ports.toolbox);
        let is_command = tool.name == SHELL_TOOL;
        let mut start = None;
        if is_command {
            let tool_context = context.tool_context(call.call);
            start = context.or_cancelled(toolbox.start(&tool_context, call.call)).await?;
        }
        let are_confined = !is_command || toolbox.can_enforce_read_only().await;
        let contained = is_command && toolbox.can_contain_commands().await;
        let mut settings = context.rules.grants.of_session().applied_to(&context.settings);
        if call.state.phase == Phase::Planning {
            settings.mode = SessionMode::Plan;
        }
        let foreign = context.foreign(tool);
        let facts = CallContext {
            tool,
            foreign: foreign.as_deref(),
            arguments: &call.call.arguments,
            followed: followed.as_ref(),
            start: start.as_ref(),
            settings: &settings,
            roots: &roots(&context.files.workspace),
            memories: context.files.workspace.memories.as_deref(),
            kept: &context.rules.grants.permanent.now(),
            held: are_confined,
            contained,
        };
        let mut judgement = context.rules.policy.now().judge(&facts);
        for path in context.tools.chain.affected_paths(call) {
            let arguments = json!({ "path": path }).to_string();
            let facts = CallContext { arguments: &arguments, followed: None, ..facts };
            let named = context.rules.policy.now().judge(&facts);
            if named.verdict.strictness() > judgement.verdict.strictness() {
                // A grant for this path must not apply to the next call, which may affect another path.
                judgement = Explanation { grants: Vec::new(), wider: Vec::new(), ..named };
            }
        }
        let packages = call.record.entries().packages.clone();
        if !packages.is_empty() {
            judgement = require_package_approval(&packages, judgement, settings.mode);
        }
        if let Some(reason) = undo::irreversible(call, &judgement).await? {
            judgement = require_approval(
                judgement,
                reason,
                "files: what cannot be undone, or is run by other programs, requires approval",
            );
        }
        call.record.record_judgement(&judgement);
        Ok(judgement)
    }

    /// Asks the user to make a read-only project writable if the call edits it. If the user does, the turn continues in
    /// a new task with the writable project, where the call is judged again. Returns the output of a call that cannot
    /// run, or `None` if there is nothing to ask or the turn runs unattended.
    async fn make_writable(&self, judgement: &Explanation) -> Result<Option<ToolOutput>, TurnExit> {
        let Self { call, tool, .. } = self;
        let (context, toolbox) = (call.context, &call.context.ports.toolbox);
        let TurnFiles { workspace, .. } = &context.files;
        let Some(project) = workspace.project.as_ref().filter(|project| !project.writable) else { return Ok(None) };
        // A subagent has its parent's project, which its own session cannot change.
        let can_ask = context.rules.answering.now() == OnInterrupt::Wait
            && context.settings.parent.is_none()
            && context.settings.project.as_ref() == Some(project)
            && !matches!(judgement.verdict, Verdict::Deny { .. });
        let tool_context = context.tool_context(call.call);
        let paths = if can_ask { toolbox.changes(&tool_context, call.call) } else { None };
        let paths = paths.unwrap_or_default();
        let Some(path) = paths.iter().find(|path| path.starts_with(IN_PROJECT)) else { return Ok(None) };
        // A call that would fail in a writable project, too, is not worth a question.
        let writable = Mount { writable: true, ..project.clone() };
        let workspace = Arc::new(Workspace { project: Some(writable), ..(**workspace).clone() });
        let tool_context = ToolContext { workspace, ..tool_context };
        if let Err(failed) = context.or_cancelled(toolbox.preview(&tool_context, call.call)).await? {
            return Ok(Some(failed));
        }
        let answered = call.ask(Ask::of_writable(&project.path, &tool.name, path)).await?;
        if answered.answer == Answer::Approve {
            return Err(TurnExit::Handoff);
        }
        let user_text = answered.user_text();
        let reason = user_text.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        call.record.entries().effects.user_text = user_text;
        let text = format!(
            "{path} cannot be changed: the user keeps the project read-only in this turn{reason}. Write to /outputs \
             instead, or ask"
        );
        Ok(Some(ToolOutput::error(ToolErrorCode::Path, text)))
    }

    /// Asks the user for a decision, and applies the decision.
    async fn ask(self, judgement: Explanation) -> Flow<ToolOutput> {
        let Self { call, tool, .. } = self;
        let preview = match self.preview().await? {
            Ok(preview) => preview,
            // The call would certainly fail, so there is nothing to ask.
            Err(output) => return Ok(output),
        };
        let Explanation { verdict, layer, rule, grants, wider, .. } = judgement;
        let reason = match &verdict {
            Verdict::Ask { reason, .. } => reason.clone(),
            Verdict::Allow | Verdict::Deny { .. } => String::new(),
        };
        let ask = Ask::Approval {
            tool: tool.name.clone(),
            args: arguments(call.call),
            risk: verdict.risk(),
            reason,
            preview,
            layer: Some(layer),
            rule: Some(rule),
            for_good: for_good(&grants, &call.context.files.workspace),
            owner: owner(call.context.foreign(tool).as_deref()),
            grants,
            wider,
        };
        // Files may change between the question and the call.
        drop(call.record.take_snapshot());
        let answered = call.ask(ask).await?;
        self.apply_decision(answered).await
    }

    /// Applies the user's decision, if the call still does what the user was shown.
    async fn apply_decision(self, answered: ResolvedInterrupt) -> Flow<ToolOutput> {
        let is_approval = matches!(
            answered.answer,
            Answer::Approve | Answer::Always { .. } | Answer::Keep { .. } | Answer::Edit { .. }
        );
        if is_approval && let Some(output) = self.reject_if_changed(&answered).await? {
            return Ok(output);
        }
        self.call.record.entries().effects.user_text = answered.user_text();
        match answered.answer {
            Answer::Approve | Answer::Always { .. } | Answer::Keep { .. } => self.run_approved(&answered.by).await,
            Answer::Edit { args } => self.run_edited(args).await,
            Answer::Reject { reason: Some(reason) } => Ok(refuse(&reason)),
            Answer::Reject { reason: None } => {
                Ok(ToolOutput::error(ToolErrorCode::Denied, format!("rejected (no reason). {INSTEAD}")))
            }
            // The session rejects answers that do not fit. If such an answer still gets here, the gate stays closed.
            Answer::Text { .. } => Ok(refuse("the answer was not a decision")),
        }
    }

    /// Rejects a call that would no longer do what the user was shown. A question may wait for days, and files may
    /// change in the meantime, or the tool's name may now belong to another or a reconfigured server. The call does not
    /// run; the model can read the new state and repeat the call, and the user is shown the new state.
    async fn reject_if_changed(&self, answered: &ResolvedInterrupt) -> Flow<Option<ToolOutput>> {
        let Self { call, tool, .. } = self;
        let shown = match (answered.asked.as_deref(), &answered.by) {
            (Some(Ask::Approval { owner: asked, .. }), _) if *asked != owner(call.context.foreign(tool).as_deref()) => {
                let message = format!(
                    "{} did not run: the configuration of its MCP server has changed since you were asked, or is \
                     unknown",
                    tool.name
                );
                let text = format!(
                    "it did not run: the configuration of its MCP server has changed since the user was asked. If it \
                     is still needed, call it again; the user is asked again{}",
                    requested_arguments(answered)
                );
                return reject_changed(call, message, text).await.map(Some);
            }
            (Some(Ask::Approval { preview, .. }), _) => Some(preview),
            // The user was shown nothing, because a grant lets the call run regardless of its effect.
            (None, DecidedBy::Grant) => return Ok(None),
            _ => None,
        };
        let limits = call.record.entries().limits;
        undo::record_before(call, limits).await?;
        let current = self.preview().await?;
        if current.as_ref().ok().is_some_and(|preview| shown == Some(preview)) {
            return Ok(None);
        }
        let message = format!("{} did not run: its effect is no longer what you were shown", tool.name);
        let mut text = format!(
            "it did not run: its effect has changed since the user was asked. Read the files again; if it is still \
             needed, call it again, and the user is asked again{}",
            requested_arguments(answered)
        );
        if let Err(output) = current {
            text.push_str(&format!("\nIt would now fail: {}", output.text));
        }
        reject_changed(call, message, text).await.map(Some)
    }

    /// Runs an approved call, unless the rules, which may have changed while the question was pending, now deny it.
    async fn run_approved(self, by: &DecidedBy) -> Flow<ToolOutput> {
        let judgement = self.judge().await?;
        if *by == DecidedBy::Grant {
            // A grant was added in the meantime, so no user has reviewed this call.
            confine(self.call);
        }
        if let Verdict::Deny { reason } = judgement.verdict {
            let message =
                format!("{} was approved, but the rules now deny it: {reason}; it did not run", self.tool.name);
            self.call.context.recorder.warn("approval_denied", message).await?;
            return Ok(refuse(&format!("the user approved it, but the rules now deny it: {reason}")));
        }
        self.run().await
    }

    /// Runs the call with the user's arguments, and notes in the result that they are not the model's own.
    ///
    /// The arguments are judged again. A verdict to ask counts as approved by the user who wrote the arguments, at any
    /// risk; a denial remains a denial. An edited call produces no grant.
    async fn run_edited(self, args: Value) -> Flow<ToolOutput> {
        let Self { call, next, tool, .. } = self;
        let edited = ToolCall { arguments: args.to_string(), ..call.call.clone() };
        let invocation = Invocation { call: &edited, ..*call };
        let gated = GatedCall { call: &invocation, next, tool, followed: followed(&invocation).await? };
        // The edited call may change other files.
        drop(call.record.take_snapshot());
        if let Verdict::Deny { reason } = gated.judge().await?.verdict {
            let message = format!("the edited arguments of {} are denied: {reason}; it did not run", tool.name);
            call.context.recorder.warn("edit_denied", message).await?;
            return Ok(refuse(&format!("the user changed the arguments to {args}, but the rules deny that: {reason}")));
        }
        call.record.entries().ran_with.get_or_insert_with(|| edited.arguments.clone());
        let mut output = gated.run().await?;
        output.text = format!("The user changed the arguments to {args} before it ran.\n{}", output.text);
        Ok(output)
    }

    /// Runs the call with links already followed.
    async fn run(self) -> Flow<ToolOutput> {
        let Self { call, next, followed, .. } = self;
        call.record.entries().passed = true;
        let unreadable_paths = unreadable_files(call);
        let followed_call = followed.map(|link| ToolCall { arguments: link.arguments, ..call.call.clone() });
        let invocation = Invocation { call: followed_call.as_ref().unwrap_or(call.call), ..*call };
        Ok(withhold(next.run(&invocation).await?, &unreadable_paths))
    }

    /// Returns the preview of the call for the user. For a call that reads through a link, returns the target.
    async fn preview(&self) -> Flow<Result<Option<String>, ToolOutput>> {
        let (call, context) = (self.call, self.call.context);
        let preview = context.or_cancelled(context.tools.chain.preview(call)).await?;
        let preview = preview.map_err(|failed| withhold(failed, &unreadable_files(call)));
        let shown = preview.map(|shown| shown.or_else(|| self.followed.as_ref().map(ToString::to_string)));
        let shown = shown.map(|shown| {
            let entries = call.record.entries();
            let installs = entries.packages.iter().map(|SkillPackages { skill, packages, .. }| {
                format!("installs for the skill {skill}, into its own environment: {}", packages.join(", "))
            });
            let lines: Vec<String> = installs.chain(entries.irreversible.clone()).chain(shown).collect();
            (!lines.is_empty()).then(|| lines.join("\n"))
        });
        Ok(shown.and_then(check_preview_size))
    }
}

/// Next step of a call after its verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Decision<'a> {
    /// The rules deny the call for this reason.
    Deny(&'a str),
    /// The call is already known to fail.
    Fail,
    /// The call runs, possibly because its client approves everything that the rules would ask about.
    Run,
    /// An answer from before a restart is applied.
    Apply(&'a ResolvedInterrupt),
    /// The call is denied, because its client answers no questions.
    Refuse(&'a str),
    /// The turn ends, because its client wants turns to fail on questions.
    EndTurn(&'a str),
    /// The user is asked for a decision.
    Ask,
}

/// Decides on a call. `earlier` is the answer from before a restart: `Some(None)` if the call was already approved and
/// later asked its own question.
fn decide<'a>(
    verdict: &'a Verdict,
    fails: bool,
    earlier: Option<Option<&'a ResolvedInterrupt>>,
    on_interrupt: OnInterrupt,
) -> Decision<'a> {
    match (verdict, earlier) {
        (Verdict::Deny { reason }, _) => Decision::Deny(reason),
        _ if fails => Decision::Fail,
        (_, Some(None)) | (Verdict::Allow, None) => Decision::Run,
        // A user's answer to this call takes precedence over a grant that was added later.
        (_, Some(Some(answered))) => Decision::Apply(answered),
        (Verdict::Ask { reason, .. }, None) => match on_interrupt {
            OnInterrupt::Approve => Decision::Run,
            OnInterrupt::Deny => Decision::Refuse(reason),
            OnInterrupt::Fail => Decision::EndTurn(reason),
            OnInterrupt::Wait => Decision::Ask,
        },
    }
}

/// Answers a call to an unknown tool. The call is not passed on, because no rule could judge it.
async fn answer_unknown_tool(call: &Invocation<'_>) -> Flow<ToolOutput> {
    let (context, name) = (call.context, call.call.name.as_str());
    let reason = "no such tool".to_owned();
    call.record.record_judgement(&Explanation {
        tool: name.to_owned(),
        verdict: Verdict::Deny { reason: reason.clone() },
        layer: Layer::Checker,
        rule: reason.clone(),
        parts: Vec::new(),
        grants: Vec::new(),
        wider: Vec::new(),
        granted_by: Vec::new(),
        leads_to: None,
    });
    if name.starts_with(CLIENT_TOOL_PREFIX) {
        return Ok(ToolOutput::error(ToolErrorCode::UnknownTool, session_tools::CLIENT_GONE));
    }
    // The toolbox has the best error message for a tool that it lacks. For a tool that only the turn lacks, the toolbox
    // is not asked, because it would inspect the call's files.
    let is_known = context.tools.finder.is_known(name);
    let hidden = if is_known { name } else { context.ports.toolbox.canonical_name(name) };
    if let Some(hidden_reason) = context.tools.finder.hidden_reason(hidden) {
        let text = format!("{hidden} exists but is not available to you: {hidden_reason}");
        return Ok(ToolOutput::error(ToolErrorCode::UnknownTool, text));
    }
    let mut text = format!("{reason}; use one of the listed tools");
    if !context.ports.toolbox.specs().iter().any(|spec| spec.name == hidden)
        && let Err(output) = context.or_cancelled(context.tools.chain.preview(call)).await?
        && output.error == Some(ToolErrorCode::UnknownTool)
    {
        text = output.text;
    }
    if let Some(suggestion) = context.tools.finder.suggest(name) {
        text.push_str(&format!(". Did you mean {suggestion}?"));
    }
    Ok(ToolOutput::error(ToolErrorCode::UnknownTool, text))
}

/// Follows the link through which the call reads, if there is one.
async fn followed(call: &Invocation<'_>) -> Flow<Option<FollowedLink>> {
    let context = call.context;
    let tool_context = context.tool_context(call.call);
    context.or_cancelled(context.ports.toolbox.follow(&tool_context, call.call)).await
}

/// Confines the call to the limits of the rules, because no user approved this particular call.
fn confine(call: &Invocation<'_>) {
    let mut entries = call.record.entries();
    entries.confinement = entries.limits;
}

/// Returns the files that a call affects without naming them and that may not be read without asking. For files that a
/// call names, the tool itself decides what it may reveal.
fn unreadable_files(call: &Invocation<'_>) -> Vec<String> {
    let paths = call.context.tools.chain.affected_paths(call);
    if paths.is_empty() {
        return paths;
    }
    let reading = call.context.tool_context(call.call).reading;
    paths.into_iter().filter(|path| !reading.allow(path)).collect()
}

/// Removes an error message that could reveal files which no user has allowed the model to read.
fn withhold(output: ToolOutput, unreadable_files: &[String]) -> ToolOutput {
    if output.error.is_none() || unreadable_files.is_empty() {
        return output;
    }
    let text = format!(
        "it failed; reading {} requires approval, so the reason is not shown. Ask the user how to proceed",
        unreadable_files.join(", ")
    );
    ToolOutput { text, ..output }
}

/// Returns the owner of the tool, as stored with a question.
fn owner(foreign: Option<&ForeignTool>) -> Option<Box<Owner>> {
    foreign.map(|foreign| Box::new(Owner { rule: foreign.rule.clone(), entry: foreign.entry.clone() }))
}

/// Rejects a call that no longer matches the question, with a warning for the user and text for the model.
async fn reject_changed(call: &Invocation<'_>, message: String, text: String) -> Flow<ToolOutput> {
    call.record.entries().blocked = true;
    call.context.recorder.warn("changed_since_asked", message).await?;
    Ok(ToolOutput::error(ToolErrorCode::NotRun, text))
}

/// Returns the sentence with the arguments that the user wanted instead of the model's.
fn requested_arguments(answered: &ResolvedInterrupt) -> String {
    match &answered.answer {
        Answer::Edit { args } => format!(". They wanted these arguments instead: {args}"),
        _ => String::new(),
    }
}

fn refuse(reason: &str) -> ToolOutput {
    ToolOutput::error(ToolErrorCode::Denied, format!("{REFUSAL_PREFIX}{reason}. {INSTEAD}"))
}

#[cfg(test)]
mod tests {
    use agentd_core::{interrupt::AnsweredBy, policy::Risk};

    use super::*;

    #[test]
    fn strictest_verdict_wins() {
        let deny = Verdict::Deny { reason: "no".to_owned() };
        let ask = Verdict::Ask { risk: Risk::High, reason: "why".to_owned() };
        let answered = ResolvedInterrupt::new(None, &Answer::Approve, &AnsweredBy::Daemon);
        let before = Some(Some(&answered));
        let check = |verdict: &Verdict, fails, earlier, on_interrupt, expected: Decision<'_>| {
            assert_eq!(decide(verdict, fails, earlier, on_interrupt), expected, "{verdict:?} {fails} {earlier:?}");
        };
        for on_interrupt in [OnInterrupt::Approve, OnInterrupt::Deny, OnInterrupt::Fail, OnInterrupt::Wait] {
            for earlier in [None, Some(None), before] {
                for fails in [true, false] {
                    check(&deny, fails, earlier, on_interrupt, Decision::Deny("no"));
                }
                check(&Verdict::Allow, true, earlier, on_interrupt, Decision::Fail);
                check(&ask, true, earlier, on_interrupt, Decision::Fail);
            }
            for verdict in [&Verdict::Allow, &ask] {
                check(verdict, false, before, on_interrupt, Decision::Apply(&answered));
                check(verdict, false, Some(None), on_interrupt, Decision::Run);
            }
            check(&Verdict::Allow, false, None, on_interrupt, Decision::Run);
        }
        check(&ask, false, None, OnInterrupt::Wait, Decision::Ask);
        check(&ask, false, None, OnInterrupt::Approve, Decision::Run);
        check(&ask, false, None, OnInterrupt::Deny, Decision::Refuse("why"));
        check(&ask, false, None, OnInterrupt::Fail, Decision::EndTurn("why"));
    }
}

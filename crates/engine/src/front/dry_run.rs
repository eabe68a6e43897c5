//! What the rules say of calls that nobody makes, and what they would do: for people who want to know beforehand.

use std::sync::Arc;

use agentd_core::{
    error::ErrorKind,
    files::SessionTree,
    grant::Grant,
    ids::{CallId, InterruptId, SessionId, TurnId},
    interrupt::{Ask, Interrupt},
    policy::{Confinement, Explanation, Verdict},
    ports::{StoredInterrupt, ToolContext, Workspace},
    session::SessionSettings,
    tool::{Effect, FollowedLink, StartFolder, ToolCall, ToolSpec},
};
use agentd_policy::{CallContext, ForeignTools, Policy, is_shallow, roots};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Engine;
use crate::{error::EngineError, links::showable, session::turns::asks::denied_edit};

/// Where a call would be made: all that a verdict depends on, besides the call and the rules.
#[derive(Debug, Clone, Default)]
pub struct DryRunSubject {
    settings: SessionSettings,
    workspace: Option<Arc<Workspace>>,
    kept: Arc<[Grant]>,
    /// Whose the tools are that are somebody else's.
    others: Arc<ForeignTools>,
    /// Nothing holds commands, as [`CallContext::held`] has it.
    unheld: bool,
    /// Commands are contained, as [`CallContext::contained`] has it.
    contained: bool,
}

/// State of the files that a call is about. Empty from a standpoint without folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LookedUp {
    /// The form of the call that names what it would read, where a path in it leads through a link.
    pub followed: Option<FollowedLink>,
    /// Where its command starts, if it runs one.
    pub start: Option<StartFolder>,
}

impl DryRunSubject {
    /// Verdict of a policy on a call, with what [`Engine::look_up`] has found of it.
    pub fn judge(&self, rules: &Policy, tool: &ToolSpec, arguments: &str, looked_up: &LookedUp) -> Explanation {
        let roots = self.workspace.as_deref().map(roots).unwrap_or_default();
        let memories = self.workspace.as_ref().and_then(|workspace| workspace.memories.as_deref());
        let (settings, followed, start) = (&self.settings, looked_up.followed.as_ref(), looked_up.start.as_ref());
        let (kept, held) = (&*self.kept, !self.unheld);
        let foreign = self.others.get(&tool.name).map(|other| &**other);
        rules.judge(&CallContext {
            tool,
            foreign,
            arguments,
            followed,
            start,
            settings,
            roots: &roots,
            memories,
            kept,
            held,
            contained: self.contained,
        })
    }
}

impl Engine {
    /// The rules in force.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.shared.config().policy)
    }

    /// The standpoint of a session, or of a new one that has no project.
    ///
    /// # Errors
    /// When there is no such session, or the journal does not answer.
    pub async fn standpoint(&self, session: Option<SessionId>) -> Result<DryRunSubject, EngineError> {
        let kept = self.shared.kept.now();
        let others = Arc::new(self.shared.stock().others());
        let unheld = !self.shared.ports.toolbox.holds_commands().await;
        let contained = self.shared.ports.toolbox.contains_commands().await;
        let Some(id) = session else {
            let settings = self.shared.config().session_defaults.clone();
            return Ok(DryRunSubject { settings, workspace: None, kept, others, unheld, contained });
        };
        let stored = self.shared.ports.store.session(id).await?;
        let stored =
            stored.ok_or_else(|| EngineError::new(ErrorKind::NotFound, format!("there is no session {id}")))?;
        let settings = stored.settings;
        // Nothing is made for it: whoever asks only wants to know. Where the project is gone no rule reaches into it, and
        // what the session is set to and what it was granted hold all the same.
        let workspace = match self.shared.ports.workspaces.locate(id, settings.mounts()).await {
            Ok(workspace) => Some(Arc::new(workspace)),
            Err(error) => {
                tracing::debug!(session = %id, "calls are judged without the session's folders: {error}");
                None
            }
        };
        Ok(DryRunSubject { settings, workspace, kept, others, unheld, contained })
    }

    /// Looks up the files of a call that would be made there.
    pub async fn look_up(&self, at: &DryRunSubject, tool: &ToolSpec, arguments: &str) -> LookedUp {
        let Some(workspace) = at.workspace.clone() else { return LookedUp::default() };
        let call = call(tool, arguments);
        self.look_up_in(&self.context_of(&call, SessionId::generate(), workspace), &call).await
    }

    async fn look_up_in(&self, context: &ToolContext, call: &ToolCall) -> LookedUp {
        let toolbox = &self.shared.ports.toolbox;
        LookedUp { followed: toolbox.follow(context, call).await, start: toolbox.start(context, call).await }
    }

    /// The arguments of a call in the words of its tool, as they would be judged if a model wrote it.
    pub fn meant(&self, tool: &ToolSpec, arguments: String) -> String {
        let call = call(tool, &arguments);
        self.shared.ports.toolbox.meant(&call).map_or(arguments, |meant| meant.arguments)
    }

    /// The question that a person would be asked who wants a call that waits to run with other arguments: with the
    /// risk, and with what it would do then. Nothing runs, and nothing is answered.
    ///
    /// # Errors
    /// When nothing of that id waits for an approval, the rules deny these arguments, the call would fail with them, or it
    /// would do more than can be shown.
    pub async fn foresee(&self, id: InterruptId, args: Value) -> Result<Ask, EngineError> {
        let waits = self.shared.ports.store.interrupt(id).await?;
        let Some(StoredInterrupt {
            interrupt: Interrupt { session_id, ask: ask @ Ask::Approval { .. }, .. },
            answer: None,
        }) = waits
        else {
            let hint = "agentctl interrupts shows what waits";
            return Err(EngineError::not_found(format!("no approval {id} waits for an answer"), hint));
        };
        if !args.is_object() || !is_shallow(&args) {
            return Err(EngineError::new(
                ErrorKind::InvalidInput,
                "edited arguments must be a JSON object, not too deep",
            ));
        }
        let tool = match &ask {
            Ask::Approval { .. } if ask.plan().is_some() => return changed_plan(&args),
            Ask::Approval { tool, .. } => tool,
            Ask::Question { .. } => "",
        };
        let spec = self.tool(tool)?;
        let (_, SessionTree { workspace, state }) = self.session(session_id).await?.tree().await?;
        let at = DryRunSubject { workspace: Some(Arc::clone(&workspace)), ..self.standpoint(Some(session_id)).await? };
        let call = call(&spec, &args.to_string());
        let context = ToolContext { state_files: state, ..self.context_of(&call, session_id, workspace) };
        let toolbox = &self.shared.ports.toolbox;
        let looked_up = self.look_up_in(&context, &call).await;
        let judged = at.judge(&self.policy(), &spec, &call.arguments, &looked_up);
        let reason = match &judged.verdict {
            Verdict::Deny { reason } => return Err(denied_edit(reason)),
            Verdict::Ask { reason, .. } => reason.clone(),
            Verdict::Allow => String::new(),
        };
        // What the conversation's own tools would do, their arguments say.
        let has_preview = toolbox.specs().iter().any(|known| known.name == spec.name);
        let shown = if has_preview { toolbox.preview(&context, &call).await } else { Ok(None) };
        let shown = shown.map(|shown| shown.or_else(|| looked_up.followed.map(|followed| followed.to_string())));
        let preview = shown.and_then(showable).map_err(|output| {
            EngineError::new(ErrorKind::InvalidInput, format!("with these arguments it would fail: {}", output.text))
                .with_hint("the question is still pending: edit it differently, approve it unchanged, or reject it")
        })?;
        let (risk, Explanation { layer, rule, .. }) = (judged.verdict.risk(), judged);
        let (layer, rule) = (Some(layer), Some(rule));
        Ok(Ask::Approval {
            tool: tool.to_owned(),
            args,
            risk,
            reason,
            preview,
            layer,
            rule,
            grants: Vec::new(),
            wider: Vec::new(),
            for_good: Vec::new(),
            owner: None,
        })
    }

    /// Where a call would work that nobody makes.
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
            stands_for: None,
            confinement: Confinement::Usual,
            guarded: Default::default(),
            closed: Arc::default(),
            now: self.shared.ports.clock.now(),
            cancel: CancellationToken::new(),
        }
    }

    /// A tool by its name.
    ///
    /// # Errors
    /// When there is none.
    pub fn tool(&self, name: &str) -> Result<ToolSpec, EngineError> {
        self.tools().into_iter().find(|tool| tool.name == name).ok_or_else(|| {
            EngineError::new(ErrorKind::NotFound, format!("there is no tool {name:?}"))
                .with_hint("`agentctl tools` lists them; a command line goes after `--`")
        })
    }
}

fn call(tool: &ToolSpec, arguments: &str) -> ToolCall {
    ToolCall { call_id: CallId::generate(), name: tool.name.clone(), arguments: arguments.to_owned() }
}

/// A tool that is not there any more, as one that may do anything.
pub fn unknown_tool(name: &str) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: String::new(), parameters: json!({}), effect: Effect::Execute }
}

/// The question about a plan as a person has changed it.
fn changed_plan(args: &Value) -> Result<Ask, EngineError> {
    match args.get(Ask::PLAN).and_then(Value::as_str).filter(|plan| !plan.trim().is_empty()) {
        Some(plan) => Ok(Ask::of_plan(plan)),
        None => Err(EngineError::invalid("a changed plan needs its words", r#"edit it as {"plan": "1. …"}"#)),
    }
}

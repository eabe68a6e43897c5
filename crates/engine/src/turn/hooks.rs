//! The hooks of a capability around a turn, and the chain that runs them.

use std::sync::{Arc, OnceLock};

use agentd_context::RequestBuilder;
use agentd_core::{
    agent::Subagent,
    ids::{ItemId, SessionId},
    interrupt::Ask,
    item::{ItemBody, NoticeTopic},
    tool::{ToolCall, ToolOutput, ToolSpec},
    turn::{Denial, StopReason},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::Instant;

use crate::{
    agents,
    instructions::PreambleContext,
    turn::{Flow, TurnContext, TurnExit, TurnState, call_record::CallRecord, recorder::ResolvedInterrupt},
};

/// Future of a hook. An error ends the turn.
pub(crate) type Hook<'a, T = ()> = BoxFuture<'a, Flow<T>>;

/// Preview of a call; the error is the output that the call would return.
pub(crate) type Preview<'a> = BoxFuture<'a, Result<Option<String>, ToolOutput>>;

/// Completes a hook that does not wait for anything.
pub(crate) fn done<'a, T: Send + 'a, E: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, E>> {
    std::future::ready(Ok(value)).boxed()
}

/// A capability with hooks around the turn, its model calls and its tool calls.
pub(crate) trait Link: Send + Sync {
    /// Returns the tools that the link implements itself.
    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    /// Returns the notice inserted before a turn's input and stored with the input.
    fn preamble(&self, _: &PreambleContext<'_>) -> Option<ItemBody> {
        None
    }

    /// Called once, before the first step.
    fn before_turn<'a>(&'a self, _: &'a TurnContext, _: &'a mut TurnState) -> Hook<'a> {
        done(())
    }

    /// Called before each step, before the next action is chosen.
    fn before_step<'a>(&'a self, _: &'a TurnContext, _: &'a mut TurnState) -> Hook<'a> {
        done(())
    }

    /// Called once after the last step, if the turn ended with an answer or at a limit.
    fn on_finish<'a>(&'a self, _: &'a TurnContext, _: &'a mut TurnState) -> Hook<'a> {
        done(())
    }

    /// Returns the reminder for the model before the next request. The reminder is appended to the history if it
    /// changed.
    fn reminder(&self, _: &TurnContext, _: &TurnState) -> Option<Reminder> {
        None
    }

    /// Called before a request is sent, and may change the request.
    fn before_model(&self, _: &TurnContext, _: &TurnState, _: &mut RequestBuilder) {}

    /// Called before any call is judged, including calls to other tools. May load data that the call needs into the
    /// session, and record the call's requirements. `Some(output)` means that the call could only fail: unless the
    /// rules deny the call, it ends with this output, and the user is not asked.
    fn prepare_call<'a>(&'a self, _: &'a Invocation<'a>) -> Hook<'a, Option<ToolOutput>> {
        done(None)
    }

    /// Returns the preview of a call to one of the link's tools, like [`agentd_core::ports::Toolbox::preview`] for
    /// other tools. `None` if the link has no such tool or no preview.
    fn preview<'a>(&'a self, _: &'a Invocation<'a>) -> Option<Preview<'a>> {
        None
    }

    /// Returns the paths that a call to one of the link's tools would change but that its arguments do not name. The
    /// rules judge these paths as if they were named.
    fn affected_paths(&self, _: &Invocation<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Called for each call. May answer or change the call, or pass it on and inspect the result.
    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        next.run(call)
    }
}

/// A link with its name and a one-line description of its purpose and position, shown when the chain is listed.
pub(crate) type NamedLink = (&'static str, &'static str, Arc<dyn Link>);

/// A fact for the model to see before the next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reminder {
    /// Topic of the reminder. A later reminder replaces an earlier one on the same topic.
    pub(crate) topic: NoticeTopic,
    /// Text of the reminder.
    pub(crate) text: String,
}

impl Reminder {
    pub(crate) fn new(topic: NoticeTopic, text: impl Into<String>) -> Self {
        Self { topic, text: text.into() }
    }

    /// Converts the reminder into a notice.
    pub(crate) fn notice(self) -> ItemBody {
        let Self { topic, text } = self;
        ItemBody::Notice { text, topic, sources: Vec::new(), pictures: Vec::new() }
    }
}

/// A call that is passed through the chain.
#[derive(Clone, Copy)]
pub(crate) struct Invocation<'a> {
    pub(crate) context: &'a TurnContext,
    pub(crate) call: &'a ToolCall,
    /// State of the turn before this call and before all concurrent calls.
    pub(crate) state: &'a TurnState,
    /// The item of the result, once the tool has started.
    pub(crate) started: &'a OnceLock<ItemId>,
    /// Record of the decision on the call.
    pub(crate) record: &'a CallRecord<'a>,
}

impl Invocation<'_> {
    /// Returns the called tool, implemented by a link or by the toolbox. `None` if the turn does not show the tool,
    /// because a model cannot call hidden tools.
    pub(crate) fn tool(&self) -> Option<&ToolSpec> {
        let (context, name) = (self.context, &self.call.name);
        context.tool(name).or_else(|| context.tools.visible.get(&context.tools.chain.own(name)?.name))
    }

    /// Returns the denial of the call, under the name of a tool.
    pub(crate) fn denial(&self, tool: &str, reason: impl Into<String>) -> Denial {
        Denial { call_id: self.call.call_id.clone(), tool: tool.to_owned(), reason: reason.into() }
    }

    /// Asks the user about the call and waits for the answer, the turn's cancellation or the end of its time.
    pub(crate) async fn ask(&self, ask: Ask) -> Flow<ResolvedInterrupt> {
        let asked = Instant::now();
        let (context, call_id) = (self.context, &self.call.call_id);
        let answered = tokio::select! {
            biased;
            answered = context.ask(call_id.clone(), ask) => answered,
            () = context.control.calls.cancelled() => {
                context.recorder.withdraw(call_id.clone());
                Err(TurnExit::Finished(StopReason::TimeLimit))
            }
        };
        self.record.entries().waited += asked.elapsed();
        let answered = answered?;
        self.record.answer(&answered);
        Ok(answered)
    }
}

/// Runner for sessions that work on other sessions' calls.
pub(crate) trait Subagents: Send + Sync {
    /// Runs the task in a subagent and returns its result.
    fn run<'a>(&'a self, call: &'a Invocation<'a>, task: Task) -> Hook<'a, ToolOutput>;

    /// Waits for a subagent that has been working on this call since before a restart, and returns its result.
    fn resume<'a>(&'a self, call: &'a Invocation<'a>, subagent: Subagent, max_steps: u32) -> Hook<'a, ToolOutput>;

    /// Returns true if the subagent is still in memory, which is the case if only its parent was closed.
    fn is_alive(&self, id: SessionId) -> BoxFuture<'_, bool>;

    /// Cancels a subagent whose call has ended.
    fn cancel(&self, id: SessionId) -> BoxFuture<'_, ()>;
}

/// Task of a subagent.
pub(crate) struct Task {
    /// Instructions for the subagent.
    pub(crate) text: String,
    /// Name of the agent for a new subagent; `None` for an agent like the main agent.
    pub(crate) agent: Option<String>,
    /// True if the call itself names the agent.
    pub(crate) is_named: bool,
    /// Maximum number of steps.
    pub(crate) max_steps: u32,
    /// Earlier subagent to continue.
    pub(crate) context_id: Option<SessionId>,
    /// True if a new subagent gets its own worktree of the project.
    pub(crate) worktree: bool,
}

/// The rest of the chain.
pub(crate) struct Next<'a> {
    links: &'a [NamedLink],
    tool: ToolRunner,
}

/// Runs the tool of a call, inside all links.
pub(crate) type ToolRunner = for<'a> fn(&'a Invocation<'a>) -> Hook<'a, ToolOutput>;

impl<'a> Next<'a> {
    /// Passes the call on to the next link.
    pub(crate) fn run(self, call: &'a Invocation<'a>) -> Hook<'a, ToolOutput> {
        match self.links.split_first() {
            Some(((.., link), links)) => link.around_tool(call, Next { links, tool: self.tool }),
            None => (self.tool)(call),
        }
    }
}

/// All links, in order.
pub(crate) struct Chain {
    links: Vec<NamedLink>,
    /// Tools implemented by links, including those that a turn does not offer.
    own: Vec<ToolSpec>,
    tool: ToolRunner,
}

/// Implements hooks that run one link after the other.
macro_rules! each_link {
    ($($hook:ident),*) => {$(
        pub(crate) async fn $hook(&self, context: &TurnContext, state: &mut TurnState) -> Flow {
            for (.., link) in &self.links {
                link.$hook(context, state).await?;
            }
            Ok(())
        }
    )*};
}

impl Chain {
    /// Creates a chain with these links, in order, around the tool runner.
    pub(crate) fn new(links: Vec<NamedLink>, tool: ToolRunner) -> Self {
        let own = links.iter().flat_map(|(.., link)| link.tools()).collect();
        Self { links, own, tool }
    }

    /// Returns the tools implemented by links, in order.
    pub(crate) fn tools(&self) -> &[ToolSpec] {
        &self.own
    }

    /// Finds a tool implemented by a link, even if the turn does not offer it.
    pub(crate) fn own(&self, name: &str) -> Option<&ToolSpec> {
        let name = agents::canonical_name(name);
        self.own.iter().find(|tool| tool.name == name)
    }

    /// Returns the names and descriptions of the links, in order.
    pub(crate) fn descriptions(&self) -> Vec<(&'static str, &'static str)> {
        self.links.iter().map(|(name, description, _)| (*name, *description)).collect()
    }

    /// Returns the notices inserted before a turn's input, in order.
    pub(crate) fn preamble(&self, preamble: &PreambleContext<'_>) -> Vec<ItemBody> {
        self.links.iter().filter_map(|(.., link)| link.preamble(preamble)).collect()
    }

    each_link!(before_turn, before_step, on_finish);

    /// Returns the reminders of all links, in order.
    pub(crate) fn reminders(&self, context: &TurnContext, state: &TurnState) -> Vec<Reminder> {
        self.links.iter().filter_map(|(.., link)| link.reminder(context, state)).collect()
    }

    pub(crate) fn before_model(&self, context: &TurnContext, state: &TurnState, draft: &mut RequestBuilder) {
        for (.., link) in &self.links {
            link.before_model(context, state, draft);
        }
    }

    /// Runs the `prepare_call` hooks until one returns an output.
    pub(crate) async fn prepare_call(&self, call: &Invocation<'_>) -> Flow<Option<ToolOutput>> {
        for (.., link) in &self.links {
            if let Some(output) = link.prepare_call(call).await? {
                return Ok(Some(output));
            }
        }
        Ok(None)
    }

    /// Returns the preview of the call for the user who is asked to approve it. The error is the output that the call
    /// would return.
    pub(crate) async fn preview(&self, call: &Invocation<'_>) -> Result<Option<String>, ToolOutput> {
        match self.links.iter().find_map(|(.., link)| link.preview(call)) {
            Some(preview) => preview.await,
            None if self.own(&call.call.name).is_some() => Ok(None),
            None => call.context.ports.toolbox.preview(&call.context.tool_context(call.call), call.call).await,
        }
    }

    /// Returns the paths that the call would change but that its arguments do not name.
    pub(crate) fn affected_paths(&self, call: &Invocation<'_>) -> Vec<String> {
        self.links.iter().flat_map(|(.., link)| link.affected_paths(call)).collect()
    }

    pub(crate) async fn around_tool(&self, call: &Invocation<'_>) -> Flow<ToolOutput> {
        Next { links: &self.links, tool: self.tool }.run(call).await
    }
}

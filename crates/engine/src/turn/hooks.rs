//! What a capability can do around a turn, and the chain of those that do.

use std::sync::{Arc, OnceLock};

use agentd_context::RequestBuilder;
use agentd_core::{
    agent::Subagent,
    ids::{ItemId, SessionId},
    interrupt::Ask,
    item::{ItemBody, NoticeTopic},
    tool::{ToolCall, ToolOutput, ToolSpec},
    turn::StopReason,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::Instant;

use crate::{
    agents,
    instructions::PreambleContext,
    turn::{TurnContext, TurnExit, TurnState, call_record::CallRecord, recorder::ResolvedInterrupt},
};

/// Work of a hook, which may end the turn.
pub(crate) type Hook<'a, T = ()> = BoxFuture<'a, Result<T, TurnExit>>;

/// Preview of a call, or what it would return.
pub(crate) type Preview<'a> = BoxFuture<'a, Result<Option<String>, ToolOutput>>;

/// A hook that has nothing to wait for.
pub(crate) fn done<'a, T: Send + 'a, E: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, E>> {
    std::future::ready(Ok(value)).boxed()
}

/// A capability with hooks before the turn, before each model call and around each tool call.
pub(crate) trait Link: Send + Sync {
    /// The tools that the link answers itself.
    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    /// Returns whether people may switch these tools off. Those that other links name to the model stay.
    fn can_be_disabled(&self) -> bool {
        false
    }

    /// Notice in front of a turn's input: it is stored with the input.
    fn preamble(&self, _: &PreambleContext<'_>) -> Option<ItemBody> {
        None
    }

    /// Called once, before the first step.
    fn before_turn<'a>(&'a self, _: &'a TurnContext, _: &'a mut TurnState) -> Hook<'a> {
        done(())
    }

    /// Called before each step: before it is decided what comes next.
    fn before_step<'a>(&'a self, _: &'a TurnContext, _: &'a mut TurnState) -> Hook<'a> {
        done(())
    }

    /// Called once after the last step, where the turn came to its answer or to a limit.
    fn on_finish<'a>(&'a self, _: &'a TurnContext, _: &'a mut TurnState) -> Hook<'a> {
        done(())
    }

    /// Reminder for the model as it should read before the next request. It is appended to the history where it changed.
    fn reminder(&self, _: &TurnContext, _: &TurnState) -> Option<Reminder> {
        None
    }

    /// May change what the model is sent.
    fn before_model(&self, _: &TurnContext, _: &TurnState, _: &mut RequestBuilder) {}

    /// Called before a call is judged, whoever answers it: may bring into the session what it is about, and note what it needs
    /// besides. An output is what the call comes to, for it could only fail.
    fn prepare_call<'a>(&'a self, _: &'a Invocation<'a>) -> Hook<'a, Option<ToolOutput>> {
        done(None)
    }

    /// Preview of a call of one of its tools, as [`agentd_core::ports::Toolbox::preview`] gives for others. None where
    /// the link has no such tool, or nothing to show.
    fn preview<'a>(&'a self, _: &'a Invocation<'a>) -> Option<Preview<'a>> {
        None
    }

    /// The paths that a call of one of its tools would change, where its arguments do not say them: the rules judge them
    /// as if they did.
    fn affected_paths(&self, _: &Invocation<'_>) -> Vec<String> {
        Vec::new()
    }

    /// May answer a call itself, change it, or let it through and look at what comes back.
    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        next.run(call)
    }
}

/// A link with its name and, in one line, its purpose and the reason for its place, for people who want to see the chain.
pub(crate) type NamedLink = (&'static str, &'static str, Arc<dyn Link>);

/// A fact that the model should know before the next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reminder {
    /// Its subject. A later reminder replaces an earlier one on the same.
    pub(crate) topic: NoticeTopic,
    /// Its words.
    pub(crate) text: String,
}

impl Reminder {
    pub(crate) fn new(topic: NoticeTopic, text: impl Into<String>) -> Self {
        Self { topic, text: text.into() }
    }

    /// The notice that tells it.
    pub(crate) fn notice(self) -> ItemBody {
        let Self { topic, text } = self;
        ItemBody::Notice { text, topic, sources: Vec::new(), pictures: Vec::new() }
    }
}

/// One call on its way through the chain.
#[derive(Clone, Copy)]
pub(crate) struct Invocation<'a> {
    pub(crate) context: &'a TurnContext,
    pub(crate) call: &'a ToolCall,
    /// State of the turn before it, and before those that run beside it.
    pub(crate) state: &'a TurnState,
    /// The item of the result, once the tool has started.
    pub(crate) started: &'a OnceLock<ItemId>,
    /// Record of the decision on it.
    pub(crate) record: &'a CallRecord<'a>,
}

impl Invocation<'_> {
    /// The tool that is called, whoever answers it. None where the turn shows none of that name: what a model was not shown
    /// it cannot call.
    pub(crate) fn tool(&self) -> Option<&ToolSpec> {
        let (context, name) = (self.context, &self.call.name);
        context.tool(name).or_else(|| context.tools.visible.get(&context.tools.chain.own(name)?.name))
    }

    /// Asks a person about the call and waits for the answer, the turn's cancel or the end of its time.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<ResolvedInterrupt, TurnExit> {
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

/// Sessions that work for calls of other sessions.
pub(crate) trait Subagents: Send + Sync {
    /// Runs the task in a subagent, and returns its result.
    fn run<'a>(&'a self, call: &'a Invocation<'a>, task: Task) -> Hook<'a, ToolOutput>;

    /// Follows a subagent that works for this call since before a restart, and returns its result.
    fn resume<'a>(&'a self, call: &'a Invocation<'a>, subagent: Subagent, max_steps: u32) -> Hook<'a, ToolOutput>;

    /// Returns whether a subagent is still in memory, where only its parent was closed.
    fn is_alive(&self, id: SessionId) -> BoxFuture<'_, bool>;

    /// Cancels a subagent whose call has ended without it.
    fn cancel(&self, id: SessionId) -> BoxFuture<'_, ()>;
}

/// Task of a subagent.
pub(crate) struct Task {
    /// In words, for the subagent.
    pub(crate) text: String,
    /// Which agent a new one is; none for one that is like the main agent.
    pub(crate) agent: Option<String>,
    /// Set if the call names that agent.
    pub(crate) is_named: bool,
    /// The steps that it may take.
    pub(crate) max_steps: u32,
    /// The earlier one that shall go on.
    pub(crate) context_id: Option<SessionId>,
    /// Set if a new one gets a worktree of the project for itself.
    pub(crate) worktree: bool,
}

/// The rest of the chain.
pub(crate) struct Next<'a> {
    links: &'a [NamedLink],
    tool: ToolRunner,
}

/// Runs the tool of a call, behind all links.
pub(crate) type ToolRunner = for<'a> fn(&'a Invocation<'a>) -> Hook<'a, ToolOutput>;

impl<'a> Next<'a> {
    /// Passes the call on.
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
    /// Tools that links answer themselves, also those that a turn does not offer.
    own: Vec<ToolSpec>,
    tool: ToolRunner,
}

impl Chain {
    /// A chain of these links, in order, around what runs a tool.
    pub(crate) fn new(links: Vec<NamedLink>, tool: ToolRunner) -> Self {
        let own = links.iter().flat_map(|(.., link)| link.tools()).collect();
        Self { links, own, tool }
    }

    /// The tools that links answer themselves, and whether people may switch them off.
    pub(crate) fn tools(&self) -> Vec<(ToolSpec, bool)> {
        let tools = self.links.iter().flat_map(|(.., link)| link.tools().into_iter().map(move |tool| (tool, link)));
        tools.map(|(tool, link)| (tool, link.can_be_disabled())).collect()
    }

    /// The tool of that name, where a link answers it, whether the turn offers it or not.
    pub(crate) fn own(&self, name: &str) -> Option<&ToolSpec> {
        let name = agents::canonical_name(name);
        self.own.iter().find(|tool| tool.name == name)
    }

    /// The links' names and reasons, in order.
    pub(crate) fn told(&self) -> Vec<(&'static str, &'static str)> {
        self.links.iter().map(|(name, description, _)| (*name, *description)).collect()
    }

    /// Notices in front of a turn's input, in order.
    pub(crate) fn preamble(&self, opening: &PreambleContext<'_>) -> Vec<ItemBody> {
        self.links.iter().filter_map(|(.., link)| link.preamble(opening)).collect()
    }

    pub(crate) async fn before_turn(&self, context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
        for (.., link) in &self.links {
            link.before_turn(context, state).await?;
        }
        Ok(())
    }

    pub(crate) async fn before_step(&self, context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
        for (.., link) in &self.links {
            link.before_step(context, state).await?;
        }
        Ok(())
    }

    pub(crate) async fn on_finish(&self, context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
        for (.., link) in &self.links {
            link.on_finish(context, state).await?;
        }
        Ok(())
    }

    /// The reminders of all links, in order.
    pub(crate) fn reminders(&self, context: &TurnContext, state: &TurnState) -> Vec<Reminder> {
        self.links.iter().filter_map(|(.., link)| link.reminder(context, state)).collect()
    }

    pub(crate) fn before_model(&self, context: &TurnContext, state: &TurnState, draft: &mut RequestBuilder) {
        for (.., link) in &self.links {
            link.before_model(context, state, draft);
        }
    }

    /// Brings what the call is about. An output is what the call comes to.
    pub(crate) async fn prepare_call(&self, call: &Invocation<'_>) -> Result<Option<ToolOutput>, TurnExit> {
        for (.., link) in &self.links {
            if let Some(output) = link.prepare_call(call).await? {
                return Ok(Some(output));
            }
        }
        Ok(None)
    }

    /// Preview of the call, for a person who is asked to approve it. An error is what it would return.
    pub(crate) async fn preview(&self, call: &Invocation<'_>) -> Result<Option<String>, ToolOutput> {
        match self.links.iter().find_map(|(.., link)| link.preview(call)) {
            Some(preview) => preview.await,
            None if self.own(&call.call.name).is_some() => Ok(None),
            None => call.context.ports.toolbox.preview(&call.context.tool_context(call.call), call.call).await,
        }
    }

    /// The paths that the call would change, where its arguments do not say them.
    pub(crate) fn affected_paths(&self, call: &Invocation<'_>) -> Vec<String> {
        self.links.iter().flat_map(|(.., link)| link.affected_paths(call)).collect()
    }

    pub(crate) async fn around_tool(&self, call: &Invocation<'_>) -> Result<ToolOutput, TurnExit> {
        Next { links: &self.links, tool: self.tool }.run(call).await
    }
}

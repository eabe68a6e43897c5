//! The agent that runs a turn (the main agent, an agent to which the session was transferred, or a subagent), and the
//! agents that a project adds to the configured ones. No side effects.
//!
//! Also defines the specifications of the tools with which agents hand over work: `delegate_task`, which lists the
//! available agents, and `transfer_to_…`.
//!
//! [`ToolSetCache`] shares recently used tool sets between turns. Tool definitions are the largest part of a short
//! request, and the same in nearly all turns. Adapters need not serialise a cached set again.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use agentd_context::ToolSet;
use agentd_core::{
    agent::{AgentCard, Agents, MAIN, Parent, TRANSFER_PREFIX as TRANSFER},
    catalogue::{CatalogueTool, ToolLabel, ToolOrigin, ToolStanding},
    error::ErrorKind,
    event::EventKind,
    model::Slot,
    ports::ProjectStanding,
    project::ProjectTrust,
    session::SessionSettings,
    tool::{Effect, ToolSpec},
    tool_table::conversation_tool,
};
use serde_json::{Value, json};

use crate::{
    catalog::{AgentScope, DELEGATE, ToolCatalog, ToolScope},
    config::EngineConfig,
    error::{EngineError, Result},
};

/// The agent of a turn. A configuration reload affects only later turns.
#[derive(Debug, Clone)]
pub(crate) struct ActiveAgent {
    agents: Arc<Agents>,
    /// The session's own agent; the main agent if absent. Models cannot transfer the session from this agent to the
    /// main agent.
    own: Option<String>,
    /// Agents to which the session was transferred, in order, starting with its own agent; empty if the main agent
    /// runs.
    stack: Vec<String>,
    parent: Option<Parent>,
}

impl ActiveAgent {
    /// Finds the agent of a session after these transfers. An agent whose card no longer exists is dropped, and the
    /// previous agent runs again.
    pub(crate) fn of(settings: &SessionSettings, stack: &[String], agents: &Arc<Agents>) -> Self {
        // A subagent is confined by its own card.
        let own = settings.agent.clone().filter(|_| settings.parent.is_none());
        let mut stack: Vec<String> = stack.iter().take_while(|id| agents.get(id).is_some()).cloned().collect();
        if own.is_some() && stack.first() != own.as_ref() {
            stack = own.iter().cloned().collect();
        }
        Self { agents: Arc::clone(agents), own, stack, parent: settings.parent.clone() }
    }

    /// Returns the name of the agent as shown to users.
    pub(crate) fn name(&self) -> &str {
        match (self.stack.last(), &self.parent) {
            (Some(id), _) => id,
            (None, Some(parent)) => parent.name(),
            (None, None) => MAIN,
        }
    }

    /// Returns all agents except the main agent.
    pub(crate) fn agents(&self) -> &Agents {
        &self.agents
    }

    /// Returns the agents to which the session was transferred, including the first.
    pub(crate) fn chain(&self) -> Vec<&str> {
        let main = self.own.is_none().then_some(MAIN);
        main.into_iter().chain(self.stack.iter().map(String::as_str)).collect()
    }

    /// Returns true if the session is a subagent.
    pub(crate) fn is_subagent(&self) -> bool {
        self.parent.is_some()
    }

    /// Returns the card of the agent; `None` for the main agent.
    pub(crate) fn card(&self) -> Option<&AgentCard> {
        let id = self.stack.last().or_else(|| self.parent.as_ref()?.agent.as_ref())?;
        self.agents.get(id)
    }

    /// Fails if the session's agent no longer exists, because its permissions are unknown without its card.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(id) = self.missing() else { return Ok(()) };
        let message =
            format!("this session works as the agent `{id}`, which is no longer in agents.yaml or a trusted project");
        let hint = "restore it, use another session, or choose another agent (--agent main for the main one)";
        Err(EngineError::new(ErrorKind::Configuration, message).with_hint(hint))
    }

    /// Returns the agent for which the session was created, if it no longer exists.
    fn missing(&self) -> Option<&str> {
        let id = self.own.as_deref().or_else(|| self.parent.as_ref()?.agent.as_deref())?;
        self.agents.get(id).is_none().then_some(id)
    }

    /// Returns the slot that the agent uses instead of the main agent's slot.
    pub(crate) fn own_slot(&self) -> Option<Slot> {
        self.card().and_then(|card| card.slot)
    }

    /// Returns the scope of the agent's tools, if it differs from the main agent's scope.
    pub(crate) fn scope(&self) -> Option<AgentScope> {
        if let Some(id) = self.missing() {
            return Some(AgentScope { id: id.to_owned(), tools: Some(Default::default()) });
        }
        let card = self.card()?;
        let tools = card.tools.as_ref().map(|tools| tools.iter().cloned().collect());
        Some(AgentScope { id: card.id.clone(), tools })
    }

    /// Returns the system prompt of the agent. The general instructions come first, because they are the same for all
    /// agents.
    pub(crate) fn instructions(&self, config: &EngineConfig) -> String {
        let mut text = config.system_prompt.trim_end().to_owned();
        let mut add = |more: &str| {
            text.push_str("\n\n");
            text.push_str(more.trim());
        };
        if let Some(card) = self.card() {
            add(&format!("You are the agent `{}`. {}", card.id, card.prompt));
            if let Some(skills) = card.skills.as_ref().filter(|skills| !skills.is_empty()) {
                add(&format!("Before you begin, read those of these skills that are relevant: {}.", skills.join(", ")));
            }
        }
        if self.is_subagent() {
            add(&config.subagent_prompt);
        } else if let [first, _, ..] = self.chain()[..] {
            // The agent took over from other agents. The first of these is named here.
            add(&format!(
                "The conversation was transferred to you: continue it. Your answer goes to the user. If the rest is \
                 not your task, transfer it back with `{TRANSFER}{first}` and report your result."
            ));
        }
        text
    }

    /// Returns true if both are the same agent with equal lists of other agents. A catalogue then yields the same tools
    /// for both.
    pub(crate) fn sees_same_tools_as(&self, other: &Self) -> bool {
        let parent_agent = |active_agent: &Self| active_agent.parent.as_ref().map(|parent| parent.agent.clone());
        let same_agents = Arc::ptr_eq(&self.agents, &other.agents) || self.agents == other.agents;
        same_agents && self.chain() == other.chain() && parent_agent(self) == parent_agent(other)
    }

    /// Returns the tools offered to the agent: those in `may_use`, and the tools that hand over work to the current
    /// agents. If the client allows only some tools, all others are left out.
    pub(crate) fn tools(&self, may_use: ToolSet, only: Option<&BTreeSet<String>>) -> ToolSet {
        let mut transfers = self.transfers();
        transfers.retain(|transfer| only.is_none_or(|only| only.contains(&transfer.name)));
        if transfers.is_empty() {
            return may_use;
        }
        // Tool names must be unique: servers reject requests that list a name twice.
        let names: Vec<String> = transfers.iter().map(|transfer| transfer.name.clone()).collect();
        let rewrite = |tool: &ToolSpec| {
            let is_shown = self.may_show(tool) && !names.contains(&tool.name);
            is_shown.then(|| with_agents(tool, &self.offered_agents()))
        };
        may_use.rewritten(rewrite, transfers)
    }

    /// Returns false for `delegate_task` if the agent's card names its tools but not `delegate_task`.
    fn may_show(&self, tool: &ToolSpec) -> bool {
        let named = self.card().and_then(|card| card.tools.as_ref());
        tool.name != DELEGATE || named.is_none_or(|named| named.contains(&tool.name))
    }

    /// Applies the rules of [`Self::tools`] to the listing of all tools, with reasons.
    pub(crate) fn standings(&self, mut standings: Vec<ToolStanding>) -> Vec<ToolStanding> {
        let transfers = self.transfers();
        for standing in &mut standings {
            let spec = &standing.tool.spec;
            if standing.visible && !self.may_show(spec) {
                (standing.visible, standing.why) = (false, format!("the agent {} does not name it", self.name()));
            } else if transfers.iter().any(|transfer| transfer.name == spec.name) {
                let by = ToolOrigin::Conversation;
                (standing.visible, standing.why) = (false, format!("another tool has the same name ({by})"));
            }
            standing.tool.spec = with_agents(&standing.tool.spec, &self.offered_agents());
        }
        let label = ToolLabel { category: "agent".to_owned(), ..ToolLabel::default() };
        let transfers = transfers.into_iter().map(|spec| ToolStanding {
            tool: CatalogueTool::own(spec, ToolOrigin::Conversation, label.clone()),
            visible: true,
            why: "the agent is enabled".to_owned(),
        });
        standings.extend(transfers);
        standings.sort_by(|a, b| a.tool.spec.name.cmp(&b.tool.spec.name));
        standings
    }

    /// Returns the agents to which this agent can delegate.
    fn offered_agents(&self) -> Vec<&AgentCard> {
        if self.is_subagent() { Vec::new() } else { self.agents.enabled().collect() }
    }

    /// Returns the transfer tools of the agent. If the user chose the session's agent, and the card of the active agent
    /// names tools, only the transfer tools named by the card are returned.
    fn transfers(&self) -> Vec<ToolSpec> {
        if self.is_subagent() {
            return Vec::new();
        }
        let mut transfers = transfer_specs(&self.chain(), &self.offered_agents());
        transfers.retain(|tool| self.may_transfer(&tool.name));
        transfers
    }

    /// Returns true if this tool may transfer the session. A transfer back to the first agent is always allowed.
    pub(crate) fn may_transfer(&self, tool: &str) -> bool {
        let Some(own) = &self.own else { return true };
        let to = tool.strip_prefix(TRANSFER);
        let named = self.card().and_then(|card| card.tools.as_ref());
        to != Some(MAIN) && (to == Some(own) || named.is_none_or(|named| named.iter().any(|name| name == tool)))
    }
}

/// Code of the warning about a project that changed after it was trusted.
const PROJECT_CHANGED: &str = "project_changed";

/// Agents of a session's project.
#[derive(Debug, Default)]
pub(crate) struct ProjectAgents {
    trust: ProjectTrust,
    /// Configured agents merged with the project's, as of the last check; `None` if the project has none.
    all: Option<Arc<Agents>>,
    /// Warning for users, sent with the next turn.
    pub(crate) warning: Option<EventKind>,
}

impl ProjectAgents {
    /// Returns all agents, given the configured ones.
    pub(crate) fn and(&self, configured: &Arc<Agents>) -> Arc<Agents> {
        Arc::clone(self.all.as_ref().unwrap_or(configured))
    }

    /// Updates the agents to the current state of the project.
    pub(crate) fn update(&mut self, standing: ProjectStanding, configured: &Agents) {
        let was = std::mem::replace(&mut self.trust, standing.trust);
        if was == ProjectTrust::Trusted && standing.trust != ProjectTrust::Trusted {
            self.warning = Some(trust_warning(standing.trust));
        }
        self.all = standing.agents.map(|agents| merge_agents(configured, &agents));
    }
}

/// Adds the project's agents to the configured ones, without replacing any configured agent. Aliases of tools are
/// resolved.
fn merge_agents(configured: &Agents, of_project: &Agents) -> Arc<Agents> {
    let resolve_aliases = |card: &AgentCard| {
        let mut card = card.clone();
        for name in card.tools.iter_mut().flatten() {
            *name = canonical_name(name).to_owned();
        }
        card
    };
    Arc::new(configured.and(&Agents::new(of_project.iter().map(resolve_aliases))))
}

fn trust_warning(trust: ProjectTrust) -> EventKind {
    let reason = match trust {
        ProjectTrust::Changed => "`.agentd/` of the project has changed since you trusted it",
        ProjectTrust::Empty => "`.agentd/` of the project, which you trusted, was removed",
        ProjectTrust::Untrusted | ProjectTrust::Trusted => "`.agentd/` of the project is no longer trusted",
    };
    let message = format!("{reason}: its content is not used; see `agentctl project show`");
    EventKind::Warning { code: PROJECT_CHANGED.to_owned(), message, retry_in_ms: None }
}

/// Number of cached tool sets: enough for the main agent, its subagents and a few turns with mentions.
const MAX_CACHED: usize = 8;

/// LRU cache of tool sets, most recent last. The cache is locked only for a lookup or an insertion.
#[derive(Debug, Default)]
pub(crate) struct ToolSetCache(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    catalog: Arc<ToolCatalog>,
    loaded_tools: Vec<String>,
    scope: ToolScope,
    /// Agent of the tool set. Storing the agent keeps its agent list alive: lists are compared by address, which
    /// another list could otherwise reuse.
    active_agent: ActiveAgent,
    tools: ToolSet,
}

impl ToolSetCache {
    /// Returns the agent's tools, from the cache if they were already shown to an equal agent.
    pub(crate) fn tools(
        &self,
        catalog: &Arc<ToolCatalog>,
        loaded_tools: &[String],
        scope: &ToolScope,
        active_agent: &ActiveAgent,
    ) -> ToolSet {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Tool sets from an older catalogue are stale.
        entries.retain(|entry| Arc::ptr_eq(&entry.catalog, catalog));
        let is_same = |entry: &Entry| {
            entry.loaded_tools == loaded_tools
                && entry.scope == *scope
                && entry.active_agent.sees_same_tools_as(active_agent)
        };
        if let Some(index) = entries.iter().position(is_same) {
            let entry = entries.remove(index);
            let tools = entry.tools.clone();
            entries.push(entry);
            return tools;
        }
        let tools = toolset(catalog, loaded_tools, scope, active_agent);
        if entries.len() == MAX_CACHED {
            entries.remove(0);
        }
        let (catalog, loaded_tools, scope, active_agent) =
            (Arc::clone(catalog), loaded_tools.to_vec(), scope.clone(), active_agent.clone());
        entries.push(Entry { catalog, loaded_tools, scope, active_agent, tools: tools.clone() });
        tools
    }
}

/// Builds the set of tools that an agent is shown.
pub(crate) fn toolset(
    catalog: &ToolCatalog,
    loaded_tools: &[String],
    scope: &ToolScope,
    active_agent: &ActiveAgent,
) -> ToolSet {
    let tools = active_agent.tools(catalog.shown(loaded_tools, scope), scope.only.as_ref());
    if scope.brief { tools.brief() } else { tools }
}

/// Resolves an alias to the name of the engine's tool.
pub(crate) fn canonical_name(name: &str) -> &str {
    conversation_tool(name).unwrap_or(name)
}

/// Adds the list of agents to the description of `delegate_task`. Returns other tools unchanged.
fn with_agents(tool: &ToolSpec, offered_agents: &[&AgentCard]) -> ToolSpec {
    let mut tool = tool.clone();
    if tool.name == DELEGATE && !offered_agents.is_empty() {
        let cards: Vec<String> =
            offered_agents.iter().map(|card| format!("{}: {}", card.id, card.description)).collect();
        tool.parameters["properties"]["agent"] = json!({
            "type": "string",
            "description": format!("The agent for the task; by default a subagent like you. {}", cards.join(" ")),
        });
    }
    tool
}

/// Returns the transfer tools of the last agent in the chain.
fn transfer_specs(chain: &[&str], offered_agents: &[&AgentCard]) -> Vec<ToolSpec> {
    // Includes agents that are already in the chain, so that the list is the same for all agents. A transfer that would
    // form a cycle fails with an explanation.
    let (first, last) = (chain.first().copied().unwrap_or(MAIN), chain.last().copied());
    let is_other = |card: &&&AgentCard| last != Some(&card.id) && first != card.id;
    let others = offered_agents.iter().filter(is_other).map(|card| ToolSpec {
        name: format!("{TRANSFER}{}", card.id),
        description: format!(
            "Transfers the conversation to the agent `{}`, which answers in your place and sees the whole history. {}",
            card.id, card.description
        ),
        parameters: parameters("The task, in one or two sentences."),
        effect: Effect::State,
    });
    let back = (chain.len() > 1).then(|| ToolSpec {
        name: format!("{TRANSFER}{first}"),
        description: match first {
            MAIN => "Transfers the conversation back to the main agent.".to_owned(),
            first => format!("Transfers the conversation back to the agent `{first}`."),
        },
        parameters: parameters("The result of your part, and what is left to do."),
        effect: Effect::State,
    });
    others.chain(back).collect()
}

fn parameters(task: &str) -> Value {
    json!({
        "type": "object",
        "properties": {"task": {"type": "string", "description": task}},
        "required": ["task"],
        "additionalProperties": false
    })
}

#[cfg(test)]
mod tests {
    use agentd_core::{ids::SessionId, tool::Effect};
    use agentd_policy::read_tool;

    use super::*;

    #[test]
    fn tools_named_like_a_transfer_are_hidden() {
        let agents = Arc::new(Agents::new([AgentCard::new("poet")]));
        let active_agent = ActiveAgent::of(&SessionSettings::default(), &[], &agents);
        let tool_named = |name: &str| ToolSpec { name: name.to_owned(), ..read_tool() };
        let names = ["transfer_to_critic", "transfer_to_poet"];
        let shown = active_agent.tools(ToolSet::new(names.map(tool_named).to_vec()), None);
        let effects =
            |name: &str| shown.specs.iter().filter(|tool| tool.name == name).map(|tool| tool.effect).collect();
        let (free, hidden): (Vec<Effect>, Vec<Effect>) = (effects(names[0]), effects(names[1]));
        assert_eq!((free, hidden), (vec![Effect::Read], vec![Effect::State]));

        let standing = |name: &str| ToolStanding {
            tool: CatalogueTool::own(tool_named(name), ToolOrigin::BuiltIn, ToolLabel::default()),
            visible: true,
            why: String::new(),
        };
        let standings = active_agent.standings(names.map(standing).to_vec());
        let visible: Vec<(&str, bool)> =
            standings.iter().map(|standing| (standing.tool.spec.name.as_str(), standing.visible)).collect();
        let (critic, poet) = (names[0], names[1]);
        assert_eq!(visible, [(critic, true), (poet, false), (poet, true)]);
    }

    fn agents(id: &str) -> Arc<Agents> {
        Arc::new(Agents::new([AgentCard::new(id)]))
    }

    fn main_among(agents: &Arc<Agents>) -> ActiveAgent {
        ActiveAgent::of(&SessionSettings::default(), &[], agents)
    }

    fn child_among(agents: &Arc<Agents>, agent: Option<&str>) -> ActiveAgent {
        let parent = Parent { session: SessionId::generate(), agent: agent.map(str::to_owned), tools: Vec::new() };
        ActiveAgent::of(&SessionSettings { parent: Some(parent), ..SessionSettings::default() }, &[], agents)
    }

    /// A cache, and the catalogue whose tools it caches.
    struct CacheFixture(ToolSetCache, Arc<ToolCatalog>);

    fn cache_fixture() -> CacheFixture {
        CacheFixture(ToolSetCache::default(), Arc::new(ToolCatalog::new(Arc::default(), &[])))
    }

    fn tools_of(fixture: &CacheFixture, loaded_tools: &str, scope: &ToolScope, active_agent: &ActiveAgent) -> ToolSet {
        // Without mentions, all agents share the catalogue's plain set.
        fixture.0.tools(&fixture.1, &[loaded_tools.to_owned()], scope, active_agent)
    }

    fn is_shared(one: &ToolSet, other: &ToolSet) -> bool {
        Arc::ptr_eq(&one.specs, &other.specs)
    }

    #[test]
    fn cached_tool_sets_are_separate_for_each_caller() {
        let (fixture, poet, any) = (cache_fixture(), agents("poet"), ToolScope::default());
        let first = tools_of(&fixture, "none", &any, &main_among(&poet));
        let others = [
            tools_of(&fixture, "grep", &any, &main_among(&poet)),
            tools_of(&fixture, "none", &ToolScope { has_vision: true, ..any.clone() }, &main_among(&poet)),
            // A reloaded configuration.
            tools_of(&fixture, "none", &any, &main_among(&agents("critic"))),
            tools_of(
                &fixture,
                "none",
                &any,
                &ActiveAgent::of(&SessionSettings::default(), &["poet".to_owned()], &poet),
            ),
            tools_of(&fixture, "none", &any, &child_among(&poet, None)),
            tools_of(&fixture, "none", &any, &child_among(&poet, Some("poet"))),
        ];
        for (index, other) in others.iter().enumerate() {
            assert!(!is_shared(&first, other), "{index}");
            assert!(others[..index].iter().all(|earlier| !is_shared(earlier, other)), "{index}");
        }
    }
}

//! Sessions and turns of agentd.
//!
//! The engine depends on no adapter: it reaches models, tools, the journal and files through the ports of
//! [`agentd_core::ports`]. Modules are arranged in numbered layers, and a module imports only from layers with lower
//! numbers:
//!
//! - 8 `front/`: [`Engine`] finds, loads, forks and removes sessions, and dry-runs calls against the rules.
//! - 7 `subagent`: runs the sessions that work on another session's call; implements the kernel's trait `Subagents`.
//! - 6 `session/`: one actor per session, the only writer of its events. `journal` numbers, stores and then publishes
//!   them; any number of readers follow without stalling the turn. `registry` is the map of sessions.
//! - 5 `links/`: the capabilities around a turn, one link each; `standard` lists them in order, with the reasons for
//!   the order. `recovery/`: restores state after a crash, from the journal alone.
//! - 4 `turn/`: the kernel. `run` is the loop, `step` decides without side effects, `sample` calls the model (also for
//!   the final answer), `dispatch` runs tool calls. `hooks` defines the hooks of a capability; the kernel names no
//!   capability.
//! - 3 `instructions`: text that users wrote for models (AGENTS.md, memory, skills), added to the history as notices.
//! - 2 `agents`: the agent that runs a turn, and its tools; `mentions`: `@` mentions in an input; `attachments`:
//!   uploaded files shown to the model; `large_input`: inputs too large for the window; `answer_form`: the schema an
//!   answer must match; `client`: tools answered by the client, and project files that the client has open; `grants`:
//!   live permissions.
//! - 1 `intent`: heuristics that classify an input; `catalog/`: the tools that a turn shows, finds or hides, without
//!   side effects; `state_changes`: changes to the session's own state, and reverting them; `config`.
//! - 0 `error`.
//!
//! Two crates without side effects are below the engine: `agentd_context` builds a model's context, and `agentd_policy`
//! judges calls.

mod agents;
mod answer_form;
mod attachments;
mod catalog;
mod client;
pub mod config;
pub mod error;
pub mod front;
mod grants;
mod instructions;
mod intent;
mod large_input;
mod links;
mod mentions;
pub mod recovery;
mod session;
mod state_changes;
mod subagent;
mod turn;

pub use client::{ClientFileQuestion, ClientLine, ClientLines, ClientToolRequest, FileLine, TurnStart};
pub use config::{EngineConfig, Ports};
pub use error::EngineError;
pub use front::{
    Engine, ProbedModel,
    archives::{SessionExport, import::SessionImport},
    fork::{ForkOptions, ForkedSession},
    rules::{DryRunSubject, LookedUp, unknown_tool},
    start::CheckedParts,
};
pub use session::{
    CleanOrder, SessionCleaned, SessionHandle, SessionView, StartedTurn,
    journal::Subscription,
    registry::shared::{Activity, EngineStats, MissedNews, NewsReader, SessionNews},
};
pub use turn::aside::{SideAnswer, SidePart};

/// Returns the tools built into every session, regardless of the toolbox. Their names are reserved.
pub fn own_tools() -> Vec<agentd_core::tool::ToolSpec> {
    links::standard::chain().tools().to_vec()
}

/// Returns the built-in tool's name for an alias used by other systems; any other name is returned unchanged.
pub fn own_name(name: &str) -> &str {
    agents::canonical_name(name)
}

/// Returns the built-in tools that users may disable.
pub fn hideable_tools() -> Vec<agentd_core::tool::ToolSpec> {
    own_tools().into_iter().filter(|tool| catalog::HIDEABLE.contains(&tool.name.as_str())).collect()
}

//! Sessions and turns.
//!
//! The engine knows no adapter: models, tools, the journal and the files come in through the ports of
//! [`agentd_core::ports`]. Its rooms stand on floors, and a room imports only from floors below its own:
//!
//! - 8 `front/`: [`Engine`] finds, loads, forks and removes sessions, and dry-runs calls against the rules.
//! - 7 `subagent`: sessions that work for a call of another one; implements the kernel's trait `Subagents`.
//! - 6 `session/`: one actor a session, the only writer of its facts. `journal` numbers, stores and then publishes them;
//!   any number of readers follow without ever stalling the turn; `registry` is the map of sessions.
//! - 5 `links/`: the capabilities that surround a turn, each a link; `standard` lists them and says why in that order.
//!   `recovery/`: what a crash left behind, read from the journal only.
//! - 4 `turn/`: the kernel. `run` is the loop, `step` decides purely, `sample` asks the model, also for the last answer, `dispatch`
//!   runs tool calls; `hooks` is what a capability can do. It names no capability.
//! - 3 `instructions`: what people wrote for models (AGENTS.md, memory, skills), told in the history.
//! - 2 `agents`: the agent that works in a turn, and its tools; `mentions`: what an input names with `@`; `attachments`:
//!   uploaded files shown to the model; `large_input`: an input that does not fit into the window; `answer_form`: the
//!   schema that an answer has to match; `client`: tools that the client answers, and files of the project that it
//!   holds; `grants`: what people allowed, live.
//! - 1 `intent`: what an input is about, by a few signs of it; `catalog/`: the tools that a turn shows, finds or hides, pure;
//!   `state_changes`: changes of the session's own state and how they are reverted; `config`.
//! - 0 `error`.
//!
//! Two pure crates lie below: `agentd_context` builds what a model sees, `agentd_policy` decides about calls.

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
    archives::{SessionExport, importing::SessionImport},
    forking::{ForkWishes, ForkedSession},
    rules::{DryRunSubject, LookedUp, unknown_tool},
    starting::CheckedParts,
};
pub use session::{
    CleanOrder, SessionCleaned, SessionHandle, SessionView, StartedTurn,
    journal::Subscription,
    registry::shared::{Activity, EngineStats, MissedNews, NewsReader, SessionNews},
};

/// The tools that belong to every session, whatever toolbox is plugged in: their names are taken.
pub fn own_tools() -> Vec<agentd_core::tool::ToolSpec> {
    links::standard::chain().tools().into_iter().map(|(tool, _)| tool).collect()
}

/// The name of such a tool, for one that other systems have for it; any other name as it is.
pub fn own_name(name: &str) -> &str {
    agents::canonical_name(name)
}

/// Those of them that people may switch off.
pub fn hideable_tools() -> Vec<agentd_core::tool::ToolSpec> {
    links::standard::chain().tools().into_iter().filter_map(|(tool, may_hide)| may_hide.then_some(tool)).collect()
}

//! Sessions and turns.
//!
//! The engine knows no adapter: models, tools, the journal and the files come in through the ports of
//! [`agentd_core::ports`].
//!
//! - [`engine`]: the front. [`Engine`] finds and loads sessions; [`SessionHandle`] speaks to one.
//! - `session/`: one actor a session, the only writer of its facts. `journal` numbers, stores and then
//!   publishes them; `subscribers` lets any number of readers follow without ever stalling the turn;
//!   `interrupts` is the one map of questions that wait for a person.
//! - `turn/`: one turn. `run` is the product in eighty lines, `step` decides purely, `sample` asks the model,
//!   `dispatch` runs tool calls, `finalize` writes the last answer.
//! - `chain/`: the capabilities that surround a turn, one link a file, their order and its reason in `order.rs`.
//! - `prompt/`: what the model sees, one fragment a file; `compaction/`: what makes room in it;
//!   `guides/`: what people wrote for models to know, told in the history.
//! - `acting`: who works in a turn, and with what; `subagent/`: sessions that work for a call of another one.
//! - `tools/`: which tools a turn shows, pure; `mentions/`: what an input names with `@`, pure.
//! - `handing`: files that people hand over, made fit for models and told with what is said next.
//! - `large_input`: an input that does not fit into the window, kept in a file and told by its beginning.
//! - `state_changes`: what calls change in the session's own state, told and taken back like changes of files.
//! - `recovery`: what a crash left behind, and the facts that say so, pure.

mod acting;
mod chain;
mod compaction;
pub mod config;
pub mod engine;
pub mod error;
mod guides;
mod handing;
mod large_input;
mod mentions;
mod prompt;
pub mod recovery;
mod session;
mod state_changes;
mod subagent;
mod tools;
mod turn;

pub use config::EngineConfig;
pub use engine::{
    Engine, EngineParts,
    cleaning::{CleanOrder, SessionCleaned},
    forking::ForkedSession,
    gauges::{Activity, EngineStats},
    judging::{LookedUp, Standpoint, unknown_tool},
};
pub use error::EngineError;
pub use session::{SessionHandle, SessionView, StartedTurn, subscribers::Subscription};

/// The tools that belong to every session, whatever toolbox is plugged in: their names are taken.
#[must_use]
pub fn own_tools() -> Vec<agentd_core::tool::ToolSpec> {
    chain::Chain::standard().tools().into_iter().map(|(tool, _)| tool).collect()
}

/// Those of them that people may switch off.
#[must_use]
pub fn hideable_tools() -> Vec<agentd_core::tool::ToolSpec> {
    chain::Chain::standard()
        .tools()
        .into_iter()
        .filter(|(_, may_be_hidden)| *may_be_hidden)
        .map(|(tool, _)| tool)
        .collect()
}

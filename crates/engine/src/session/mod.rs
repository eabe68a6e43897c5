//! A session: one actor, the only writer of its facts, and the handle through which everybody speaks to it.
//!
//! - `handle`: [`SessionHandle`] and the commands behind it; `orders`: what a session is told before it leaves.
//! - `registry`: the map of sessions in memory; `siblings`: the way to it; `shared`, `gauges`: what all sessions share.
//! - `actor`: what the actor holds; `run`: its loop. `load` restores it from the journal, `turns` begins and ends turns,
//!   `launch` starts their tasks, also after a restart, `steers` adds to them, `withdrawal` takes back what a cancel leaves unread, `queue` lets them wait, `room` keeps inputs
//!   that do not fit, `asks` raises interrupts and takes answers, `undo` reverts what turns did to files, `ledger` is what they did, `context` and
//!   `context_view` say what a model sees, `settings` changes what is set, `routing` chooses the
//!   models of a turn, `resting` knows those that do not answer,
//!   `unsure` asks a model about an intent, `model_choice` sets one by its id, `visible` says which tools it is shown,
//!   `form` which form its answer has to be in, `options` what its client wants of it besides, `turn_start` the line to its client, `surroundings` where it works, `project` and `project_agents` which agents the project brings along, `clean`
//!   removes what nobody has used for long, `leaving` ends a session that is unloaded or to be removed, `drain` stops in
//!   good order.
//! - `journal`, `subscribers`, `interrupts`, `state`: what the actor holds. `news`: what those hear who watch all sessions.

mod actor;
mod history;
pub(crate) mod models;
pub(crate) mod registry;
pub(crate) mod turns;
mod view;

pub(crate) use crate::session::registry::handle::plain_title;
pub use crate::session::{
    registry::handle::{SessionHandle, SessionView, StartedTurn},
    turns::turn_start::{ClientLines, TurnStart},
};

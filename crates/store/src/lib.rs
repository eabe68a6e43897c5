//! The journal: an append-only, numbered log of every session in one SQLite file, and the projections of it.
//!
//! An acknowledged event survives `kill -9` and power loss. Nothing is rewritten as a session grows: an append
//! costs the same at the ten-thousandth event as at the first.
//!
//! - [`SqliteStore`] implements the port [`agentd_core::ports::Store`]; [`StoreConfig`] says where and how big;
//!   [`StoreStats`] counts.
//! - `writer`: the one thread that writes. It gathers all appends that wait and commits them together; `change`: what it
//!   can be asked for.
//! - `reader`: the threads that read, so that a long read never delays a commit.
//! - `open`: how the file is made, checked after an unclean stop, and brought to the newest schema
//!   (`migrations/*.sql`, append-only).
//! - `sessions` (with the turns that wait), `events` (with sessions that have a damaged one), `interrupts` (with grants and files
//!   of state), `usage` (with counters): the tables, the SQL beside its row mapping; `projection`: what a session's events add up
//!   to, pure; `append`: one append, checked and applied to all of them, and what the writer knows of the sessions that it wrote
//!   to lately.
//! - `upkeep`: how a session is removed, at once for readers, in pieces on the disk; what the writer does for the file while
//!   nothing waits.
//! - `mark`: whether the files are still those that were opened, room for removing on a full disk, and whether what they held
//!   last is still there. `damage`: what stands in for an event that cannot be read.
//! - `draft`, `import`: sessions that come from elsewhere, or go on from a copy of another's events. `past`: what their events
//!   add up to.
//! - `search`: the full-text index, brought up to date by the writer while nothing waits, and by whoever searches.
//! - `codec`: ids, times, numbers and JSON in columns; what failures are called.

mod append;
mod change;
mod codec;
mod damage;
mod draft;
mod events;
mod import;
mod interrupts;
mod mark;
mod open;
mod past;
mod projection;
mod reader;
mod search;
mod sessions;
mod store;
mod upkeep;
mod usage;
mod writer;

pub use crate::events::DamagedSession;
pub use crate::open::StoreConfig;
pub use store::{SqliteStore, StoreSize};
pub use writer::StoreStats;

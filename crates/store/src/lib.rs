//! The journal: an append-only, numbered log of every session in one SQLite file, with its projections.
//!
//! An acknowledged event survives `kill -9` and power loss. Nothing is rewritten as a session grows, so appending the
//! ten-thousandth event costs as much as appending the first.
//!
//! - [`SqliteStore`] implements the port [`agentd_core::ports::Store`]; [`StoreConfig`] has the journal's path and
//!   limits; [`StoreStats`] has the writer's counters.
//! - `writer`: the single thread that writes. It commits all waiting changes together. `change`: the changes that the
//!   writer applies.
//! - `reader`: the threads that read, so that a long read never delays a commit.
//! - `open`: creates the file, checks it after an unclean stop, and migrates it to the newest schema
//!   (`migrations/*.sql`, append-only).
//! - `sessions` (with queued turns), `events` (with the check for damaged events), `interrupts` (with grants and state
//!   files), `usage` (with counters): the tables, with the SQL next to its row mapping. `projection`: the state
//!   computed from a session's events, without I/O. `append`: checks an append and applies it to all tables, and the
//!   writer's cache of sessions.
//! - `upkeep`: removal of sessions (immediate for readers, in steps on disk), and maintenance of the file while idle.
//! - `mark`: detects replaced files and a lost log, and reserves space for removals on a full disk. `damage`:
//!   placeholders for unreadable events.
//! - `draft`, `import`: imported sessions, and forks that continue from a copy. `past_state`: the state after copied or
//!   imported events.
//! - `search`: the full-text index, updated by the writer while idle, and by searches.
//! - `codec`: conversion of IDs, times, numbers and JSON for columns, and the errors.

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
mod past_state;
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

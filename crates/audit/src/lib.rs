//! The audit log: one line of JSON for everything that was decided and done, in files that only grow.
//!
//! What it promises: an entry that was acknowledged is on the disk; each line holds the hash of the one before it, so
//! that whoever changes, removes, moves or inserts a line breaks the chain; secrets are taken out before anything is
//! written. What it cannot promise: there is no key, so who may write the files, the witness `audit.head` included, can
//! write a whole new log that holds together. Only a hash that was noted elsewhere (the daemon tells it to its own log
//! at each start, stop and new file, keeps it in memory while it runs, and in the journal) tells such a log from the true one.
//!
//! - [`AuditLog`] (`log`): the front; it implements the ports [`agentd_core::ports::Audit`] and
//!   [`agentd_core::ports::AuditReader`]. [`AuditConfig`] says where and how big.
//! - `writer`: the one thread that writes; what waits is written and synced together. `place`: the files as it finds
//!   and leaves them, what a crash tore off, the next file when one is full.
//! - [`chain`]: a line, its number and its hash, pure. `shape`: an entry without secrets and of bounded size, pure.
//! - [`verify`]: whether the chain holds, and what can be known where it does not. [`read`]: lines, for those who judge
//!   them again, and each call once, for those who list them; and which files make up the log.
//! - `trim`: the oldest files, removed by age and size.
//! - [`redact`]: what looks like a secret, pure; the daemon's own log uses it too.

pub mod chain;
mod log;
mod place;
pub mod read;
pub mod redact;
mod shape;
mod trim;
pub mod verify;
mod writer;

pub use log::{AuditConfig, AuditLog};
pub use trim::{TrimLimits, TrimReport};

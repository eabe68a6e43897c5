//! The audit log: one line of JSON for every decision and action, in append-only files.
//!
//! Guarantees: an acknowledged entry is on disk. Each line contains the hash of the previous line, so changing,
//! removing, moving or inserting a line breaks the chain. Secrets are removed before anything is written.
//!
//! Limits: there is no key, so anyone who can write the files, including the witness `audit.head`, can replace the log
//! with a new one that verifies. Only a hash stored elsewhere reveals the replacement. The daemon therefore logs the
//! hash of the last line at each start, stop and rotation, keeps it in memory while running, and stores it in the
//! journal.
//!
//! - [`AuditLog`] (`log`): the async API; it implements the ports [`agentd_core::ports::Audit`] and
//!   [`agentd_core::ports::AuditReader`]. [`AuditConfig`] sets the folder and the file size.
//! - `writer`: the single writer thread, which writes and syncs pending entries together. `place`: opening and rotating
//!   the files, and repair after a crash.
//! - [`chain`]: a line with its number and hash, pure. `shape`: an entry of bounded size without secrets, pure.
//! - [`verify`]: checks the chain and reports each break. [`read`]: lists the log files, and reads raw lines or one
//!   record per call.
//! - `trim`: removes the oldest files by age and size.
//! - [`redact`]: detects likely secrets, pure; the daemon's own log also uses it.

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

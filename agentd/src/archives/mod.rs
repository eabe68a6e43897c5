//! Sessions that leave the daemon, and that come to it: what the engine gives and takes, and the files that they are in
//! between.
//!
//! - [`export`]: writes an archive, or hands out events. [`import`]: reads an archive, or the history of another program.
//! - `redact`: masks secrets in what leaves. [`pipe`]: bytes between a stream of a client and a thread that blocks.

pub mod export;
pub mod import;
pub mod pipe;
mod redact;

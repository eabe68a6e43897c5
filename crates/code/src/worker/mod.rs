//! Code parsing in a sandboxed process that can only read one folder.
//!
//! The daemon starts its own executable again as the *worker* of a folder. The worker drops all other privileges before
//! it reads the first file. It indexes the folder at the first question, watches for changes from then on, and exits
//! after an idle timeout. If a file crashes the parser, only the worker ends. The next worker announces each file
//! before reading it, and the worker after that skips the file on which its predecessor crashed.
//!
//! - `frame`: protocol, and validation of worker output.
//! - `serve`: worker side, [`run_worker`]; `watch` reports changes.
//! - `pool`: daemon side, [`CodePool`], with one task per folder.

mod frame;
mod pool;
mod serve;
mod watch;

pub use pool::{CodePool, PoolConfig};
pub use serve::run_worker;

/// First argument of a process that runs as a code worker.
pub const WORKER_ARGUMENT: &str = "code-worker";

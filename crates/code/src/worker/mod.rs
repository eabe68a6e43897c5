//! The code of a folder is parsed by a process that can do nothing but read that folder.
//!
//! The daemon starts its own program once more as a *worker* of one folder. The worker gives up all other rights before it
//! reads the first file, indexes the folder at the first question, hears of changes from then on, and answers. It ends
//! when nobody asks any more. What a file does to the parser ends the worker, and nothing else: the next one reads file by
//! file, and the one after that leaves out what its predecessor died of.
//!
//! - `frame`: what is asked and what is told, and what is believed of a worker.
//! - `serve`: the worker's side, [`run_worker`]; `watch` hears of changes.
//! - `pool`: the daemon's side, [`CodePool`], with a task for each folder.

mod frame;
mod pool;
mod serve;
mod watch;

pub use pool::{CodePool, PoolConfig};
pub use serve::run_worker;

/// The first argument by which a program knows that it is to be the worker.
pub const WORKER_ARGUMENT: &str = "code-worker";

//! Commands: started in a clean environment and a new session, and ended with all their children.
//!
//! - `capture`: the head and the tail of a stream. The rest is read and dropped, so that no command blocks on a full
//!   pipe. The last lines are reported while the command runs.
//! - `run`: start, read, wait, end. The process group of a command is killed when it goes out of scope. Children that
//!   are still running, even outside the group, are found by a mark in their environment. In the [sandbox](crate), the
//!   keeper tracks all of them.
//! - `confined`: programs that run without approval, connected by pipes, for as long as their handle lives.

mod capture;
mod confined;
mod run;

pub use capture::{Binary, CapturedOutput, OutputForm};
pub use confined::ConfinedPrograms;
pub use run::{CommandEnd, FinishedCommand, RunError, Script, bash, run};

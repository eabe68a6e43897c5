//! Commands: started in a clean environment and a new session, and ended together with all their children.
//!
//! - `capture`: the head and the tail of a stream. The remaining bytes are read and dropped, so that no command blocks
//!   on a full pipe. The last lines are reported while the command runs.
//! - `run`: starts a command, reads its output, waits for it and ends it. The process group of a command is killed when
//!   its guard is dropped. Children that are still running, even outside the group, are found by a mark in their
//!   environment. In the [sandbox](crate), the keeper tracks all children.
//! - `confined`: programs that run without approval, connected by pipes, and killed when their handle is dropped.

mod capture;
mod confined;
mod run;

pub use capture::{Binary, CapturedOutput, OutputForm};
pub use confined::ConfinedPrograms;
pub use run::{CommandEnd, FinishedCommand, RunError, Script, bash, run};

//! Commands: started in a clean environment and a session of their own, ended with all their children.
//!
//! - `capture`: the head and the tail of a stream; the rest is read and dropped, so that no command ever blocks on
//!   a full pipe. Its last lines while it runs, for people who watch.
//! - `run`: start, read, wait, end. The process group of a command is killed when it goes out of scope; children that were
//!   left running, also out of the group, are found by a mark in their environment. In the [sandbox](crate) its keeper knows
//!   them all.
//! - `confined`: programs that run unasked, with pipes, for as long as somebody holds them.

mod capture;
mod confined;
mod run;

pub use capture::{Binary, CapturedOutput, OutputForm};
pub use confined::ConfinedPrograms;
pub use run::{CommandEnd, FinishedCommand, RunError, Script, bash, run};

//! Commands: started in a clean environment and a session of their own, ended with all their children.
//!
//! - `capture`: the head and the tail of a stream; the rest is read and dropped, so that no command ever blocks on
//!   a full pipe.
//! - `live`: its last lines while it runs, for whoever watches.
//! - `group`: the process group of a command, killed when it goes out of scope.
//! - `strays`: children that were left running, also out of the group, found by a mark in their environment. In the
//!   [sandbox](crate) its keeper knows them all.
//! - `run`: start, read, wait, end.
//! - `confined`: programs that run unasked, with pipes, for as long as somebody holds them.
//! - `misnamed`: hints for a model that named a folder as only tools can.

mod capture;
mod confined;
mod group;
mod live;
mod misnamed;
mod run;
mod strays;

pub use capture::{Binary, CapturedOutput, OutputForm};
pub use confined::ConfinedPrograms;
pub use misnamed::misnamed;
pub use run::{CommandEnd, FinishedCommand, RunError, Script, bash, run};

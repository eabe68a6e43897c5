//! The first layer: what is known of a tool without any file of rules. It cannot be switched off.
//!
//! - `bash`: what a part of a command would do; `programs` has what is known of single programs, by the lists of
//!   `tables`; `interpreters`, `git`, `sed` and `awk` are programs of which more has to be known.
//! - `environment`: variables that make harmless programs run something else.
//! - `paths`: places that matter, secrets, and where a command may write.
//! - `reading`: commands that only look, inside the workspace. This is not the first layer but the last: nothing else
//!   may have an opinion.
//! - `files`: tools that change files. `web`: tools that ask servers.

mod awk;
pub(super) mod bash;
pub(super) mod environment;
pub(super) mod files;
mod git;
mod interpreters;
mod paths;
pub(super) mod programs;
pub(super) mod reading;
mod sed;
mod tables;
pub(super) mod web;

pub(super) use self::{
    interpreters::is_device,
    paths::{is_tame, may_be},
};

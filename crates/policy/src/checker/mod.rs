//! The first layer: what is known of a tool without any file of rules. It cannot be switched off.
//!
//! - `bash`: what a part of a command would do; `programs` has what is known of single programs, by the lists of
//!   `tables`; `interpreters` (with sed and awk) and `git` are programs of which more has to be known, and `carriers`
//!   those that run others.
//! - `environment`: variables that make harmless programs run something else.
//! - `paths`: places that matter, secrets, and where a command may write.
//! - `looking`: commands that only look, inside the workspace, by a list of programs and options. This is not the first
//!   layer but the last: nothing else may have an opinion.
//! - `files`: tools that change files, and tools that ask servers.

pub(super) mod bash;
pub(super) mod carriers;
pub(super) mod environment;
pub(super) mod files;
mod git;
mod interpreters;
pub(super) mod looking;
pub(super) mod paths;
pub(super) mod programs;
mod tables;

pub(super) use self::{
    paths::{is_narrow_glob, is_tame, may_be},
    tables::holds,
};

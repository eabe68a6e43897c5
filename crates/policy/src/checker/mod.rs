//! The first layer: built-in knowledge about tools, independent of any rule file. It cannot be disabled.
//!
//! - `bash`: the effect of one part of a command. `programs` judges single programs, based on the lists in `tables`;
//!   `interpreters` (with sed and awk) and `git` judge programs that need a closer look, and `carriers` judges programs
//!   that run other programs.
//! - `environment`: variables that make harmless programs run something else.
//! - `paths`: sensitive locations, secrets, and where a command may write.
//! - `read_only`: the allowlist of read-only commands inside the workspace, by program and options. This module belongs
//!   to the last layer, not the first: it applies only if no other layer has a verdict.
//! - `files`: tools that change files, and tools that send requests to servers.

pub(super) mod bash;
pub(super) mod carriers;
pub(super) mod environment;
pub(super) mod files;
mod git;
mod interpreters;
pub(super) mod paths;
pub(super) mod programs;
pub(super) mod read_only;
mod tables;

pub(super) use self::{
    paths::{is_confined, is_narrow_glob, may_be},
    tables::holds,
};

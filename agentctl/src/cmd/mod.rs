//! The commands: arguments and handlers, one module per command group.

pub(crate) mod agents;
pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod context;
pub(crate) mod daemon;
pub(crate) mod dial;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod interrupts;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod models;
mod own_file;
pub(crate) mod plugin;
pub(crate) mod policy;
pub(crate) mod project;
pub(crate) mod replay;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod session_list;
pub(crate) mod sessions;
pub(crate) mod trace;
pub(crate) mod usage;

//! Shared types and ports of agentd.
//!
//! All code in this crate is pure: no I/O, no clock, no globals. The other crates depend on it and only communicate
//! through its types.
//!
//! - [`ids`]: time-ordered newtypes. Sorting by ID sorts by creation time.
//! - [`item`], [`event`]: the content of a session, and the numbered events that record it.
//! - [`turn`]: requests for turns and their results; [`input`]: attachments to the text; [`environment`]: variables of
//!   the client that tools may access; [`client_tool`]: tools that the client executes; [`client_file`]: project files
//!   that the client has open.
//! - [`tool`]: effects, requests and results of tools; [`tool_table`]: the built-in tools; [`catalogue`]: the available
//!   tools; [`interrupt`]: durable questions to the user; [`policy`]: verdicts on calls; [`grant`]: rules that a user
//!   has granted; [`audit`]: records of calls and decisions in the audit log.
//! - [`exchange`]: recorded requests to model servers and their answers.
//! - [`model`]: requests to a model and their streamed answers; [`origin`]: opaque parts of an answer that only its
//!   server understands; [`usage`]: tokens and cost of a call; [`spending`]: totals over all calls.
//! - [`context`]: the part of a session that a model sees, the fill level of its window, and compaction.
//! - [`guide`]: instructions that users write for models; [`surroundings`]: the machine and the project, as described
//!   to models; [`project`]: files that a project contributes, and trust in them.
//! - [`session`]: settings, todos and summary of a durable conversation; [`state_files`]: small text files in the
//!   session's state; [`files`]: session files that clients list and read; [`worktree`]: a session's checkout of a
//!   repository.
//! - [`search`]: search in past sessions; [`knowledge`]: search in documents; [`embedding`]: search by meaning;
//!   [`web`]: requests to web servers;
//!   [`untrusted`]: sanitising of text from outside before a model sees it; [`visible`]: text for approvals in which
//!   every character is visible; [`path`]: paths in the form that models read and write; [`charset`]: encodings of
//!   files.
//! - [`archive`]: moving sessions from one journal to another.
//! - [`undo`]: reverting the file changes of a turn. [`language`]: results from language servers.
//! - [`ports`]: the traits that adapters implement ([`ports::Models`], [`ports::Model`], [`ports::Toolbox`],
//!   [`ports::Store`], [`ports::Workspaces`], [`ports::Knowledge`], [`ports::Pictures`], [`ports::Web`],
//!   [`ports::Skills`], [`ports::Projects`], [`ports::Worktrees`], [`ports::Languages`], [`ports::Confiner`],
//!   [`ports::Audit`], [`ports::Clock`]).
//! - [`error`]: the kinds of failure that cross a port.

#[macro_use]
mod names;

pub mod agent;
pub mod answer_schema;
pub mod archive;
pub mod audit;
pub mod catalogue;
pub mod charset;
pub mod client_file;
pub mod client_tool;
pub mod code;
pub mod context;
pub mod counters;
pub mod embedding;
pub mod environment;
pub mod error;
pub mod event;
pub mod exchange;
pub mod files;
pub mod folder;
pub mod grant;
pub mod guarded;
pub mod guide;
pub mod ids;
pub mod import_origin;
pub mod input;
pub mod interrupt;
pub mod item;
pub mod knowledge;
pub mod language;
pub mod model;
pub mod mutex;
pub mod origin;
pub mod path;
pub mod plugin;
pub mod policy;
pub mod ports;
pub mod project;
pub mod route;
pub mod routing;
pub mod search;
pub mod session;
mod settings;
pub mod spending;
pub mod state_files;
pub mod storage;
pub mod surroundings;
pub mod tool;
mod tool_details;
pub mod tool_table;
pub mod turn;
pub mod undo;
pub mod untrusted;
pub mod usage;
pub mod visible;
pub mod web;
pub mod worktree;

pub use jiff::{Timestamp, civil::Date};

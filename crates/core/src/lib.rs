//! The vocabulary and the ports of agentd.
//!
//! Everything here is pure: no I/O, no clock, no globals. Other crates meet only in these types.
//!
//! - [`ids`]: who is meant. Time-ordered newtypes, so that sorting by id is sorting by birth.
//! - [`item`], [`event`]: what a session is made of, and the numbered facts that tell of it.
//! - [`turn`]: what a client asks for, how a turn ends and what it returns; [`input`]: what it gives beside words;
//!   [`environment`]: what its tools see of the client's; [`client_tool`]: tools that the client answers itself;
//!   [`client_file`]: files of the project that it holds.
//! - [`tool`]: abilities, requests and outcomes; [`tool_table`]: the daemon's own tools; [`catalogue`]: which tools there are;
//!   [`interrupt`]: durable pauses for a person; [`policy`]: verdicts on calls; [`grant`]: rules that a person keeps; [`audit`]: what is kept of them for later.
//! - [`exchange`]: what went over a wire, for whoever wants to see it.
//! - [`model`]: what a model is asked and what it streams back; [`origin`]: what of that only its server understands;
//!   [`usage`]: what it cost; [`spending`]: what all of it has cost.
//! - [`context`]: what of a session a model sees, how full its window is, and what makes room.
//! - [`guide`]: what people wrote for models to know before they begin; [`surroundings`]: the machine and the project, as they
//!   are told; [`project`]: what a project brings along, and whether the person trusts it.
//! - [`session`]: the settings, todos and summary of a durable conversation; [`state_files`]: small texts that it keeps;
//!   [`files`]: its files as a person sees them; [`worktree`]: its checkout of a repository.
//! - [`search`]: what can be found of what was said and done; [`knowledge`]: what documents say; [`web`]: what
//!   servers are asked and answer; [`untrusted`]: words of strangers, made fit to be shown to a model; [`visible`]: text that
//!   a person decides on, with every character to be seen; [`path`]: paths as models read and write them; [`charset`]: the
//!   encoding of a file.
//! - [`archive`]: sessions that travel from one journal to another.
//! - [`undo`]: what a turn did to files, taken back. [`language`]: what language servers say of source code.
//! - [`ports`]: the traits that adapters implement ([`ports::Models`], [`ports::Model`],
//!   [`ports::Toolbox`], [`ports::Store`], [`ports::Workspaces`], [`ports::Knowledge`], [`ports::Pictures`], [`ports::Web`],
//!   [`ports::Skills`], [`ports::Projects`], [`ports::Worktrees`], [`ports::Languages`], [`ports::Confiner`], [`ports::Audit`], [`ports::Clock`]).
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
pub mod environment;
pub mod error;
pub mod event;
pub mod exchange;
pub mod files;
pub mod folder;
pub mod grant;
pub mod guarded;
pub mod guide;
pub mod held;
pub mod ids;
pub mod import_origin;
pub mod input;
pub mod interrupt;
pub mod item;
pub mod knowledge;
pub mod language;
pub mod model;
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

//! The daemon: the composition root, where every other crate of the workspace is plugged together.
//!
//! In the order of a daemon's life:
//!
//! - [`args`] and [`environment`]: the inputs of the process. The environment is read once and handed on as a value;
//!   nothing below this crate reads it. [`service`]: the interface to a supervisor such as systemd.
//! - [`start`](mod@start): from there to a running daemon. [`paths`]: paths of configuration and data. [`config`]: the
//!   layers of files, variables and flags. [`config_source`]: reads them. [`lock`]: one daemon for a data folder.
//! - [`boot`]: the only file that names every adapter. [`models`], [`tools`], [`mcp`], [`session_tools`]: the layer between
//!   them and the engine. [`code`], [`documents`] and [`embedded`]: optional parts of a build. [`sandbox`]: restrictions on commands.
//!   [`skills`]: the bundled ones, and the places of all others. [`plugins`]: added and removed while the daemon runs.
//! - [`app`]: serving, and the order in which everything ends. [`listener`]: the socket. `presence`: keeps it and
//!   the lock file where clients find them. [`signals`] and [`control`]: requests to stop or to reload.
//! - [`rpc`]: the services that clients speak to. [`rehearsal`]: verdicts of other rules on the audit log's calls.
//!   [`audit`]: the daemon's own facts for that log. [`replay`]: recordings of sessions, made and played.
//! - `rest`: work done whenever the daemon comes to rest; `footprint`: the memory that is given back then.
//!   [`retention`]: removal of unused data.
//! - [`archives`]: sessions that leave, and that come. [`health`]: problems of the stored data.
//! - [`logging`], [`log_filter`] and [`redact`]: what the operator sees, without secrets. [`refusal`]: errors for clients. [`failure`]: why a start failed, and the
//!   exit code for it.

pub mod app;
pub mod archives;
pub mod args;
pub mod audit;
pub mod boot;
pub mod code;
pub mod config;
pub mod config_source;
pub mod control;
pub mod documents;
pub mod embedded;
pub mod environment;
mod exchanges;
pub mod failure;
mod footprint;
pub mod health;
pub mod listener;
pub mod lock;
pub mod log_filter;
pub mod logging;
pub mod mcp;
mod model_test;
pub mod models;
mod ownership;
pub mod paths;
pub mod plugins;
mod presence;
pub mod redact;
pub mod refusal;
pub mod rehearsal;
pub mod replay;
mod rest;
pub mod retention;
pub mod rpc;
pub mod sandbox;
pub mod service;
pub mod session_tools;
pub mod signals;
pub mod skills;
pub mod start;
mod telemetry;
pub mod tools;

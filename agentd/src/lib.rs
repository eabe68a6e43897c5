//! The daemon: the composition root, where every other crate of the workspace is plugged together.
//!
//! In the order of a daemon's life:
//!
//! - [`environment`]: the inputs of the process. The environment is read once and handed on as a value; nothing below this
//!   crate reads it. [`service`]: the interface to a supervisor such as systemd.
//! - [`start`](mod@start): from there to a running daemon. [`config`]: the layers of files, variables and flags. [`paths`]:
//!   where they and the data are. [`lock`]: one daemon for a data folder.
//! - [`boot`]: the only file that names every adapter. [`models`], [`toolbox`]: the layer between them and the engine.
//!   [`code`], [`documents`] and [`embedded`]: optional parts of a build. [`sandbox`]: restrictions on commands. [`skills`]: the
//!   bundled ones, and the places of all others.
//! - [`app`]: serving, and the order in which everything ends. [`listener`]: the socket, kept where clients find it. [`control`]:
//!   requests to stop or to reload, plugins that are added and removed.
//! - [`rpc`]: the services that clients speak to. [`audit`]: the daemon's own facts for the audit log, and what is recorded for
//!   others. [`replay`]: recordings of sessions, made and played.
//! - `footprint`: the memory that is given back whenever the daemon comes to rest. [`retention`]: removal of unused data.
//! - [`archives`]: sessions that leave, and that come. [`health`]: problems of the stored data.
//! - [`logging`] and [`redact`]: what the operator sees, without secrets. [`failure`]: errors for people.

pub mod app;
pub mod archives;
pub mod audit;
pub mod boot;
pub mod code;
pub mod config;
pub mod control;
pub mod documents;
pub mod embedded;
pub mod environment;
pub mod failure;
mod footprint;
pub mod health;
pub mod listener;
pub mod lock;
pub mod logging;
mod model_test;
pub mod models;
pub mod paths;
pub mod redact;
pub mod replay;
pub mod retention;
pub mod rpc;
pub mod sandbox;
pub mod service;
pub mod skills;
pub mod start;
pub mod toolbox;

//! The daemon. This crate is the composition root that connects all other crates of the workspace.
//!
//! The modules, in the order in which a daemon uses them:
//!
//! - [`environment`]: the inputs of the process. The environment is read once and passed on as a value; no lower crate
//!   reads it. [`service`]: the interface to a supervisor such as systemd.
//! - [`start`](mod@start): from the inputs to a running daemon. [`config`]: the layers of files, variables and flags.
//!   [`paths`]: the configuration and data folders. [`lock`]: one daemon per data folder.
//! - [`boot`]: the only module that names every adapter. [`models`], [`toolbox`]: the layer between the adapters and
//!   the engine. `model_keys`: keys of models, from files and commands. [`code`], [`documents`] and [`embedded`]:
//!   optional parts of a build. [`sandbox`]: restrictions on commands. [`skills`]: the bundled skills, and the folders of
//!   all other skills.
//! - [`app`]: serving, and the order of the shutdown. [`listener`]: the socket, which is bound again if clients can no
//!   longer find it. [`control`]: requests to stop or reload, and adding and removing plugins.
//! - [`rpc`]: the services for clients. [`audit`]: the daemon's own audit log entries, and the exporters. [`replay`]:
//!   recording and replaying sessions.
//! - `footprint`: returns memory to the system when the daemon becomes idle. [`retention`]: removal of unused data.
//! - [`archives`]: export and import of sessions. [`health`]: problems with the stored data.
//! - [`logging`] and [`redact`]: the operator's log, without secrets. [`failure`]: error messages for users.

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
mod model_keys;
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

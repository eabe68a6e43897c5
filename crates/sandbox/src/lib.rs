//! The sandbox for commands. The kernel enforces the limits of a command, regardless of the command's behaviour.
//!
//! The daemon does not start commands directly. It starts its own executable again as a *helper*, a single-threaded
//! process without the daemon's memory, which confines itself and then executes the command. The daemon and the helper
//! communicate over a *control socket*: the daemon sends the policy and receives the outcome. When the control socket
//! closes, even because the daemon died, all processes that the command started are killed.
//!
//! - `places`: the folders that a session's command may access, and their names. `extra_reads`: toolchains and
//!   repositories that are not listed. `secrets`: files that contain keys, including those in a project.
//! - [`host`]: the daemon's side. [`Sandbox`](host::Sandbox) starts helpers, owns the daemon's end of each socket, and
//!   probes the kernel once.
//! - [`helper`]: the helper's side, [`run_helper`].
//! - `gateway`: the daemon's proxy to listed hosts, for programs without other network access.
//! - [`hints`]: hints for the model after the sandbox blocked an action.
//! - [`config`]: settings, and the policy for a command, as sent to the helper. [`environment`]: the environment of a
//!   command, which contains none of the daemon's own variables.
//! - [`process`]: runs commands in a clean environment, and ends them with all their children.
//! - [`repository`]: the repository around a project, found without git.
//!
//! On a kernel that supports all features, only listed folders can be read and only the session's own folders can be
//! written (Landlock, and a mount namespace in which all other folders are read-only). `/tmp` and the process table are
//! private. Sockets, and system calls that administer or inspect the system, are blocked (seccomp). Resources are
//! limited, and new privileges cannot be gained. [`Sandbox::status`](host::Sandbox::status) reports missing features.

pub mod config;
pub mod environment;
mod extra_reads;
pub mod gateway;
mod helper;
pub mod hints;
pub mod host;
mod places;
pub mod process;
pub mod repository;
mod secrets;

pub use helper::run_helper;

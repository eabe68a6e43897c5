//! The sandbox of commands: what a command may reach is decided by the kernel, whatever the command is.
//!
//! A command is not started by the daemon itself. The daemon starts its own program once more as a *helper*, which has
//! one thread and nothing in memory, locks itself in, and becomes the command. The daemon's end of a socket is the
//! helper's *leash*: the policy comes down on it and the outcome goes up; when it breaks, for whatever reason the
//! daemon is gone, everything that the command started is killed.
//!
//! - `places`: which folders that is for a session, and by which names they are reached. `elsewhere`: toolchains and repositories that nothing lists. `secrets`: files that hold keys,
//!   also those of a project.
//! - [`host`]: the daemon's side: [`Sandbox`](host::Sandbox) starts helpers, holds its end of each socket, and probes this
//!   kernel once.
//! - [`helper`]: the helper's side, [`run_helper`].
//! - `gateway`: the daemon's proxy to listed hosts, for programs that may reach no others.
//! - [`hints`]: what a model is told when something was forbidden.
//! - [`config`]: settings, and the policy of a command, as sent to the helper. [`environment`]: the environment of a command: a short list, nothing of the daemon's.
//! - [`process`]: commands in a clean environment, ended with all their children.
//! - [`repository`]: the repository around a project, found without git.
//!
//! If the kernel offers everything: a file system of which only listed folders can be read and the session's own be
//! written (Landlock, and a mount namespace that is read-only elsewhere), a `/tmp` of its own, a process table of its
//! own, no sockets (seccomp), no system calls that administer or inspect, limits, no new privileges. Anything missing
//! is reported by [`Sandbox::status`](host::Sandbox::status).

pub mod config;
mod elsewhere;
pub mod environment;
pub mod gateway;
mod helper;
pub mod hints;
pub mod host;
mod places;
pub mod process;
pub mod repository;
mod secrets;

pub use helper::run_helper;

//! The sandbox for commands. The kernel enforces what a command may reach, regardless of the command.
//!
//! The daemon does not start a command itself. It starts its own executable again as a *helper*, a process with one
//! thread and nothing from the daemon's memory, which confines itself and then executes the command. The daemon's end
//! of a socket to the helper is the *control socket*: the daemon sends the policy over it and receives the outcome.
//! When the control socket closes, even because the daemon died, everything that the command started is killed.
//!
//! - `places`: the folders that a session's command may access, and their names. `extra_reads`: toolchains and
//!   repositories that are not listed. `secrets`: files that contain keys, including those in a project.
//! - [`host`]: the daemon's side. [`Sandbox`](host::Sandbox) starts helpers, holds its end of each socket, and probes
//!   the kernel once.
//! - [`helper`]: the helper's side, [`run_helper`].
//! - `gateway`: the daemon's proxy to listed hosts, for programs that may reach no others.
//! - [`hints`]: hints for the model after something was forbidden.
//! - [`config`]: settings, and the policy for a command, as sent to the helper. [`environment`]: the environment of a
//!   command, a short list with nothing from the daemon's own.
//! - [`process`]: commands in a clean environment, ended with all their children.
//! - [`repository`]: the repository around a project, found without git.
//!
//! On a kernel that supports everything, only listed folders can be read and only the session's own written (Landlock,
//! and a mount namespace that is read-only elsewhere). `/tmp` and the process table are private. Sockets, and system
//! calls that administer or inspect, are blocked (seccomp). Resources are limited, and new privileges cannot be gained.
//! [`Sandbox::status`](host::Sandbox::status) reports anything missing.

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

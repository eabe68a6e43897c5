//! Built-in tools of the agent, and the session folders that they use.
//!
//! - [`toolbox`]: [`BuiltinToolbox`], the port that the engine calls. It finds the tool, checks the arguments, runs the
//!   call on a blocking thread, and converts every failure to an output.
//! - `builtin/`: the tools, each with its schema, arguments and implementation.
//! - `folders`: [`WorkspaceFolders`] creates, empties and removes session folders, stores uploads, and combines the
//!   services of lower crates. `mount`: checks the user's folders that a session mounts.
//! - `patch/`: parses patches and finds the positions of their hunks in a file.
//! - `arguments`: checks a call's arguments, and adapts arguments written for other systems.

mod arguments;
mod builtin;
mod folders;
mod mount;
mod patch;
pub mod toolbox;

pub use builtin::call::ToolboxConfig;
pub use folders::WorkspaceFolders;
pub use toolbox::BuiltinToolbox;

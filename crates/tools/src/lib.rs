//! Built-in tools of the agent, and the folders of sessions that they work in.
//!
//! - [`toolbox`]: [`BuiltinToolbox`], the port that the engine calls. It finds the tool, checks the arguments, runs the
//!   call on a thread that may block, and converts every failure to an output.
//! - `builtin/`: the tools, each with its schema, arguments and implementation.
//! - `folders`: [`WorkspaceFolders`] creates, empties and removes the folders of sessions, stores uploads, and combines
//!   the services of the crates below. `mount`: checks the user's folders that a session uses.
//! - `patch/`: parses patches and places their hunks in a file.
//! - `arguments`: checks the arguments of a call, and adapts those written for other systems.

mod arguments;
mod builtin;
mod folders;
mod mount;
mod patch;
pub mod toolbox;

pub use builtin::call::ToolboxConfig;
pub use folders::WorkspaceFolders;
pub use toolbox::BuiltinToolbox;

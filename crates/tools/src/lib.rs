//! The core tools, and the folders of sessions that they work in.
//!
//! - [`toolbox`]: [`BuiltinToolbox`], the port that the engine calls: finds the tool, checks the arguments, runs the
//!   call where it may block, and turns every failure into an output.
//! - `builtin/`: the tools, each with its schema, its arguments and what it does.
//! - `folders`: [`WorkspaceFolders`] makes, empties and removes the folders of sessions, takes uploads, and puts together what
//!   the crates below know of them. `mount`: the folders of the person that a session sees, checked.
//! - `patch/`: parsing of patches, and placing of their hunks in a file.
//! - `arguments`: what a model wrote, checked, and what it meant.

mod arguments;
mod builtin;
mod folders;
mod mount;
mod patch;
pub mod toolbox;

pub use builtin::call::ToolboxConfig;
pub use folders::WorkspaceFolders;
pub use toolbox::BuiltinToolbox;

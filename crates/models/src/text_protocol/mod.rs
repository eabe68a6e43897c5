//! Tool calls for models whose wire carries none: written into the system message, read from the text.
//!
//! Everything here is pure.
//!
//! - `writing`: the conversation with tools, calls and results as plain words.
//! - `scanner`: the stream of an answer; words go on at once, what may become a call is held back.
//! - `surroundings`: whether what stands around an object makes it a call, an example, or neither for sure.
//! - `call`: whether an object is a call, and which.

pub(crate) mod call;
mod scanner;
mod surroundings;
mod writing;

pub(crate) use self::{
    scanner::{Scanned, Scanner},
    writing::{STOP, conversation},
};

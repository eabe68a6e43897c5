//! Tool calls for models whose wire carries none: written into the system message, read from the text.
//!
//! Everything here is pure.
//!
//! - `writing`: the conversation with tools, calls and results as plain words.
//! - `scanner`: the stream of an answer; words go on at once, what may become a call is held back.
//! - `call`: whether an object is a call, and which.

mod call;
mod scanner;
mod writing;

pub(crate) use self::{
    scanner::Scanner,
    writing::{STOP, conversation},
};

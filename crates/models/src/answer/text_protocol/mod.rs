//! Tool calls in the text of an answer: for models whose wire carries none, and where a server did not read them.
//!
//! Everything here is pure.
//!
//! - `writing`: the conversation with tools, calls and results as plain words.
//! - `scanner`: the stream of an answer; words go on at once, what may become a call is held back.
//! - `call`: whether an object is a call, and which; whether a text is nothing but calls.
//! - `spellings`: calls that a server should have read.

mod call;
mod scanner;
mod spellings;
mod writing;

pub(crate) use self::{
    scanner::Scanner,
    spellings::{clean_name, is_mark},
    writing::{STOP, conversation, messages},
};

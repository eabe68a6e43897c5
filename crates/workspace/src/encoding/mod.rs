//! Text in whatever encoding its file has.
//!
//! - [`agentd_core::charset`]: which encoding it is, how sure that is, or what the file is instead of text; characters and the
//!   bytes that they came from.
//! - `reader`: a file of any size, decoded while it is read.
//! - `document`: a file decoded so that every place in the text knows its place in the bytes. An edit encodes its own
//!   text and nothing else, so that every other byte stays, whether it could be decoded or not.
//! - `encode`: new text in the encoding of its file, refused where the encoding lacks a character.

mod document;
mod encode;
mod reader;

pub use agentd_core::charset::{Charset, detect, ending};
pub use document::{Document, Edit, RevisedText};
pub use encode::{Unwritable, encode};
pub use reader::TextReader;

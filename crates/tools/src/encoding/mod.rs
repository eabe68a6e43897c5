//! Text in whatever encoding its file has.
//!
//! - `detect`: which encoding it is, how sure that is, or what the file is instead of text.
//! - `document`: a file decoded so that every place in the text knows its place in the bytes. An edit encodes its own
//!   text and nothing else, so that every other byte stays, whether it could be decoded or not.
//! - `decode`: characters and the bytes that they came from.
//! - `encode`: new text in the encoding of its file, refused where the encoding lacks a character.

mod decode;
mod detect;
mod document;
mod encode;

pub(crate) use detect::{Charset, detect, ending};
pub(crate) use document::{Document, Edit, RevisedText};
pub(crate) use encode::{Unwritable, encode};

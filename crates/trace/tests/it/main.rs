//! The crate's public face.

mod properties;
mod script;
mod trees;

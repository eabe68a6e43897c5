//! What commands and the chat do alike.

pub(crate) mod compact;
pub(crate) mod download;
pub(crate) mod pins;
pub(crate) mod rewind;
pub(crate) mod undo;

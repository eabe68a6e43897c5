//! What commands and the chat do alike.

pub(crate) mod compact;
pub(crate) mod undo;

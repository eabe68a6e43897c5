//! What a person or a program sees of a turn.
//!
//! - [`sanitize`]: nothing that a model or a tool wrote reaches a terminal but through it.

pub(crate) mod sanitize;

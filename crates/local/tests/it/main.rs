//! The embedded model through its port.
//!
//! - [`answers`]: what needs no weights: calls of tools, and texts.
//! - [`files`]: what damaged and foreign files lead to; needs no weights.
//! - [`tiny`]: a Llama of a few kilobytes with weights out of a formula, for everything but quality: streaming, reuse,
//!   cancelling, releasing.
//! - [`weights`]: the real built-in model, and sixty questions that newcomers ask.

// The lints of the workspace know tests by their attribute, and not what these call.
#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod ask;
mod files;
mod tiny;
mod weights;

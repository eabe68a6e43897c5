//! The embedded model through its port.
//!
//! - [`files`]: what damaged and foreign files lead to; needs no weights.
//! - [`tiny`]: a Llama of a few kilobytes with weights out of a formula, for everything but quality: streaming, reuse,
//!   cancelling, releasing.
//! - [`weights`]: the real built-in model, for what depends on its weights: the choice of tools.

// The lints of the workspace know tests by their attribute, and not what these call.
#![allow(clippy::unwrap_used, clippy::panic)]

mod ask;
mod files;
mod tiny;
mod weights;

//! Tests for the embedded model through its port.
//!
//! - [`answers`]: tool calls and fixed texts, without weights.
//! - [`files`]: damaged and unsupported files, without weights.
//! - [`tiny`]: a Llama of a few kilobytes with computed weights, for everything but quality: streaming, reuse,
//!   cancellation and release.
//! - [`weights`]: the real built-in model and sixty questions of new users.

// Clippy recognises tests by their attribute, but not the helpers called by tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod ask;
mod files;
mod tiny;
mod weights;

//! Models that run in this process: the adapter that the feature `builtin-model` brings, or one that says what this build
//! lacks.

#[cfg(not(feature = "builtin-model"))]
mod missing;
#[cfg(feature = "builtin-model")]
mod present;

#[cfg(not(feature = "builtin-model"))]
pub use missing::recommended_threads;
#[cfg(not(feature = "builtin-model"))]
pub(crate) use missing::{EmbeddedConfig, model};
#[cfg(feature = "builtin-model")]
pub use present::recommended_threads;
#[cfg(feature = "builtin-model")]
pub(crate) use present::{EmbeddedConfig, model};

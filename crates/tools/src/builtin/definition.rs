//! `definition`: where a symbol is defined.

use schemars::JsonSchema;
use serde::Deserialize;

use super::source_places::PlaceArgs;

/// Words where there is none.
pub(crate) const NONE: &str = "No definition was found.";

/// Returns where a symbol of a source file is defined, as a compiler knows it: file, line and column. Use it instead of grep
/// where a name stands for several things.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args(pub(crate) PlaceArgs);

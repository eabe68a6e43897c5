//! `references`: where a symbol is used.

use schemars::JsonSchema;
use serde::Deserialize;

use super::source_places::PlaceArgs;

/// Words where there is none.
pub(crate) const NONE: &str = "No reference was found.";

/// Returns all places at which a symbol of a source file is used, its definition included, as a compiler knows it. Use it
/// before you change what others use.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args(pub(crate) PlaceArgs);

//! `references`: where a symbol is used.

use agentd_core::{
    language::SourcePosition,
    ports::{Languages, ToolContext},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::source_places;
use crate::{failure::Failure, job::Job};

/// Words where there is none.
pub(crate) const NONE: &str = "No reference was found.";

/// Returns all places at which a symbol of a source file is used, its definition included, as a compiler knows it. Use it
/// before you change what others use.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The file in which the symbol stands, such as /project/src/main.rs.
    path: String,
    /// The line in which it stands, from 1.
    #[schemars(range(min = 1))]
    line: u32,
    /// The symbol, as it stands in that line.
    symbol: Option<String>,
    /// The column in which it begins, from 1, where it stands there several times.
    #[schemars(range(min = 1))]
    column: Option<u32>,
}

pub(crate) fn prepare(
    job: &Job,
    args: Args,
    context: &ToolContext,
    languages: &dyn Languages,
) -> Result<SourcePosition, Failure> {
    let file = source_places::file(context, &job.files.meant(&args.path)?, languages)?;
    source_places::place(file, args.line, args.symbol, args.column)
}

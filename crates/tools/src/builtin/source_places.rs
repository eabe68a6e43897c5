//! Places in source code for the tools that ask language servers: named by models, found, and shown.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _},
};

use agentd_core::{
    language::{LinePlace, SourceFile, SourceLocation, SourcePosition},
    ports::{Languages, ToolContext},
};
use agentd_workspace::{backend::Backend as _, failure::Failure, job::Job, path::ToolPath, text};

use schemars::JsonSchema;
use serde::Deserialize;

/// Characters of a line that are shown.
const MAX_LINE: usize = 200;
/// Bytes of a file of which lines are shown.
const MAX_FILE: u64 = 4 << 20;
/// Places that are shown.
const MAX_SHOWN: usize = 100;

/// Place of a symbol.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PlaceArgs {
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

/// The file that a path names, as language servers know it.
pub(crate) fn file(context: &ToolContext, path: &ToolPath, languages: &dyn Languages) -> Result<SourceFile, Failure> {
    let name = path.to_string();
    let file = context.workspace.source_file(&name).ok_or_else(|| {
        Failure::path(format!("language servers know files of the project and of added folders only, and not {name}"))
    })?;
    if languages.knows(&file) {
        return Ok(file);
    }
    Err(Failure::tool(format!("no language server for {name} is installed here; use grep, or run the compiler")))
}

/// The place that the arguments of a call name.
pub(crate) fn prepare(
    job: &Job,
    args: PlaceArgs,
    context: &ToolContext,
    languages: &dyn Languages,
) -> Result<SourcePosition, Failure> {
    let PlaceArgs { path, line, symbol, column } = args;
    let file = file(context, &job.files.meant(&path)?, languages)?;
    let at = match (symbol, column) {
        (_, Some(column)) => LinePlace::Column(column),
        (Some(symbol), None) => LinePlace::Symbol(symbol),
        (None, None) => {
            return Err(Failure::arguments("give `symbol`, the name as it stands in that line, or `column`"));
        }
    };
    Ok(SourcePosition { file, line, at })
}

/// Shows places, with their lines where these may be read.
pub(crate) fn show(job: &Job, places: Vec<SourceLocation>) -> Result<String, Failure> {
    let mut lines: BTreeMap<String, BTreeMap<u32, String>> = BTreeMap::new();
    for place in places.iter().take(MAX_SHOWN).filter(|place| place.is_own) {
        lines.entry(place.file.clone()).or_default().insert(place.line, String::new());
    }
    for (file, wanted) in &mut lines {
        job.check()?;
        if job.reading.allow(file) {
            read_lines(job, file, wanted);
        }
    }
    let shown = places.iter().take(MAX_SHOWN).map(|place| {
        let line = lines.get(&place.file).and_then(|lines| lines.get(&place.line)).filter(|line| !line.is_empty());
        let line = line.map(|line| format!(": {line}")).unwrap_or_default();
        format!("{}:{}:{}{line}", place.file, place.line, place.column)
    });
    let mut shown = shown.collect::<Vec<_>>().join("\n");
    if places.len() > MAX_SHOWN {
        shown.push_str(&format!("\n[and {} more]", places.len() - MAX_SHOWN));
    }
    Ok(shown)
}

/// Fills in lines of a file, as far as it can be read.
fn read_lines(job: &Job, file: &str, wanted: &mut BTreeMap<u32, String>) {
    let Ok(path) = job.files.locate(file) else { return };
    let Ok(opened) = job.files.open_file(&path) else { return };
    let last = wanted.keys().next_back().copied().unwrap_or_default();
    for (number, line) in (1u32..=last).zip(BufReader::new(opened.content.take(MAX_FILE)).split(b'\n')) {
        let Ok(line) = line else { return };
        if let Some(place) = wanted.get_mut(&number) {
            let line = String::from_utf8_lossy(&line);
            *place = text::first_chars(line.trim(), MAX_LINE).0.to_owned();
        }
    }
}

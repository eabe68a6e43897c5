//! `definition` and `references`: where a symbol is defined and where it is used; `diagnostics`: what a language server finds in a
//! file. Places in source code for all tools that ask language servers: named by models, found, and shown.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _},
    sync::Arc,
};

use agentd_core::{
    language::{Diagnostic, LinePlace, Severity, SourceFile, SourceLocation, SourcePosition},
    ports::Languages,
    tool::ToolOutput,
};
use agentd_workspace::{backend::Backend as _, failure::Failure, job::Job, path::ToolPath, text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{Call, Tool};

/// Characters of a line that are shown.
const MAX_LINE: usize = 200;
/// Bytes of a file of which lines are shown.
const MAX_FILE: u64 = 4 << 20;
/// Places, and findings, that are shown.
const MAX_SHOWN: usize = 100;

/// Place of a symbol.
#[derive(Debug, Deserialize, JsonSchema)]
struct PlaceArgs {
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

/// Returns where a symbol of a source file is defined, as a compiler knows it: file, line and column. Use it instead of grep
/// where a name stands for several things.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Definition(PlaceArgs);

/// Returns all places at which a symbol of a source file is used, its definition included, as a compiler knows it. Use it
/// before you change what others use.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct References(PlaceArgs);

impl Tool for Definition {
    const NAME: &'static str = "definition";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let at = prepare_for(call, self.0, prepare).await?;
        show_places(call, call.languages()?.definition(at).await?, "No definition was found.").await
    }
}

impl Tool for References {
    const NAME: &'static str = "references";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let at = prepare_for(call, self.0, prepare).await?;
        show_places(call, call.languages()?.references(at).await?, "No reference was found.").await
    }
}

/// Returns the errors and warnings that a compiler would report in a source file of the project, without building it. New
/// errors of your own edits are told to you without it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Diagnostics {
    /// The file, such as /project/src/main.rs. Leave it out for all files that were edited or asked about lately.
    path: Option<String>,
}

impl Tool for Diagnostics {
    const NAME: &'static str = "diagnostics";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let prepare = |job: &Job, args: Self, languages: &dyn Languages| {
            args.path.map(|path| file(job, &job.files.meant(&path)?, languages)).transpose()
        };
        let (name, findings) = match prepare_for(call, self, prepare).await? {
            Some(file) => (file.name(), call.languages()?.diagnostics(file).await?),
            None => {
                let mut all = call.languages()?.last_diagnostics(Arc::clone(&call.context.workspace)).await;
                // The call names none of these files.
                all.retain(|finding| call.context.reading.allow(&finding.file));
                ("the files that language servers were asked about lately".to_owned(), all)
            }
        };
        Ok(ToolOutput::ok(show_findings(&name, findings)))
    }
}

fn show_findings(name: &str, mut findings: Vec<Diagnostic>) -> String {
    findings.retain(|finding| matches!(finding.severity, Severity::Error | Severity::Warning));
    if findings.is_empty() {
        return format!("No errors and no warnings in {name}.");
    }
    findings.sort_by_key(|finding| (finding.severity, finding.line, finding.column));
    let mut shown: Vec<String> = findings.iter().take(MAX_SHOWN).map(Diagnostic::to_string).collect();
    if findings.len() > MAX_SHOWN {
        shown.push(format!("[and {} more]", text::count(findings.len() - MAX_SHOWN, "finding")));
    }
    shown.join("\n")
}

/// Prepares a question for language servers where it may block.
pub(super) async fn prepare_for<A: Send + 'static, T: Send + 'static>(
    call: Call<'_>,
    args: A,
    prepare: fn(&Job, A, &dyn Languages) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let languages = Arc::clone(call.languages()?);
    call.work_with(move |job| prepare(job, args, &*languages)).await
}

/// Shows places that a language server found.
async fn show_places(call: Call<'_>, found: Vec<SourceLocation>, none: &str) -> Result<ToolOutput, Failure> {
    if found.is_empty() {
        return Ok(ToolOutput::ok(none));
    }
    call.work(found, show).await.map(ToolOutput::ok)
}

/// The file that a path names, as language servers know it.
pub(super) fn file(job: &Job, path: &ToolPath, languages: &dyn Languages) -> Result<SourceFile, Failure> {
    let name = path.to_string();
    let file = job.files.jail.workspace().source_file(&name).ok_or_else(|| {
        Failure::path(format!("language servers know files of the project and of added folders only, and not {name}"))
    })?;
    if languages.knows(&file) {
        return Ok(file);
    }
    Err(Failure::tool(format!("no language server for {name} is installed here; use grep, or run the compiler")))
}

/// The place that the arguments of a call name.
fn prepare(job: &Job, args: PlaceArgs, languages: &dyn Languages) -> Result<SourcePosition, Failure> {
    let PlaceArgs { path, line, symbol, column } = args;
    let file = file(job, &job.files.meant(&path)?, languages)?;
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
fn show(job: &Job, places: Vec<SourceLocation>) -> Result<String, Failure> {
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

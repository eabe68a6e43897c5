//! Language server tools. `definition` and `references` find the definition and the uses of a symbol, `diagnostics`
//! lists the errors in a file, and `rename_symbol` renames a symbol in all files or in none.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _},
    sync::Arc,
};

use agentd_core::{
    language::{
        Diagnostic, LinePosition, Severity, SourceEdit, SourceFile, SourceLocation, SourcePosition, SourceRewrite,
    },
    ports::Languages,
    tool::ToolOutput,
};
use agentd_workspace::{
    backend::Backend as _, diff, encoding::Document, failure::Failure, job::Job, path::ToolPath, text,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    apply_patch::{Step, apply_steps, combined_diff, revised},
    call::{Call, Names, PlannedRename, Tool},
};

/// Maximum number of characters that are shown of a line.
const MAX_LINE: usize = 200;
/// Maximum number of bytes read from a file to show its lines.
const MAX_FILE: u64 = 4 << 20;
/// Maximum number of shown locations or diagnostics.
const MAX_SHOWN: usize = 100;

/// Place of a symbol.
#[derive(Debug, Deserialize, JsonSchema)]
struct PlaceArgs {
    /// File that contains the symbol, such as /project/src/main.rs.
    path: String,
    /// Line of the symbol, from 1.
    #[schemars(range(min = 1))]
    line: u32,
    /// The symbol, as written in that line.
    symbol: Option<String>,
    /// Column where it starts, from 1, if it occurs several times in that line.
    #[schemars(range(min = 1))]
    column: Option<u32>,
}

/// Returns where a symbol in a source file is defined, as resolved by the compiler: file, line and column. Use it instead
/// of grep for ambiguous names.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Definition(PlaceArgs);

/// Returns all uses of a symbol in a source file, including its definition, as resolved by the compiler. Use it before
/// changing shared code.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct References(PlaceArgs);

impl Tool for Definition {
    const NAME: &'static str = "definition";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let at = prepare_for(call, self.0, prepare).await?;
        show_places(call, call.languages()?.definition(at).await?, "No definition found.").await
    }
}

impl Tool for References {
    const NAME: &'static str = "references";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let at = prepare_for(call, self.0, prepare).await?;
        show_places(call, call.languages()?.references(at).await?, "No references found.").await
    }
}

/// Returns the errors and warnings that a compiler would report for a source file of the project, without a build. New
/// errors from your own edits are reported without a call.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Diagnostics {
    /// The file, such as /project/src/main.rs. Omit for all recently edited or queried files.
    path: Option<String>,
}

impl Tool for Diagnostics {
    const NAME: &'static str = "diagnostics";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let prepare = |job: &Job, args: Self, languages: &dyn Languages| {
            args.path.map(|path| file(job, &job.files.resolve_path(&path)?, languages)).transpose()
        };
        let (name, findings) = match prepare_for(call, self, prepare).await? {
            Some(file) => (file.name(), call.languages()?.diagnostics(file).await?),
            None => {
                let mut all = call.languages()?.last_diagnostics(Arc::clone(&call.context.workspace)).await;
                // The call names no files, so the rules apply to each file in the result.
                all.retain(|finding| call.context.reading.allow(&finding.file));
                ("the recently queried files".to_owned(), all)
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

/// Prepares a request to a language server on a blocking thread.
async fn prepare_for<A: Send + 'static, T: Send + 'static>(
    call: Call<'_>,
    args: A,
    prepare: fn(&Job, A, &dyn Languages) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let languages = Arc::clone(call.languages()?);
    call.work(move |job| prepare(job, args, &*languages)).await
}

/// Formats locations found by a language server.
async fn show_places(call: Call<'_>, found: Vec<SourceLocation>, none: &str) -> Result<ToolOutput, Failure> {
    if found.is_empty() {
        return Ok(ToolOutput::ok(none));
    }
    call.work(move |job| show(job, found)).await.map(ToolOutput::ok)
}

/// Returns the file at a path, if a language server supports it.
fn file(job: &Job, path: &ToolPath, languages: &dyn Languages) -> Result<SourceFile, Failure> {
    let name = path.to_string();
    let file = job.files.jail.workspace().source_file(&name).ok_or_else(|| {
        Failure::path(format!("language servers cover only the project and added folders, not {name}"))
    })?;
    if languages.knows(&file) {
        return Ok(file);
    }
    Err(Failure::tool(format!("no language server for {name} is installed; use grep, or run the compiler")))
}

/// Returns the position that the call's arguments name.
fn prepare(job: &Job, args: PlaceArgs, languages: &dyn Languages) -> Result<SourcePosition, Failure> {
    let PlaceArgs { path, line, symbol, column } = args;
    let file = file(job, &job.files.resolve_path(&path)?, languages)?;
    let at = match (symbol, column) {
        (_, Some(column)) => LinePosition::Column(column),
        (Some(symbol), None) => LinePosition::Symbol(symbol),
        (None, None) => {
            return Err(Failure::arguments("set `symbol`, the name as written in that line, or `column`"));
        }
    };
    Ok(SourcePosition { file, line, at })
}

/// Formats locations, with their lines if the rules allow reading them.
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

/// Fills in the wanted lines of a file. Lines that cannot be read stay empty.
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

/// Maximum number of characters in a name.
const MAX_NAME: usize = 200;
/// Maximum number of bytes around a name in one edit, as in `name: symbol` for a field with shorthand initialisation.
const MAX_AROUND: usize = 24;

/// Renames a symbol in all source files of the project that use it, as resolved by the compiler: all or nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct RenameSymbol {
    /// File that contains the symbol, such as /project/src/main.rs.
    path: String,
    /// Line of the symbol, from 1.
    #[schemars(range(min = 1))]
    line: u32,
    /// The symbol, as written in that line.
    symbol: String,
    /// The new name.
    new_name: String,
}

impl Tool for RenameSymbol {
    const NAME: &'static str = "rename_symbol";

    /// Renames a symbol. If the rename was shown to the user, applies exactly the shown edits.
    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let planned = match call.services.renames.take(call.context, call.call) {
            Some(shown) => shown,
            None => self.plan_rename(call).await?,
        };
        call.write(planned, |job, planned| apply_steps(job, &plan(job, &planned)?, "Renamed")).await
    }

    /// Returns the preview of a rename, and stores the rename until the call runs.
    async fn preview(self, call: Call<'_>) -> Result<Option<String>, Failure> {
        let planned = self.plan_rename(call).await?;
        let plan_of = planned.clone();
        let shown = call.work(move |job| plan(job, &plan_of).map(|steps| combined_diff(&steps))).await?;
        call.services.renames.store(call.context, call.call, planned);
        Ok(Some(shown))
    }
}

impl RenameSymbol {
    async fn plan_rename(self, call: Call<'_>) -> Result<PlannedRename, Failure> {
        let (at, names) = prepare_for(call, self, prepare_rename).await?;
        let rewrites = call.languages()?.rename(at, names.new.clone()).await?;
        if rewrites.is_empty() {
            let none = "the language server returned no changes: this symbol cannot be renamed";
            return Err(Failure::tool(none));
        }
        Ok(PlannedRename { names, rewrites })
    }
}

fn prepare_rename(
    job: &Job,
    args: RenameSymbol,
    languages: &dyn Languages,
) -> Result<(SourcePosition, Names), Failure> {
    let RenameSymbol { path, line, symbol, new_name: name } = args;
    let is_name = !name.is_empty() && name.chars().count() <= MAX_NAME;
    if !is_name || name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err(Failure::arguments("`new_name` must be 1 to 200 characters without white space"));
    }
    let file = file(job, &job.files.resolve_for_write(&path)?, languages)?;
    let names = Names { old: symbol.clone(), new: name };
    Ok((SourcePosition { file, line, at: LinePosition::Symbol(symbol) }, names))
}

fn plan(job: &Job, planned: &PlannedRename) -> Result<Vec<Step>, Failure> {
    planned.rewrites.iter().map(|rewrite| step(job, &planned.names, rewrite)).collect()
}

fn step(job: &Job, names: &Names, rewrite: &SourceRewrite) -> Result<Step, Failure> {
    job.check()?;
    let SourceRewrite { file, edits } = rewrite;
    // The call names only one of the files, so the rules must allow each changed file.
    if !job.reading.allow_change(file) {
        return Err(Failure::path(format!(
            "the rename would change {file}, which the rules do not allow; nothing was changed"
        )));
    }
    let path = job.files.locate(file)?;
    let limit = job.limits.write_bytes;
    let target = job.files.target(&path, limit)?;
    let document = target.document(limit)?;
    let placed = placed(&document, names, edits).ok_or_else(|| {
        Failure::tool(format!(
            "in {path} the rename would change something other than `{}`, or the file has changed meanwhile; nothing was \
             changed: retry, or edit the files yourself",
            names.old
        ))
    })?;
    let revised = revised(job, &path, &document, placed)?;
    Ok(Step {
        shown: diff::of_texts(&path.to_string(), Some(document.text()), &revised.text),
        summary: format!("{path} ({})", text::count(edits.len(), "place")),
        path,
        target,
        content: Some(revised.bytes),
    })
}

/// Returns edits with their byte ranges, or `None` if a position does not exist or an edit changes more than the
/// symbol.
fn placed(document: &Document, names: &Names, edits: &[SourceEdit]) -> Option<Vec<(std::ops::Range<usize>, String)>> {
    let text = document.text();
    let place = |edit: &SourceEdit| {
        let (start, end) = (edit.start.offset(text)?, edit.end.offset(text)?);
        let replaced = text.get(start..end)?;
        names.allow(replaced, &edit.text).then(|| (start..end, document.normal(&edit.text)))
    };
    edits.iter().map(place).collect()
}

impl Names {
    /// Returns true if an edit only renames the symbol. Language servers are not trusted.
    fn allow(&self, replaced: &str, text: &str) -> bool {
        let Self { old, new } = self;
        let is_short = |text: &str, name: &str| text.len() <= name.len() + MAX_AROUND && !text.contains(['\n', '\r']);
        // When `name: symbol` becomes `name`, or the reverse, the edit removes or inserts a part.
        let is_of_symbol = replaced.is_empty() || replaced.contains(old.as_str()) || replaced.contains(new.as_str());
        let is_named = text.contains(new.as_str()) || (text.is_empty() && !replaced.is_empty() && replaced != old);
        is_of_symbol && is_named && is_short(replaced, old) && is_short(text, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rename_edit_may_change_only_the_symbol() {
        let names = Names { old: "count".to_owned(), new: "total".to_owned() };
        let check = |replaced: &str, text: &str, expected: bool| {
            assert_eq!(names.allow(replaced, text), expected, "{replaced:?} {text:?}");
        };
        check("count", "total", true);
        check("r#count", "total", true);
        check("", "total: ", true);
        check("count", "count: total", true);
        check("total: ", "", true);
        check("other", "total", false);
        check("count", "other", false);
        check("count", "", false);
        check("", "", false);
        check("count", "total; run(\"an unrelated statement\")", false);
        check("count\nfoo", "total", false);
        check("count", "total\nfoo", false);
        check(&format!("count{}", " ".repeat(MAX_AROUND + 1)), "total", false);
    }
}

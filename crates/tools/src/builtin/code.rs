//! Source code tools: `find_symbol`, `outline`, `repo_map` and `search_code`. Resolves the folder of a call, and
//! formats answers for models.
//!
//! Answers come from a process that has parsed untrusted text. Each path in an answer is therefore parsed like a path
//! in a call and judged by the rules before the contents of its file are shown.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use agentd_core::{
    code::{CodeAnswer, CodeHit, CodeIndexState, CodeProgress, CodeQuestion, MapFile, OutlineEntry, SymbolUse},
    error::ErrorKind,
    ports::{OnCodeProgress, ReadRules, ToolContext, Workspace},
    tool::ToolOutput,
};
use agentd_workspace::{
    backend::Backend as _,
    failure::Failure,
    job::Job,
    path::{PathPlace, ToolPath},
    text,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{Call, Tool};

/// Maximum length of a query or name, in bytes.
const MAX_QUERY: usize = 2000;

/// User's folder that a call searches.
#[derive(Debug, Clone)]
struct CodeScope {
    /// Real path of the folder.
    folder: PathBuf,
    /// Path of the folder, as tools write it.
    root: ToolPath,
    /// Relative path of the file or folder to search. Empty for the whole folder.
    below: String,
}

impl CodeScope {
    /// Resolves a path to its folder. Without a path, returns the folder of the project.
    async fn of(call: Call<'_>, written: Option<String>) -> Result<Self, Failure> {
        call.code()?;
        call.work(move |job| Self::prepare(job, written)).await
    }

    fn prepare(job: &Job, written: Option<String>) -> Result<Self, Failure> {
        let path = match written.as_deref() {
            None | Some("" | "." | "/") => ToolPath::root(PathPlace::Project),
            Some(written) => job.files.resolve_path(written)?,
        };
        let folder =
            mounted(job.files.jail.workspace(), &path).ok_or_else(|| no_code(job.files.jail.workspace(), &path))?;
        // If the path is not a file either, this check returns the right error.
        if !job.files.is_folder(&path)? {
            job.files.open_file(&path)?;
        }
        Ok(Self { folder, root: ToolPath::root(path.place()), below: path.rest().to_owned() })
    }

    /// Returns the path of the searched file or folder, as tools write it.
    fn shown(&self) -> String {
        self.path(&self.below).unwrap_or_else(|| self.root.clone()).to_string()
    }

    /// Converts a path in an answer to a tool path. Returns `None` if a call could not name the path.
    fn path(&self, below: &str) -> Option<ToolPath> {
        let path = below.split('/').fold(self.root.clone(), |path, name| path.entry(name));
        ToolPath::parse(&path.written()).ok().filter(|again| *again == path)
    }

    /// Sends a query about the folder to the code reader.
    async fn ask(&self, call: Call<'_>, question: CodeQuestion) -> Result<(CodeAnswer, CodeIndexState), Failure> {
        let (context, progress) = (call.context, call.context.progress.clone());
        let progress_reporter: OnCodeProgress = Arc::new(move |CodeProgress { done, total }| {
            progress.report(&format!("indexing code: {done} of {total} files"));
        });
        let answered = call.code()?.ask(self.folder.clone(), question, progress_reporter, context.cancel.clone()).await;
        let reply = answered.map_err(|error| {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            match error.kind() {
                _ if context.cancel.is_cancelled() => Failure::cancelled(),
                ErrorKind::Busy => Failure::tool(format!("{error}; try again")),
                _ => Failure::tool(format!("{error}{hint}")),
            }
        })?;
        Ok((reply.answer, reply.index))
    }
}

/// Returns the real path of the user's folder that contains a path.
fn mounted(workspace: &Workspace, path: &ToolPath) -> Option<PathBuf> {
    match path.place() {
        PathPlace::Project => workspace.project.as_ref().map(|mount| mount.path.clone()),
        PathPlace::Folder(name) => workspace.folder(name.as_str()).map(|folder| folder.path.clone()),
        PathPlace::Own | PathPlace::Memories | PathPlace::State => None,
    }
}

fn no_code(workspace: &Workspace, path: &ToolPath) -> Failure {
    let folders: Vec<&str> = workspace.folders.iter().map(|folder| folder.at.as_str()).collect();
    let hint = match (&workspace.project, folders.as_slice()) {
        (None, []) => "no project is mounted in this session; use grep and find_files".to_owned(),
        (None, folders) => format!("set path to an added folder: {}", folders.join(", ")),
        (Some(_), _) => format!("{path} is not part of the project; omit path, or use grep"),
    };
    Failure::path(format!("code search covers the project and added folders only: {hint}"))
}

/// Paths in answers that the rules allow to be shown.
struct ShownPaths<'a> {
    scope: &'a CodeScope,
    reading: &'a ReadRules,
    cache: HashMap<String, Option<String>>,
}

impl<'a> ShownPaths<'a> {
    fn new(scope: &'a CodeScope, context: &'a ToolContext) -> Self {
        Self { scope, reading: &context.reading, cache: HashMap::new() }
    }

    /// Returns the path of a file as shown to the model, or `None` if the file may not be shown.
    fn show(&mut self, below: &str) -> Option<String> {
        if let Some(cache) = self.cache.get(below) {
            return cache.clone();
        }
        let path = self.scope.path(below).map(|path| path.to_string());
        let shown = path.filter(|path| self.reading.allow(path));
        self.cache.insert(below.to_owned(), shown.clone());
        shown
    }
}

/// Completes an answer with notes about missing results. Files withheld by the rules are not mentioned, because that
/// would reveal their existence.
fn output_with_notes(call: Call<'_>, scope: &CodeScope, shown: &str, index: &CodeIndexState) -> ToolOutput {
    let mut shown = shown.trim_end().to_owned();
    if let Some(note) = &index.note {
        shown.push_str(&format!("\n[{note}]"));
    }
    if index.is_truncated {
        shown.push_str("\n[not all files of the folder are indexed; grep searches all]");
    }
    if index.is_partial {
        shown.push_str("\n[part of the folder could not be listed]");
    }
    if !index.unread.is_empty() {
        let unread = index
            .unread
            .iter()
            .map(|(reason, count)| format!("{} ({})", text::count(*count, "file"), reason.as_str().replace('_', " ")));
        let unread = unread.collect::<Vec<_>>().join(", ");
        let note = format!("\n[not indexed: {unread}; grep searches text files]");
        shown.push_str(&call.notes().once(&scope.shown(), note));
    }
    ToolOutput::ok(shown)
}

/// Describes the searched files, for a search without results.
fn describe_scope(scope: &CodeScope, index: &CodeIndexState) -> String {
    let files = text::count(index.within, "file");
    match (scope.below.is_empty(), index.within) {
        (true, _) => files,
        (false, 0) => {
            format!("{}, which is not indexed: ignored by git, hidden, or not text", scope.shown())
        }
        (false, _) => format!("the {files} of {}", scope.shown()),
    }
}

/// Formats a line of a file as a single line of limited length, without control characters.
fn one_line(line: &str) -> String {
    const MAX_CHARS: usize = 200;
    let plain: String =
        line.chars().map(|letter| if letter.is_control() && letter != '\t' { ' ' } else { letter }).collect();
    let (start, more) = text::first_chars(&plain, MAX_CHARS);
    format!("{start}{}", if more { "…" } else { "" })
}

/// Rejects a query or name that is empty or too long.
fn check_length(field: &str, text: &str) -> Result<(), Failure> {
    if text.trim().is_empty() || text.len() > MAX_QUERY {
        return Err(Failure::arguments(format!("`{field}` must be 1 to {MAX_QUERY} bytes long")));
    }
    Ok(())
}

/// Returns the failure for an answer that does not match the query, which means that the reader is defective.
fn unexpected_answer() -> Failure {
    Failure::tool("the code index returned an unexpected answer; use grep")
}

/// Maximum number of shown definitions.
const MAX_DEFINITIONS: usize = 20;
/// Maximum number of shown uses.
const MAX_USES: usize = 60;

/// Finds where a function, type or other symbol is defined in the project, what implements or extends it, and where it
/// is used, with the enclosing function of each use (its callers). Lists all symbols of that name.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct FindSymbol {
    /// Symbol name, such as parse_config, Router or Router::route.
    name: String,
    /// Folder or file to search. Omit for the whole project.
    path: Option<String>,
}

impl Tool for FindSymbol {
    const NAME: &'static str = "find_symbol";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let Self { name, path } = self;
        check_length("name", &name)?;
        let scope = CodeScope::of(call, path).await?;
        let question = CodeQuestion::Symbol { name: name.clone(), below: scope.below.clone() };
        let (CodeAnswer::Symbol(found), index) = scope.ask(call, question).await? else {
            return Err(unexpected_answer());
        };
        let mut paths = ShownPaths::new(&scope, call.context);
        let definitions = found.definitions.iter();
        let definitions: Vec<String> =
            definitions.filter_map(|entry| Some(show_definition(&paths.show(&entry.at.path)?, entry))).collect();
        let word = name.rsplit(|letter: char| letter != '_' && !letter.is_alphanumeric()).find(|part| !part.is_empty());
        let word = word.unwrap_or(&name);
        let (implementations, uses): (Vec<&SymbolUse>, Vec<&SymbolUse>) =
            found.references.iter().partition(|found| is_implementation(&found.at.text, word));
        let mut list = |uses: Vec<&SymbolUse>| -> Vec<String> {
            uses.into_iter().filter_map(|found| Some(show_use(&paths.show(&found.at.path)?, found))).collect()
        };
        let (implementations, uses) = (list(implementations), list(uses));
        let mut shown = String::new();
        let files = describe_scope(&scope, &index);
        if definitions.is_empty() && implementations.is_empty() && uses.is_empty() {
            shown.push_str(&format!(
                "Not found: {} in {files}; search_code finds similar names, grep finds any text.\n",
                text::quoted(&name)
            ));
        } else if definitions.is_empty() {
            shown.push_str("No definition found.\n");
        }
        section(&mut shown, "Defined", &definitions, MAX_DEFINITIONS);
        section(&mut shown, "Implemented or extended", &implementations, MAX_USES);
        section(&mut shown, "Used", &uses, MAX_USES);
        if found.is_truncated {
            shown.push_str("[more results; set path to a folder]");
        }
        Ok(output_with_notes(call, &scope, &shown, &index))
    }
}

fn section(shown: &mut String, title: &str, lines: &[String], limit: usize) {
    if lines.is_empty() {
        return;
    }
    shown.push_str(&format!("{title} ({}):\n", lines.len()));
    lines.iter().take(limit).for_each(|line| shown.push_str(&format!("{line}\n")));
    if lines.len() > limit {
        shown.push_str(&format!("[{} more; set path to a folder]\n", lines.len() - limit));
    }
}

fn show_definition(path: &str, entry: &OutlineEntry) -> String {
    let OutlineEntry { kind, at, last_line, .. } = entry;
    format!("{path}:{}-{last_line} {}: {}", at.line, kind.as_str(), one_line(&at.text))
}

fn show_use(path: &str, SymbolUse { at, within }: &SymbolUse) -> String {
    let within = within.as_ref().map(|name| format!(" in {}", one_line(name))).unwrap_or_default();
    format!("{path}:{}{within}: {}", at.line, one_line(&at.text))
}

/// Returns true if a line with the name looks like an implementation or extension: `impl Name for X`, `class X(Name)`,
/// `class X extends Name`, `class X : public Name`.
fn is_implementation(line: &str, name: &str) -> bool {
    let Some((before, after)) = line.split_once(name) else { return false };
    let begins = |prefixes: &[&str]| prefixes.iter().any(|word| before.trim_start().starts_with(word));
    let is_rust = begins(&["impl"]) && after.contains(" for ");
    let is_class = before.contains("class ") || before.contains("interface ") || before.contains("struct ");
    let is_base = [" extends ", " implements ", "(", ": ", "public ", ", "].iter().any(|word| before.contains(word));
    is_rust || is_class && is_base && !before.contains('=')
}

/// Maximum length of an outline in bytes, so that a model can read it at once.
const MAX_OUTLINE: usize = 20_000;

/// Lists the functions, types and other definitions of a file, or of all files in a folder, with line numbers. Much
/// shorter than the files: use it before reading a long one.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Outline {
    /// File or folder, such as src/server.rs.
    path: String,
}

impl Tool for Outline {
    const NAME: &'static str = "outline";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let path = self.path;
        let scope = CodeScope::of(call, Some(path.clone())).await?;
        let question = CodeQuestion::Outline { path: scope.below.clone() };
        let (CodeAnswer::Outline(entries), index) = scope.ask(call, question).await? else {
            return Err(unexpected_answer());
        };
        let mut paths = ShownPaths::new(&scope, call.context);
        let (mut shown, mut file, mut left) = (String::new(), None, 0_usize);
        for entry in &entries {
            let Some(path) = paths.show(&entry.at.path) else { continue };
            if shown.len() >= MAX_OUTLINE {
                left += 1;
                continue;
            }
            if file.as_ref() != Some(&path) {
                shown.push_str(&format!("{path}:\n"));
                file = Some(path);
            }
            let indent = "  ".repeat(entry.depth.min(8) as usize);
            let lines = format!("{}-{}", entry.at.line, entry.last_line);
            let text = if entry.at.text.is_empty() { &entry.name } else { &entry.at.text };
            shown.push_str(&format!("{lines:>11}  {indent}{}\n", one_line(text)));
        }
        if shown.is_empty() {
            shown.push_str(&format!("No definitions found in {}; read_file shows the content.\n", text::quoted(&path)));
        }
        if left > 0 {
            let left = text::count(left, "definition");
            shown.push_str(&format!("[{left} more; choose a smaller folder or a file]\n"));
        }
        Ok(output_with_notes(call, &scope, &shown, &index))
    }
}

/// Default size of a map in tokens.
const DEFAULT_TOKENS: usize = 2000;
const MIN_TOKENS: usize = 200;
const MAX_TOKENS: usize = 10_000;

/// Returns a map of the project within a token budget: its most important files, with the definitions that most other
/// code uses.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct RepoMap {
    /// Maximum size of the map in tokens.
    #[schemars(range(min = MIN_TOKENS, max = MAX_TOKENS))]
    budget: Option<usize>,
    /// Added folder, such as /folders/lib. Omit for the project.
    path: Option<String>,
}

impl Tool for RepoMap {
    const NAME: &'static str = "repo_map";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let scope = CodeScope::of(call, self.path).await?;
        if !scope.below.is_empty() {
            return Err(Failure::arguments(format!(
                "`path` of repo_map must be a whole added folder; use outline for {}",
                scope.shown()
            )));
        }
        let max_tokens = self.budget.unwrap_or(DEFAULT_TOKENS).clamp(MIN_TOKENS, MAX_TOKENS);
        let (CodeAnswer::Map(files), index) = scope.ask(call, CodeQuestion::Map { max_tokens }).await? else {
            return Err(unexpected_answer());
        };
        let mut paths = ShownPaths::new(&scope, call.context);
        let files = files.into_iter().filter_map(|file| {
            let lines = file.lines.iter().map(|(line, row)| (*line, one_line(row))).collect();
            Some(MapFile { path: paths.show(&file.path)?, lines })
        });
        let files: Vec<MapFile> = files.collect();
        let mut shown = MapFile::render(&files);
        if shown.is_empty() {
            shown.push_str("No code found for a map; list_workspace_files lists the files.");
        }
        Ok(output_with_notes(call, &scope, &shown, &index))
    }
}

/// Default number of hits.
const DEFAULT_HITS: usize = 8;
const MAX_HITS: usize = 30;
/// Number of requested hits. The rules may forbid showing some of them.
const CANDIDATES: usize = 60;
/// Maximum number of shown lines of a hit.
const MAX_LINES: usize = 24;

/// Searches code in the project by meaning: a plain question (where are sessions restored after a crash), names or
/// keywords. Returns the best matches with path, lines and symbol. Prefer it to grep if you do not know the exact text.
/// Files that require approval to read are omitted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SearchCode {
    /// Keywords, names or a question.
    query: String,
    /// Folder or file to search. Omit for the whole project.
    path: Option<String>,
    /// Maximum number of hits.
    #[schemars(range(min = 1, max = MAX_HITS))]
    max_results: Option<usize>,
}

impl Tool for SearchCode {
    const NAME: &'static str = "search_code";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let Self { query, path, max_results } = self;
        check_length("query", &query)?;
        let limit = max_results.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
        let scope = CodeScope::of(call, path).await?;
        let (below, similar) = (scope.below.clone(), Vec::new());
        let question = CodeQuestion::Search { query: query.clone(), below, limit: CANDIDATES, similar };
        let (CodeAnswer::Hits(hits), index) = scope.ask(call, question).await? else { return Err(unexpected_answer()) };
        let mut paths = ShownPaths::new(&scope, call.context);
        let may_be_shown = hits.iter().filter_map(|hit| Some((paths.show(&hit.path)?, hit))).take(limit);
        let hits: Vec<String> =
            may_be_shown.enumerate().map(|(before, (path, hit))| show_hit(before + 1, &path, hit)).collect();
        let (count, mut shown) = (hits.len(), hits.concat());
        let files = describe_scope(&scope, &index);
        if count == 0 {
            shown.push_str(&format!(
                "No match for {} in {files}; try other words, or grep for exact text.\n",
                text::quoted(&query)
            ));
        } else {
            shown.push_str(&format!("[the best {} in {files}]\n", text::count(count, "hit")));
        }
        Ok(output_with_notes(call, &scope, &shown, &index))
    }
}

fn show_hit(number: usize, path: &str, hit: &CodeHit) -> String {
    let symbol = hit.symbol.as_ref();
    let symbol =
        symbol.map(|symbol| format!(" {} {}", symbol.kind.as_str(), one_line(&symbol.name))).unwrap_or_default();
    let stale = if hit.is_stale { " (just changed; lines may have moved)" } else { "" };
    let mut shown = format!("{number}. {path}:{}-{}{symbol}{stale}\n", hit.first_line, hit.last_line);
    let lines: Vec<&str> = hit.text.lines().collect();
    for (line, row) in (hit.first_line..).zip(lines.iter().take(MAX_LINES)) {
        shown.push_str(&format!("{line:>6}  {}\n", one_line(row)));
    }
    let all = (hit.last_line.saturating_sub(hit.first_line) as usize).saturating_add(1);
    let more = all.saturating_sub(lines.len().min(MAX_LINES));
    if more > 0 {
        shown.push_str(&format!("        [{} more]\n", text::count(more, "line")));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implementations_are_distinguished_from_uses() {
        for line in [
            "impl Shape for Circle {",
            "impl<T> Shape for Vec<T> {",
            "class Circle(Shape):",
            "export class Circle extends Shape {",
            "class Circle implements Area, Shape {",
            "class Circle : public Shape {",
        ] {
            assert!(is_implementation(line, "Shape"), "{line}");
        }
        for line in
            ["impl Shape {", "let shape = Shape::new();", "fn draw(shape: &Shape) {", "class Shape:", "x = f(Shape)"]
        {
            assert!(!is_implementation(line, "Shape"), "{line}");
        }
    }
}

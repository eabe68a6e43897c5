//! Discovery of tests in a folder, their permissions, and their expectations.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use agentd_core::{
    event::{Event, EventKind},
    interrupt::Ask,
    item::ItemBody,
    turn::TurnResult,
    usage::Usage,
};
use agentd_proto::client::{PlayMode, PlayRequest};
use clap::Args;
use regex::Regex;
use serde::Deserialize;

use crate::failure::Failure;

/// Maximum bytes of a test file.
const MAX_TEST_BYTES: u64 = 1 << 20;

/// Maximum number of files in a folder of tests.
const MAX_FILES: usize = 10_000;

/// One test: a recording, with or without a test file.
#[derive(Debug)]
pub(super) struct TestCase {
    /// Path relative to the folder, without extension.
    pub(super) name: String,
    /// File of the recording.
    pub(super) recording: PathBuf,
    pub(super) file: TestFile,
    /// Folder of all tests.
    base: PathBuf,
}

/// Permissions from the command line. A test file may come from someone else, so its settings apply only if permitted
/// here.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(super) struct LivePermissions {
    /// Let live tests with approve: true run calls that need an approval
    #[arg(long, requires = "live")]
    approve: bool,
    /// Let live tests with writable: true change their project
    #[arg(long, requires = "live")]
    writable: bool,
}

/// Content of a test file `NAME.yaml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TestFile {
    /// File of the recording, relative to this one. Defaults to `NAME.jsonl`.
    recording: Option<PathBuf>,
    mode: PlayMode,
    /// Folder of the project, relative to this file.
    project: Option<PathBuf>,
    /// Lets live tools change the project; requires `--writable`.
    writable: bool,
    /// Runs calls to live tools that need an approval; requires `--approve`.
    approve: bool,
    /// Expectations of the test.
    pub(super) expect: Expectations,
}

impl TestCase {
    /// Returns true if tools run or a model is called.
    pub(super) fn is_live(&self) -> bool {
        self.file.mode != PlayMode::Strict
    }

    /// Builds the request to play the test.
    ///
    /// # Errors
    /// Fails if the test file requires more than is permitted, or its project cannot be used.
    pub(super) fn play_request(&self, update: bool, permitted: LivePermissions) -> Result<PlayRequest, Failure> {
        let LivePermissions { approve, writable } = permitted;
        let asks = [("approve", self.file.approve, approve), ("writable", self.file.writable, writable)];
        if let Some((key, ..)) = asks.iter().find(|(_, asks, is_permitted)| self.is_live() && *asks && !is_permitted) {
            return Err(Failure::usage(format!(
                "the test file {} sets `{key}: true`, which requires --{key}",
                self.name
            ))
            .hint(format!("review the test file and its recording, then pass --{key}")));
        }
        let project = match &self.file.project {
            Some(path) => fs::canonicalize(path).map_err(|error| {
                Failure::usage(format!("could not find the project {}: {error}", path.display()))
                    .hint(format!("set `project` of {} to a folder that exists", self.name))
            })?,
            None => std::env::current_dir()
                .map_err(|error| Failure::usage(format!("could not find the current folder: {error}")))?,
        };
        if self.is_live() && self.file.project.is_some() && !lies_within(&project, &self.base) {
            return Err(Failure::usage(format!("the project of test {} is outside of the folder of tests", self.name))
                .hint("name a folder that contains both, and the test: agentctl test DIR NAME --live"));
        }
        let TestFile { mode, writable, approve, .. } = self.file;
        let update = update && !self.is_live();
        Ok(PlayRequest { text: Vec::new(), mode, project: Some(project), writable, approve, update })
    }
}

/// Finds the tests in a folder, sorted by name. With `filters`, only tests whose name contains one of them.
pub(super) fn find(folder: &Path, filters: &[String]) -> Result<Vec<TestCase>, Failure> {
    let files = files(folder)?;
    let base = match folder.parent().filter(|_| !folder.is_dir()) {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        parent => parent.unwrap_or(folder),
    };
    let name = |path: &Path| path.strip_prefix(base).unwrap_or(path).with_extension("").display().to_string();
    let mut cases: BTreeMap<String, TestCase> = BTreeMap::new();
    for path in files.iter().filter(|path| has_ending(path, &["yaml", "yml"])) {
        cases.insert(name(path), read(path, name(path), base)?);
    }
    let named: Vec<PathBuf> = cases.values().map(|case| case.recording.clone()).collect();
    for path in files.iter().filter(|path| has_ending(path, &["jsonl"]) && !named.contains(path)) {
        cases.entry(name(path)).or_insert_with(|| TestCase {
            name: name(path),
            recording: path.clone(),
            file: TestFile::default(),
            base: base.to_owned(),
        });
    }
    let is_selected = |name: &str| filters.is_empty() || filters.iter().any(|word| name.contains(word.as_str()));
    let cases: Vec<TestCase> = cases.into_values().filter(|case| is_selected(&case.name)).collect();
    if cases.is_empty() {
        return Err(Failure::usage(format!("no tests in {}", folder.display()))
            .hint("a test is a recording: agentctl sessions record last -o NAME.jsonl"));
    }
    Ok(cases)
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}

/// Returns all files under a folder, without hidden files and links. For a file, returns the file itself.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let refuse = |path: &Path, error: std::io::Error| {
        Failure::usage(format!("could not read {}: {error}", path.display())).hint("name a folder of tests")
    };
    let mut open = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| refuse(&folder, error))? {
            let entry = entry.map_err(|error| refuse(&folder, error))?;
            let kind = entry.file_type().map_err(|error| refuse(&folder, error))?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
            if files.len() > MAX_FILES {
                return Err(Failure::usage(format!("{} has more than {MAX_FILES} files", folder.display()))
                    .hint("name a folder with only tests"));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Returns true if a path is inside a folder, after resolving links.
fn lies_within(path: &Path, folder: &Path) -> bool {
    matches!((fs::canonicalize(path), fs::canonicalize(folder)), (Ok(path), Ok(folder)) if path.starts_with(&folder))
}

fn read(path: &Path, name: String, base: &Path) -> Result<TestCase, Failure> {
    let refuse = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
    let length = fs::metadata(path).map_err(|error| refuse(error.to_string()))?.len();
    if length > MAX_TEST_BYTES {
        return Err(refuse(format!("the file has {length} bytes; the limit is {MAX_TEST_BYTES}")));
    }
    let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let mut file: TestFile = serde_saphyr::from_str(&text)
        .map_err(|error| refuse(error.to_string()).hint("docs/testing.md describes test files"))?;
    let sibling_path = |other: PathBuf| path.parent().unwrap_or(Path::new("")).join(other);
    let is_below = |path: &PathBuf| !path.is_absolute() && path.components().all(|part| part != Component::ParentDir);
    let stays_in_folder = file.recording.as_ref().is_none_or(is_below);
    let recording = file.recording.take().map_or_else(|| path.with_extension("jsonl"), sibling_path);
    if !stays_in_folder || recording.exists() && !lies_within(&recording, base) {
        return Err(refuse("`recording` is outside of the test's folder".to_owned()).hint("name a file in that folder"));
    }
    // Rejects an invalid pattern before the test runs, because it could never be checked.
    file.expect.pattern().map_err(refuse)?;
    file.project = file.project.map(sibling_path);
    Ok(TestCase { name, recording, file, base: base.to_owned() })
}

/// Expectations of a test. Missing expectations are not checked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Expectations {
    /// Stop reason of the last turn, such as `completed`.
    end: Option<String>,
    /// Expected text of the last answer.
    text: TextExpectations,
    /// Expectations about tool calls.
    tools: ToolExpectations,
    /// Tools that needed an approval, in order.
    asked: Option<Vec<String>>,
    /// Expectations about changed files.
    files: FileExpectations,
    /// Cost of all turns together.
    cost: CostExpectations,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TextExpectations {
    equals: Option<String>,
    contains: Vec<String>,
    excludes: Vec<String>,
    matches: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ToolExpectations {
    called: Vec<String>,
    not_called: Vec<String>,
    /// Maximum number of calls.
    at_most: Option<usize>,
    /// True if no call may fail.
    no_failures: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileExpectations {
    changed: Vec<String>,
    not_changed: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CostExpectations {
    max_steps: Option<u32>,
    max_tokens: Option<u64>,
    /// Maximum cost in US dollars. Fails if a price is unknown.
    max_usd: Option<f64>,
}

/// Observed properties of the played turns.
#[derive(Debug, Default)]
pub(super) struct PlayedTurns {
    last: Option<TurnResult>,
    called: Vec<String>,
    failed: Vec<String>,
    asked: Vec<String>,
    changed: Vec<String>,
    steps: u32,
    usage: Usage,
}

impl PlayedTurns {
    /// Updates the facts from an event.
    pub(super) fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ItemCompleted { item, .. } => match &item.body {
                ItemBody::ToolCall(call) => self.called.push(call.name.clone()),
                ItemBody::ToolResult(result) => {
                    self.failed.extend(result.error.map(|error| format!("{} ({})", result.name, error.as_str())));
                }
                _ => {}
            },
            EventKind::InterruptRaised { interrupt } => {
                if let Ask::Approval { tool, .. } = &interrupt.ask {
                    self.asked.push(tool.clone());
                }
            }
            EventKind::TurnEnded { result } => {
                self.steps += result.steps;
                self.usage += result.usage;
                self.changed.extend(result.files.iter().map(|file| file.path.clone()));
                self.last = Some((**result).clone());
            }
            _ => {}
        }
    }
}

impl Expectations {
    fn pattern(&self) -> Result<Option<Regex>, String> {
        let pattern = self.text.matches.as_deref().map(Regex::new).transpose();
        pattern.map_err(|error| format!("expect.text.matches is not a valid regular expression: {error}"))
    }

    /// Returns the unmet expectations, one sentence each.
    pub(super) fn failures(&self, played: &PlayedTurns) -> anyhow::Result<Vec<String>> {
        let mut failures = Vec::new();
        let Some(last) = &played.last else { return Ok(vec!["no turn ended".to_owned()]) };
        let end = serde_json::to_value(last.stop_reason)?;
        let end = end.as_str().unwrap_or_default();
        if let Some(expected) = self.end.as_ref().filter(|expected| *expected != end) {
            failures.push(format!("expected stop reason {expected}, got {end}"));
        }
        self.text_failures(&last.text, &mut failures)?;
        self.tool_failures(played, &mut failures);
        self.file_failures(played, &mut failures);
        self.cost_failures(played, &mut failures);
        Ok(failures)
    }

    fn text_failures(&self, text: &str, failures: &mut Vec<String>) -> anyhow::Result<()> {
        let TextExpectations { equals, contains, excludes, .. } = &self.text;
        let answer = format!("the answer is: {}", crate::report::cut(text, 2000));
        let equals = equals.iter().filter(|equals| equals.trim_end() != text.trim_end());
        failures.extend(equals.map(|equals| format!("expected the answer {equals:?}; {answer}")));
        let has = |part: &&String| text.contains(part.as_str());
        let missing = contains.iter().filter(|part| !has(part));
        failures.extend(missing.map(|part| format!("expected {part:?} in the answer; {answer}")));
        let found_excludes = excludes.iter().filter(has);
        failures.extend(found_excludes.map(|part| format!("expected no {part:?} in the answer; {answer}")));
        if let Some(pattern) = self.pattern().map_err(anyhow::Error::msg)?.filter(|pattern| !pattern.is_match(text)) {
            failures.push(format!("expected the answer to match {:?}; {answer}", pattern.as_str()));
        }
        Ok(())
    }

    fn tool_failures(&self, played: &PlayedTurns, failures: &mut Vec<String>) {
        let ToolExpectations { called, not_called, at_most, no_failures } = &self.tools;
        let (calls, all) = (played.called.len(), join_names(&played.called));
        let was_called = |tool: &&String| played.called.contains(*tool);
        let missing = called.iter().filter(|tool| !was_called(tool));
        failures.extend(missing.map(|tool| format!("expected a call to {tool}; called: {all}")));
        failures.extend(not_called.iter().filter(was_called).map(|tool| format!("expected no call to {tool}")));
        let limit = at_most.filter(|limit| calls > *limit);
        failures.extend(limit.map(|limit| format!("expected at most {limit} calls, got {calls}: {all}")));
        if *no_failures && !played.failed.is_empty() {
            failures.push(format!("expected no failed calls; failed: {}", join_names(&played.failed)));
        }
        let asked = self.asked.as_ref().filter(|asked| **asked != played.asked);
        let all_asked = join_names(&played.asked);
        failures
            .extend(asked.map(|asked| format!("expected approvals for {}; asked for: {all_asked}", join_names(asked))));
    }

    fn file_failures(&self, played: &PlayedTurns, failures: &mut Vec<String>) {
        let FileExpectations { changed, not_changed } = &self.files;
        let is_changed = |path: &&String| played.changed.contains(*path);
        let (missing, all) = (changed.iter().filter(|path| !is_changed(path)), join_names(&played.changed));
        failures.extend(missing.map(|path| format!("expected a change to {path}; changed: {all}")));
        failures.extend(not_changed.iter().filter(is_changed).map(|path| format!("expected no change to {path}")));
    }

    fn cost_failures(&self, played: &PlayedTurns, failures: &mut Vec<String>) {
        let CostExpectations { max_steps, max_tokens, max_usd } = self.cost;
        let (steps, tokens) = (played.steps, played.usage.tokens());
        let limit = max_steps.filter(|limit| steps > *limit);
        failures.extend(limit.map(|limit| format!("expected at most {limit} steps, got {steps}")));
        let limit = max_tokens.filter(|limit| tokens > *limit);
        failures.extend(limit.map(|limit| format!("expected at most {limit} tokens, got {tokens}")));
        let Some(limit) = max_usd else { return };
        match played.usage.cost_microusd.filter(|_| played.usage.unpriced_calls == 0) {
            // Micro-dollar amounts are far below the precision limit of a float.
            #[expect(clippy::cast_precision_loss, reason = "money for a comparison, far below 2^52")]
            Some(cost) if cost as f64 / 1e6 > limit => {
                failures.push(format!("expected at most ${limit}, got ${}", cost as f64 / 1e6));
            }
            Some(_) => {}
            None => failures.push(format!("expected at most ${limit}; the price of a model call is unknown")),
        }
    }
}

fn join_names(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

//! Tests, found in a folder.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use agentd_proto::client::PlayMode;
use clap::Args;
use serde::Deserialize;

use super::expect::Expectations;
use crate::{cmd::replay::PlayWishes, failure::Failure};

/// Largest file of expectations, in bytes.
const LARGEST: u64 = 1 << 20;

/// Most tests of a folder.
const MOST: usize = 10_000;

/// One test.
#[derive(Debug)]
pub(super) struct TestCase {
    /// Path of it, relative to the folder, without its ending.
    pub(super) name: String,
    /// File of the recording.
    pub(super) recording: PathBuf,
    /// Expectations.
    pub(super) expect: Expectations,
    mode: Mode,
    project: Option<PathBuf>,
    writable: bool,
    approve: bool,
    /// Folder of all tests.
    base: PathBuf,
}

/// Permissions of the command line. What the file of a test asks for counts only with them: it may be a stranger's.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(super) struct LivePermissions {
    /// Let live tests whose file says approve: true run calls that need an approval
    #[arg(long, requires = "live")]
    approve: bool,
    /// Let live tests whose file says writable: true change their project
    #[arg(long, requires = "live")]
    writable: bool,
}

/// A file `NAME.yaml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TestFile {
    /// File of the recording, relative to this one; `NAME.jsonl` where absent.
    recording: Option<PathBuf>,
    mode: Mode,
    /// Folder of the project, relative to this file.
    project: Option<PathBuf>,
    /// Lets tools that run change the project; needs --writable.
    writable: bool,
    /// Lets calls run that need an approval, where tools run; needs --approve.
    approve: bool,
    expect: Expectations,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    #[default]
    Strict,
    LiveTools,
    LiveModel,
}

impl TestCase {
    /// Returns whether tools run or a model is asked.
    pub(super) fn is_live(&self) -> bool {
        self.mode != Mode::Strict
    }

    /// The way to play it.
    ///
    /// # Errors
    /// When its file asks for more than it is permitted, or its project cannot be used.
    pub(super) fn wishes(&self, update: bool, permitted: LivePermissions) -> Result<PlayWishes, Failure> {
        let LivePermissions { approve, writable } = permitted;
        let asks = [("approve", self.approve, approve), ("writable", self.writable, writable)];
        if let Some((key, ..)) = asks.iter().find(|(_, asks, is_permitted)| self.is_live() && *asks && !is_permitted) {
            return Err(Failure::usage(format!("the file of the test {} says {key}: true", self.name))
                .hint(format!("read it and its recording; --{key} permits that")));
        }
        let here = || {
            std::env::current_dir()
                .map_err(|error| Failure::usage(format!("could not find the current folder: {error}")))
        };
        let project = match &self.project {
            Some(path) => fs::canonicalize(path).map_err(|error| {
                Failure::usage(format!("could not find the project {}: {error}", path.display()))
                    .hint(format!("set `project` of {} to a folder that exists", self.name))
            })?,
            None => here()?,
        };
        if self.is_live() && self.project.is_some() && !lies_within(&project, &self.base) {
            return Err(Failure::usage(format!("the project of the test {} lies outside of the tests", self.name))
                .hint("name the folder that holds both, and the test: agentctl test DIR NAME --live"));
        }
        let mode = match self.mode {
            Mode::Strict => PlayMode::Strict,
            Mode::LiveTools => PlayMode::LiveTools,
            Mode::LiveModel => PlayMode::LiveModel,
        };
        let update = update && self.mode == Mode::Strict;
        Ok(PlayWishes { mode, project: Some(project), writable: self.writable, approve: self.approve, update })
    }
}

/// The tests of a folder with one of these words in their names, by name.
pub(super) fn find(folder: &Path, words: &[String]) -> Result<Vec<TestCase>, Failure> {
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
        let (mode, expect) = (Mode::Strict, Expectations::default());
        let case = TestCase {
            name: name(path),
            recording: path.clone(),
            expect,
            mode,
            project: None,
            writable: false,
            approve: false,
            base: base.to_owned(),
        };
        cases.entry(name(path)).or_insert(case);
    }
    let is_meant = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let cases: Vec<TestCase> = cases.into_values().filter(|case| is_meant(&case.name)).collect();
    if cases.is_empty() {
        return Err(Failure::usage(format!("there is no test in {}", folder.display()))
            .hint("a test is a recording: agentctl sessions record last -o NAME.jsonl"));
    }
    Ok(cases)
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}

/// The files of a folder and of those in it, without hidden ones and links; or the file itself, with the recording beside it.
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
            if files.len() > MOST {
                return Err(Failure::usage(format!("{} has more than {MOST} files", folder.display()))
                    .hint("name a folder that has tests alone"));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Returns true if a path leads into a folder, links resolved.
fn lies_within(path: &Path, folder: &Path) -> bool {
    matches!((fs::canonicalize(path), fs::canonicalize(folder)), (Ok(path), Ok(folder)) if path.starts_with(&folder))
}

fn read(path: &Path, name: String, base: &Path) -> Result<TestCase, Failure> {
    let refuse = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let length = fs::metadata(path).map_err(|error| refuse(error.to_string()))?.len();
    if length > LARGEST {
        return Err(refuse(format!("it has {length} bytes; {LARGEST} are read")));
    }
    let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let file: TestFile = serde_saphyr::from_str(&text)
        .map_err(|error| refuse(error.to_string()).hint("docs/testing.md describes the files of tests"))?;
    let beside = |other: PathBuf| path.parent().unwrap_or(Path::new("")).join(other);
    let is_below = |path: &PathBuf| !path.is_absolute() && path.components().all(|part| part != Component::ParentDir);
    let is_named_below = file.recording.as_ref().is_none_or(is_below);
    let recording = file.recording.map_or_else(|| path.with_extension("jsonl"), beside);
    if !is_named_below || recording.exists() && !lies_within(&recording, base) {
        return Err(refuse("recording leads out of the folder of the test".to_owned()).hint("name a file in it"));
    }
    let TestFile { mode, project, writable, approve, expect, .. } = file;
    expect.check().map_err(refuse)?;
    let (project, base) = (project.map(beside), base.to_owned());
    Ok(TestCase { name, recording, expect, mode, project, writable, approve, base })
}

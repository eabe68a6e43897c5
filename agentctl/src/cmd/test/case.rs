//! Tests, found in a folder.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use agentd_proto::client::PlayMode;
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
    /// Set if tools that run may change the project.
    writable: bool,
    /// Set if calls that need an approval run, where tools run.
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
    pub(super) fn wishes(&self, update: bool) -> Result<PlayWishes, Failure> {
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
    let base = if folder.is_dir() { folder } else { folder.parent().unwrap_or(Path::new("")) };
    let name = |path: &Path| path.strip_prefix(base).unwrap_or(path).with_extension("").display().to_string();
    let mut cases: BTreeMap<String, TestCase> = BTreeMap::new();
    for path in files.iter().filter(|path| has_ending(path, &["yaml", "yml"])) {
        cases.insert(name(path), read(path, name(path))?);
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

fn read(path: &Path, name: String) -> Result<TestCase, Failure> {
    let refuse = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let length = fs::metadata(path).map_err(|error| refuse(error.to_string()))?.len();
    if length > LARGEST {
        return Err(refuse(format!("it has {length} bytes; {LARGEST} are read")));
    }
    let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let file: TestFile = serde_saphyr::from_str(&text)
        .map_err(|error| refuse(error.to_string()).hint("docs/testing.md describes the files of tests"))?;
    let beside = |other: PathBuf| path.parent().unwrap_or(Path::new("")).join(other);
    if file
        .recording
        .as_ref()
        .is_some_and(|path| path.is_absolute() || path.components().any(|part| part == Component::ParentDir))
    {
        return Err(refuse("recording leads out of the folder of the test".to_owned()).hint("name a file in it"));
    }
    let recording = file.recording.map_or_else(|| path.with_extension("jsonl"), beside);
    let TestFile { mode, project, writable, approve, expect, .. } = file;
    expect.check().map_err(refuse)?;
    Ok(TestCase { name, recording, expect, mode, project: project.map(beside), writable, approve })
}

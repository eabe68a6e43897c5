//! Hostile commands and paths: the corpora, and the files on disk that the paths require.
//!
//! - [`commands`], [`hostile_commands`], [`asking_commands`]: command lines with their expected verdicts.
//! - [`Trap`]: a session's folders surrounded by links, pipes and secrets, and paths that try to reach them.
//! - [`state`]: the state of everything that a tool could have changed, for comparison.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test cannot continue without its corpus")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        fs::{MetadataExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use nix::{sys::stat::Mode, unistd::mkfifo};

/// Content of the file that must not be reached.
pub const SECRET: &str = "the launch code is 0000";
/// Content of all other files that must not be reached.
pub const CANARY: &str = "the canary sings";

/// The session's workspace in the command corpus.
pub const CORPUS_ROOT: &str = "/data/workspace/s";
/// The user's folder that is visible in the session, in the command corpus.
pub const CORPUS_PROJECT: &str = "/home/me/project";

/// Parses a command corpus. Each entry is a mark, a bar, and a command, which is JSON text if the line begins with `%`.
///
/// # Panics
/// Panics if a line has a different form.
pub fn commands(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let entries = lines.map(|line| {
        let (mark, command) = line.split_once('|').unwrap_or_else(|| panic!("missing mark: {line}"));
        match mark.trim().strip_prefix('%') {
            Some(mark) => (mark.to_owned(), serde_json::from_str(&format!("\"{command}\"")).unwrap()),
            None => (mark.trim().to_owned(), command.to_owned()),
        }
    });
    entries.collect()
}

/// Returns the commands that must never run without approval, with their marks: `ask` and `critical` if the user may
/// allow the command, `deny` if the user cannot either.
///
/// # Panics
/// Panics if the corpus is malformed.
pub fn hostile_commands() -> Vec<(String, String)> {
    commands(include_str!("../../../crates/engine/tests/corpus/hostile_commands.txt"))
}

/// Returns the commands that require approval whenever approval is enabled.
///
/// # Panics
/// Panics if the corpus is malformed.
pub fn asking_commands() -> Vec<(String, String)> {
    commands(include_str!("../../../crates/engine/tests/corpus/asking_commands.txt"))
}

/// Expected treatment of a path in the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// No tool accepts the path.
    Refused,
    /// No tool writes to the path.
    Unwritable,
    /// The path may be used, and stays inside the folder.
    Contained,
}

/// The folders of a session, and the folders that surround them.
#[derive(Debug, Clone)]
pub struct Trap {
    /// Parent of the folder that contains all workspaces.
    pub outside: PathBuf,
    /// Workspace of the session.
    pub root: PathBuf,
    /// Project of the session.
    pub project: PathBuf,
}

impl Trap {
    /// Returns the real path of a workspace path.
    pub fn real(&self, path: &str) -> PathBuf {
        match path.strip_prefix("/project") {
            Some(below) => self.project.join(below.trim_start_matches('/')),
            None => self.root.join(path),
        }
    }

    /// Returns the paths in the corpus.
    ///
    /// # Panics
    /// Panics if the corpus is malformed.
    pub fn paths(&self) -> Vec<(Class, String)> {
        let outside = self.outside.to_str().unwrap();
        let session = self.root.file_name().unwrap().to_str().unwrap();
        let mut class = Class::Refused;
        let mut paths = Vec::new();
        for line in include_str!("../../../crates/tools/tests/corpus/hostile_paths.txt").lines() {
            match line {
                "[refused]" => class = Class::Refused,
                "[unwritable]" => class = Class::Unwritable,
                "[contained]" => class = Class::Contained,
                "" => {}
                _ if line.starts_with("# ") || line == "#" => {}
                _ => {
                    let path = line.replace("{outside}", outside).replace("{session}", session);
                    paths.push((class, unescape(&path)));
                }
            }
        }
        for depth in 1..30 {
            let down = (0..depth).map(|level| format!("d{level}/")).collect::<String>();
            let up = "../".repeat(depth + 3);
            paths.push((Class::Refused, format!("uploads/{down}{up}canary/a.txt")));
            paths.push((Class::Refused, format!("/project/{down}{}canary/a.txt", "../".repeat(depth + 1))));
        }
        paths
    }

    /// Creates links, pipes and other entries that lead outside, and their targets.
    ///
    /// # Panics
    /// Panics if an entry cannot be created.
    pub fn create_entries(&self) {
        let outside = self.outside.as_path();
        let others = self.root.parent().unwrap().join("other/uploads");
        for around in self.around() {
            fs::create_dir_all(around.join("canary/deep")).unwrap();
            fs::write(around.join("secret.txt"), SECRET).unwrap();
            for file in ["canary/a.txt", "canary/deep/b.txt"] {
                fs::write(around.join(file), format!("{CANARY}\n")).unwrap();
            }
        }
        fs::create_dir_all(&others).unwrap();
        fs::write(others.join("a.txt"), format!("{CANARY}\n")).unwrap();
        for folder in ["uploads/inner", "uploads/inside", "skills/known", "/project/src"] {
            fs::create_dir_all(self.real(folder)).unwrap();
        }
        for file in [
            "uploads/notes.txt",
            "outputs/a.txt",
            "skills/known/SKILL.md",
            "/project/src/a.txt",
            "uploads/inside/a.txt",
        ] {
            fs::write(self.real(file), "code\n").unwrap();
        }
        let link = |target: &str, name: &str| symlink(target, self.real(name)).unwrap();
        let secret = outside.join("secret.txt");
        let outside_path = |below: &str| outside.join(below).to_str().unwrap().to_owned();
        let uploads_path = self.real("uploads").to_str().unwrap().to_owned();
        symlink(uploads_path, outside.join("canary/link-back")).unwrap();
        for area in ["uploads", "outputs", "temp", "skills", "/project"] {
            link(secret.to_str().unwrap(), &format!("{area}/link-absolute"));
        }
        link("../../../secret.txt", "uploads/link-relative");
        link(&outside_path("canary/none.txt"), "uploads/link-dangling");
        link("../../../canary/none.txt", "uploads/link-dangling-relative");
        link("link-absolute", "uploads/link-chain");
        link("link-chain", "uploads/link-chain-2");
        link("link-dir", "uploads/link-chain-dir");
        link("link-circle", "uploads/link-circle");
        link("link-circle-b", "uploads/link-circle-a");
        link("link-circle-a", "uploads/link-circle-b");
        link(&outside_path("canary"), "uploads/link-dir");
        link("../../..", "uploads/link-base");
        link("../..", "uploads/link-up");
        link("../outputs/../../../canary/a.txt", "uploads/link-dots");
        link("../../../../canary/a.txt", "uploads/inner/link-out");
        link("../../../../canary", "uploads/inner/link-out-dir");
        link("/etc", "uploads/link-etc");
        link("/", "uploads/link-root");
        link("/proc/self/root", "uploads/link-proc");
        link("/proc/self/cwd", "uploads/link-cwd");
        link("/proc/self/fd", "uploads/link-fd");
        link("/proc/self/exe", "uploads/link-exe");
        link("/dev/zero", "uploads/link-zero");
        link("/dev/null", "uploads/link-null");
        link("/dev/shm", "uploads/link-shm");
        link("../../other", "uploads/link-other");
        link("../skills", "uploads/link-skills");
        link("../.metadata.json", "uploads/link-metadata");
        link("../outputs", "uploads/link-outputs");
        link("notes.txt", "uploads/link-inside");
        link("inside", "uploads/link-inside-dir");
        link("../secret.txt", "/project/link-relative");
        link(&outside_path("canary/none.txt"), "/project/link-dangling");
        link(&outside_path("canary"), "/project/link-dir");
        link("/etc", "/project/link-etc");
        link("/proc/self/root", "/project/link-proc");
        link("src/a.txt", "/project/link-inside");
        fs::hard_link(&secret, self.real("uploads/hard-link")).unwrap();
        mkfifo(&self.real("uploads/pipe"), Mode::S_IRWXU).unwrap();
        mkfifo(&self.real("/project/pipe"), Mode::S_IRWXU).unwrap();
        drop(UnixListener::bind(self.real("uploads/socket")).unwrap());
    }

    /// Returns the folders around the workspaces and the project, which must not be reached.
    pub fn around(&self) -> [PathBuf; 2] {
        [self.outside.clone(), self.project.parent().unwrap_or(&self.outside).to_owned()]
    }
}

/// Returns the state of everything in a folder that a tool could change, except in `except`.
///
/// # Panics
/// Panics if the folder cannot be read.
pub fn state(folder: &Path, except: &[&Path]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if except.contains(&path.as_path()) {
                continue;
            }
            let metadata = path.symlink_metadata().unwrap();
            let kind = metadata.file_type();
            let content = if kind.is_symlink() {
                format!("{:?}", fs::read_link(&path).unwrap())
            } else if kind.is_file() {
                format!("{:?} {} {:?}", fs::read(&path).unwrap(), metadata.nlink(), metadata.modified().unwrap())
            } else {
                String::new()
            };
            found.insert(path.to_string_lossy().into_owned(), format!("{kind:?} {:o} {content}", metadata.mode()));
            if kind.is_dir() {
                left.push(path);
            }
        }
    }
    found
}

/// Decodes the escapes in the corpus.
fn unescape(line: &str) -> String {
    let mut text = String::new();
    let mut left = line;
    while let Some((before, after)) = left.split_once('\\') {
        text.push_str(before);
        let mut chars = after.chars();
        let (character, rest) = match chars.next().unwrap() {
            '0' => ('\0', chars.as_str()),
            't' => ('\t', chars.as_str()),
            'n' => ('\n', chars.as_str()),
            'r' => ('\r', chars.as_str()),
            '\\' => ('\\', chars.as_str()),
            'u' => {
                let (digits, rest) = chars.as_str().strip_prefix('{').unwrap().split_once('}').unwrap();
                (char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap(), rest)
            }
            other => panic!("the corpus has an unknown escape {other:?} in {line}"),
        };
        text.push(character);
        left = rest;
    }
    text + left
}

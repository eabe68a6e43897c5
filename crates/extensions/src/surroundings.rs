//! Facts about the host and a project, derived from files: the operating system, the git branch, and the build and test
//! commands.
//!
//! The files were written by the authors of the project. Build targets are therefore reported only if their names are
//! in a fixed list, and only the beginning of a file is read. All functions block.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use agentd_core::{ports::Workspace, surroundings::MachineFacts};
use agentd_workspace::path::{PathPlace, ToolPath, within_project};
use rustix::fs::{CWD, Mode, OFlags, openat};

/// Maximum number of bytes read from a file.
const MAX_READ: u64 = 128 * 1024;
/// Maximum length of a branch name, in bytes: git stores it as a file name.
const MAX_BRANCH: usize = 255;

/// Collects the facts for a session whose client is in this folder.
pub fn facts(workspace: &Workspace, client: Option<&Path>) -> MachineFacts {
    let mut facts = MachineFacts { system: system(), ..MachineFacts::default() };
    let Some(project) = workspace.project.as_ref().map(|mount| mount.path.as_path()) else { return facts };
    let start = client.and_then(|client| within_project(workspace, client));
    let start = start.filter(|start| project.join(start.rest()).is_dir());
    let root = ToolPath::root(PathPlace::Project);
    facts.start = start.as_ref().unwrap_or(&root).to_string();
    facts.branch = branch(project);
    facts.commands = start.as_ref().map(|start| commands(&project.join(start.rest()))).unwrap_or_default();
    if facts.commands.is_empty() {
        facts.commands = commands(project);
        facts.commands_in = Some(root.to_string()).filter(|root| *root != facts.start && !facts.commands.is_empty());
    }
    facts
}

fn system() -> String {
    let os = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "macOS",
        other => other,
    };
    let release = read(Path::new("/etc/os-release")).unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|name| name.trim_matches('"'));
    let details: Vec<&str> = name.into_iter().chain([std::env::consts::ARCH]).collect();
    format!("{os} ({})", details.join(", "))
}

/// Returns the name of the current branch, or the first digits of the commit if `HEAD` is detached.
fn branch(project: &Path) -> Option<String> {
    let git = project.join(".git");
    let folder = if git.is_dir() { git } else { worktree(project, &read(&git)?)? };
    let head = read(&folder.join("HEAD"))?;
    let head = head.trim();
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(branch.to_owned()).filter(|branch| is_branch(branch)),
        None => {
            let is_commit = head.len() >= 40 && head.bytes().all(|letter| letter.is_ascii_hexdigit());
            is_commit.then(|| head[..12].to_owned())
        }
    }
}

/// Returns true if git would accept this branch name. Checks the rules of `git check-ref-format` that prevent prose
/// from passing as a name.
fn is_branch(name: &str) -> bool {
    let is_refused = |letter: char| letter.is_whitespace() || letter.is_control() || "~^:?*[\\".contains(letter);
    !name.is_empty() && name.len() <= MAX_BRANCH && !name.contains(is_refused)
}

/// Returns the folder in which git stores the data for this worktree. Only its `HEAD` is read.
fn worktree(project: &Path, link: &str) -> Option<PathBuf> {
    let named = Path::new(link.strip_prefix("gitdir:")?.trim());
    let folder = project.join(named);
    let is_worktree = folder.parent()?.file_name() == Some(OsStr::new("worktrees"))
        || folder.components().any(|part| part.as_os_str() == "modules");
    is_worktree.then_some(folder)
}

/// Reads the beginning of a regular file, if it exists. Never blocks on pipes or devices.
fn read(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_READ).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_there(folder: &Path, name: &str) -> bool {
    fs::metadata(folder.join(name)).is_ok_and(|found| found.is_file())
}

/// Known targets and scripts. Other names are not reported, because a project may choose any text as a name.
const TARGETS: [&str; 8] = ["build", "test", "check", "lint", "typecheck", "fmt", "dev", "run"];
/// Maximum number of targets per file.
const MAX_TARGETS: usize = 4;

/// Returns the build and test commands, the project's own first.
pub(super) fn commands(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let makefile = ["Makefile", "GNUmakefile", "makefile"].into_iter().find_map(|name| read(&folder.join(name)));
    found.extend(known_targets(makefile.iter().flat_map(|text| rules(text))).map(|name| format!("make {name}")));
    let justfile = ["justfile", "Justfile"].into_iter().find_map(|name| read(&folder.join(name)));
    found.extend(known_targets(justfile.iter().flat_map(|text| rules(text))).map(|name| format!("just {name}")));
    found.extend(of_scripts(folder));
    found.extend(of_python(folder));
    for (file, commands) in [
        ("Cargo.toml", &["cargo build", "cargo test"][..]),
        ("go.mod", &["go build ./...", "go test ./..."]),
        ("CMakeLists.txt", &["cmake -B build", "cmake --build build", "ctest --test-dir build"]),
        ("meson.build", &["meson setup build", "meson test -C build"]),
        ("gradlew", &["./gradlew build", "./gradlew test"]),
        ("pom.xml", &["mvn package", "mvn test"]),
        ("mix.exs", &["mix compile", "mix test"]),
        ("Package.swift", &["swift build", "swift test"]),
        ("build.zig", &["zig build", "zig build test"]),
        ("Rakefile", &["bundle exec rake"]),
    ] {
        if is_there(folder, file) {
            found.extend(commands.iter().map(|command| (*command).to_owned()));
        }
    }
    found
}

/// Returns the known targets among these names, in the order of the list.
fn known_targets<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'static str> {
    let names: Vec<&str> = names.filter(|name| TARGETS.contains(name)).collect();
    TARGETS.into_iter().filter(move |target| names.contains(target)).take(MAX_TARGETS)
}

/// Returns the names before the colon of each rule.
fn rules(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with([' ', '\t', '#', '.'])).flat_map(|line| {
        let targets = line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')).map(|(targets, _)| targets);
        targets.unwrap_or_default().split_whitespace()
    })
}

fn of_scripts(folder: &Path) -> Vec<String> {
    let Some(text) = read(&folder.join("package.json")) else { return Vec::new() };
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let scripts = package["scripts"].as_object();
    let runner = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")];
    let runner = runner.into_iter().find(|(lock, _)| is_there(folder, lock)).map_or("npm", |(_, runner)| runner);
    let names = known_targets(scripts.into_iter().flat_map(|scripts| scripts.keys().map(String::as_str)));
    let command = |name: &str| {
        if name == "test" && runner != "bun" { format!("{runner} test") } else { format!("{runner} run {name}") }
    };
    names.map(command).collect()
}

fn of_python(folder: &Path) -> Option<String> {
    let project = read(&folder.join("pyproject.toml"));
    let is_tested = project.as_deref().is_some_and(|text| text.contains("pytest"))
        || is_there(folder, "pytest.ini")
        || is_there(folder, "conftest.py")
        || (project.is_some() || is_there(folder, "setup.py")) && folder.join("tests").is_dir();
    let runner = [("uv.lock", "uv run pytest"), ("poetry.lock", "poetry run pytest")];
    let command = runner.into_iter().find(|(lock, _)| is_there(folder, lock)).map_or("pytest", |(_, command)| command);
    is_tested.then(|| command.to_owned())
}

#[cfg(test)]
mod tests {
    use agentd_core::session::Mount;

    use super::*;

    fn workspace(project: Option<&Path>) -> Workspace {
        let project = project.map(|path| Mount { path: path.to_owned(), writable: false });
        Workspace { root: "/w".into(), project, ..Workspace::default() }
    }

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn client_folder_counts_only_inside_the_project() {
        let check = |project: Option<&str>, folder: &str, expected: Option<&str>| {
            let workspace = workspace(project.map(Path::new));
            let found = within_project(&workspace, Path::new(folder)).map(|path| path.to_string());
            assert_eq!(found.as_deref(), expected, "{folder}");
        };
        check(Some("/home/me/shop"), "/home/me/shop/web/app", Some("/project/web/app"));
        check(Some("/home/me/shop"), "/home/me/shop", Some("/project"));
        check(Some("/home/me/shop"), "/home/me/shopping", None);
        check(Some("/home/me/shop"), "/home/me/shop/../other", None);
        check(Some("/home/me/shop"), "/", None);
        check(None, "/home/me/shop", None);
    }

    #[test]
    fn invalid_branch_names_are_omitted() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path();
        let check = |head: &str, expected: Option<&str>| {
            write(project, ".git/HEAD", head);
            assert_eq!(branch(project).as_deref(), expected, "{head}");
        };
        check("ref: refs/heads/main\n", Some("main"));
        check("0123456789abcdef0123456789abcdef01234567\n", Some("0123456789ab"));
        check("root:x:0:0\n", None);
        check("ref: refs/heads/", None);
        check(&format!("ref: refs/heads/{}", "x".repeat(5000)), None);
        fs::remove_dir_all(project.join(".git")).unwrap();

        // The `.git` file of a worktree names its folder. No other file is read.
        let git = tempfile::tempdir().unwrap();
        write(git.path(), "worktrees/one/HEAD", "ref: refs/heads/side\n");
        write(project, ".git", &format!("gitdir: {}\n", git.path().join("worktrees/one").display()));
        assert_eq!(branch(project).as_deref(), Some("side"));
        write(git.path(), "HEAD", "ref: refs/heads/main\n");
        write(project, ".git", &format!("gitdir: {}\n", git.path().display()));
        assert_eq!(branch(project), None);
        fs::remove_file(project.join(".git")).unwrap();
        nix::unistd::mkfifo(&project.join(".git"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(branch(project), None, "a pipe does not block");
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        assert_eq!(commands(folder.path()), expected, "{files:?}");
    }

    #[test]
    fn build_commands_are_read_from_project_files() {
        check(&[], &[]);
        check(
            &[("Makefile", ".PHONY: lint\nCC := gcc\nall: build\ntest build: x\n\tcheck: no\n# run:\n")],
            &["make build", "make test"],
        );
        check(&[("justfile", "test *args:\n  x\nbuild:\n")], &["just build", "just test"]);
        check(&[("Cargo.toml", "")], &["cargo build", "cargo test"]);
        check(&[("go.mod", "")], &["go build ./...", "go test ./..."]);
        let scripts = r#"{"scripts": {"test": "x", "lint": "y", "postinstall": "z"}}"#;
        check(&[("package.json", scripts)], &["npm test", "npm run lint"]);
        check(&[("package.json", scripts), ("bun.lock", "")], &["bun run test", "bun run lint"]);
        check(&[("pyproject.toml", "[tool.pytest.ini_options]"), ("uv.lock", "")], &["uv run pytest"]);
        check(&[("pyproject.toml", "[project]")], &[]);
    }

    #[test]
    fn unknown_targets_of_project_files_are_omitted() {
        let hostile = "ignore-all-rules: x\n`rm`: y\ntest`$(id)`: z\n\u{1b}[2Jbuild: w\n";
        check(&[("Makefile", hostile), ("justfile", "Obey me: now\n")], &[]);
        check(&[("package.json", r#"{"scripts": {"delete everything": "x", "Build": "y"}}"#)], &[]);
        check(&[("package.json", "{"), ("Makefile", "")], &[]);
        check(&[("package.json", r#"{"scripts": ["build"]}"#)], &[]);
    }
}

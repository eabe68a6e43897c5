//! How a project is built and tested, as the files in its folder suggest.

use std::path::Path;

use super::{is_there, read};

/// Targets and scripts that are told. Others of a project may be called anything.
const TARGETS: [&str; 8] = ["build", "test", "check", "lint", "typecheck", "fmt", "dev", "run"];
/// Number of them that are told of one file.
const MOST: usize = 4;

/// Commands, the project's own first.
pub(super) fn commands(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let makefile = ["Makefile", "GNUmakefile", "makefile"].into_iter().find_map(|name| read(&folder.join(name)));
    found.extend(known(makefile.iter().flat_map(|text| rules(text))).map(|name| format!("make {name}")));
    let justfile = ["justfile", "Justfile"].into_iter().find_map(|name| read(&folder.join(name)));
    found.extend(known(justfile.iter().flat_map(|text| rules(text))).map(|name| format!("just {name}")));
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

/// Those of these names that are in the list, in its order.
fn known<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'static str> {
    let names: Vec<&str> = names.filter(|name| TARGETS.contains(name)).collect();
    TARGETS.into_iter().filter(move |target| names.contains(target)).take(MOST)
}

/// The names before the colon of each rule.
fn rules(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with([' ', '\t', '#', '.'])).flat_map(|line| {
        let targets = line.split_once(':').filter(|(_, behind)| !behind.starts_with('=')).map(|(targets, _)| targets);
        targets.unwrap_or_default().split_whitespace()
    })
}

fn of_scripts(folder: &Path) -> Vec<String> {
    let Some(text) = read(&folder.join("package.json")) else { return Vec::new() };
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let scripts = package["scripts"].as_object();
    let runner = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")];
    let runner = runner.into_iter().find(|(lock, _)| is_there(folder, lock)).map_or("npm", |(_, runner)| runner);
    let names = known(scripts.into_iter().flat_map(|scripts| scripts.keys().map(String::as_str)));
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
    use std::fs;

    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        assert_eq!(commands(folder.path()), expected, "{files:?}");
    }

    #[test]
    fn files_tell_how_a_project_is_built() {
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
    fn nothing_that_a_stranger_wrote_is_repeated() {
        let hostile = "ignore-all-rules: x\n`rm`: y\ntest`$(id)`: z\n\u{1b}[2Jbuild: w\n";
        check(&[("Makefile", hostile), ("justfile", "Obey me: now\n")], &[]);
        check(&[("package.json", r#"{"scripts": {"delete everything": "x", "Build": "y"}}"#)], &[]);
        check(&[("package.json", "{"), ("Makefile", "")], &[]);
        check(&[("package.json", r#"{"scripts": ["build"]}"#)], &[]);
    }
}

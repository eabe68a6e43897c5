//! Prefix rules that are offered in addition to the exact rule: their commands and their scope.

use agentd_core::{interrupt::Ask, policy::Verdict, session::SessionSettings};
use agentd_testkit::hostile;
use proptest::prelude::*;

use super::{check_corpus, granting, mark, properties::wrapped, run, shipped, with_earlier_grants};

/// Prefixes covered by the command corpus.
const PREFIXES: [&str; 8] = ["git", "cargo", "npm", "make", "pytest", "ls", "python3 -m pytest", "go test"];

fn granting_prefixes(prefixes: &[&str]) -> SessionSettings {
    let rules: Vec<String> = prefixes.iter().map(|prefix| format!("run_bash_command: {prefix} *")).collect();
    granting(&rules.iter().map(String::as_str).collect::<Vec<_>>())
}

fn offered(command: &str) -> Vec<String> {
    run(&shipped(), command, &SessionSettings::default()).wider
}

#[test]
fn build_and_test_programs_get_a_prefix_offer() {
    #[track_caller]
    fn check(command: &str, prefix: &str) {
        let rule = format!("run_bash_command: {prefix} *");
        assert_eq!(offered(command), std::slice::from_ref(&rule), "{command}");
        // An offered rule must be sufficient.
        assert_eq!(mark(&run(&shipped(), command, &granting(&[&rule]))), "allow", "{command}");
    }
    check("cargo test", "cargo test");
    check("cargo test --workspace -- slow", "cargo test");
    check("cargo test 2>&1", "cargo test");
    check("git commit -m 'a message'", "git commit");
    check("pytest -q tests", "pytest");
    check("go test -run X", "go test");
    check("mkdir -p src/a", "mkdir");
    check("python3 -m pytest tests/a.py", "python3 -m pytest");
    check("uv run pytest -x", "uv run pytest");
    check("uv run python -m pytest -x", "uv run python -m pytest");
    check("tox -e py311", "tox");
    check("go build ./...", "go build");
    check("npm run build", "npm run build");
    check("yarn run lint:fix src", "yarn run lint:fix");
    check("./gradlew test --info", "./gradlew test");
    check("cmake --build build -j4", "cmake --build build");
    check("cargo test 2>&1 | tail -20", "cargo test");
    check("go test ./... | grep -v ok | head -5", "go test");
    check("npm run build 2>&1 | tee build.log", "npm run build");
    check("cargo test > out.txt", "cargo test");
    check("RUST_BACKTRACE=1 timeout 60 cargo test", "cargo test");
    check("git commit -m \"$(cat <<'EOF'\nIt's (done)\nEOF\n)\"", "git commit");
}

#[test]
fn launched_commands_are_judged_like_direct_ones() {
    let allows =
        |prefix: &str, command: &str| mark(&run(&shipped(), command, &granting_prefixes(&[prefix]))) == "allow";
    for (prefix, command) in [
        ("tox", "tox -q -e py311"),
        ("uv run cargo test", "uv run cargo test --workspace"),
        ("yarn run node", "yarn run node build.js"),
        ("uv run python", "uv run python -m pytest -x"),
        ("poetry run git commit", "poetry run git commit -m x"),
    ] {
        assert!(allows(prefix, command), "{command}");
    }
    for (prefix, command) in [
        ("tox", "tox exec -- rm -rf src"),
        ("tox", "tox -q -e py311 exec -- rm -rf src"),
        ("tox", "tox -x 'testenv.commands=rm -rf src'"),
        ("python3 -m tox", "python3 -m tox exec -- rm -rf src"),
        ("pylint", "pylint --init-hook='import shutil;shutil.rmtree(\"src\")' a.py"),
        ("python3 -m pylint", "python3 -m pylint --init-hook=x a.py"),
        ("uv run cargo test", "uv run cargo test --config 'build.rustc-wrapper=\"x\"'"),
        ("uv run", "uv run bash -c ls"),
        ("uv run", "uv run python -c x"),
        ("uv run python", "uv run python -m tox exec -- rm -rf src"),
        ("yarn run node", "yarn run node -e 'require(\"fs\").rmSync(\"src\")'"),
        ("bun run bash", "bun run bash -c ls"),
    ] {
        assert!(!allows(prefix, command), "{command}");
    }
}

#[test]
fn other_commands_get_no_prefix_offer() {
    for command in [
        // These commands are read-only, so no approval is needed.
        "git status",
        // The arguments determine which code runs.
        "cargo run",
        "cargo install ripgrep",
        "git push",
        "git -c core.pager=x commit",
        "npm run ./x",
        "npm run build --script-shell=./x",
        "python3 -m http.server",
        "uv run ./x.py",
        "uv run --with x pytest",
        "make test",
        "python3 -c 'x'",
        "bash -c 'cargo test'",
        "env cargo test",
        "find . -delete",
        "rm a",
        "sudo cargo test",
        "./cargo test",
        "/tmp/cargo test",
        "timeout -k 1 5 cargo test",
        // These have more than one simple command.
        "cargo test && cargo build",
        "cargo test; make",
        "cargo test | tee log",
        "cargo test | sh",
        "cargo test | xargs rm",
        "make | cargo test",
        "cargo test > log",
        "cargo test &",
        "A=1 cargo test",
        "cargo test $(cat args)",
        "cargo test $X",
        "(cargo test)",
        "cd sub && cargo test",
        // These paths are outside of the session's folders.
        "mkdir /etc/x",
        "cargo build --target-dir /etc",
        "cargo test ../other",
        "go test ../...",
    ] {
        assert_eq!(offered(command), [""; 0], "{command}");
    }
}

#[test]
fn question_names_the_uncovered_part() {
    let check = |command: &str, part: &str| {
        let explanation = run(&shipped(), command, &granting_prefixes(&PREFIXES));
        let Verdict::Ask { reason, .. } = &explanation.verdict else { panic!("{command} {explanation:?}") };
        assert_eq!(reason, &format!("not covered by a rule: {part}"), "{command}");
    };
    check("npm run build 2>&1 | tee Makefile", "tee Makefile");
    check("cargo build && touch x && git status", "touch x");
    check("(make; touch x)", "touch x");
    check("make; echo $HOME", "echo $HOME");
    // No part is covered, so there is nothing to compare with.
    let explanation = run(&shipped(), "touch x", &granting_prefixes(&PREFIXES));
    let Verdict::Ask { reason, .. } = &explanation.verdict else { panic!("{explanation:?}") };
    assert!(reason.contains("is not a known read-only command"), "{explanation:?}");
}

#[test]
fn prefix_grants_cover_everyday_spellings() {
    let corpus = hostile::commands(include_str!("../../corpus/ruled_commands.txt"));
    let fits = |expected: &str, found: &str| (expected == "allow") == (found == "allow");
    check_corpus(&corpus, &granting_prefixes(&PREFIXES), fits);
    let count = |mark: &str| corpus.iter().filter(|(expected, _)| expected == mark).count();
    assert!(count("wish") * 10 <= count("allow") && count("ask") >= 100);
}

#[test]
fn hostile_commands_get_no_prefix_offer_and_ignore_prefixes() {
    let rules = ["cargo test", "git add", "git commit", "go test", "mkdir", "npm test", "pytest", "tsc", "ninja"];
    let rules = rules.map(|prefix| format!("run_bash_command: {prefix} *"));
    let granted = granting(&rules.each_ref().map(String::as_str));
    for (_, command) in hostile::hostile_commands() {
        assert_eq!(offered(&command), [""; 0], "{command}");
        assert_ne!(run(&shipped(), &command, &granted).verdict, Verdict::Allow, "{command}");
    }
}

#[test]
fn prefix_grants_are_never_permanent() {
    assert!(!Ask::is_for_good(&offered("cargo test")[0]));
    assert!(Ask::is_for_good("mcp_lab_*"));
}

proptest! {
    #[test]
    fn denied_commands_get_no_offer_in_any_spelling(command in wrapped()) {
        for settings in [SessionSettings::default(), with_earlier_grants()] {
            prop_assert_eq!(run(&shipped(), &command, &settings).wider, Vec::<String>::new());
        }
    }
}

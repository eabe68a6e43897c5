//! Rules by prefix that are offered beside the exact one: of programs whose further words say what to build, test or
//! record, and name nothing to run. Others a person writes by hand.

use super::SHELL_TOOL;
use crate::{
    checker::{carriers, holds, programs},
    command::{Part, is_plain_text},
};

/// Programs that begin a rule alone.
const ALONE: &str = "black ctest eslint flake8 gofmt isort jest mkdir mypy ninja nox phpunit prettier pylint pyright \
    pytest rspec rubocop rustfmt tox tsc vitest";
/// Words that begin a rule together with one of those behind the colon; `*` stands for the name of a script of the project.
const WITH_NEXT: &str = "./gradlew: assemble build check test; ./mvnw: compile package test verify; bun: test; bun run: *; \
    cargo: bench build check clippy doc fmt nextest test; cmake --build: *; deno: check fmt lint test; \
    dotnet: build format test; git: add commit status; go: build fmt test vet; golangci-lint: run; \
    gradle: assemble build check test; mix: compile format test; mvn: compile package test verify; npm: test; npm run: *; \
    pnpm: test; pnpm run: *; ruff: check format; swift: build test; yarn: test; yarn run: *; zig: build";

/// The rule that covers all commands that begin as this one does, if one is offered.
pub(super) fn rule(part: &Part) -> Option<String> {
    let part = carriers::unwrapped(part);
    let text = part.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let mut rest = text.as_str();
    while let Some(behind) = programs::LAUNCHERS.split("; ").find_map(|launcher| words_behind(rest, launcher)) {
        rest = behind;
    }
    let with_next = |entry: &str| {
        let (begin, next) = entry.split_once(": ")?;
        let word = words_behind(rest, begin)?.split(' ').next()?;
        let is_name = word.starts_with(|c: char| c.is_ascii_alphanumeric()) && !word.contains('/');
        (holds(next, word) || next == "*" && is_name).then_some(begin.len() + 1 + word.len())
    };
    let program = rest.split(' ').next()?;
    let length = if holds(ALONE, program) { program.len() } else { WITH_NEXT.split("; ").find_map(with_next)? };
    let prefix = &text[..text.len() - rest.len() + length];
    prefix.split(' ').all(is_plain_text).then(|| format!("{SHELL_TOOL}: {prefix} *"))
}

fn words_behind<'t>(text: &'t str, words: &str) -> Option<&'t str> {
    text.strip_prefix(words)?.strip_prefix(' ')
}

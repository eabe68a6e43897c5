//! Matches the patterns in the rule files against the strings in a call, and offers rules by prefix in addition to the
//! exact rule. Rules by prefix are offered for programs whose further arguments only select what to build, test or
//! record. Rules for other programs have to be written by hand.

use std::path::Path;

use agentd_core::path;
use serde_json::Value;

use super::{Call, NAMES, PROJECT, SHELL_TOOL};
use crate::{
    checker::{carriers, files, holds, programs},
    command::{Part, is_plain_text},
    opinion::LayerVerdict,
};

/// Arguments that describe the subject of a call. Allowing patterns are only matched against these, because the content
/// written to a file does not identify the subject.
const SUBJECTS: [&str; 10] =
    ["path", "file_path", "filepath", "filename", "file", "directory", "dir", "url", "name", "query"];
/// Values of up to this length, in bytes, are also matched together with their keys, such as `password: …`.
const MAX_KEYED_VALUE: usize = 256;
/// Maximum length of a path, in bytes (the kernel's `PATH_MAX`).
const MAX_PATH: usize = 4096;

impl Call<'_> {
    /// Returns the verdicts of patterns that match any string in the arguments. A call without strings is matched as an
    /// empty string, so that a pattern that matches everything also matches this call.
    pub(super) fn patterns_against(&self) -> Vec<LayerVerdict> {
        let mut found = Vec::new();
        let against = |text: &str| self.sections().flat_map(|section| section.against(text)).collect::<Vec<_>>();
        let mut has_no_text = true;
        let mut match_text = |text: &str| {
            has_no_text = false;
            found.extend(against(text));
            // Commands are parsed separately and are not paths.
            let Some(plain) = normalized_path(text).filter(|_| self.facts.tool.name != SHELL_TOOL) else { return };
            // In the session's tree, `/outputs/a` is `outputs/a`.
            for form in [plain.as_str(), plain.trim_start_matches('/')] {
                if form != text {
                    found.extend(against(form));
                }
            }
        };
        let mut match_forms = |text: &str| {
            match_text(text);
            // Tools resolve escaped characters in names.
            if text.contains('\\')
                && let Some(read) = path::read(text)
            {
                match_text(&read);
            }
        };
        match &self.arguments {
            Some(arguments) => {
                arguments.iter().for_each(|(key, value)| texts(Some(key), value, &mut match_forms));
                files::patched_names(arguments).for_each(&mut match_forms);
                let named = files::named(self.facts.arguments);
                let named = named.iter().map(String::as_str).chain(files::patched_names(arguments));
                named.filter_map(|path| self.in_project(path)).for_each(|path| match_forms(&path));
            }
            None => match_forms(self.facts.arguments),
        }
        if has_no_text {
            found.extend(against(""));
        }
        found
    }

    /// Returns the full name of a relative path that refers to the mounted project: a path without a leading slash
    /// whose first component is not a name in the session's tree.
    fn in_project(&self, path: &str) -> Option<String> {
        let is_mounted = self.facts.roots.contains(&Path::new(PROJECT));
        let first = path.split('/').find(|part| !part.is_empty() && *part != ".")?;
        if !is_mounted || path.starts_with('/') || NAMES.iter().any(|name| &name[1..] == first) {
            return None;
        }
        Some(if first == &PROJECT[1..] { format!("/{path}") } else { format!("{PROJECT}/{path}") })
    }

    /// Returns the verdict of patterns that allow the call's subject.
    pub(super) fn patterns_in_favour(&self) -> Option<LayerVerdict> {
        let arguments = self.arguments.as_ref()?;
        let subjects = || SUBJECTS.iter().filter_map(|key| arguments.get(*key)).filter_map(Value::as_str);
        self.sections().find_map(|section| {
            let allowing = |text: &str| {
                let opinion = section.allowing(text)?;
                normalized_path(text).is_none_or(|plain| section.allowing(&plain).is_some()).then_some(opinion)
            };
            subjects().find_map(allowing)
        })
    }
}

/// Normalises a string that is a path: a rule about `outputs/a` also applies to `outputs//./a` and `outputs/x/../a`.
/// URLs are skipped, because two slashes are significant in them.
fn normalized_path(text: &str) -> Option<String> {
    if text.len() > MAX_PATH || text.contains('\n') || text.contains("://") || !text.contains('/') {
        return None;
    }
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    let root = if text.starts_with('/') { "/" } else { "" };
    Some(format!("{root}{}", parts.join("/")))
}

/// Visits every string in a value. Short strings are also visited together with their key.
fn texts(key: Option<&str>, value: &Value, match_forms: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => {
            match_forms(text);
            if let Some(key) = key.filter(|_| text.len() <= MAX_KEYED_VALUE) {
                match_forms(&format!("{key}: {text}"));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(key, item, match_forms)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| texts(Some(key), value, match_forms)),
        _ => {}
    }
}

/// Programs whose name alone forms a rule by prefix.
const ALONE: &str = "black ctest eslint flake8 gofmt isort jest mkdir mypy ninja nox phpunit prettier pylint pyright \
    pytest rspec rubocop rustfmt tox tsc vitest";
/// Words that form a rule by prefix together with one of the words after the colon. `*` stands for the name of a script
/// in the project.
const WITH_NEXT: &str = "./gradlew: assemble build check test; ./mvnw: compile package test verify; bun: test; bun run: *; \
    cargo: bench build check clippy doc fmt nextest test; cmake --build: *; deno: check fmt lint test; \
    dotnet: build format test; git: add commit status; go: build fmt test vet; golangci-lint: run; \
    gradle: assemble build check test; mix: compile format test; mvn: compile package test verify; npm: test; npm run: *; \
    pnpm: test; pnpm run: *; ruff: check format; swift: build test; yarn: test; yarn run: *; zig: build";

/// Returns the rule by prefix that is offered for this command, if any.
pub(super) fn prefix_rule(part: &Part) -> Option<String> {
    let part = carriers::without_wrappers(part);
    let text = part.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let mut rest = text.as_str();
    while let Some(rest_after) = programs::LAUNCHERS.split("; ").find_map(|launcher| after_prefix(rest, launcher)) {
        rest = rest_after;
    }
    let with_next = |entry: &str| {
        let (begin, next) = entry.split_once(": ")?;
        let word = after_prefix(rest, begin)?.split(' ').next()?;
        let is_name = word.starts_with(|c: char| c.is_ascii_alphanumeric()) && !word.contains('/');
        (holds(next, word) || next == "*" && is_name).then_some(begin.len() + 1 + word.len())
    };
    let program = rest.split(' ').next()?;
    let length = if holds(ALONE, program) { program.len() } else { WITH_NEXT.split("; ").find_map(with_next)? };
    let prefix = &text[..text.len() - rest.len() + length];
    prefix.split(' ').all(is_plain_text).then(|| format!("{SHELL_TOOL}: {prefix} *"))
}

fn after_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    text.strip_prefix(prefix)?.strip_prefix(' ')
}

//! File mentions in a message: `#report.pdf`, `#notes/my plan.md`, `#src/main.rs:10-40`, `#src/`, `#tests/**/*.rs`,
//! `#"odd name?.txt"`. They work the same in a chat, in `run` and in an editor. A `#` that names no file is plain text.
//!
//! - [`target`]: resolves one mention, expands patterns and folders, and collects what is attached to the message.

mod target;

use std::{
    fs,
    path::{Path, PathBuf},
};

use agentd_core::folder::Mounts;

pub(crate) use self::target::{Bundle, Mention, MentionSource};

/// Maximum bytes after a `#` that are searched for a path.
const MAX_PATH: usize = 1024;

/// Characters that end a sentence or a parenthesis, and are rarely part of a name.
const CLOSING_PUNCTUATION: &str = ".,;:!?()[]{}\"'…。，；：！？（）「」";

/// Finds the files mentioned in a text, in order and without duplicates. Code is skipped. Relative paths start at
/// `base`; an empty `base` is the current folder.
pub(crate) fn find(text: &str, base: &Path) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    for line in prose_lines(text) {
        for mention in starts(line).filter_map(|start| target::at(&line[start..], base)) {
            if !found.contains(&mention) {
                found.push(mention);
            }
        }
    }
    found
}

/// Returns words after a `#` that look like paths but name no file, without duplicates. Code is skipped.
pub(crate) fn missing(text: &str, base: &Path) -> Vec<String> {
    let mut missing: Vec<String> = Vec::new();
    for line in prose_lines(text) {
        let named = starts(line).filter(|start| target::at(&line[*start..], base).is_none());
        for path in named.filter_map(|start| path_like(&line[start..])) {
            if !missing.contains(&path) {
                missing.push(path);
            }
        }
    }
    missing
}

/// Returns the lines of a text outside of code blocks.
fn prose_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut in_fence = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        !is_fence && !in_fence
    })
}

/// Returns the first word of a text if it looks like a path: it contains a letter, and a dot or a slash.
fn path_like(text: &str) -> Option<String> {
    let word = text.split(char::is_whitespace).next()?;
    let word =
        word.trim_end_matches(|letter: char| CLOSING_PUNCTUATION.contains(letter)).trim_start_matches(['"', '\'']);
    let is_path = word.chars().count() <= MAX_PATH
        && word.starts_with(|first: char| first.is_alphanumeric() || "./~_*".contains(first))
        && word.contains(['.', '/'])
        && word.contains(char::is_alphabetic);
    is_path.then(|| word.to_owned())
}

/// Returns the path by which tools access a file or folder, or `None` if it is outside of the session's folders.
pub(crate) fn of_tools(path: &Path, mounts: &Mounts) -> Option<String> {
    let real_path = fs::canonicalize(path).ok()?;
    mounts.names().find_map(|(name, mount)| {
        let below = real_path.strip_prefix(fs::canonicalize(mount).ok()?).ok()?.to_str()?;
        Some(if below.is_empty() { name.to_owned() } else { format!("{name}/{below}") })
    })
}

/// Returns the positions after each `#` that starts a word, outside of inline code.
pub(crate) fn starts(line: &str) -> impl Iterator<Item = usize> {
    let mut in_code = false;
    let mut before = ' ';
    line.char_indices().filter_map(move |(index, letter)| {
        in_code ^= letter == '`';
        // Some scripts do not separate words with spaces.
        let starts_word = before.is_whitespace() || !before.is_ascii() || "([{\"'".contains(before);
        let begins = letter == '#' && !in_code && starts_word;
        before = letter;
        begins.then_some(index + 1)
    })
}

/// Expands a typed path. `~/` is replaced here, because the text did not pass through a shell.
pub(crate) fn typed_path(path: &str) -> PathBuf {
    let path = path.trim_matches(['"', '\'']);
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
#[path = "mentions_tests.rs"]
mod tests;

//! What a command names to delete, for the question about what undo cannot bring back.

use serde_json::Value;

use super::{carriers, tables::holds};
use crate::command::{Part, guesses, word::Word};

/// Programs that delete what they are given.
const DELETING: &str = "rm rmdir unlink shred";

/// Those of these paths that the command of a call seems to delete, or something in them. Names are compared without the
/// folders that they are in, for where each part of a command runs is not known.
pub fn deletes(arguments: &str, paths: &[String]) -> Vec<String> {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    let with_inner = |part: Part| carriers::inner(&part).unwrap_or_default().into_iter().chain([part]);
    let parts: Vec<Part> = guesses(text("command")).0.into_iter().flat_map(with_inner).collect();
    if !parts.iter().any(|part| is_deletion(part) || cleans(part)) {
        return Vec::new();
    }
    // What one part finds another may delete.
    let is_named_in = |part: &Part, path: &str| {
        let named = |word: &Word| is_in(&word.text, path) || is_deletion(part) && is_around(&word.text, path);
        cleans(part) || part.arguments().iter().any(named)
    };
    let is_named = |path: &&String| is_in(text("directory"), path) || parts.iter().any(|part| is_named_in(part, path));
    paths.iter().filter(is_named).cloned().collect()
}

fn is_deletion(part: &Part) -> bool {
    part.words.iter().any(|word| holds(DELETING, word.file_name()) || word.text == "-delete")
}

/// Returns true for `git clean`, which names nothing.
fn cleans(part: &Part) -> bool {
    part.program() == "git" && part.words.iter().any(|word| word.text == "clean")
}

/// Returns true if the word names that path, or something in it.
fn is_in(word: &str, path: &str) -> bool {
    let last = names(path).next_back().unwrap_or_default();
    names(word).any(|name| name != "*" && fits(name, last))
}

/// Returns true if the word names a folder around that path.
fn is_around(word: &str, path: &str) -> bool {
    !word.starts_with('-')
        && names(word).next_back().is_none_or(|last| last == ".." || names(path).any(|name| fits(last, name)))
}

fn names(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|name| !matches!(*name, "" | "."))
}

/// Compares with a name or a pattern of names, of which only the beginning and the end are read.
fn fits(pattern: &str, name: &str) -> bool {
    const SPECIAL: &[char] = &['*', '?', '[', ']', '{', '}', '$'];
    match (pattern.find(SPECIAL), pattern.rfind(SPECIAL)) {
        (Some(first), Some(last)) => name.starts_with(&pattern[..first]) && name.ends_with(&pattern[last + 1..]),
        _ => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_command_names_to_delete_is_found() {
        #[track_caller]
        fn check(command: &str, found: &[&str]) {
            let paths = ["/project/data/", "/project/app/target/", "/project/big.bin"].map(str::to_owned);
            let arguments = json!({ "command": command }).to_string();
            assert_eq!(deletes(&arguments, &paths), found, "{command}");
        }
        let all = ["/project/data/", "/project/app/target/", "/project/big.bin"];
        check("rm -r data", &all[..1]);
        check("rm ./data/a.csv", &all[..1]);
        check("sudo rm -rf '/project/data/'", &all[..1]);
        check("bash -c 'rm -r data'", &all[..1]);
        check("cd data && rm a.csv", &all[..1]);
        check(r#"rm -r "$PROJECT/data""#, &all[..1]);
        check("rm -rf app", &all[1..2]);
        check("rm -rf target", &all[1..2]);
        check("find . -name '*.o' -delete", &all);
        check("find data -type f | xargs rm", &all[..1]);
        check("for f in data/*; do rm $f; done", &all[..1]);
        check("rm -rf *", &all);
        check("rm *.bin", &all[2..]);
        check("git clean -fdx", &all);
        check("cd /project && rm a.txt", &[]);
        check("rm a.txt", &[]);
        check("ls data", &[]);
    }
}

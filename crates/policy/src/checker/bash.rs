//! Judges one part of a command by its words. Also finds the paths that a command would delete, for the question about
//! effects that cannot be undone.

use std::path::Path;

use agentd_core::{guarded::GuardedNames, policy::Risk};
use serde_json::Value;

use super::{
    carriers, environment, files, interpreters,
    paths::{self, Location},
    programs,
    tables::holds,
};
use crate::{
    command::{Part, Redirect, guesses, word::Word},
    opinion::{LayerVerdict, shortened, strictest},
};

/// Programs that change the files they name.
const CHANGERS: &str = "rm rmdir unlink shred srm mv cp ln link install touch mkdir mkfifo mknod tee sponge truncate \
    fallocate dd chmod chown chgrp setfacl chattr rsync unzip tar patch curl wget split csplit zip gzip gunzip 7z xxd \
    openssl gtar bsdtar cpio";
/// Builtins that set variables by their arguments.
const DECLARING: &str = "export declare typeset local readonly unset read getopts mapfile readarray";
/// Folders of system programs.
const PROGRAM_FOLDERS: [&str; 6] =
    ["/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/"];

/// Returns the checker's verdict on a part, if any.
pub(crate) fn check(part: &Part, roots: &[&Path]) -> Option<LayerVerdict> {
    let mut found = part.findings.clone();
    let assigns = part.assigns.iter().filter(|assign| !environment::is_harmless(assign));
    assigns.for_each(|assign| environment::check(&assign.name, &mut found));
    found.extend(part.redirects.iter().filter_map(|redirect| check_redirect(redirect, roots)));
    let is_name = |word: &&Word| holds(DECLARING, part.program()) && !word.text.starts_with('-');
    for name in part.arguments().iter().filter(is_name) {
        environment::check(name.text.split(['=', '[']).next().unwrap_or_default(), &mut found);
    }
    if let Some(name) = set_by_option(part) {
        environment::check(name.split('[').next().unwrap_or_default(), &mut found);
    }
    if let Some(program) = part.words.first() {
        found.extend(program_word(program, roots));
        for word in &part.words {
            // A program that only prints or inspects file names may match any files with a glob.
            let names = matches!(part.program(), "ls" | "echo" | "stat" | "du" | "find" | "file") && word.globs;
            let shown = shortened(&word.text);
            if if names { paths::is_secret(&word.text) } else { paths::may_be_secret(word) } {
                found.push(LayerVerdict::high(format!("{shown} looks like a secrets file")));
            } else if paths::is_device(&word.text) {
                found.push(LayerVerdict::high(format!("{shown} is a device, or belongs to another process")));
            }
        }
        found.extend(programs::check(part, roots));
        found.extend(carriers::check(part));
        if holds(CHANGERS, part.program()) || interpreters::edits(part) {
            found.extend(part.arguments().iter().filter_map(|word| check_changed(part.program(), word, roots)));
        }
    }
    strictest(found)
}

/// Returns the variable that an option sets: `printf -v NAME`, `wait -p NAME`.
fn set_by_option(part: &Part) -> Option<&str> {
    let letter = match part.program() {
        "printf" => "-v",
        "wait" => "-p",
        _ => return None,
    };
    let at = part.arguments().iter().position(|word| word.text.starts_with(letter))?;
    match part.arguments()[at].text.strip_prefix(letter) {
        Some("") | None => part.arguments().get(at + 1).map(|word| word.text.as_str()),
        Some(name) => Some(name),
    }
}

/// Judges a program name that is not a plain word.
fn program_word(program: &Word, roots: &[&Path]) -> Option<LayerVerdict> {
    if !program.is_plain() {
        return Some(LayerVerdict::unknown("the name of the program is only known at run time"));
    }
    let text = program.text.as_str();
    let has_folder = text.contains('/')
        && !PROGRAM_FOLDERS.iter().any(|folder| text.strip_prefix(folder).is_some_and(|name| !name.contains('/')));
    let is_unusual = has_folder && matches!(paths::location(program, roots), Location::System | Location::Temporary);
    Some(if text.trim() != text || text.is_empty() {
        LayerVerdict::high("the name of the program is blank")
    } else if text.starts_with('-') {
        LayerVerdict::unknown("the name of the program looks like an option")
    } else if !text.is_ascii() {
        LayerVerdict::high("the name of the program has confusable letters")
    } else if is_unusual {
        LayerVerdict::high(format!("it runs {} from an unusual folder for programs", shortened(text)))
    } else {
        return None;
    })
}

fn check_redirect(redirect: &Redirect, roots: &[&Path]) -> Option<LayerVerdict> {
    if redirect.is_harmless() || redirect.operator.starts_with("<<") {
        return None;
    }
    let (target, text) = (&redirect.target, redirect.target.text.as_str());
    if text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/") {
        return Some(LayerVerdict::ask(Risk::Critical, "it opens a connection to another machine"));
    }
    if paths::is_secret(text) {
        return Some(LayerVerdict::high(format!("{} looks like a secrets file", shortened(text))));
    }
    if !redirect.writes() {
        return None;
    }
    if !target.is_plain() {
        return Some(LayerVerdict::unknown("it writes to a file only known at run time"));
    }
    write_danger(target, roots).or_else(|| files::path(text, roots, &GuardedNames::default()))
}

/// Judges writing to the path in `word`.
fn write_danger(word: &Word, roots: &[&Path]) -> Option<LayerVerdict> {
    let shown = shortened(&word.text);
    match paths::location(word, roots) {
        Location::System => Some(LayerVerdict::ask(Risk::Critical, format!("it writes to the system path {shown}"))),
        Location::Outside => Some(LayerVerdict::high(format!("it writes to {shown}, outside the session's folders"))),
        Location::Inside | Location::Temporary => None,
    }
}

/// Judges a program that changes the files it names.
fn check_changed(program: &str, word: &Word, roots: &[&Path]) -> Option<LayerVerdict> {
    let text = word.text.as_str();
    let value = match text.strip_prefix('-') {
        Some(option) => match option.split_once('=') {
            Some((_, value)) => value,
            // The value may directly follow the option letter.
            None => option.find(['/', '~']).map(|at| &option[at..])?,
        },
        // `of=/dev/sda`
        None if program == "dd" => text.split_once('=').map_or(text, |(_, value)| value),
        None => text,
    };
    if matches!(value, "/dev/null" | "/dev/zero" | "/dev/urandom" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin")
        || value.contains("://")
    {
        return None;
    }
    let part = Word { text: value.to_owned(), ..word.clone() };
    let is_in_home = value.starts_with(['~', '/']) || value.starts_with("$HOME") || value.starts_with("${HOME");
    if word.is_static() || is_in_home { write_danger(&part, roots) } else { None }
        .or_else(|| files::path(value, roots, &GuardedNames::default()))
}

/// Programs that delete their arguments.
const DELETING: &str = "rm rmdir unlink shred";

/// Returns the `paths` that a call's command seems to delete, entirely or in part. Names are compared without their
/// folders, because it is unknown where each part of the command runs.
pub fn deletes(arguments: &str, paths: &[String]) -> Vec<String> {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    let with_inner = |part: Part| carriers::inner(&part).unwrap_or_default().into_iter().chain([part]);
    let is_deletion =
        |part: &Part| part.words.iter().any(|word| holds(DELETING, word.file_name()) || word.text == "-delete");
    // `git clean` names no paths.
    let is_git_clean = |part: &Part| part.program() == "git" && part.words.iter().any(|word| word.text == "clean");
    let parts: Vec<Part> = guesses(text("command")).0.into_iter().flat_map(with_inner).collect();
    if !parts.iter().any(|part| is_deletion(part) || is_git_clean(part)) {
        return Vec::new();
    }
    // One part may find files that another part deletes.
    let is_named_in = |part: &Part, path: &str| {
        let named = |word: &Word| is_in(&word.text, path) || is_deletion(part) && contains_path(&word.text, path);
        is_git_clean(part) || part.arguments().iter().any(named)
    };
    let is_named = |path: &&String| is_in(text("directory"), path) || parts.iter().any(|part| is_named_in(part, path));
    paths.iter().filter(is_named).cloned().collect()
}

/// Returns true if the word names that path or something in it.
fn is_in(word: &str, path: &str) -> bool {
    let last = names(path).next_back().unwrap_or_default();
    names(word).any(|name| name != "*" && matches_glob(name, last))
}

/// Returns true if the word names a folder that contains that path.
fn contains_path(word: &str, path: &str) -> bool {
    !word.starts_with('-')
        && names(word).next_back().is_none_or(|last| last == ".." || names(path).any(|name| matches_glob(last, name)))
}

fn names(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|name| !matches!(*name, "" | "."))
}

/// Compares a name with a name or glob. Only the literal prefix and suffix of a glob are compared.
fn matches_glob(pattern: &str, name: &str) -> bool {
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
    fn deleted_paths_of_a_command_are_found() {
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

//! Judges git commands: git runs programs named by options and configuration, and it can lose work.

use std::path::Path;

use super::{
    paths::{self, Location},
    programs::abbreviates,
    tables::{GIT, holds},
};
use crate::{
    command::word::Word,
    opinion::{LayerVerdict, shortened},
};

/// Global options whose value is the next word.
const VALUED: [&str; 7] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--attr-source", "--shallow-file"];
/// Options, in any position, that name a program, an options file or another host.
const RUNNING: &str = "-c --exec-path --config-env --upload-pack --receive-pack --exec --ext-diff --textconv --config \
    --template --extcmd --open-files-in-pager --remote= --git-dir --work-tree --separate-git-dir --unsafe-paths";
/// Subcommands that run programs or send data.
const FAR_REACHING: &str = "push filter-branch filter-repo submodule difftool mergetool daemon instaweb send-email \
    upload-pack receive-pack credential update-ref hook maintenance fast-import remote-ext shell svn";

/// Returns the subcommand and its arguments.
fn subcommand(arguments: &[Word]) -> Option<(&str, &[Word])> {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        if VALUED.contains(&word.text.as_str()) {
            at += 2;
        } else if word.text.starts_with('-') {
            at += 1;
        } else {
            return Some((&word.text, &arguments[at + 1..]));
        }
    }
    None
}

/// Judges a git command.
pub(super) fn check(arguments: &[Word], roots: &[&Path]) -> Option<LayerVerdict> {
    let ask = |reason: String| Some(LayerVerdict::high(reason));
    let (name, rest) = subcommand(arguments)?;
    let globals = &arguments[..arguments.len() - rest.len() - 1];
    let running = |word: &&Word| {
        let text = word.text.as_str();
        RUNNING.split_ascii_whitespace().any(|option| match option.len() {
            2 => text == option,
            _ => text.starts_with(option) || abbreviates(text, option),
        }) || text.contains("ext::")
    };
    let global = globals.iter().find(|word| running(word) || word.text.starts_with("-c"));
    // After the subcommand, `-c` is the short form of harmless options, except for clone.
    let local = rest.iter().find(|word| running(word) && (word.text != "-c" || name == "clone"));
    if let Some(word) = global.or(local) {
        return ask(format!("git with {} can run other programs", shortened(&word.text)));
    }
    if globals.iter().any(|word| matches!(paths::location(word, roots), Location::System)) {
        return ask("git works in a system folder".to_owned());
    }
    if !holds(GIT, name) && !holds(FAR_REACHING, name) {
        return ask(format!("{name:?} is not a git command: it may be an alias that runs anything"));
    }
    if holds(FAR_REACHING, name) {
        return ask(format!("git {name} runs programs or cannot be undone"));
    }
    let has_option = |options: &str| {
        rest.iter().any(|word| {
            options.split_ascii_whitespace().any(|option| {
                match option.strip_prefix('-').filter(|letter| letter.len() == 1) {
                    Some(letter) => {
                        word.text.starts_with('-')
                            && !word.text.starts_with("--")
                            && !(name == "tag" && word.text.contains(':'))
                            && word.text.contains(letter)
                    }
                    None => word.text.starts_with(option) || abbreviates(&word.text, option),
                }
            })
        })
    };
    let operands = rest.iter().filter(|word| !word.text.starts_with('-')).count();
    let first = rest.first().map_or("", |word| word.text.as_str());
    let loses_work = match name {
        "clean" => has_option("-f --force"),
        "reset" => has_option("--h --m --k"),
        "checkout" | "switch" | "restore" => {
            has_option("-f --force --discard")
                || rest.iter().any(|word| matches!(word.text.as_str(), "--" | "." | ":/" | "*"))
        }
        "branch" | "tag" => has_option("-D -d --delete -f --force -M"),
        "stash" => matches!(first, "drop" | "clear"),
        "reflog" => matches!(first, "expire" | "delete"),
        "gc" | "prune" => true,
        "rm" => has_option("-r -f --force"),
        "worktree" => first == "remove",
        _ => false,
    };
    if loses_work {
        return ask(format!("git {name} can lose work"));
    }
    // A user's next git command continues a rebase or merge that is in progress in the repository. Case is ignored.
    let is_in_repository = |word: &Word| {
        let word = word.text.to_ascii_lowercase();
        let is_below = |part: &str| part == ".git";
        !word.contains("://")
            && (word.starts_with('-') && word.contains(".git/") || word.split(['/', '=', ':']).any(is_below))
    };
    if rest.iter().any(is_in_repository) {
        return ask(format!("git {name} is given a path inside .git"));
    }
    // Arguments that name the location of a new tree or of files.
    let is_outside = |word: &&Word| {
        let value = word.text.rsplit_once('=').map_or(word.text.as_str(), |(_, value)| value);
        !value.contains("://")
            && matches!(paths::text_location(value, word.varies, roots), Location::System | Location::Outside)
    };
    if matches!(name, "clone" | "worktree" | "init" | "format-patch" | "bundle" | "archive")
        && rest.iter().any(|word| is_outside(&word))
    {
        return ask(format!("git {name} writes outside the session's folders"));
    }
    let runs = match name {
        "clone" => has_option("-u") || rest.iter().any(|word| word.text.to_lowercase().starts_with("file:")),
        "rebase" => has_option("-x --ex -i --interactive"),
        "bisect" => matches!(first, "run" | "view" | "visualize"),
        "grep" => has_option("-O --open"),
        "archive" => has_option("-o --output --remote --exec"),
        "config" => {
            operands > 1
                || matches!(first, "edit" | "set" | "unset" | "rename-section" | "remove-section")
                || has_option("--add --unset --replace --edit -e --remove --rename --file -f")
        }
        _ => false,
    };
    // Every subcommand that shows differences can write them to a file.
    let writes = |word: &Word| {
        let name = word.text.split_once('=').map_or(word.text.as_str(), |(name, _)| name);
        name.len() > 2 && "--output".starts_with(name)
    };
    let runs = runs || has_option("--ext- --textc") || rest.iter().any(writes);
    runs.then(|| LayerVerdict::high(format!("git {name} can run programs or write files this way")))
}

//! Commands that only look, and only inside the session's folders: plain words, a program on the list, options on the list,
//! and paths that lead nowhere else.

use std::path::Path;

use super::{
    carriers,
    looks::{self, FIND, Looks, TEST},
    paths,
    tables::holds,
};
use crate::command::{Part, Redirect, word::Word};

/// Returns whether a part only looks, inside the session's folders.
pub(crate) fn only_looks(part: &Part, roots: &[&Path]) -> bool {
    let Some(program) = part.words.first().filter(|_| part.is_plain()) else { return false };
    let (name, arguments) = (program.text.as_str(), part.arguments());
    // What is only said leads nowhere.
    if name == "echo" {
        return true;
    }
    let tame = |text: &str| paths::is_tame(&Word::literal(text), roots);
    let texts: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    if name == "printf" {
        return texts.first().is_some_and(|format| !format.starts_with('-'));
    }
    texts.iter().all(|text| tame(text)) && looks(name, &texts, &tame)
}

/// Why a part that [`is_led`] asks beside what does more than look.
pub(crate) const LED: &str =
    "git runs programs that its repository names, and beside what does more than look nothing holds them";

/// Returns whether what lies in the folder may have the program run others: git runs those that the configuration of
/// its repository names. No other program on the list obeys a file that nobody named.
pub(crate) fn is_led(part: &Part) -> bool {
    part.program() == "git"
}

/// Why a part is none that only looks, in words for the person who is asked.
pub(crate) fn why_not(part: &Part) -> &'static str {
    let words = || part.words.iter();
    match part {
        _ if carriers::carries(part) => "it runs another command",
        _ if words().any(|word| word.varies) => "it holds a variable",
        _ if words().any(|word| word.globs || word.braces) => "it has a glob pattern, which depends on the folder",
        _ if !part.assigns.is_empty() => "it sets a variable",
        _ if !part.redirects.iter().all(Redirect::is_silent) => "it reads or writes a file by a redirection",
        _ if part.behind => "it continues in the background",
        _ => "it is not on the list of commands that only look",
    }
}

fn looks(name: &str, texts: &[&str], tame: &impl Fn(&str) -> bool) -> bool {
    match name {
        "cd" => matches!(texts, [place] if !place.is_empty() && !place.starts_with('-')),
        "exit" => texts.len() <= 1 && texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_digit())),
        "sleep" => matches!(texts, [time] if time.trim_end_matches(['s', 'm'])
            .bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')),
        "command" => matches!(texts, ["-v" | "-V", name] if !name.starts_with('-')),
        "test" => tests(texts),
        "[" => texts.split_last().is_some_and(|(last, texts)| *last == "]" && tests(texts)),
        "find" => texts.iter().all(|text| !text.starts_with('-') || holds(FIND, text)),
        "date" => {
            let looks =
                Looks { flags: "uR", valued: "d", longs: "utc rfc-email iso-8601? date=", operands: usize::MAX };
            texts.iter().all(|text| *text == "-I") && texts.len() == 1
                || operands(looks, "", texts, tame).is_some_and(|rest| rest.iter().all(|text| text.starts_with('+')))
        }
        // The old form of `tail -c -f` does not end.
        "tail" if texts.iter().any(|text| text.starts_with(['-', '+']) && text.ends_with('f')) => false,
        "jq" => queries(texts, tame),
        "git" => git_looks(texts, tame),
        _ => looks::of(name).is_some_and(|looks| operands(looks, "", texts, tame).is_some()),
    }
}

/// The words that are no options, where all options are on the lists and their values lead nowhere else.
fn operands<'t>(looks: Looks, more: &str, texts: &[&'t str], tame: &impl Fn(&str) -> bool) -> Option<Vec<&'t str>> {
    let mut found = Vec::new();
    let mut rest = texts.iter();
    let mut ended = false;
    while let Some(text) = rest.next() {
        let Some(option) = text.strip_prefix('-').filter(|option| !ended && !option.is_empty()) else {
            found.push(*text);
            continue;
        };
        if option == "-" {
            ended = true;
        } else if let Some(long) = option.strip_prefix('-') {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let known = |end: &str| {
                let entries = looks.longs.split_ascii_whitespace().chain(more.split_ascii_whitespace());
                entries.filter_map(|entry| entry.strip_suffix(end)).any(|entry| entry == name)
            };
            match value {
                Some(value) if (known("=") || known("?")) && tame(value) => {}
                None if known("") || known("?") => {}
                None if known("=") => drop(rest.next()?),
                _ => return None,
            }
        } else if looks.flags.contains('#') && option.bytes().all(|byte| byte.is_ascii_digit()) {
        } else {
            for (at, letter) in option.char_indices() {
                if letter == '#' {
                    return None;
                }
                if looks.valued.contains(letter) {
                    let value = &option[at + letter.len_utf8()..];
                    if value.is_empty() {
                        rest.next()?;
                    } else if !tame(value) {
                        return None;
                    }
                    break;
                }
                if !looks.flags.contains(letter) {
                    return None;
                }
            }
        }
    }
    (found.len() <= looks.operands).then_some(found)
}

/// `test` and `[`: nothing in it may name a variable whose index is a command.
fn tests(texts: &[&str]) -> bool {
    texts.iter().all(|text| {
        let operator = text.len() <= 1 || !text.starts_with('-') || holds(TEST, text);
        let number = text.strip_prefix('-').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        (operator || number) && !text.contains(['$', '`', '['])
    })
}

/// jq without modules, files of programs and the environment.
fn queries(texts: &[&str], tame: &impl Fn(&str) -> bool) -> bool {
    const OPTIONS: Looks = Looks {
        flags: "rcsSneMCRj",
        valued: "",
        longs: "raw-output compact-output slurp sort-keys null-input exit-status tab",
        operands: usize::MAX,
    };
    let reaches =
        |text: &&str| ["env", "ENV", "import", "include", "modulemeta"].iter().any(|word| text.contains(word));
    !texts.iter().any(reaches) && operands(OPTIONS, "", texts, tame).is_some()
}

/// Formats that git has itself, and those that stand in the command. Others are names of what a repository configures.
fn is_known_format(format: &str) -> bool {
    const OWN: &str = "oneline short medium full fuller reference email mboxrd raw";
    format.contains('%') || holds(OWN, format)
}

fn git_looks(texts: &[&str], tame: &impl Fn(&str) -> bool) -> bool {
    let globals = texts.iter().take_while(|text| text.starts_with('-')).count();
    let known = |text: &&str| matches!(*text, "--no-pager" | "-P" | "--no-optional-locks" | "--version");
    if !texts[..globals].iter().all(known) {
        return false;
    }
    let Some((name, rest)) = texts[globals..].split_first() else { return globals > 0 };
    // Signatures are looked at by a program that the repository names.
    let formats = rest.iter().all(|text| {
        let named = ["--pretty=", "--format="].iter().find_map(|option| text.strip_prefix(option));
        !text.contains("%G") && !text.contains("signature") && named.is_none_or(is_known_format)
    });
    if !formats {
        return false;
    }
    match (*name, rest) {
        ("tag", [] | ["-l" | "--list"]) | ("remote", [] | ["-v" | "--verbose"]) => true,
        ("stash" | "worktree", ["list"]) | ("reflog", [] | ["show"]) => true,
        _ => looks::of_git(name).is_some_and(|(looks, more)| operands(looks, more, rest, tame).is_some()),
    }
}

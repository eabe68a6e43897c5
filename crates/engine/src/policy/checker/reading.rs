//! Commands that only look, and only inside the session's folders. Each option that is not known to be harmless, each
//! word that is not known beforehand and each path that leads elsewhere makes a command one that asks.

use std::path::Path;

use super::{git, paths, sed, tables::holds};
use crate::policy::command::{Part, word::Word};

/// Programs without options that write or run anything.
const LOOKS: [&str; 42] = [
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "grep",
    "egrep",
    "fgrep",
    "stat",
    "du",
    "df",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "cut",
    "tr",
    "nl",
    "tac",
    "rev",
    "fold",
    "expand",
    "unexpand",
    "paste",
    "join",
    "comm",
    "cmp",
    "diff",
    "md5sum",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "b2sum",
    "cksum",
    "od",
    "hexdump",
    "strings",
    "seq",
    "column",
    "base64",
];
/// The same, where they are called without arguments or with options only.
const TELLS: [&str; 10] = ["pwd", "whoami", "id", "uname", "nproc", "arch", "uptime", "groups", "tty", "logname"];

/// Whether a part provably only looks, inside the session's folders.
pub(in crate::policy) fn only_looks(part: &Part, roots: &[&Path]) -> bool {
    let calm = part.assigns.is_empty()
        && part.findings.is_empty()
        && !part.open_ended
        && part.unread.is_none()
        && part.redirects.iter().all(|redirect| {
            let text = matches!(redirect.operator, "<<" | "<<<") && redirect.target.is_static();
            let file = !redirect.writes
                && redirect.target.is_static()
                && !redirect.target.globs
                && paths::is_tame(&redirect.target, roots);
            redirect.is_harmless() || text || file
        });
    let Some(program) = part.words.first() else { return calm && part.redirects.is_empty() && part.unread.is_none() };
    // A path as the program's name may lead to anything.
    if !calm || !program.is_static() || program.globs || program.text.contains('/') {
        return false;
    }
    let (name, arguments) = (program.text.as_str(), part.arguments());
    if matches!(name, "echo" | "printf") {
        return speaks(name, arguments);
    }
    let known = arguments.iter().all(|word| word.is_static() && paths::is_tame(word, roots));
    // A file name that a glob stands for may look like an option.
    let bare_glob = arguments.iter().any(|word| word.globs && !word.text.contains('/'));
    known && (!bare_glob || LOOKS.contains(&name)) && looks(name, arguments)
}

fn looks(name: &str, arguments: &[Word]) -> bool {
    let texts = || arguments.iter().map(|word| word.text.as_str());
    let operands = || operands(arguments);
    let lacks = |letters: &[char], longs: &[&str]| {
        texts().filter(|text| text.starts_with('-')).all(|text| match text.strip_prefix("--") {
            Some(long) => !longs.iter().any(|danger| may_mean(long, danger)),
            None => !text.contains(letters),
        })
    };
    match name {
        "true" | "false" | ":" => true,
        "test" | "[" | "[[" => texts().all(|text| !text.contains(['$', '`', '['])),
        "cd" => arguments.len() == 1 && operands().all(|text| text != "-" && !text.is_empty()),
        "for" => texts().skip(1).all(|text| !text.contains('`')),
        "case" => true,
        "sleep" => texts()
            .all(|text| text.trim_end_matches(['s', 'm']).bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')),
        "which" | "type" => lacks(&[], &[]),
        "command" => texts().next().is_some_and(|text| matches!(text, "-v" | "-V")),
        "exit" | "wait" => arguments.len() <= 1,
        "set" => texts().all(|text| text.starts_with('-') && text[1..].chars().all(|c| "eux".contains(c))),
        "date" => {
            texts().all(|text| text.starts_with('+') || matches!(text, "-u" | "--utc" | "-R" | "-I" | "--iso-8601"))
        }
        "hostname" => arguments.is_empty(),
        "sort" => lacks(&['o', 'T'], &["o", "c", "t", "f"]),
        "uniq" => operands().count() <= 1,
        "tree" => lacks(&['o', 'R', 'H'], &["o", "f"]),
        "file" => lacks(&['C', 'm', 'z', 'Z'], &["c", "m", "u"]),
        "rg" => lacks(&['z'], &["pre", "host", "search-z"]),
        "find" => texts().all(|text| {
            !["-exec", "-ok", "-delete", "-fprint", "-fls", "-files0"].iter().any(|danger| text.starts_with(danger))
        }),
        "git" => git_looks(arguments),
        "diff" => lacks(&['l'], &["pag"]),
        "column" | "base64" | "seq" | "nl" => lacks(&[], &[]),
        _ if TELLS.contains(&name) => operands().next().is_none(),
        "sed" => sed::Call::read(arguments).only_looks(),
        "jq" => jq_looks(arguments),
        _ => LOOKS.contains(&name) && lacks(&[], &["files0"]),
    }
}

/// The words that are no options: those without a hyphen, and all behind `--`.
fn operands(arguments: &[Word]) -> impl Iterator<Item = &str> {
    let mut ended = false;
    arguments.iter().map(|word| word.text.as_str()).filter(move |text| {
        let is_operand = ended || !text.starts_with('-') || *text == "-";
        ended |= *text == "--";
        is_operand
    })
}

/// Whether a long option is one that begins so, or is that option cut short.
fn may_mean(option: &str, danger: &str) -> bool {
    let name = option.split('=').next().unwrap_or_default();
    option.starts_with(danger) || !name.is_empty() && danger.starts_with(name)
}

/// jq without modules, files of programs and the environment.
fn jq_looks(arguments: &[Word]) -> bool {
    let mild = |text: &str| match text.strip_prefix("--") {
        Some(long) => matches!(
            long,
            "raw-output" | "compact-output" | "slurp" | "sort-keys" | "null-input" | "exit-status" | "tab" | "arg"
        ),
        None => text[1..].chars().all(|c| "rcsSneMCRj".contains(c)),
    };
    arguments.iter().map(|word| word.text.as_str()).all(|text| {
        let reaches = ["env", "ENV", "import", "include", "modulemeta"].iter().any(|word| text.contains(word));
        !reaches && (!text.starts_with('-') || mild(text))
    })
}

/// `echo` and `printf`: what they say may come from a command, which is a part of its own, but not from variables.
fn speaks(name: &str, arguments: &[Word]) -> bool {
    let known = |word: &Word| !word.varies && !word.braces && !word.globs && !word.text.contains("<(");
    arguments.iter().all(known)
        && (name == "echo"
            || arguments.first().is_some_and(|format| format.is_static() && !format.text.starts_with('-')))
}

/// Formats that git has itself, and those that stand in the command.
fn is_known_format(format: &str) -> bool {
    const OWN: &str = "oneline short medium full fuller reference email mboxrd raw";
    format.contains('%') || holds(OWN, format)
}

fn git_looks(arguments: &[Word]) -> bool {
    let globals = arguments.iter().take_while(|word| word.text.starts_with('-'));
    if !globals
        .clone()
        .all(|word| matches!(word.text.as_str(), "--no-pager" | "-P" | "--no-optional-locks" | "--version"))
    {
        return false;
    }
    let Some((name, rest)) = git::subcommand(arguments) else { return globals.count() > 0 };
    let texts = || rest.iter().map(|word| word.text.as_str());
    let operands = operands(rest).count();
    let mild = texts().filter(|text| text.starts_with('-')).all(|text| {
        const RISKY: [&str; 11] =
            ["o", "ext-diff", "textconv", "exec", "upload", "contents", "no-index", "filter", "edit", "show", "open"];
        match text.strip_prefix("--") {
            None => !text.starts_with("-O"),
            Some("" | "oneline" | "only-matching" | "or" | "text") => true,
            Some(long) => !RISKY.iter().any(|danger| may_mean(long, danger)),
        }
    });
    // Signatures are looked at by a program that the repository names, and so it does with formats of its own.
    let formats = texts().all(|text| {
        let named = ["--pretty=", "--format="].iter().find_map(|option| text.strip_prefix(option));
        !text.contains("%G") && !text.contains("signature") && named.is_none_or(is_known_format)
    });
    let mild = mild && formats;
    let first = texts().next().unwrap_or_default();
    mild && match name {
        // It writes the index to find out, and hooks may wait for that.
        "describe" => texts()
            .filter_map(|text| text.strip_prefix("--"))
            .all(|long| long.is_empty() || !may_mean(long, "dirty") && !may_mean(long, "broken")),
        "status" | "log" | "show" | "diff" | "blame" | "shortlog" | "rev-parse" | "rev-list" | "ls-files"
        | "ls-tree" | "merge-base" | "name-rev" | "show-ref" | "for-each-ref" | "whatchanged" | "cherry"
        | "count-objects" => true,
        "grep" => texts().all(|text| !text.starts_with('-') || text.starts_with("--") || !text.contains(['O', 'f'])),
        "cat-file" => texts().all(|text| !text.starts_with("--b") && !text.starts_with("--t")),
        "branch" => {
            operands == 0
                && texts().all(|text| {
                    matches!(
                        text,
                        "-a" | "-r" | "-v" | "-vv" | "--list" | "--all" | "--remotes" | "--show-current" | "--no-color"
                    )
                })
        }
        "tag" => rest.is_empty() || matches!(first, "-l" | "--list"),
        "remote" => rest.is_empty() || rest.len() == 1 && matches!(first, "-v" | "--verbose"),
        "stash" => rest.len() == 1 && first == "list",
        "reflog" => rest.is_empty() || rest.len() == 1 && first == "show",
        "worktree" => rest.len() == 1 && first == "list",
        _ => false,
    }
}

//! Knowledge about single programs.

use std::path::Path;

use agentd_core::policy::Risk;

use super::{
    carriers, environment, git, interpreters,
    paths::{self, Location},
    tables::{
        CURL_SENDS, FAR_REACHING, RENAMING, RUINOUS, RUNNING_OPTIONS, RUNNING_TEXTS, RUNS_TEXT, SENDING, TEXT_ONLY,
        holds, starts_with_any,
    },
};
use crate::{
    command::{Part, Stdin, word::Word},
    opinion::{LayerVerdict, shortened},
};

/// Programs whose arguments are texts to search for or to print, so the arguments are not checked.
const TEXT_PROGRAMS: &str = "echo printf git grep egrep fgrep rg ag ack find ls cat head tail wc test [ [[ case for cd";
/// Programs in [`RUNS_TEXT`] that accept one of their options in any position, so that a variable may be such an
/// option.
const ANY_POSITION: &str = "find tar gtar bsdtar rsync zip rg sort wget man split";
/// Programs that pass the words after `--` on to the program that they run.
const PASSING_ON: &str = "npm pnpm yarn go";

/// Prefixes of a program that are part of its rule.
pub(crate) const LAUNCHERS: &str =
    "bundle exec; hatch run; pdm run; pipenv run; poetry run; python -m; python3 -m; uv run";
/// Prefixes of a script name, or of a program if there is no such script.
const SCRIPT_RUNNERS: &str = "bun run; npm run; pnpm run; yarn run";

/// Returns true if the program after a launcher is known to run, send or delete more than its name implies.
pub(crate) fn runs_by_launcher(part: &Part, roots: &[&Path]) -> bool {
    let launchers = LAUNCHERS.split("; ").chain(SCRIPT_RUNNERS.split("; "));
    let lengths = launchers.filter_map(|launcher| {
        let words: Vec<&str> = launcher.split(' ').collect();
        let starts = words.iter().zip(&part.words).filter(|(name, word)| **name == word.text).count() == words.len();
        (starts && part.words.len() > words.len()).then_some(words.len())
    });
    lengths.max().is_some_and(|length| {
        let inner = Part { words: part.words[length..].to_vec(), ..part.clone() };
        let is_dangerous = |found: LayerVerdict| found.verdict.risk() >= Risk::High;
        carriers::carries(&inner) || check(&inner, roots).is_some_and(is_dangerous) || runs_by_launcher(&inner, roots)
    })
}

/// Judges a part's program.
pub(super) fn check(part: &Part, roots: &[&Path]) -> Option<LayerVerdict> {
    let (program, arguments) = (part.program(), part.arguments());
    let is_unread = part.open_ended || arguments.iter().any(|word| !word.is_static());
    let sends = || LayerVerdict::unknown(format!("{program} sends data only known at run time"));
    by_name(program)
        .or_else(|| interpreters::check(part))
        .or_else(|| check_words(part))
        .or_else(|| (is_unread && holds(SENDING, program)).then(sends))
        .or_else(|| on_files(part, roots))
        .or_else(|| with_scripts(part, roots))
        .or_else(|| builtin(program, arguments))
}

/// Judges programs that are dangerous with any arguments.
fn by_name(program: &str) -> Option<LayerVerdict> {
    let starts = |start: &str| program.starts_with(start);
    Some(if holds(RUINOUS, program) || starts("mkfs") || starts("mkswap") {
        LayerVerdict::ask(Risk::Critical, format!("{program} can make the machine unusable"))
    } else if holds(FAR_REACHING, program) {
        LayerVerdict::high(format!("{program} has effects beyond this command"))
    } else if holds(RENAMING, program) {
        LayerVerdict::unknown(format!("{program} runs text or redefines names"))
    } else if starts("ld-") || starts("ld.so") {
        LayerVerdict::unknown("it runs a program via the loader")
    } else {
        return None;
    })
}

/// Judges words, in variables and options, that name a program or code to run.
fn check_words(part: &Part) -> Option<LayerVerdict> {
    let (program, arguments) = (part.program(), part.arguments());
    let ask = |reason: String| Some(LayerVerdict::high(reason));
    // Only the words in `checked` may be options and strings that run code.
    let (is_text, passes_on) = (holds(TEXT_PROGRAMS, program), holds(PASSING_ON, program));
    let checked = arguments.iter().take_while(|word| !(is_text || passes_on && word.text == "--"));
    if let Some(word) = part.assigns.iter().map(|assign| &assign.value).chain(checked).find(|word| runs(word)) {
        return ask(format!("{} names a program or code to run", shortened(&word.text)));
    }
    let plain = program.strip_suffix('3').unwrap_or(program);
    let entry = RUNS_TEXT.iter().find(|(names, _)| holds(names, program) || holds(names, plain));
    if let Some((_, signs)) = entry {
        let own = arguments.iter().take_while(|word| word.text != "--" || !passes_on);
        let subcommands = subcommands(own.clone());
        let is_cut = |name: &str, sign: &str| name.len() > 1 && sign.starts_with(name) && !holds(WHOLE, name);
        let found = signs.split(' ').find(|sign| match sign.starts_with('-') || sign.ends_with('=') {
            true => own.clone().any(|word| signals(&word.text, sign)),
            // tox accepts its subcommand in any position, as does yarn after `workspaces`.
            false if program == "tox" || subcommands.first() == Some(&"workspaces") => {
                own.clone().any(|word| word.text == *sign)
            }
            // npm accepts any prefix of a subcommand.
            false if program == "npm" => subcommands.iter().any(|name| name == sign || is_cut(name, sign)),
            false => subcommands.contains(sign),
        });
        if let Some(sign) = found {
            return ask(format!("{program} with {sign} can run programs, send data or delete files"));
        }
        let may_be_option = |word: &Word| !word.is_static() && !word.quoted && word.text.starts_with(['$', '`', '-']);
        if part.open_ended || holds(ANY_POSITION, program) && arguments.iter().any(may_be_option) {
            return Some(LayerVerdict::unknown(format!("the options of {program} are only known at run time")));
        }
    }
    None
}

/// Options without a value. A subcommand may follow them.
const FLAGS: &str = "-q -s -v --frozen --locked --offline --quiet --silent --verbose";
/// Long options that are not abbreviations of others, and npm aliases.
const WHOLE: &str = "--extra --global --text --url add in se un";

/// Returns the words that may be the subcommand: the first word, and each word after a possible option value.
fn subcommands<'a>(words: impl Iterator<Item = &'a Word>) -> Vec<&'a str> {
    let (mut found, mut is_value, mut may_follow) = (Vec::new(), false, true);
    for text in words.map(|word| word.text.as_str()) {
        if text.starts_with(['-', '+']) {
            is_value = text.starts_with('-') && !text.contains('=') && !holds(FLAGS, text);
            continue;
        }
        // Some flags take `true` or `false` as their value.
        if matches!(text, "true" | "false") {
            continue;
        }
        // Yarn names a package in the project before its subcommand.
        if !(may_follow || matches!(found.as_slice(), [.., "workspace"] | [.., "workspace", _])) {
            break;
        }
        found.push(text);
        (may_follow, is_value) = (is_value, false);
    }
    found
}

/// Returns true if a word abbreviates a long option. Most programs accept such abbreviations.
pub(super) fn abbreviates(word: &str, option: &str) -> bool {
    let parts = |text: &'_ str| {
        text.split_once('=').map_or((text.to_owned(), None), |(name, value)| (name.to_owned(), Some(value.to_owned())))
    };
    let ((name, value), (full, wanted)) = (parts(word), parts(option));
    let fits = wanted.is_none_or(|wanted| value.is_some_and(|value| wanted.is_empty() || value == wanted));
    name.len() > 2 && name.starts_with("--") && full.starts_with(&name) && fits && !holds(WHOLE, &name)
}

fn high_if(found: bool, reason: impl Into<String>) -> Option<LayerVerdict> {
    found.then(|| LayerVerdict::high(reason))
}

/// Judges programs that change files, permissions or processes.
fn on_files(part: &Part, roots: &[&Path]) -> Option<LayerVerdict> {
    let (program, arguments) = (part.program(), part.arguments());
    match program {
        // The first word of tar may be options without a hyphen.
        "tar" | "gtar" | "bsdtar" => {
            let runs = |word: &Word| !word.text.starts_with('-') && word.text.contains(['P', 'I', 'F']);
            high_if(arguments.first().is_some_and(runs), "tar may run programs or leave the folder")
        }
        "rm" => remove(part, roots),
        "dd" | "shred" | "srm" => high_if(true, format!("{program} overwrites its target")),
        "chmod" => high_if(opens_up(arguments), "it gives everyone access, or changes the permissions of a whole tree"),
        "chown" | "chgrp" => high_if(true, "it changes the owner of files"),
        "kill" => {
            let others = |word: &Word| !word.text.starts_with(['-', '%']) || matches!(word.text.as_str(), "-1");
            high_if(arguments.iter().any(others), "it kills processes it did not start")
        }
        "cd" | "pushd" => {
            let system = arguments.iter().any(|word| paths::location(word, roots) == Location::System);
            high_if(system, "it changes to a system folder")
        }
        "rsync" => {
            high_if(arguments.iter().any(|word| word.text.contains(':')), "it copies to or from another machine")
        }
        _ => None,
    }
}

/// Judges programs with their own language.
fn with_scripts(part: &Part, roots: &[&Path]) -> Option<LayerVerdict> {
    let (program, arguments) = (part.program(), part.arguments());
    match program {
        "awk" | "gawk" | "mawk" | "nawk" | "goawk" | "original-awk" => interpreters::awk(arguments),
        "sed" | "gsed" => interpreters::sed(arguments),
        "for" | "select" => {
            let mut found = Vec::new();
            arguments.first().iter().for_each(|word| environment::check(&word.text, &mut found));
            found.pop()
        }
        "curl" => curl(arguments),
        "sqlite3" | "psql" | "mysql" | "mariadb" | "m4" | "dc" | "gnuplot" | "octave" | "erl" | "sbcl" | "guile"
            if part.stdin != Stdin::Inherited || arguments.iter().any(|word| !word.is_static()) =>
        {
            Some(LayerVerdict::unknown(format!("the input of {program} can run commands")))
        }
        "dc" => high_if(arguments.iter().any(|word| word.text.contains('!')), "its dc program can run commands"),
        "less" | "more" | "most" => {
            let runs = arguments.iter().any(|word| word.text.starts_with('+'));
            high_if(runs, format!("{program} runs the command after `+`"))
        }
        "git" => git::check(arguments, roots),
        _ => None,
    }
}

/// Judges shell builtins. Text in arithmetic, in a test or in a name can be a command.
fn builtin(program: &str, arguments: &[Word]) -> Option<LayerVerdict> {
    let any = |is: &dyn Fn(&Word) -> bool| arguments.iter().any(is);
    let counting = |word: &Word| matches!(&*word.text, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge");
    let is_number = |word: &Word| word.text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    let is_counted = |word: &Word| counting(word) || word.text == "]]" || is_number(word);
    let reason = match program {
        "let" if any(&|word| !word.is_static()) => "arithmetic on run-time values can run commands",
        "declare" | "typeset" | "local" if any(&|word| word.text.starts_with('-') && word.text.contains('n')) => {
            "it makes a variable refer to another"
        }
        "printf"
            if arguments
                .iter()
                .find(|word| !word.text.starts_with('-'))
                .is_some_and(|word| writes_variable(&word.text)) =>
        {
            "`%n` sets a variable"
        }
        // `[[` evaluates the value of a variable as arithmetic again.
        "[[" if any(&counting) && !arguments.iter().all(is_counted) => "a numeric comparison evaluates a variable",
        "[[" if any(&|word| word.text.contains('[')) => "a variable's index can run commands",
        // Text that a shell would run if it read the text again.
        _ if holds(EVALUATING, program) && any(&|word| word.text.contains("$(") || word.text.contains('`')) => {
            return Some(LayerVerdict::unknown(format!("{program} may run text in its arguments")));
        }
        _ => return None,
    };
    Some(LayerVerdict::unknown(reason))
}

/// Builtins that may run text in their arguments.
const EVALUATING: &str = "test [ [[ let printf declare typeset local export readonly read unset expr wait getopts";

/// Returns true if any word after the program may be another program.
pub(crate) fn may_run_others(part: &Part) -> bool {
    holds(FAR_REACHING, part.program()) || holds(RUINOUS, part.program()) || carriers::carries(part)
}

/// Returns true if the words after the program are texts and names, never another program.
pub(crate) fn takes_only_text(program: &str) -> bool {
    holds(TEXT_ONLY, program)
}

/// Returns true if a word is an option that names a program, or contains text with no other use.
fn runs(word: &Word) -> bool {
    RUNNING_TEXTS.split('|').any(|sign| word.text.contains(sign))
        || word.text.starts_with('-') && starts_with_any(RUNNING_OPTIONS, &word.text)
        || word.text.split([' ', '=']).any(|text| text.starts_with("-fplugin") || text.starts_with("-wrapper"))
}

/// Returns true if a printf format contains `%n`, which sets the variable that the next argument names.
fn writes_variable(format: &str) -> bool {
    // bash ignores length modifiers such as the `l` in `%ln`.
    let is_before = |c: char| !c.is_ascii_alphabetic() || "hjlLtz".contains(c);
    format.split('%').skip(1).any(|rest| rest.trim_start_matches(is_before).starts_with('n'))
}

fn curl(arguments: &[Word]) -> Option<LayerVerdict> {
    let sends = |word: &&Word| {
        let text = word.text.to_lowercase();
        let web = ["http://", "https://"].iter().any(|scheme| text.contains(scheme));
        CURL_SENDS.split_ascii_whitespace().any(|sign| signals(&word.text, sign))
            || text.starts_with('@')
            || text.contains("file:")
            || text.contains("://") && !web
    };
    let word = arguments.iter().find(sends)?;
    let shown = shortened(&word.text);
    Some(LayerVerdict::high(format!("curl with {shown} sends data or reads options or files")))
}

/// Returns true if a word is the option `sign`, with or without a value, or a longer option with that prefix.
fn signals(word: &str, sign: &str) -> bool {
    if sign == "-" {
        return word == sign;
    }
    if sign.starts_with("--") || sign.ends_with(['=', ':']) || sign.len() > 2 && sign.starts_with('-') {
        return word.starts_with(sign) || abbreviates(word, sign);
    }
    match sign.strip_prefix('-') {
        // A single letter may be in a cluster, and directly before its value.
        Some(letter) => {
            let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
            let letters = cluster.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            letters.contains(letter)
        }
        None => word == sign,
    }
}

fn remove(part: &Part, roots: &[&Path]) -> Option<LayerVerdict> {
    let option = |word: &&Word| word.text.starts_with('-');
    let options = part.arguments().iter().filter(option);
    let is_recursive = options
        .clone()
        .any(|word| word.text.starts_with("--r") || (!word.text.starts_with("--") && word.text.contains(['r', 'R'])));
    let unguarded = options.clone().any(|word| word.text.starts_with("--no-p"));
    let mut targets = part.arguments().iter().filter(|word| !option(word));
    let whole = |word: &Word| {
        let trimmed = word.text.trim_end_matches('*').trim_end_matches('/');
        matches!(trimmed, "" | "." | ".." | "~" | "./." | "./")
            || trimmed.ends_with("/.")
            || !word.is_static()
            || matches!(paths::location(word, roots), Location::System | Location::Outside)
            || roots.iter().any(|root| Path::new(trimmed) == *root)
    };
    if unguarded || is_recursive && (part.open_ended || targets.clone().any(whole)) {
        return Some(LayerVerdict::ask(Risk::Critical, "it deletes a whole tree, or a path only known at run time"));
    }
    if is_recursive {
        return Some(LayerVerdict::high("it deletes folders recursively"));
    }
    let has_unnamed_targets = part.open_ended || targets.any(|word| word.globs || !word.is_static());
    has_unnamed_targets.then(|| LayerVerdict::high("it deletes files not named individually"))
}

/// Returns true if the mode lets everyone write, sets a special bit such as setuid, or applies to a whole tree.
fn opens_up(arguments: &[Word]) -> bool {
    arguments.iter().any(|word| {
        let text = word.text.as_str();
        let octal = !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        if octal {
            let sets_special_bits = text.len() > 3 && !text.starts_with('0');
            return sets_special_bits || text.ends_with(['2', '3', '6', '7']);
        }
        let option = text.starts_with("-R") || text.starts_with("--r");
        let (classes, rights) = text.split_once(['+', '=']).unwrap_or(("", ""));
        let is_everyone = classes.is_empty() && text.starts_with(['+', '=']) || classes.contains(['a', 'o']);
        let symbolic = classes.chars().all(|c| "ugoa".contains(c));
        option || symbolic && (rights.contains('s') || is_everyone && rights.contains('w'))
    })
}

//! Commands that run other commands: the other command is a part of its own.

use agentd_core::policy::Risk;

use super::{Assign, Part, Stdin, word::Word};
use crate::policy::opinion::Opinion;

/// What a command runs.
pub(super) enum Inner {
    /// A program with its arguments.
    Command { words: Vec<Word>, assigns: Vec<Assign>, open_ended: bool },
    /// A text that a shell reads.
    Script(String),
    /// Whatever comes in.
    StandardInput,
}

/// Shells, which read a script from an option, a file or their input.
const SHELLS: [&str; 10] = ["sh", "bash", "dash", "ksh", "ash", "mksh", "rbash", "hush", "yash", "osh"];
/// Those that know all that bash knows.
const BASHES: [&str; 2] = ["bash", "rbash"];
/// What means something to bash that it does not mean to smaller shells: there `[[ a && b ]]` runs `b`, and the quote
/// in `$'a\'` ends behind the backslash.
const ONLY_BASH: [&str; 9] = ["$'", "$\"", "[[", "((", "<<<", "&>", "<(", ">(", "|&"];
/// Shells with a grammar of their own, in which a text may mean something else than it seems.
const FOREIGN_SHELLS: [&str; 13] =
    ["zsh", "fish", "rsh", "csh", "tcsh", "pwsh", "powershell", "elvish", "nu", "xonsh", "oil", "sash", "ysh"];

/// How a plain wrapper is called: its options, and what stands between them and the command.
struct Shape {
    /// Letters of options that take a value.
    valued: &'static str,
    /// Letters of options that take none.
    flags: &'static str,
    /// Long options that take a value in the next word, where it is not joined by `=`.
    long_valued: &'static [&'static str],
    /// Long options that take none.
    long_flags: &'static [&'static str],
    /// Words between the options and the command.
    operands: usize,
}

const fn shape(valued: &'static str, flags: &'static str) -> Shape {
    Shape { valued, flags, long_valued: &[], long_flags: &[], operands: 0 }
}

/// The wrappers whose command can be told from their own arguments.
fn shape_of(program: &str) -> Option<Shape> {
    Some(match program {
        "nohup" | "setsid" | "nocache" | "builtin" => shape("", "cfw"),
        "command" => shape("", "p"),
        "exec" => shape("a", "cl"),
        "time" => shape("", "p"),
        "nice" => Shape { long_valued: &["adjustment"], ..shape("n", "") },
        "ionice" => shape("cn", "t"),
        "chrt" => Shape { operands: 1, ..shape("", "bfior") },
        "taskset" => Shape { operands: 1, ..shape("", "a") },
        "stdbuf" => Shape { long_valued: &["input", "output", "error"], ..shape("ioe", "") },
        "timeout" => Shape {
            long_valued: &["signal", "kill-after"],
            long_flags: &["foreground", "preserve-status", "verbose"],
            operands: 1,
            ..shape("sk", "v")
        },
        "sudo" => Shape { long_valued: &["user", "group"], ..shape("ugpCDhRT", "ABbEHnPSkK") },
        "doas" => shape("uC", "n"),
        "xargs" => Shape {
            long_valued: &[
                "replace",
                "max-args",
                "max-procs",
                "max-lines",
                "delimiter",
                "arg-file",
                "max-chars",
                "eof",
            ],
            long_flags: &["null", "no-run-if-empty", "verbose", "exit", "interactive", "open-tty"],
            ..shape("InPLdasE", "0rtpxo")
        },
        _ => return None,
    })
}

/// What a part runs besides itself. Notes what makes that dangerous or impossible to know.
pub(super) fn inner(part: &mut Part) -> Vec<Inner> {
    let program = part.program().to_owned();
    let arguments = part.arguments().to_vec();
    let name =
        program.trim_end_matches(".exe").trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if SHELLS.contains(&name) {
        return shell(part, &arguments);
    }
    if FOREIGN_SHELLS.contains(&name) {
        part.findings.push(Opinion::unknown(format!("{name} reads commands in its own way")));
        return shell(part, &arguments);
    }
    match program.as_str() {
        "env" => env(part, &arguments),
        "eval" => script(part, joined(&arguments)),
        "trap" => match arguments.iter().find(|word| !word.text.starts_with('-')) {
            Some(code) => {
                let code = code.clone();
                script(part, known(&code))
            }
            None => Vec::new(),
        },
        "watch" => {
            part.findings.push(Opinion::unknown("it runs a command again and again"));
            script(part, joined(arguments.get(leading_options(&arguments)..).unwrap_or_default()))
        }
        "busybox" | "toybox" => command(part, arguments.clone(), Vec::new(), false),
        "find" => find(part, &arguments),
        "su" | "runuser" => {
            part.findings.push(Opinion::asks(Risk::Critical, format!("{program} runs commands as somebody else")));
            option_script(part, &arguments, 'c', "command")
        }
        "script" => {
            part.findings.push(Opinion::unknown("script runs a shell"));
            option_script(part, &arguments, 'c', "command")
        }
        "flock" => {
            part.findings.push(Opinion::unknown("flock runs a command"));
            option_script(part, &arguments, 'c', "command")
        }
        "ssh" => {
            part.findings.push(Opinion::unknown("it runs commands on another machine"));
            // The command begins somewhere behind the host; each place where it might is looked at.
            let words = arguments.iter().skip_while(|word| word.text.starts_with('-')).skip(1);
            match joined(&words.cloned().collect::<Vec<_>>()) {
                Some(text) if !text.trim().is_empty() => vec![Inner::Script(text)],
                _ => Vec::new(),
            }
        }
        "command"
            if arguments.first().is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V" | "-pv" | "-pV")) =>
        {
            Vec::new()
        }
        _ => match shape_of(&program) {
            Some(shape) => plain(part, &program, &shape, &arguments),
            None => Vec::new(),
        },
    }
}

fn unknown(part: &mut Part, why: impl Into<String>) -> Vec<Inner> {
    part.findings.push(Opinion::unknown(why));
    Vec::new()
}

/// The inner command takes the wrapper's place in the judgement.
fn command(part: &mut Part, words: Vec<Word>, assigns: Vec<Assign>, open_ended: bool) -> Vec<Inner> {
    // What `xargs env` runs stands in what is read.
    if words.is_empty() && part.open_ended {
        return unknown(part, "what it runs is put together while it runs");
    }
    if words.is_empty() {
        return Vec::new();
    }
    part.transparent = true;
    let open_ended = open_ended || part.open_ended;
    vec![Inner::Command { words, assigns, open_ended }]
}

fn script(part: &mut Part, text: Option<String>) -> Vec<Inner> {
    match text {
        Some(text) if text.trim().is_empty() => Vec::new(),
        Some(text) => {
            part.transparent = true;
            vec![Inner::Script(text)]
        }
        None => unknown(part, "what it runs is put together while it runs"),
    }
}

/// A word's text, where it is known.
fn known(word: &Word) -> Option<String> {
    (word.is_static() && !word.globs).then(|| word.text.clone())
}

fn joined(words: &[Word]) -> Option<String> {
    words.iter().map(known).collect::<Option<Vec<_>>>().map(|words| words.join(" "))
}

fn leading_options(words: &[Word]) -> usize {
    words.iter().take_while(|word| word.text.starts_with('-')).count()
}

fn plain(part: &mut Part, program: &str, shape: &Shape, arguments: &[Word]) -> Vec<Inner> {
    if matches!(program, "sudo" | "doas") {
        part.findings.push(Opinion::asks(Risk::Critical, format!("{program} runs commands as somebody else")));
    }
    let Some(at) = skip_options(shape, arguments) else {
        return unknown(part, format!("{program} is called in a way that hides what it runs"));
    };
    let mut rest = arguments.get(at + shape.operands..).unwrap_or_default().to_vec();
    let mut assigns = Vec::new();
    if program == "sudo" {
        assigns = take_assigns(&mut rest);
    }
    if program == "exec" && rest.is_empty() {
        return Vec::new();
    }
    let open_ended = program == "xargs";
    if let Some(mark) = Some(arguments).filter(|_| open_ended).and_then(replaced) {
        for word in rest.iter_mut().filter(|word| word.text.contains(&mark)) {
            word.varies = true;
        }
    }
    if open_ended && rest.is_empty() {
        rest.push(Word::literal("echo"));
    }
    command(part, rest, assigns, open_ended)
}

/// The text in whose place xargs puts what it reads, if it was told to.
fn replaced(arguments: &[Word]) -> Option<String> {
    arguments.iter().enumerate().find_map(|(index, word)| {
        let text = word.text.as_str();
        let rest =
            text.strip_prefix("--replace").or_else(|| text.strip_prefix("-i")).map(|rest| rest.trim_start_matches('='));
        let mark = match (text.strip_prefix("-I"), rest) {
            (Some(""), _) => arguments.get(index + 1).map(|word| word.text.clone()),
            (Some(mark), _) => Some(mark.to_owned()),
            (None, rest) => rest.map(str::to_owned),
        }?;
        Some(if mark.is_empty() { "{}".to_owned() } else { mark })
    })
}

/// Where the options end. None where one is not known, or where a word is not.
fn skip_options(shape: &Shape, words: &[Word]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if !word.is_static() || word.globs {
            return if word.text.starts_with('-') || shape.operands == 0 { None } else { Some(at) };
        }
        let text = word.text.as_str();
        if text == "--" {
            return Some(at + 1);
        }
        if let Some(long) = text.strip_prefix("--") {
            let (name, joined) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
            if shape.long_valued.contains(&name) {
                at += if joined { 1 } else { 2 };
            } else if shape.long_flags.contains(&name) {
                at += 1;
            } else {
                return None;
            }
        } else if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            at += 1;
            // `nice -10` and `chrt -99`.
            if letters.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            for (index, letter) in letters.char_indices() {
                if shape.valued.contains(letter) {
                    if index + letter.len_utf8() == letters.len() {
                        at += 1;
                    }
                    break;
                }
                if !shape.flags.contains(letter) {
                    return None;
                }
            }
        } else {
            return Some(at);
        }
    }
    Some(at)
}

/// `NAME=value` at the front.
fn take_assigns(words: &mut Vec<Word>) -> Vec<Assign> {
    let count = words.iter().take_while(|word| assignment(word).is_some()).count();
    words.drain(..count).filter_map(|word| assignment(&word)).collect()
}

fn assignment(word: &Word) -> Option<Assign> {
    let (name, value) = word.text.split_once('=')?;
    let valid = !name.is_empty() && !name.starts_with('-');
    let value = if word.is_static() { Word::literal(value) } else { Word::unknown(value) };
    valid.then(|| Assign { name: name.to_owned(), value })
}

fn env(part: &mut Part, arguments: &[Word]) -> Vec<Inner> {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        match word.text.as_str() {
            "-i" | "-" | "-0" | "-v" | "--ignore-environment" | "--null" | "--debug" => at += 1,
            "-u" | "--unset" => at += 2,
            "--" => {
                at += 1;
                break;
            }
            text if text.starts_with("--unset=") => at += 1,
            text if text.starts_with('-') => {
                // `-S` splits a text into a command, `-C` goes elsewhere.
                return unknown(part, "env is called in a way that hides what it runs");
            }
            _ => break,
        }
    }
    let mut rest = arguments.get(at..).unwrap_or_default().to_vec();
    let assigns = take_assigns(&mut rest);
    if rest.is_empty() {
        for assign in &assigns {
            crate::policy::checker::environment::check(&assign.name, &mut part.findings);
        }
    }
    command(part, rest, assigns, false)
}

fn shell(part: &mut Part, arguments: &[Word]) -> Vec<Inner> {
    let is_bash = BASHES.contains(&part.program());
    let mut at = 0;
    let mut from_input = false;
    while let Some(word) = arguments.get(at) {
        let text = word.text.as_str();
        if !word.is_static() || word.globs {
            return unknown(part, "a shell runs what is put together while it runs");
        }
        if matches!(text, "-" | "--") {
            at += 1;
            break;
        }
        let Some(letters) = text.strip_prefix(['-', '+']) else { break };
        at += 1;
        match letters {
            "-posix" | "-norc" | "-noprofile" | "-login" | "-verbose" => {}
            _ if letters.starts_with('-') => {
                return unknown(part, "a shell is called in a way that hides what it runs");
            }
            _ if text.starts_with('-') && letters.contains('c') => {
                let takes_name = letters.contains(['o', 'O']);
                let code = arguments.get(at + usize::from(takes_name)..).unwrap_or_default();
                let mut code = code.iter();
                let found = code.find(|word| !(word.text.starts_with(['-', '+']) && word.is_static()));
                let more = code.clone().next().is_some();
                return match found {
                    Some(code) => {
                        let text = known(code);
                        // `$0` and `$@` in it are words of this command.
                        if more && text.as_ref().is_some_and(|text| text.contains('$')) {
                            part.findings.push(Opinion::unknown("a script runs words that stand behind it"));
                        }
                        let plain = text.as_ref().map(|text| text.replace("$((", ""));
                        if !is_bash && plain.is_some_and(|text| ONLY_BASH.iter().any(|sign| text.contains(sign))) {
                            part.findings.push(Opinion::unknown("not every shell reads its script as bash does"));
                        }
                        script(part, text)
                    }
                    None => unknown(part, "a shell is called without its script"),
                };
            }
            _ => {
                from_input |= letters.contains('s');
                at += usize::from(letters.ends_with(['o', 'O']));
            }
        }
    }
    let file = arguments.get(at);
    let special = file.is_some_and(|file| crate::policy::checker::is_device(&file.text));
    if file.is_none() || from_input || special {
        let rule = "a shell runs what it reads from its standard input";
        let risk = if part.stdin == Stdin::Pipe { Risk::Critical } else { Risk::High };
        part.findings.push(Opinion { dynamic: true, ..Opinion::asks(risk, rule) });
        return vec![Inner::StandardInput];
    }
    if file.is_some_and(|file| !file.is_static()) {
        return unknown(part, "a shell runs what is put together while it runs");
    }
    Vec::new()
}

/// A program that takes a script as the value of an option: `-c script`, `-cscript`, `--command=script`.
fn option_script(part: &mut Part, arguments: &[Word], letter: char, long: &str) -> Vec<Inner> {
    let mut scripts = Vec::new();
    for (index, word) in arguments.iter().enumerate() {
        let text = word.text.as_str();
        let next = || arguments.get(index + 1);
        let code = if let Some(rest) = text.strip_prefix("--") {
            match rest.split_once('=') {
                Some((name, value)) if long.starts_with(name) => Some(word.is_static().then(|| value.to_owned())),
                None if !rest.is_empty() && long.starts_with(rest) => next().map(known),
                _ => None,
            }
        } else if text.starts_with('-')
            && let Some(at) = text.find(letter)
        {
            let rest = &text[at + letter.len_utf8()..];
            if rest.is_empty() { next().map(known) } else { Some(word.is_static().then(|| rest.to_owned())) }
        } else {
            None
        };
        match code {
            Some(Some(code)) => scripts.push(Inner::Script(code)),
            Some(None) => part.findings.push(Opinion::unknown("what it runs is put together while it runs")),
            None => {}
        }
    }
    scripts
}

fn find(part: &mut Part, arguments: &[Word]) -> Vec<Inner> {
    let mut inner = Vec::new();
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += 1;
        if !matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let rest = arguments.get(at..).unwrap_or_default();
        let length = rest.iter().position(|word| matches!(word.text.as_str(), ";" | "+")).unwrap_or(rest.len());
        let words = rest[..length].iter().map(|word| {
            // The name of a file stands in its place.
            if word.text.contains("{}") { Word { varies: true, ..word.clone() } } else { word.clone() }
        });
        inner.push(Inner::Command { words: words.collect(), assigns: Vec::new(), open_ended: true });
        at += length;
    }
    part.findings.extend((!inner.is_empty()).then(|| Opinion::unknown("find runs a command for what it finds")));
    inner
}

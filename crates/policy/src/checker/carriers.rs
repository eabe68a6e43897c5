//! Programs that run other programs. Their syntax is not parsed: each later word may begin a command, and each string
//! may be a script. The guesses can only make a verdict stricter.

use agentd_core::policy::Risk;

use super::{interpreters::is_device, tables::holds};
use crate::{
    command::{Line, Part, Stdin, assignment, guesses, read, word::Word},
    opinion::LayerVerdict,
};

/// Programs that run the command in their arguments.
const WRAPPERS: &str = "nohup setsid nocache builtin command exec time nice ionice chrt taskset stdbuf timeout sudo doas \
    xargs env busybox toybox";
/// Programs that run a string in their arguments.
const READERS: &str = "eval trap watch su runuser script flock ssh";
/// Shells, which read a script from an option, a file or their input.
const SHELLS: &str = "sh bash dash ksh ash mksh rbash hush yash osh";
/// Shells with a different grammar, in which text may not mean what it seems to.
const FOREIGN_SHELLS: &str = "zsh fish rsh csh tcsh pwsh powershell elvish nu xonsh oil sash ysh";
/// Maximum number of words after a carrier program that are tried as the start of a command.
const MAX_WORDS: usize = 64;
/// Maximum number of commands that are guessed for one command.
const MAX_GUESSES: usize = 1024;
/// Maximum nesting of scripts.
const MAX_DEPTH: usize = 6;

/// Returns true if the program runs a command from its arguments.
pub(crate) fn carries(part: &Part) -> bool {
    let program = part.program();
    let executes = |word: &Word| word.text.starts_with("-exec") || word.text.starts_with("-ok") || !word.is_static();
    holds(WRAPPERS, program)
        || holds(READERS, program)
        || shell(program).is_some()
        || program == "find" && part.arguments().iter().any(executes)
}

/// Returns the command without a leading `time`, `timeout` or `env NAME=value`.
pub(crate) fn without_wrappers(part: &Part) -> Part {
    let mut part = part.clone();
    while let Some(count) = wrapper_length(&part.words) {
        part.words.drain(..count);
        let assigns: Vec<_> = part.words.iter().map_while(assignment).collect();
        part.words.drain(..assigns.len());
        part.assigns.extend(assigns);
    }
    part
}

/// Returns the number of words in a `time`, `timeout` or `env` prefix, without the assignments after `env`.
fn wrapper_length(words: &[Word]) -> Option<usize> {
    let text = |at: usize| words.get(at).filter(|word| word.is_plain()).map(|word| word.text.as_str());
    let is_time = |text: &str| text.trim_end_matches(['s', 'm']).bytes().all(|byte| byte.is_ascii_digit());
    match text(0)? {
        "time" => Some(1),
        "timeout" => text(1).filter(|time| is_time(time)).map(|_| 2),
        "env" => words.get(1).and_then(assignment).map(|_| 1),
        _ => None,
    }
}

/// Returns the name of a shell without its version, and true if it is one of [`FOREIGN_SHELLS`].
fn shell(program: &str) -> Option<(&str, bool)> {
    let name =
        program.trim_end_matches(".exe").trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if holds(SHELLS, name) { Some((name, false)) } else { holds(FOREIGN_SHELLS, name).then_some((name, true)) }
}

/// Returns all commands that the part may run, or `None` if there are too many to judge.
pub(crate) fn inner(part: &Part) -> Option<Vec<Part>> {
    let mut found = Vec::new();
    collect(part, MAX_DEPTH, &mut found).then_some(found)
}

fn collect(part: &Part, depth: usize, found: &mut Vec<Part>) -> bool {
    let arguments = part.arguments();
    if depth == 0 || arguments.len() > MAX_WORDS {
        return false;
    }
    let lists = matches!(part.program(), "xargs" | "find");
    for (at, word) in arguments.iter().enumerate() {
        let mut words: Vec<Word> = arguments[at..].to_vec();
        let mut script = word.text.clone();
        if word.text.starts_with('-') {
            let Some(text) = inline_command(&word.text) else { continue };
            words[0] = Word { raw: text.clone(), text, ..word.clone() };
            // The words after such a string are arguments of its last command.
            script = join(&words);
        }
        let assigns: Vec<_> = words.iter().map_while(assignment).collect();
        words.drain(..assigns.len());
        words.iter_mut().filter(|word| lists && word.text.contains("{}")).for_each(|word| word.varies = true);
        let open_ended = part.open_ended || lists;
        found.push(Part { words, assigns, open_ended, stdin: part.stdin, guessed: true, ..Part::default() });
        // env reads `\_` as a blank.
        let blank = script.replace(r"\_", " ");
        if blank != script && !scripts(&blank, part.stdin, depth, found) {
            return false;
        }
        if !scripts(&script, part.stdin, depth, found) {
            return false;
        }
    }
    let reads = part.program() == "eval" || part.program() == "ssh";
    found.len() <= MAX_GUESSES && (!reads || scripts(&join(arguments), part.stdin, depth, found))
}

/// Returns the command inside an option: `-S'rm x'` and `--split-string='rm x'` for env, `-c'rm x'` for su.
fn inline_command(option: &str) -> Option<String> {
    let text = match option.strip_prefix("--") {
        Some(long) => long.split_once('=')?.1,
        None => option.split_once(['S', 'c', '='])?.1,
    };
    (!text.is_empty()).then(|| text.to_owned())
}

/// Collects the commands in `text`, if it may be more than a word. Returns false if a limit is exceeded.
fn scripts(text: &str, stdin: Stdin, depth: usize, found: &mut Vec<Part>) -> bool {
    if !text.contains(|c: char| c.is_whitespace() || ";&|<>()`$'\"\\".contains(c)) {
        return true;
    }
    let (parts, complete) = guesses(text);
    let parts = parts.into_iter().map(|part| match part.stdin {
        Stdin::Inherited => Part { stdin, ..part },
        _ => part,
    });
    let parts: Vec<Part> = parts.collect();
    let all = complete && parts.iter().filter(|part| carries(part)).all(|part| collect(part, depth - 1, found));
    found.extend(parts);
    all && found.len() <= MAX_GUESSES
}

/// Judges a carrier program itself.
pub(super) fn check(part: &Part) -> Vec<LayerVerdict> {
    let (program, arguments) = (part.program(), part.arguments());
    if !carries(part) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut unknown = |reason: String| found.push(LayerVerdict::unknown(reason));
    if arguments.iter().any(|word| !word.is_static()) {
        unknown("what it runs is only known at run time".to_owned());
    }
    if arguments.len() > MAX_WORDS {
        found.push(LayerVerdict {
            dynamic: true,
            ..LayerVerdict::ask(Risk::Critical, format!("{program} has too many arguments to review"))
        });
        return found;
    }
    let options = arguments.first().is_some_and(|word| word.text.starts_with('-'));
    let is_lookup = program == "command" && arguments.first().is_some_and(|word| matches!(&*word.text, "-v" | "-V"));
    match program {
        "find" => unknown("find runs a command for each match".to_owned()),
        "watch" | "script" | "flock" | "ssh" => unknown(format!("{program} has effects beyond this command")),
        "sudo" | "doas" | "su" | "runuser" => {
            found.push(LayerVerdict::ask(Risk::Critical, format!("{program} runs commands as another user")));
        }
        "eval" => script(&join(arguments), &mut unknown),
        "trap" => arguments.iter().take(1).for_each(|word| script(&word.text, &mut unknown)),
        _ if shell(program).is_some() => found.extend(check_shell(part)),
        _ if part.open_ended && arguments.is_empty() => unknown("it reads what it runs from a file".to_owned()),
        "xargs" if arguments.iter().any(|word| holds(WRAPPERS, &word.text) || shell(&word.text).is_some()) => {
            unknown("it reads what it runs from a file".to_owned());
        }
        _ if options && !is_lookup => unknown(format!("{program} has options and may run something else")),
        _ => {}
    }
    found
}

fn join(words: &[Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

fn script(text: &str, unknown: &mut impl FnMut(String)) {
    if let Line::Other(_) = read(text) {
        unknown("it runs a script with shell syntax".to_owned());
    }
}

/// Judges the call of a shell.
fn check_shell(part: &Part) -> Vec<LayerVerdict> {
    let (program, arguments) = (part.program(), part.arguments());
    let mut found = Vec::new();
    if shell(program).is_some_and(|(_, foreign)| foreign) {
        found.push(LayerVerdict::unknown(format!("{program} has its own command syntax")));
    }
    let first = arguments.first().map_or("", |word| word.text.as_str());
    let letters = first.strip_prefix('-').unwrap_or_default();
    if letters.contains('c') && letters.chars().all(|c| "cleux".contains(c)) {
        match arguments.get(1..).unwrap_or_default() {
            [] => found.push(LayerVerdict::unknown("a shell is called without a script")),
            [code, more @ ..] => {
                script(&code.text, &mut |reason| found.push(LayerVerdict::unknown(reason)));
                if !more.is_empty() && code.text.contains('$') {
                    found.push(LayerVerdict::unknown("a script runs its arguments"));
                }
            }
        }
        return found;
    }
    let options = first.starts_with(['-', '+']);
    if arguments.is_empty() || options || is_device(first) {
        let rule = match options {
            true => "a shell is called in a way that hides what it runs",
            false => "a shell runs commands from standard input",
        };
        let risk = if part.stdin == Stdin::Pipe { Risk::Critical } else { Risk::High };
        found.push(LayerVerdict { dynamic: true, ..LayerVerdict::ask(risk, rule) });
    }
    found
}

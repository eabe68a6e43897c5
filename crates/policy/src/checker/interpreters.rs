//! Judges interpreters by the source of their code: in the command, or from a source that cannot be read beforehand.
//! Programs for sed and awk are not parsed: all but a few harmless forms are assumed to be dangerous.

use super::tables::{INTERPRETERS, RUNNING_MODULES, holds, starts_with_any};
use crate::{
    command::{Part, Stdin, word::Word},
    opinion::LayerVerdict,
};

/// Prefixes of long options that are followed by code.
const INLINE_OPTIONS: [&str; 10] =
    ["eval", "print", "run", "require", "import", "exec", "code", "loader", "experimental-loader", "process-code"];

/// Judges interpreters that run code from a source other than a file.
pub(super) fn check(part: &Part) -> Option<LayerVerdict> {
    let program = part.program().to_lowercase();
    let base = program.trim_end_matches(".exe").trim_end_matches('t');
    let base = base.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let base = if base.is_empty() { program.as_str() } else { base };
    let (_, letters) = INTERPRETERS.iter().find(|(names, _)| holds(names, base) || holds(names, &program))?;
    let is_python = base.ends_with("python") || base == "pypy";
    let arguments = part.arguments();
    let mut file = false;
    // True if the word may be the value of the previous option. In that case, the next word may be an option again.
    let mut may_be_value = false;
    for (index, word) in arguments.iter().enumerate() {
        let text = word.text.as_str();
        if !text.starts_with('-') || text.len() == 1 {
            if matches!(text, "eval" | "repl") || !word.is_static() || word.globs {
                return Some(LayerVerdict::unknown(format!("{program} runs code given in the command")));
            }
            if is_device(text) {
                return Some(LayerVerdict::unknown(format!("{program} runs code from an open file")));
            }
            if may_be_value {
                may_be_value = false;
                continue;
            }
            file = text != "-";
            break;
        }
        let long_option = text.strip_prefix("--").unwrap_or_default();
        let long_inline =
            !long_option.is_empty() && INLINE_OPTIONS.iter().any(|option| long_option.starts_with(option));
        let cluster = !text.starts_with("--") && text[1..].contains(|c| letters.contains(c));
        // `python -m` names a module, whose characters are not options.
        let module = is_python && text.starts_with("-m");
        if long_inline || cluster && !module {
            return Some(LayerVerdict::high(format!("{program} runs code given in the command")));
        }
        if module {
            return check_module(&program, text, arguments.get(index + 1));
        }
        may_be_value =
            !long_option.is_empty() && !long_option.contains('=') || matches!(text, "-W" | "-X" | "-C" | "-S" | "-f");
    }
    let reads_stdin = !file && (part.stdin != Stdin::Inherited || arguments.iter().any(|word| word.text == "-"));
    let shows_info =
        arguments.iter().any(|word| matches!(word.text.as_str(), "--version" | "-V" | "-v" | "--help" | "-h"));
    (reads_stdin && !shows_info).then(|| LayerVerdict::unknown(format!("{program} runs code from standard input")))
}

fn check_module(program: &str, option: &str, next: Option<&Word>) -> Option<LayerVerdict> {
    let name = match option.strip_prefix("-m") {
        Some("") | None => next.map_or("", |word| word.text.as_str()),
        Some(name) => name,
    };
    holds(RUNNING_MODULES, name)
        .then(|| LayerVerdict::high(format!("{program} -m {name} runs code in its arguments or serves files")))
}

/// Returns true if a path names something that a process has open.
pub(super) fn is_device(path: &str) -> bool {
    let path: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    matches!(path.first(), Some(&("dev" | "proc")))
        || path.windows(2).any(|pair| matches!(pair, ["..", "dev" | "proc"]))
}

/// Substrings of an awk program that can run commands or write files, wherever they occur.
const AWK_SIGNS: [&str; 6] = ["system", "|", "getline", ">", "@load", "@include"];
/// Prefixes of awk options that load code, read the program from a file, or write files.
const AWK_OPTIONS: &str = "-f -i -l -E -o -p -d -D --file --load --include --exec --pro --pretty --dump --debug";
/// Options of sed that do not affect what its program can do.
const SED_OPTIONS: &str = "-n -E -r -s -z -u -i -nE -nr -ni -En -Ei -ri -ne -e -Ee --quiet --silent --regexp-extended \
    --in-place --expression";

/// Judges an awk call.
pub(super) fn awk(arguments: &[Word]) -> Option<LayerVerdict> {
    for word in arguments {
        let text = word.text.as_str();
        // `@name(…)` calls the function named in the variable.
        if AWK_SIGNS.iter().any(|sign| text.contains(sign)) || text.contains('@') && text.contains('(') {
            return Some(LayerVerdict::high("its awk program can run commands or write files"));
        }
        if starts_with_any(AWK_OPTIONS, text) {
            return Some(LayerVerdict::high("awk reads its program from a file, loads code or writes files"));
        }
    }
    let unknown = arguments.iter().any(|word| !word.is_static());
    unknown.then(|| LayerVerdict::unknown("its awk program is only known at run time"))
}

/// Returns true if a sed call writes the files that it names.
pub(super) fn edits(part: &Part) -> bool {
    let in_place = |text: &str| text.starts_with("--i") || text.starts_with('-') && text[1..].contains('i');
    matches!(part.program(), "sed" | "gsed") && part.arguments().iter().any(|word| in_place(&word.text))
}

/// Judges a sed call. A single program that prints or deletes lines, or replaces text, is harmless.
pub(super) fn sed(arguments: &[Word]) -> Option<LayerVerdict> {
    if arguments.iter().any(|word| !word.is_static()) {
        return Some(LayerVerdict::unknown("its sed program is only known at run time"));
    }
    let options = arguments.iter().filter(|word| word.text.starts_with('-') && word.text.len() > 1);
    let program = arguments.iter().find(|word| !word.text.starts_with('-')).map_or("", |word| &word.text);
    let several = arguments.iter().filter(|word| matches!(word.text.as_str(), "-e" | "--expression")).count() > 1;
    let harmless = options.clone().all(|word| holds(SED_OPTIONS, &word.text))
        && !several
        && (prints(program) || replaces(program));
    (!harmless).then(|| LayerVerdict::high("its sed program can run commands, or read and write files"))
}

/// Matches `1,20p`, `$d` and the like.
fn prints(program: &str) -> bool {
    let address = program.strip_suffix(['p', 'd', '=']).unwrap_or("?");
    address.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'$'))
}

/// Matches `s/a/b/g`. Brackets and line ends are excluded, because parsers have disagreed on where such a program ends.
fn replaces(program: &str) -> bool {
    let Some(body) = program.strip_prefix("s") else { return false };
    let Some(mark) = body.chars().next().filter(|mark| "/|,#:".contains(*mark)) else { return false };
    let pieces: Vec<&str> = body[1..].split(mark).collect();
    let [pattern, text, flags] = pieces.as_slice() else { return false };
    let plain = |piece: &str| !piece.contains(['[', ']', '\n', ';', '{', '}']) && !piece.ends_with('\\');
    plain(pattern) && plain(text) && flags.chars().all(|c| "gpI".contains(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_simple_sed_scripts_are_harmless() {
        for program in ["1,20p", "$d", "p", "s/a/b/", "s|/usr|/opt|g", r"s/a\n/b/2p"] {
            assert!(prints(program) || replaces(program), "{program}");
        }
        for program in [
            "",
            "e id",
            "1e id",
            "w x",
            "r ../x",
            "s/a/b/e",
            "s/a/b/w x",
            "s/a/b/;e id",
            "s/[]/X/;#]/id/e",
            r"s/a\/b/c/",
            "s;a;b;e",
            "/x/p",
            "s/a/b",
            "p;e id",
            "1,20p\ne id",
        ] {
            assert!(!prints(program) && !replaces(program), "{program}");
        }
    }
}

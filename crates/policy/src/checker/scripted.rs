//! Programs that are given a program of their own. None is read: what is not one of the few harmless forms may do anything.

use agentd_core::policy::Risk;

use crate::{
    command::{Part, word::Word},
    opinion::LayerVerdict,
};

/// Texts in an awk program that run commands or write files, wherever they stand.
const AWK_SIGNS: [&str; 6] = ["system", "|", "getline", ">", "@load", "@include"];
/// Options of awk that load code, read the program from a file, or write files, by how they begin.
const AWK_OPTIONS: &str = "-f -i -l -E -o -p -d -D --file --load --include --exec --pro --pretty --dump --debug";
/// Options of sed that say nothing of a program.
const SED_OPTIONS: &str = "-n -E -r -s -z -u -i -nE -nr -ni -En -Ei -ri -ne -e -Ee --quiet --silent --regexp-extended \
    --in-place --expression";

/// Danger of a call of awk.
pub(super) fn awk(arguments: &[Word]) -> Option<LayerVerdict> {
    for word in arguments {
        let text = word.text.as_str();
        // `@name(…)` calls the function whose name the variable holds.
        if AWK_SIGNS.iter().any(|sign| text.contains(sign)) || text.contains('@') && text.contains('(') {
            return Some(LayerVerdict::asks(Risk::High, "its awk program can run commands or write files"));
        }
        if AWK_OPTIONS.split_ascii_whitespace().any(|option| text.starts_with(option)) {
            return Some(LayerVerdict::asks(
                Risk::High,
                "awk reads its program from a file, loads code or writes files",
            ));
        }
    }
    let unknown = arguments.iter().any(|word| !word.is_static());
    unknown.then(|| LayerVerdict::unknown("its awk program is put together while it runs"))
}

/// Returns whether a call of sed writes the files that it is given.
pub(super) fn edits(part: &Part) -> bool {
    let in_place = |text: &str| text.starts_with("--i") || text.starts_with('-') && text[1..].contains('i');
    matches!(part.program(), "sed" | "gsed") && part.arguments().iter().any(|word| in_place(&word.text))
}

/// Danger of a call of sed: one program that prints or deletes lines, or replaces a text, is harmless.
pub(super) fn sed(arguments: &[Word]) -> Option<LayerVerdict> {
    if arguments.iter().any(|word| !word.is_static()) {
        return Some(LayerVerdict::unknown("its sed program is put together while it runs"));
    }
    let known = |text: &str| SED_OPTIONS.split_ascii_whitespace().any(|option| option == text);
    let options = arguments.iter().filter(|word| word.text.starts_with('-') && word.text.len() > 1);
    let program = arguments.iter().find(|word| !word.text.starts_with('-')).map_or("", |word| &word.text);
    let several = arguments.iter().filter(|word| matches!(word.text.as_str(), "-e" | "--expression")).count() > 1;
    let harmless = options.clone().all(|word| known(&word.text)) && !several && (prints(program) || replaces(program));
    (!harmless).then(|| LayerVerdict::asks(Risk::High, "its sed program can run commands, or read and write files"))
}

/// `1,20p`, `$d` and the like.
fn prints(program: &str) -> bool {
    let address = program.strip_suffix(['p', 'd', '=']).unwrap_or("?");
    address.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'$'))
}

/// `s/a/b/g`, without brackets and line ends, in which programs have ended elsewhere for others.
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
    fn only_a_few_programs_of_sed_are_harmless() {
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

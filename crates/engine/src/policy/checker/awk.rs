//! What an awk program could do.

use agentd_core::policy::Risk;

use crate::policy::{command::word::Word, opinion::Opinion};

/// Texts in a program that run commands or write files, wherever they stand.
const SIGNS: [&str; 6] = ["system", "|", "getline", ">", "@load", "@include"];
/// Options that load code, read the program from a file, or write files.
const OPTIONS: [&str; 16] = [
    "-f",
    "-i",
    "-l",
    "-E",
    "-o",
    "-p",
    "-d",
    "-D",
    "--file",
    "--load",
    "--include",
    "--exec",
    "--pro",
    "--pretty",
    "--dump",
    "--debug",
];

/// What is dangerous about it.
pub(super) fn check(arguments: &[Word]) -> Option<Opinion> {
    let mut value = false;
    for word in arguments {
        let text = word.text.as_str();
        if SIGNS.iter().any(|sign| text.contains(sign)) || calls_by_name(text) {
            return Some(Opinion::asks(Risk::High, "its awk program can run commands or write files"));
        }
        if std::mem::take(&mut value) {
            continue;
        }
        if OPTIONS.iter().any(|option| text.starts_with(option)) {
            return Some(Opinion::asks(Risk::High, "awk reads its program from a file, loads code or writes files"));
        }
        value = matches!(text, "-v" | "-F" | "--assign" | "--field-separator");
        if !text.starts_with('-') {
            // This is the program. What follows are files.
            let unknown = !word.is_static();
            return unknown.then(|| Opinion::unknown("its awk program is put together while it runs"));
        }
    }
    None
}

/// `@name(…)` calls the function whose name the variable holds.
fn calls_by_name(text: &str) -> bool {
    text.match_indices('@').any(|(at, _)| {
        let rest = &text[at + 1..];
        let name = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
        name > 0 && rest[name..].starts_with('(')
    })
}

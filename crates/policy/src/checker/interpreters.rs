//! Interpreters: whether the code that they run stands in the command, or comes from where nobody can read it before.

use agentd_core::policy::Risk;

use super::tables::{INTERPRETERS, RUNNING_MODULES, holds};
use crate::{
    command::{Part, Stdin, word::Word},
    opinion::LayerVerdict,
};

/// Long options behind which code stands, by how they begin.
const INLINE: [&str; 10] =
    ["eval", "print", "run", "require", "import", "exec", "code", "loader", "experimental-loader", "process-code"];

/// Interpreters that are given code in place of a file.
pub(super) fn check(part: &Part) -> Option<LayerVerdict> {
    let program = part.program().to_lowercase();
    let base = program.trim_end_matches(".exe").trim_end_matches('t');
    let base = base.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let base = if base.is_empty() { program.as_str() } else { base };
    let (_, letters) = INTERPRETERS.iter().find(|(names, _)| holds(names, base) || holds(names, &program))?;
    let is_python = base.ends_with("python") || base == "pypy";
    let arguments = part.arguments();
    let mut file = false;
    // The word may be the value of the option before it, and the next one an option again.
    let mut may_be_value = false;
    for (index, word) in arguments.iter().enumerate() {
        let text = word.text.as_str();
        if !text.starts_with('-') || text.len() == 1 {
            if matches!(text, "eval" | "repl") || !word.is_static() || word.globs {
                return Some(LayerVerdict::unknown(format!("{program} runs code that is part of the command")));
            }
            if is_device(text) {
                return Some(LayerVerdict::unknown(format!("{program} runs what it reads from an open file")));
            }
            if may_be_value {
                may_be_value = false;
                continue;
            }
            file = text != "-";
            break;
        }
        let long = text.strip_prefix("--").unwrap_or_default();
        let long_inline = !long.is_empty() && INLINE.iter().any(|option| long.starts_with(option));
        let cluster = !text.starts_with("--") && text[1..].contains(|c| letters.contains(c));
        // `python -m` names a module, and its letters are no options.
        let module = is_python && text.starts_with("-m");
        if long_inline || cluster && !module {
            return Some(LayerVerdict::asks(Risk::High, format!("{program} runs code that is part of the command")));
        }
        if module {
            return module_of(&program, text, arguments.get(index + 1));
        }
        may_be_value = !long.is_empty() && !long.contains('=') || matches!(text, "-W" | "-X" | "-C" | "-S" | "-f");
    }
    let fed = !file && (part.stdin != Stdin::Inherited || arguments.iter().any(|word| word.text == "-"));
    let asked = arguments.iter().any(|word| matches!(word.text.as_str(), "--version" | "-V" | "-v" | "--help" | "-h"));
    (fed && !asked).then(|| LayerVerdict::unknown(format!("{program} runs what it reads from its standard input")))
}

fn module_of(program: &str, option: &str, next: Option<&Word>) -> Option<LayerVerdict> {
    let name = match option.strip_prefix("-m") {
        Some("") | None => next.map_or("", |word| word.text.as_str()),
        Some(name) => name,
    };
    holds(RUNNING_MODULES, name).then(|| {
        LayerVerdict::asks(Risk::High, format!("{program} -m {name} runs code of its arguments, or serves files"))
    })
}

/// Returns whether a path names something that a process has open.
pub(super) fn is_device(path: &str) -> bool {
    let path: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    matches!(path.first(), Some(&("dev" | "proc")))
        || path.windows(2).any(|pair| matches!(pair, ["..", "dev" | "proc"]))
}

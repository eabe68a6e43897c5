//! Rules by prefix that are offered beside the exact one: of programs whose further words say what to build, test or
//! record, and name nothing to run. Others a person writes by hand.

use super::SHELL_TOOL;
use crate::command::Part;

/// Programs, each with the first words behind it that may begin a rule; none where the program alone may.
const OFFERED: [(&str, &[&str]); 25] = [
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "nextest", "test"]),
    ("ctest", &[]),
    ("dotnet", &["build", "format", "test"]),
    ("eslint", &[]),
    ("git", &["add", "commit", "status"]),
    ("go", &["build", "fmt", "test", "vet"]),
    ("gofmt", &[]),
    ("gradle", &["build", "check", "test"]),
    ("jest", &[]),
    ("mkdir", &[]),
    ("mvn", &["compile", "test", "verify"]),
    ("mypy", &[]),
    ("ninja", &[]),
    ("npm", &["test"]),
    ("phpunit", &[]),
    ("pnpm", &["test"]),
    ("prettier", &[]),
    ("pytest", &[]),
    ("rspec", &[]),
    ("ruff", &["check", "format"]),
    ("rustfmt", &[]),
    ("swift", &["build", "test"]),
    ("tsc", &[]),
    ("vitest", &[]),
    ("yarn", &["test"]),
];

/// The rule that covers all commands that begin as this one does, if one is offered.
pub(super) fn rule(part: &Part) -> Option<String> {
    let mut words = part.words.iter().map(|word| word.text.as_str());
    let (program, first) = (words.next()?, words.next());
    let (_, subcommands) = OFFERED.iter().find(|(name, _)| *name == program)?;
    let prefix = match first {
        _ if subcommands.is_empty() => program.to_owned(),
        Some(first) if subcommands.contains(&first) => format!("{program} {first}"),
        _ => return None,
    };
    Some(format!("{SHELL_TOOL}: {prefix} *"))
}

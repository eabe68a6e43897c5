//! Grants: rules with which the user allowed calls for a session or permanently.
//!
//! - `run_bash_command: git status`: exactly this simple command in its normal form, including variables and
//!   redirections. A start folder precedes the command: `run_bash_command: [in /project] make`. Without a start folder,
//!   the rule applies to commands that start in the default folder. `run_bash_command: [at /home/me/app] make` names a
//!   host folder that is in the project, whatever its name in the session.
//! - `run_bash_command: printf x | make -f -`: exactly this pipeline. A rule for a single command does not apply to
//!   that command if input is piped into it.
//! - `run_bash_command: cargo test *`: every command that begins with these words, provided that it consists of known
//!   words, runs no other command, sets only harmless variables, redirects output only to output files, names no secret
//!   and no path outside the session's folders, and is of medium risk at most. The command may be timed, and may run in
//!   a subfolder. `judge::place` defines which other commands may be on the same line. Such a rule is only offered for
//!   the programs in `judge::patterns` and for a single session; others are written by hand.
//! - `write_file`: every call to this tool of medium risk at most.
//! - `deploy {"to":"test"}`: exactly this call, for a tool that runs something.
//! - `mcp_lab_weather`, `mcp_lab_*`: every call to this MCP tool, or to any tool of this MCP server, of medium risk at
//!   most. The rule is built from the names of the server and the tool, even if models see the tool under another name.
//!
//! In a question, a rule names folders as the session does. `/project` is a different folder in another session, and a
//! rule without a folder means the project in one session and the workspace in another. A permanent grant in this form
//! would apply to folders that the user was never asked about. A permanent grant therefore names the location:
//! `[at PATH]` with the host path if the folder is in the project or in an added folder, otherwise the session's name,
//! such as `[in /]` for the workspace.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use agentd_core::{
    folder::{FOLDERS, Mounts},
    grant::Grant,
    guarded::GuardedNames,
    policy::Risk,
    ports::Workspace,
    tool::StartFolder,
};

use super::{
    PROJECT, SHELL_TOOL,
    checker::{carriers, environment, files, holds, is_confined, is_narrow_glob, programs::runs_by_launcher},
    command::{Part, Redirect, Stdin, assignment, exact, word::Word},
};

/// Grants that apply to a call.
pub(super) struct Grants<'a> {
    rules: Vec<&'a str>,
    pub(super) scope: PrefixScope<'a>,
}

/// Limits for commands that a rule by prefix covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrefixScope<'a> {
    /// Folders of the session, which such a command must not leave.
    pub(super) roots: &'a [&'a Path],
    /// Guarded file names, which such a command must not write.
    pub(super) guarded: &'a GuardedNames,
}

/// Text that a rule must contain to cover a call.
pub(super) enum NeededText<'a> {
    /// A simple command or a whole pipeline that starts in this folder. Rules may also use one of the other names of
    /// the folder.
    Pipeline { parts: &'a [Part], folder: Option<&'a str>, other_names: &'a [String] },
    /// A simple command that starts in a subfolder. Only a rule by prefix can cover it.
    Below(&'a Part),
    /// Any call to a tool.
    Tool(&'a str),
    /// A single call to a tool, with exactly these arguments.
    Call(&'a str),
}

impl<'a> Grants<'a> {
    pub(super) fn new(rules: impl IntoIterator<Item = &'a Grant>, scope: PrefixScope<'a>) -> Self {
        Self { rules: rules.into_iter().map(|grant| grant.rule.as_str()).collect(), scope }
    }

    /// Returns these grants with one more rule.
    pub(super) fn and<'b>(&'b self, rule: &'b str) -> Grants<'b> {
        Grants { rules: self.rules.iter().copied().chain([rule]).collect(), scope: self.scope }
    }

    /// Returns the rule that covers the wanted text at this risk.
    pub(super) fn covering(&self, wanted: &NeededText<'_>, risk: Risk) -> Option<&'a str> {
        if risk == Risk::Critical {
            return None;
        }
        let exact = wanted.exact();
        if risk <= wanted.highest_covered_risk()
            && let Some(exact) = exact
            && let Some(rule) = self.rules.iter().find(|rule| **rule == exact || wanted.matches_other_name(rule))
        {
            return Some(rule);
        }
        let part = match wanted {
            NeededText::Pipeline { parts: [part], folder: None, .. } => part,
            NeededText::Below(part) => *part,
            _ => return None,
        };
        self.rules.iter().copied().find(|rule| risk <= Risk::Medium && self.scope.covers(rule, part))
    }
}

impl NeededText<'_> {
    /// Returns the rule that names exactly this text, or `None` if no such rule is possible.
    pub(super) fn exact(&self) -> Option<String> {
        match self {
            Self::Pipeline { parts, folder, .. } => {
                // A rule for the command alone does not cover the command with piped input.
                let alone = parts.first().is_none_or(|first| first.stdin != Stdin::Pipe);
                let prefix = folder.map(|folder| format!("[in {folder}] ")).unwrap_or_default();
                let known = alone && parts.iter().all(Part::is_static);
                let exact = known.then(|| format!("{SHELL_TOOL}: {prefix}{}", exact(parts)));
                // As a rule, `ls *` would match every `ls`.
                exact.filter(|exact| !exact.ends_with(" *"))
            }
            Self::Below(_) => None,
            Self::Tool(name) => Some((*name).to_owned()),
            Self::Call(call) => Some((*call).to_owned()),
        }
    }

    /// Returns true if a rule names exactly this text with another name of the folder. Requires that an exact rule
    /// exists.
    fn matches_other_name(&self, rule: &str) -> bool {
        let Self::Pipeline { parts, other_names, .. } = self else { return false };
        let Some(text) = command_of(rule) else { return false };
        let command = other_names.iter().find_map(|name| text.strip_prefix(name.as_str())?.strip_prefix(' '));
        command.is_some_and(|command| command == exact(parts))
    }

    /// Returns the highest risk that an exact rule can cover.
    pub(super) fn highest_covered_risk(&self) -> Risk {
        match self {
            Self::Pipeline { .. } | Self::Call(_) => Risk::High,
            Self::Tool(_) | Self::Below(_) => Risk::Medium,
        }
    }
}

/// Returns the command that a rule names, if the rule is about commands.
fn command_of(rule: &str) -> Option<&str> {
    rule.strip_prefix(SHELL_TOOL)?.strip_prefix(": ")
}

/// Returns true if the word sets a make variable other than by assigning a plain value to a known name: `NAME:=…`,
/// `NAME!=…`, `.NAME=…`, or a value that make expands again.
fn sets_in_make(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=').filter(|(name, _)| !name.starts_with('-')) else { return false };
    name.starts_with('.')
        || name.ends_with(|c: char| ":+?!".contains(c) || c.is_whitespace())
        || word.contains(['$', '`'])
}

/// Prefixes of file names with the extensions in [`OUTPUTS`] that other programs install or build from.
const BUILD_INPUTS: &str = "CMakeLists constraints meson requirements";
/// Extensions of output files, which are read by people and never run or built from.
const OUTPUTS: &str = "csv diff err log out patch tsv txt";
/// Git subcommands that accept a message after `-m`.
const WITH_MESSAGE: &str = "commit merge notes stash tag";

/// Returns true for a git subcommand that reads a message from an option or from standard input.
fn takes_message(part: &Part) -> bool {
    part.program() == "git" && part.words.get(1).is_some_and(|name| holds(WITH_MESSAGE, &name.text))
}

impl PrefixScope<'_> {
    /// Returns true if a rule that ends in ` *` covers the part. The arguments that match the star must stay in the
    /// session's folders: a user who allows `cargo test *` does not expect `--target-dir /etc`.
    pub(super) fn covers(&self, rule: &str, part: &Part) -> bool {
        let Some(words) = command_of(rule).and_then(|words| words.strip_suffix(" *")) else { return false };
        let part = carriers::without_wrappers(part);
        let is_allowed = |redirect: &Redirect| match redirect.operator {
            _ if redirect.is_harmless() => true,
            // Other programs may execute their input, or write to files named in it.
            "<<" => redirect.target.is_static() && takes_message(&part),
            operator => redirect.writes() && operator != "<>" && self.takes_output(&redirect.target),
        };
        let mut actual = part.words.iter();
        let mut granted = words.split_ascii_whitespace().peekable();
        granted.peek().is_some()
            && granted.all(|word| actual.next().is_some_and(|next| next.is_plain() && next.text == word))
            && part.stdin != Stdin::Pipe
            && !part.background
            && !carriers::carries(&part)
            && !runs_by_launcher(&part, self.roots)
            && !self.writes_unnamed_files(&part)
            && part.assigns.iter().all(environment::is_harmless)
            && part.redirects.iter().all(is_allowed)
            && self.are_confined(actual.as_slice(), &part)
    }

    /// Returns true for a git command that renames a file to a guarded name, or that writes files named only in its
    /// input.
    fn writes_unnamed_files(&self, part: &Part) -> bool {
        let is_git =
            |subcommands| part.program() == "git" && part.words.iter().any(|word| holds(subcommands, &word.text));
        is_git("am apply checkout-index format-patch read-tree update-index")
            || is_git("mv") && !part.words.iter().all(|word| self.is_unguarded(&word.text))
    }

    /// Returns true if these words stay in the session's folders and set no variable that names a program.
    fn are_confined(&self, words: &[Word], part: &Part) -> bool {
        let takes_message = takes_message(part);
        let is_message_option = |word: &Word| {
            let letters = word.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
            takes_message && (word.text == "--message" || letters.is_some_and(|letters| letters.ends_with('m')))
        };
        let names_program = |word: &Word| {
            assignment(word).is_some_and(|set| environment::is_trusted(&set.name) && !environment::is_harmless(&set))
        };
        let is_make = matches!(part.program(), "make" | "gmake" | "cmake");
        words.iter().enumerate().all(|(at, word)| {
            if is_make && sets_in_make(&word.text) {
                return false;
            }
            let is_message = at.checked_sub(1).is_some_and(|before| is_message_option(&words[before]));
            is_message && word.is_plain()
                || (word.is_plain() || is_narrow_glob(word)) && is_confined(word, self.roots) && !names_program(word)
        })
    }

    /// Returns true if the target is an output file: in the session's folders or in `/tmp`, and not run or obeyed by
    /// any program.
    pub(super) fn takes_output(&self, target: &Word) -> bool {
        let text = target.text.as_str();
        let is_temporary = text.starts_with("/tmp/") && !text.contains("..");
        let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
        let is_output = name.rsplit_once('.').is_some_and(|(_, ending)| holds(OUTPUTS, ending))
            && !BUILD_INPUTS.split(' ').any(|input| name.starts_with(input));
        target.is_plain()
            && target.inner.is_empty()
            && (is_temporary || is_output && is_confined(target, self.roots))
            && self.is_unguarded(text)
    }

    /// Returns true if no other program runs or obeys the path on its own initiative.
    pub(super) fn is_unguarded(&self, path: &str) -> bool {
        files::path(path, self.roots, self.guarded).is_none()
    }
}

/// Converts rules to their permanent forms, one form per rule. Returns an empty list if nothing changes.
pub fn for_good(rules: &[String], workspace: &Workspace) -> Vec<String> {
    let mut mounts = workspace.mounts();
    // Worktrees are temporary. A permanent grant in a worktree applies to its project.
    if let (Some(worktree), Some(project)) = (&workspace.worktree, &mut mounts.project) {
        project.path.clone_from(&worktree.project);
    }
    let permanent: Vec<String> = rules.iter().map(|rule| permanent_rule(rule, &mounts)).collect();
    if permanent == rules { Vec::new() } else { permanent }
}

fn permanent_rule(rule: &str, mounts: &Mounts) -> String {
    let Some(text) = command_of(rule) else { return rule.to_owned() };
    let (folder, command) = split(text);
    let prefix = match (folder, &mounts.project) {
        (Some(Folder::Named(name)), _) => {
            mounts.names().find_map(|(mount, real)| Some(at(&real.join(below(name, mount)?))))
        }
        (Some(Folder::Real(_)), _) => None,
        (None, Some(project)) => Some(at(&project.path)),
        (None, None) => Some("[in /]".to_owned()),
    };
    let Some(prefix) = prefix else { return rule.to_owned() };
    format!("{SHELL_TOOL}: {prefix} {command}")
}

/// Returns the other names of a command's start folder that rules may use: the host path if the folder is one of the
/// user's folders, and the name of the workspace if the folder is the default folder.
pub(super) fn other_names(start: &StartFolder, is_unnamed: bool) -> Vec<String> {
    let real = start.paths.first();
    let in_mount = below(&start.name, PROJECT).or_else(|| below(&start.name, FOLDERS)).and(real).map(|real| at(real));
    let in_main = start.main.as_deref().map(at);
    in_mount.into_iter().chain(in_main).chain(is_unnamed.then(|| format!("[in {}]", start.name))).collect()
}

/// Folder that a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder<'a> {
    /// A folder by its name in a session.
    Named(&'a str),
    /// A folder by its host path, in escaped form.
    Real(&'a str),
}

/// Splits off the folder that precedes a command.
pub(super) fn split(text: &str) -> (Option<Folder<'_>>, &str) {
    if let Some((name, command)) = text.strip_prefix("[in ").and_then(|text| text.split_once("] ")) {
        return (Some(Folder::Named(name)), command);
    }
    match text.strip_prefix("[at ").and_then(end_of_path) {
        Some((path, command)) => (Some(Folder::Real(path)), command),
        None => (None, text),
    }
}

/// Splits at the first closing bracket that is not escaped by a backslash.
fn end_of_path(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b']' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    Some((&text[..end], text[end + 1..].strip_prefix(' ')?))
}

/// Formats a host path as the prefix of a command. Different paths always have different prefixes.
fn at(path: &Path) -> String {
    // Drops a trailing slash, which `join` may leave.
    let path: PathBuf = path.components().collect();
    let bytes = path.as_os_str().as_bytes();
    let plain = path.to_str().filter(|path| !path.chars().any(char::is_control));
    let escaped = plain.map_or_else(|| bytes.escape_ascii().to_string(), |path| path.replace('\\', "\\\\"));
    format!("[at {}]", escaped.replace(']', "\\]"))
}

/// Returns the remainder of a path below `folder`.
fn below<'n>(name: &'n str, folder: &str) -> Option<&'n Path> {
    let rest = Path::new(name).strip_prefix(folder).ok()?;
    rest.components().all(|part| matches!(part, Component::Normal(_))).then_some(rest)
}

#[cfg(test)]
mod tests {
    use agentd_core::session::Mount;

    use super::*;

    #[test]
    fn permanent_grants_name_their_folder() {
        let check = |rule: &str, project: Option<&str>, expected: &str| {
            let mount = |path: &str, writable| Mount { path: path.into(), writable };
            let mounts = Mounts::from(project.map(|path| mount(path, true)));
            let folders = mounts.with(vec![mount("/srv/my lib", false)]).unwrap();
            assert_eq!(permanent_rule(rule, &Mounts { folders, ..mounts }), expected, "{rule} {project:?}");
        };
        let project = Some("/home/me/app");
        check("run_bash_command: make", project, "run_bash_command: [at /home/me/app] make");
        check("run_bash_command: make", None, "run_bash_command: [in /] make");
        check("run_bash_command: [in /project] make", project, "run_bash_command: [at /home/me/app] make");
        check("run_bash_command: [in /project/a b] make", project, "run_bash_command: [at /home/me/app/a b] make");
        check("run_bash_command: [in /folders/my-lib/a] make", project, "run_bash_command: [at /srv/my lib/a] make");
        check("run_bash_command: [in /folders/my-lib] make", None, "run_bash_command: [at /srv/my lib] make");
        check("run_bash_command: [in /folders/other] make", None, "run_bash_command: [in /folders/other] make");
        check("run_bash_command: [in /] make", project, "run_bash_command: [in /] make");
        check("run_bash_command: [in /outputs] make", project, "run_bash_command: [in /outputs] make");
        check("run_bash_command: [in /outputs] make", None, "run_bash_command: [in /outputs] make");
        check("run_bash_command: make", Some("/a] make"), "run_bash_command: [at /a\\] make] make");
        check("write_file", project, "write_file");
        check("mcp_lab_*", project, "mcp_lab_*");
        check("launch: make", project, "launch: make");
    }

    #[test]
    fn machine_path_is_delimited_unambiguously() {
        let check = |path: &[u8]| {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            let text = format!("{} make ] x", at(path));
            let (folder, command) = split(&text);
            let Some(Folder::Real(written)) = folder else { panic!("{text}") };
            assert_eq!((format!("[at {written}]"), command), (at(path), "make ] x"), "{text}");
            at(path)
        };
        let paths: [&[u8]; 8] = [b"/a", b"/a] b", b"/a\\", b"/a\\] b", b"/a\\\\]", b"/a\xff", b"/a\\xff", b"/a\n"];
        let written: std::collections::BTreeSet<String> = paths.iter().map(|path| check(path)).collect();
        assert_eq!(written.len(), paths.len());
        assert_eq!(split("make [in /] x"), (None, "make [in /] x"));
    }
}

//! Kept rules: what a person allowed for a session or for good.
//!
//! - `run_bash_command: git status`: this one simple command, to the letter of its normal form. Variables and redirections
//!   around it belong to it. A folder to start in stands in front: `run_bash_command: [in /project] make`. Without one it
//!   means wherever commands start that name no folder; `run_bash_command: [at /home/me/app] make` names a folder of this
//!   machine in the project, by whatever name the session has it.
//! - `run_bash_command: printf x | make -f -`: this one pipeline. A rule for one command of it says nothing of that command
//!   where something is piped into it.
//! - `run_bash_command: cargo test *`: every command that begins with these words, is nothing but known words, runs no
//!   other command, sets only harmless variables, writes by redirection only files of output, names no path outside the
//!   session's folders and no secret, and is of medium risk at the most; also where it is timed, and in a folder below.
//!   `judge::place` has what may stand beside it. Such a rule is offered for the programs of `judge::patterns` and one
//!   session; others are written by people.
//! - `write_file`: every call of this tool of medium risk at the most.
//! - `deploy {"to":"test"}`: this one call of a tool that runs something.
//! - `mcp_lab_weather`, `mcp_lab_*`: every call of this tool of an MCP server, or of any tool of it, of medium risk at the most.
//!   The first is the name that is made of the server's and the tool's, also where models call the tool otherwise.
//!
//! In a question a rule names folders as the session does: `/project` is another folder in another session, and a rule
//! without one means the project here and the workspace there. What is kept for good would mean a folder that nobody was
//! asked about. So it names the place itself: `[at PATH]` with the folder's path on this machine where it is in the project or
//! in a folder that was added, and the session's own name otherwise, `[in /]` for the workspace.

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
    checker::{carriers, environment, files, holds, is_narrow_glob, is_tame, programs::runs_by_launcher},
    command::{Part, Redirect, Stdin, assignment, exact, word::Word},
};

/// The kept rules that count for a call.
pub(super) struct Grants<'a> {
    rules: Vec<&'a str>,
    pub(super) reach: Reach<'a>,
}

/// Bounds of a wide rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach<'a> {
    /// The session's folders, which it does not lead out of.
    pub(super) roots: &'a [&'a Path],
    /// Names that it lets nobody write.
    pub(super) guarded: &'a GuardedNames,
}

/// Text that a rule would have to name.
pub(super) enum NeededText<'a> {
    /// A simple command, or a whole pipeline, that starts in this folder.
    /// Rules may have other names of it.
    Pipeline { parts: &'a [Part], folder: Option<&'a str>, other_names: &'a [String] },
    /// A simple command that starts in a folder below: only a wide rule can name it.
    Below(&'a Part),
    /// Any call of a tool.
    Tool(&'a str),
    /// One call of a tool, to the letter.
    Call(&'a str),
}

impl<'a> Grants<'a> {
    pub(super) fn new(rules: impl IntoIterator<Item = &'a Grant>, reach: Reach<'a>) -> Self {
        Self { rules: rules.into_iter().map(|grant| grant.rule.as_str()).collect(), reach }
    }

    /// The same with one more rule.
    pub(super) fn and<'b>(&'b self, rule: &'b str) -> Grants<'b> {
        Grants { rules: self.rules.iter().copied().chain([rule]).collect(), reach: self.reach }
    }

    /// The rule that covers what is wanted at this risk.
    pub(super) fn covering(&self, wanted: &NeededText<'_>, risk: Risk) -> Option<&'a str> {
        if risk == Risk::Critical {
            return None;
        }
        let exact = wanted.exact();
        if risk <= wanted.highest()
            && let Some(exact) = exact
            && let Some(rule) = self.rules.iter().find(|rule| **rule == exact || wanted.is_also(rule))
        {
            return Some(rule);
        }
        let part = match wanted {
            NeededText::Pipeline { parts: [part], folder: None, .. } => part,
            NeededText::Below(part) => *part,
            _ => return None,
        };
        self.rules.iter().copied().find(|rule| risk <= Risk::Medium && self.reach.covers(rule, part))
    }
}

impl NeededText<'_> {
    /// The rule that names exactly this, if one can.
    pub(super) fn exact(&self) -> Option<String> {
        match self {
            Self::Pipeline { parts, folder, .. } => {
                // What is piped into a command alone belongs to no rule about it.
                let alone = parts.first().is_none_or(|first| first.stdin != Stdin::Pipe);
                let place = folder.map(|folder| format!("[in {folder}] ")).unwrap_or_default();
                let known = alone && parts.iter().all(Part::is_static);
                let exact = known.then(|| format!("{SHELL_TOOL}: {place}{}", exact(parts)));
                // `ls *` as a rule would mean every `ls`.
                exact.filter(|exact| !exact.ends_with(" *"))
            }
            Self::Below(_) => None,
            Self::Tool(name) => Some((*name).to_owned()),
            Self::Call(call) => Some((*call).to_owned()),
        }
    }

    /// Returns whether a rule names exactly this, with another name of the folder. To be asked where there is an exact
    /// rule.
    fn is_also(&self, rule: &str) -> bool {
        let Self::Pipeline { parts, other_names, .. } = self else { return false };
        let Some(text) = command_of(rule) else { return false };
        let command = other_names.iter().find_map(|name| text.strip_prefix(name.as_str())?.strip_prefix(' '));
        command.is_some_and(|command| command == exact(parts))
    }

    /// The highest risk that an exact rule can cover.
    pub(super) fn highest(&self) -> Risk {
        match self {
            Self::Pipeline { .. } | Self::Call(_) => Risk::High,
            Self::Tool(_) | Self::Below(_) => Risk::Medium,
        }
    }
}

/// Command that a rule names, if it is one about commands.
fn command_of(rule: &str) -> Option<&str> {
    rule.strip_prefix(SHELL_TOOL)?.strip_prefix(": ")
}

/// Returns true for a variable of make in a form that is more than a value for a known name: `NAME:=…`, `NAME!=…`, `.NAME=…`, or
/// a value that make reads again.
fn sets_in_make(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=').filter(|(name, _)| !name.starts_with('-')) else { return false };
    name.starts_with('.')
        || name.ends_with(|c: char| ":+?!".contains(c) || c.is_whitespace())
        || word.contains(['$', '`'])
}

/// Beginnings of names that end so, of files that other programs install or build from.
const BUILD_INPUTS: &str = "CMakeLists constraints meson requirements";
/// Endings of files that programs write for people to read, and that nothing runs or builds.
const OUTPUTS: &str = "csv diff err log out patch tsv txt";
/// Subcommands of git that take a text behind `-m`.
const WITH_MESSAGE: &str = "commit merge notes stash tag";

/// Returns true for a subcommand of git that takes a message, from an option or from its input.
fn takes_message(part: &Part) -> bool {
    part.program() == "git" && part.words.get(1).is_some_and(|name| holds(WITH_MESSAGE, &name.text))
}

impl Reach<'_> {
    /// Returns true if a rule that ends in ` *` covers the part. What stands in place of the star stays in the session's
    /// folders: who allows `cargo test *` does not think of `--target-dir /etc`.
    pub(super) fn covers(&self, rule: &str, part: &Part) -> bool {
        let Some(words) = command_of(rule).and_then(|words| words.strip_suffix(" *")) else { return false };
        let part = carriers::unwrapped(part);
        let passes = |redirect: &Redirect| match redirect.operator {
            _ if redirect.is_harmless() => true,
            // Other programs may run their input, or write files that it names.
            "<<" => redirect.target.is_static() && takes_message(&part),
            operator => redirect.writes() && operator != "<>" && self.takes_output(&redirect.target),
        };
        let mut actual = part.words.iter();
        let mut granted = words.split_ascii_whitespace().peekable();
        granted.peek().is_some()
            && granted.all(|word| actual.next().is_some_and(|next| next.is_plain() && next.text == word))
            && part.stdin != Stdin::Pipe
            && !part.behind
            && !carriers::carries(&part)
            && !runs_by_launcher(&part, self.roots)
            && !self.places_unseen(&part)
            && part.assigns.iter().all(environment::is_harmless)
            && part.redirects.iter().all(passes)
            && self.are_tame(actual.as_slice(), &part)
    }

    /// Returns true for a git command that gives a file a name that others obey, or names that only its patch knows.
    fn places_unseen(&self, part: &Part) -> bool {
        let is_git =
            |subcommands| part.program() == "git" && part.words.iter().any(|word| holds(subcommands, &word.text));
        is_git("am apply checkout-index format-patch read-tree update-index")
            || is_git("mv") && !part.words.iter().all(|word| self.is_unguarded(&word.text))
    }

    /// Returns true if these words stay in the session's folders and set nothing that names a program.
    fn are_tame(&self, words: &[Word], part: &Part) -> bool {
        let takes_message = takes_message(part);
        let announces = |word: &Word| {
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
            let is_message = at.checked_sub(1).is_some_and(|before| announces(&words[before]));
            is_message && word.is_plain()
                || (word.is_plain() || is_narrow_glob(word)) && is_tame(word, self.roots) && !names_program(word)
        })
    }

    /// Returns true for a file of output: one that nothing runs or obeys, and that is in the session's folders or in `/tmp`.
    pub(super) fn takes_output(&self, target: &Word) -> bool {
        let text = target.text.as_str();
        let is_temporary = text.starts_with("/tmp/") && !text.contains("..");
        let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
        let is_output = name.rsplit_once('.').is_some_and(|(_, ending)| holds(OUTPUTS, ending))
            && !BUILD_INPUTS.split(' ').any(|input| name.starts_with(input));
        target.is_plain()
            && target.inner.is_empty()
            && (is_temporary || is_output && is_tame(target, self.roots))
            && self.is_unguarded(text)
    }

    /// Returns true for a path that no other program runs or obeys by itself.
    pub(super) fn is_unguarded(&self, path: &str) -> bool {
        files::path(path, self.roots, self.guarded).is_none()
    }
}

/// Permanent forms of these rules, one for each; empty where they are the same.
pub fn for_good(rules: &[String], workspace: &Workspace) -> Vec<String> {
    let mut mounts = workspace.mounts();
    // A worktree is gone some day; what is allowed for good in it is allowed in its project.
    if let (Some(worktree), Some(project)) = (&workspace.worktree, &mut mounts.project) {
        project.path.clone_from(&worktree.project);
    }
    let lasting: Vec<String> = rules.iter().map(|rule| of_rule(rule, &mounts)).collect();
    if lasting == rules { Vec::new() } else { lasting }
}

fn of_rule(rule: &str, mounts: &Mounts) -> String {
    let Some(text) = command_of(rule) else { return rule.to_owned() };
    let (folder, command) = split(text);
    let place = match (folder, &mounts.project) {
        (Some(Folder::Named(name)), _) => {
            mounts.names().find_map(|(mount, real)| Some(at(&real.join(below(name, mount)?))))
        }
        (Some(Folder::Real(_)), _) => None,
        (None, Some(project)) => Some(at(&project.path)),
        (None, None) => Some("[in /]".to_owned()),
    };
    let Some(place) = place else { return rule.to_owned() };
    format!("{SHELL_TOOL}: {place} {command}")
}

/// The other names of the folder where a command starts, as rules have them: its path on this machine where it is in a
/// folder of the person, and the workspace's name where it starts there without being told to.
pub(super) fn other_names(start: &StartFolder, is_unnamed: bool) -> Vec<String> {
    let real = start.paths.first();
    let in_mount = below(&start.name, PROJECT).or_else(|| below(&start.name, FOLDERS)).and(real).map(|real| at(real));
    let in_main = start.main.as_deref().map(at);
    in_mount.into_iter().chain(in_main).chain(is_unnamed.then(|| format!("[in {}]", start.name))).collect()
}

/// The folder that a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder<'a> {
    /// By the name that it has in a session.
    Named(&'a str),
    /// By its path on this machine, as it is written.
    Real(&'a str),
}

/// The folder that stands in front of a command, and the command.
pub(super) fn split(text: &str) -> (Option<Folder<'_>>, &str) {
    if let Some((name, command)) = text.strip_prefix("[in ").and_then(|text| text.split_once("] ")) {
        return (Some(Folder::Named(name)), command);
    }
    match text.strip_prefix("[at ").and_then(end_of_path) {
        Some((path, command)) => (Some(Folder::Real(path)), command),
        None => (None, text),
    }
}

/// Splits at the first bracket that no backslash stands before.
fn end_of_path(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b']' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    Some((&text[..end], text[end + 1..].strip_prefix(' ')?))
}

/// A path of this machine in front of a command. Two paths never have the same.
fn at(path: &Path) -> String {
    // Without a stroke at the end, which a join may leave.
    let path: PathBuf = path.components().collect();
    let bytes = path.as_os_str().as_bytes();
    let plain = path.to_str().filter(|path| !path.chars().any(char::is_control));
    let escaped = plain.map_or_else(|| bytes.escape_ascii().to_string(), |path| path.replace('\\', "\\\\"));
    format!("[at {}]", escaped.replace(']', "\\]"))
}

/// The rest of a name that begins with that of a folder.
fn below<'n>(name: &'n str, folder: &str) -> Option<&'n Path> {
    let rest = Path::new(name).strip_prefix(folder).ok()?;
    rest.components().all(|part| matches!(part, Component::Normal(_))).then_some(rest)
}

#[cfg(test)]
mod tests {
    use agentd_core::session::Mount;

    use super::*;

    #[test]
    fn what_is_kept_for_good_names_its_folder() {
        let check = |rule: &str, project: Option<&str>, expected: &str| {
            let mount = |path: &str, writable| Mount { path: path.into(), writable };
            let mounts = Mounts::from(project.map(|path| mount(path, true)));
            let folders = mounts.with(vec![mount("/srv/my lib", false)]).unwrap();
            assert_eq!(of_rule(rule, &Mounts { folders, ..mounts }), expected, "{rule} {project:?}");
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
    fn a_path_of_this_machine_ends_where_it_ends() {
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

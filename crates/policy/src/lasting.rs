//! Which folder a rule about a command means that is kept for good.
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
    ports::Workspace,
    tool::StartFolder,
};

use super::{PROJECT, SHELL_TOOL};

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
    let Some(text) = rule.strip_prefix(SHELL_TOOL).and_then(|rule| rule.strip_prefix(": ")) else {
        return rule.to_owned();
    };
    let (folder, command) = split(text);
    let place = match (folder, &mounts.project) {
        (Some(Folder::Named(name)), _) => {
            let real = mounts.names().find_map(|(mount, real)| Some(at(&real.join(below(name, mount)?))));
            let Some(real) = real else { return rule.to_owned() };
            real
        }
        (Some(Folder::Real(_)), _) => return rule.to_owned(),
        (None, Some(project)) => at(&project.path),
        (None, None) => "[in /]".to_owned(),
    };
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

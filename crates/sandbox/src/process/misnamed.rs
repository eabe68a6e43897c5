//! Names that file tools know and a command does not: where folders cannot be given their names, `/project`; where
//! commands start in the project, `uploads/` without its slash. A command that uses such a name goes wrong, perhaps in
//! the middle of others, and its exit code then tells nothing of it.

use std::{borrow::Cow, path::Path};

use agentd_core::{folder::FOLDERS, ports::Workspace};
use agentd_workspace::{place::AREAS, text};

use crate::{
    names::{MEMORIES, PROJECT},
    policy::Name,
};

/// Bytes of the end of standard error that are looked at.
const LOOKED_AT: usize = 8 * 1024;

/// Messages of programs about a name that leads nowhere.
const FAILURES: [&str; 6] =
    ["no such file or directory", "enoent", "permission denied", "eacces", "read-only file system", "erofs"];

/// One sentence for the model, where a line of standard error says that something is not there by a name that it has
/// for file tools. `given` are the names that the command's folders have.
pub fn misnamed(stderr: &str, workspace: &Workspace, given: &[Name]) -> Option<Cow<'static, str>> {
    let mut start = stderr.len().saturating_sub(LOOKED_AT);
    while !stderr.is_char_boundary(start) {
        start += 1;
    }
    let failed = |name: &str| {
        stderr[start..].lines().any(|line| {
            let said = line.to_lowercase();
            names(line, name) && FAILURES.iter().any(|failure| said.contains(failure))
        })
    };
    let has = |name: &str| given.iter().any(|given| given.name == Path::new(name));
    // A folder of the machine may have that very name.
    let project = workspace.project.as_ref().filter(|project| !project.path.starts_with(PROJECT));
    if project.is_some() && !has(PROJECT) && failed(PROJECT) {
        let said = "[commands have no /project here: the project folder is $PROJECT. What used /project did not work]";
        return Some(Cow::Borrowed(said));
    }
    let memories = workspace.memories.as_ref().filter(|memories| !memories.starts_with(MEMORIES));
    if memories.is_some() && !has(MEMORIES) && failed(MEMORIES) {
        let said = "[commands have no /memories here: it is $MEMORIES, which they can only read. What used /memories did not work]";
        return Some(Cow::Borrowed(said));
    }
    let folder = workspace
        .folders
        .iter()
        .find(|folder| !folder.path.starts_with(FOLDERS) && !has(&folder.at) && failed(&folder.at));
    if let Some(folder) = folder {
        let (root, path) = (&folder.at, text::quoted(&folder.path.to_string_lossy()));
        return Some(Cow::Owned(format!(
            "[commands have no {root} here: that folder is {path}. What used {root} did not work]"
        )));
    }
    let from_start = workspace.project.is_some() && AREAS.iter().any(|area| failed(area));
    from_start.then_some(Cow::Borrowed(if has(PROJECT) {
        "[commands start in the project: the session's own folders are /uploads, /outputs, /temp and /skills there, with the \
         slash]"
    } else {
        "[commands start in the project: the session's own folders are in $WORKSPACE there, as $WORKSPACE/uploads]"
    }))
}

/// Returns whether the line names this folder or what is in it, and not one whose path only ends like it.
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let behind = line[at + folder.len()..].chars().next();
        let goes_on = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
        !before.is_some_and(|letter| goes_on(letter) || matches!(letter, '/' | '}' | '~'))
            && !behind.is_some_and(goes_on)
    })
}

#[cfg(test)]
mod tests {
    use agentd_core::{folder::AddedFolder, session::Mount};

    use super::*;

    #[test]
    fn names_that_only_tools_know_are_told() {
        let at = |path: &str| Workspace {
            root: "/data/s".into(),
            project: Some(Mount { path: path.into(), writable: true }),
            folders: vec![AddedFolder { at: "/folders/lib".into(), path: "/srv/lib".into(), writable: false }],
            memories: Some("/data/memories".into()),
            worktree: None,
        };
        let check =
            |stderr: &str, expected: Option<&str>| match (misnamed(stderr, &at("/home/me/house"), &[]), expected) {
                (Some(hint), Some(part)) => assert!(hint.contains(part), "{hint}"),
                (None, None) => {}
                (hint, _) => panic!("{stderr}: {hint:?}"),
            };
        check("bash: line 1: /project/x: No such file or directory", Some("$PROJECT"));
        check("mkdir: cannot create directory '/project': Permission denied", Some("$PROJECT"));
        check("cp: cannot create regular file '/project/a/b': Read-only file system\nand so on", Some("$PROJECT"));
        check("Error: ENOENT: no such file or directory, open '/project/x'", Some("$PROJECT"));
        check("ls: cannot access '/memories/a.md': No such file or directory", Some("$MEMORIES"));
        check("cat: /folders/lib/a: No such file or directory", Some("that folder is \"/srv/lib\""));
        check("", None);
        check("copied /project/x", None);
        check("looking into /project\nbash: y: No such file or directory", None);
        check("cat: /home/me/project/x: No such file or directory", None);
        check("cat: ./project/x: No such file or directory", None);
        check("cat: /projects/x: No such file or directory", None);
        check("cat: /project.old: No such file or directory", None);
        check("cat: uploads/a.txt: No such file or directory", Some("$WORKSPACE/uploads"));
        check("cat: src/uploads: No such file or directory", None);
        check(&format!("ä{}", "x".repeat(LOOKED_AT - 1)), None);
        assert_eq!(misnamed("cat: /project/x: No such file or directory", &at("/project"), &[]), None);
        let without = Workspace { project: None, ..at("") };
        assert_eq!(misnamed("cat: /project/x: No such file or directory", &without, &[]), None);
    }

    #[test]
    fn folders_that_have_their_names_are_named_with_the_slash() {
        let workspace = Workspace {
            root: "/data/s".into(),
            project: Some(Mount { path: "/home/me/house".into(), writable: true }),
            folders: Vec::new(),
            memories: None,
            worktree: None,
        };
        let given = [Name::mounted(PROJECT, Path::new("/home/me/house"))];
        let said = |stderr: &str| misnamed(stderr, &workspace, &given);
        assert!(said("cat: uploads/a.txt: No such file or directory").is_some_and(|hint| hint.contains("/uploads")));
        assert_eq!(said("cat: /uploads/a.txt: No such file or directory"), None);
        assert_eq!(said("cat: /project/x: No such file or directory"), None);
    }
}

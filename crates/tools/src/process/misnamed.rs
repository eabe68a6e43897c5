//! Tools name folders that commands do not have, such as `/project`. A command that uses such a name goes wrong, perhaps in
//! the middle of others, and its exit code then tells nothing of it.

use agentd_core::ports::Workspace;

/// How much of the end of standard error is looked at, in bytes.
const LOOKED_AT: usize = 8 * 1024;

/// What programs say of a name that leads nowhere.
const FAILURES: [&str; 6] =
    ["no such file or directory", "enoent", "permission denied", "eacces", "read-only file system", "erofs"];

/// One sentence for the model, where a line of standard error says that `/project` or `/memories` is not there.
pub(crate) fn misnamed(stderr: &str, workspace: &Workspace) -> Option<&'static str> {
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
    // A folder of the machine may have that very name.
    let project = workspace.project.as_ref().filter(|project| !project.path.starts_with("/project"));
    if project.is_some() && failed("/project") {
        return Some(
            "[commands have no /project: there the project folder is $PROJECT. What used /project did not work]",
        );
    }
    let memories = workspace.memories.as_ref().filter(|memories| !memories.starts_with("/memories"));
    (memories.is_some() && failed("/memories")).then_some(
        "[commands have no /memories: there it is $MEMORIES, which they can only read. What used /memories did not work]",
    )
}

/// Whether the line names this folder or what is in it, and not one whose path only ends like it.
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
    use agentd_core::session::Mount;

    use super::*;

    #[test]
    fn names_that_only_tools_know_are_told() {
        let at = |path: &str| Workspace {
            root: "/data/s".into(),
            project: Some(Mount { path: path.into(), writable: true }),
            memories: Some("/data/memories".into()),
        };
        let check = |stderr: &str, expected: Option<&str>| match (misnamed(stderr, &at("/home/me/house")), expected) {
            (Some(hint), Some(part)) => assert!(hint.contains(part), "{hint}"),
            (None, None) => {}
            (hint, _) => panic!("{stderr}: {hint:?}"),
        };
        check("bash: line 1: /project/x: No such file or directory", Some("$PROJECT"));
        check("mkdir: cannot create directory '/project': Permission denied", Some("$PROJECT"));
        check("cp: cannot create regular file '/project/a/b': Read-only file system\nand so on", Some("$PROJECT"));
        check("Error: ENOENT: no such file or directory, open '/project/x'", Some("$PROJECT"));
        check("ls: cannot access '/memories/a.md': No such file or directory", Some("$MEMORIES"));
        check("", None);
        check("copied /project/x", None);
        check("looking into /project\nbash: y: No such file or directory", None);
        check("cat: /home/me/project/x: No such file or directory", None);
        check("cat: ./project/x: No such file or directory", None);
        check("cat: /projects/x: No such file or directory", None);
        check("cat: /project.old: No such file or directory", None);
        check(&format!("ä{}", "x".repeat(LOOKED_AT - 1)), None);
        assert_eq!(misnamed("cat: /project/x: No such file or directory", &at("/project")), None);
        let without = Workspace { project: None, ..at("") };
        assert_eq!(misnamed("cat: /project/x: No such file or directory", &without), None);
    }
}

//! Hints for the model after a command failed because of an action that the sandbox forbids, or a folder name that only
//! tools support. The hints are guessed from the command's error output.

use std::{borrow::Cow, path::Path};

use agentd_core::{folder::FOLDERS, ports::Workspace};
use agentd_workspace::{path::AREAS, text};

use crate::{
    config::Name,
    places::{MEMORIES, PROJECT, linked},
};

/// Maximum number of bytes at the end of standard error that are searched.
const MAX_SEARCHED: usize = 8 * 1024;

const NETWORK: &[&str] = &[
    "network is unreachable",
    "could not resolve",
    "couldn't resolve",
    "name resolution",
    "name or service not known",
    "getaddrinfo",
    "eai_again",
    "socket: operation not permitted",
    "dial tcp",
    "failed to lookup address",
    "couldn't connect",
    "could not connect",
    "unable to connect",
    "failed to connect",
    "create socket",
    "socket(",
];

const FILES: &[&str] =
    &["permission denied", "operation not permitted", "read-only file system", "eacces", "eperm", "erofs"];

const LIMITS: &[&str] = &[
    "cannot allocate memory",
    "memory exhausted",
    "file size limit exceeded",
    "file too large",
    "too many open files",
    "fork: resource temporarily unavailable",
    "fork: retry: resource temporarily unavailable",
];

/// Returns the last [`MAX_SEARCHED`] bytes of the text.
fn end_of(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_SEARCHED))..]
}

/// Rights with which a command ran.
#[derive(Debug, Clone, Copy)]
pub struct CommandRights {
    /// True if the command could use the network.
    pub network: bool,
    /// True if the command could not change anything, because it ran without approval.
    pub read_only: bool,
}

/// Returns one sentence for the model if the errors of a failed command suggest that the sandbox blocked it.
pub fn hint(stderr: &str, CommandRights { network, read_only }: CommandRights) -> Option<&'static str> {
    let errors = end_of(stderr).to_ascii_lowercase();
    let has_any = |phrases: &[&str]| phrases.iter().any(|phrase| errors.contains(phrase));
    if read_only && (has_any(NETWORK) || has_any(FILES)) {
        return Some(
            "[this command ran without approval as read-only: it can write only to a private /tmp, has no network, \
             and can read only the session's files and the system]",
        );
    }
    if !network && (has_any(NETWORK) || (errors.contains("socket") && has_any(FILES))) {
        return Some(
            "[the sandbox forbids sockets: commands have no network. Work without it, or ask the user to set \
             sandbox.network in agentd.yaml]",
        );
    }
    if has_any(FILES) {
        return Some(
            "[sandboxed commands can write only to /uploads, /outputs, /temp and a writable /project or \
             /folders/NAME, and read these and the system. Work there, or ask the user to make /project writable \
             (`/project rw` in the chat), or to list the folder in sandbox.read or sandbox.write in agentd.yaml]",
        );
    }
    has_any(LIMITS).then_some("[the sandbox limits memory, file sizes, open files and processes; use smaller steps]")
}

/// Returns one sentence for the model if git failed because a folder's repository is outside that folder.
pub fn repository_hint(stderr: &str, workspace: &Workspace) -> Option<String> {
    let is_writable = |path: &Path| workspace.writable_mounts().any(|mount| path.starts_with(mount));
    linked(workspace).into_iter().find_map(|(name, repository)| match repository {
        Some(repository) => {
            let shown = repository.to_str().filter(|shown| stderr.contains(*shown) && !is_writable(&repository))?;
            Some(format!(
                "[the repository of {name} is {shown}, outside of it and read-only for commands. Git can write there \
                 if the user adds that folder: --add-dir {shown}:rw]"
            ))
        }
        None => stderr.contains("not a git repository").then(|| {
            format!(
                "[{name}/.git leads to a folder that is not mounted, because it is not a repository that links back \
                 to {name}. The user can fix a moved worktree with `git worktree repair`, or add its repository with \
                 --add-dir]"
            )
        }),
    })
}

/// Error messages about a name that does not exist.
const FAILURES: [&str; 6] =
    ["no such file or directory", "enoent", "permission denied", "eacces", "read-only file system", "erofs"];

/// Returns one sentence for the model if an error mentions a folder by a name that only file tools support. `folders`
/// are the names of the command's folders.
pub fn misnamed(stderr: &str, workspace: &Workspace, folders: &[Name]) -> Option<Cow<'static, str>> {
    let failed = |name: &str| {
        end_of(stderr).lines().any(|line| {
            let lower = line.to_lowercase();
            names(line, name) && FAILURES.iter().any(|failure| lower.contains(failure))
        })
    };
    let has = |name: &str| folders.iter().any(|folder| folder.name == Path::new(name));
    // The host may have a folder with the same name.
    let is_own = |path: &Path, name: &str| !path.starts_with(name) && !has(name) && failed(name);
    if workspace.project.as_ref().is_some_and(|project| is_own(&project.path, PROJECT)) {
        let hint = "[/project does not exist for commands here; use $PROJECT. Uses of /project failed]";
        return Some(Cow::Borrowed(hint));
    }
    if workspace.memories.as_ref().is_some_and(|memories| is_own(memories, MEMORIES)) {
        let hint = "[/memories does not exist for commands here; use $MEMORIES (read-only). Uses of /memories failed]";
        return Some(Cow::Borrowed(hint));
    }
    let folder = workspace
        .folders
        .iter()
        .find(|folder| !folder.path.starts_with(FOLDERS) && !has(&folder.at) && failed(&folder.at));
    if let Some(folder) = folder {
        let (root, path) = (&folder.at, text::quoted(&folder.path.to_string_lossy()));
        return Some(Cow::Owned(format!(
            "[{root} does not exist for commands here; use {path}. Uses of {root} failed]"
        )));
    }
    let from_start = workspace.project.is_some() && AREAS.iter().any(|area| failed(area));
    from_start.then_some(Cow::Borrowed(if has(PROJECT) {
        "[commands start in the project: use absolute paths for the session's folders: /uploads, /outputs, /temp, \
         /skills]"
    } else {
        "[commands start in the project: use $WORKSPACE for the session's folders, such as $WORKSPACE/uploads]"
    }))
}

/// Returns true if the line names this folder or a path in it, and not only a path that ends in the same name.
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        let is_name_char = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
        !before.is_some_and(|letter| is_name_char(letter) || matches!(letter, '/' | '}' | '~'))
            && !after.is_some_and(is_name_char)
    })
}

#[cfg(test)]
mod tests {
    use agentd_core::{folder::AddedFolder, session::Mount};

    use super::*;

    #[test]
    fn sandbox_denials_are_recognised_in_stderr() {
        #[track_caller]
        fn check(stderr: &str, network: bool, expected: Option<&str>) {
            let hint = hint(stderr, CommandRights { network, read_only: false });
            assert!(expected.map_or(hint.is_none(), |part| hint.is_some_and(|hint| hint.contains(part))), "{stderr}");
        }
        check("curl: (6) Could not resolve host: example.org", false, Some("no network"));
        check("PermissionError: [Errno 1] Operation not permitted: socket", false, Some("no network"));
        check("curl: (6) Could not resolve host: example.org", true, None);
        check("bash: /etc/x: Permission denied", false, Some("sandbox.write"));
        check("touch: cannot touch '/usr/x': Read-only file system", true, Some("/outputs"));
        check("bash: fork: Cannot allocate memory", false, Some("limits"));
        check("tail: memory exhausted", false, Some("limits"));
        check("bash: fork: retry: Resource temporarily unavailable", false, Some("processes"));
        check("error[E0308]: mismatched types", false, None);
        let unasked =
            hint("touch: cannot touch 'x': Read-only file system", CommandRights { network: false, read_only: true });
        assert!(unasked.unwrap().contains("ran without approval"), "{unasked:?}");
        check(&format!("ä{}", "x".repeat(MAX_SEARCHED - 1)), false, None);
    }

    fn at(path: &str) -> Workspace {
        Workspace {
            root: "/data/s".into(),
            project: Some(Mount { path: path.into(), writable: true }),
            folders: vec![AddedFolder { at: "/folders/lib".into(), path: "/srv/lib".into(), writable: false }],
            memories: Some("/data/memories".into()),
            worktree: None,
        }
    }

    #[test]
    fn tool_only_path_names_are_explained() {
        let check = |stderr: &str, expected: Option<&str>| {
            let hint = misnamed(stderr, &at("/home/me/house"), &[]);
            let is_expected = |part: &str| hint.as_ref().is_some_and(|hint| hint.contains(part));
            assert!(expected.map_or(hint.is_none(), is_expected), "{stderr}: {hint:?}");
        };
        check("bash: line 1: /project/x: No such file or directory", Some("$PROJECT"));
        check("mkdir: cannot create directory '/project': Permission denied", Some("$PROJECT"));
        check("cp: cannot create regular file '/project/a/b': Read-only file system\nand so on", Some("$PROJECT"));
        check("Error: ENOENT: no such file or directory, open '/project/x'", Some("$PROJECT"));
        check("ls: cannot access '/memories/a.md': No such file or directory", Some("$MEMORIES"));
        check("cat: /folders/lib/a: No such file or directory", Some("use \"/srv/lib\""));
        check("", None);
        check("copied /project/x", None);
        check("looking into /project\nbash: y: No such file or directory", None);
        check("cat: /home/me/project/x: No such file or directory", None);
        check("cat: ./project/x: No such file or directory", None);
        check("cat: /projects/x: No such file or directory", None);
        check("cat: /project.old: No such file or directory", None);
        check("cat: uploads/a.txt: No such file or directory", Some("$WORKSPACE/uploads"));
        check("cat: src/uploads: No such file or directory", None);
        check(&format!("ä{}", "x".repeat(MAX_SEARCHED - 1)), None);
        assert_eq!(misnamed("cat: /project/x: No such file or directory", &at("/project"), &[]), None);
        let without = Workspace { project: None, ..at("") };
        assert_eq!(misnamed("cat: /project/x: No such file or directory", &without, &[]), None);
    }

    #[test]
    fn missing_slash_of_a_named_folder_is_hinted() {
        let folders = [Name::mounted(PROJECT, Path::new("/home/me/house"))];
        let hint = |stderr: &str| misnamed(stderr, &at("/home/me/house"), &folders).map(Cow::into_owned);
        assert!(hint("cat: uploads/a.txt: No such file or directory").is_some_and(|hint| hint.contains("/uploads")));
        assert_eq!(hint("cat: /uploads/a.txt: No such file or directory"), None);
        assert_eq!(hint("cat: /project/x: No such file or directory"), None);
    }
}

//! Tools that change files: some files are run by whoever opens the folder they lie in.

use agentd_core::policy::Risk;
use serde_json::{Map, Value};

use crate::policy::opinion::{Opinion, strictest};

/// The names under which tools take a path.
const PATH_KEYS: [&str; 8] = ["path", "file_path", "filepath", "filename", "file", "directory", "dir", "destination"];

/// File names that programs run or obey without being asked to.
const RUN_BY_NAME: [&str; 47] = [
    ".git",
    ".yarnrc",
    ".yarnrc.yml",
    ".bazelrc",
    ".pdbrc",
    ".irbrc",
    ".sqliterc",
    ".psqlrc",
    ".wgetrc",
    ".curlrc",
    ".ackrc",
    ".tmux.conf",
    ".screenrc",
    ".xsessionrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".envrc",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".gdbinit",
    ".lldbinit",
    ".gitconfig",
    ".gitmodules",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".pre-commit-config.yaml",
    ".gitlab-ci.yml",
    ".travis.yml",
    "sitecustomize.py",
    "usercustomize.py",
];
/// Folders in which that is true of every file.
const RUN_BY_FOLDER: [&str; 14] = [
    ".git",
    ".ssh",
    ".gnupg",
    ".husky",
    ".githooks",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".circleci",
    ".cargo",
    ".direnv",
    ".config",
    ".aws",
    ".kube",
];
/// Pairs of folders in which that is true of every file.
const RUN_BY_FOLDERS: [(&str, &str); 3] = [(".github", "workflows"), (".github", "actions"), (".local", "bin")];

/// What is known of a call of a tool that changes files.
pub(in crate::policy) fn check(arguments: &Map<String, Value>) -> Option<Opinion> {
    let named =
        arguments.iter().filter(|(key, _)| PATH_KEYS.contains(&key.as_str())).filter_map(|(_, value)| value.as_str());
    let patched = arguments.values().filter_map(Value::as_str).flat_map(patched);
    strictest(named.chain(patched).filter_map(path))
}

/// What is known of a call of a tool that reads files.
pub(in crate::policy) fn reads(arguments: &Map<String, Value>) -> Option<Opinion> {
    let named = arguments.iter().filter(|(key, _)| PATH_KEYS.contains(&key.as_str()));
    let paths = named.filter_map(|(_, value)| value.as_str());
    strictest(paths.filter(|path| super::paths::is_secret(&path.to_lowercase().replace('\\', "/"))).map(|path| {
        Opinion::asks(Risk::High, format!("{} looks like a file of secrets", super::bash::shortened(path)))
    }))
}

/// The paths that a patch names, in both forms that patches have.
fn patched(text: &str) -> impl Iterator<Item = &str> {
    const MARKS: [&str; 7] =
        ["*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:", "+++ ", "--- ", "rename to "];
    text.lines().filter_map(|line| {
        let rest = MARKS.iter().find_map(|mark| line.trim_start().strip_prefix(mark))?;
        let path = rest.split('\t').next().unwrap_or_default().trim().trim_matches('"');
        Some(path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path))
    })
}

/// What is known of one path that is written to.
pub(super) fn path(path: &str) -> Option<Opinion> {
    let lower = path.to_lowercase().replace('\\', "/");
    let parts: Vec<&str> = lower.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let name = *parts.last()?;
    let folders = &parts[..parts.len() - 1];
    let runs = RUN_BY_NAME.contains(&name)
        || name.ends_with(".pth")
        || name.ends_with(".desktop")
        || folders.iter().any(|folder| RUN_BY_FOLDER.contains(folder))
        || folders.windows(2).any(|pair| RUN_BY_FOLDERS.contains(&(pair[0], pair[1])));
    if runs {
        return Some(Opinion::asks(
            Risk::High,
            format!("{path} is run or obeyed by other programs without being asked to"),
        ));
    }
    super::paths::is_secret(&lower).then(|| Opinion::asks(Risk::High, format!("{path} looks like a file of secrets")))
}

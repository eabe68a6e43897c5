//! Environment of a command. None of the daemon's own variables is passed on, because they may contain keys.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
};

use agentd_core::{environment::ClientEnvironment, ports::Workspace};

use crate::{
    config::Name,
    places::{MEMORIES, PROJECT},
};

/// Default search path for programs.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Prefixes of variables that are never passed, regardless of the configuration. These variables load code into every
/// program, or set the folder of the locales, in which a locale may be named UTF-8 but use another encoding.
const FORBIDDEN_PREFIXES: [&str; 3] = ["LD_", "DYLD_", "LOCPATH"];

/// Git settings that override a repository's configuration. The configuration may come from a third party, and a query
/// must not run the programs that it names. Signing keys are inaccessible anyway.
pub(crate) const GIT_CONFIG: [(&str, &str); 8] = [
    // Without this setting, git would apply the configuration of an ordinary folder that looks like a bare repository.
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("log.showSignature", "false"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("protocol.ext.allow", "never"),
];

/// Additional settings for a worktree, whose pack files are read-only.
const GIT_CONFIG_IN_WORKTREES: [(&str, &str); 2] = [("gc.auto", "0"), ("maintenance.auto", "false")];

/// Name of the variable that marks the children of a command.
pub(super) const MARK: &str = "AGENTD_COMMAND";

/// Builds the environment of a command in this workspace, whose folders have these names. The client's variables
/// override `base` and the defaults; if the client sent none, the `configured` variables are used instead.
pub fn build(
    workspace: &Workspace,
    names: &[Name],
    base: &BTreeMap<String, String>,
    configured: &BTreeMap<String, String>,
    client: &ClientEnvironment,
) -> BTreeMap<OsString, OsString> {
    let temp = workspace.root.join("temp");
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
    let mut set = |name: &str, value: &dyn AsRef<OsStr>| {
        environment.insert(name.into(), value.as_ref().to_owned());
    };
    set("PATH", &PATH);
    set("HOME", &temp);
    set("TMPDIR", &temp);
    set("LANG", &"C.UTF-8");
    set("TERM", &"dumb");
    set("SHELL", &"/bin/bash");
    // A pager or an editor would wait forever for input.
    set("PAGER", &"cat");
    set("GIT_PAGER", &"cat");
    set("GIT_TERMINAL_PROMPT", &"0");
    set("EDITOR", &"true");
    let of_worktree = GIT_CONFIG_IN_WORKTREES.iter().filter(|_| workspace.worktree.is_some());
    let git_config: Vec<_> = GIT_CONFIG.iter().chain(of_worktree).collect();
    set("GIT_CONFIG_COUNT", &git_config.len().to_string());
    for (index, (key, value)) in git_config.into_iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{index}"), key);
        set(&format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    // Prevents `git status` from writing the index, which can trigger a hook.
    set("GIT_OPTIONAL_LOCKS", &"0");
    set("WORKSPACE", &workspace.root);
    let has = |name: &str| names.iter().any(|folder| folder.name == Path::new(name));
    if let Some(project) = &workspace.project {
        set("PROJECT", if has(PROJECT) { &PROJECT } else { &project.path });
    }
    if let Some(memories) = &workspace.memories {
        set("MEMORIES", if has(MEMORIES) { &MEMORIES } else { memories });
    }
    let configured = configured.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let passed: Vec<(&str, &str)> =
        if client.iter().next().is_none() { configured.collect() } else { client.iter().collect() };
    let base = base.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in base.chain(passed) {
        let is_forbidden = name.is_empty()
            || name.contains(['=', '\0'])
            || FORBIDDEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        // Locale variables select the character encoding.
        let is_locale = name == "LANG" || name.starts_with("LC_");
        if is_forbidden || value.contains('\0') || is_locale && !is_utf8(value) {
            continue;
        }
        match name {
            "PATH" => set(name, &programs(value, workspace)),
            _ => set(name, &value),
        }
    }
    environment
}

/// Prepends these folders to the search path.
pub fn prepend_to_path(environment: &mut BTreeMap<OsString, OsString>, folders: &[&Path]) {
    let mut path = OsString::new();
    for folder in folders {
        path.push(folder);
        path.push(":");
    }
    path.push(environment.get(OsStr::new("PATH")).cloned().unwrap_or_default());
    environment.insert("PATH".into(), path);
}

/// Appends the folder to the search path, unless the search path already contains it.
pub fn append_to_path(environment: &mut BTreeMap<OsString, OsString>, folder: &Path) {
    let path = environment.entry("PATH".into()).or_insert_with(|| PATH.into());
    if !std::env::split_paths(path).any(|known| known == folder) {
        path.push(":");
        path.push(folder);
    }
}

/// Returns true for locales that use UTF-8, the encoding in which commands are judged. In other encodings, the last
/// byte of a character can be a backslash or a quote.
fn is_utf8(locale: &str) -> bool {
    let charset = locale.split_once('.').map(|(_, charset)| charset.split('@').next().unwrap_or_default());
    let plain = locale.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-@".contains(letter));
    plain && charset.is_some_and(|charset| ["utf-8", "utf8"].iter().any(|name| name.eq_ignore_ascii_case(charset)))
}

/// Filters the search path. Relative folders and the session's own folders are dropped, because a command may have
/// placed a program with a common name there. If no folder remains, returns the system's folders.
fn programs(path: &str, workspace: &Workspace) -> OsString {
    let project = workspace.project.iter().map(|mount| &mount.path);
    let mounts = project.chain(workspace.folders.iter().map(|folder| &folder.path));
    let own: Vec<&PathBuf> = [&workspace.root].into_iter().chain(mounts).chain(&workspace.memories).collect();
    let is_usable = |folder: &PathBuf| {
        let is_plain = folder.components().all(|part| !matches!(part, Component::ParentDir));
        folder.is_absolute() && is_plain && !own.iter().any(|own| folder.starts_with(own))
    };
    let remaining = std::env::join_paths(std::env::split_paths(path).filter(is_usable)).unwrap_or_default();
    if remaining.is_empty() { PATH.into() } else { remaining }
}

#[cfg(test)]
mod tests {
    use agentd_core::session::Mount;

    use super::*;

    fn at(project: Option<Mount>, memories: Option<PathBuf>) -> Workspace {
        Workspace { root: "/w".into(), project, memories, ..Workspace::default() }
    }

    #[test]
    fn configured_and_client_variables_win_except_loaders() {
        let of = |variables: &[(&str, &str)]| -> BTreeMap<String, String> {
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let configured =
            of(&[("PATH", "/opt/bin"), ("LD_PRELOAD", "/x.so"), ("A=B", "c"), ("", "x"), ("RUST_LOG", "info")]);
        let base = of(&[("RUST_LOG", "trace"), ("CARGO_HOME", "/cargo")]);
        let check = |sent: &[(&str, &str)], expected: [Option<&str>; 3]| {
            let client = ClientEnvironment::unchecked(of(sent));
            let clean = build(&at(None, None), &[], &base, &configured, &client);
            let get = |name: &str| clean.get(OsStr::new(name)).and_then(|value| value.to_str());
            assert_eq!(["PATH", "RUST_LOG", "CARGO_HOME"].map(get), expected);
            assert_eq!(["HOME", "LD_PRELOAD", "A=B", "PROJECT"].map(get), [Some("/w/temp"), None, None, None]);
        };
        check(&[], [Some("/opt/bin"), Some("info"), Some("/cargo")]);
        // The client's variables replace the configured variables.
        check(&[("PATH", "/client"), ("LD_PRELOAD", "/x.so")], [Some("/client"), Some("trace"), Some("/cargo")]);
    }

    #[test]
    fn locale_is_utf8_and_path_excludes_session_folders() {
        let workspace = at(Some(Mount { path: "/code".into(), writable: true }), Some("/m".into()));
        let value_of = |sent: &[(&str, &str)], name: &str| {
            let sent = sent.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let environment =
                build(&workspace, &[], &BTreeMap::new(), &BTreeMap::new(), &ClientEnvironment::unchecked(sent));
            environment.get(OsStr::new(name)).map(|value| value.to_string_lossy().into_owned())
        };
        for (locale, is_accepted) in [
            ("de_DE.UTF-8", true),
            ("ja_JP.utf8", true),
            ("ca_ES.UTF-8@valencia", true),
            ("zh_CN.GBK", false),
            ("zh_CN", false),
            ("zh_TW.Big5", false),
            ("zh_CN.GB18030", false),
            ("ja_JP.SJIS@.UTF-8", false),
            ("zh_CN.GBK.UTF-8", false),
            ("../x.UTF-8", false),
            ("C", false),
            ("POSIX", false),
            ("", false),
        ] {
            let expected = is_accepted.then(|| locale.to_owned());
            assert_eq!(
                value_of(&[("LANG", locale)], "LANG"),
                expected.clone().or(Some("C.UTF-8".to_owned())),
                "{locale}"
            );
            assert_eq!(value_of(&[("LC_ALL", locale)], "LC_ALL"), expected, "{locale}");
        }
        assert_eq!(value_of(&[("LOCPATH", "/tmp/x")], "LOCPATH"), None);
        for (path, expected) in [
            ("/usr/bin:/bin", "/usr/bin:/bin"),
            (":/usr/bin::bin:./x:../y:/bin:", "/usr/bin:/bin"),
            ("/code/.venv/bin:/codes:/w/temp:/m:/usr/../code:/usr/bin", "/codes:/usr/bin"),
            (".", PATH),
            ("", PATH),
        ] {
            assert_eq!(value_of(&[("PATH", path)], "PATH").as_deref(), Some(expected), "{path}");
        }
    }
}

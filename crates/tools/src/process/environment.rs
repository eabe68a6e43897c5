//! What a command sees of the world. The daemon's own environment holds keys, so none of it is passed on.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use agentd_core::{environment::ClientEnvironment, ports::Workspace};

/// Where programs are looked for unless the configuration says otherwise.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Names that are never passed, whatever the configuration says: they load code into every program.
const FORBIDDEN_PREFIXES: [&str; 2] = ["LD_", "DYLD_"];

/// What git is told whatever a repository's own configuration says, which may have come with a stranger's folder: not to
/// run the programs that it names when all that is asked is how things stand. Keys for signing are out of reach anyway.
const GIT_CONFIG: [(&str, &str); 8] = [
    // A folder of plain files that looks like a bare repository would have its configuration obeyed.
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("log.showSignature", "false"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("protocol.ext.allow", "never"),
];

/// The name of the mark by which children of a command are found.
pub(super) const MARK: &str = "AGENTD_COMMAND";

/// The environment of a command in this workspace. What the client sent overrides what stands and the defaults; where
/// it sent nothing, what was configured does.
pub(crate) fn clean(
    workspace: &Workspace,
    standing: &BTreeMap<String, String>,
    configured: &BTreeMap<String, String>,
    client: &ClientEnvironment,
) -> BTreeMap<OsString, OsString> {
    let temp = workspace.root.join("temp");
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
    let mut set = |name: &str, value: &dyn AsRef<std::ffi::OsStr>| {
        environment.insert(name.into(), value.as_ref().to_owned());
    };
    set("PATH", &PATH);
    set("HOME", &temp);
    set("TMPDIR", &temp);
    set("LANG", &"C.UTF-8");
    set("TERM", &"dumb");
    set("SHELL", &"/bin/bash");
    // Nobody sits at the keyboard, and a pager or an editor would wait for someone.
    set("PAGER", &"cat");
    set("GIT_PAGER", &"cat");
    set("GIT_TERMINAL_PROMPT", &"0");
    set("EDITOR", &"true");
    set("GIT_CONFIG_COUNT", &GIT_CONFIG.len().to_string());
    for (index, (key, value)) in GIT_CONFIG.iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{index}"), key);
        set(&format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    // `git status` writes no index, and so runs no hook that waits for that.
    set("GIT_OPTIONAL_LOCKS", &"0");
    set("WORKSPACE", &workspace.root);
    if let Some(project) = &workspace.project {
        set("PROJECT", &project.path);
    }
    if let Some(memories) = &workspace.memories {
        set("MEMORIES", memories);
    }
    let configured = configured.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let passed: Vec<(&str, &str)> = if client.is_empty() { configured.collect() } else { client.iter().collect() };
    let standing = standing.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in standing.chain(passed) {
        if is_allowed(name) && !value.contains('\0') {
            set(name, &Path::new(value));
        }
    }
    environment
}

/// Has programs be found in these folders before all others. Each is that of a Python environment.
pub(crate) fn find_first(environment: &mut BTreeMap<OsString, OsString>, folders: &[PathBuf]) {
    let Some(first) = folders.first().and_then(|folder| folder.parent()) else { return };
    environment.insert("VIRTUAL_ENV".into(), first.into());
    let mut path = OsString::new();
    for folder in folders {
        path.push(folder);
        path.push(":");
    }
    path.push(environment.get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_default());
    environment.insert("PATH".into(), path);
}

/// Has programs be found in this folder after all others.
pub(crate) fn find_last(environment: &mut BTreeMap<OsString, OsString>, folder: &Path) {
    let path = environment.entry("PATH".into()).or_default();
    path.push(":");
    path.push(folder);
}

fn is_allowed(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !FORBIDDEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_configured_wins_and_what_loads_code_is_left_out() {
        let workspace = Workspace { root: "/w".into(), project: None, memories: None };
        let configured = BTreeMap::from(
            [("PATH", "/opt/bin"), ("LD_PRELOAD", "/x.so"), ("A=B", "c"), ("", "x"), ("RUST_LOG", "info")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let standing = BTreeMap::from([("RUST_LOG".to_owned(), "trace".to_owned())]);
        let clean = clean(&workspace, &standing, &configured, &ClientEnvironment::default());
        let get = |name: &str| clean.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str());
        assert_eq!(get("PATH"), Some("/opt/bin"));
        assert_eq!(get("RUST_LOG"), Some("info"));
        assert_eq!(get("HOME"), Some("/w/temp"));
        assert_eq!(get("LD_PRELOAD"), None);
        assert_eq!(get("A=B"), None);
        assert_eq!(get("PROJECT"), None);
    }

    #[test]
    fn the_client_takes_the_place_of_what_is_configured() {
        let workspace = Workspace { root: "/w".into(), project: None, memories: None };
        let configured =
            BTreeMap::from([("PATH".to_owned(), "/daemon".to_owned()), ("TZ".to_owned(), "UTC".to_owned())]);
        let client = ClientEnvironment::unjudged([("PATH".to_owned(), "/client".to_owned())]);
        let standing =
            [("PATH", "/standing"), ("CARGO_HOME", "/cargo")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let clean = clean(&workspace, &standing.into(), &configured, &client);
        let get = |name: &str| clean.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str());
        assert_eq!((get("PATH"), get("TZ"), get("CARGO_HOME")), (Some("/client"), None, Some("/cargo")));
    }
}

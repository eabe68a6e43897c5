//! Finds unlisted paths that a command reads: compilers and interpreters that variables name or that container images
//! include, and the repositories of linked worktrees and submodules.
//!
//! A variable can contain any path, and a `.git` file may come from a third party. A folder is therefore only treated
//! as a toolchain if it looks like one, and as a repository only if it refers back to the tree. Neither may contain the
//! home folder or the session's own folders, or be inside a hidden folder.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use agentd_core::ports::Workspace;

use crate::{
    config::SandboxConfig,
    environment::append_to_path,
    places::{SYSTEM, exact, linked},
};

type Names = &'static [&'static str];

/// Kinds of toolchains: the variable that names the folder; the folder in container images; entries that identify such
/// a folder; the parts that commands read, with `.` for the whole folder; folders of programs, empty if the programs
/// need the variable instead.
const KINDS: [(&str, &str, Names, Names, Names); 7] = [
    ("CARGO_HOME", "/usr/local/cargo", &["bin/cargo"], &["bin", "config.toml", "env", "git", "registry"], &["bin"]),
    // Caches for continuous integration, which contain no programs.
    ("CARGO_HOME", "", &["registry"], &["config.toml", "git", "registry"], &[]),
    ("RUSTUP_HOME", "/usr/local/rustup", &["settings.toml", "toolchains"], &["."], &[]),
    ("GOROOT", "/usr/local/go", &["bin/go", "pkg/tool"], &["."], &["bin"]),
    ("JAVA_HOME", "/opt/java/openjdk", &["bin/java", "lib"], &["."], &["bin"]),
    ("NVM_DIR", "/usr/local/share/nvm", &["versions/node"], &["."], &[]),
    ("PYENV_ROOT", "", &["shims", "versions"], &["."], &["shims", "bin"]),
];

/// Additional files and folders that a command reads, by real path.
#[derive(Debug, Default)]
pub(super) struct ExtraReads {
    pub(super) read: Vec<PathBuf>,
    /// Files and folders that are searched for keys.
    pub(super) searched: Vec<PathBuf>,
    /// Repositories, which are also included in `read`.
    pub(super) repositories: Vec<PathBuf>,
}

/// Finds the paths for a command with this environment, and adds the variables needed to find the programs.
pub(super) fn find(
    environment: &mut BTreeMap<OsString, OsString>,
    workspace: &Workspace,
    config: &SandboxConfig,
) -> ExtraReads {
    let mut found = ExtraReads::default();
    let own: Vec<PathBuf> = exact(workspace).into_iter().chain(config.write.iter().cloned()).collect();
    let bounds = std::cell::LazyCell::new(|| Bounds::of(&own, config));
    for (variable, default, marks, parts, programs) in KINDS {
        let configured = environment.get(OsStr::new(variable)).map_or(OsStr::new(default), OsString::as_os_str);
        let folder = toolchain(Path::new(configured), marks).filter(|folder| bounds.allow(folder));
        let Some(folder) = folder else { continue };
        let parts = parts.iter().filter_map(|part| folder.join(part).canonicalize().ok());
        let parts: Vec<PathBuf> = parts.filter(|part| bounds.allow(part) && !bounds.lists(part)).collect();
        if !parts.is_empty() {
            // Listed files are always searched for keys. In a listed folder, only settings and likely key files are
            // searched.
            found.searched.extend(parts.iter().filter(|part| part.is_file()).chain([&folder]).cloned());
        }
        found.read.extend(parts);
        for programs in programs {
            append_to_path(environment, &folder.join(programs));
        }
        if programs.is_empty() {
            environment.insert(variable.into(), folder.into());
        }
    }
    let bounds = std::cell::LazyCell::new(|| Bounds::of(std::slice::from_ref(&workspace.root), config));
    let repositories = linked(workspace).into_iter().filter_map(|(_, repository)| repository);
    let mounts = workspace.mounts();
    // A repository inside one of the mounts may be writable.
    let is_mounted = |repository: &Path| mounts.names().any(|(_, mount)| repository.starts_with(mount));
    found.repositories.extend(repositories.filter(|git| bounds.allow(git) && !is_mounted(git)));
    found.read.extend(found.repositories.iter().cloned());
    found
}

/// Returns the real path of a folder that looks like a toolchain.
fn toolchain(configured: &Path, marks: &[&str]) -> Option<PathBuf> {
    let real = configured.canonicalize().ok().filter(|_| configured.is_absolute())?;
    let is_system = SYSTEM.iter().any(|system| Path::new(system) == real);
    (!is_system && marks.iter().all(|mark| real.join(mark).exists())).then_some(real)
}

/// Real paths that limit the search: a path found here must not contain them or be inside them.
struct Bounds {
    own: Vec<PathBuf>,
    home: Option<PathBuf>,
    hidden: Vec<PathBuf>,
    listed: Vec<PathBuf>,
}

impl Bounds {
    fn of(own: &[PathBuf], config: &SandboxConfig) -> Self {
        let real = |paths: &[PathBuf]| paths.iter().filter_map(|path| path.canonicalize().ok()).collect::<Vec<_>>();
        let home = config.home.as_ref().and_then(|home| home.canonicalize().ok());
        Self { own: real(own), home, hidden: real(&config.hidden), listed: real(&config.read) }
    }

    fn allow(&self, path: &Path) -> bool {
        let contains = |inner: &PathBuf| inner.starts_with(path);
        let is_below = |outer: &PathBuf| path.starts_with(outer);
        !self.own.iter().chain(&self.home).any(contains) && !self.own.iter().chain(&self.hidden).any(is_below)
    }

    /// Returns true if commands can already read the path and it is already searched for keys.
    fn lists(&self, path: &Path) -> bool {
        self.listed.iter().any(|listed| path.starts_with(listed))
    }
}

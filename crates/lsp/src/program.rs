//! Lookup of server programs in the daemon's search path, never in a folder of the project.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use agentd_core::mutex::lock;
use tokio::time::Instant;

/// Time for which a lookup is cached.
const CACHE_TIME: Duration = Duration::from_secs(10);
/// Program to which proxies of Rust tools link, even for tools that no toolchain contains.
const RUSTUP: &str = "rustup";

/// Locations where programs are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramPlaces {
    /// Folders in the format of `PATH`.
    pub search_path: OsString,
    /// Folder of rustup, which contains Rust's toolchains.
    pub rustup: Option<PathBuf>,
}

/// Result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FoundProgram {
    /// Absolute path of the program.
    Installed(PathBuf),
    Absent,
    /// A rustup proxy exists, but no toolchain contains the program.
    NotInToolchains,
}

/// Cache of program lookups.
#[derive(Debug)]
pub(crate) struct Programs {
    places: ProgramPlaces,
    cache: Mutex<HashMap<String, (Instant, FoundProgram)>>,
}

impl Programs {
    pub(crate) fn new(places: ProgramPlaces) -> Self {
        Self { places, cache: Mutex::default() }
    }

    /// Finds a program, using the cache. May block.
    pub(crate) fn find(&self, command: &str) -> FoundProgram {
        let current = |(at, found): &(Instant, FoundProgram)| (at.elapsed() < CACHE_TIME).then(|| found.clone());
        let cached = self.cache().get(command).and_then(current);
        cached.unwrap_or_else(|| {
            let found = find(command, &self.places);
            self.cache().insert(command.to_owned(), (Instant::now(), found.clone()));
            found
        })
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, HashMap<String, (Instant, FoundProgram)>> {
        lock(&self.cache)
    }
}

fn find(command: &str, places: &ProgramPlaces) -> FoundProgram {
    let command_path = Path::new(command);
    if command.is_empty() || (!command_path.is_absolute() && command.contains('/')) {
        return FoundProgram::Absent;
    }
    let folders = std::env::split_paths(&places.search_path).filter(|folder| folder.is_absolute());
    let mut found = FoundProgram::Absent;
    // Joining an absolute path to a folder returns the path itself.
    for path in folders.chain([PathBuf::from("/")]).map(|folder| folder.join(command_path)) {
        if !is_program(&path) {
            continue;
        }
        if is_installed(&path, command_path, places) {
            return FoundProgram::Installed(path);
        }
        found = FoundProgram::NotInToolchains;
    }
    found
}

/// Returns true if the program is installed, as opposed to only a rustup proxy for it.
fn is_installed(path: &Path, command_path: &Path, places: &ProgramPlaces) -> bool {
    let is_rustup = |canonical: &Path| canonical.file_name() == Some(OsStr::new(RUSTUP));
    if !path.canonicalize().is_ok_and(|canonical| is_rustup(&canonical)) {
        return true;
    }
    let toolchains = places.rustup.as_ref().and_then(|rustup| rustup.join("toolchains").read_dir().ok());
    let mut toolchains = toolchains.into_iter().flatten().flatten();
    let Some(name) = command_path.file_name() else { return false };
    toolchains.any(|toolchain| is_program(&toolchain.path().join("bin").join(name)))
}

/// Returns true if the program is inside the project folder, where the project's author could have placed it.
pub(crate) fn is_of(program: &Path, folder: &Path) -> bool {
    let canonical = program.canonicalize();
    program.starts_with(folder) || canonical.is_ok_and(|canonical| canonical.starts_with(folder))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn programs_are_found_in_absolute_path_folders_only() {
        let folder = tempfile::tempdir().unwrap();
        let server = folder.path().join("server");
        program(&server);
        fs::write(folder.path().join("text"), "").unwrap();
        let search_path = format!(".:bin:{}", folder.path().display()).into();
        let places = ProgramPlaces { search_path, rustup: None };
        let check = |command: &str, expected: Option<&Path>| {
            let expected = expected.map_or(FoundProgram::Absent, |path| FoundProgram::Installed(path.to_path_buf()));
            assert_eq!(find(command, &places), expected, "{command}");
        };
        check("server", Some(&server));
        check(server.to_str().unwrap(), Some(&server));
        check("text", None);
        check("missing", None);
        check("./server", None);
        check("", None);
        assert!(is_of(&server, folder.path()) && !is_of(&server, Path::new("/elsewhere")));
    }

    #[test]
    fn rustup_proxy_counts_only_if_a_toolchain_has_it() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        program(&path("cargo/bin/rustup"));
        symlink("rustup", path("cargo/bin/rust-analyzer")).unwrap();
        program(&path("rustup/toolchains/stable/bin/cargo"));
        let search_path: OsString = format!("{}:{}", path("cargo/bin").display(), path("usr/bin").display()).into();
        let places = ProgramPlaces { search_path, rustup: Some(path("rustup")) };
        let look = || find("rust-analyzer", &places);
        assert_eq!(look(), FoundProgram::NotInToolchains);
        program(&path("usr/bin/rust-analyzer"));
        assert_eq!(
            look(),
            FoundProgram::Installed(path("usr/bin/rust-analyzer")),
            "the program itself takes precedence"
        );
        program(&path("rustup/toolchains/stable/bin/rust-analyzer"));
        assert_eq!(look(), FoundProgram::Installed(path("cargo/bin/rust-analyzer")));
    }
}

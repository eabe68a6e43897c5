//! Programs of servers: looked for in the daemon's search path, never in a folder of the project.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Absolute path of a program; none where it is not there.
pub(crate) fn find(command: &str, search_path: &OsStr) -> Option<PathBuf> {
    let named = Path::new(command);
    if named.is_absolute() {
        return is_program(named).then(|| named.to_path_buf());
    }
    if command.is_empty() || command.contains('/') {
        return None;
    }
    let folders = std::env::split_paths(search_path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(command)).find(|path| is_program(path))
}

/// Returns whether a program lies in a folder of the person: whoever wrote that project would have it started.
pub(crate) fn is_of(program: &Path, folder: &Path) -> bool {
    let real = program.canonicalize();
    program.starts_with(folder) || real.is_ok_and(|real| real.starts_with(folder))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn programs_are_found_by_name_in_absolute_folders_only() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("server");
        fs::write(&program, "").unwrap();
        fs::write(folder.path().join("text"), "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let search = format!(".:bin:{}", folder.path().display());
        let check = |command: &str, expected: Option<&Path>| {
            assert_eq!(find(command, OsStr::new(&search)).as_deref(), expected, "{command}");
        };
        check("server", Some(&program));
        check(program.to_str().unwrap(), Some(&program));
        check("text", None);
        check("missing", None);
        check("./server", None);
        check("", None);
        assert!(is_of(&program, folder.path()) && !is_of(&program, Path::new("/elsewhere")));
    }
}

//! Atomic replacement of the user's configuration files.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
};

use tempfile::NamedTempFile;

/// Mode of a file that only its owner can access.
const PRIVATE_MODE: u32 = 0o600;

/// Reads a file; a missing one is empty.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Returns true for a line of YAML that is neither empty nor a comment.
pub(crate) fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// Creates a private temporary file in the same folder, to be renamed once it is complete.
pub(crate) fn draft(beside: &Path) -> io::Result<NamedTempFile> {
    let folder = beside.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".agentctl-").tempfile_in(folder)
}

/// Replaces a file atomically. A new file is private, because it may contain keys.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    write_new(path, text, fs::metadata(path).map_or(PRIVATE_MODE, |meta| meta.permissions().mode()))
}

/// Like [`replace`], but also makes an existing file private.
pub(crate) fn replace_private(path: &Path, text: &str) -> io::Result<()> {
    write_new(path, text, PRIVATE_MODE)
}

fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    // If the path is a link, the link stays and its target is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if let Some(folder) = path.parent() {
        // The configuration folders may not exist yet.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut draft = draft(path)?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_file_is_private_and_existing_one_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/mcp_servers.yaml");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        replace(&path, "a").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode()), ("a", 0o600));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, "b").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode()), ("b", 0o644));
    }
}

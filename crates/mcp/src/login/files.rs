//! The files of a login, which only their owner can read.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};

/// The tokens of one server.
pub(super) struct TokenFile {
    pub(super) path: PathBuf,
}

impl TokenFile {
    /// What stands in it, if it is there.
    pub(super) fn read(&self) -> Result<Option<StoredCredentials>, AuthError> {
        match fs::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|_| broken("the token file is damaged")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(broken(&format!("could not read the token: {error}"))),
        }
    }
}

#[async_trait::async_trait]
impl CredentialStore for TokenFile {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        self.read()
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_vec(&credentials).map_err(|error| broken(&error.to_string()))?;
        write(&self.path, &text).map_err(|error| broken(&format!("could not keep the token: {error}")))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(broken(&format!("could not remove the token: {error}")))
            }
            _ => Ok(()),
        }
    }
}

fn broken(what: &str) -> AuthError {
    AuthError::CredentialStoreError(what.to_owned())
}

/// Puts a file in place, whole or not at all, that only its owner can read.
pub(super) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Files that differ in their ends only have a part each.
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    // One that was left behind may have another mode.
    let _ = fs::remove_file(&part);
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(part, path)
}

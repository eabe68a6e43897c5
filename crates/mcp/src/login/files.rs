//! The files of a login, which only their owner can read.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rmcp::transport::auth::{AuthError, AuthorizationMetadata, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};

/// Issuer of a token, and where it is renewed: no other is ever shown what renews it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenSource {
    issuer: Option<String>,
    token_endpoint: String,
}

impl From<&AuthorizationMetadata> for TokenSource {
    fn from(said: &AuthorizationMetadata) -> Self {
        Self { issuer: said.issuer.clone(), token_endpoint: said.token_endpoint.clone() }
    }
}

/// The tokens of one server that one giver gave.
pub(super) struct TokenFile {
    pub(super) path: PathBuf,
    pub(super) giver: TokenSource,
    /// The client registered there, where a person gave one.
    pub(super) client: Option<String>,
    /// The secret of the client that was registered for the login, where it was given one.
    pub(super) client_secret: Option<String>,
}

/// Content of the file. That of an earlier version says nothing of the issuer.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredToken {
    given_by: Option<TokenSource>,
    credentials: Option<StoredCredentials>,
    client_secret: Option<String>,
}

/// Outcome of looking for a token.
pub(super) enum TokenLookup {
    Nothing,
    /// With the secret of the client that was registered for it, where it was given one.
    Token(Box<StoredCredentials>, Option<String>),
    /// One that is not to be shown to anybody, for this reason.
    Unfit(&'static str),
}

impl TokenFile {
    /// Content of the file.
    pub(super) fn read(&self) -> Result<TokenLookup, AuthError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TokenLookup::Nothing),
            Err(error) => return Err(broken(&format!("could not read the token: {error}"))),
        };
        let kept: StoredToken = serde_json::from_slice(&text).map_err(|_| broken("the token file is damaged"))?;
        let (Some(given_by), Some(credentials)) = (kept.given_by, kept.credentials) else {
            return Ok(TokenLookup::Unfit("it is not known who gave the token"));
        };
        Ok(if given_by != self.giver {
            TokenLookup::Unfit("the login server has changed since the token was issued")
        } else if self.client.as_ref().is_some_and(|id| *id != credentials.client_id) {
            TokenLookup::Unfit("the token was given to another client than that of mcp_servers.yaml")
        } else {
            TokenLookup::Token(Box::new(credentials), kept.client_secret)
        })
    }
}

#[async_trait::async_trait]
impl CredentialStore for TokenFile {
    /// Credentials given by another count as none: they are neither used nor taken away.
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(match self.read()? {
            TokenLookup::Token(credentials, _) => Some(*credentials),
            TokenLookup::Nothing | TokenLookup::Unfit(_) => None,
        })
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let kept = StoredToken {
            given_by: Some(self.giver.clone()),
            credentials: Some(credentials),
            client_secret: self.client_secret.clone(),
        };
        let text = serde_json::to_vec(&kept).map_err(|error| broken(&error.to_string()))?;
        let path = self.path.clone();
        // It waits for the disk.
        let written = tokio::task::spawn_blocking(move || write(&path, &text)).await;
        let written = written.map_err(io::Error::other).flatten();
        written.map_err(|error| broken(&format!("could not keep the token: {error}")))
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

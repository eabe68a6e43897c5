//! Logging in to servers behind an address, by OAuth. Tokens are kept in a file for each server and address that only its
//! owner can read; they are renewed when they have run out.

use std::{
    collections::HashMap,
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, CredentialStore, StoredCredentials,
};
use sha2::{Digest as _, Sha256};

/// How long a server may take to say where to log in, and to give a token.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who is known where.
pub struct Logins {
    folder: PathBuf,
    /// Logins that a person has begun and not finished, by server.
    under_way: Mutex<HashMap<String, AuthorizationSession>>,
}

impl Logins {
    /// With tokens in this folder. It is made when the first is kept.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, under_way: Mutex::default() }
    }

    /// Begins to log in. Returns the address that the person has to open; what comes back to `redirect` finishes it.
    ///
    /// # Errors
    /// Why it cannot be done, in a sentence.
    pub async fn begin(&self, server: &str, url: &str, redirect: &str) -> Result<String, String> {
        let begun = tokio::time::timeout(PATIENCE, async {
            let mut manager = self.bare_manager(server, url).await?;
            let metadata = manager.resolve_metadata().await?.metadata;
            manager.set_metadata(metadata);
            let request = AuthorizationRequest::new(redirect).with_client_name("agentd").with_initial_scope_selection();
            AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)
        });
        let session = begun.await.map_err(|_| "it did not answer in time".to_owned())?.map_err(|error| told(&error))?;
        let address = session.get_authorization_url().to_owned();
        self.under_way().insert(server.to_owned(), session);
        Ok(address)
    }

    /// Finishes what was begun, with the address that the browser was sent back to. The token is kept then.
    ///
    /// # Errors
    /// Nothing was begun, or the token was refused.
    pub async fn finish(&self, server: &str, came_back_to: &str) -> Result<(), String> {
        let session = {
            let mut under_way = self.under_way();
            let known = under_way.get(server);
            let known = known.ok_or_else(|| "no login was begun, or it was finished before".to_owned())?;
            // Whoever comes back from elsewhere does not end the login that is waited for.
            if state_of(known.get_authorization_url()) != state_of(came_back_to) {
                return Err("the browser came back from another login".to_owned());
            }
            under_way.remove(server)
        };
        let session = session.ok_or_else(|| "it was finished before".to_owned())?;
        let exchanged = tokio::time::timeout(PATIENCE, session.handle_callback_url(came_back_to)).await;
        exchanged.map_err(|_| "it gave no token in time".to_owned())?.map(drop).map_err(|error| told(&error))
    }

    /// What adds the token to requests; none where nobody has logged in.
    pub(crate) async fn manager(&self, server: &str, url: &str) -> Result<Option<AuthorizationManager>, String> {
        if !self.file(server, url).exists() {
            return Ok(None);
        }
        let ready = tokio::time::timeout(PATIENCE, async {
            let mut manager = self.bare_manager(server, url).await?;
            Ok::<_, AuthError>(manager.initialize_from_store().await?.then_some(manager))
        });
        ready.await.map_err(|_| "it did not say in time where to log in".to_owned())?.map_err(|error| told(&error))
    }

    async fn bare_manager(&self, server: &str, url: &str) -> Result<AuthorizationManager, AuthError> {
        // An error only says that a provider is there already, which is all that is wanted.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut manager = AuthorizationManager::new(url).await?;
        manager.set_credential_store(TokenFile { path: self.file(server, url) });
        Ok(manager)
    }

    /// Another one for each address: a token stays with whom it was given by, whatever is called so later.
    fn file(&self, server: &str, url: &str) -> PathBuf {
        // Keys may stand behind the question mark, and those change.
        let address = url.split(['?', '#']).next().unwrap_or_default();
        let hash = Sha256::digest(address.as_bytes());
        let mark: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{}@{mark}.json", crate::schema::file_name(server)))
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashMap<String, AuthorizationSession>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The word by which an answer to a login is known.
fn state_of(address: &str) -> Option<String> {
    let address = reqwest::Url::parse(address).ok()?;
    address.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
}

/// What went wrong, in one line of bounded length. No token is in it.
fn told(error: &AuthError) -> String {
    agentd_core::untrusted::told(&error.to_string()).replace('\n', " ").chars().take(400).collect()
}

/// The tokens of one server.
struct TokenFile {
    path: PathBuf,
}

#[async_trait::async_trait]
impl CredentialStore for TokenFile {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        match fs::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|_| broken("the token file is damaged")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(broken(&format!("could not read the token: {error}"))),
        }
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
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let part = path.with_extension("part");
    // One that was left behind may have another mode.
    let _ = fs::remove_file(&part);
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn tokens_are_their_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let logins = Logins::new(folder.path().join("tokens"));
        let store = TokenFile { path: logins.file("a server", "http://localhost:1/") };
        assert!(store.load().await.unwrap().is_none());
        let credentials = StoredCredentials::new("me".to_owned(), None, Vec::new(), None);
        store.save(credentials.clone()).await.unwrap();
        store.save(credentials).await.unwrap();
        assert_eq!(store.load().await.unwrap().unwrap().client_id, "me");
        for (server, url) in [
            ("a_server", "http://localhost:1/"),
            ("a server", "http://localhost:2/"),
            ("a server", "http://localhost:1/b"),
        ] {
            let other = TokenFile { path: logins.file(server, url) };
            assert!(other.load().await.unwrap().is_none(), "{server} at {url} has the token of another");
        }
        assert_eq!(logins.file("a server", "http://localhost:1/?key=1#x"), store.path);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.path), mode(&folder.path().join("tokens"))), (0o600, 0o700));
        store.clear().await.unwrap();
        store.clear().await.unwrap();
        assert!(logins.manager("a server", "http://localhost:1/").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_was_not_begun_cannot_be_finished() {
        let folder = tempfile::tempdir().unwrap();
        let why = Logins::new(folder.path().to_owned()).finish("a", "http://localhost/?code=1&state=2").await;
        assert!(why.unwrap_err().contains("no login was begun"));
    }
}

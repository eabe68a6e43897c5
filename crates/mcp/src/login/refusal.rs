//! Authorisation errors from servers, and the token files. Required scopes and metadata URLs are stored next to the
//! token until a login has requested them. They come from untrusted servers: lengths are limited, and only valid
//! values are accepted.

use std::{
    error::Error,
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use reqwest::Url;
use rmcp::{
    service::{ClientInitializeError, ServiceError},
    transport::{
        DynamicTransportError, WWWAuthenticateParams,
        auth::{AuthError, CredentialStore, StoredCredentials},
        streamable_http_client::{AuthRequiredError, InsufficientScopeError},
    },
};
use serde::{Deserialize, Serialize};

/// Maximum number of scopes.
const MAX_SCOPES: usize = 64;
/// Maximum length of a scope, in bytes.
const MAX_SCOPE_LENGTH: usize = 128;
/// Maximum length of a server's metadata URL, in bytes.
const MAX_ADDRESS_LENGTH: usize = 2048;

/// Authorisation error from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// True if the server accepted the token, but denied the request.
    pub(super) is_authenticated: bool,
    /// `WWW-Authenticate` header of the response.
    header: String,
    /// Reason why the token could not be renewed, if that is the problem. In this case the server was not contacted,
    /// or it had rejected the old token.
    pub(super) not_renewed: Option<String>,
}

impl Refusal {
    /// Returns the authorisation error in a failed initialisation, if any.
    pub(crate) fn of_initialization(error: &ClientInitializeError) -> Option<Self> {
        match error {
            ClientInitializeError::TransportError { error, .. } => Self::of(error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::of_initialization(fallback),
            _ => None,
        }
    }

    /// Returns the authorisation error in a failed request, if any.
    pub(crate) fn of_request(error: &ServiceError) -> Option<Self> {
        match error {
            ServiceError::TransportSend(error) => Self::of(error),
            _ => None,
        }
    }

    /// Creates an error with this header.
    #[cfg(test)]
    pub(super) fn with(is_authenticated: bool, header: &str) -> Self {
        Self { is_authenticated, header: header.to_owned(), not_renewed: None }
    }

    fn of(error: &DynamicTransportError) -> Option<Self> {
        let refusal = |is_authenticated, header: &str| {
            Some(Self { is_authenticated, header: header.to_owned(), not_renewed: None })
        };
        let mut causes =
            std::iter::successors(Some(error.error.as_ref() as &(dyn Error + 'static)), |&error| error.source());
        causes.find_map(|error| {
            if let Some(refused) = error.downcast_ref::<AuthRequiredError>() {
                return refusal(false, &refused.www_authenticate_header);
            }
            if let Some(refused) = error.downcast_ref::<InsufficientScopeError>() {
                return refusal(true, &refused.www_authenticate_header);
            }
            match error.downcast_ref::<AuthError>()? {
                AuthError::AuthorizationRequired => refusal(false, ""),
                AuthError::TokenRefreshFailed(reason) => {
                    Some(Self { is_authenticated: false, header: String::new(), not_renewed: Some(reason.clone()) })
                }
                _ => None,
            }
        })
    }

    /// Parses the header, sent by the server at this URL.
    pub(super) fn demand(&self, url: &str) -> LoginDemand {
        let Ok(url) = Url::parse(url) else { return LoginDemand::default() };
        let params = WWWAuthenticateParams::parse(&self.header, &url);
        let metadata = params.resource_metadata_url.as_ref().map(|url| url.as_str().to_owned());
        LoginDemand {
            metadata: metadata.filter(|address| address.len() <= MAX_ADDRESS_LENGTH),
            scopes: scopes(params.scope.as_deref().unwrap_or_default().split_whitespace()),
        }
    }
}

/// Requirements for a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LoginDemand {
    /// URL of the server's resource metadata.
    pub(super) metadata: Option<String>,
    /// Scopes that the server requires.
    pub(super) scopes: Vec<String>,
}

/// Filters valid scopes (RFC 6749, section 3.3), without duplicates and up to the maximum.
pub(super) fn scopes<'a>(candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let is_valid_char = |letter: u8| matches!(letter, b'!' | b'#'..=b'[' | b']'..=b'~');
    let mut valid: Vec<String> = Vec::new();
    for scope in candidates {
        let fits = !scope.is_empty() && scope.len() <= MAX_SCOPE_LENGTH && scope.bytes().all(is_valid_char);
        if fits && valid.len() < MAX_SCOPES && !valid.iter().any(|other| other == scope) {
            valid.push(scope.to_owned());
        }
    }
    valid
}

/// Stored state of logins to one server.
#[derive(Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WantedLogins {
    /// URL of the server's resource metadata.
    metadata: Option<String>,
    /// Scopes to request in the next login.
    scopes: Vec<String>,
    /// Scopes requested in the last login.
    asked: Vec<String>,
    /// True if the next login must not request the scopes of the current token: the last request was rejected because
    /// of a scope.
    anew: bool,
    /// Scopes that were rejected as invalid, and are never requested again.
    vain: Vec<String>,
}

/// Remedy for an authorisation error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Login with these scopes, if any.
    Login(Vec<String>),
    /// No remedy: these required scopes were requested already.
    None(Vec<String>),
}

impl WantedLogins {
    /// Reads the stored state. Unreadable state is dropped, since the next error repeats it.
    pub(super) fn read(path: &Path) -> Self {
        fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Stores the state in a file.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        write(path, &serde_json::to_vec(self)?)
    }

    /// Records an authorisation error from the server at this URL. `has_token` is true if there is a token.
    pub(super) fn record_refusal(&mut self, refusal: &Refusal, url: &str, has_token: bool) -> Remedy {
        let demand = refusal.demand(url);
        if demand.metadata.is_some() || !refusal.is_authenticated {
            self.metadata = demand.metadata;
        }
        let is_requested = |scope: &String| self.asked.contains(scope) || self.vain.contains(scope);
        if refusal.is_authenticated && demand.scopes.iter().all(is_requested) {
            return Remedy::None(demand.scopes);
        }
        let wanted = without(demand.scopes, &self.vain);
        let before = if has_token { std::mem::take(&mut self.scopes) } else { Vec::new() };
        // Newly required scopes come first, because those above the maximum are dropped.
        self.scopes = union(&wanted, &before);
        Remedy::Login(wanted)
    }

    /// Returns the scopes for the next login. `granted` are the scopes of the current token, `first` those for an
    /// initial login.
    pub(super) fn scopes_to_request(&self, granted: &[String], first: &[String]) -> Vec<String> {
        let granted = if self.anew { &[] } else { granted };
        let [granted, first] = [granted, first].map(|scopes| without(scopes.to_vec(), &self.vain));
        union(&union(&self.scopes, &granted), &first)
    }

    /// Records a successful login with these scopes.
    pub(super) fn record_login(&mut self, asked: Vec<String>) {
        let (metadata, vain) = (self.metadata.take(), std::mem::take(&mut self.vain));
        *self = Self { metadata, vain, asked, ..Self::default() };
    }

    /// Records that the requested scopes were rejected as invalid.
    pub(super) fn record_rejected_scopes(&mut self) {
        self.vain = union(&std::mem::take(&mut self.scopes), &self.vain);
        self.anew = true;
    }

    /// Returns the `WWW-Authenticate` header with the stored requirements.
    pub(super) fn challenge(&self) -> Option<String> {
        let metadata = self.metadata.as_ref().map(|address| {
            let address = address.replace('\\', "\\\\").replace('"', "\\\"");
            format!("resource_metadata=\"{address}\"")
        });
        let scopes = (!self.scopes.is_empty()).then(|| format!("scope=\"{}\"", self.scopes.join(" ")));
        let params: Vec<String> = metadata.into_iter().chain(scopes).collect();
        (!params.is_empty()).then(|| format!("Bearer {}", params.join(", ")))
    }
}

fn without(mut scopes: Vec<String>, others: &[String]) -> Vec<String> {
    scopes.retain(|scope| !others.contains(scope));
    scopes
}

fn union(one: &[String], other: &[String]) -> Vec<String> {
    scopes(one.iter().chain(other).map(String::as_str))
}

/// Issuer and token endpoint of a token. The refresh token is never sent elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenSource {
    pub(super) issuer: Option<String>,
    pub(super) token_endpoint: String,
}

/// Tokens for one server from one issuer.
pub(super) struct TokenFile {
    pub(super) path: PathBuf,
    pub(super) source: TokenSource,
    /// ID of the configured client, if there is one.
    pub(super) client: Option<String>,
    /// Secret of the client that was registered for the login, if it has one.
    pub(super) client_secret: Option<String>,
}

/// Content of a token file. Files of earlier versions have no issuer.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredToken {
    given_by: Option<TokenSource>,
    credentials: Option<StoredCredentials>,
    client_secret: Option<String>,
}

/// Result of reading a token.
pub(super) enum TokenLookup {
    Nothing,
    /// Token, and the secret of the client that was registered for it, if any.
    Token(Box<StoredCredentials>, Option<String>),
    /// Token that must not be used, with the reason.
    Unfit(&'static str),
}

impl TokenFile {
    /// Reads the token from disk.
    pub(super) fn read(&self) -> Result<TokenLookup, AuthError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TokenLookup::Nothing),
            Err(error) => return Err(storage_error(&format!("could not read the token: {error}"))),
        };
        let stored: StoredToken =
            serde_json::from_slice(&text).map_err(|_| storage_error("the token file is damaged"))?;
        let (Some(given_by), Some(credentials)) = (stored.given_by, stored.credentials) else {
            return Ok(TokenLookup::Unfit("the issuer of the token is unknown"));
        };
        Ok(if given_by != self.source {
            TokenLookup::Unfit("the login server changed since the token was issued")
        } else if self.client.as_ref().is_some_and(|id| *id != credentials.client_id) {
            TokenLookup::Unfit("the token belongs to another client than that of mcp_servers.yaml")
        } else {
            TokenLookup::Token(Box::new(credentials), stored.client_secret)
        })
    }
}

#[async_trait::async_trait]
impl CredentialStore for TokenFile {
    /// Loads the token. Tokens from another issuer count as missing: they are neither used nor removed.
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(match self.read()? {
            TokenLookup::Token(credentials, _) => Some(*credentials),
            TokenLookup::Nothing | TokenLookup::Unfit(_) => None,
        })
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let stored = StoredToken {
            given_by: Some(self.source.clone()),
            credentials: Some(credentials),
            client_secret: self.client_secret.clone(),
        };
        let text = serde_json::to_vec(&stored).map_err(|error| storage_error(&error.to_string()))?;
        let path = self.path.clone();
        // Writing to disk blocks.
        let written = tokio::task::spawn_blocking(move || write(&path, &text)).await;
        let written = written.map_err(io::Error::other).flatten();
        written.map_err(|error| storage_error(&format!("could not store the token: {error}")))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(storage_error(&format!("could not remove the token: {error}")))
            }
            _ => Ok(()),
        }
    }
}

fn storage_error(message: &str) -> AuthError {
    AuthError::CredentialStoreError(message.to_owned())
}

/// Writes a file atomically, readable only by its owner.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // The suffix is appended, so that files differing only in their extensions have separate temporary files.
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    // A leftover file may have another mode.
    let _ = fs::remove_file(&part);
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(header: &str) -> LoginDemand {
        Refusal::with(true, header).demand("https://example.org/mcp")
    }

    #[test]
    fn www_authenticate_parameters_are_parsed() {
        let demand = demand(
            r#"Bearer error="insufficient_scope", scope="files:read files:write files:read", resource_metadata="/there.json""#,
        );
        assert_eq!(demand.scopes, ["files:read", "files:write"]);
        assert_eq!(demand.metadata.as_deref(), Some("https://example.org/there.json"));
    }

    #[test]
    fn hostile_www_authenticate_is_bounded() {
        let many: String = (0..10_000).map(|number| format!("s{number} ")).collect();
        assert_eq!(demand(&format!("Bearer scope=\"{many}\"")).scopes.len(), MAX_SCOPES);
        let long = "x".repeat(MAX_SCOPE_LENGTH + 1);
        let header = format!("Bearer scope=\"a {long} b\\\\c \u{1b}[2J d\u{e9} e\\\"f\"");
        assert_eq!(demand(&header).scopes, ["a"]);
        for rejected in ["http://example.org/x", "https://127.0.0.1/x", "ftp://example.org/x"] {
            assert_eq!(demand(&format!("Bearer resource_metadata=\"{rejected}\"")).metadata, None, "{rejected}");
        }
        let overlong_metadata = format!("Bearer resource_metadata=\"/{}\"", "x".repeat(MAX_ADDRESS_LENGTH));
        assert_eq!(demand(&overlong_metadata).metadata, None);
        assert_eq!(demand("Basic"), LoginDemand::default());
    }
}

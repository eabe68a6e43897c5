//! That a server does not answer whoever asks, and what it says of whom it would answer: remembered beside its token until a login
//! has asked for it. All of that is the word of a stranger: few words are taken of it, and only such as can be what they are said
//! to be.

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
        auth::{AuthError, AuthorizationMetadata, CredentialStore, StoredCredentials},
        streamable_http_client::{AuthRequiredError, InsufficientScopeError},
    },
};
use serde::{Deserialize, Serialize};

/// Maximum number of scopes.
const MOST_SCOPES: usize = 64;
/// Maximum length of a scope, in bytes.
const LONGEST_SCOPE: usize = 128;
/// Maximum length of the address of a server's metadata, in bytes.
const LONGEST_ADDRESS: usize = 2048;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Set if the server knows the caller and denies the call all the same.
    pub(super) knows_us: bool,
    /// The header that goes with it.
    header: String,
    /// Why the token could not be renewed, where that is it: the server was not asked then, or did not know it any more.
    pub(super) not_renewed: Option<String>,
}

impl Refusal {
    /// Why a server could not be greeted, if that is it.
    pub(crate) fn of_greeting(error: &ClientInitializeError) -> Option<Self> {
        match error {
            ClientInitializeError::TransportError { error, .. } => Self::of(error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::of_greeting(fallback),
            _ => None,
        }
    }

    /// Why a request was not answered, if that is it.
    pub(crate) fn of_request(error: &ServiceError) -> Option<Self> {
        match error {
            ServiceError::TransportSend(error) => Self::of(error),
            _ => None,
        }
    }

    /// One that says this.
    #[cfg(test)]
    pub(super) fn with(knows_us: bool, header: &str) -> Self {
        Self { knows_us, header: header.to_owned(), not_renewed: None }
    }

    fn of(error: &DynamicTransportError) -> Option<Self> {
        let refusal = |knows_us, header: &str| Some(Self { knows_us, header: header.to_owned(), not_renewed: None });
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
                AuthError::TokenRefreshFailed(why) => {
                    Some(Self { knows_us: false, header: String::new(), not_renewed: Some(why.clone()) })
                }
                _ => None,
            }
        })
    }

    /// Reads the header for a caller at this address.
    pub(super) fn said(&self, url: &str) -> LoginDemand {
        let Ok(url) = Url::parse(url) else { return LoginDemand::default() };
        let said = WWWAuthenticateParams::parse(&self.header, &url);
        let metadata = said.resource_metadata_url.as_ref().map(|url| url.as_str().to_owned());
        LoginDemand {
            metadata: metadata.filter(|address| address.len() <= LONGEST_ADDRESS),
            scopes: scopes(said.scope.as_deref().unwrap_or_default().split_whitespace()),
        }
    }
}

/// A refusal's demands on the login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LoginDemand {
    /// Where its metadata is.
    pub(super) metadata: Option<String>,
    /// Scopes that the login must have.
    pub(super) scopes: Vec<String>,
}

/// Those that can be scopes (RFC 6749, section 3.3), each once, and not without end.
pub(super) fn scopes<'a>(said: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let is_one = |letter: u8| matches!(letter, b'!' | b'#'..=b'[' | b']'..=b'~');
    let mut taken: Vec<String> = Vec::new();
    for scope in said {
        let fits = !scope.is_empty() && scope.len() <= LONGEST_SCOPE && scope.bytes().all(is_one);
        if fits && taken.len() < MOST_SCOPES && !taken.iter().any(|known| known == scope) {
            taken.push(scope.to_owned());
        }
    }
    taken
}

/// Stored state of the logins of one server.
#[derive(Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WantedLogins {
    /// Where its metadata is.
    metadata: Option<String>,
    /// Scopes of the next login.
    scopes: Vec<String>,
    /// Scopes of the last login.
    asked: Vec<String>,
    /// Set if the next login asks for nothing that an earlier one got: the last was told that there is no such scope.
    anew: bool,
    /// Scopes that do not exist, as logins were told: never asked for again.
    vain: Vec<String>,
}

/// Remedy for a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remedy {
    /// To log in, for these scopes where there are some.
    Login(Vec<String>),
    /// Nothing that we could do: it wants these scopes, and a login has asked for them.
    None(Vec<String>),
}

impl WantedLogins {
    /// Reads the stored state. Nothing, where that cannot be read: the next refusal says it again.
    pub(super) fn read(path: &Path) -> Self {
        fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Remembers it.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        write(path, &serde_json::to_vec(self)?)
    }

    /// A server at this address has refused to answer. `is_known` says whether there is a token of it.
    pub(super) fn refused(&mut self, refusal: &Refusal, url: &str, is_known: bool) -> Remedy {
        let said = refusal.said(url);
        if said.metadata.is_some() || !refusal.knows_us {
            self.metadata = said.metadata;
        }
        let is_tried = |scope: &String| self.asked.contains(scope) || self.vain.contains(scope);
        if refusal.knows_us && said.scopes.iter().all(is_tried) {
            return Remedy::None(said.scopes);
        }
        let wanted = without(said.scopes, &self.vain);
        let before = if is_known { std::mem::take(&mut self.scopes) } else { Vec::new() };
        // What is wanted now comes first: of too many the last are left out.
        self.scopes = union(&wanted, &before);
        Remedy::Login(wanted)
    }

    /// Scopes that the next login asks for, where `got` is what the token is good for, and `first` what a first login
    /// would ask for.
    pub(super) fn asks_for(&self, got: &[String], first: &[String]) -> Vec<String> {
        let got = if self.anew { &[] } else { got };
        let [got, first] = [got, first].map(|scopes| without(scopes.to_vec(), &self.vain));
        union(&union(&self.scopes, &got), &first)
    }

    /// A login has asked for these scopes, and went well.
    pub(super) fn logged_in(&mut self, asked: Vec<String>) {
        let (metadata, vain) = (self.metadata.take(), std::mem::take(&mut self.vain));
        *self = Self { metadata, vain, asked, ..Self::default() };
    }

    /// A login was told that what it asked for is not there.
    pub(super) fn asked_in_vain(&mut self) {
        self.vain = union(&std::mem::take(&mut self.scopes), &self.vain);
        self.anew = true;
    }

    /// A refusal that would say all this.
    pub(super) fn challenge(&self) -> Option<String> {
        let metadata = self.metadata.as_ref().map(|address| {
            let address = address.replace('\\', "\\\\").replace('"', "\\\"");
            format!("resource_metadata=\"{address}\"")
        });
        let scopes = (!self.scopes.is_empty()).then(|| format!("scope=\"{}\"", self.scopes.join(" ")));
        let said: Vec<String> = metadata.into_iter().chain(scopes).collect();
        (!said.is_empty()).then(|| format!("Bearer {}", said.join(", ")))
    }
}

fn without(mut scopes: Vec<String>, others: &[String]) -> Vec<String> {
    scopes.retain(|scope| !others.contains(scope));
    scopes
}

fn union(one: &[String], other: &[String]) -> Vec<String> {
    scopes(one.iter().chain(other).map(String::as_str))
}

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
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(header: &str) -> LoginDemand {
        Refusal::with(true, header).said("https://example.org/mcp")
    }

    #[test]
    fn what_a_refusal_says_is_taken() {
        let said = said(
            r#"Bearer error="insufficient_scope", scope="files:read files:write files:read", resource_metadata="/there.json""#,
        );
        assert_eq!(said.scopes, ["files:read", "files:write"]);
        assert_eq!(said.metadata.as_deref(), Some("https://example.org/there.json"));
    }

    #[test]
    fn a_hostile_refusal_is_little() {
        let many: String = (0..10_000).map(|number| format!("s{number} ")).collect();
        assert_eq!(said(&format!("Bearer scope=\"{many}\"")).scopes.len(), MOST_SCOPES);
        let long = "x".repeat(LONGEST_SCOPE + 1);
        let odd = format!("Bearer scope=\"a {long} b\\\\c \u{1b}[2J d\u{e9} e\\\"f\"");
        assert_eq!(said(&odd).scopes, ["a"]);
        for elsewhere in ["http://example.org/x", "https://127.0.0.1/x", "ftp://example.org/x"] {
            assert_eq!(said(&format!("Bearer resource_metadata=\"{elsewhere}\"")).metadata, None, "{elsewhere}");
        }
        let far = format!("Bearer resource_metadata=\"/{}\"", "x".repeat(LONGEST_ADDRESS));
        assert_eq!(said(&far).metadata, None);
        assert_eq!(said("Basic"), LoginDemand::default());
    }
}

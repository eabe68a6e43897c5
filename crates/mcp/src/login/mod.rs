//! OAuth logins to HTTP servers. Each server and URL has its own token file, readable only by its owner. Tokens are
//! renewed when they expire.
//!
//! - `refusal`: authorisation errors from servers, the required scopes remembered from them, and the token files.
//! - `discovery`: finds the authorisation server of an MCP server, and decides which of its claims are trusted.

mod discovery;
mod refusal;

use std::{collections::HashMap, path::PathBuf, sync::Mutex, time::Duration};

use agentd_core::{mutex::lock, route::Routes};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, OAuthClientConfig,
};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};

pub(crate) use self::refusal::Refusal;
use self::refusal::{Remedy, TokenFile, TokenLookup, TokenSource, WantedLogins};
use crate::{
    config::OAuthClient,
    log::Log,
    reason::{Reason, SecretFilter},
};

/// Time limit for discovery, and for getting a token.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Logins to all HTTP servers.
pub struct Logins {
    folder: PathBuf,
    /// True if logins are possible.
    is_enabled: bool,
    /// Logins in progress, by server.
    pending: Mutex<HashMap<String, PendingLogin>>,
    /// Serialises changes to the remembered scopes.
    scope_lock: Mutex<()>,
    /// Network routes to servers and authorisation servers.
    pub(crate) routes: Routes,
}

/// Parts of a server's configuration that are needed for a login.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerUrl<'a> {
    pub(crate) server: &'a str,
    pub(crate) url: &'a str,
    /// Registered OAuth client, if the user configured one.
    pub(crate) client: Option<&'a OAuthClient>,
}

/// Login that has been started.
struct PendingLogin {
    session: AuthorizationSession,
    /// File for the required scopes.
    wanted: PathBuf,
    requested: Vec<String>,
}

impl Logins {
    /// Creates a token store in `folder`. The folder is created when the first token is stored.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, is_enabled: true, ..Self::disabled(Routes::default()) }
    }

    /// Sets the network routes of logins.
    #[must_use]
    pub fn with_routes(self, routes: Routes) -> Self {
        Self { routes, ..self }
    }

    /// Creates a store for servers without logins. Only keys in headers are supported.
    pub(crate) fn disabled(routes: Routes) -> Self {
        let (pending, scope_lock) = (Mutex::default(), Mutex::default());
        Self { folder: PathBuf::new(), is_enabled: false, pending, scope_lock, routes }
    }

    /// Starts a login. Returns the URL that the user has to open. The answer sent to `redirect` completes it.
    pub(crate) async fn begin(&self, server_url: ServerUrl<'_>, redirect: &str) -> Result<String, String> {
        let login = tokio::time::timeout(TIMEOUT, self.start(server_url, redirect)).await;
        let login = login.map_err(|_| "it did not answer in time".to_owned())?.map_err(|error| error_line(&error))?;
        let address = login.session.get_authorization_url().to_owned();
        lock(&self.pending).insert(server_url.server.to_owned(), login);
        Ok(address)
    }

    async fn start(&self, server_url: ServerUrl<'_>, redirect: &str) -> Result<PendingLogin, AuthError> {
        let path = self.wanted_file(server_url);
        let wanted = WantedLogins::read(&path);
        let (mut manager, source) = self.manager_at(server_url, &wanted).await?;
        // An unreadable token is replaced.
        let mut file = self.token_file(server_url, source);
        let granted = match file.read() {
            Ok(TokenLookup::Token(token, _)) => token.granted_scopes,
            _ => Vec::new(),
        };
        let requested = wanted.scopes_to_request(&granted, &manager.select_initial_scopes(&[]).await);
        let (id, client_secret) = match server_url.client {
            Some(client) => (client.id.clone(), None),
            None => {
                let scopes: Vec<&str> = requested.iter().map(String::as_str).collect();
                let registered = manager.register_client("agentd", redirect, &scopes).await.inspect_err(|error| {
                    if is_scope_error(error) {
                        self.remember(&path, WantedLogins::record_rejected_scopes);
                    }
                })?;
                (registered.client_id, registered.client_secret)
            }
        };
        // The secret is stored with the token, so that it is used only with the same issuer.
        file.client_secret.clone_from(&client_secret);
        manager.set_credential_store(file);
        let mut request = AuthorizationRequest::new(redirect).with_preregistered_client(id);
        // If no scopes are required, none are requested, even if the server supports some.
        request = if requested.is_empty() {
            request.with_initial_scope_selection()
        } else {
            request.with_scopes(requested.iter().cloned())
        };
        if let Some(secret) = secret_of(server_url.client, client_secret.as_deref()) {
            request = request.with_client_secret(secret);
        }
        let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
        Ok(PendingLogin { session, wanted: path, requested })
    }

    /// Completes a login with the URL that the browser was redirected to, and stores the token.
    pub(crate) async fn finish(&self, server: &str, callback_url: &str) -> Result<(), String> {
        let login = {
            let mut pending = lock(&self.pending);
            let login = pending.get(server);
            let login = login.ok_or_else(|| "no login is in progress, or it was completed".to_owned())?;
            // A redirect from another login must not end this one.
            if query_param(login.session.get_authorization_url(), "state") != query_param(callback_url, "state") {
                return Err("the redirect belongs to another login".to_owned());
            }
            pending.remove(server)
        };
        let PendingLogin { session, wanted, requested } = login.ok_or_else(|| "no login is in progress".to_owned())?;
        if let Some(error) = query_param(callback_url, "error") {
            if error == "invalid_scope" {
                self.remember(&wanted, WantedLogins::record_rejected_scopes);
            }
            let reason = query_param(callback_url, "error_description").unwrap_or_default();
            return Err(line(&format!("the login was refused: {error} {reason}")));
        }
        let exchanged = tokio::time::timeout(TIMEOUT, session.handle_callback_url(callback_url)).await;
        exchanged.map_err(|_| "the token request timed out".to_owned())?.map_err(|error| error_line(&error))?;
        self.remember(&wanted, |wanted| wanted.record_login(requested));
        Ok(())
    }

    /// Returns a manager that adds the token to requests, or `None` if there is no login, or if the token is not from
    /// the current issuer.
    pub(crate) async fn manager(
        &self,
        server_url: ServerUrl<'_>,
        log: &Log,
    ) -> Result<Option<AuthorizationManager>, String> {
        if !self.is_enabled || !self.token_path(server_url).exists() {
            return Ok(None);
        }
        let ready = tokio::time::timeout(TIMEOUT, async {
            let wanted = WantedLogins::read(&self.wanted_file(server_url));
            let (mut manager, source) = self.manager_at(server_url, &wanted).await?;
            let mut file = self.token_file(server_url, source);
            let (id, registered) = match file.read()? {
                TokenLookup::Token(token, secret) => (token.client_id, secret),
                TokenLookup::Nothing => return Ok(None),
                TokenLookup::Unfit(reason) => {
                    log.note(&format!(
                        "no token is sent: {reason}; `agentctl mcp login {}` logs in again",
                        server_url.server
                    ));
                    return Ok(None);
                }
            };
            file.client_secret.clone_from(&registered);
            manager.set_credential_store(file);
            if !manager.initialize_from_store().await? {
                return Ok(None);
            }
            // Renewing a token requires the client that the token was issued to, and the client's secret.
            if let Some(secret) = secret_of(server_url.client, registered.as_deref()) {
                manager.configure_client(OAuthClientConfig::new(id, server_url.url).with_client_secret(secret))?;
            }
            Ok::<_, AuthError>(Some(manager))
        });
        ready.await.map_err(|_| "the metadata request timed out".to_owned())?.map_err(|error| error_line(&error))
    }

    /// Handles an authorisation error from a server. The required scopes are remembered for the next login. Returns a
    /// reason with a suggestion.
    pub(crate) fn refused(&self, server_url: ServerUrl<'_>, refusal: &Refusal, clean: &SecretFilter) -> Reason {
        if !self.is_enabled {
            return Reason::new("it requires authorization; the client has to pass a key in its headers");
        }
        let command = format!("`agentctl mcp login {}`", server_url.server);
        // The cause may be a changed secret, or a temporary problem.
        if let Some(reason) = &refusal.not_renewed {
            return Reason::of_server(
                format!("the login could not be renewed; if it persists, {command} logs in again"),
                reason,
                clean,
            );
        }
        let has_token = self.token_path(server_url).exists();
        let mut remedy = Remedy::None(Vec::new());
        self.remember(&self.wanted_file(server_url), |wanted| {
            remedy = wanted.record_refusal(refusal, server_url.url, has_token)
        });
        match (refusal.is_authenticated, remedy) {
            (false, _) => Reason::new(format!("it requires a login; {command} logs in")),
            (true, Remedy::Login(scopes)) => Reason::of_server(
                format!(
                    "it requires a scope: log in{} with {command}, which requests it",
                    if has_token { " again" } else { "" }
                ),
                &scopes.join(" "),
                clean,
            ),
            (true, Remedy::None(scopes)) if scopes.is_empty() => {
                Reason::new("it does not allow this, and names no required scope")
            }
            (true, Remedy::None(scopes)) => Reason::of_server(
                "it does not allow this to the logged-in user, and another login would not help: the required scope \
                 was already requested",
                &scopes.join(" "),
                clean,
            ),
        }
    }

    /// Returns a manager that logs in and renews tokens for this URL, and the current issuer of tokens.
    async fn manager_at(
        &self,
        server_url: ServerUrl<'_>,
        wanted: &WantedLogins,
    ) -> Result<(AuthorizationManager, TokenSource), AuthError> {
        agentd_http::init_crypto();
        let mut manager = discovery::manager(server_url.url, &self.routes).await?;
        let metadata = discovery::metadata(&manager, server_url, wanted, &self.routes).await?;
        let source = TokenSource { issuer: metadata.issuer.clone(), token_endpoint: metadata.token_endpoint.clone() };
        manager.set_metadata(metadata);
        Ok((manager, source))
    }

    fn token_path(&self, server_url: ServerUrl<'_>) -> PathBuf {
        self.file(server_url, "json")
    }

    fn token_file(&self, server_url: ServerUrl<'_>, source: TokenSource) -> TokenFile {
        TokenFile {
            path: self.token_path(server_url),
            source,
            client: server_url.client.map(|client| client.id.clone()),
            client_secret: None,
        }
    }

    fn wanted_file(&self, server_url: ServerUrl<'_>) -> PathBuf {
        self.file(server_url, "wanted")
    }

    /// Returns the file for a server and URL. A token stays with its URL, even if the name of the server is reused.
    fn file(&self, ServerUrl { server, url, .. }: ServerUrl<'_>, kind: &str) -> PathBuf {
        // The query may contain keys, and keys may change.
        let address = url.split(['?', '#']).next().unwrap_or_default();
        let hash = Sha256::digest(address.as_bytes());
        let mark: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{}@{mark}.{kind}", crate::schema::file_name(server)))
    }

    /// Changes the remembered scopes.
    fn remember(&self, path: &std::path::Path, change: impl FnOnce(&mut WantedLogins)) {
        let _one_at_a_time = lock(&self.scope_lock);
        let before = WantedLogins::read(path);
        let mut wanted = before.clone();
        change(&mut wanted);
        if wanted != before
            && let Err(error) = wanted.write(path)
        {
            tracing::warn!("could not store the scope required by an MCP server: {error}");
        }
    }
}

/// Returns the client secret: from the configured client, otherwise from the last registration.
fn secret_of<'a>(client: Option<&'a OAuthClient>, registered: Option<&'a str>) -> Option<&'a str> {
    client.map_or(registered, |client| client.secret.as_ref().map(|secret| secret.expose_secret()))
}

/// Returns true if a registration failed because of the requested scopes. There is no error code for that.
fn is_scope_error(error: &AuthError) -> bool {
    matches!(error, AuthError::RegistrationFailed(reason) if reason.starts_with("HTTP 4") && reason.contains("scope"))
}

/// Returns the value of a query parameter of a URL.
fn query_param(address: &str, wanted: &str) -> Option<String> {
    let address = reqwest::Url::parse(address).ok()?;
    address.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
}

/// Formats an error as one line of limited length. The line never contains a token.
fn error_line(error: &AuthError) -> String {
    let hint = match error {
        AuthError::RegistrationFailed(_) => "; put a manually registered client into `oauth` of mcp_servers.yaml",
        _ => "",
    };
    format!("{}{hint}", line(&error.to_string()))
}

/// Formats external text as one line of limited length.
fn line(text: &str) -> String {
    agentd_core::untrusted::sanitize(text).replace('\n', " ").trim().chars().take(400).collect()
}

#[cfg(test)]
mod tests;

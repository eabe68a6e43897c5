//! OAuth logins to HTTP servers. Tokens are stored in one file per server and URL, which only its owner can read, and
//! are renewed when they expire.
//!
//! - `refusal`: authorisation errors of servers, the scopes that they require and that are remembered, and the token
//!   files.
//! - `discovery`: finds the authorisation server of an MCP server, and decides which of its claims are trusted.

mod discovery;
mod refusal;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use agentd_core::route::Routes;
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
const PATIENCE: Duration = Duration::from_secs(30);

/// Logins to all HTTP servers.
pub struct Logins {
    folder: PathBuf,
    /// True if logins are possible.
    is_open: bool,
    /// Logins that were started and not finished, by server.
    under_way: Mutex<HashMap<String, UnderWay>>,
    /// Serialises changes of the remembered scopes.
    remembering: Mutex<()>,
    /// Network routes to servers and authorisation servers.
    pub(crate) routes: Routes,
}

/// Parts of a server's configuration that a login needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerUrl<'a> {
    pub(crate) server: &'a str,
    pub(crate) url: &'a str,
    /// Registered OAuth client, if the user configured one.
    pub(crate) client: Option<&'a OAuthClient>,
}

/// Login that was started.
struct UnderWay {
    session: AuthorizationSession,
    /// File for the required scopes.
    wanted: PathBuf,
    asked: Vec<String>,
}

impl Logins {
    /// Stores tokens in this folder, which is created with the first one.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, is_open: true, ..Self::none(Routes::default()) }
    }

    /// Uses these network routes.
    #[must_use]
    pub fn over(self, routes: Routes) -> Self {
        Self { routes, ..self }
    }

    /// Creates a store for servers without logins, which can only be given keys in headers.
    pub(crate) fn none(routes: Routes) -> Self {
        let (under_way, remembering) = (Mutex::default(), Mutex::default());
        Self { folder: PathBuf::new(), is_open: false, under_way, remembering, routes }
    }

    /// Starts a login. Returns the URL that the user has to open. The answer sent to `redirect` completes it.
    pub(crate) async fn begin(&self, server_url: ServerUrl<'_>, redirect: &str) -> Result<String, String> {
        let begun = tokio::time::timeout(PATIENCE, self.begun(server_url, redirect)).await;
        let begun = begun.map_err(|_| "it did not answer in time".to_owned())?.map_err(|error| error_line(&error))?;
        let address = begun.session.get_authorization_url().to_owned();
        self.under_way().insert(server_url.server.to_owned(), begun);
        Ok(address)
    }

    async fn begun(&self, server_url: ServerUrl<'_>, redirect: &str) -> Result<UnderWay, AuthError> {
        let path = self.wanted_file(server_url);
        let wanted = WantedLogins::read(&path);
        let (mut manager, giver) = self.manager_at(server_url, &wanted).await?;
        // An unreadable token is replaced.
        let mut file = self.token_file(server_url, giver);
        let got = match file.read() {
            Ok(TokenLookup::Token(known, _)) => known.granted_scopes,
            _ => Vec::new(),
        };
        let asked = wanted.asks_for(&got, &manager.select_initial_scopes(&[]).await);
        let (id, client_secret) = match server_url.client {
            Some(client) => (client.id.clone(), None),
            None => {
                let scopes: Vec<&str> = asked.iter().map(String::as_str).collect();
                let registered = manager.register_client("agentd", redirect, &scopes).await.inspect_err(|error| {
                    if is_for_scopes(error) {
                        self.remember(&path, WantedLogins::asked_in_vain);
                    }
                })?;
                (registered.client_id, registered.client_secret)
            }
        };
        // Stored with the token, so that it is used only at the same place.
        file.client_secret.clone_from(&client_secret);
        manager.set_credential_store(file);
        let mut request = AuthorizationRequest::new(redirect).with_preregistered_client(id);
        // If no scopes are required, none are requested, even if the server supports some.
        request = if asked.is_empty() {
            request.with_initial_scope_selection()
        } else {
            request.with_scopes(asked.iter().cloned())
        };
        if let Some(secret) = secret_of(server_url.client, client_secret.as_deref()) {
            request = request.with_client_secret(secret);
        }
        let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
        Ok(UnderWay { session, wanted: path, asked })
    }

    /// Completes a login with the URL that the browser was redirected to, and stores the token.
    pub(crate) async fn finish(&self, server: &str, came_back_to: &str) -> Result<(), String> {
        let begun = {
            let mut under_way = self.under_way();
            let known = under_way.get(server);
            let known = known.ok_or_else(|| "no login is in progress, or it already finished".to_owned())?;
            // A redirect of another login must not end this one.
            if in_query(known.session.get_authorization_url(), "state") != in_query(came_back_to, "state") {
                return Err("the browser returned from another login".to_owned());
            }
            under_way.remove(server)
        };
        let UnderWay { session, wanted, asked } = begun.ok_or_else(|| "it already finished".to_owned())?;
        if let Some(error) = in_query(came_back_to, "error") {
            if error == "invalid_scope" {
                self.remember(&wanted, WantedLogins::asked_in_vain);
            }
            let why = in_query(came_back_to, "error_description").unwrap_or_default();
            return Err(line(&format!("the login was refused: {error} {why}")));
        }
        let exchanged = tokio::time::timeout(PATIENCE, session.handle_callback_url(came_back_to)).await;
        exchanged.map_err(|_| "no token in time".to_owned())?.map_err(|error| error_line(&error))?;
        self.remember(&wanted, |wanted| wanted.logged_in(asked));
        Ok(())
    }

    /// Manager that adds the token to requests. `None` if there is no login, or if the token is from another issuer
    /// than the current one.
    pub(crate) async fn manager(
        &self,
        server_url: ServerUrl<'_>,
        log: &Log,
    ) -> Result<Option<AuthorizationManager>, String> {
        if !self.is_open || !self.token_path(server_url).exists() {
            return Ok(None);
        }
        let ready = tokio::time::timeout(PATIENCE, async {
            let wanted = WantedLogins::read(&self.wanted_file(server_url));
            let (mut manager, giver) = self.manager_at(server_url, &wanted).await?;
            let mut file = self.token_file(server_url, giver);
            let (id, registered) = match file.read()? {
                TokenLookup::Token(known, secret) => (known.client_id, secret),
                TokenLookup::Nothing => return Ok(None),
                TokenLookup::Unfit(why) => {
                    log.note(&format!(
                        "no token is sent: {why}; `agentctl mcp login {}` logs in again",
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
            // Renewing a token requires the client that it was issued to, and its secret.
            if let Some(secret) = secret_of(server_url.client, registered.as_deref()) {
                manager.configure_client(OAuthClientConfig::new(id, server_url.url).with_client_secret(secret))?;
            }
            Ok::<_, AuthError>(Some(manager))
        });
        ready.await.map_err(|_| "no login metadata in time".to_owned())?.map_err(|error| error_line(&error))
    }

    /// Handles an authorisation error of a server. The required scopes are remembered for the next login. Returns a
    /// reason with a suggestion.
    pub(crate) fn refused(&self, server_url: ServerUrl<'_>, refusal: &Refusal, clean: &SecretFilter) -> Reason {
        if !self.is_open {
            return Reason::ours("it requires authorization; the client has to pass a key in its headers");
        }
        let command = format!("`agentctl mcp login {}`", server_url.server);
        // For example because of a changed secret, or a temporary problem.
        if let Some(why) = &refusal.not_renewed {
            return Reason::of_server(
                format!("the login could not be renewed; if it persists, {command} logs in again"),
                why,
                clean,
            );
        }
        let is_known = self.token_path(server_url).exists();
        let mut remedy = Remedy::None(Vec::new());
        self.remember(&self.wanted_file(server_url), |wanted| {
            remedy = wanted.refused(refusal, server_url.url, is_known)
        });
        match (refusal.knows_us, remedy) {
            (false, _) => Reason::ours(format!("it requires a login; {command} logs in")),
            (true, Remedy::Login(scopes)) => Reason::of_server(
                format!(
                    "it requires a scope: log in{} with {command}, which requests it",
                    if is_known { " again" } else { "" }
                ),
                &scopes.join(" "),
                clean,
            ),
            (true, Remedy::None(scopes)) if scopes.is_empty() => {
                Reason::ours("it does not allow this, and names no required scope")
            }
            (true, Remedy::None(scopes)) => Reason::of_server(
                "it does not allow this to the logged-in user, and another login would not help: the required scope \
                 was already requested",
                &scopes.join(" "),
                clean,
            ),
        }
    }

    /// Manager that logs in and renews tokens there, and the current issuer of tokens.
    async fn manager_at(
        &self,
        server_url: ServerUrl<'_>,
        wanted: &WantedLogins,
    ) -> Result<(AuthorizationManager, TokenSource), AuthError> {
        agentd_http::init_crypto();
        let mut manager = discovery::manager(server_url.url, &self.routes).await?;
        let metadata = discovery::metadata(&manager, server_url, wanted, &self.routes).await?;
        let giver = TokenSource::from(&metadata);
        manager.set_metadata(metadata);
        Ok((manager, giver))
    }

    fn token_path(&self, server_url: ServerUrl<'_>) -> PathBuf {
        self.file(server_url, "json")
    }

    fn token_file(&self, server_url: ServerUrl<'_>, giver: TokenSource) -> TokenFile {
        TokenFile {
            path: self.token_path(server_url),
            giver,
            client: server_url.client.map(|client| client.id.clone()),
            client_secret: None,
        }
    }

    fn wanted_file(&self, server_url: ServerUrl<'_>) -> PathBuf {
        self.file(server_url, "wanted")
    }

    /// File for a server and URL: a token stays with its URL, even if the server's name is reused.
    fn file(&self, ServerUrl { server, url, .. }: ServerUrl<'_>, kind: &str) -> PathBuf {
        // The query may contain keys, which change.
        let address = url.split(['?', '#']).next().unwrap_or_default();
        let hash = Sha256::digest(address.as_bytes());
        let mark: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{}@{mark}.{kind}", crate::schema::file_name(server)))
    }

    /// Changes the remembered scopes.
    fn remember(&self, path: &std::path::Path, change: impl FnOnce(&mut WantedLogins)) {
        let _one_at_a_time = self.remembering.lock().unwrap_or_else(PoisonError::into_inner);
        let before = WantedLogins::read(path);
        let mut wanted = before.clone();
        change(&mut wanted);
        if wanted != before
            && let Err(error) = wanted.write(path)
        {
            tracing::warn!("could not store the scope required by an MCP server: {error}");
        }
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashMap<String, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Client secret: that of the configured client, otherwise that of the last registration.
fn secret_of<'a>(client: Option<&'a OAuthClient>, registered: Option<&'a str>) -> Option<&'a str> {
    match client {
        Some(client) => client.secret.as_ref().map(|secret| secret.expose_secret()),
        None => registered,
    }
}

/// Returns true if a registration failed because of the requested scopes. There is no error code for that.
fn is_for_scopes(error: &AuthError) -> bool {
    matches!(error, AuthError::RegistrationFailed(why) if why.starts_with("HTTP 4") && why.contains("scope"))
}

/// Value of a query parameter of a URL.
fn in_query(address: &str, wanted: &str) -> Option<String> {
    let address = reqwest::Url::parse(address).ok()?;
    address.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
}

/// Error as one line of limited length. It never contains a token.
fn error_line(error: &AuthError) -> String {
    let hint = match error {
        AuthError::RegistrationFailed(_) => "; put a manually registered client into `oauth` of mcp_servers.yaml",
        _ => "",
    };
    format!("{}{hint}", line(&error.to_string()))
}

/// External text as one line of limited length.
fn line(words: &str) -> String {
    agentd_core::untrusted::sanitize(words).replace('\n', " ").trim().chars().take(400).collect()
}

#[cfg(test)]
mod tests;

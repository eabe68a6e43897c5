//! Discovers the authorisation server of an MCP server, in the locations used by current and older protocol versions,
//! and decides whether its metadata can be trusted and used.

use std::{collections::BTreeMap, net::IpAddr};

use agentd_core::route::Routes;
use futures_util::StreamExt as _;
use reqwest::{IntoUrl, Url};
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata};

use super::{ServerUrl, refusal::WantedLogins};
use crate::http_client::client;

/// Metadata path of servers with protocol 2025-03-26, which are their own authorisation servers.
const LEGACY_PATH: &str = "/.well-known/oauth-authorization-server";
/// Maximum size of the metadata, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Creates the manager for one URL. The manager's default client would read the proxy variables itself, so it is used
/// only without proxies.
pub(super) async fn manager(url: impl IntoUrl, routes: &Routes) -> Result<AuthorizationManager, AuthError> {
    let mut manager = AuthorizationManager::new(url).await?;
    if !routes.are_direct() {
        let client = client(&BTreeMap::new(), routes);
        manager.with_client(client.map_err(|error| AuthError::InternalError(error.without_url().to_string()))?)?;
    }
    Ok(manager)
}

/// Returns the trusted metadata of a server's authorisation server.
pub(super) async fn metadata(
    manager: &AuthorizationManager,
    server_url: ServerUrl<'_>,
    wanted: &WantedLogins,
    routes: &Routes,
) -> Result<AuthorizationMetadata, AuthError> {
    let metadata = unverified_metadata(manager, server_url.url, wanted, routes).await?;
    check_endpoints(&metadata, server_url.url).map_err(AuthError::MetadataError)?;
    if !is_confirmed_by_issuer(&metadata, server_url.url, routes).await {
        let (issuer, token) = (metadata.issuer.as_deref().unwrap_or_default(), &metadata.token_endpoint);
        return Err(AuthError::MetadataError(format!(
            "its issuer does not confirm the token endpoint: {issuer} and {token}"
        )));
    }
    let configured = server_url.client.and_then(|client| client.issuer.as_deref());
    if let Some(configured) = configured
        && !metadata.issuer.as_deref().is_some_and(|issuer| is_same_issuer(issuer, configured))
    {
        let issuer = metadata.issuer.as_deref().unwrap_or("an unnamed issuer");
        return Err(AuthError::MetadataError(format!(
            "its issuer differs from the `issuer` of mcp_servers.yaml, {configured}: {issuer}"
        )));
    }
    Ok(metadata)
}

/// Returns the unverified metadata for the server at this URL. The metadata location is taken from the last
/// authorisation error. Without an error, only the default locations are tried.
async fn unverified_metadata(
    manager: &AuthorizationManager,
    url: &str,
    wanted: &WantedLogins,
    routes: &Routes,
) -> Result<AuthorizationMetadata, AuthError> {
    match manager.resolve_metadata_from_challenge(wanted.challenge().as_deref()).await {
        Ok(found) => Ok(found.metadata),
        Err(error @ AuthError::AuthorizationServerMismatch { .. }) => match Url::parse(url).ok() {
            Some(url) if is_root_of(&error, &url) => legacy_metadata(&url, routes).await.ok_or(error),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Returns true if the metadata at the server's root names an issuer other than that root.
fn is_root_of(error: &AuthError, server: &Url) -> bool {
    let AuthError::AuthorizationServerMismatch { expected_issuer, .. } = error else { return false };
    Url::parse(expected_issuer).is_ok_and(|root| root.path() == "/" && root.origin() == server.origin())
}

/// Returns the metadata of an older server, whose issuer may have a path that the metadata location lacks. Foreign
/// issuers are not trusted in this case, so all URLs must be on the server itself.
async fn legacy_metadata(server: &Url, routes: &Routes) -> Option<AuthorizationMetadata> {
    let mut url = server.clone();
    url.set_path(LEGACY_PATH);
    url.set_query(None);
    url.set_fragment(None);
    // Requested without the configured headers: keys are for the server's own URL.
    let response = client(&BTreeMap::new(), routes).ok()?.get(url).send().await.ok()?.error_for_status().ok()?;
    let (mut text, mut pieces) = (Vec::new(), response.bytes_stream());
    while let Some(piece) = pieces.next().await {
        text.extend_from_slice(&piece.ok()?);
        if text.len() > MAX_BYTES {
            return None;
        }
    }
    let metadata: AuthorizationMetadata = serde_json::from_slice(&text).ok()?;
    is_its_own(&metadata, server).then_some(metadata)
}

fn is_its_own(metadata: &AuthorizationMetadata, server: &Url) -> bool {
    let named = [metadata.issuer.as_deref(), Some(&metadata.authorization_endpoint), Some(&metadata.token_endpoint)];
    let is_own = |address: &str| Url::parse(address).is_ok_and(|url| url.origin() == server.origin());
    named.iter().all(|address| address.is_some_and(is_own))
        && metadata.registration_endpoint.as_deref().is_none_or(is_own)
}

/// Maximum length of a URL, in bytes.
const MAX_URL_LENGTH: usize = 2048;

/// Checks that all endpoints can be reached safely, given the URL of the server. The error describes the problem.
fn check_endpoints(metadata: &AuthorizationMetadata, server: &str) -> Result<(), String> {
    let is_server_local = Url::parse(server).is_ok_and(|url| is_local(&url));
    let named = [
        ("issuer", metadata.issuer.as_deref()),
        ("authorization endpoint", Some(metadata.authorization_endpoint.as_str())),
        ("token endpoint", Some(metadata.token_endpoint.as_str())),
        ("registration endpoint", metadata.registration_endpoint.as_deref()),
    ];
    for (name, address) in named {
        let Some(address) = address else { continue };
        if address.len() > MAX_URL_LENGTH {
            return Err(format!("its {name} has more than {MAX_URL_LENGTH} bytes"));
        }
        let is_valid = Url::parse(address).is_ok_and(|url| match url.scheme() {
            "https" => url.host().is_some(),
            "http" => is_server_local && is_local(&url),
            _ => false,
        });
        if !is_valid {
            return Err(format!("its {name} does not start with https://: {address}"));
        }
    }
    Ok(())
}

/// Returns true if the URL's host is this machine.
fn is_local(url: &Url) -> bool {
    ip_address(url).map_or_else(|| url.host_str() == Some("localhost"), |ip_address| ip_address.is_loopback())
}

/// Returns the IP address in a URL, if its host is not a name.
fn ip_address(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}

/// Returns true if the named issuer has this token endpoint. An endpoint with the same origin is trusted. For any
/// other endpoint, the issuer itself is asked, because a server could claim a foreign issuer and get the secrets meant
/// for that issuer.
async fn is_confirmed_by_issuer(metadata: &AuthorizationMetadata, server: &str, routes: &Routes) -> bool {
    let Some(issuer) = metadata.issuer.as_deref() else { return true };
    let (Ok(at), Ok(token)) = (Url::parse(issuer), Url::parse(&metadata.token_endpoint)) else { return false };
    if at.origin() == token.origin() {
        return true;
    }
    // The issuer comes from an untrusted server. Private addresses are never contacted, and addresses of this machine
    // only if the server is on this machine.
    let is_server_local = Url::parse(server).is_ok_and(|url| is_local(&url));
    let may_be_asked = if is_local(&at) { is_server_local } else { ip_address(&at).is_none() };
    if !may_be_asked {
        return false;
    }
    let Ok(issuer_manager) = manager(at, routes).await else { return false };
    issuer_manager.resolve_metadata().await.is_ok_and(|found| {
        let confirmed = found.metadata;
        confirmed.issuer == metadata.issuer && confirmed.token_endpoint == metadata.token_endpoint
    })
}

/// Returns true if both URLs name the same issuer.
fn is_same_issuer(one: &str, other: &str) -> bool {
    let plain = |issuer: &str| Url::parse(issuer).map(|url| url.as_str().trim_end_matches('/').to_owned()).ok();
    plain(one).is_some() && plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_server_metadata_must_be_its_own() {
        let server = Url::parse("https://example.org/mcp").unwrap();
        let is_own = |issuer: &str, authorize: &str, token: &str, register: Option<&str>| {
            is_its_own(&auth_metadata(Some(issuer), authorize, token, register), &server)
        };
        let (own, other) = ("https://example.org/oauth", "https://other.org/oauth");
        assert!(is_own(own, own, own, Some(own)) && is_own(own, own, own, None));
        assert!(!is_own(other, own, own, None) && !is_own(own, other, own, None));
        assert!(!is_own(own, own, other, None) && !is_own(own, own, own, Some(other)));
        assert!(!is_own(own, own, "http://example.org/token", None) && !is_own(own, own, "token", None));
    }

    #[test]
    fn issuer_may_differ_only_for_the_server_root() {
        let server = Url::parse("https://example.org/mcp").unwrap();
        let mismatch = |expected: &str| AuthError::AuthorizationServerMismatch {
            expected_issuer: expected.to_owned(),
            received_issuer: "https://example.org/oauth".to_owned(),
        };
        assert!(is_root_of(&mismatch("https://example.org/"), &server));
        for other in ["https://example.org/tenant", "https://other.org/", "http://example.org/"] {
            assert!(!is_root_of(&mismatch(other), &server), "{other}");
        }
    }

    fn auth_metadata(
        issuer: Option<&str>,
        authorize: &str,
        token: &str,
        register: Option<&str>,
    ) -> AuthorizationMetadata {
        let mut metadata = AuthorizationMetadata::default();
        metadata.issuer = issuer.map(str::to_owned);
        metadata.authorization_endpoint = authorize.to_owned();
        metadata.token_endpoint = token.to_owned();
        metadata.registration_endpoint = register.map(str::to_owned);
        metadata
    }

    #[test]
    fn login_urls_must_use_https() {
        let (remote, local) = ("https://example.org/mcp", "http://127.0.0.1:1/mcp");
        let overlong_url = format!("https://example.org/{}", "x".repeat(MAX_URL_LENGTH));
        let allowed_url = "https://login.example.org/x";
        for (server, address, is_valid) in [
            (remote, allowed_url, true),
            (local, allowed_url, true),
            (local, "http://127.0.0.1:2/x", true),
            (local, "http://127.9.9.9/x", true),
            (local, "http://[::1]/x", true),
            (local, "http://localhost/x", true),
            ("http://localhost/mcp", "http://[::1]/x", true),
            (local, "http://example.org/x", false),
            (local, "http://localhost.example.org/x", false),
            (local, "http://192.168.0.1/x", false),
            (remote, "http://127.0.0.1/x", false),
            (remote, "http://example.org/x", false),
            (remote, "ftp://example.org/x", false),
            (remote, "javascript:alert(1)", false),
            (remote, "file:///etc/passwd", false),
            (remote, "/token", false),
            (remote, "", false),
            (remote, overlong_url.as_str(), false),
        ] {
            for (name, metadata) in [
                ("issuer", auth_metadata(Some(address), allowed_url, allowed_url, Some(allowed_url))),
                ("authorization endpoint", auth_metadata(Some(allowed_url), address, allowed_url, Some(allowed_url))),
                ("token endpoint", auth_metadata(None, allowed_url, address, None)),
                ("registration endpoint", auth_metadata(None, allowed_url, allowed_url, Some(address))),
            ] {
                match check_endpoints(&metadata, server) {
                    Ok(()) => assert!(is_valid, "{name} {address} of {server}"),
                    Err(problem) => {
                        assert!(!is_valid && problem.contains(name) && problem.len() < 4096, "{server}: {problem}")
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn endpoints_must_belong_to_their_issuer() {
        agentd_http::init_crypto();
        let of = async |issuer, token: &str, server| {
            is_confirmed_by_issuer(&auth_metadata(issuer, token, token, None), server, &Routes::default()).await
        };
        let (here, local) = ("https://example.org/mcp", "http://127.0.0.1:1/mcp");
        assert!(of(None, "https://example.org/token", here).await);
        assert!(of(Some("https://example.org/tenant"), "https://example.org/token", here).await);
        // Nothing listens on this port.
        assert!(!of(Some("http://127.0.0.1:9/"), "http://127.0.0.1:1/token", local).await);
        for uncontacted in ["https://127.0.0.1:9/", "https://10.0.0.1/", "https://[::1]/", "https://localhost/", "no"] {
            assert!(!of(Some(uncontacted), "https://example.org/token", here).await, "{uncontacted}");
        }
    }

    #[test]
    fn trailing_slash_does_not_change_the_issuer() {
        assert!(is_same_issuer("https://example.org", "https://example.org/"));
        assert!(is_same_issuer("https://EXAMPLE.org/a", "https://example.org/a/"));
        assert!(!is_same_issuer("https://example.org/a", "https://example.org/b"));
        assert!(!is_same_issuer("https://example.org", "http://example.org"));
        assert!(!is_same_issuer("x", "x"));
    }
}

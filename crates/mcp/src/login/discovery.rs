//! Where a server lets people log in: what it says of that, in the places of today and in those of before.

use std::collections::BTreeMap;

use agentd_core::route::Routes;
use futures_util::StreamExt as _;
use reqwest::{IntoUrl, Url};
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata};

use super::{ServerUrl, fitting, wanted::WantedLogins};
use crate::http_client::client;

/// Where servers of 2025-03-26 say it, which are their own authorization servers.
const OLDER: &str = "/.well-known/oauth-authorization-server";
/// Maximum size of the metadata, in bytes.
const LARGEST: usize = 256 * 1024;

/// Asks about one address. Its own client reads the proxies of the process in its own way, and serves where there are none.
pub(super) async fn manager(url: impl IntoUrl, routes: &Routes) -> Result<AuthorizationManager, AuthError> {
    let mut manager = AuthorizationManager::new(url).await?;
    if !routes.are_direct() {
        let client = client(&BTreeMap::new(), routes);
        manager.with_client(client.map_err(|error| AuthError::InternalError(error.without_url().to_string()))?)?;
    }
    Ok(manager)
}

/// Where people log in to a server, as far as that can be believed.
pub(super) async fn metadata(
    manager: &AuthorizationManager,
    site: ServerUrl<'_>,
    wanted: &WantedLogins,
    routes: &Routes,
) -> Result<AuthorizationMetadata, AuthError> {
    let said = said(manager, site.url, wanted, routes).await?;
    fitting::fits(&said, site.url).map_err(AuthError::MetadataError)?;
    if !fitting::is_of_its_issuer(&said, site.url, routes).await {
        let (issuer, token) = (said.issuer.as_deref().unwrap_or_default(), &said.token_endpoint);
        return Err(AuthError::MetadataError(format!(
            "its issuer does not say that its token endpoint is there: {issuer} and {token}"
        )));
    }
    let set = site.client.and_then(|client| client.issuer.as_deref());
    if let Some(set) = set
        && !said.issuer.as_deref().is_some_and(|issuer| fitting::is_same_issuer(issuer, set))
    {
        let issuer = said.issuer.as_deref().unwrap_or("nobody that it names");
        return Err(AuthError::MetadataError(format!(
            "people log in to it with another than the `issuer` of mcp_servers.yaml, {set}: {issuer}"
        )));
    }
    Ok(said)
}

/// Metadata of the server at this address. A refusal names the place; nothing is found without it where that is of the
/// server's own choice.
async fn said(
    manager: &AuthorizationManager,
    url: &str,
    wanted: &WantedLogins,
    routes: &Routes,
) -> Result<AuthorizationMetadata, AuthError> {
    match manager.resolve_metadata_from_challenge(wanted.challenge().as_deref()).await {
        Ok(found) => Ok(found.metadata),
        Err(error @ AuthError::AuthorizationServerMismatch { .. }) => match Url::parse(url).ok() {
            Some(url) if is_root_of(&error, &url) => older(&url, routes).await.ok_or(error),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Returns whether metadata found at the root of the server itself has another name than that place.
fn is_root_of(error: &AuthError, server: &Url) -> bool {
    let AuthError::AuthorizationServerMismatch { expected_issuer, .. } = error else { return false };
    Url::parse(expected_issuer).is_ok_and(|root| root.path() == "/" && root.origin() == server.origin())
}

/// Metadata of an older server: its name may have a path that the place has not. No other is believed there, so all
/// that it names has to be its own.
async fn older(server: &Url, routes: &Routes) -> Option<AuthorizationMetadata> {
    let mut place = server.clone();
    place.set_path(OLDER);
    place.set_query(None);
    place.set_fragment(None);
    // It is asked as anybody would be: keys are for the server's own address.
    let answer = client(&BTreeMap::new(), routes).ok()?.get(place).send().await.ok()?.error_for_status().ok()?;
    let (mut text, mut pieces) = (Vec::new(), answer.bytes_stream());
    while let Some(piece) = pieces.next().await {
        text.extend_from_slice(&piece.ok()?);
        if text.len() > LARGEST {
            return None;
        }
    }
    let said: AuthorizationMetadata = serde_json::from_slice(&text).ok()?;
    is_its_own(&said, server).then_some(said)
}

fn is_its_own(said: &AuthorizationMetadata, server: &Url) -> bool {
    let named = [said.issuer.as_deref(), Some(&said.authorization_endpoint), Some(&said.token_endpoint)];
    let is_own = |address: &str| Url::parse(address).is_ok_and(|url| url.origin() == server.origin());
    named.iter().all(|address| address.is_some_and(is_own)) && said.registration_endpoint.as_deref().is_none_or(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_server_speaks_for_itself_alone() {
        let server = Url::parse("https://example.org/mcp").unwrap();
        let said = |issuer: &str, authorize: &str, token: &str, register: Option<&str>| {
            let mut said = AuthorizationMetadata::default();
            said.issuer = Some(issuer.to_owned());
            said.authorization_endpoint = authorize.to_owned();
            said.token_endpoint = token.to_owned();
            said.registration_endpoint = register.map(str::to_owned);
            is_its_own(&said, &server)
        };
        let (own, other) = ("https://example.org/oauth", "https://other.org/oauth");
        assert!(said(own, own, own, Some(own)) && said(own, own, own, None));
        assert!(!said(other, own, own, None) && !said(own, other, own, None));
        assert!(!said(own, own, other, None) && !said(own, own, own, Some(other)));
        assert!(!said(own, own, "http://example.org/token", None) && !said(own, own, "token", None));
    }

    #[test]
    fn only_the_root_of_the_server_may_have_another_name() {
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
}

//! Whether what is said of where people log in can be believed, and whether it is fit to be used.

use std::net::IpAddr;

use agentd_core::route::Routes;
use reqwest::Url;
use rmcp::transport::auth::AuthorizationMetadata;

use super::discovery;

/// Maximum length of an address, in bytes.
const LONGEST: usize = 2048;

/// Checks that these are places to log in to a server at this address: all are reached safely. The error says what is
/// wrong.
pub(super) fn fits(said: &AuthorizationMetadata, server: &str) -> Result<(), String> {
    let server_is_here = Url::parse(server).is_ok_and(|url| is_here(&url));
    let named = [
        ("issuer", said.issuer.as_deref()),
        ("authorization endpoint", Some(said.authorization_endpoint.as_str())),
        ("token endpoint", Some(said.token_endpoint.as_str())),
        ("registration endpoint", said.registration_endpoint.as_deref()),
    ];
    for (what, address) in named {
        let Some(address) = address else { continue };
        if address.len() > LONGEST {
            return Err(format!("its {what} has more than {LONGEST} bytes"));
        }
        let fits = Url::parse(address).is_ok_and(|url| match url.scheme() {
            "https" => url.host().is_some(),
            "http" => server_is_here && is_here(&url),
            _ => false,
        });
        if !fits {
            return Err(format!("its {what} does not begin with https://: {address}"));
        }
    }
    Ok(())
}

/// Returns whether it is on this machine.
fn is_here(url: &Url) -> bool {
    match numbers(url) {
        Some(numbers) => numbers.is_loopback(),
        None => url.host_str() == Some("localhost"),
    }
}

/// Its host, where that is not a name.
fn numbers(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}

/// Returns whether the named issuer has this token endpoint. One of the same origin is its own; any other is asked
/// itself, for a server may claim to be another, and get then what was meant for that one.
pub(super) async fn is_of_its_issuer(said: &AuthorizationMetadata, server: &str, routes: &Routes) -> bool {
    let Some(issuer) = said.issuer.as_deref() else { return true };
    let (Ok(at), Ok(token)) = (Url::parse(issuer), Url::parse(&said.token_endpoint)) else { return false };
    if at.origin() == token.origin() {
        return true;
    }
    // A stranger says whom to ask: nobody in a private network, and nobody here unless the server is.
    let server_is_here = Url::parse(server).is_ok_and(|url| is_here(&url));
    let may_be_asked = if is_here(&at) { server_is_here } else { numbers(&at).is_none() };
    if !may_be_asked {
        return false;
    }
    let Ok(itself) = discovery::manager(at, routes).await else { return false };
    itself.resolve_metadata().await.is_ok_and(|found| {
        let theirs = found.metadata;
        theirs.issuer == said.issuer && theirs.token_endpoint == said.token_endpoint
    })
}

/// Returns whether both name the same issuer.
pub(super) fn is_same_issuer(one: &str, other: &str) -> bool {
    let plain = |issuer: &str| Url::parse(issuer).map(|url| url.as_str().trim_end_matches('/').to_owned()).ok();
    plain(one).is_some() && plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(issuer: Option<&str>, authorize: &str, token: &str, register: Option<&str>) -> AuthorizationMetadata {
        let mut said = AuthorizationMetadata::default();
        said.issuer = issuer.map(str::to_owned);
        said.authorization_endpoint = authorize.to_owned();
        said.token_endpoint = token.to_owned();
        said.registration_endpoint = register.map(str::to_owned);
        said
    }

    #[test]
    fn nobody_listens_on_the_way_to_where_people_log_in() {
        let (far, near) = ("https://example.org/mcp", "http://127.0.0.1:1/mcp");
        let long = format!("https://example.org/{}", "x".repeat(LONGEST));
        let good = "https://login.example.org/x";
        for (server, address, fits_there) in [
            (far, good, true),
            (near, good, true),
            (near, "http://127.0.0.1:2/x", true),
            (near, "http://127.9.9.9/x", true),
            (near, "http://[::1]/x", true),
            (near, "http://localhost/x", true),
            ("http://localhost/mcp", "http://[::1]/x", true),
            (near, "http://example.org/x", false),
            (near, "http://localhost.example.org/x", false),
            (near, "http://192.168.0.1/x", false),
            (far, "http://127.0.0.1/x", false),
            (far, "http://example.org/x", false),
            (far, "ftp://example.org/x", false),
            (far, "javascript:alert(1)", false),
            (far, "file:///etc/passwd", false),
            (far, "/token", false),
            (far, "", false),
            (far, long.as_str(), false),
        ] {
            for (what, said) in [
                ("issuer", said(Some(address), good, good, Some(good))),
                ("authorization endpoint", said(Some(good), address, good, Some(good))),
                ("token endpoint", said(None, good, address, None)),
                ("registration endpoint", said(None, good, good, Some(address))),
            ] {
                match fits(&said, server) {
                    Ok(()) => assert!(fits_there, "{what} {address} of {server}"),
                    Err(why) => assert!(!fits_there && why.contains(what) && why.len() < 4096, "{server}: {why}"),
                }
            }
        }
    }

    #[tokio::test]
    async fn nobody_is_believed_to_be_somebody_else() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let of = async |issuer, token: &str, server| {
            is_of_its_issuer(&said(issuer, token, token, None), server, &Routes::default()).await
        };
        let (here, near) = ("https://example.org/mcp", "http://127.0.0.1:1/mcp");
        assert!(of(None, "https://example.org/token", here).await);
        assert!(of(Some("https://example.org/tenant"), "https://example.org/token", here).await);
        // Nobody answers there.
        assert!(!of(Some("http://127.0.0.1:9/"), "http://127.0.0.1:1/token", near).await);
        for unasked in ["https://127.0.0.1:9/", "https://10.0.0.1/", "https://[::1]/", "https://localhost/", "no"] {
            assert!(!of(Some(unasked), "https://example.org/token", here).await, "{unasked}");
        }
    }

    #[test]
    fn a_slash_at_the_end_makes_no_other_issuer() {
        assert!(is_same_issuer("https://example.org", "https://example.org/"));
        assert!(is_same_issuer("https://EXAMPLE.org/a", "https://example.org/a/"));
        assert!(!is_same_issuer("https://example.org/a", "https://example.org/b"));
        assert!(!is_same_issuer("https://example.org", "http://example.org"));
        assert!(!is_same_issuer("x", "x"));
    }
}

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use rmcp::transport::auth::{CredentialStore as _, StoredCredentials};

use super::*;

fn server_url<'a>(server: &'a str, url: &'a str) -> ServerUrl<'a> {
    ServerUrl { server, url, client: None }
}

/// Returns a token source with these values.
fn token_source(issuer: Option<&str>, token_endpoint: &str) -> TokenSource {
    TokenSource { issuer: issuer.map(str::to_owned), token_endpoint: token_endpoint.to_owned() }
}

#[tokio::test]
async fn token_files_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let logins = Logins::new(folder.path().join("tokens"));
    let file = |server_url| logins.token_file(server_url, token_source(None, "http://localhost:1/token"));
    let store = file(server_url("a server", "http://localhost:1/"));
    assert!(store.load().await.unwrap().is_none());
    let credentials = StoredCredentials::new("me".to_owned(), None, Vec::new(), None);
    store.save(credentials.clone()).await.unwrap();
    store.save(credentials).await.unwrap();
    assert_eq!(store.load().await.unwrap().unwrap().client_id, "me");
    for (server, url) in
        [("a_server", "http://localhost:1/"), ("a server", "http://localhost:2/"), ("a server", "http://localhost:1/b")]
    {
        let other = file(server_url(server, url));
        assert!(other.load().await.unwrap().is_none(), "{server} at {url} uses the token of another server");
    }
    assert_eq!(logins.token_path(server_url("a server", "http://localhost:1/?key=1#x")), store.path);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&store.path), mode(&folder.path().join("tokens"))), (0o600, 0o700));
    store.clear().await.unwrap();
    store.clear().await.unwrap();
    assert!(logins.manager(server_url("a server", "http://localhost:1/"), &Log::default()).await.unwrap().is_none());
}

#[tokio::test]
async fn token_is_bound_to_issuer_and_client() {
    let folder = tempfile::tempdir().unwrap();
    let logins = Logins::new(folder.path().to_owned());
    let at = |client, issuer, token_endpoint| {
        logins.token_file(
            ServerUrl { client, ..server_url("s", "https://example.org/mcp") },
            token_source(issuer, token_endpoint),
        )
    };
    let (issuer, token) = (Some("https://login.example.org"), "https://login.example.org/token");
    let file = at(None, issuer, token);
    file.save(StoredCredentials::new("me".to_owned(), None, vec!["read".to_owned()], None)).await.unwrap();
    let [me, you] = ["me", "you"].map(|id| OAuthClient { id: id.to_owned(), secret: None, issuer: None });
    assert_eq!(file.load().await.unwrap().unwrap().granted_scopes, ["read"]);
    assert!(at(Some(&me), issuer, token).load().await.unwrap().is_some());
    for other in [
        at(None, None, token),
        at(None, None, "https://example.org/token"),
        at(None, issuer, "https://example.org/token"),
        at(None, Some("https://example.org"), token),
        at(Some(&you), issuer, token),
    ] {
        assert!(other.load().await.unwrap().is_none(), "{:?}", other.source);
        assert!(matches!(other.read(), Ok(TokenLookup::Unfit(_))), "{:?}", other.source);
    }
    assert!(file.load().await.unwrap().is_some(), "reading for another issuer removed the token");
    // Format of earlier versions.
    fs::write(&file.path, serde_json::to_vec(&StoredCredentials::new("me".to_owned(), None, vec![], None)).unwrap())
        .unwrap();
    assert!(matches!(file.read(), Ok(TokenLookup::Unfit(_))));
}

/// A server requires more and more scopes. The next login requests all of them, even after a restart, until a login has
/// succeeded.
#[test]
fn required_scopes_are_remembered_until_requested() {
    let folder = tempfile::tempdir().unwrap();
    let server_url = server_url("s", "https://example.org/mcp");
    let logins = || Logins::new(folder.path().to_owned());
    let refused = |is_authenticated, header: &str| {
        let refusal = Refusal::with(is_authenticated, header);
        logins().refused(server_url, &refusal, &SecretFilter::default()).to_string()
    };
    let wanted = || WantedLogins::read(&logins().wanted_file(server_url));
    let scopes = |scopes: &[&str]| scopes.iter().map(|scope| (*scope).to_owned()).collect::<Vec<_>>();

    let text = refused(false, r#"Bearer scope="old""#);
    assert!(text.contains("`agentctl mcp login s` logs in"), "{text}");
    refused(false, r#"Bearer scope="read", resource_metadata="/a\\b""#);
    assert_eq!(wanted().scopes_to_request(&[], &[]), ["read"], "without a token, only the last demand counts");
    assert!(wanted().challenge().unwrap().contains("https://example.org/a/b"));

    fs::write(logins().token_path(server_url), "{}").unwrap();
    let text = refused(true, r#"Bearer error="insufficient_scope", scope="write <b>""#);
    assert!(text.contains("log in again with `agentctl mcp login s`") && text.ends_with(": write <b>"), "{text}");
    assert_eq!(wanted().scopes_to_request(&scopes(&["got", "read"]), &[]), ["write", "<b>", "read", "got"]);

    let requested = wanted().scopes_to_request(&[], &[]);
    logins().remember(&logins().wanted_file(server_url), |wanted| wanted.record_login(requested));
    let text = refused(true, r#"Bearer error="insufficient_scope", scope="write""#);
    assert!(text.contains("another login would not help") && !text.contains("agentctl"), "{text}");
    assert_eq!(wanted().scopes_to_request(&scopes(&["read"]), &[]), ["read"], "a requested scope was requested again");
    let text = refused(true, "Bearer");
    assert!(text.contains("names no required scope"), "{text}");

    let mode = fs::metadata(logins().wanted_file(server_url)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn unavailable_scope_is_not_requested_again() {
    let mut wanted = WantedLogins::default();
    let refusal = Refusal::with(true, r#"Bearer scope="gone""#);
    assert_eq!(wanted.record_refusal(&refusal, "https://example.org/", true), Remedy::Login(vec!["gone".to_owned()]));
    wanted.record_rejected_scopes();
    assert_eq!(wanted.scopes_to_request(&["got".to_owned()], &["first".to_owned(), "gone".to_owned()]), ["first"]);
    // If a rejected scope is required again, no login is suggested, neither now nor after the next login.
    for _ in 0..2 {
        assert_eq!(
            wanted.record_refusal(&refusal, "https://example.org/", true),
            Remedy::None(vec!["gone".to_owned()])
        );
        wanted.record_login(vec!["first".to_owned()]);
    }
    let further_refusal = Refusal::with(true, r#"Bearer scope="gone more""#);
    assert_eq!(
        wanted.record_refusal(&further_refusal, "https://example.org/", true),
        Remedy::Login(vec!["more".to_owned()])
    );
    let unauthenticated = Refusal::with(false, r#"Bearer scope="gone""#);
    wanted.record_refusal(&unauthenticated, "https://example.org/", true);
    assert_eq!(wanted.scopes_to_request(&[], &[]), ["more"]);
}

/// The scopes of a server that requires more and more are limited, but include the latest one.
#[test]
fn latest_required_scope_is_requested_despite_the_limit() {
    let mut wanted = WantedLogins::default();
    for number in 0..200 {
        let refusal = Refusal::with(true, &format!("Bearer scope=\"s{number}\""));
        wanted.record_refusal(&refusal, "https://example.org/", true);
    }
    let requested = wanted.scopes_to_request(&["got".to_owned()], &[]);
    assert_eq!((requested.len(), requested[0].as_str()), (64, "s199"));
}

#[test]
fn registration_refused_for_scopes_is_recognised() {
    let failed = |error: &str| is_scope_error(&AuthError::RegistrationFailed(error.to_owned()));
    assert!(failed(
        r#"HTTP 400 Bad Request: {"error":"invalid_client_metadata","error_description":"unknown scope x"}"#
    ));
    assert!(!failed(r#"HTTP 400 Bad Request: {"error":"invalid_redirect_uri"}"#));
    assert!(!failed("HTTP request error: no scope"));
}

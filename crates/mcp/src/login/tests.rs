use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use rmcp::transport::auth::{AuthorizationMetadata, CredentialStore as _, StoredCredentials};

use super::*;

fn server_url<'a>(server: &'a str, url: &'a str) -> ServerUrl<'a> {
    ServerUrl { server, url, client: None }
}

/// Token source with these values.
fn giver(issuer: Option<&str>, token_endpoint: &str) -> TokenSource {
    let mut said = AuthorizationMetadata::default();
    said.issuer = issuer.map(str::to_owned);
    said.token_endpoint = token_endpoint.to_owned();
    TokenSource::from(&said)
}

#[tokio::test]
async fn token_files_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let logins = Logins::new(folder.path().join("tokens"));
    let file = |server_url| logins.token_file(server_url, giver(None, "http://localhost:1/token"));
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
        assert!(other.load().await.unwrap().is_none(), "{server} at {url} has the token of another");
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
            giver(issuer, token_endpoint),
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
        assert!(other.load().await.unwrap().is_none(), "{:?}", other.giver);
        assert!(matches!(other.read(), Ok(TokenLookup::Unfit(_))), "{:?}", other.giver);
    }
    assert!(file.load().await.unwrap().is_some(), "it stays");
    // Format of earlier versions.
    fs::write(&file.path, serde_json::to_vec(&StoredCredentials::new("me".to_owned(), None, vec![], None)).unwrap())
        .unwrap();
    assert!(matches!(file.read(), Ok(TokenLookup::Unfit(_))));
}

#[tokio::test]
async fn login_cannot_be_finished_before_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let why = Logins::new(folder.path().to_owned()).finish("a", "http://localhost/?code=1&state=2").await;
    assert!(why.unwrap_err().contains("no login is in progress"));
}

/// A server requires more and more scopes. The next login requests all of them, even after a restart, until a login has
/// succeeded.
#[test]
fn required_scopes_are_remembered_until_requested() {
    let folder = tempfile::tempdir().unwrap();
    let server_url = server_url("s", "https://example.org/mcp");
    let logins = || Logins::new(folder.path().to_owned());
    let refused = |knows_us, header: &str| {
        let refusal = Refusal::with(knows_us, header);
        logins().refused(server_url, &refusal, &SecretFilter::default()).to_string()
    };
    let wanted = || WantedLogins::read(&logins().wanted_file(server_url));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();

    let text = refused(false, r#"Bearer scope="old""#);
    assert!(text.contains("`agentctl mcp login s` logs in"), "{text}");
    refused(false, r#"Bearer scope="read", resource_metadata="/a\\b""#);
    assert_eq!(wanted().asks_for(&[], &[]), ["read"], "nobody was known, so what was said last counts");
    assert!(wanted().challenge().unwrap().contains("https://example.org/a/b"));

    fs::write(logins().token_path(server_url), "{}").unwrap();
    let text = refused(true, r#"Bearer error="insufficient_scope", scope="write <b>""#);
    assert!(text.contains("log in again with `agentctl mcp login s`") && text.ends_with(": write <b>"), "{text}");
    assert_eq!(wanted().asks_for(&words(&["got", "read"]), &[]), ["write", "<b>", "read", "got"]);

    let asked = wanted().asks_for(&[], &[]);
    logins().remember(&logins().wanted_file(server_url), |wanted| wanted.logged_in(asked));
    let text = refused(true, r#"Bearer error="insufficient_scope", scope="write""#);
    assert!(text.contains("another login would not help") && !text.contains("agentctl"), "{text}");
    assert_eq!(wanted().asks_for(&words(&["read"]), &[]), ["read"], "nothing more is wanted");
    let text = refused(true, "Bearer");
    assert!(text.contains("names no required scope"), "{text}");

    let mode = fs::metadata(logins().wanted_file(server_url)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn unavailable_scope_is_not_requested_again() {
    let mut wanted = WantedLogins::default();
    let refusal = Refusal::with(true, r#"Bearer scope="gone""#);
    assert_eq!(wanted.refused(&refusal, "https://example.org/", true), Remedy::Login(vec!["gone".to_owned()]));
    wanted.asked_in_vain();
    assert_eq!(wanted.asks_for(&["got".to_owned()], &["first".to_owned(), "gone".to_owned()]), ["first"]);
    // Requiring an invalid scope again does not suggest a login, neither now nor after the next login.
    for _ in 0..2 {
        assert_eq!(wanted.refused(&refusal, "https://example.org/", true), Remedy::None(vec!["gone".to_owned()]));
        wanted.logged_in(vec!["first".to_owned()]);
    }
    let more = Refusal::with(true, r#"Bearer scope="gone more""#);
    assert_eq!(wanted.refused(&more, "https://example.org/", true), Remedy::Login(vec!["more".to_owned()]));
    let stranger = Refusal::with(false, r#"Bearer scope="gone""#);
    wanted.refused(&stranger, "https://example.org/", true);
    assert_eq!(wanted.asks_for(&[], &[]), ["more"]);
}

/// The scopes of a server that requires more and more are limited, but include the latest one.
#[test]
fn latest_required_scope_is_requested_despite_the_limit() {
    let mut wanted = WantedLogins::default();
    for number in 0..200 {
        let refusal = Refusal::with(true, &format!("Bearer scope=\"s{number}\""));
        wanted.refused(&refusal, "https://example.org/", true);
    }
    let asked = wanted.asks_for(&["got".to_owned()], &[]);
    assert_eq!((asked.len(), asked[0].as_str()), (64, "s199"));
}

#[test]
fn registration_refused_for_scopes_is_recognised() {
    let failed = |why: &str| is_for_scopes(&AuthError::RegistrationFailed(why.to_owned()));
    assert!(failed(
        r#"HTTP 400 Bad Request: {"error":"invalid_client_metadata","error_description":"unknown scope x"}"#
    ));
    assert!(!failed(r#"HTTP 400 Bad Request: {"error":"invalid_redirect_uri"}"#));
    assert!(!failed("HTTP request error: no scope"));
}

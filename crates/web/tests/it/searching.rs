//! Search engines receive their API keys, and their responses are not trusted.

use std::sync::Arc;

use agentd_core::{error::ErrorKind, ports::Web as _, web::WebSearchHit};
use agentd_web::{
    Fetcher, WebConfig,
    search::{Dialect, JsonFields, SearchConfig},
};
use serde_json::json;

use crate::{
    Names, config,
    server::{Server, answer, redirect},
};

const KEY: &str = "k-0123456789";

/// Creates a fetcher that allows no private addresses. The engine is contacted anyway, because the user configured it.
fn with_engine(dialect: Dialect, base_url: &str) -> Fetcher {
    let search = SearchConfig {
        dialect,
        base_url: base_url.parse().unwrap(),
        api_key: Some(KEY.into()),
        key_variable: Some("THE_KEY".to_owned()),
    };
    let config = WebConfig { search: Some(search), allow: Vec::new(), ..config() };
    assert!(!format!("{config:?}").contains(KEY));
    Fetcher::with_lookup(config, Arc::new(Names::default()))
}

fn fields() -> JsonFields {
    JsonFields {
        results: "/items".into(),
        title: "name".into(),
        url: "link".into(),
        snippet: "text".into(),
        key_header: None,
    }
}

#[tokio::test]
async fn every_search_engine_is_supported() {
    let server = Server::start(|request| {
        let find = json!({"title": "Rust", "url": "https://rust.test/", "content": "words", "description": "words"});
        let body = match request.split([' ', '?']).nth(1) {
            Some("/brave") => json!({"web": {"results": [find, find]}}),
            Some("/json") => json!({"items": [{"name": "Rust", "link": "https://rust.test/", "text": "words"}, {}]}),
            _ => json!({"results": [find, find]}),
        };
        answer("200 OK\r\ncontent-type: application/json", body.to_string())
    })
    .await;
    let expected = WebSearchHit { title: "Rust".into(), url: "https://rust.test/".into(), snippet: "words".into() };
    for (dialect, path, expected_part) in [
        (Dialect::Searxng, "/", "GET /search?q=r%C3%A4d&format=json "),
        (Dialect::Brave, "/brave", "x-subscription-token: k-0123456789"),
        (Dialect::Tavily, "/tavily", "authorization: Bearer k-0123456789"),
        (Dialect::Json(fields()), "/json?q={query}", "GET /json?q=r%C3%A4d "),
    ] {
        let web = with_engine(dialect, &server.url(path));
        let finds = web.search("räd".to_owned(), 1).await.unwrap();
        assert_eq!(finds, std::slice::from_ref(&expected), "{path}");
        let request = server.requests().pop().unwrap();
        assert!(request.contains(expected_part), "{request}");
    }
    assert!(server.requests().last().unwrap().contains("authorization: Bearer k-0123456789"));
}

#[tokio::test]
async fn failing_engine_is_reported_without_its_key() {
    let server = Server::start(|request| match request.split([' ', '?']).nth(1) {
        Some("/refused") => answer("401 Unauthorized", format!("bad key {KEY}")),
        Some("/moved") => redirect(302, "https://elsewhere.test/"),
        Some("/page") => answer("200 OK", "<html>"),
        _ => answer("200 OK", json!({"nothing": KEY}).to_string()),
    })
    .await;
    for (path, kind) in [
        ("/refused", ErrorKind::Auth),
        ("/moved", ErrorKind::Provider),
        ("/page", ErrorKind::Protocol),
        ("/other", ErrorKind::Protocol),
    ] {
        let error = with_engine(Dialect::Tavily, &server.url(path)).search("x".to_owned(), 5).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{path}: {error}");
        assert!(
            !format!("{error:?}").contains(KEY) && error.hint().is_some() | (path == "/moved"),
            "{path}: {error:?}"
        );
    }
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn missing_engine_or_key_has_a_hint() {
    let web = Fetcher::with_lookup(config(), Arc::new(Names::default()));
    let error = web.search("x".to_owned(), 5).await.unwrap_err();
    assert!(error.to_string().contains("no search engine is configured"), "{error}");
    assert!(error.hint().unwrap().contains("search.provider"), "{error:?}");
    let search = SearchConfig {
        dialect: Dialect::Brave,
        base_url: "http://127.0.0.1:9/".parse().unwrap(),
        api_key: None,
        key_variable: Some("THE_KEY".to_owned()),
    };
    let web = Fetcher::with_lookup(WebConfig { search: Some(search), ..config() }, Arc::new(Names::default()));
    let error = web.search("x".to_owned(), 5).await.unwrap_err();
    assert!(error.to_string().contains("THE_KEY is not set"), "{error}");
}

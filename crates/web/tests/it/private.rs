//! Private networks stay inaccessible, regardless of the redirects of a page or the addresses of a name server.

use agentd_core::{
    error::ErrorKind,
    ports::{ReadRules, Web as _},
    web::{WebMethod, WebRequest},
};
use agentd_web::{Fetcher, WebConfig};

use crate::{
    Names, config, fetch,
    server::{Server, answer, redirect},
    web,
};

#[tokio::test]
async fn private_addresses_are_not_contacted() {
    let inside = Server::at("127.0.0.2:0", |_| answer("200 OK", "secret")).await;
    let port = inside.address.port();
    let names = Names::of(&[
        ("inside.test", &[&["127.0.0.2"]]),
        ("both.test", &[&["127.0.0.1", "127.0.0.2"]]),
        ("mapped.test", &[&["::ffff:127.0.0.2"]]),
        ("meta.test", &[&["169.254.169.254"]]),
        ("nowhere.test", &[&[]]),
    ]);
    let web = Fetcher::with_lookup(config(), names);
    for (url, part) in [
        (format!("http://127.0.0.2:{port}/"), "127.0.0.2 is not public (this machine)"),
        (format!("http://inside.test:{port}/"), "\"inside.test\" leads to 127.0.0.2, which is not public"),
        (format!("http://both.test:{port}/"), "leads to 127.0.0.2"),
        (format!("http://mapped.test:{port}/"), "is not public (this machine)"),
        ("http://meta.test/latest/meta-data/".to_owned(), "link-local, used for cloud metadata"),
        ("http://nowhere.test/".to_owned(), "the name has no address"),
        ("http://unknown.test/".to_owned(), "no such name"),
    ] {
        let error = fetch(&web, &url).await.unwrap_err();
        assert!(error.to_string().contains(part), "{url}: {error}");
        if part.contains("public") {
            assert_eq!(error.kind(), ErrorKind::Configuration, "{url}");
            assert!(error.hint().unwrap().contains("fetch.allow"), "{url}");
        }
    }
    assert!(inside.requests().is_empty(), "{:?}", inside.requests());
}

#[tokio::test]
async fn redirects_are_checked_like_first_requests() {
    let inside = Server::at("127.0.0.2:0", |_| answer("200 OK", "secret")).await;
    let port = inside.address.port();
    let public_server = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/number") => redirect(302, &format!("http://127.0.0.2:{port}/")),
        Some("/name") => redirect(307, &format!("http://inside.test:{port}/")),
        Some("/hidden") => redirect(301, &format!("http://0177.0.0.2:{port}/")),
        Some("/file") => redirect(302, "file:///etc/passwd"),
        _ => redirect(302, "/again"),
    })
    .await;
    let web = Fetcher::with_lookup(config(), Names::of(&[("inside.test", &[&["127.0.0.2"]])]));
    for (path, part) in [
        ("/number", "is not public"),
        ("/name", "is not public"),
        ("/hidden", "is not public"),
        ("/file", "neither http nor https"),
        ("/loop", "more than 5 times"),
    ] {
        let error = fetch(&web, &public_server.url(path)).await.unwrap_err();
        assert!(error.to_string().contains(part), "{path}: {error}");
    }
    assert!(inside.requests().is_empty(), "{:?}", inside.requests());
    // One request for each of the other pages, and six for the redirect loop: the first request and five redirects.
    assert_eq!(public_server.requests().len(), 4 + 6);
}

#[tokio::test]
async fn rebound_name_is_checked_again() {
    let inside = Server::at("127.0.0.2:0", |_| answer("200 OK", "secret")).await;
    let port = inside.address.port();
    let public_server = Server::at(&format!("127.0.0.1:{port}"), |_| answer("200 OK", "public")).await;
    // The addresses from the first lookup are both checked and used. There is no second lookup in between.
    let web = Fetcher::with_lookup(config(), Names::of(&[("page.test", &[&["127.0.0.1"], &["127.0.0.2"]])]));
    let url = format!("http://page.test:{port}/");
    assert_eq!(fetch(&web, &url).await.unwrap().text.as_deref(), Some("public"));
    let error = fetch(&web, &url).await.unwrap_err();
    assert!(error.to_string().contains("leads to 127.0.0.2"), "{error}");
    assert_eq!((public_server.requests().len(), inside.requests().len()), (1, 0));
}

#[tokio::test]
async fn configured_host_is_allowed_on_its_port_only() {
    let inside = Server::at("127.0.0.2:0", |_| answer("200 OK", "for the user")).await;
    let port = inside.address.port();
    let names = Names::of(&[("wiki.test", &[&["127.0.0.2"]])]);
    let allow = vec![format!("wiki.test:{port}").parse().unwrap()];
    let web = Fetcher::with_lookup(WebConfig { allow, ..config() }, names);
    let answer = fetch(&web, &format!("http://wiki.test:{port}/")).await.unwrap();
    assert_eq!(answer.text.as_deref(), Some("for the user"));
    for other in [format!("http://wiki.test:{}/", port ^ 1), format!("http://127.0.0.2:{port}/")] {
        let error = fetch(&web, &other).await.unwrap_err();
        assert!(error.to_string().contains("is not public"), "{other}: {error}");
    }
}

#[tokio::test]
async fn credentials_do_not_follow_redirects_to_other_hosts() {
    let other = Server::start(|_| answer("200 OK", "there")).await;
    let there = other.url("/there");
    let first = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/stay") => redirect(307, "/here"),
        Some("/go") => redirect(307, &there),
        _ => answer("200 OK", "here"),
    })
    .await;
    let web = web();
    let headers = vec![("authorization".into(), "Bearer k".into()), ("accept".into(), "a/b".into())];
    let ask = |method, path: &str, body: Option<&str>| {
        let request =
            WebRequest { method, url: first.url(path), headers: headers.clone(), body: body.map(str::to_owned) };
        web.fetch(request, ReadRules::default())
    };
    let answer = ask(WebMethod::Get, "/go", None).await.unwrap();
    assert_eq!((answer.url.as_str(), answer.passed), (other.url("/there").as_str(), vec![first.url("/go")]));
    let request = other.requests().pop().unwrap();
    assert!(request.contains("accept: a/b") && !request.contains("Bearer"), "{request}");
    ask(WebMethod::Post, "/stay", Some("words")).await.unwrap();
    let request = first.requests().pop().unwrap();
    assert!(
        request.starts_with("POST /here") && request.contains("Bearer k") && request.ends_with("words"),
        "{request}"
    );
    let error = ask(WebMethod::Post, "/go", Some("words")).await.unwrap_err();
    assert!(error.to_string().contains("is not sent to another"), "{error}");
    assert!(error.hint().unwrap().contains(&other.url("/there")), "{error:?}");
    assert_eq!(other.requests().len(), 1);
}

//! Responses of well-behaved and of faulty servers are limited in size and time, and decoded from any encoding.

use std::{io::Write as _, sync::Arc, time::Duration};

use agentd_core::{
    error::ErrorKind,
    ports::{ReadRules, Web as _},
    web::{WebMethod, WebRequest},
};
use agentd_web::{Fetcher, WebConfig};
use flate2::{Compression, write::GzEncoder};

use crate::{
    Names, config, fetch,
    server::{Reply, Server, answer},
    web,
};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[tokio::test]
async fn requests_identify_the_agent_but_not_the_user() {
    let server =
        Server::start(|_| answer("200 OK\r\ncontent-type: text/plain\r\netag: \"1\"\r\nx-own: 1", "words")).await;
    let contact = Some("https://example.org/bot".to_owned());
    let web = Fetcher::with_lookup(WebConfig { contact, ..config() }, Arc::new(Names::default()));
    let answer = fetch(&web, &server.url("/a?b#c")).await.unwrap();
    assert_eq!((answer.status, answer.reason.as_str(), answer.media_type.as_str()), (200, "OK", "text/plain"));
    assert_eq!(answer.headers, [("etag".to_owned(), "\"1\"".to_owned())]);
    let request = server.requests().pop().unwrap();
    assert!(request.starts_with("GET /a?b HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains(concat!("user-agent: agentd/", env!("CARGO_PKG_VERSION"), " (+https://example.org/bot)")),
        "{request}"
    );
    assert!(!request.contains("referer") && !request.contains("cookie"), "{request}");
}

#[tokio::test]
async fn range_requests_disable_compression() {
    let server = Server::start(|_| answer("200 OK\r\ncontent-type: text/plain", "words")).await;
    let web = web();
    let range = vec![("Range".to_owned(), "bytes=0-9".to_owned())];
    for (headers, accepted) in [(Vec::new(), "gzip"), (range, "identity")] {
        let request = WebRequest { headers, ..WebRequest::get(server.url("/")) };
        web.fetch(request, ReadRules::default()).await.unwrap();
        let request = server.requests().pop().unwrap();
        assert!(request.contains(&format!("accept-encoding: {accepted}")), "{request}");
    }
}

#[tokio::test]
async fn decompressed_answer_is_bounded() {
    let bomb = gzip(&vec![b'a'; 50 << 20]);
    let twice = gzip(&bomb);
    let server = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/gzip") => answer("200 OK\r\ncontent-encoding: gzip", &bomb),
        Some("/twice") => answer("200 OK\r\ncontent-encoding: gzip, gzip", &twice),
        Some("/thrice") => answer("200 OK\r\ncontent-encoding: gzip, gzip, gzip", &twice),
        Some("/zstd") => answer("200 OK\r\ncontent-encoding: zstd", "x"),
        Some("/broken") => answer("200 OK\r\ncontent-encoding: gzip", "no gzip at all"),
        Some("/small") => answer("200 OK\r\ncontent-encoding: gzip", gzip(b"words")),
        Some("/head") => {
            Reply::Sent(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 99\r\n\r\n".to_vec())
        }
        // The response has no content length and an endless body.
        _ => Reply::Dripped([b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'a'; 200_000]].concat()),
    })
    .await;
    let web = web();
    for path in ["/gzip", "/twice", "/endless"] {
        let answer = fetch(&web, &server.url(path)).await.unwrap();
        assert_eq!((answer.body.len(), answer.cut), (100_000, true), "{path}");
        assert_eq!(answer.text.unwrap().len(), 100_000, "{path}");
    }
    for (path, part) in
        [("/thrice", "compressed 3 times"), ("/zstd", "unrequested content encoding"), ("/broken", "unpacked")]
    {
        let error = fetch(&web, &server.url(path)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{path}");
        assert!(error.to_string().contains(part), "{path}: {error}");
    }
    let small = fetch(&web, &server.url("/small")).await.unwrap();
    assert_eq!((small.text.as_deref(), small.cut), (Some("words"), false));
    let head = WebRequest { method: WebMethod::Head, ..WebRequest::get(server.url("/head")) };
    assert!(web.fetch(head, ReadRules::default()).await.unwrap().body.is_empty());
}

#[tokio::test]
async fn slow_server_times_out() {
    let server = Server::start(|request| match request.split(' ').nth(1) {
        Some("/silent") => Reply::Nothing,
        Some("/slow") => Reply::Dripped(b"HTTP/1.1 200 OK\r\ncontent-length: 90000\r\n\r\n".to_vec()),
        _ => Reply::Dripped(b"HTTP/1.1 200 OK\r\nx-head: ".to_vec()),
    })
    .await;
    let timeout = Duration::from_millis(150);
    let web = Fetcher::with_lookup(WebConfig { timeout, ..config() }, Arc::new(Names::default()));
    for path in ["/silent", "/slow", "/slow-head"] {
        let error = fetch(&web, &server.url(path)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{path}: {error}");
        server.closed().await;
    }
}

#[tokio::test]
async fn dropped_request_closes_its_connection() {
    let server = Server::start(|_| Reply::Nothing).await;
    let (web, url) = (web(), server.url("/"));
    tokio::select! {
        answer = fetch(&web, &url) => panic!("{answer:?}"),
        () = server.requested() => {}
    }
    server.closed().await;
}

#[tokio::test]
async fn malformed_answers_are_reported() {
    let server = Server::start(|request| match request.split(' ').nth(1) {
        Some("/short") => Reply::Sent(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this".to_vec()),
        Some("/chunks") => {
            Reply::Sent(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nwords\r\nnonsense".to_vec())
        }
        Some("/none") => Reply::Sent(Vec::new()),
        Some("/lengths") => {
            Reply::Sent(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_vec())
        }
        Some("/head") => Reply::Sent([b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'a'; 2 << 20]].concat()),
        _ => Reply::Sent(b"this is no answer at all\r\n\r\n".to_vec()),
    })
    .await;
    let web = web();
    for (path, kind) in [
        ("/short", ErrorKind::CutStream),
        ("/chunks", ErrorKind::CutStream),
        ("/none", ErrorKind::Protocol),
        ("/lengths", ErrorKind::Protocol),
        ("/head", ErrorKind::Protocol),
        ("/nonsense", ErrorKind::Protocol),
    ] {
        let error = fetch(&web, &server.url(path)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{path}: {error}");
    }
    let address = server.address;
    drop(server);
    // The port is closed as soon as the server's task has ended.
    let error = loop {
        match fetch(&web, &format!("http://{address}/")).await {
            Err(error) if error.kind() == ErrorKind::Unreachable => break error,
            _ => tokio::task::yield_now().await,
        }
    };
    assert!(error.to_string().contains("could not reach 127.0.0.1"), "{error}");
}

//! Discovery of model servers that listen on this machine.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// A kind of model server that users run on their own machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalServer {
    /// Name on the command line.
    pub name: &'static str,
    /// Name as shown to users.
    pub title: &'static str,
    /// Default base URL of the server's API.
    pub base_url: &'static str,
    port: u16,
}

/// Known kinds of servers, each at its default port.
pub const LOCAL_SERVERS: [LocalServer; 4] = [
    LocalServer { name: "ollama", title: "Ollama", base_url: "http://127.0.0.1:11434/v1", port: 11434 },
    LocalServer { name: "llama.cpp", title: "llama.cpp", base_url: "http://127.0.0.1:8080/v1", port: 8080 },
    LocalServer { name: "lm-studio", title: "LM Studio", base_url: "http://127.0.0.1:1234/v1", port: 1234 },
    LocalServer { name: "vllm", title: "vLLM", base_url: "http://127.0.0.1:8000/v1", port: 8000 },
];

/// Time limit for a server's response, so that an unrelated program on the port does not cause a long wait.
const TIMEOUT: Duration = Duration::from_millis(800);

/// Maximum size of a response that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 256 * 1024;

/// Returns the running servers on this machine that list models. The kind is determined by the port.
pub async fn listening() -> Vec<&'static LocalServer> {
    let checks = LOCAL_SERVERS.iter().map(async |server| lists_models(server.port).await.then_some(server));
    join_all(checks).await.into_iter().flatten().collect()
}

/// Returns true if a server on this port lists models. The request contains no user data, in particular no API key.
async fn lists_models(port: u16) -> bool {
    timeout(TIMEOUT, answer(port)).await.ok().flatten().is_some_and(|answer| is_listing(&answer))
}

async fn answer(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.ok()?;
    let request = format!("GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await.ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns true if the response is a model list in the format of chat completion servers.
fn is_listing(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    let is_ok = head.split_whitespace().nth(1) == Some("200");
    is_ok && body.contains("\"data\"") && (body.contains("\"object\"") || body.contains("\"id\""))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn base_urls_match_their_ports() {
        assert!(LOCAL_SERVERS.iter().all(|server| server.base_url == format!("http://127.0.0.1:{}/v1", server.port)));
    }

    async fn lists(answer: &'static str) -> bool {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 512];
            let read = stream.read(&mut request).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        let found = lists_models(port).await;
        assert!(server.await.unwrap().starts_with("GET /v1/models HTTP/1.0\r\n"));
        found
    }

    #[tokio::test]
    async fn only_servers_that_list_models_are_found() {
        assert!(lists("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"object\": \"list\", \"data\": [{\"id\": \"m\"}]}").await);
        assert!(!lists("HTTP/1.1 200 OK\r\n\r\n<html>a web page</html>").await);
        assert!(!lists("HTTP/1.1 404 Not Found\r\n\r\n{\"data\": [], \"object\": 1}").await);
        assert!(!lists("SSH-2.0-x\r\n").await);
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap().port();
        assert!(!lists_models(free).await);
    }
}

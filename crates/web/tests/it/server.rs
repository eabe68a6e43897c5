//! Test server with scripted replies, valid or malformed.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

/// Scripted reply to a request.
pub(crate) enum Reply {
    /// Sends these bytes and closes the connection.
    Sent(Vec<u8>),
    /// Sends these bytes, followed by an endless stream of single bytes.
    Dripped(Vec<u8>),
    /// Sends nothing and leaves the connection open.
    Nothing,
}

/// Creates a response with a body.
pub(crate) fn answer(head: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    Reply::Sent([head.as_bytes(), body].concat())
}

/// Creates a redirect to `location`.
pub(crate) fn redirect(status: u16, location: &str) -> Reply {
    answer(&format!("{status} Elsewhere\r\nlocation: {location}"), "")
}

/// Loopback server that stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    requested: Arc<Notify>,
    disconnected: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", reply).await
    }

    pub(crate) async fn at(address: &str, reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, requested, disconnected) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (requests_sink, request_notify, close_notify, reply) =
            (Arc::clone(&requests), Arc::clone(&requested), Arc::clone(&disconnected), Arc::new(reply));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (requests, requested, disconnected) =
                    (Arc::clone(&requests_sink), Arc::clone(&request_notify), Arc::clone(&close_notify));
                let reply = Arc::clone(&reply);
                tokio::spawn(async move {
                    let request = read(&mut stream).await;
                    let reply = reply(&request);
                    requests.lock().unwrap().push(request);
                    requested.notify_one();
                    send(stream, reply).await;
                    disconnected.notify_one();
                });
            }
        });
        Self { address, requests, requested, disconnected, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns all requests received so far, unmodified.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits for the next request.
    pub(crate) async fn requested(&self) {
        self.requested.notified().await;
    }

    /// Waits until a connection has ended.
    pub(crate) async fn closed(&self) {
        self.disconnected.notified().await;
    }
}

/// Reads a request with its body.
async fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return text,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
        }
    }
}

async fn send(mut stream: TcpStream, reply: Reply) {
    match reply {
        Reply::Sent(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Reply::Dripped(bytes) => {
            let _ = stream.write_all(&bytes).await;
            while stream.write_all(b"a").await.is_ok() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        Reply::Nothing => {
            let _ = stream.read(&mut [0]).await;
        }
    }
}

//! A proxy on loopback that records its requests.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Behaviour of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyBehaviour {
    /// Forwards every request to this address.
    Leads(SocketAddr),
    /// Rejects every request with an error.
    Refuses,
    /// Accepts connections, but never responds.
    Hangs,
}

/// A proxy that stops when dropped.
#[derive(Debug)]
pub struct TestProxy {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl TestProxy {
    /// Starts a proxy.
    ///
    /// # Panics
    /// Panics if there is no free port.
    #[expect(clippy::expect_used, reason = "a test cannot continue without its proxy")]
    pub async fn start(behaviour: ProxyBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("a local address");
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let notes = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, behaviour, Arc::clone(&notes)));
            }
        });
        Self { address, seen, task }
    }

    /// Returns the proxy's address without a scheme.
    pub fn place(&self) -> String {
        self.address.to_string()
    }

    /// Returns the first line of the first request of each connection.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(client: TcpStream, behaviour: ProxyBehaviour, seen: Arc<Mutex<Vec<String>>>) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && head.len() < 64 << 10 {
        if client.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let first = head.lines().next().unwrap_or_default().to_owned();
    let is_tunnel = first.starts_with("CONNECT ");
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(first);
    match behaviour {
        ProxyBehaviour::Hangs => std::future::pending().await,
        ProxyBehaviour::Refuses => client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await,
        ProxyBehaviour::Leads(address) => {
            let mut server = TcpStream::connect(address).await?;
            if is_tunnel {
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            } else {
                server.write_all(head.as_bytes()).await?;
            }
            tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
        }
    }
}

//! A proxy in the daemon, through which a program can reach the listed hosts. The program has no other network access.
//!
//! The helper creates a private network with a single address and listens there. It passes the listening socket to the
//! daemon, which accepts connections and connects to the listed hosts. No datagram, name lookup or other connection of
//! the program can therefore leave the network. The proxy lives as long as the program.
//!
//! The proxy supports `CONNECT`, for TLS, and `GET` and `HEAD` with absolute URLs, with one request per connection. Any
//! further data on the same connection is never passed on, since it could be a request to another host.

use std::{
    collections::BTreeSet,
    fmt, io,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentd_core::{mutex::lock, route::Routes};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use url::Url;

/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 64;
/// Maximum size of the head of a request, or of a response from the user's proxy, in bytes.
const MAX_HEAD: u64 = 32 << 10;
/// Time limit for reading the head of a request, and for connecting.
const TIMEOUT: Duration = Duration::from_secs(30);
/// User name that is used with the random password.
const USER: &str = "agentd";
/// Headers that are not passed on: hop-by-hop headers, and the host header, which is written from the URL.
const DROPPED_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A host in lowercase, and a port.
pub type Target = (String, u16);

/// Proxy for one program.
pub struct Gateway {
    hosts: BTreeSet<Target>,
    upstream: Routes,
    password: String,
    refused: Mutex<Option<Target>>,
    failed: Mutex<Option<String>>,
    /// Cancelled when a request is refused because of its host.
    pub host_refused: CancellationToken,
}

/// Parsed request with its destination.
enum Request {
    Tunnel(Target),
    /// A plain HTTP request with its URL, its method and the headers to pass on.
    Plain(Url, String, String),
}

/// Error response from the proxy itself.
struct Refusal(&'static str);

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Creates a proxy to these hosts, without starting to listen.
    pub fn new(hosts: BTreeSet<Target>, upstream: Routes) -> Self {
        let password = uuid::Uuid::new_v4().simple().to_string();
        let (refused, failed, host_refused) = Default::default();
        Self { hosts, upstream, password, refused, failed, host_refused }
    }

    /// Returns the proxy's URL for the program, with credentials.
    pub fn address(&self, port: u16) -> String {
        format!("http://{USER}:{}@127.0.0.1:{port}", self.password)
    }

    /// Returns the first unlisted host that the program requested.
    pub fn refused(&self) -> Option<Target> {
        lock(&self.refused).clone()
    }

    /// Returns the last connection that could not be established, with its route.
    pub fn failed(&self) -> Option<String> {
        lock(&self.failed).clone()
    }

    /// Serves the program until the returned handle is dropped, which closes all connections.
    pub fn serve(self: &Arc<Self>, listener: TcpListener) -> AbortOnDropHandle<()> {
        let gateway = Arc::clone(self);
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut open = JoinSet::new();
            loop {
                tokio::select! {
                    Some(_) = open.join_next() => {}
                    accepted = listener.accept(), if open.len() < MAX_CONNECTIONS => {
                        let Ok((client, _)) = accepted else { return };
                        let gateway = Arc::clone(&gateway);
                        open.spawn(async move {
                            if let Err(error) = gateway.handle_connection(client).await {
                                tracing::debug!("an installer's connection failed: {error}");
                            }
                        });
                    }
                }
            }
        }))
    }

    async fn handle_connection(&self, client: TcpStream) -> io::Result<()> {
        let mut client = BufReader::new(client);
        let head = head_of(&mut client).await?;
        match self.request(&head) {
            Ok(Request::Tunnel(target)) => self.tunnel(client, target).await,
            Ok(Request::Plain(url, method, headers)) => self.fetch(client, url, &method, &headers).await,
            Err(Refusal(status)) => answer(&mut client, status).await,
        }
    }

    /// Parses a request, and refuses it if its host is not listed.
    fn request(&self, head: &str) -> Result<Request, Refusal> {
        let mut lines = head.lines();
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, _] = words[..] else { return Err(Refusal("400 Bad Request")) };
        let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
        let expected = basic(USER, &self.password);
        let is_authenticated = headers
            .iter()
            .any(|(name, value)| name.eq_ignore_ascii_case("proxy-authorization") && value.trim() == expected);
        if !is_authenticated {
            return Err(Refusal("407 Proxy Authentication Required"));
        }
        if method == "CONNECT" {
            let target =
                target.rsplit_once(':').and_then(|(host, port)| Some((normalized_host(host), port.parse().ok()?)));
            let target = target.ok_or(Refusal("400 Bad Request"))?;
            return self.check_target(target).map(Request::Tunnel);
        }
        if !matches!(method, "GET" | "HEAD") {
            return Err(Refusal("405 Method Not Allowed"));
        }
        let url = Url::parse(target).ok().filter(|url| url.scheme() == "http" && url.username().is_empty());
        let url = url.ok_or(Refusal("400 Bad Request"))?;
        self.check_target(target_of(&url).ok_or(Refusal("400 Bad Request"))?)?;
        let passed = headers
            .iter()
            .filter(|(name, _)| !DROPPED_HEADERS.iter().any(|dropped| name.eq_ignore_ascii_case(dropped)));
        let passed = passed.map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        Ok(Request::Plain(url, method.to_owned(), passed))
    }

    fn check_target(&self, target: Target) -> Result<Target, Refusal> {
        if self.hosts.contains(&target) {
            return Ok(target);
        }
        lock(&self.refused).get_or_insert(target);
        self.host_refused.cancel();
        Err(Refusal("403 Forbidden"))
    }

    /// Returns the user's own proxy for a URL.
    fn proxy(&self, url: &str) -> Option<Url> {
        Url::parse(&self.upstream.of(url).proxy()?).ok()
    }

    /// Answers a request whose server could not be reached, and records its route.
    async fn fail(&self, client: &mut BufReader<TcpStream>, url: &str) -> io::Result<()> {
        *lock(&self.failed) = Some(format!("could not connect to {url} {}", self.upstream.of(url)));
        answer(client, "502 Bad Gateway").await
    }

    async fn tunnel(&self, mut client: BufReader<TcpStream>, target: Target) -> io::Result<()> {
        let server = async {
            let Some(proxy) = self.proxy(&format!("https://{}", format_target(&target))) else {
                return Ok(BufReader::new(connect(&target).await?));
            };
            let mut server = BufReader::new(connect(&target_of(&proxy).ok_or(io::ErrorKind::InvalidInput)?).await?);
            let authority = format_target(&target);
            let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{}\r\n", authorization(&proxy));
            server.write_all(request.as_bytes()).await?;
            let head = head_of(&mut server).await?;
            if head.split(' ').nth(1) == Some("200") {
                Ok(server)
            } else {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
        };
        let Ok::<_, io::Error>(mut server) = server.await else {
            return self.fail(&mut client, &format!("https://{}", format_target(&target))).await;
        };
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
    }

    async fn fetch(&self, mut client: BufReader<TcpStream>, url: Url, method: &str, headers: &str) -> io::Result<()> {
        let (to, target, credentials) = match self.proxy(url.as_str()) {
            Some(proxy) => (target_of(&proxy), url.as_str().to_owned(), authorization(&proxy)),
            None => {
                (target_of(&url), url[url::Position::BeforePath..url::Position::AfterQuery].to_owned(), String::new())
            }
        };
        let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{credentials}{headers}Connection: close\r\n\r\n");
        let server = connect(&to.ok_or(io::ErrorKind::InvalidInput)?).await;
        let Ok(mut server) = server else { return self.fail(&mut client, &format!("http://{host}")).await };
        server.write_all(request.as_bytes()).await?;
        let (mut from_client, mut to_client) = tokio::io::split(client);
        tokio::select! {
            copied = tokio::io::copy(&mut server, &mut to_client) => copied.map(drop)?,
            // Further input would be another request, possibly to another host, so the connection is closed.
            _ = from_client.read_u8() => {}
        }
        to_client.shutdown().await
    }
}

/// Returns the host and port of a URL.
pub fn target_of(url: &Url) -> Option<Target> {
    Some((normalized_host(url.host_str()?), url.port_or_known_default()?))
}

/// Formats the target as in URLs.
pub fn format_target((host, port): &Target) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn normalized_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// Returns the header that authenticates to the user's proxy.
fn authorization(proxy: &Url) -> String {
    let plain = |text: &str| {
        url::form_urlencoded::parse(format!("{}=", text.replace('+', "%2B")).as_bytes())
            .next()
            .map(|(name, _)| name.into_owned())
            .unwrap_or_default()
    };
    let credentials = proxy.password().map(|password| basic(&plain(proxy.username()), &plain(password)));
    credentials.map(|credentials| format!("Proxy-Authorization: {credentials}\r\n")).unwrap_or_default()
}

async fn connect((host, port): &Target) -> io::Result<TcpStream> {
    tokio::time::timeout(TIMEOUT, TcpStream::connect((host.as_str(), *port))).await?
}

/// Reads lines up to an empty line.
async fn head_of(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let reading = async {
        let (mut head, mut limited) = (String::new(), stream.take(MAX_HEAD));
        while !head.ends_with("\r\n\r\n") {
            if limited.read_line(&mut head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(head)
    };
    tokio::time::timeout(TIMEOUT, reading).await?
}

async fn answer(client: &mut BufReader<TcpStream>, status: &str) -> io::Result<()> {
    let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    client.write_all(response.as_bytes()).await?;
    client.shutdown().await
}

/// Receives the listener from a helper. Returns `None` if the helper sent a report instead, which can then be read.
///
/// # Errors
/// Returns an error if the helper has ended, or if it sent no listener.
#[allow(unsafe_code, reason = "takes ownership of a raw descriptor")]
pub(super) async fn receive(socket: &tokio::net::UnixStream) -> io::Result<Option<TcpListener>> {
    use std::{
        io::IoSliceMut,
        os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
    };

    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recv, recvmsg};

    let receive_descriptor = || {
        let mut byte = [0];
        if recv(socket.as_raw_fd(), &mut byte, MsgFlags::MSG_PEEK)? == 0 || byte[0] != crate::config::SOCKET_MARK {
            return Ok(None);
        }
        let mut space = nix::cmsg_space!([RawFd; 1]);
        let mut slices = [IoSliceMut::new(&mut byte)];
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
        let descriptor = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmRights(descriptor) => descriptor.first().copied(),
            _ => None,
        });
        let descriptor = descriptor.ok_or(io::ErrorKind::InvalidData)?;
        // SAFETY: the kernel has just created this descriptor for this process, and the buffer had space for only one.
        Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    };
    let descriptor =
        tokio::time::timeout(TIMEOUT, socket.async_io(tokio::io::Interest::READABLE, receive_descriptor)).await??;
    let Some(descriptor) = descriptor else { return Ok(None) };
    let listener = std::net::TcpListener::from(descriptor);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway() -> Gateway {
        Gateway::new(
            BTreeSet::from([("index.example".to_owned(), 443), ("127.0.0.1".to_owned(), 80)]),
            Routes::default(),
        )
    }

    #[test]
    fn gateway_allows_only_listed_hosts() {
        #[track_caller]
        fn check(line: &str, expected: Result<&str, &str>) {
            let gateway = gateway();
            let head = format!("{line}\r\nProxy-Authorization: {}\r\nHost: x\r\n\r\n", basic(USER, &gateway.password));
            let result = match gateway.request(&head) {
                Ok(Request::Tunnel(target)) => Ok(format_target(&target)),
                Ok(Request::Plain(url, ..)) => Ok(url.to_string()),
                Err(Refusal(status)) => Err(status[..3].to_owned()),
            };
            assert_eq!(result.as_deref().map_err(String::as_str), expected, "{line}");
            assert_eq!(gateway.refused().is_some(), expected == Err("403"), "{line}");
            assert_eq!(gateway.host_refused.is_cancelled(), expected == Err("403"), "{line}");
        }
        check("CONNECT index.example:443 HTTP/1.1", Ok("index.example:443"));
        check("CONNECT INDEX.example:443 HTTP/1.1", Ok("index.example:443"));
        check("GET http://127.0.0.1/simple/?a HTTP/1.1", Ok("http://127.0.0.1/simple/?a"));
        for line in [
            "CONNECT index.example:80 HTTP/1.1",
            "CONNECT other.example:443 HTTP/1.1",
            "CONNECT index.example.other.example:443 HTTP/1.1",
            "CONNECT [::1]:443 HTTP/1.1",
            "GET http://127.0.0.1:81/ HTTP/1.1",
            "GET http://index.example/ HTTP/1.1",
        ] {
            check(line, Err("403"));
        }
        for line in
            ["CONNECT index.example HTTP/1.1", "GET / HTTP/1.1", "GET https://index.example/ HTTP/1.1", "GET", ""]
        {
            check(line, Err("400"));
        }
        check("GET http://index.example@127.0.0.1/ HTTP/1.1", Err("400"));
        check("POST http://127.0.0.1/ HTTP/1.1", Err("405"));
    }

    #[test]
    fn gateway_rejects_requests_without_credentials() {
        for head in [
            "CONNECT index.example:443 HTTP/1.1\r\n\r\n",
            "GET http://127.0.0.1/ HTTP/1.1\r\nProxy-Authorization: Basic eA==\r\n\r\n",
        ] {
            assert!(matches!(gateway().request(head), Err(Refusal(status)) if status.starts_with("407")), "{head}");
        }
    }

    #[test]
    fn proxy_credentials_are_sent_to_the_proxy() {
        let proxy = Url::parse("http://me:p%40ss@proxy:8080").unwrap();
        assert_eq!(target_of(&proxy), Some(("proxy".to_owned(), 8080)));
        assert_eq!(authorization(&proxy), format!("Proxy-Authorization: {}\r\n", basic("me", "p@ss")));
    }
}

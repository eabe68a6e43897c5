//! Logging in: the person opens an address, and the browser is sent back to us, on this machine alone.

use std::{io::Write as _, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use crate::{daemon::Daemon, exit::Exit, failure::Failure, report, terminal::sanitize::clean_line};

/// Maximum length of a request's first line, in bytes.
const LONGEST: u64 = 16 * 1024;
/// Time limit for a connection to send its request.
const ASKING: Duration = Duration::from_secs(10);
/// Maximum number of open connections.
const MOST: usize = 64;
/// Time limit for a person to log in.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Shows the address, waits until the browser comes back, and has the daemon fetch the token.
pub(super) async fn handle(daemon: &Daemon, name: &str, port: Option<u16>, json: bool) -> anyhow::Result<Exit> {
    let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0)))
        .await
        .map_err(|error| Failure::usage(format!("could not wait for the browser: {error}")))?;
    let home = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
    let address = daemon.client.begin_mcp_login(name, &format!("{home}/callback")).await?;
    if json {
        report::json_line(&json!({ "status": "waiting", "name": name, "address": address }))?;
    } else {
        let mut out = anstream::stdout().lock();
        writeln!(out, "Open this address in a browser of this machine:\n\n  {}\n", clean_line(&address))?;
        out.flush()?;
    }
    let path = timeout(PATIENCE, came_back(&listener, state_of(&address)))
        .await
        .map_err(|_| Failure::usage("no login within ten minutes; run the command again"))??;
    let came_back = format!("{home}{path}");
    daemon.client.finish_mcp_login(name, &came_back).await?;
    if json {
        report::json_line(&json!({ "status": "logged_in", "name": name }))?;
    } else {
        crate::terminal::note(&clean_line(&format!("logged in to {name}")));
    }
    Ok(Exit::Done)
}

/// The path with which the browser comes back from this login. Browsers connect without asking for anything, ask for
/// pictures, too, and others may knock: nobody is waited for, and nobody else ends it.
async fn came_back(listener: &TcpListener, state: Option<&str>) -> std::io::Result<String> {
    let mut asking = JoinSet::new();
    loop {
        tokio::select! {
            connected = listener.accept(), if asking.len() < MOST => {
                let (stream, state) = (connected?.0, state.map(str::to_owned));
                asking.spawn(async move { timeout(ASKING, serve(stream, state.as_deref())).await.ok().flatten() });
            }
            Some(asked) = asking.join_next() => {
                if let Ok(Some(path)) = asked {
                    return Ok(path);
                }
            }
        }
    }
}

/// The word by which an answer to this login is known.
fn state_of(address: &str) -> Option<&str> {
    let query = address.split_once('?')?.1.split('#').next()?;
    query.split('&').find_map(|pair| pair.strip_prefix("state="))
}

/// Answers one request. Returns its path, if it is that of the browser which came back.
async fn serve(stream: TcpStream, state: Option<&str>) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    (&mut stream).take(LONGEST).read_line(&mut line).await.ok()?;
    let path = line.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    let is_meant = path.starts_with("/callback?") && (state.is_none() || state_of(&path) == state);
    let (status, words) = if is_meant {
        ("200 OK", "This page can be closed: agentctl says how it went.")
    } else {
        ("404 Not Found", "There is nothing here.")
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{words}",
        words.len()
    );
    let _ = stream.get_mut().write_all(answer.as_bytes()).await;
    is_meant.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_says_nothing_or_something_else_neither_ends_a_login_nor_holds_it_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let waiting = tokio::spawn(async move { came_back(&listener, Some("right")).await });
        let _silent = TcpStream::connect(address).await.unwrap();
        let ask = async |path: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            answer
        };
        for path in ["/favicon.ico", "/callback?x", "/callback?code=1&state=wrong"] {
            assert!(ask(path).await.starts_with("HTTP/1.1 404"), "{path}");
        }
        let (answer, path) = tokio::join!(ask("/callback?code=1&state=right"), waiting);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(path.unwrap().unwrap(), "/callback?code=1&state=right");
    }

    #[test]
    fn a_login_is_known_by_its_state() {
        assert_eq!(state_of("https://x/authorize?a=b&state=S-1_2&c=d#e"), Some("S-1_2"));
        assert_eq!(state_of("https://x/authorize"), None);
    }
}

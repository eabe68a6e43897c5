//! Logging in: the person opens an address, and the browser is sent back to us, on this machine alone.

use std::io::Write as _;

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{daemon::Daemon, exit::Exit, failure::Failure, render::sanitize::clean_line, report};

/// How long the first line of a request may be, in bytes.
const LONGEST: u64 = 16 * 1024;

/// Shows the address, waits until the browser comes back, and has the daemon fetch the token.
pub(super) async fn handle(daemon: &Daemon, name: &str, json: bool) -> anyhow::Result<Exit> {
    let listener = TcpListener::bind("127.0.0.1:0")
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
    let came_back = loop {
        let (stream, _) = listener.accept().await?;
        // Browsers ask for pictures, too, and others may knock.
        if let Some(path) = serve(stream).await {
            break format!("{home}{path}");
        }
    };
    daemon.client.finish_mcp_login(name, &came_back).await?;
    if json {
        report::json_line(&json!({ "status": "logged_in", "name": name }))?;
    } else {
        crate::note(&clean_line(&format!("logged in to {name}")));
    }
    Ok(Exit::Done)
}

/// Answers one request. Returns its path, if the browser came back with it.
async fn serve(stream: TcpStream) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    (&mut stream).take(LONGEST).read_line(&mut line).await.ok()?;
    let path = line.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    let is_meant = path.starts_with("/callback?");
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

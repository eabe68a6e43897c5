//! `agentctl mcp`: lists, tests and configures MCP servers, and runs the daemon as an MCP server. To log in, the user
//! opens a URL, and the browser is redirected to a listener on the loopback interface.

mod entry;
mod import;
#[cfg(feature = "mcp-serve")]
mod serve;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agentd_core::error::ErrorKind;
use agentd_proto::client::{Client, ClientError, McpServerState, McpServerView};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use self::{
    entry::{Entry, Secrets},
    import::FoundServers,
};
use super::own_file;
use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    project,
    report::{self, Table},
    terminal::{clean_line, note, note_lines},
};

/// Examples for the help of `mcp`.
pub(crate) const MCP_HELP: &str = "Examples:
  agentctl mcp add time -- uvx mcp-server-time            a local program
  agentctl mcp add notes --env KEY='${NOTES_KEY}' -- npx -y notes-server
  agentctl mcp add weather --url https://example.org/mcp  a URL
  agentctl mcp import .mcp.json                           from another program
  agentctl mcp list
  agentctl mcp test time                                  start, list its tools
  agentctl mcp logs time                                  its output
  agentctl mcp login weather                              in a browser
  agentctl mcp stop time
  agentctl mcp serve --help                               for other agents

Servers are configured in mcp_servers.yaml. They start when one of their tools is called, are shared by all sessions, and \
stop when they are idle.";

/// The subcommands of `mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List servers, their state and their tools
    List,
    /// Start a server now, even if it failed before
    Start(ServerArg),
    /// Stop a server and its child processes
    Stop(ServerArg),
    /// Start a server for the current folder, and show its start time and its tools
    Test(ServerArg),
    /// Show a server's log
    Logs {
        #[command(flatten)]
        server_arg: ServerArg,
        /// Number of lines to show
        #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
        lines: u32,
    },
    /// Log in to a remote server in a browser
    Login {
        #[command(flatten)]
        server_arg: ServerArg,
        /// Port of the redirect URL, http://127.0.0.1:PORT/callback [default: a free port]
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,
    },
    /// Add a server to your mcp_servers.yaml
    Add(AddArgs),
    /// Run as an MCP server over stdio, for other agents
    Serve(serve::ServeArgs),
    /// Import servers from .mcp.json, claude_desktop_config.json or VS Code's mcp.json
    Import {
        /// File to import
        #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
        /// Only show what would be imported
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ServerArg {
    /// Name of the server
    #[arg(value_name = "NAME")]
    server: String,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the server
    #[arg(value_name = "NAME")]
    name: String,
    /// URL of the server, if it is not a local program
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Use the older HTTP transport with server-sent events
    #[arg(long, requires = "url")]
    sse: bool,
    /// Header for each request, such as 'Authorization: Bearer ${KEY}'; may be repeated
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// Environment variable of the program; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Program and arguments, after `--`
    #[arg(value_name = "COMMAND", last = true, required_unless_present = "url")]
    command: Vec<String>,
}

/// Runs the command `agentctl mcp`.
pub(crate) async fn handle(global: &Global, command: McpCommand) -> anyhow::Result<Exit> {
    let json = global.json;
    let connect = || daemon::connect(global);
    match command {
        McpCommand::List => list(&connect().await?, json).await,
        McpCommand::Start(server_arg) => {
            let client = connect().await?.client;
            let server = client.start_mcp_server(&server_arg.server, &current_folder(&client)?).await?;
            report::show(json, &as_json(&server), || {
                notes(&server);
                report_status(false, "runs", &server_arg.server).map(drop)
            })
        }
        McpCommand::Test(server_arg) => test(&connect().await?, &server_arg.server, json).await,
        McpCommand::Stop(server_arg) => {
            connect().await?.client.stop_mcp_server(&server_arg.server).await?;
            report_status(json, "stopped", &server_arg.server)
        }
        McpCommand::Logs { server_arg, lines } => logs(&connect().await?, &server_arg.server, lines, json).await,
        McpCommand::Login { server_arg, port } => login(&connect().await?, &server_arg.server, port, json).await,
        McpCommand::Add(args) => {
            daemon::refuse_host(global, "mcp add")?;
            let entry = args.entry()?;
            write(global, &entry).await?;
            report_status(json, "added", &entry.name)
        }
        McpCommand::Serve(args) => serve::handle(global, args).await,
        McpCommand::Import { file, dry_run } => import(global, &file, dry_run).await,
    }
}

async fn list(daemon: &Daemon, json: bool) -> anyhow::Result<Exit> {
    let servers = daemon.client.mcp_servers().await?;
    report::show(json, &servers.iter().map(as_json).collect::<Vec<_>>(), || table(&servers))
}

fn table(servers: &[McpServerView]) -> anyhow::Result<()> {
    let rows = servers.iter().map(|server| {
        let tools = if server.reached { server.tools.len().to_string() } else { "?".to_owned() };
        let state = server.state.as_str().to_owned();
        [server.name.clone(), state, tools, server.transport.clone(), server.place.clone()]
    });
    Table::with_long_end(["SERVER", "STATE", "TOOLS", "OVER", "WHERE"], rows)
        .print("no MCP servers; add some with `agentctl mcp add` or `agentctl mcp import`")?;
    servers.iter().for_each(notes);
    Ok(())
}

/// Returns the current folder for a server, or an empty text on another machine, which does not have it.
fn current_folder(client: &Client) -> Result<String, Failure> {
    if client.host().is_some() { Ok(String::new()) } else { project::absolute(client, Path::new(".")) }
}

async fn test(daemon: &Daemon, name: &str, json: bool) -> anyhow::Result<Exit> {
    let folder = current_folder(&daemon.client)?;
    let started_at = Instant::now();
    let server = daemon.client.start_mcp_server(name, &folder).await?;
    let took = report::millis(started_at.elapsed());
    if !server.reached {
        notes(&server);
        return Err(Failure::new(ErrorKind::Conflict, format!("{name} did not list its tools")).into());
    }
    let mut output = as_json(&server);
    output["took_ms"] = json!(took);
    report::show(json, &output, || {
        let says = [server.says_it_is.clone(), format!("MCP {}", server.protocol)];
        let says: Vec<String> = says.iter().filter(|says| !says.is_empty()).map(|says| clean_line(says)).collect();
        let head = format!("{} started in {took} ms ({})", server.name, says.join(", "));
        let tools = format!("{}:", report::count(server.tools.len(), "tool"));
        let named = server.tools.iter().map(|tool| format!("  {}", clean_line(tool)));
        report::lines([head, tools].into_iter().chain(named))?;
        notes(&server);
        Ok(())
    })
}

async fn logs(daemon: &Daemon, name: &str, lines: u32, json: bool) -> anyhow::Result<Exit> {
    let lines = daemon.client.mcp_server_logs(name, lines).await?;
    report::show(json, &json!({ "name": name, "lines": lines }), || {
        if lines.is_empty() {
            note(&format!("{} has no output and no events", clean_line(name)));
        }
        report::lines(lines.iter().map(|line| clean_line(line)))
    })
}

async fn import(global: &Global, file: &Path, dry_run: bool) -> anyhow::Result<Exit> {
    daemon::refuse_host(global, "mcp import")?;
    let text = std::fs::read_to_string(file).map_err(Failure::of_file("read", file))?;
    let mut found = import::read(&text, file)?;
    let asks = found.asks();
    if !dry_run {
        let servers = daemon::connect(global).await?.client.mcp_servers().await?;
        let is_there = |entry: &mut Entry| servers.iter().any(|server| server.name == entry.name);
        for entry in found.imported.extract_if(.., is_there) {
            found.skipped.push((entry.name, "a server of that name already exists".to_owned()));
        }
        let mut secrets = Secrets::read(&daemon::config_dir()?).map_err(|error| write_failure("read", &error))?;
        if !found.ask(&mut secrets)? {
            note("nothing was imported");
            return Ok(Exit::Cancelled);
        }
        if !found.imported.is_empty() {
            write_valid(global, &mut found, &secrets, &text, file).await?;
        }
    }
    let imported: Vec<&str> = found.imported.iter().map(|entry| entry.name.as_str()).collect();
    let skipped: Vec<Value> =
        found.skipped.iter().map(|(item, reason)| json!({ "what": item, "why": reason })).collect();
    let output =
        json!({ "taken": imported, "left": skipped, "asks": asks, "written": !dry_run && !imported.is_empty() });
    report::show(global.json, &output, || {
        let verb = if dry_run { "would import" } else { "imported" };
        let names = if imported.is_empty() { "nothing".to_owned() } else { clean_line(&imported.join(", ")) };
        report::lines([format!("{verb} {names}")])?;
        note_lines(asks.iter().filter(|_| dry_run).map(|id| format!("would ask for {id}")));
        note_lines(found.skipped.iter().map(|(item, reason)| format!("skipped {item}: {reason}")));
        Ok(())
    })
}

/// Adds a server to the user's file after the daemon has validated it, and reloads the configuration.
async fn write(global: &Global, entry: &Entry) -> anyhow::Result<()> {
    let daemon = daemon::connect(global).await?;
    let file = UserFile::read()?;
    let new = file.with(&file.text, entry)?;
    file.check(&daemon, &new).await?;
    file.replace(&daemon, &new).await
}

/// Adds the valid servers from another program's file. Problems of invalid servers are reported with their position in
/// that file.
async fn write_valid(
    global: &Global,
    found: &mut FoundServers,
    secrets: &Secrets,
    theirs: &str,
    path: &Path,
) -> anyhow::Result<()> {
    let daemon = daemon::connect(global).await?;
    let file = UserFile::read()?;
    file.check(&daemon, &file.text).await?;
    let mut new = file.text.clone();
    for entry in std::mem::take(&mut found.imported) {
        let with = file.with(&new, &entry)?;
        match file.check(&daemon, &with).await {
            Ok(()) => {
                new = with;
                found.imported.push(entry);
            }
            Err(error) if error.answered() == Some(ErrorKind::Configuration) => {
                let (line, reason) = file.split_position(&error.message);
                let key = line.and_then(|line| entry::key_of(with.lines().nth(line - 1)?));
                let position = import::position(theirs, &entry.original_name, key);
                let position = position.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
                found.skip(&entry.original_name, &format!("{}{position}: {reason}", path.display()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if found.imported.is_empty() {
        return Ok(());
    }
    secrets.write(&new).map_err(|error| write_failure("write", &error))?;
    file.replace(&daemon, &new).await
}

fn write_failure(action: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("could not {action} {}: {error}", Secrets::FILE))
}

/// The user's file `mcp_servers.yaml`.
struct UserFile {
    path: PathBuf,
    text: String,
}

impl UserFile {
    fn read() -> anyhow::Result<Self> {
        let path = daemon::config_dir()?.join("mcp_servers.yaml");
        let text = own_file::read(&path).map_err(Failure::of_file("read", &path))?;
        Ok(Self { path, text })
    }

    /// Returns `text` with the server added.
    fn with(&self, text: &str, entry: &Entry) -> Result<String, Failure> {
        entry::text_with(text, entry).map_err(|reason| {
            Failure::usage(format!("{}: {reason}", self.path.display()))
                .hint(format!("add it there by hand:\n{}", entry.yaml("  ")))
        })
    }

    async fn check(&self, daemon: &Daemon, text: &str) -> Result<(), ClientError> {
        daemon.client.check_mcp_servers(text, &self.path.display().to_string()).await
    }

    /// Splits a message from the daemon into its line number and the message without the position.
    fn split_position<'a>(&self, message: &'a str) -> (Option<usize>, &'a str) {
        let prefix = format!("{}:", self.path.display());
        let Some((position, reason)) = message.strip_prefix(&prefix).and_then(|rest| rest.split_once(": ")) else {
            return (None, message);
        };
        (position.split(':').next().and_then(|line| line.parse().ok()).filter(|line| *line > 0), reason)
    }

    async fn replace(&self, daemon: &Daemon, text: &str) -> anyhow::Result<()> {
        own_file::replace(&self.path, text).map_err(Failure::of_file("write", &self.path))?;
        daemon.client.reload().await?;
        Ok(())
    }
}

impl AddArgs {
    fn entry(self) -> Result<Entry, Failure> {
        let split = |text: &str, at: char, kind: &str| match text.split_once(at) {
            Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
            _ => Err(Failure::usage(format!("`{text}` is not a {kind}")).hint(format!("write NAME{at}VALUE"))),
        };
        let mut command = self.command.into_iter();
        Ok(Entry {
            original_name: self.name.clone(),
            name: self.name,
            command: command.next(),
            args: command.collect(),
            env: self.env.iter().map(|text| split(text, '=', "variable")).collect::<Result<_, _>>()?,
            cwd: None,
            url: self.url,
            headers: self.header.iter().map(|text| split(text, ':', "header")).collect::<Result<_, _>>()?,
            sse: self.sse,
        })
    }
}

fn as_json(server: &McpServerView) -> Value {
    let mut output = json!(server);
    if server.reason.is_empty() {
        output["reason"] = Value::Null;
    }
    output
}

fn notes(server: &McpServerView) {
    let reason = (server.state == McpServerState::Down).then_some(&server.reason);
    note_lines(reason.into_iter().chain(&server.notes).map(|note| format!("{}: {note}", server.name)));
}

fn report_status(json: bool, status: &str, name: &str) -> anyhow::Result<Exit> {
    let text = match status {
        "runs" => format!("{name} is running"),
        "added" => {
            format!("added {name}; its tools are offered once it has listed them; `agentctl mcp test {name}` tests it")
        }
        other => format!("{name} is {other}"),
    };
    report::note(json, &json!({ "status": status, "name": name }), &clean_line(&text))
}

/// Maximum length of a request's first line, in bytes.
const MAX_REQUEST_BYTES: u64 = 16 * 1024;
/// Time limit for a connection to send its request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 64;
/// Time limit for the user's login.
const LOGIN_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Shows the URL, waits for the browser's redirect, and has the daemon fetch the token.
async fn login(daemon: &Daemon, name: &str, port: Option<u16>, json: bool) -> anyhow::Result<Exit> {
    let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0)))
        .await
        .map_err(|error| Failure::usage(format!("could not wait for the browser: {error}")))?;
    let home = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
    let address = daemon.client.begin_mcp_login(name, &format!("{home}/callback")).await?;
    if json {
        report::json_line(&json!({ "status": "waiting", "name": name, "address": address }))?;
    } else {
        report::lines([format!("Open this address in a browser on this machine:\n\n  {}\n", clean_line(&address))])?;
    }
    let path = timeout(LOGIN_LIMIT, await_redirect(&listener, state_of(&address)))
        .await
        .map_err(|_| Failure::usage("no login within ten minutes; run the command again"))??;
    let redirect = format!("{home}{path}");
    daemon.client.finish_mcp_login(name, &redirect).await?;
    if json {
        report::json_line(&json!({ "status": "logged_in", "name": name }))?;
    } else {
        note(&clean_line(&format!("logged in to {name}")));
    }
    Ok(Exit::Done)
}

/// Waits for the browser's redirect and returns its path. Browsers also open idle connections and request icons, and
/// other programs may connect, so connections are handled concurrently and unrelated requests are ignored.
async fn await_redirect(listener: &TcpListener, state: Option<&str>) -> std::io::Result<String> {
    let mut asking = JoinSet::new();
    loop {
        tokio::select! {
            connected = listener.accept(), if asking.len() < MAX_CONNECTIONS => {
                let (stream, state) = (connected?.0, state.map(str::to_owned));
                asking.spawn(async move {
                    timeout(REQUEST_LIMIT, answer_request(stream, state.as_deref())).await.ok().flatten()
                });
            }
            Some(asked) = asking.join_next() => {
                if let Ok(Some(path)) = asked {
                    return Ok(path);
                }
            }
        }
    }
}

/// Returns the `state` parameter, which identifies the login.
fn state_of(address: &str) -> Option<&str> {
    let query = address.split_once('?')?.1.split('#').next()?;
    query.split('&').find_map(|pair| pair.strip_prefix("state="))
}

/// Responds to one request. Returns its path if it is the redirect of this login.
async fn answer_request(stream: TcpStream, state: Option<&str>) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    (&mut stream).take(MAX_REQUEST_BYTES).read_line(&mut line).await.ok()?;
    let path = line.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    let is_redirect = path.starts_with("/callback?") && (state.is_none() || state_of(&path) == state);
    let (status, body) = if is_redirect {
        ("200 OK", "You can close this page; agentctl shows the result.")
    } else {
        ("404 Not Found", "Not found.")
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.get_mut().write_all(answer.as_bytes()).await;
    is_redirect.then_some(path)
}

/// Stub for builds without the feature `mcp-serve`, which reports the missing feature.
#[cfg(not(feature = "mcp-serve"))]
mod serve {
    use super::{Args, Exit, Failure, Global};

    /// The arguments of `mcp serve`, which are accepted and ignored.
    #[derive(Debug, Args)]
    pub(crate) struct ServeArgs {
        /// Arguments of a build that has the feature
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        _any: Vec<String>,
    }

    pub(super) async fn handle(_: &Global, _: ServeArgs) -> anyhow::Result<Exit> {
        let message = "this build of agentctl has no MCP server";
        Err(Failure::usage(message).hint("build it with the feature `mcp-serve`, which is on by default").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn login_ignores_silent_and_unrelated_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let waiting = tokio::spawn(async move { await_redirect(&listener, Some("right")).await });
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
        assert_eq!(state_of("https://x/authorize?a=b&state=S-1_2&c=d#e"), Some("S-1_2"));
        assert_eq!(state_of("https://x/authorize"), None);
    }
}

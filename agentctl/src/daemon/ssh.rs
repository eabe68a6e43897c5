//! Daemons of other machines. The client runs `ssh HOST agentctl dial-stdio`, whose standard input and output carry the
//! protocol, so that nothing listens on a network. Host keys, passwords and agents are handled by ssh.
//!
//! Each connection is one process of ssh, which ends with the connection or with the client.

use std::{
    env, io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use agentd_proto::client::{Client, ClientError, ClientErrorKind};
use tokio::{
    io::AsyncReadExt as _,
    net::UnixStream,
    process::{Child, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::{exit::Exit, failure::Failure, flags::Global, terminal::clean_line};

/// Variable that names a program to run instead of `ssh`, with the arguments of `ssh`.
const PROGRAM_VARIABLE: &str = "AGENTD_SSH";

/// Shell command that runs ssh. Ctrl-C and a closed terminal are for the turn, which is cancelled over this connection;
/// ssh leaves signals ignored that are ignored when it starts.
const WITHOUT_SIGNALS: &str = "trap '' HUP INT QUIT; exec \"$@\"";

/// Options of ssh: no terminal, nothing of this machine is forwarded, and a dead network is noticed in 45 seconds.
const OPTIONS: &str =
    "-Tax -oClearAllForwardings=yes -oConnectTimeout=15 -oServerAliveInterval=15 -oServerAliveCountMax=3";

/// Time limit for a connection with questions of ssh, such as that for a password.
const ASKING_LIMIT: Duration = Duration::from_secs(180);

/// Time limit for a connection without questions.
const QUIET_LIMIT: Duration = Duration::from_secs(45);

/// Time for ssh to end after its connection has failed.
const END_LIMIT: Duration = Duration::from_secs(3);

/// Maximum bytes kept of the end of what ssh writes to standard error.
const MAX_STDERR: usize = 4096;

/// Maximum length of a user or host, in bytes.
const MAX_NAME: usize = 253;

/// Variable that names another machine, as `--host` does.
const HOST_VARIABLE: &str = "AGENTD_HOST";

/// Returns the address of the machine that the user named. An option takes precedence over a variable.
pub(crate) fn named_host(global: &Global) -> Option<String> {
    let variable = || env::var_os(HOST_VARIABLE).filter(|host| !host.is_empty() && global.socket.is_none());
    global.host.clone().or_else(|| variable().map(|host| host.to_string_lossy().into_owned()))
}

/// Refuses another machine for a command that works on files or services of this machine.
///
/// # Errors
/// Fails if the user named another machine.
pub(crate) fn refuse_host(global: &Global, command: &str) -> Result<(), Failure> {
    let Some(host) = named_host(global) else { return Ok(()) };
    let given = if global.host.is_some() { "--host" } else { HOST_VARIABLE };
    Err(Failure::usage(format!("{command} works on this machine only, and {given} names {}", clean_line(&host)))
        .hint(format!("run it on that machine, or leave out {given}")))
}

/// A machine with a daemon, given as `ssh://[user@]host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshHost {
    /// The address as given, for messages.
    pub(crate) address: String,
    user: Option<String>,
    host: String,
    port: Option<u16>,
}

/// Conditions of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dial {
    /// True if the host starts a daemon if none runs.
    pub(crate) starts: bool,
    /// True if ssh may ask the user at the terminal.
    pub(crate) asks: bool,
}

/// Conditions of a connection that replaces a broken one.
pub(crate) const REDIAL: Dial = Dial { starts: false, asks: false };

/// End of a process of ssh: its status and the end of its standard error.
type SshEnd = (io::Result<ExitStatus>, String);

impl SshHost {
    /// Parses an address. Only plain characters are accepted, so that neither ssh nor the configuration of ssh, which
    /// can pass names to a shell, reads an option or a command.
    ///
    /// # Errors
    /// Fails if the address has another form.
    pub(crate) fn parse(address: &str) -> Result<Self, Failure> {
        let read = || {
            let rest = address.strip_prefix("ssh://")?;
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
            let (host, port, others) = match place.strip_prefix('[') {
                // An IPv6 address.
                Some(inner) => inner.split_once(']').map(|(host, port)| (host, port, ":.%"))?,
                None => {
                    let (host, port) = place.split_at(place.find(':').unwrap_or(place.len()));
                    (host, port, "._-")
                }
            };
            let port = match port.strip_prefix(':') {
                Some(number) => Some(number.parse().ok().filter(|number: &u16| *number > 0)?),
                None if port.is_empty() => None,
                None => return None,
            };
            let is_plain = is_name(host, others) && user.is_none_or(|user| is_name(user, "._-+"));
            let user = user.map(str::to_owned);
            is_plain.then(|| Self { address: address.to_owned(), user, host: host.to_owned(), port })
        };
        read().ok_or_else(|| {
            Failure::usage(format!("invalid host {:?}", clean_line(address)))
                .hint("name it as ssh://[USER@]HOST[:PORT], in plain letters, or by its name in ~/.ssh/config")
        })
    }

    /// Connects to the daemon of the host. The version of the daemon is not checked.
    ///
    /// # Errors
    /// [`ClientErrorKind::NotRunning`] if no daemon runs and none is to be started, else [`ClientErrorKind::Lost`], with
    /// the messages of ssh.
    pub(crate) async fn connect(&self, dial: Dial) -> Result<Client, ClientError> {
        let failed = |kind, cause: &str| {
            ClientError::new(kind, format!("could not reach agentd at {}: {cause}", self.address))
                .with_hint(format!("check that `ssh {} agentctl --version` works", self.arguments().join(" ")))
        };
        let (stream, mut ended) = self
            .start_ssh(dial)
            .map_err(|error| failed(ClientErrorKind::Refused, &format!("could not run ssh: {error}")))?;
        let host = self.clone();
        let redial = move || host.start_ssh(REDIAL).map(|(stream, _)| stream);
        let limit = if dial.asks { ASKING_LIMIT } else { QUIET_LIMIT };
        let problem = match Client::connect_through(&self.address, stream, redial, limit).await {
            Ok(client) => return Ok(client),
            Err(error) => error.message,
        };
        let end = timeout(END_LIMIT, &mut ended).await;
        ended.abort();
        let Ok(Ok((Ok(status), stderr))) = end else { return Err(failed(ClientErrorKind::Lost, &problem)) };
        let is_not_running = !dial.starts && status.code() == Some(i32::from(Exit::Unreachable.code()));
        let kind = if is_not_running { ClientErrorKind::NotRunning } else { ClientErrorKind::Lost };
        let cause = match stderr.is_empty() {
            _ if status.success() => format!("the host did not speak agentd's protocol ({problem})"),
            true => format!("ssh ended with {status}"),
            false => stderr,
        };
        Err(failed(kind, &cause))
    }

    /// Starts ssh. Returns the connection, and the end of the process.
    fn start_ssh(&self, dial: Dial) -> io::Result<(UnixStream, JoinHandle<SshEnd>)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let program =
            env::var_os(PROGRAM_VARIABLE).filter(|program| !program.is_empty()).unwrap_or_else(|| "ssh".into());
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WITHOUT_SIGNALS, "sh"])
            .arg(program)
            .args(OPTIONS.split(' '))
            .args((!dial.asks).then_some("-oBatchMode=yes"))
            .args(self.arguments())
            .arg(remote_command(dial.starts))
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command.spawn()?;
        Ok((UnixStream::from_std(ours)?, tokio::spawn(end_of(child))))
    }

    /// Returns the arguments that name the host.
    fn arguments(&self) -> Vec<String> {
        let port = self.port.map(|port| format!("-p{port}"));
        let user = self.user.iter().flat_map(|user| ["-l".to_owned(), user.clone()]);
        port.into_iter().chain(user).chain(["--".to_owned(), self.host.clone()]).collect()
    }
}

/// Returns the command for the host. `make install` and many package managers for Python install into a folder that is
/// often not in the search path of a session without a terminal. Every login shell passes single quotes on unchanged.
fn remote_command(starts: bool) -> String {
    let option = if starts { "" } else { " --no-start" };
    format!("exec sh -c 'PATH=\"$PATH:$HOME/.local/bin\"; exec agentctl dial-stdio{option}'")
}

/// Returns true if the text consists of ASCII letters, digits and `others`, and does not begin with a hyphen.
fn is_name(text: &str, others: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
    (1..=MAX_NAME).contains(&text.len()) && !text.starts_with('-') && text.chars().all(is_plain)
}

/// Waits until ssh has ended. Its standard error is always read, because ssh would wait for a full pipe.
async fn end_of(mut child: Child) -> SshEnd {
    let mut kept = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        let mut chunk = [0; 1024];
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            kept.extend_from_slice(&chunk[..count]);
            kept.drain(..kept.len().saturating_sub(MAX_STDERR));
        }
    }
    let lines = String::from_utf8_lossy(&kept);
    let lines: Vec<String> =
        lines.lines().map(|line| clean_line(line.trim())).filter(|line| !line.is_empty()).collect();
    (child.wait().await, lines.join("; "))
}

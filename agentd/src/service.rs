//! Interface to a supervisor such as systemd: values passed at the start, notifications, and signals.

use std::{
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    path::Path,
    time::Duration,
};

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{environment::Environment, failure::Failure};

/// The variables by which a supervisor speaks to us. Children must not believe that they are meant.
pub const VARIABLES: [&str; 6] =
    ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// The supervisor of this process, if it has one.
#[derive(Debug, Default)]
pub struct Supervisor {
    /// The socket that it listens on for us, once.
    pub(crate) listener: Option<OwnedFd>,
    /// Socket for notifications to it.
    notify: Option<UnixDatagram>,
    /// Maximum interval of calls to [`Supervisor::alive`], if any are needed.
    pub(crate) watchdog: Option<Duration>,
}

impl Supervisor {
    /// Takes what was handed over. Called once, by `main`, before [`VARIABLES`] are removed and before any other file
    /// is opened.
    ///
    /// # Errors
    /// More than one socket was passed, or the supervisor cannot be spoken to.
    pub fn take(env: &Environment) -> Result<Self, Failure> {
        let listener = inherited_socket()?;
        let notify =
            env.path("NOTIFY_SOCKET").map(|path| open(&path)).transpose().map_err(|error| {
                Failure::broken("could not reach the supervisor at NOTIFY_SOCKET").with_source(error)
            })?;
        Ok(Self { listener, notify, watchdog: sd_notify::watchdog_enabled() })
    }

    /// Clients are served now.
    pub fn ready(&self) {
        self.tell(&[NotifyState::Ready, NotifyState::Status("ready")]);
    }

    /// The daemon has proved that it works.
    pub fn alive(&self) {
        self.tell(&[NotifyState::Watchdog]);
    }

    /// The stop has begun, and may take that long.
    pub fn stopping(&self, deadline: Duration) {
        let micros = u32::try_from(deadline.as_micros()).unwrap_or(u32::MAX);
        self.tell(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(micros)]);
    }

    /// A supervisor that does not listen is no reason to fail.
    fn tell(&self, states: &[NotifyState<'_>]) {
        let Some(socket) = &self.notify else { return };
        let message: String = states.iter().map(|state| format!("{state}\n")).collect();
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::warn!(%error, "could not tell the supervisor");
        }
    }
}

fn open(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    // A name that starts with @ is not a file.
    match path.as_os_str().as_bytes() {
        [b'@', name @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        _ => socket.connect(path)?,
    }
    Ok(socket)
}

#[allow(unsafe_code, reason = "a passed descriptor is a number, and only we can say that nobody else owns it")]
fn inherited_socket() -> Result<Option<OwnedFd>, Failure> {
    let mut passed = sd_notify::listen_fds()
        .map_err(|error| Failure::broken("could not take over the inherited socket").with_source(error))?;
    match (passed.next(), passed.next()) {
        (None, _) => Ok(None),
        // SAFETY: LISTEN_PID names this process and LISTEN_FDS says that this descriptor was opened for it before it
        // began. This function is called once, before anything else opens or owns a descriptor.
        (Some(fd), None) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        (Some(_), Some(_)) => Err(Failure::usage("more than one socket was passed to agentd")
            .with_hint("agentd.socket needs exactly one ListenStream=")),
    }
}

/// The signals that a daemon follows, from the moment on at which this is made.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Begins to listen, in place of dying.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen() -> Result<Self, Failure> {
        let open =
            |kind| signal(kind).map_err(|error| Failure::broken("could not listen for signals").with_source(error));
        Ok(Self {
            terminate: open(SignalKind::terminate())?,
            interrupt: open(SignalKind::interrupt())?,
            hang_up: open(SignalKind::hangup())?,
        })
    }

    /// The next signal. Returns whether it asks for a stop, as SIGTERM and SIGINT do: SIGHUP has the configuration read again.
    pub async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => true,
            _ = self.hang_up.recv() => false,
        }
    }

    /// The next signal that asks for a stop. It is too late for others.
    pub async fn next_stop(&mut self) {
        while !self.next().await {}
    }
}

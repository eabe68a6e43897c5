//! Interface to a supervisor such as systemd: values passed at startup, notifications, and signals.

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

/// Variables that the supervisor sets for this process. Child processes must not inherit them.
pub const VARIABLES: [&str; 6] =
    ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// Supervisor of this process, if there is one.
#[derive(Debug, Default)]
pub struct Supervisor {
    /// Listening socket passed by the supervisor. Taken once.
    pub(crate) listener: Option<OwnedFd>,
    /// Socket for notifications to the supervisor.
    notify: Option<UnixDatagram>,
    /// Maximum interval between calls to [`Supervisor::alive`]. `None` if there is no watchdog.
    pub(crate) watchdog: Option<Duration>,
}

impl Supervisor {
    /// Takes ownership of the values that the supervisor passed. Called once, by `main`, before [`VARIABLES`] are
    /// removed and before any other file is opened.
    ///
    /// # Errors
    /// Fails if more than one socket was passed, or if the supervisor cannot be reached.
    pub fn take(env: &Environment) -> Result<Self, Failure> {
        let listener = inherited_socket()?;
        let notify =
            env.path("NOTIFY_SOCKET").map(|path| open(&path)).transpose().map_err(|error| {
                Failure::broken("could not reach the supervisor at NOTIFY_SOCKET").with_source(error)
            })?;
        Ok(Self { listener, notify, watchdog: sd_notify::watchdog_enabled() })
    }

    /// Notifies the supervisor that the daemon accepts clients.
    pub fn ready(&self) {
        self.send_states(&[NotifyState::Ready, NotifyState::Status("ready")]);
    }

    /// Notifies the supervisor's watchdog that the daemon is alive.
    pub fn alive(&self) {
        self.send_states(&[NotifyState::Watchdog]);
    }

    /// Notifies the supervisor that shutdown has started and may take up to `deadline`.
    pub fn stopping(&self, deadline: Duration) {
        let micros = u32::try_from(deadline.as_micros()).unwrap_or(u32::MAX);
        self.send_states(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(micros)]);
    }

    /// Sends a notification. Errors are only logged, because a supervisor that does not listen must not stop the
    /// daemon.
    fn send_states(&self, states: &[NotifyState<'_>]) {
        let Some(socket) = &self.notify else { return };
        let message: String = states.iter().map(|state| format!("{state}\n")).collect();
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::warn!(%error, "could not notify the supervisor");
        }
    }
}

fn open(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    // A name that starts with `@` is an abstract socket, not a file.
    match path.as_os_str().as_bytes() {
        [b'@', name @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        _ => socket.connect(path)?,
    }
    Ok(socket)
}

#[allow(
    unsafe_code,
    reason = "a passed descriptor is a number, and only this function knows that it has no other owner"
)]
fn inherited_socket() -> Result<Option<OwnedFd>, Failure> {
    let mut passed = sd_notify::listen_fds()
        .map_err(|error| Failure::broken("could not take over the inherited socket").with_source(error))?;
    match (passed.next(), passed.next()) {
        (None, _) => Ok(None),
        // SAFETY: LISTEN_PID names this process, and LISTEN_FDS states that this descriptor was opened for it before it
        // started. This function is called once, before any other code opens or owns a descriptor.
        (Some(fd), None) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        (Some(_), Some(_)) => Err(Failure::usage("more than one socket was passed to agentd")
            .with_hint("agentd.socket needs exactly one ListenStream=")),
    }
}

/// Signals handled by the daemon. Handling starts when this value is created.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Starts listening. Replaces the signals' default action, which is to kill the process.
    ///
    /// # Errors
    /// Fails if the system refuses to register a handler.
    pub fn listen() -> Result<Self, Failure> {
        let open =
            |kind| signal(kind).map_err(|error| Failure::broken("could not listen for signals").with_source(error));
        Ok(Self {
            terminate: open(SignalKind::terminate())?,
            interrupt: open(SignalKind::interrupt())?,
            hang_up: open(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. Returns true if it requests a stop, as SIGTERM and SIGINT do, and false for a reload
    /// (SIGHUP).
    pub async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => true,
            _ = self.hang_up.recv() => false,
        }
    }

    /// Waits for the next signal that requests a stop. Reload requests are ignored.
    pub async fn next_stop(&mut self) {
        while !self.next().await {}
    }
}

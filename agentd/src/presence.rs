//! Keeps the daemon where clients find it: what it can be found by, the socket's name and the lock file, can be taken
//! away under it. A runtime folder goes with the last logout, and what lies in `/tmp` is cleaned.

use std::{path::PathBuf, sync::Arc, time::Duration};

use agentd_store::SqliteStore;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    failure::with_causes,
    listener::Listener,
    lock::{FolderLock, LockState},
};

/// Interval of the check. Clients wait a little longer for a daemon that lives and cannot be found.
const PERIOD: Duration = Duration::from_secs(5);

/// Socket and lock, by which the daemon is found.
pub(crate) struct Presence<'a> {
    listener: Listener,
    lock: &'a mut FolderLock,
    store: Arc<SqliteStore>,
    socket: watch::Sender<PathBuf>,
    /// The last complaint, so that it is logged once.
    told: OpenComplaints,
}

/// Complaints that still hold.
#[derive(Default)]
struct OpenComplaints {
    socket: bool,
    lock: bool,
    folder: bool,
    journal: bool,
}

impl<'a> Presence<'a> {
    /// Publishes the daemon's socket path to clients.
    #[must_use]
    pub(crate) fn new(listener: Listener, lock: &'a mut FolderLock, store: Arc<SqliteStore>) -> Self {
        let socket = watch::Sender::new(listener.path().to_owned());
        let mut presence = Self { listener, lock, store, socket, told: OpenComplaints::default() };
        presence.tell_socket();
        presence
    }

    /// Current socket path of the daemon.
    #[must_use]
    pub(crate) fn socket(&self) -> watch::Receiver<PathBuf> {
        self.socket.subscribe()
    }

    /// Looks again and again. Never returns.
    pub(crate) async fn keep(&mut self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look_at_lock();
            self.look_at_socket().await;
            self.look_at_journal();
        }
    }

    /// Takes no more connections.
    pub(crate) fn close(&self) {
        self.listener.close();
    }

    /// Takes the socket's name away.
    pub(crate) fn remove(self) {
        self.listener.remove();
    }

    async fn look_at_socket(&mut self) {
        if self.listener.is_found() {
            self.told.socket = false;
            return;
        }
        let before = self.listener.path().to_owned();
        match self.listener.renew().await {
            Ok(()) if self.listener.path() == before => {
                tracing::warn!(socket = %before.display(), "the socket was gone and is bound again");
            }
            Ok(()) => {
                let socket = self.listener.path().display();
                tracing::warn!(gone = %before.display(), %socket, "the socket was gone and is bound at another place");
            }
            Err(error) => {
                if !std::mem::replace(&mut self.told.socket, true) {
                    tracing::error!("the socket is gone and could not be bound again: {}", with_causes(&error));
                }
                return;
            }
        }
        self.socket.send_replace(self.listener.path().to_owned());
        self.tell_socket();
    }

    fn look_at_lock(&mut self) {
        match self.lock.look() {
            Ok(LockState::There) => (self.told.lock, self.told.folder) = (false, false),
            Ok(LockState::Renewed) => tracing::warn!("the lock file was missing and was created again"),
            Ok(LockState::FolderGone) => {
                if !std::mem::replace(&mut self.told.folder, true) {
                    tracing::error!("the data folder is not at its place any more; move it back, or stop the daemon");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.told.lock, true) {
                    tracing::error!("the lock file is gone and could not be made again: {error}");
                }
            }
        }
    }

    fn look_at_journal(&mut self) {
        match self.store.look() {
            Ok(()) => self.told.journal = false,
            Err(error) => {
                if !std::mem::replace(&mut self.told.journal, true) {
                    tracing::error!(hint = error.hint(), "{error}");
                }
            }
        }
    }

    fn tell_socket(&mut self) {
        if let Err(error) = self.lock.tell_socket(self.listener.path()) {
            tracing::warn!("could not write the daemon's socket into the lock file: {error}");
        }
    }
}

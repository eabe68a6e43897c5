//! Event loop for one server.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use agentd_core::ports::{ConfineError, ConfinedProgram, ProgramEnd, SecretFile};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{
    CheckPurpose, Command, Condition, DiskChange, Findings, OpenText, Reply, ServerError, ServerParts,
    connection::{Breakdown, Connection},
    crashes::{CrashKind, Crashes},
    documents::Check,
    watched_files::WatchedFiles,
};
use crate::{message::IncomingMessage, source};

/// Maximum number of commands that wait until a server is ready.
const MAX_QUEUE: usize = 64;
/// Time for a server to exit by itself.
const END_GRACE: Duration = Duration::from_secs(1);

/// Runs a server until its handle is dropped.
pub(super) async fn run(
    parts: Arc<ServerParts>,
    mut commands: mpsc::Receiver<Command>,
    condition: watch::Sender<Condition>,
) {
    let mut actor = Actor {
        parts,
        connection: None,
        queue: VecDeque::new(),
        watched: WatchedFiles::default(),
        crashes: Crashes::default(),
        condition,
        secrets: Vec::new(),
        used: Instant::now(),
    };
    loop {
        match actor.next(&mut commands).await {
            Event::Command(Command::Stop { reply }) => {
                actor.end().await;
                let _ = reply.send(());
            }
            Event::Command(command) => actor.command(command).await,
            Event::Message(message) => actor.with(|connection| connection.take(message)),
            Event::Ended(end) => drop(actor.handle_exit(&end)),
            Event::TimerDue => actor.handle_timers().await,
            Event::HandleDropped => return,
        }
        actor.process().await;
    }
}

struct Actor {
    parts: Arc<ServerParts>,
    connection: Option<Connection>,
    /// Commands that wait until the server is ready.
    queue: VecDeque<Command>,
    /// Files as last reported to the server.
    watched: WatchedFiles,
    crashes: Crashes,
    condition: watch::Sender<Condition>,
    /// Secret files that are hidden from the running server.
    secrets: Vec<SecretFile>,
    used: Instant,
}

enum Event {
    Command(Command),
    Message(IncomingMessage),
    /// The process exited, or its output ended.
    Ended(ProgramEnd),
    TimerDue,
    HandleDropped,
}

impl Actor {
    async fn next(&mut self, commands: &mut mpsc::Receiver<Command>) -> Event {
        let due = self.due();
        let of_handles = |command: Option<Command>| command.map_or(Event::HandleDropped, Event::Command);
        let Some(connection) = &mut self.connection else { return of_handles(commands.recv().await) };
        tokio::select! {
            biased;
            end = &mut connection.ended => Event::Ended(end),
            // Checked before messages, because messages may never end.
            () = until(due) => Event::TimerDue,
            command = commands.recv() => of_handles(command),
            message = connection.streams.incoming.recv() => match message {
                Some(Ok(message)) => Event::Message(message),
                Some(Err(reason)) => Event::Ended(exit_reason(reason, connection).await),
                None => Event::Ended(exit_reason("its output stream closed".to_owned(), connection).await),
            },
        }
    }

    /// Returns the time of the next timer.
    fn due(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        let idle = self.parts.limits.idle_stop.filter(|_| connection.is_idle()).map(|idle| self.used + idle);
        connection.next_timer(Instant::now()).into_iter().chain(idle).min()
    }

    /// Runs an action on the connection, and kills the server if the action fails.
    fn with(&mut self, action: impl FnOnce(&mut Connection) -> Result<(), Breakdown>) {
        if let Some(Err(reason)) = self.connection.as_mut().map(action) {
            self.crash(&reason, CrashKind::Other);
        }
    }

    /// Handles timers: sends due requests, expires other requests, and stops an idle server.
    async fn handle_timers(&mut self) {
        let now = Instant::now();
        self.with(|connection| {
            connection.process_timers()?;
            connection.expire(now)
        });
        let is_idle = self.connection.as_ref().is_some_and(Connection::is_idle) && self.queue.is_empty();
        if is_idle && self.parts.limits.idle_stop.is_some_and(|idle| now >= self.used + idle) {
            tracing::debug!(server = self.parts.config.name, "stopping an idle language server");
            self.end().await;
        }
    }

    async fn command(&mut self, command: Command) {
        if !matches!(command, Command::Changed { .. } | Command::Stop { .. }) && !self.hides_all_secrets().await {
            tracing::debug!(server = self.parts.config.name, "restarting a language server: new secret files");
            self.end().await;
        }
        let is_running = self.connection.is_some();
        match command {
            Command::Changed { files } if is_running => self.enqueue(Command::Changed { files }),
            Command::Changed { .. } => {}
            Command::Recall { purpose, reply } => {
                let connection = self.connection.as_ref();
                let all = connection.map(|it| it.documents.last_findings(purpose.sources(it.is_pulled)));
                let _ = reply.send(all.unwrap_or_default());
            }
            command => {
                self.used = Instant::now();
                match self.start().await {
                    Ok(()) => self.enqueue(command),
                    Err(error) => refuse(command, error),
                }
            }
        }
    }

    /// Returns false if a secret file was added or replaced since the server was started. The server may have read the
    /// file, so its output must no longer be used.
    async fn hides_all_secrets(&mut self) -> bool {
        let parts = Arc::clone(&self.parts);
        let is_same = |now: Vec<SecretFile>| now == self.secrets;
        self.connection.is_none() || parts.confiner.secrets(parts.folder.clone()).await.is_ok_and(is_same)
    }

    fn enqueue(&mut self, command: Command) {
        if self.queue.len() < MAX_QUEUE {
            self.queue.push_back(command);
        } else {
            refuse(command, ServerError::transient(format!("{} is busy; retry later", self.parts.config.name)));
        }
    }

    /// Executes queued commands once the server is ready, and records its answers.
    async fn process(&mut self) {
        while let Some(connection) = &mut self.connection {
            if connection.has_answered {
                connection.has_answered = false;
                self.crashes.record_answer(Instant::now());
                self.condition.send_replace(Condition::Warm);
            }
            connection.checks.forget_closed();
            if !connection.is_ready || connection.checks.locks_texts() {
                return;
            }
            let Some(command) = self.queue.pop_front() else { return };
            let result = match command {
                Command::Check { files, purpose, reply } => {
                    if purpose != CheckPurpose::Baseline {
                        self.sync_disk(&files).await;
                    }
                    self.connection.as_mut().map(|connection| check(connection, &files, purpose, reply))
                }
                Command::Ask { file, question, reply } => {
                    self.sync_disk(std::slice::from_ref(&file)).await;
                    let ask = |connection: &mut Connection| {
                        connection.sync(&file, true)?;
                        connection.ask(&file.below, question, reply)
                    };
                    self.connection.as_mut().map(ask)
                }
                Command::Changed { files } => {
                    let deleted = files.iter().filter(|(_, change)| *change == DiskChange::Deleted);
                    let closed = deleted.map(|(below, _)| connection.close(below)).find(Result::is_err);
                    Some(closed.unwrap_or_else(|| connection.notify_changed(&files)))
                }
                Command::Recall { .. } | Command::Stop { .. } => None,
            };
            if let Some(Err(reason)) = result {
                self.crash(&reason, CrashKind::Other);
            }
        }
    }

    /// Notifies the server of changes on disk to files of its kind and to open files, except for `but`.
    async fn sync_disk(&mut self, but: &[OpenText]) {
        let Some(connection) = &self.connection else { return };
        let mut stamps = connection.documents.stamps();
        stamps.retain(|(below, _)| !but.iter().any(|file| file.below == *below));
        let parts = Arc::clone(&self.parts);
        let looked = tokio::task::spawn_blocking(move || {
            let has_changed = |(below, stamp): &(_, _)| source::stamp(&parts.folder.join(below)) != *stamp;
            let changed = stamps.into_iter().filter(has_changed);
            let read = changed.map(|(below, _)| (source::read(&parts.folder, &below), below)).collect::<Vec<_>>();
            (read, WatchedFiles::scan(&parts.config, &parts.folder, &parts.root))
        });
        let Ok((read, watched)) = looked.await else { return };
        let changes = mem::replace(&mut self.watched, watched).changes(&self.watched);
        self.with(|connection| connection.notify_changed(&changes));
        for (content, below) in read {
            self.with(|connection| match OpenText::of(&below, &content) {
                Some(file) => connection.sync(&file, true),
                None => connection.close(&below),
            });
        }
    }

    // --- Start and end ---

    async fn start(&mut self) -> Result<(), ServerError> {
        if self.connection.is_some() {
            return Ok(());
        }
        self.crashes.check(&self.parts.config.name, Instant::now())?;
        let parts = Arc::clone(&self.parts);
        // Done before the server reads the files itself.
        let scan = move || WatchedFiles::scan(&parts.config, &parts.folder, &parts.root);
        self.watched = tokio::task::spawn_blocking(scan).await.unwrap_or_default();
        let ServerParts { config, limits, folder, confiner, .. } = &*self.parts;
        let started = async {
            let secrets = confiner.secrets(folder.clone()).await?;
            let process = confiner.start(ConfinedProgram {
                // By name, because the sandbox may hide the folder with this program while another folder also contains
                // it. The lookup in the sandbox never uses a folder in the project.
                program: config.command.clone().into(),
                args: config.args.clone(),
                folder: folder.clone(),
                hidden: secrets.iter().map(|secret| secret.path.clone()).collect(),
                environment: config.environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
                memory_bytes: limits.memory_bytes,
            });
            Ok::<_, ConfineError>((process.await?, secrets))
        };
        let connected = match timeout(limits.start_timeout, started).await {
            Ok(Ok((process, secrets))) => {
                self.secrets = secrets;
                Connection::begin(Arc::clone(&self.parts), process).map_err(|reason| (reason, CrashKind::Other))
            }
            Ok(Err(error)) if error.lasting => Err((error.message, CrashKind::Permanent)),
            Ok(Err(error)) => Err((error.message, CrashKind::Other)),
            Err(_) => Err(("it did not start in time".to_owned(), CrashKind::Other)),
        };
        match connected {
            Ok(connection) => {
                tracing::info!(server = config.name, folder = %folder.display(), "a language server was started");
                self.connection = Some(connection);
                Ok(())
            }
            Err((reason, kind)) => Err(self.crash(&reason, kind)),
        }
    }

    fn handle_exit(&mut self, end: &ProgramEnd) -> ServerError {
        let is_early = self.connection.as_ref().is_some_and(|connection| !connection.is_ready);
        let kind = match end.lasting {
            true => CrashKind::Permanent,
            false if is_early => CrashKind::Early,
            false => CrashKind::Other,
        };
        self.crash(&end.how, kind)
    }

    /// Kills a broken server and fails all requests that wait for it.
    fn crash(&mut self, reason: &str, kind: CrashKind) -> ServerError {
        let reason = crate::protocol::one_line(reason, 200);
        let name = &self.parts.config.name;
        tracing::warn!(server = name, folder = %self.parts.folder.display(), "a language server failed: {reason}");
        self.crashes.add(&reason, kind, Instant::now());
        self.condition.send_replace(Condition::Cold);
        let error = match self.crashes.check(name, Instant::now()) {
            Err(error) if error.given_up => {
                tracing::warn!("{error}");
                self.condition.send_replace(Condition::GivenUp);
                error
            }
            _ => ServerError::transient(format!("{name} failed: {reason}")),
        };
        if let Some(mut connection) = self.connection.take() {
            connection.fail(&error);
        }
        self.queue.drain(..).for_each(|command| refuse(command, error.clone()));
        error
    }

    async fn end(&mut self) {
        self.condition.send_replace(Condition::Cold);
        let error = self.parts.stopped();
        self.queue.drain(..).for_each(|command| refuse(command, error.clone()));
        if let Some(mut connection) = self.connection.take() {
            connection.fail(&error);
            connection.shut_down();
            // A server that has not exited in time is killed with the connection.
            let _ = timeout(END_GRACE, &mut connection.ended).await;
        }
    }
}

/// Prefers the exit of the process over the end of its output, since the exit is more informative.
async fn exit_reason(reason: String, connection: &mut Connection) -> ProgramEnd {
    match timeout(END_GRACE / 4, &mut connection.ended).await {
        Ok(end) => end,
        Err(_) => ProgramEnd { how: reason, lasting: false },
    }
}

/// Sends texts to a server and registers the check.
fn check(
    connection: &mut Connection,
    files: &[OpenText],
    purpose: CheckPurpose,
    reply: Reply<Vec<Findings>>,
) -> Result<(), Breakdown> {
    let deadline = connection.deadline();
    // Registered before the texts are sent, so that none of these files is closed to stay within the limit.
    let waiting = files.iter().map(|file| file.below.clone()).collect();
    connection.checks.0.push(Check { files: waiting, purpose, deadline, reply });
    files.iter().try_for_each(|file| connection.sync(file, purpose != CheckPurpose::Baseline))?;
    files.iter().try_for_each(|file| connection.pull(&file.below))?;
    connection.process_timers()
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn refuse(command: Command, error: ServerError) {
    match command {
        Command::Check { reply, .. } => drop(reply.send(Err(error))),
        Command::Ask { reply, .. } => drop(reply.send(Err(error))),
        Command::Recall { reply, .. } => drop(reply.send(Vec::new())),
        Command::Stop { reply } => drop(reply.send(())),
        Command::Changed { .. } => {}
    }
}

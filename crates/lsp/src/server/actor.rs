//! The loop of one server.

use std::{collections::VecDeque, time::Duration};

use agentd_core::ports::ConfinedProgram;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{
    Command, DiskChange, OpenText, ServerError, ServerParts,
    checks::Check,
    connection::{Broken, Connection},
    crashes::{Crashes, StartVerdict},
    text_of,
};
use crate::{
    message::Incoming,
    source::{self, Content},
};

/// Commands that wait for a server to get ready.
const MAX_QUEUE: usize = 64;
/// Time for a server to end by itself.
const END_GRACE: Duration = Duration::from_secs(1);

/// Runs a server until nobody holds its handle.
pub(super) async fn run(parts: ServerParts, mut commands: mpsc::Receiver<Command>, warm: watch::Sender<bool>) {
    let mut actor = Actor {
        parts,
        connection: None,
        queue: VecDeque::new(),
        crashes: Crashes::default(),
        warm,
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
            Event::Ended(how) => drop(actor.crash(&how, false)),
            Event::Due => actor.look().await,
            Event::NoHandle => return,
        }
        actor.follow_up().await;
    }
}

struct Actor {
    parts: ServerParts,
    connection: Option<Connection>,
    /// Commands for when it is ready.
    queue: VecDeque<Command>,
    crashes: Crashes,
    warm: watch::Sender<bool>,
    used: Instant,
}

enum Event {
    Command(Command),
    Message(Incoming),
    /// The process ended, or nothing more can be heard of it.
    Ended(String),
    Due,
    NoHandle,
}

impl Actor {
    async fn next(&mut self, commands: &mut mpsc::Receiver<Command>) -> Event {
        let due = self.due();
        let of_handles = |command: Option<Command>| command.map_or(Event::NoHandle, Event::Command);
        let Some(connection) = &mut self.connection else { return of_handles(commands.recv().await) };
        tokio::select! {
            biased;
            how = &mut connection.ended => Event::Ended(how),
            // Before its messages: there may be no end of them.
            () = until(due) => Event::Due,
            command = commands.recv() => of_handles(command),
            message = connection.streams.incoming.recv() => match message {
                Some(Ok(message)) => Event::Message(message),
                Some(Err(why)) => Event::Ended(why_it_ended(why, connection).await),
                None => Event::Ended("it cannot be heard".to_owned()),
            },
        }
    }

    /// When the next thing is due.
    fn due(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        let idle = self.parts.limits.idle_stop.filter(|_| connection.is_idle()).map(|idle| self.used + idle);
        connection.next_look(Instant::now()).into_iter().chain(idle).min()
    }

    /// Lets the connection do something. One that is broken is ended.
    fn with(&mut self, action: impl FnOnce(&mut Connection) -> Result<(), Broken>) {
        if let Some(Err(how)) = self.connection.as_mut().map(action) {
            self.crash(&how, false);
        }
    }

    /// Looks at what time has made of it.
    async fn look(&mut self) {
        let now = Instant::now();
        self.with(|connection| {
            connection.settle();
            connection.expire(now)
        });
        let is_idle = self.connection.as_ref().is_some_and(Connection::is_idle) && self.queue.is_empty();
        if is_idle && self.parts.limits.idle_stop.is_some_and(|idle| now >= self.used + idle) {
            tracing::debug!(server = self.parts.config.name, "a language server is stopped: nobody asks it");
            self.end().await;
        }
    }

    async fn command(&mut self, command: Command) {
        let is_running = self.connection.is_some();
        match command {
            Command::Changed { files } if is_running => self.queue_up(Command::Changed { files }),
            Command::Changed { .. } => {}
            Command::Recall { below, reply } => {
                let known = self.connection.as_ref().and_then(|connection| connection.documents.get(&below));
                let _ = reply.send(known.and_then(super::documents::Document::last_findings));
            }
            Command::RecallAll { reply } => {
                let documents = self.connection.as_ref().map(|connection| connection.documents.last_findings());
                let _ = reply.send(documents.unwrap_or_default());
            }
            command => {
                self.used = Instant::now();
                match self.start().await {
                    Ok(()) => self.queue_up(command),
                    Err(error) => refuse(command, error),
                }
            }
        }
    }

    fn queue_up(&mut self, command: Command) {
        if self.queue.len() < MAX_QUEUE {
            self.queue.push_back(command);
        } else {
            let message = format!("{} is busy; try again later", self.parts.config.name);
            refuse(command, ServerError { message, given_up: false });
        }
    }

    /// Carries out what waited, once the server is ready, and takes note of its answers.
    async fn follow_up(&mut self) {
        while let Some(connection) = &mut self.connection {
            if connection.has_answered {
                connection.has_answered = false;
                self.crashes.settle();
                self.warm.send_replace(true);
            }
            if !connection.is_ready {
                return;
            }
            let Some(command) = self.queue.pop_front() else { return };
            let limit = self.parts.limits.request_timeout;
            let carried_out = match command {
                Command::Check { files, follows_disk, reply } => {
                    if follows_disk {
                        self.follow_disk(&files).await;
                    }
                    let check = |connection: &mut Connection| {
                        files.iter().try_for_each(|file| connection.sync(file, follows_disk))?;
                        files.iter().try_for_each(|file| connection.pull(&file.below, 0))?;
                        let files = files.into_iter().map(|file| file.below).collect();
                        connection.checks.add(Check { files, deadline: Instant::now() + limit, reply });
                        connection.settle();
                        Ok(())
                    };
                    self.connection.as_mut().map(check)
                }
                Command::Ask { file, question, reply } => {
                    self.follow_disk(std::slice::from_ref(&file)).await;
                    let ask = |connection: &mut Connection| {
                        connection.sync(&file, true)?;
                        connection.ask(&file.below, question, reply)
                    };
                    self.connection.as_mut().map(ask)
                }
                Command::Changed { files } => {
                    let gone = files.iter().filter(|(_, change)| *change == DiskChange::Deleted);
                    let closed = gone.map(|(below, _)| connection.close(below)).find(Result::is_err);
                    Some(closed.unwrap_or_else(|| connection.tell_changed(&files)))
                }
                Command::Recall { .. } | Command::RecallAll { .. } | Command::Stop { .. } => None,
            };
            if let Some(Err(how)) = carried_out {
                self.crash(&how, false);
            }
        }
    }

    /// Tells the server of open files that have changed on the disk, but for these.
    async fn follow_disk(&mut self, but: &[OpenText]) {
        let Some(connection) = &self.connection else { return };
        let mut stamps = connection.documents.stamps();
        stamps.retain(|(below, _)| !but.iter().any(|file| file.below == *below));
        let folder = self.parts.folder.clone();
        let read = tokio::task::spawn_blocking(move || {
            let has_changed = |(below, stamp): &(_, _)| source::stamp(&folder.join(below)) != *stamp;
            let changed = stamps.into_iter().filter(has_changed);
            changed.map(|(below, _)| (source::read_below(&folder, &below), below)).collect::<Vec<_>>()
        });
        for (content, below) in read.await.unwrap_or_default() {
            let is_there = content != Content::Absent;
            self.with(|connection| match text_of(&content).filter(|_| is_there) {
                Some(text) => connection.sync(&OpenText { below, text }, true),
                None => connection.close(&below),
            });
        }
    }

    // --- Start and end ---

    async fn start(&mut self) -> Result<(), ServerError> {
        if self.connection.is_some() {
            return Ok(());
        }
        let ServerParts { config, limits, program, folder, root, confiner } = &self.parts;
        match self.crashes.verdict(&config.name, Instant::now()) {
            StartVerdict::Start => {}
            StartVerdict::Later(message) => return Err(ServerError { message, given_up: false }),
            StartVerdict::Never(message) => return Err(ServerError { message, given_up: true }),
        }
        let started = confiner.start(ConfinedProgram {
            program: program.clone(),
            args: config.args.clone(),
            folder: folder.clone(),
            environment: config.environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            memory_bytes: limits.memory_bytes,
        });
        let begun = match timeout(limits.start_timeout, started).await {
            Ok(Ok(process)) => {
                Connection::begin(config.clone(), limits, folder, root, process).map_err(|how| (how, false))
            }
            Ok(Err(error)) => Err((error.message, error.lasting)),
            Err(_) => Err(("it could not be started in time".to_owned(), false)),
        };
        match begun {
            Ok(connection) => {
                tracing::info!(server = config.name, folder = %folder.display(), "a language server was started");
                self.connection = Some(connection);
                Ok(())
            }
            Err((how, lasting)) => Err(self.crash(&how, lasting)),
        }
    }

    /// Ends a server that does not work, and tells all who wait.
    fn crash(&mut self, how: &str, lasting: bool) -> ServerError {
        let how = crate::clean::line(how, 200);
        let name = &self.parts.config.name;
        tracing::warn!(server = name, folder = %self.parts.folder.display(), "a language server failed: {how}");
        self.crashes.add(&how, lasting, Instant::now());
        self.warm.send_replace(false);
        let error = match self.crashes.verdict(name, Instant::now()) {
            StartVerdict::Never(message) => {
                tracing::warn!("{message}");
                ServerError { message, given_up: true }
            }
            StartVerdict::Start | StartVerdict::Later(_) => {
                ServerError { message: format!("{name} failed: {how}"), given_up: false }
            }
        };
        if let Some(mut connection) = self.connection.take() {
            connection.fail(&error);
        }
        self.queue.drain(..).for_each(|command| refuse(command, error.clone()));
        error
    }

    /// Ends a server that is not needed.
    async fn end(&mut self) {
        self.warm.send_replace(false);
        let error = ServerError { message: format!("{} was stopped", self.parts.config.name), given_up: false };
        self.queue.drain(..).for_each(|command| refuse(command, error.clone()));
        if let Some(mut connection) = self.connection.take() {
            connection.fail(&error);
            connection.ask_to_end();
            // What has not ended by then is killed with the connection.
            let _ = timeout(END_GRACE, &mut connection.ended).await;
        }
    }
}

/// The end of a process says more than the end of its output.
async fn why_it_ended(why: String, connection: &mut Connection) -> String {
    match timeout(END_GRACE / 4, &mut connection.ended).await {
        Ok(how) => how,
        Err(_) => why,
    }
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
        Command::Recall { reply, .. } => drop(reply.send(None)),
        Command::RecallAll { reply } => drop(reply.send(Vec::new())),
        Command::Stop { reply } => drop(reply.send(())),
        Command::Changed { .. } => {}
    }
}

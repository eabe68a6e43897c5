//! A conversation over the daemon's socket.

use std::{
    path::{Path, PathBuf},
    sync::{PoisonError, atomic::Ordering},
};

use agentd_core::{
    catalogue::{ToolStanding, ToolTier},
    context::{CompactionStrategy, TokenLevel},
    error::ErrorKind,
    files::Uploaded,
    guide::SkillReport,
    ids::SessionId,
    interrupt::Answer,
    model::{Slot, SlotInfo},
    session::SessionStatus,
    turn::{IfBusy, OnInterrupt, StartTurn},
    undo::{TurnChoice, UndoOutcome, UndoRequest},
};
use agentd_proto::client::{SessionView, StartRequest};
use clap::Parser as _;
use futures_util::future::BoxFuture;

use super::{
    TerminalAsker,
    conversation::Desk,
    editor::Known,
    mentions::{self, Handed, Mention},
    slash::{self, Slash},
};
use crate::{
    args::{Cli, Command, Global},
    cmd,
    daemon::{self, Daemon},
    exit::{Attendance, Exit},
    failure::Failure,
    render::{Human, context::percent, sanitize::clean_line},
    report::count,
    session::{Place, Upload},
    turn::{
        self, AskNobody, Asker, CtrlC, Renderer as _, SocketLine,
        builtin::{BUILTIN, SayBuiltin},
    },
};

/// The sessions that can be completed.
const COMPLETED_SESSIONS: usize = 50;

/// The state of a conversation.
pub(crate) struct Chat {
    daemon: Daemon,
    place: Place,
    slot: Option<Slot>,
    slots: Vec<SlotInfo>,
    /// Whether a person sits before it, who can be asked.
    present: bool,
    renderer: SayBuiltin<Human<std::io::Stdout, std::io::Stderr>>,
    asker: Box<dyn Asker>,
    ctrl_c: CtrlC,
    known: Known,
    /// What was handed over by a mention.
    handed: Handed,
}

impl Chat {
    /// Opens a conversation: greets, and takes up what a session left behind.
    ///
    /// # Errors
    /// When the daemon is lost or knows no such session.
    pub(crate) async fn open(
        daemon: Daemon,
        place: Place,
        slot: Option<Slot>,
        present: bool,
        known: Known,
    ) -> anyhow::Result<Self> {
        let slots = daemon.client.models().await?;
        // A person is told by the greeting, at once; in a script it is told with the first turn.
        let told = if present { Vec::new() } else { slots.clone() };
        let asker: Box<dyn Asker> =
            if present { Box::new(TerminalAsker::new().leaving()) } else { Box::new(AskNobody) };
        let renderer = SayBuiltin::new(Human::stdio(), told);
        let ctrl_c = CtrlC::listen()?;
        let mut chat =
            Self { daemon, place, slot, slots, present, renderer, asker, ctrl_c, known, handed: Handed::default() };
        let view = chat.resolve().await?;
        if present {
            chat.greet(view.as_ref());
            chat.learn_sessions().await;
            chat.learn_names().await;
            chat.learn_fullness().await;
            if let Some(view) = view {
                chat.take_up(&view).await?;
            }
        }
        Ok(chat)
    }

    /// Says how to come back, where there is something to come back to.
    pub(crate) fn farewell(&mut self) {
        if let (true, Some(id)) = (self.present, self.place.id()) {
            self.note(&format!("go on with: agentctl chat --session {id}"));
        }
    }

    /// Finds the session that was named.
    async fn resolve(&mut self) -> Result<Option<SessionView>, Failure> {
        let name = match &self.place {
            Place::New(_) => return Ok(None),
            Place::Named(name) => name.clone(),
            Place::Known(id) => id.to_string(),
        };
        let view = self.daemon.client.session(&name).await?;
        self.place = Place::Known(view.session.summary.id);
        Ok(Some(view))
    }

    fn greet(&mut self, view: Option<&SessionView>) {
        let session = match view {
            Some(view) => {
                let summary = &view.session.summary;
                format!("session {} · {} · {}", summary.id, clean_line(&summary.title), count(summary.turns, "turn"))
            }
            None => "new session".to_owned(),
        };
        let slot = self.slot.or(view.and_then(|view| view.session.settings.slot)).unwrap_or_default();
        let model = self.slots.iter().find(|info| info.slot == slot).map(|info| info.model.clone());
        let name = model.as_ref().map_or_else(String::new, |model| format!(" · {}", clean_line(&model.id)));
        self.note(&format!("agentd · {session}{name} · /help lists the commands"));
        if model.is_some_and(|model| model.embedded) {
            self.note(BUILTIN);
        }
    }

    /// Takes up what waits in a session: a turn that runs, questions, a turn that was interrupted.
    async fn take_up(&mut self, view: &SessionView) -> anyhow::Result<()> {
        let id = view.session.summary.id;
        match (view.live_turn, view.session.open_turn) {
            (Some(_), Some((_, first_seq))) => {
                self.note("a turn is under way here");
                self.ctrl_c.forget();
                let line = SocketLine::attach(&self.daemon, id, first_seq.saturating_sub(1)).await?;
                self.drive(line).await?;
            }
            _ if !view.pending.is_empty() => self.answer_pending(id).await?,
            _ if view.session.summary.status == SessionStatus::Interrupted => {
                self.note("the last turn was interrupted; /continue goes on with it");
            }
            _ => {}
        }
        Ok(())
    }

    /// Asks what waits for an answer in this session.
    async fn answer_pending(&mut self, session: SessionId) -> anyhow::Result<()> {
        let pending = self.daemon.client.interrupts(Some(&session.to_string())).await?;
        if pending.is_empty() {
            self.note("nothing waits for an answer here");
        }
        let mut put_off = false;
        for interrupt in pending {
            self.ctrl_c.forget();
            let answer = tokio::select! {
                biased;
                () = self.ctrl_c.pressed() => return Ok(()),
                answer = self.asker.ask(&interrupt) => answer,
            };
            match answer {
                Some(answer) => self.daemon.client.answer(interrupt.id, &answer, daemon::CLIENT).await?,
                // The turn waits still: following it now would only keep the person from the prompt.
                None => put_off = true,
            };
        }
        if put_off {
            self.note("the turn waits; /interrupts asks again");
            return Ok(());
        }
        // An answer makes a turn go on.
        let view = self.daemon.client.session(&session.to_string()).await?;
        if let (Some(_), Some((_, first_seq))) = (view.live_turn, view.session.open_turn) {
            let after = view.session.summary.last_seq.max(first_seq.saturating_sub(1));
            self.ctrl_c.forget();
            let line = SocketLine::attach(&self.daemon, session, after).await?;
            self.drive(line).await?;
        }
        Ok(())
    }

    async fn turn(&mut self, text: Option<String>) -> anyhow::Result<Exit> {
        let request = StartRequest {
            session: self.place.clone().into_choice(),
            start: StartTurn {
                compact: None,
                typed_bytes: None,
                text,
                slot: self.slot,
                max_steps: None,
                on_interrupt: if self.present { OnInterrupt::Wait } else { OnInterrupt::Deny },
                if_busy: IfBusy::Refuse,
                client: daemon::CLIENT.to_owned(),
                environment: self.daemon.environment(),
            },
        };
        // Before the start: a press that comes with it is meant for this turn.
        self.ctrl_c.forget();
        let line = SocketLine::start(&self.daemon, request).await?;
        self.place = Place::Known(line.session());
        self.drive(line).await
    }

    async fn drive(&mut self, mut line: SocketLine) -> anyhow::Result<Exit> {
        let driven = turn::drive(&mut line, &mut self.renderer, self.asker.as_mut(), &mut self.ctrl_c).await;
        self.learn_sessions().await;
        self.learn_names().await;
        self.learn_fullness().await;
        let attendance = if self.present { Attendance::Attended } else { Attendance::Unattended };
        Ok(driven?.map_or(Exit::Done, |result| Exit::of_turn(&result, attendance)))
    }

    /// Fetches what can be completed. Completion is a nicety: where it fails there is less of it.
    async fn learn_sessions(&mut self) {
        if !self.present {
            return;
        }
        if let Ok(sessions) = self.daemon.client.sessions(COMPLETED_SESSIONS).await {
            let sessions = sessions.into_iter().map(|session| (session.id.to_string(), clean_line(&session.title)));
            *self.known.sessions.lock().unwrap_or_else(PoisonError::into_inner) = sessions.collect();
        }
    }

    /// Fetches what can be mentioned.
    async fn learn_names(&mut self) {
        if !self.present {
            return;
        }
        let session = self.place.id().map(|id| id.to_string()).unwrap_or_default();
        let client = &self.daemon.client;
        let (tools, skills, agents) = tokio::join!(client.tools(&session), client.skills(&session), client.agents());
        let tools = tools.unwrap_or_default().into_iter().filter(|standing| standing.tool.label.tier != ToolTier::Off);
        let tool = |standing: ToolStanding| {
            let about = standing.tool.spec.description;
            let first = about.split(". ").next().unwrap_or_default().trim_end_matches('.');
            (clean_line(&standing.tool.spec.name), clean_line(&format!("tool: {first}")))
        };
        let skills = skills.unwrap_or_default().into_iter().filter(|found| found.usable);
        let skill = |found: SkillReport| {
            (clean_line(&found.skill.name), clean_line(&format!("skill: {}", found.skill.description)))
        };
        let agents = agents.unwrap_or_default().into_iter();
        let agents = agents.map(|card| (clean_line(&card.id), clean_line(&format!("agent: {}", card.description))));
        let mut names: Vec<(String, String)> = tools.map(tool).chain(skills.map(skill)).chain(agents).collect();
        names.sort_by(|left, right| left.0.cmp(&right.0));
        names.dedup_by(|later, first| later.0 == first.0);
        *self.known.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Asks how full the window is and who works there, for the prompt: it shows the one from the warning on, and the other
    /// where it is not the main agent.
    async fn learn_fullness(&mut self) {
        let (true, Some(id)) = (self.present, self.place.id()) else { return };
        // The prompt is there all the same where nobody knows.
        let view = self.daemon.client.context(&id.to_string()).await.ok();
        let full = view.filter(|view| view.level >= TokenLevel::Warning);
        let percent = full.map_or(0, |view| percent(view.tokens, view.window));
        self.known.fullness.store(percent, Ordering::Relaxed);
        let view = self.daemon.client.session(&id.to_string()).await.ok();
        let agent = view.and_then(|view| view.session.agents.last().map(|agent| clean_line(agent)));
        *self.known.agent.lock().unwrap_or_else(PoisonError::into_inner) = agent.unwrap_or_default();
    }

    async fn compact(&mut self, strategy: CompactionStrategy) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let done = cmd::compact::compact(&self.daemon, id, strategy, true, &mut self.ctrl_c).await;
        self.learn_fullness().await;
        let done = done?;
        self.handed.forget();
        done.print()?;
        Ok(done.exit())
    }

    async fn undo_compaction(&mut self) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let (window, undone) = self.daemon.client.undo_compaction(&id.to_string()).await?;
        self.learn_fullness().await;
        cmd::compact::tell_undone(id, window, &undone, false)
    }

    async fn obey(&mut self, command: Slash) -> anyhow::Result<Exit> {
        match command {
            Slash::Help => self.help(),
            Slash::Reset => {
                let id = self.session()?;
                self.daemon.client.reset_session(&id.to_string()).await?;
                self.handed.forget();
                self.learn_fullness().await;
                self.note("the history is set aside: the model sees none of it any more");
            }
            Slash::Load(name) => self.load(name).await?,
            Slash::Model(Some(slot)) => {
                self.slot = Some(slot);
                self.note(&format!("the next turns use the slot {slot}"));
            }
            Slash::Upload(path) => self.upload(&typed_path(&path)).await?,
            Slash::Rename(title) => {
                let id = self.session()?;
                self.daemon.client.rename_session(&id.to_string(), &title).await?;
                self.note("renamed");
            }
            Slash::Interrupts => {
                let id = self.session()?;
                self.answer_pending(id).await?;
            }
            Slash::Continue => {
                self.session()?;
                return self.turn(None).await;
            }
            Slash::Undo(turn) => return self.undo(turn).await,
            Slash::Compact(strategy) => return self.compact(strategy).await,
            Slash::UndoCompaction => return self.undo_compaction().await,
            Slash::Context => {
                let id = self.session()?.to_string();
                return self.agentctl(&["context", &id]).await;
            }
            Slash::Clear if self.present => eprint!("\x1b[H\x1b[2J\x1b[3J"),
            Slash::Clear | Slash::Quit => {}
            Slash::Sessions => return self.agentctl(&["sessions", "list"]).await,
            Slash::Model(None) => return self.agentctl(&["models"]).await,
            Slash::Agents => return self.agentctl(&["agents", "list"]).await,
            Slash::Tools => {
                let id = self.session()?.to_string();
                return self.agentctl(&["tools", "--session", &id]).await;
            }
            Slash::Status => return self.agentctl(&["status"]).await,
            Slash::Grants => {
                let id = self.session()?.to_string();
                return self.agentctl(&["grants", "list", "--session", &id]).await;
            }
            Slash::Current => {
                let id = self.session()?.to_string();
                return self.agentctl(&["sessions", "show", &id]).await;
            }
        }
        Ok(Exit::Done)
    }

    /// Shows what an undo would do, asks, and does it.
    async fn undo(&mut self, turn: Option<TurnChoice>) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let request = UndoRequest { turn, redo: false, preview: true, client: daemon::CLIENT.to_owned() };
        let preview = self.daemon.client.undo(&id.to_string(), &request).await?;
        cmd::undo::print(&preview)?;
        if !preview.files.iter().any(|file| file.outcome == UndoOutcome::Done) {
            return Ok(cmd::undo::exit(&preview));
        }
        let question = cmd::undo::question(id, &preview);
        self.ctrl_c.forget();
        let answer = tokio::select! {
            biased;
            () = self.ctrl_c.pressed() => None,
            answer = self.asker.ask(&question) => answer,
        };
        if !matches!(answer, Some(Answer::Text { text }) if matches!(text.trim(), "y" | "Y" | "yes")) {
            self.note("nothing was undone");
            return Ok(Exit::Done);
        }
        let request = UndoRequest { turn: Some(TurnChoice::Id(preview.turn_id)), preview: false, ..request };
        let report = self.daemon.client.undo(&id.to_string(), &request).await?;
        self.note(&cmd::undo::summary(&report));
        Ok(cmd::undo::exit(&report))
    }

    /// The next turn is told of it. A session that has not begun begins with it.
    async fn upload(&mut self, path: &Path) -> Result<(), Failure> {
        let upload = Upload::open(path)?;
        // Made first, so that a file that is refused leaves no session behind for each attempt.
        self.place = self.place.clone().take(&self.daemon, Vec::new()).await?.0;
        let (place, taken) = self.place.clone().take(&self.daemon, vec![upload]).await?;
        self.place = place;
        for Uploaded { path, picture, problem } in taken {
            let told = if picture.is_some() { "is shown it" } else { "is told" };
            self.note(&format!("uploaded as {path}; the model {told} with what you say next"));
            if let Some(problem) = problem {
                self.note(&problem);
            }
        }
        Ok(())
    }

    /// Hands over the files that a text mentions. One that cannot be read stops the turn: the person counts on it.
    async fn hand_over(&mut self, text: &str) -> Result<(), Failure> {
        for mention in mentions::find(text) {
            match mention {
                Mention::File(path) if self.handed.has(self.place.id(), &path) => {}
                Mention::File(path) => {
                    self.upload(&path).await?;
                    if let Some(session) = self.place.id() {
                        self.handed.note(session, path);
                    }
                }
                Mention::Hidden(path) => {
                    let path = clean_line(&path.display().to_string());
                    self.note(&format!("#{path} is hidden and stays here; /upload {path} hands it over all the same"));
                }
            }
        }
        Ok(())
    }

    /// The session, once there is one.
    fn session(&self) -> Result<SessionId, Failure> {
        self.place.id().ok_or_else(|| {
            Failure::new(ErrorKind::NotFound, "there is no session yet").hint("it begins with the first thing you say")
        })
    }

    fn help(&mut self) {
        for entry in slash::TABLE {
            let usage = format!("/{} {}", entry.name, entry.argument);
            self.note(&format!("{usage:<16} {}", entry.does));
        }
        self.note("Alt-Enter, a backslash at the end or an open ``` begin a new line; Tab completes; Ctrl-D leaves");
    }

    async fn load(&mut self, name: String) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.place, Place::Named(name));
        match self.resolve().await {
            Ok(Some(view)) => {
                self.greet(Some(&view));
                self.learn_fullness().await;
                if self.present { self.take_up(&view).await } else { Ok(()) }
            }
            Ok(None) => Ok(()),
            Err(failure) => {
                self.place = before;
                Err(failure.into())
            }
        }
    }

    /// Does what a command of `agentctl` does, so that both list the same.
    async fn agentctl(&mut self, words: &[&str]) -> anyhow::Result<Exit> {
        let cli = Cli::try_parse_from(std::iter::once(&"agentctl").chain(words))?;
        let global = Global { socket: Some(self.daemon.socket.clone()) };
        match cli.command {
            Command::Sessions(args) => cmd::sessions::handle(&global, args).await,
            Command::Models(args) => cmd::models::handle(&global, args).await,
            Command::Context(args) => cmd::context::handle(&global, args).await,
            Command::Agents(args) => cmd::agents::handle(&global, args).await,
            Command::Tools(args) => cmd::tools::handle(&global, args).await,
            Command::Status(args) => cmd::daemon::status(&global, args).await,
            Command::Grants(args) => cmd::grants::handle(&global, args).await,
            _ => Ok(Exit::Done),
        }
    }
}

impl Desk for Chat {
    fn say(&mut self, text: String) -> BoxFuture<'_, anyhow::Result<Exit>> {
        Box::pin(async move {
            self.hand_over(&text).await?;
            self.turn(Some(text)).await
        })
    }

    fn command(&mut self, command: Slash) -> BoxFuture<'_, anyhow::Result<Exit>> {
        Box::pin(self.obey(command))
    }

    fn note(&mut self, text: &str) {
        // Standard error may be closed; what matters is on standard output.
        let _ = self.renderer.note(text);
    }

    fn fail(&mut self, failure: &Failure) {
        let _ = failure.print(anstream::stderr());
    }
}

/// A path as a person types it: the shell that would have put the home folder in front is not here.
pub(super) fn typed_path(path: &str) -> PathBuf {
    let path = path.trim_matches(['"', '\'']);
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(path),
    }
}

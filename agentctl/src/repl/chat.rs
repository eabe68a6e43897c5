//! A conversation over the daemon's socket.

use std::{collections::HashMap, io::Write as _, sync::Arc, time::Duration};

use agentd_core::{
    error::ErrorKind,
    ids::SessionId,
    model::SlotInfo,
    routing::Planning,
    session::SessionStatus,
    turn::{OnInterrupt, StartTurn, StopReason, TurnOptions, TurnResult},
    visible,
};
use agentd_proto::client::{Client, ClientError, SessionView, StartRequest};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::{
    TerminalAsker,
    conversation::{ChatBackend, Wake},
    known::CompletionCache,
    mentions::UploadedFiles,
    message::{MessageExtras, TurnInput},
    slash::{self, Slash},
    watch::{self, SeenUpTo},
};
use crate::{
    daemon::{self, Daemon},
    exit::{Exit, Interactivity},
    failure::Failure,
    flags::{CommandLine, Global},
    keyboard::{Keyboard, TypeAhead},
    project,
    render::{Human, closing::ChatTotals},
    report::short_id,
    session::SessionTarget,
    terminal::attention::{Attention, WindowTitle},
    turn::{
        self, Asides, Asker, AtEnd, BuiltinNotice, Destination, ForeseeingAsker, NonInteractive, Renderer as _,
        Signals, SocketLine, signals::EndSignal,
    },
};

/// Time limit for servers to list their models before the greeting.
const MODELS_TOLD: Duration = Duration::from_millis(400);

/// Returns the models for the greeting. Servers that answer in time supply the values that are not configured.
async fn models_shown(client: &Client) -> Result<Vec<SlotInfo>, ClientError> {
    match timeout(MODELS_TOLD, client.models_looked_up()).await {
        Ok(told) => told,
        Err(_) => client.models().await,
    }
}

/// State of a conversation.
pub(crate) struct Chat {
    pub(super) daemon: Daemon,
    pub(super) place: SessionTarget,
    pub(super) slots: Vec<SlotInfo>,
    /// True if a user at the terminal can be asked.
    pub(super) present: bool,
    pub(super) renderer: BuiltinNotice,
    pub(super) asker: Box<dyn Asker>,
    pub(super) signals: Signals,
    pub(super) keyboard: Keyboard,
    pub(super) known: CompletionCache,
    title: WindowTitle,
    /// Side questions of this chat.
    pub(super) asides: Asides,
    /// Turns of this chat, without those of other clients.
    totals: ChatTotals,
    pub(super) command_line: CommandLine,
    /// Files that were uploaded because of a mention.
    pub(super) handed: UploadedFiles,
    /// Last event that was shown; `None` if events may have followed that this chat did not show.
    pub(super) seen: Option<SeenUpTo>,
    /// Agent for the next message.
    pub(super) agent: Option<String>,
    /// Extras of the next message.
    pub(super) extras: MessageExtras,
    /// Prompts of project commands that were shown, by the name of the command.
    pub(super) seen_commands: HashMap<String, String>,
    /// Hash of the project as it was last shown, for `/trust`.
    pub(super) shown_project: Option<String>,
}

impl Chat {
    /// Opens a conversation. With a keyboard, it greets the user, and resumes the open turn and the pending questions
    /// of the session.
    ///
    /// # Errors
    /// Fails if the daemon is lost, or the session does not exist.
    pub(crate) async fn open(
        daemon: Daemon,
        place: SessionTarget,
        keyboard: Option<Keyboard>,
        known: CompletionCache,
        command_line: CommandLine,
    ) -> anyhow::Result<Self> {
        let (present, keyboard) = (keyboard.is_some(), keyboard.unwrap_or_else(Keyboard::none));
        let slots = if present { models_shown(&daemon.client).await } else { daemon.client.models().await }?;
        // The greeting shows a user the notice at once. A script gets it with the first turn.
        let told = if present { Vec::new() } else { slots.clone() };
        let terminal = || TerminalAsker::new(keyboard.clone()).in_chat(Arc::clone(&known.status));
        let person = || ForeseeingAsker::new(terminal(), daemon.client.clone());
        let asker: Box<dyn Asker> = if present { Box::new(person()) } else { Box::new(NonInteractive) };
        let human = Human::stdio().in_chat().with_status(Arc::clone(&known.status));
        let renderer = BuiltinNotice::new(Box::new(human), told, &daemon);
        // Closing the terminal loses no work. Ending a script also ends its turn.
        let signals = if present { Signals::of_terminal(AtEnd::Leave) } else { Signals::listen(AtEnd::Cancel) }?;
        let mut chat = Self {
            daemon,
            place,
            slots,
            present,
            renderer,
            asker,
            signals,
            keyboard,
            known,
            title: if present { WindowTitle::take() } else { WindowTitle::default() },
            asides: Asides::default(),
            totals: ChatTotals::default(),
            command_line,
            handed: UploadedFiles::default(),
            seen: None,
            agent: None,
            extras: MessageExtras::default(),
            seen_commands: HashMap::new(),
            shown_project: None,
        };
        let view = chat.resolve().await?;
        if present {
            chat.greet(view.as_ref());
            chat.advise(view.as_ref()).await;
            chat.tell_last_here().await;
            chat.tell_of_project().await;
            chat.learn().await;
            if let Some(view) = view {
                chat.take_up(&view).await?;
            }
        } else {
            chat.tell_of_project().await;
        }
        Ok(chat)
    }

    /// Shows what the turns of this chat took, and how to resume its session.
    pub(crate) async fn farewell(&mut self) {
        // The chosen mode is stored, because another client may continue the session.
        if let Err(failure) = self.settle_mode().await {
            self.fail(&failure);
        }
        if let (true, Some(id)) = (self.present, self.place.id()) {
            self.totals.line().iter().for_each(|line| self.note(line));
            self.note(&format!("resume with: agentctl chat --session {}", short_id(id)));
        }
    }

    /// Resolves the name of the session.
    pub(super) async fn resolve(&mut self) -> Result<Option<SessionView>, Failure> {
        if matches!(self.place, SessionTarget::New(_)) {
            return Ok(None);
        }
        let view = self.daemon.client.session(&self.place.name()).await?;
        self.place = SessionTarget::Known(view.session.summary.id);
        Ok(Some(view))
    }

    /// Shows the last turns of a session, and resumes its running turn or asks its pending questions. Reports an
    /// interrupted turn.
    pub(super) async fn take_up(&mut self, view: &SessionView) -> anyhow::Result<()> {
        let id = view.session.summary.id;
        self.replay(view).await?;
        match (view.live_turn, view.session.open_turn) {
            (Some(_), Some((_, first_seq))) => {
                self.note("a turn is under way here");
                self.join_turn(first_seq.saturating_sub(1)).await?;
            }
            _ if !view.pending.is_empty() => self.answer_pending(id).await?,
            _ if view.session.summary.status == SessionStatus::Interrupted => {
                self.note("the last turn was interrupted; /continue resumes it");
            }
            _ => {}
        }
        Ok(())
    }

    /// Asks all pending questions of this session.
    pub(super) async fn answer_pending(&mut self, session: SessionId) -> anyhow::Result<()> {
        let name = session.to_string();
        // The turn may continue, and even end, before the chat attaches to it again.
        let before = self.daemon.client.session(&name).await?.session;
        let pending = self.daemon.client.interrupts(Some(&name)).await?;
        if pending.is_empty() {
            self.note("nothing waits for an answer here");
        }
        let (mut put_off, mut left) = (false, pending.len());
        for interrupt in pending {
            left = left.saturating_sub(1);
            self.known.change_status(|status| status.questions = left);
            self.signals.forget();
            if let Some(plan) = interrupt.ask.plan().filter(|_| interrupt.asked_by.is_own(daemon::CLIENT)) {
                // The turn of the plan is not replayed. For a turn of another client, the question contains the plan.
                self.print(&format!("\n{}\n", visible::lines(plan.trim_end())))?;
            }
            let answer = tokio::select! {
                biased;
                signal = self.signals.next() => return self.left(signal),
                answer = self.asker.ask(&interrupt) => answer,
            };
            match answer {
                Some(answer) => self.daemon.client.answer(interrupt.id, &answer, daemon::CLIENT).await?,
                // The turn still waits, so following it would only block the prompt.
                None => put_off = true,
            };
        }
        self.learn_status().await;
        if put_off {
            self.note("the turn waits; /interrupts asks again");
            return Ok(());
        }
        let now = self.daemon.client.session(&name).await?;
        if before.open_turn.is_some() && (now.live_turn.is_some() || now.session.open_turn.is_none()) {
            self.signals.forget();
            let line = SocketLine::attach(&self.daemon, session, before.summary.last_seq).await?;
            self.follow(line, None).await?;
        }
        Ok(())
    }

    /// Sends a message with the files that it mentions and its extras.
    pub(super) async fn send(&mut self, input: TurnInput) -> anyhow::Result<Exit> {
        if let Err(failure) = self.prepare(input.words()).await {
            return Err(self.unsent(input.line, failure).await);
        }
        self.turn(Some(input)).await
    }

    /// Returns the failure of a line that was not sent, and puts the line back into the prompt.
    pub(super) async fn unsent(&mut self, line: String, failure: Failure) -> anyhow::Error {
        self.keep(line);
        self.explained(failure).await.into()
    }

    pub(super) async fn turn(&mut self, input: Option<TurnInput>) -> anyhow::Result<Exit> {
        let message = input.as_ref().map(|input| self.extras.behind(input));
        let (text, typed_bytes) = message.map_or((None, None), |(text, typed)| (Some(text), typed));
        let request = StartRequest {
            session: self.place.clone().into_choice(),
            start: StartTurn {
                typed_bytes,
                planning: input.as_ref().filter(|input| input.plans).map(|_| Planning::Always),
                options: TurnOptions {
                    agent: self.agent.clone().filter(|_| input.is_some()),
                    ..TurnOptions::default()
                },
                generate_title: self.present,
                on_interrupt: if self.present { OnInterrupt::Wait } else { OnInterrupt::Deny },
                ..self.daemon.turn(text)
            },
        };
        // Signals and keys that arrive during the start are meant for this turn.
        let _hold = self.keyboard.hold_ahead();
        self.signals.forget();
        let parts = if input.is_some() { self.extras.parts() } else { Vec::new() };
        let line = match SocketLine::start(&self.daemon, request, parts).await {
            Ok(line) => line,
            Err(failure) => {
                let words = input.as_ref().map(|input| input.words().to_owned());
                if failure.kind == ErrorKind::Busy
                    && let Some(exit) = self.speak_to_other(words).await?
                {
                    return Ok(exit);
                }
                input.into_iter().for_each(|input| self.keep(input.line));
                return Err(self.explained(failure).await.into());
            }
        };
        let extras = if input.is_some() { std::mem::take(&mut self.extras) } else { MessageExtras::default() };
        if input.is_some() {
            self.agent = None;
        }
        let sent = input.map(|input| input.line).unwrap_or_default();
        self.keyboard.typed(|typed| typed.begin_turn(sent));
        let wished = matches!(&self.place, SessionTarget::New(new) if new.worktree.is_some());
        self.place = SessionTarget::Known(line.session());
        if wished && let Ok(view) = self.daemon.client.session(&line.session().to_string()).await {
            let told = view.session.settings.worktree.as_ref().map(project::announced_worktree);
            told.iter().for_each(|told| self.note(told));
        }
        let driven = self.follow(line, None).await;
        if self.keyboard.typed(TypeAhead::is_withdrawn) {
            self.extras = extras;
        }
        driven
    }

    /// Returns an error that ends the conversation, except for Ctrl-C, which only leaves a question.
    pub(super) fn left(&self, signal: EndSignal) -> anyhow::Result<()> {
        match signal {
            EndSignal::Interrupt => Ok(()),
            other => Err(Failure { exit: other.exit(), ..Failure::new(ErrorKind::Conflict, "told to end") }.into()),
        }
    }

    /// Returns a failure with a hint for the chat, which may differ from that for a shell. If the daemon is lost, it is
    /// reconnected or started. The message is not sent again automatically, because it may have arrived.
    async fn explained(&mut self, failure: Failure) -> Failure {
        if self.present && failure.exit == Exit::Unreachable {
            let again = match self.daemon.client.host() {
                // Questions of ssh would disturb the chat.
                Some(_) => daemon::start(self.daemon.location.clone()).await,
                None => {
                    daemon::connect(&Global { socket: Some(self.daemon.socket.clone()), ..Global::default() }).await
                }
            };
            let Ok(daemon) = again else { return failure };
            self.daemon = daemon;
            return failure.hint("the daemon is back; your text is in the prompt; press Enter to send it");
        }
        let (true, ErrorKind::Busy, Some(session)) = (self.present, failure.kind, self.place.id()) else {
            return failure;
        };
        let pending = self.daemon.client.interrupts(Some(&session.to_string())).await.unwrap_or_default();
        if pending.is_empty() {
            return failure;
        }
        failure.hint("/interrupts asks it again; your text is in the prompt")
    }

    /// Returns a message to the input of the prompt.
    pub(super) fn keep(&self, message: String) {
        if self.present {
            self.keyboard.typed(|typed| typed.unsent(message));
        }
    }

    /// Follows a turn to its end. Turns of other clients have a separate renderer.
    pub(super) async fn follow(
        &mut self,
        mut line: SocketLine,
        others: Option<&mut BuiltinNotice>,
    ) -> anyhow::Result<Exit> {
        self.asides = Asides::of(&self.daemon.client, line.session());
        let person = turn::Person {
            asker: self.asker.as_mut(),
            signals: &mut self.signals,
            keyboard: &self.keyboard,
            asides: &mut self.asides,
            route,
            attention: if self.present { Attention::of_terminal() } else { Attention::Off },
            is_guest: others.is_some(),
        };
        // Held until the prompt reads keys, so that the terminal echoes none of them.
        let _hold = self.keyboard.hold_ahead();
        self.title.set(&self.known.status().title(true));
        let is_own = others.is_none();
        let driven = turn::drive(&mut line, others.unwrap_or(&mut self.renderer), person).await;
        if let (true, Ok(Some(result))) = (is_own, &driven) {
            self.totals.add(result);
        }
        self.seen = Some(SeenUpTo::of(&line));
        if driven.is_err() {
            // The user or the daemon is gone.
            self.asides.cancel();
        }
        self.finish_asides().await?;
        let has_failed = |result: &TurnResult| matches!(result.stop_reason, StopReason::Failed | StopReason::NoAnswer);
        let is_failed = matches!(&driven, Ok(Some(result)) if has_failed(result));
        self.learn().await;
        let interactivity = if self.present { Interactivity::Attended } else { Interactivity::Unattended };
        let ended = driven.map(|result| result.map(|result| Exit::of_turn(&result, interactivity)));
        if self.present && is_failed {
            self.note("not answered; /continue tries it again, else the model reads it with what you say next");
        }
        if !matches!(ended, Ok(Some(Exit::Done))) {
            // The user had not seen this outcome while typing, so the queued messages return to the prompt.
            self.keyboard.typed(TypeAhead::put_back);
        }
        Ok(ended?.map_or(Exit::Done, |exit| self.signals.exit(exit)))
    }

    /// Fetches the completions and the status.
    async fn learn(&mut self) {
        if self.present {
            self.known.learn(&self.daemon.client, self.place.id()).await;
            self.title.set(&self.known.status().title(false));
        }
    }

    /// Fetches the status only.
    pub(super) async fn learn_status(&mut self) {
        if let (true, Some(id)) = (self.present, self.place.id()) {
            self.known.learn_status(&self.daemon.client, id).await;
        }
    }

    /// Prints a text to standard output.
    pub(super) fn print(&mut self, text: &str) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Returns the session; fails before the first message.
    pub(super) fn session(&self) -> Result<SessionId, Failure> {
        self.place.id().ok_or_else(|| {
            Failure::new(ErrorKind::NotFound, "there is no session yet").hint("it begins with the first thing you say")
        })
    }
}

/// Decides where a text goes that was typed during a turn. Commands are handled by the chat, and mentioned files must be
/// uploaded before the text is sent.
fn route(text: &str) -> Destination {
    match slash::parse(text) {
        Some(Ok(Slash::Btw(question))) => Destination::Aside(question),
        None if !slash::is_for_client(text) && crate::mentions::find(text, "".as_ref()).is_empty() => Destination::Turn,
        _ => Destination::Later,
    }
}

impl ChatBackend for Chat {
    fn say(&mut self, text: String) -> BoxFuture<'_, anyhow::Result<Exit>> {
        Box::pin(self.send(TurnInput::typed(text)))
    }

    fn own_command(&mut self, line: &str) -> BoxFuture<'_, Option<anyhow::Result<Exit>>> {
        let line = line.to_owned();
        Box::pin(self.run_own_command(line))
    }

    fn command(&mut self, command: Slash) -> BoxFuture<'_, anyhow::Result<Exit>> {
        Box::pin(async move {
            self.settle_mode().await?;
            // The command itself shows its changes of the session.
            let is_shown = matches!(
                command,
                Slash::Compact(_) | Slash::UndoCompaction | Slash::Undo(_) | Slash::Rewind(_) | Slash::Reset
            );
            let exit = self.obey(command).await;
            if is_shown {
                self.seen = None;
            }
            exit
        })
    }

    fn wake(&mut self, is_pausable: bool) -> BoxFuture<'_, Wake> {
        Box::pin(async move {
            let watched = self.place.id().filter(|_| is_pausable && self.present);
            let turn = async {
                match watched {
                    Some(session) => watch::next_turn(&self.daemon, session, &mut self.seen).await,
                    None => std::future::pending().await,
                }
            };
            let signals = &mut self.signals;
            let signal = async {
                match is_pausable {
                    true => signals.next_at_prompt().await,
                    false => signals.end_signal(self.present).await,
                }
            };
            tokio::select! {
                biased;
                signal = signal => match signal {
                    EndSignal::Interrupt if is_pausable => Wake::Interrupt,
                    signal => Wake::End(signal.exit()),
                },
                after = turn => Wake::Turn { after },
            }
        })
    }

    fn join(&mut self, after: u64) -> BoxFuture<'_, anyhow::Result<Exit>> {
        Box::pin(async move {
            self.note("another client's turn is at work here; Ctrl-D or q leaves it");
            self.join_turn(after).await
        })
    }

    fn note(&mut self, text: &str) {
        // Standard error may be closed. Important output is on standard output.
        let _ = self.renderer.note(text);
    }

    fn fail(&mut self, failure: &Failure) {
        let _ = failure.print(anstream::stderr());
    }
}

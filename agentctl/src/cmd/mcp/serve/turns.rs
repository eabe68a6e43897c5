//! The tools `ask` and `answer`, which run turns until they end or wait for an answer.

use std::{fs, time::Duration};

use agentd_core::{
    error::ErrorKind,
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
    session::Mount,
    turn::{IfBusy, OnInterrupt, StartTurn, TurnResult},
};
use agentd_proto::client::{NewSession, SessionChoice, StartRequest};
use rmcp::model::{CallToolResponse, InputResponses};

use super::{
    AgentServer, CallContext, Progress, caller, caller_gone_error,
    person::{Approvals, Person},
    send_progress,
    shown::{self, WaitingTurn},
    tools::{self, AtInterrupt, Decision, WhenBusy},
};
use crate::{
    cmd::interrupts::resolve,
    daemon::{self, Daemon},
    failure::Failure,
    keyboard::Keyboard,
    mount::FolderChanges,
    session::SessionTarget,
    terminal::attention::Attention,
    turn::{self, Asides, Signals, SocketLine},
};

/// Default time to wait for another client's answer, in seconds.
const DEFAULT_WAIT_SECONDS: u64 = 30;
/// Maximum time to wait for another client's answer, in seconds.
const MAX_WAIT_SECONDS: u64 = 600;
/// Time limit for sending a cancellation to the daemon.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

const NEEDS_ANSWER: &str = "the turn waits: see its interrupts, and call the tool answer";
const STILL_WAITS: &str = "no answer yet; the turn waits, also across a restart";
const NO_ANSWER: &str = "the user gave no answer; the turn waits";

/// Reason to stop following a turn.
enum FollowEnd {
    Ended(Box<TurnResult>),
    Waits(Vec<Interrupt>),
}

impl AgentServer {
    /// Starts a turn and follows it.
    pub(super) async fn ask(&self, args: tools::Ask, context: &CallContext) -> anyhow::Result<CallToolResponse> {
        let folder = self.folder(args.folder.as_deref())?;
        if args.prompt.as_ref().map_or(args.session_id.is_none(), |prompt| prompt.trim().is_empty()) {
            let hint = "pass a task, or the session_id of an interrupted turn";
            anyhow::bail!(Failure::usage("missing prompt").hint(hint));
        }
        let daemon = self.daemon().await?;
        let session = self.session(&daemon, args.session_id, folder).await?;
        if context.ct.is_cancelled() || self.shutdown.is_cancelled() {
            return Err(caller_gone_error().into());
        }
        let client = caller(context);
        let (on_interrupt, person) = match args.on_interrupt {
            AtInterrupt::Wait => (OnInterrupt::Wait, Person::of(context, self.approvals)),
            AtInterrupt::Deny => (OnInterrupt::Deny, Person::Unavailable),
            AtInterrupt::Fail => (OnInterrupt::Fail, Person::Unavailable),
        };
        let start = StartTurn {
            // The text comes from a model, so it is not searched for mentions or for rules of the user.
            typed_bytes: Some(0),
            slot: args.model,
            max_steps: args.max_steps.map(Into::into),
            on_interrupt,
            if_busy: if args.if_busy == WhenBusy::Queue { IfBusy::Queue } else { IfBusy::Refuse },
            client: client.clone(),
            ..daemon.turn(args.prompt)
        };
        let is_new = matches!(session, SessionChoice::New(_));
        let request = StartRequest { session, start };
        let line = SocketLine::start(&daemon, request, Vec::new()).await?.with_client_name(client);
        let turn =
            line.turn().ok_or_else(|| Failure::new(ErrorKind::Protocol, "the daemon did not report the turn"))?;
        self.access.record_start(is_new.then(|| line.session()), turn);
        let at = WaitingTurn { session: line.session(), turn, seen: 0 };
        self.follow(&daemon, line, at, person, None, context).await
    }

    /// Returns the named session, with `folder` as its project if given, or a new session.
    async fn session(
        &self,
        daemon: &Daemon,
        named: Option<String>,
        folder: Option<Mount>,
    ) -> anyhow::Result<SessionChoice> {
        let Some(named) = named else {
            let project = folder.or_else(|| self.project.clone());
            return Ok(SessionChoice::New(NewSession { project, ..NewSession::default() }));
        };
        if named.trim().is_empty() {
            let hint = "omit it for a new session; list_sessions shows existing ones";
            anyhow::bail!(Failure::usage("the session_id is empty").hint(hint));
        }
        let session = self.access.session(&daemon.client, &named).await?;
        let Some(folder) = folder else { return Ok(SessionChoice::Existing(session.to_string())) };
        // The folder is stored in the session, so it must not change in a session that the user also works in.
        if !self.access.has_started(session) {
            let hint = "omit the folder, or omit the session_id to start a session with it";
            anyhow::bail!(Failure::usage("this session was not started here, so its folder cannot be set").hint(hint));
        }
        Ok(SessionTarget::Known(session)
            .show(daemon, Some(Some(folder)), &FolderChanges::default())
            .await?
            .into_choice())
    }

    /// Answers the interrupt that a turn waits for, and follows the turn.
    pub(super) async fn answer(&self, args: tools::Answer, context: &CallContext) -> anyhow::Result<CallToolResponse> {
        let daemon = self.daemon().await?;
        let pending = self.access.within(&daemon.client, daemon.client.interrupts(None).await?).await;
        let (id, interrupt) = resolve(&args.interrupt_id, &pending)?;
        let at = self.waiting_turn(&daemon, id, interrupt).await?;
        let person = Person::of(context, self.approvals);

        if args.decision == Decision::Wait {
            let at = at.ok_or_else(|| unknown(&args.interrupt_id))?;
            let limit = Duration::from_secs(args.wait_seconds.unwrap_or(DEFAULT_WAIT_SECONDS).min(MAX_WAIT_SECONDS));
            let line = SocketLine::attach(&daemon, at.session, at.seen).await?.with_client_name(caller(context));
            return self.follow(&daemon, line, at, Person::Unavailable, Some(limit), context).await;
        }
        let decided = tokio::select! {
            biased;
            () = self.caller_gone(context) => return Err(caller_gone_error().into()),
            decided = self.decide(&args, interrupt, &person) => decided?,
        };
        let at = at.ok_or_else(|| unknown(&args.interrupt_id))?;
        let Some(answer) = decided else {
            let asked: Vec<Interrupt> = interrupt.cloned().into_iter().collect();
            return Ok(person.asks(&asked).unwrap_or_else(|| shown::waits(at, &asked, NO_ANSWER).into()));
        };
        self.answer_and_follow(&daemon, (id, interrupt), answer, at, person, context).await
    }

    /// Continues a turn whose form was answered: the client repeats the call with the user's answer.
    pub(super) async fn resume(
        &self,
        asked: &str,
        answers: Option<InputResponses>,
        context: &CallContext,
    ) -> anyhow::Result<CallToolResponse> {
        let daemon = self.daemon().await?;
        let pending = self.access.within(&daemon.client, daemon.client.interrupts(None).await?).await;
        let id: InterruptId = asked.parse().map_err(|_| unknown(asked))?;
        let interrupt = pending.iter().find(|interrupt| interrupt.id == id);
        let at = self.waiting_turn(&daemon, id, interrupt).await?.ok_or_else(|| unknown(asked))?;
        let person = Person::of(context, self.approvals);
        let Some(interrupt) = interrupt else {
            // Another client has already answered.
            let line = SocketLine::attach(&daemon, at.session, at.seen).await?.with_client_name(caller(context));
            return self.follow(&daemon, line, at, person, None, context).await;
        };
        let waits = || shown::waits(at, std::slice::from_ref(interrupt), NO_ANSWER).into();
        match person.repeated_answer(interrupt, answers) {
            Ok(Some(answer)) => {
                self.answer_and_follow(&daemon, (id, Some(interrupt)), answer, at, person, context).await
            }
            Ok(None) => Ok(waits()),
            Err(()) => Ok(person.asks(std::slice::from_ref(interrupt)).unwrap_or_else(waits)),
        }
    }

    /// Sends an answer, and follows the turn.
    async fn answer_and_follow(
        &self,
        daemon: &Daemon,
        (id, interrupt): (InterruptId, Option<&Interrupt>),
        answer: Answer,
        at: WaitingTurn,
        person: Person,
        context: &CallContext,
    ) -> anyhow::Result<CallToolResponse> {
        let client = caller(context);
        if let Some(misfit) = interrupt.and_then(|interrupt| answer.misfit(&interrupt.ask)) {
            return Err(Failure::usage(format!("invalid answer: {misfit}")).into());
        }
        daemon.client.answer(id, &answer, &client).await?;
        let others = daemon.client.interrupts(Some(&at.session.to_string())).await?;
        if !others.is_empty() {
            return Ok(self.wait_response(at, &others, NEEDS_ANSWER, &person));
        }
        let line = SocketLine::attach(daemon, at.session, at.seen).await?.with_client_name(client);
        self.follow(daemon, line, at, person, None, context).await
    }

    /// Returns the turn that waits, or waited, for this interrupt. Returns `None` if the interrupt is unknown.
    async fn waiting_turn(
        &self,
        daemon: &Daemon,
        id: InterruptId,
        interrupt: Option<&Interrupt>,
    ) -> anyhow::Result<Option<WaitingTurn>> {
        let known = self.waiting_turns.of(id);
        let Some(interrupt) = interrupt else { return Ok(known) };
        let session = match known {
            Some(known) => known.session,
            None => shown::top(&daemon.client, interrupt).await?,
        };
        let view = daemon.client.session(&session.to_string()).await?;
        let open = view.live_turn.or(view.session.open_turn.map(|(turn, _)| turn));
        let turn = known.map(|known| known.turn).or(open).unwrap_or(interrupt.turn_id);
        Ok(Some(WaitingTurn { session, turn, seen: view.session.summary.last_seq }))
    }

    /// Returns the answer to send. Returns `None` if the user was asked and did not answer.
    async fn decide(
        &self,
        args: &tools::Answer,
        interrupt: Option<&Interrupt>,
        person: &Person,
    ) -> Result<Option<Answer>, Failure> {
        // A secret must not pass through a model, so the user has to type it in a terminal.
        let is_secret = interrupt.is_some_and(|interrupt| interrupt.ask.is_secret());
        if is_secret && matches!(args.decision, Decision::Approve | Decision::Edit | Decision::Text) {
            let hint = format!("run `agentctl answer {}` in a terminal, where the input is hidden", args.interrupt_id);
            return Err(Failure::usage("only the user can enter a password").hint(hint));
        }
        let may_approve = self.approvals == Approvals::Caller;
        // A question of an MCP server may grant something, like an approval, so a model must not answer it.
        let is_question = interrupt.is_some_and(|interrupt| {
            matches!(interrupt.ask, Ask::Question { .. }) && !interrupt.ask.is_from_mcp_server()
        });
        Ok(Some(match args.decision {
            Decision::Reject => Answer::Reject { reason: args.reason.clone() },
            Decision::Text if interrupt.is_none() => return Err(unknown(&args.interrupt_id)),
            Decision::Text if may_approve || is_question => {
                let text = args.text.clone();
                Answer::Text { text: text.ok_or_else(|| Failure::usage("the decision text requires the field text"))? }
            }
            Decision::Edit if may_approve || is_question => {
                let edited = args.args.clone();
                let edited = edited.ok_or_else(|| Failure::usage("the decision edit requires the field args"))?;
                Answer::Edit { args: edited.into() }
            }
            Decision::Approve if may_approve || is_question => Answer::Approve,
            Decision::Approve if person.is_available() => {
                return match interrupt {
                    Some(interrupt) => Ok(person.decide(interrupt).await),
                    None => Err(unknown(&args.interrupt_id)),
                };
            }
            Decision::Approve | Decision::Edit | Decision::Text | Decision::Wait => {
                return Err(needs_user(&args.interrupt_id));
            }
        }))
    }

    /// Follows a turn until it ends, waits for an answer, or `limit` has passed. If the caller disconnects, a turn
    /// started by this server is cancelled, unless `limit` is set. A turn of another client is never cancelled, even
    /// after the caller has answered in it.
    async fn follow(
        &self,
        daemon: &Daemon,
        line: SocketLine,
        mut at: WaitingTurn,
        mut person: Person,
        limit: Option<Duration>,
        context: &CallContext,
    ) -> anyhow::Result<CallToolResponse> {
        let cancels = limit.is_none() && self.access.has_turn(at.turn);
        let (mut progress, messages) = Progress::of(at.turn, at.seen);
        let work = async {
            let end = until_end(daemon, line, at, &mut progress, &mut person);
            tokio::time::timeout(limit.unwrap_or(Duration::MAX), end).await.ok()
        };
        let outcome = tokio::select! {
            biased;
            () = self.caller_gone(context) => None,
            never = send_progress(&context.peer, context.meta.get_progress_token(), messages) => match never {},
            outcome = work => Some(outcome),
        };
        at.seen = progress.seen;
        match outcome {
            None => {
                if cancels {
                    // Fails if the turn has already ended.
                    let session = at.session.to_string();
                    let cancel = daemon.client.cancel_turn(&session, Some(at.turn));
                    let _ = tokio::time::timeout(CANCEL_LIMIT, cancel).await;
                }
                Err(caller_gone_error().into())
            }
            Some(None) => {
                let pending = daemon.client.interrupts(Some(&at.session.to_string())).await?;
                Ok(self.wait_response(at, &pending, STILL_WAITS, &person))
            }
            Some(Some(end)) => Ok(match end? {
                FollowEnd::Ended(result) => {
                    self.access.record_end(at.turn);
                    shown::ended(at.session, &result).into()
                }
                FollowEnd::Waits(pending) => self.wait_response(at, &pending, NEEDS_ANSWER, &person),
            }),
        }
    }

    /// Returns a form for the user, or else the interrupts that the turn waits for. Stores the position to continue
    /// from.
    fn wait_response(&self, at: WaitingTurn, pending: &[Interrupt], note: &str, person: &Person) -> CallToolResponse {
        for interrupt in pending {
            self.waiting_turns.remember(interrupt.id, at);
        }
        person.asks(pending).unwrap_or_else(|| shown::waits(at, pending, note).into())
    }

    /// Resolves the folder named by a caller. It must be the server's folder or a folder inside it: the user who starts
    /// the server decides which folders agents can access, not the calling model.
    fn folder(&self, named: Option<&str>) -> Result<Option<Mount>, Failure> {
        let Some(named) = named else { return Ok(None) };
        let Some(base) = &self.project else {
            return Err(Failure::usage("this server was started without a folder, so none can be set")
                .hint("the user can start it with `agentctl mcp serve -C DIR`"));
        };
        let path = fs::canonicalize(base.path.join(named)).ok();
        // Links of another machine cannot be resolved here, so only its folder as a whole is used.
        let path = path.filter(|_| daemon::named_host(&self.global).is_none());
        let path = path.filter(|path| path.starts_with(&base.path) && path.is_dir() && path.to_str().is_some());
        match path {
            Some(path) => Ok(Some(Mount { path, writable: base.writable })),
            // The message is the same in all cases, so that it does not reveal which other paths exist.
            None => Err(Failure::usage(format!("no folder {named} at or below {}", base.path.display()))
                .hint("omit it to use the folder of this server")),
        }
    }
}

/// Follows a turn until it ends or waits for an answer.
async fn until_end(
    daemon: &Daemon,
    mut line: SocketLine,
    at: WaitingTurn,
    progress: &mut Progress,
    person: &mut Person,
) -> anyhow::Result<FollowEnd> {
    let session = at.session.to_string();
    loop {
        let watcher = turn::Person {
            asker: person,
            signals: &mut Signals::never(),
            keyboard: &Keyboard::none(),
            asides: &mut Asides::default(),
            route: |_| turn::Destination::Later,
            attention: Attention::Off,
            is_guest: false,
        };
        turn::drive(&mut line, progress, watcher).await?;
        if let Some(result) = progress.result.take() {
            return Ok(FollowEnd::Ended(Box::new(result)));
        }
        let pending = daemon.client.interrupts(Some(&session)).await?;
        if !pending.is_empty() {
            return Ok(FollowEnd::Waits(pending));
        }
        // The interrupt has been answered, so the turn continues or has ended.
        let view = daemon.client.session(&session).await?;
        if view.live_turn.is_none() && view.session.summary.last_seq <= progress.seen {
            let hint = format!("call ask with the session_id {session}");
            anyhow::bail!(Failure::new(ErrorKind::NotFound, "the end of the turn was not reported").hint(hint));
        }
        line = SocketLine::attach(daemon, at.session, progress.seen).await?;
    }
}

fn unknown(id: &str) -> Failure {
    Failure::new(ErrorKind::NotFound, format!("no pending interrupt {id}"))
        .hint("list_sessions shows pending ones; call ask with the session_id to resume one")
}

/// Returns the failure for an approval that the caller may not give.
fn needs_user(id: &str) -> Failure {
    Failure::new(ErrorKind::Rejected, "only the user can approve this, not the calling agent").hint(format!(
        "show the user the request; they approve it with `agentctl answer {id} approve`, or with the text that an MCP \
             server asks for in place of `approve`; then call answer with the \
             decision wait to see how the turn continues. You may reject it."
    ))
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::cmd::mcp::serve::shown::{SessionAccess, Sessions, WaitingTurns};
    use crate::{exit::Exit, flags::Global};

    #[test]
    fn folder_must_be_below_the_configured_root() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let given = home.join("given");
        fs::create_dir_all(given.join("inner")).unwrap();
        fs::create_dir_all(home.join("given-not")).unwrap();
        fs::write(given.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&home, given.join("out")).unwrap();
        let mut server = AgentServer {
            global: Global::default(),
            project: Some(Mount { path: given.clone(), writable: true }),
            approvals: Approvals::Person,
            access: SessionAccess::new(Sessions::Own),
            shutdown: CancellationToken::new(),
            waiting_turns: WaitingTurns::default(),
        };
        let check = |named: &str, expected: Option<&str>| {
            let folder = server.folder(Some(named));
            match expected {
                Some(below) => {
                    let expected = Mount { path: given.join(below).components().collect(), writable: true };
                    assert_eq!(folder, Ok(Some(expected)), "{named}");
                }
                None => assert_eq!(folder.unwrap_err().exit, Exit::Usage, "{named}"),
            }
        };
        check(".", Some(""));
        check("inner", Some("inner"));
        check("inner/../inner", Some("inner"));
        check(given.join("inner").to_str().unwrap(), Some("inner"));
        for outside in ["..", "/", "../given-not", "out", "out/given-not", "file", "none", "/etc", "a\0b"] {
            check(outside, None);
        }
        assert_eq!(server.folder(None), Ok(None));
        server.project = None;
        assert!(server.folder(Some(".")).unwrap_err().hint.unwrap().contains("-C DIR"));
    }
}

use std::{collections::VecDeque, io};

use agentd_core::{
    Timestamp,
    ids::{CallId, SessionId, TraceId, TurnId},
    interrupt::{AnsweredBy, Ask, AskedBy},
    turn::StopReason,
    usage::Usage,
};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::*;
use crate::turn::AtEnd;

/// Next event of the daemon, or of the person meanwhile.
enum Beat {
    Say(Box<EventKind>),
    Note,
    Silence,
    Signal(EndSignal),
    Fail(Failure),
}

/// A line that plays a script, and notes what it is told.
struct Script {
    session: SessionId,
    turn: TurnId,
    beats: VecDeque<Beat>,
    signals: mpsc::Sender<EndSignal>,
    told: Vec<String>,
    pending: bool,
    /// The answers that it will not have before it takes one.
    refusals: usize,
}

impl Script {
    fn event(&self, kind: EventKind) -> Arrival {
        let at = Timestamp::UNIX_EPOCH;
        Arrival::Event(Box::new(Event { session_id: self.session, turn_id: Some(self.turn), seq: 1, at, kind }))
    }
}

impl Line for Script {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Arrival>, Failure>> {
        Box::pin(async move {
            match self.beats.pop_front() {
                Some(Beat::Say(kind)) => Ok(Some(self.event(*kind))),
                Some(Beat::Note) => Ok(Some(Arrival::Note("lost".to_owned()))),
                Some(Beat::Silence) => std::future::pending().await,
                Some(Beat::Fail(failure)) => Err(failure),
                Some(Beat::Signal(signal)) => {
                    let _ = self.signals.try_send(signal);
                    std::future::pending().await
                }
                None => Ok(None),
            }
        })
    }

    fn answer(&mut self, _: InterruptId, answer: Answer) -> BoxFuture<'_, Result<(), Failure>> {
        self.told.push(format!("{answer:?}"));
        let refused = self.refusals.checked_sub(1).map(|left| self.refusals = left);
        let outcome = refused.map_or(Ok(()), |()| Err(Failure::usage("the rules deny it")));
        Box::pin(std::future::ready(outcome))
    }

    fn cancel(&mut self) -> BoxFuture<'_, ()> {
        self.told.push("cancel".to_owned());
        Box::pin(std::future::ready(()))
    }

    fn is_pending(&mut self, _: InterruptId) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(self.pending))
    }

    fn ends_with(&self, turn: TurnId) -> bool {
        turn == self.turn
    }

    fn attach_command(&self) -> String {
        "agentctl attach it".to_owned()
    }
}

/// Notes what it is shown.
#[derive(Default)]
struct Shown(Vec<String>);

impl Renderer for Shown {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.0.push(event.kind.name().to_owned());
        Ok(())
    }

    fn finish(&mut self, _: &TurnResult) -> io::Result<()> {
        self.0.push("finish".to_owned());
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        self.0.push("pause".to_owned());
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        self.0.push("leave".to_owned());
        Ok(())
    }

    fn note(&mut self, _: &str) -> io::Result<()> {
        self.0.push("note".to_owned());
        Ok(())
    }
}

/// A person who gives this answer, or thinks for ever.
struct Person(Option<Answer>);

impl Asker for Person {
    fn ask<'a>(&'a mut self, _: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        match self.0.clone() {
            Some(answer) => Box::pin(std::future::ready(Some(answer))),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// A person who puts every answer off.
struct Later {
    leaves: bool,
}

impl Asker for Later {
    fn ask<'a>(&'a mut self, _: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(std::future::ready(None))
    }

    fn leaves(&self) -> bool {
        self.leaves
    }
}

struct Outcome {
    ended: anyhow::Result<Option<TurnResult>>,
    shown: Vec<String>,
    told: Vec<String>,
}

fn raised(turn: TurnId) -> Interrupt {
    Interrupt {
        id: "0193a5b2-7c1d-7000-8000-000000000009".parse().unwrap(),
        session_id: SessionId::generate(),
        turn_id: turn,
        call_id: Some(CallId::generate()),
        asked_by: AskedBy::default(),
        ask: Ask::Question { question: "Which?".to_owned(), context: None, default: None, required: true },
        raised_at: Timestamp::UNIX_EPOCH,
        deadline: None,
        on_deadline: None,
    }
}

fn ask(turn: TurnId) -> Beat {
    Beat::Say(Box::new(EventKind::InterruptRaised { interrupt: Box::new(raised(turn)) }))
}

fn resolved(turn: TurnId) -> Beat {
    Beat::Say(Box::new(EventKind::InterruptResolved {
        interrupt_id: raised(turn).id,
        call_id: None,
        answer: Answer::Approve,
        by: AnsweredBy::Client("another".to_owned()),
    }))
}

fn end(turn: TurnId) -> Beat {
    let result = TurnResult {
        turn_id: turn,
        trace_id: TraceId::generate(),
        text: String::new(),
        tool_used: false,
        stop_reason: StopReason::Completed,
        error: None,
        steps: 1,
        usage: Usage::default(),
        denials: Vec::new(),
        files: Vec::new(),
        duration_ms: 1,
        only_compacted: false,
    };
    Beat::Say(Box::new(EventKind::TurnEnded { result: Box::new(result) }))
}

async fn play(beats: impl FnOnce(TurnId) -> Vec<Beat>, person: Option<Answer>, pending: bool) -> Outcome {
    play_before(beats, &mut Person(person), pending).await
}

async fn play_before(beats: impl FnOnce(TurnId) -> Vec<Beat>, asker: &mut dyn Asker, pending: bool) -> Outcome {
    play_refusing(0, beats, asker, pending).await
}

/// Before a daemon that will not have so many answers.
async fn play_refusing(
    refusals: usize,
    beats: impl FnOnce(TurnId) -> Vec<Beat>,
    asker: &mut dyn Asker,
    pending: bool,
) -> Outcome {
    let turn = TurnId::generate();
    let (signals, heard) = mpsc::channel(2);
    let session = SessionId::generate();
    let mut line = Script { session, turn, beats: beats(turn).into(), signals, told: Vec::new(), pending, refusals };
    let mut shown = Shown::default();
    let mut signals = Signals::from_heard(heard, AtEnd::CancelUnlessHungUp);
    let person = super::Person { asker, signals: &mut signals, keyboard: &Keyboard::none() };
    let ended = drive(&mut line, &mut shown, person).await;
    Outcome { ended, shown: shown.0, told: line.told }
}

#[tokio::test]
async fn a_turn_is_shown_to_its_end_and_no_further() {
    let outcome = play(|turn| vec![Beat::Note, end(turn), end(turn)], None, true).await;
    assert!(outcome.ended.unwrap().is_some());
    assert_eq!(outcome.shown, ["note", "turn_ended", "finish"]);
}

#[tokio::test]
async fn a_line_without_an_end_tells_so() {
    let outcome = play(|_| Vec::new(), None, true).await;
    assert!(outcome.ended.unwrap().is_none());
}

#[tokio::test]
async fn an_answer_goes_to_the_daemon() {
    let beats = |turn| vec![ask(turn), resolved(turn), end(turn)];
    let outcome = play(beats, Some(Answer::Approve), true).await;
    assert_eq!(outcome.told, ["Approve"]);
    assert_eq!(outcome.shown, ["interrupt_raised", "interrupt_resolved", "turn_ended", "finish"]);
}

#[tokio::test]
async fn an_answer_that_the_daemon_will_not_have_is_asked_for_again() {
    let beats = |turn| vec![ask(turn), resolved(turn), end(turn)];
    let outcome = play_refusing(2, beats, &mut Person(Some(Answer::Approve)), true).await;
    assert_eq!(outcome.told, ["Approve", "Approve", "Approve"]);
    let (note, pause) = ("note", "pause");
    let expected = ["interrupt_raised", note, pause, note, pause, "interrupt_resolved", "turn_ended", "finish"];
    assert_eq!(outcome.shown, expected);
}

#[tokio::test]
async fn an_answer_that_is_put_off_gives_the_prompt_back_where_there_is_one() {
    let beats = |turn| vec![ask(turn), resolved(turn), end(turn)];
    let outcome = play_before(beats, &mut Later { leaves: true }, true).await;
    assert!(outcome.ended.unwrap().is_none());
    assert_eq!(outcome.shown, ["interrupt_raised", "leave", "note"]);
    assert!(outcome.told.is_empty());

    let outcome = play_before(beats, &mut Later { leaves: false }, true).await;
    assert!(outcome.ended.unwrap().is_some());
}

#[tokio::test]
async fn an_answer_from_elsewhere_ends_the_asking() {
    let outcome = play(|turn| vec![ask(turn), Beat::Note, resolved(turn), end(turn)], None, true).await;
    assert!(outcome.ended.unwrap().is_some());
    assert!(outcome.told.is_empty());
    assert_eq!(outcome.shown, ["interrupt_raised", "interrupt_resolved", "turn_ended", "finish"]);
}

#[tokio::test]
async fn the_end_of_the_turn_ends_the_asking() {
    let outcome = play(|turn| vec![ask(turn), end(turn)], None, true).await;
    assert!(outcome.ended.unwrap().is_some());
}

#[tokio::test]
async fn what_was_answered_long_ago_is_not_asked() {
    let outcome = play(|turn| vec![ask(turn), end(turn)], Some(Answer::Approve), false).await;
    assert!(outcome.told.is_empty());
}

#[tokio::test]
async fn the_same_question_is_asked_once() {
    let beats = |turn| vec![ask(turn), ask(turn), end(turn)];
    let outcome = play(beats, Some(Answer::Approve), true).await;
    assert_eq!(outcome.told, ["Approve"]);
}

#[tokio::test]
async fn ctrl_c_cancels_and_reads_on() {
    let outcome = play(|turn| vec![Beat::Signal(EndSignal::Interrupt), end(turn)], None, true).await;
    assert_eq!(outcome.told, ["cancel"]);
    assert!(outcome.ended.unwrap().is_some());
    assert_eq!(outcome.shown, ["note", "turn_ended", "finish"]);
}

#[tokio::test]
async fn ctrl_c_while_asking_cancels() {
    let outcome = play(|turn| vec![ask(turn), Beat::Signal(EndSignal::Interrupt), end(turn)], None, true).await;
    assert_eq!(outcome.told, ["cancel"]);
    assert!(outcome.ended.unwrap().is_some());
}

#[tokio::test]
async fn ctrl_c_twice_leaves() {
    let outcome =
        play(|_| vec![Beat::Signal(EndSignal::Interrupt), Beat::Signal(EndSignal::Interrupt)], None, true).await;
    let failure = Failure::from_any(&outcome.ended.unwrap_err());
    assert_eq!(failure.exit, Exit::Cancelled);
    assert_eq!(outcome.told, ["cancel"]);
}

#[tokio::test]
async fn a_signal_to_end_cancels_and_the_next_one_leaves() {
    let outcome = play(|turn| vec![Beat::Signal(EndSignal::Terminate), end(turn)], None, true).await;
    assert_eq!((outcome.told, outcome.ended.unwrap().is_some()), (vec!["cancel".to_owned()], true));
    let beats = vec![Beat::Signal(EndSignal::Terminate), Beat::Signal(EndSignal::Interrupt)];
    let outcome = play(|_| beats, None, true).await;
    assert_eq!(Failure::from_any(&outcome.ended.unwrap_err()).exit, Exit::Terminated);
    assert_eq!(outcome.told, ["cancel"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_will_not_end_is_left_after_a_while() {
    // Behind the signal the line is silent for ever.
    let outcome = play(|_| vec![Beat::Signal(EndSignal::Terminate), Beat::Silence], None, true).await;
    assert_eq!(Failure::from_any(&outcome.ended.unwrap_err()).exit, Exit::Terminated);
}

#[tokio::test]
async fn a_terminal_that_closes_leaves_the_turn_alone() {
    let outcome = play(|_| vec![Beat::Signal(EndSignal::HangUp)], None, true).await;
    let failure = Failure::from_any(&outcome.ended.unwrap_err());
    assert_eq!(failure.exit, Exit::HungUp);
    assert!(outcome.told.is_empty() && failure.hint.unwrap().contains("agentctl attach it"));
}

#[tokio::test]
async fn a_lost_daemon_is_a_failure_and_nothing_turns_on() {
    let lost = Failure::unreachable("gone").hint("come back");
    let outcome = play(|_| vec![Beat::Fail(lost.clone())], None, true).await;
    assert_eq!(outcome.shown, ["leave"]);
    assert_eq!(Failure::from_any(&outcome.ended.unwrap_err()), lost);
}

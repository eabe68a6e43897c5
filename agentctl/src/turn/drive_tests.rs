use std::{collections::VecDeque, io};

use agentd_core::{
    Timestamp,
    ids::{SessionId, TurnId},
    interrupt::AnsweredBy,
    session::SessionMode,
    turn::StopReason,
};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::*;
use crate::{samples, turn::AtEnd};

/// Next event in a script, from the daemon or the user.
enum Beat {
    Say(Box<EventKind>),
    Note,
    Silence,
    Signal(EndSignal),
    /// Esc, pressed after this delay.
    Escape(Duration, Keyboard),
    Fail(Failure),
}

/// A line that plays a script and records the calls to it.
struct Script {
    session: SessionId,
    turn: TurnId,
    beats: VecDeque<Beat>,
    signals: mpsc::Sender<EndSignal>,
    sent: Vec<String>,
    pending: bool,
}

impl Script {
    fn event(&self, kind: EventKind) -> Arrival {
        let at = Timestamp::UNIX_EPOCH;
        Arrival::Event(Box::new(Event { session_id: self.session, turn_id: Some(self.turn), seq: 1, at, kind }))
    }
}

impl Line for Script {
    async fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        match self.beats.pop_front() {
            Some(Beat::Say(kind)) => Ok(Some(self.event(*kind))),
            Some(Beat::Note) => Ok(Some(Arrival::Note("lost".to_owned()))),
            Some(Beat::Silence) => {
                self.beats.push_front(Beat::Silence);
                std::future::pending().await
            }
            Some(Beat::Escape(after, keyboard)) => {
                tokio::time::sleep(after).await;
                keyboard.press(Key::Escape, std::time::Instant::now());
                std::future::pending().await
            }
            Some(Beat::Fail(failure)) => Err(failure),
            Some(Beat::Signal(signal)) => {
                let _ = self.signals.try_send(signal);
                std::future::pending().await
            }
            None => Ok(None),
        }
    }

    async fn answer(&mut self, _: InterruptId, answer: Answer) -> Result<(), Failure> {
        self.sent.push(format!("{answer:?}"));
        Ok(())
    }

    async fn steer(&mut self, _: String) -> Result<(), Failure> {
        unreachable!("the turn is not steered")
    }

    async fn next_mode(&mut self) -> Result<SessionMode, Failure> {
        unreachable!("no mode is chosen")
    }

    async fn cancel(&mut self) {
        self.sent.push("cancel".to_owned());
    }

    async fn is_pending(&mut self, _: InterruptId) -> bool {
        self.pending
    }

    fn ends_with(&self, turn: TurnId) -> bool {
        turn == self.turn
    }

    fn attach_command(&self) -> String {
        "agentctl attach it".to_owned()
    }
}

/// A renderer that records all calls.
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

    fn leave(&mut self) -> io::Result<()> {
        self.0.push("leave".to_owned());
        Ok(())
    }

    fn note(&mut self, _: &str) -> io::Result<()> {
        self.0.push("note".to_owned());
        Ok(())
    }
}

/// A user who gives this answer, or never answers.
struct Person(Option<Answer>);

impl Asker for Person {
    fn ask<'a>(&'a mut self, _: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        match self.0.clone() {
            Some(answer) => Box::pin(std::future::ready(Some(answer))),
            None => Box::pin(std::future::pending()),
        }
    }
}

struct Outcome {
    ended: anyhow::Result<Option<TurnResult>>,
    shown: Vec<String>,
    sent: Vec<String>,
}

fn raised(turn: TurnId) -> Interrupt {
    let id = "0193a5b2-7c1d-7000-8000-000000000009".parse().unwrap();
    Interrupt { id, turn_id: turn, ..samples::interrupt(samples::question("Which?", &[])) }
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
    end_by(StopReason::Completed, turn)
}

fn end_by(stop_reason: StopReason, turn: TurnId) -> Beat {
    let result = TurnResult { turn_id: turn, ..samples::result(stop_reason) };
    Beat::Say(Box::new(EventKind::TurnEnded { result: Box::new(result) }))
}

async fn play(beats: impl FnOnce(TurnId) -> Vec<Beat>, person: Option<Answer>, pending: bool) -> Outcome {
    play_typing(&Keyboard::none(), beats, person, pending).await
}

/// Plays a script with a keyboard.
async fn play_typing(
    keyboard: &Keyboard,
    beats: impl FnOnce(TurnId) -> Vec<Beat>,
    person: Option<Answer>,
    pending: bool,
) -> Outcome {
    let turn = TurnId::generate();
    let (signals, receiver) = mpsc::channel(4);
    let session = SessionId::generate();
    let mut line = Script { session, turn, beats: beats(turn).into(), signals, sent: Vec::new(), pending };
    let mut shown = Shown::default();
    let person = super::Person {
        asker: &mut Person(person),
        signals: &mut Signals::from_receiver(receiver, AtEnd::CancelUnlessHungUp),
        keyboard,
        asides: &mut Asides::default(),
        route: |_| Destination::Later,
        attention: Attention::Off,
        is_guest: false,
    };
    let ended = drive(&mut line, &mut shown, person).await;
    Outcome { ended, shown: shown.0, sent: line.sent }
}

#[tokio::test]
async fn turns_are_followed_until_they_end() {
    let check = async |beats: fn(TurnId) -> Vec<Beat>, answer: Option<Answer>, sent: &[&str], shown: &[&str]| {
        let outcome = play(beats, answer, true).await;
        assert!(outcome.ended.unwrap().is_some());
        assert_eq!(outcome.sent, sent, "{shown:?}");
        assert_eq!(outcome.shown, [shown, &["finish"][..]].concat());
    };
    let approve = Some(Answer::Approve);
    let (raised, settled, ended) = ("interrupt_raised", "interrupt_resolved", "turn_ended");
    check(|turn| vec![Beat::Note, end(turn), end(turn)], None, &[], &["note", ended]).await;
    let answered: fn(TurnId) -> Vec<Beat> = |turn| vec![ask(turn), resolved(turn), end(turn)];
    check(answered, approve.clone(), &["Approve"], &[raised, settled, ended]).await;
    // An answer from another client or the end of the turn dismisses a question; a repeated question is not asked
    // again.
    let answered_elsewhere: fn(TurnId) -> Vec<Beat> = |turn| vec![ask(turn), Beat::Note, resolved(turn), end(turn)];
    check(answered_elsewhere, None, &[], &[raised, "note", settled, ended]).await;
    check(|turn| vec![ask(turn), end(turn)], None, &[], &[raised, ended]).await;
    check(|turn| vec![ask(turn), ask(turn), end(turn)], approve.clone(), &["Approve"], &[raised, raised, ended]).await;
    let replayed_outcome = play(|turn| vec![ask(turn), end(turn)], approve, false).await;
    assert!(replayed_outcome.sent.is_empty());
    // Ctrl-C cancels the turn, also during a question, and events are still read. A cancellation by another client is
    // reported.
    let cancelled: fn(TurnId) -> Vec<Beat> =
        |turn| vec![Beat::Signal(EndSignal::Interrupt), end_by(StopReason::Cancelled, turn)];
    check(cancelled, None, &["cancel"], &["note", ended]).await;
    let asking: fn(TurnId) -> Vec<Beat> = |turn| vec![ask(turn), Beat::Signal(EndSignal::Interrupt), end(turn)];
    check(asking, None, &["cancel"], &[raised, "note", ended]).await;
    check(|turn| vec![end_by(StopReason::Cancelled, turn)], None, &[], &[ended, "note"]).await;
}

#[tokio::test]
async fn stream_ending_early_yields_no_result() {
    let outcome = play(|_| Vec::new(), None, true).await;
    assert_eq!(outcome.shown, ["leave"]);
    assert!(outcome.ended.unwrap().is_none());
}

#[tokio::test]
async fn escape_cancels_once_without_leaving() {
    let keyboard = Keyboard::scripted();
    let keys = [Key::Char('a'), Key::Escape, Key::Escape, Key::Escape, Key::Char('b'), Key::Enter];
    keys.into_iter().for_each(|key| keyboard.press(key, std::time::Instant::now()));
    let outcome = play_typing(&keyboard, |turn| vec![end(turn)], None, true).await;
    assert_eq!((outcome.sent, outcome.ended.unwrap().is_some()), (vec!["cancel".to_owned()], true));
    let waiting = keyboard.typed(TypeAhead::next_message);
    assert_eq!(waiting.as_deref(), Some("ab"), "input typed during a cancellation is not sent");
}

#[tokio::test(start_paused = true)]
async fn escape_right_after_a_question_cancels_nothing() {
    let play_escape = async |after: Duration| {
        let keyboard = Keyboard::scripted();
        let esc = Beat::Escape(after, keyboard.clone());
        let beats = |turn| vec![ask(turn), resolved(turn), esc, end(turn)];
        play_typing(&keyboard, beats, None, true).await.sent
    };
    assert_eq!(play_escape(Duration::from_millis(100)).await, [""; 0]);
    assert_eq!(play_escape(Duration::from_millis(900)).await, ["cancel"]);
}

#[tokio::test(start_paused = true)]
async fn turn_that_does_not_end_is_abandoned_after_a_delay() {
    // After the signal, no more events arrive.
    let outcome = play(|_| vec![Beat::Signal(EndSignal::Terminate), Beat::Silence], None, true).await;
    assert_eq!(Failure::from_any(&outcome.ended.unwrap_err()).exit, Exit::Terminated);
}

#[tokio::test]
async fn lost_daemon_is_a_failure_and_clears_the_display() {
    let lost = Failure::unreachable("gone").hint("come back");
    let outcome = play(|_| vec![Beat::Fail(lost.clone())], None, true).await;
    assert_eq!(outcome.shown, ["leave"]);
    assert_eq!(Failure::from_any(&outcome.ended.unwrap_err()), lost);
}

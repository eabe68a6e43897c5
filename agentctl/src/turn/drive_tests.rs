use std::{collections::VecDeque, io};

use agentd_core::{
    Timestamp,
    ids::{SessionId, TurnId},
    interrupt::AnsweredBy,
    turn::StopReason,
};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::*;
use crate::{samples, turn::AtEnd};

/// Next event of the daemon, or of the person meanwhile.
enum Beat {
    Say(Box<EventKind>),
    Note,
    Silence,
    Signal(EndSignal),
    /// Esc, after that time.
    Escape(Duration, Keyboard),
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
    async fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        match self.beats.pop_front() {
            Some(Beat::Say(kind)) => Ok(Some(self.event(*kind))),
            Some(Beat::Note) => Ok(Some(Arrival::Note("lost".to_owned()))),
            Some(Beat::Silence) => std::future::pending().await,
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
        self.told.push(format!("{answer:?}"));
        let refused = self.refusals.checked_sub(1).map(|left| self.refusals = left);
        refused.map_or(Ok(()), |()| Err(Failure::usage("the rules deny it")))
    }

    async fn steer(&mut self, text: String) -> Result<(), Failure> {
        let is_late = text.contains("late");
        self.told.push(format!("steer {text}"));
        if is_late { Err(Failure::usage("it has ended")) } else { Ok(()) }
    }

    async fn next_mode(&mut self) -> Result<SessionMode, Failure> {
        self.told.push("next mode".to_owned());
        Ok(SessionMode::Plan)
    }

    async fn cancel(&mut self) {
        self.told.push("cancel".to_owned());
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
    play_whole(&Keyboard::none(), 0, beats, &mut Person(person), pending, false).await
}

/// Before a daemon that will not have so many answers.
async fn play_refusing(refusals: usize, beats: impl FnOnce(TurnId) -> Vec<Beat>, asker: &mut dyn Asker) -> Outcome {
    play_whole(&Keyboard::none(), refusals, beats, asker, true, false).await
}

/// With keys.
async fn play_typing(keyboard: &Keyboard, beats: impl FnOnce(TurnId) -> Vec<Beat>, asker: &mut dyn Asker) -> Outcome {
    play_whole(keyboard, 0, beats, asker, true, false).await
}

async fn play_whole(
    keyboard: &Keyboard,
    refusals: usize,
    beats: impl FnOnce(TurnId) -> Vec<Beat>,
    asker: &mut dyn Asker,
    pending: bool,
    is_guest: bool,
) -> Outcome {
    let turn = TurnId::generate();
    let (signals, heard) = mpsc::channel(4);
    let session = SessionId::generate();
    let mut line = Script { session, turn, beats: beats(turn).into(), signals, told: Vec::new(), pending, refusals };
    let mut shown = Shown::default();
    let at_end = if is_guest { AtEnd::Leave } else { AtEnd::CancelUnlessHungUp };
    let mut signals = Signals::from_heard(heard, at_end);
    let person = super::Person {
        asker,
        signals: &mut signals,
        keyboard,
        may_steer: |text| !text.starts_with('/'),
        attention: Attention::Off,
        is_guest,
    };
    let ended = drive(&mut line, &mut shown, person).await;
    Outcome { ended, shown: shown.0, told: line.told }
}

#[tokio::test]
async fn turns_are_followed_to_their_end() {
    let check = async |beats: fn(TurnId) -> Vec<Beat>, answer: Option<Answer>, told: &[&str], shown: &[&str]| {
        let outcome = play(beats, answer, true).await;
        assert!(outcome.ended.unwrap().is_some());
        assert_eq!(outcome.told, told, "{shown:?}");
        assert_eq!(outcome.shown, [shown, &["finish"][..]].concat());
    };
    let approve = Some(Answer::Approve);
    let (raised, settled, ended) = ("interrupt_raised", "interrupt_resolved", "turn_ended");
    check(|turn| vec![Beat::Note, end(turn), end(turn)], None, &[], &["note", ended]).await;
    let answered: fn(TurnId) -> Vec<Beat> = |turn| vec![ask(turn), resolved(turn), end(turn)];
    check(answered, approve.clone(), &["Approve"], &[raised, settled, ended]).await;
    // An answer from elsewhere, or the end of the turn, ends the asking; what was asked once is asked no more.
    let elsewhere: fn(TurnId) -> Vec<Beat> = |turn| vec![ask(turn), Beat::Note, resolved(turn), end(turn)];
    check(elsewhere, None, &[], &[raised, "note", settled, ended]).await;
    check(|turn| vec![ask(turn), end(turn)], None, &[], &[raised, ended]).await;
    check(|turn| vec![ask(turn), ask(turn), end(turn)], approve.clone(), &["Approve"], &[raised, raised, ended]).await;
    let long_ago = play(|turn| vec![ask(turn), end(turn)], approve, false).await;
    assert!(long_ago.told.is_empty());
    // Ctrl-C cancels and reads on, while a question is asked too. What somebody else cancelled is told as such.
    let cancelled: fn(TurnId) -> Vec<Beat> =
        |turn| vec![Beat::Signal(EndSignal::Interrupt), end_by(StopReason::Cancelled, turn)];
    check(cancelled, None, &["cancel"], &["note", ended]).await;
    let asking: fn(TurnId) -> Vec<Beat> = |turn| vec![ask(turn), Beat::Signal(EndSignal::Interrupt), end(turn)];
    check(asking, None, &["cancel"], &[raised, "note", ended]).await;
    check(|turn| vec![end_by(StopReason::Cancelled, turn)], None, &[], &[ended, "note"]).await;
}

#[tokio::test]
async fn a_line_without_an_end_tells_so() {
    let outcome = play(|_| Vec::new(), None, true).await;
    assert!(outcome.ended.unwrap().is_none());
}

#[tokio::test]
async fn an_answer_that_the_daemon_will_not_have_is_asked_for_again() {
    let beats = |turn| vec![ask(turn), resolved(turn), end(turn)];
    let outcome = play_refusing(2, beats, &mut Person(Some(Answer::Approve))).await;
    assert_eq!(outcome.told, ["Approve", "Approve", "Approve"]);
    let (note, pause) = ("note", "pause");
    let expected = ["interrupt_raised", note, pause, note, pause, "interrupt_resolved", "turn_ended", "finish"];
    assert_eq!(outcome.shown, expected);
}

#[tokio::test]
async fn an_answer_that_is_put_off_gives_the_prompt_back_where_there_is_one() {
    let beats = |turn| vec![ask(turn), resolved(turn), end(turn)];
    let outcome = play_refusing(0, beats, &mut Later { leaves: true }).await;
    assert!(outcome.ended.unwrap().is_none());
    assert_eq!(outcome.shown, ["interrupt_raised", "leave", "note"]);
    assert!(outcome.told.is_empty());

    let outcome = play_refusing(0, beats, &mut Later { leaves: false }).await;
    assert!(outcome.ended.unwrap().is_some());
}

fn press(keyboard: &Keyboard, keys: &str) {
    for c in keys.chars() {
        let key = match c {
            '⏎' => Key::Enter,
            '⇥' => Key::Tab,
            '⎋' => Key::Escape,
            c => Key::Char(c),
        };
        keyboard.press(key, std::time::Instant::now());
    }
}

fn waiting(keyboard: &Keyboard) -> Vec<String> {
    keyboard.typed(|typed| std::iter::from_fn(|| typed.next_message()).collect())
}

#[tokio::test]
async fn the_turn_is_given_what_was_typed_for_it_and_the_rest_waits() {
    let keyboard = Keyboard::scripted();
    press(&keyboard, "now⏎kept⇥/help⏎too late⏎and now⏎half");
    let outcome = play_typing(&keyboard, |turn| vec![end(turn)], &mut Person(None)).await;
    assert!(outcome.ended.unwrap().is_some());
    assert_eq!(outcome.told, ["steer now", "steer too late", "steer and now"]);
    assert_eq!(waiting(&keyboard), ["kept", "/help", "too late"]);
    assert_eq!(keyboard.typed(TypeAhead::take_line), "half");
}

/// A person who speaks to the turn in place of an answer.
struct Speaker(Keyboard);

impl Asker for Speaker {
    fn ask<'a>(&'a mut self, _: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        let press = |key| crate::keyboard::Press { key, at: std::time::Instant::now() };
        for key in "wait".chars().map(Key::Char).chain([Key::Enter]) {
            self.0.typed(|typed| typed.press(press(key)));
        }
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_question_keeps_nobody_from_speaking_to_the_turn() {
    let keyboard = Keyboard::scripted();
    let mut speaker = Speaker(keyboard.clone());
    let beats = |turn| vec![ask(turn), resolved(turn), end(turn)];
    let outcome = play_typing(&keyboard, beats, &mut speaker).await;
    assert_eq!((outcome.told, outcome.ended.unwrap().is_some()), (vec!["steer wait".to_owned()], true));
}

#[tokio::test]
async fn shift_tab_sets_the_next_mode_and_keeps_the_line() {
    let keyboard = Keyboard::scripted();
    press(&keyboard, "half");
    keyboard.press(Key::Mode, std::time::Instant::now());
    press(&keyboard, " a line⏎");
    let outcome = play_typing(&keyboard, |turn| vec![end(turn)], &mut Person(None)).await;
    assert_eq!(outcome.told, ["next mode", "steer half a line"]);
    assert_eq!(outcome.shown[0], "note");
}

#[tokio::test]
async fn escape_cancels_once_and_never_leaves() {
    let keyboard = Keyboard::scripted();
    press(&keyboard, "half⎋⎋⎋ a line⏎");
    let outcome = play_typing(&keyboard, |turn| vec![end(turn)], &mut Person(None)).await;
    assert_eq!((outcome.told, outcome.ended.unwrap().is_some()), (vec!["cancel".to_owned()], true));
    assert_eq!(waiting(&keyboard), ["half a line"], "a turn that is being cancelled is given nothing");
}

#[tokio::test(start_paused = true)]
async fn an_esc_that_was_meant_for_a_question_cancels_nothing() {
    let play_escape = async |after: Duration| {
        let keyboard = Keyboard::scripted();
        let esc = Beat::Escape(after, keyboard.clone());
        let beats = |turn| vec![ask(turn), resolved(turn), esc, end(turn)];
        play_typing(&keyboard, beats, &mut Person(None)).await.told
    };
    assert_eq!(play_escape(Duration::from_millis(100)).await, [""; 0]);
    assert_eq!(play_escape(Duration::from_millis(900)).await, ["cancel"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_somebody_else_is_cancelled_by_the_second_ctrl_c() {
    let keyboard = Keyboard::scripted();
    let play =
        async |beats: fn(TurnId) -> Vec<Beat>| play_whole(&keyboard, 0, beats, &mut Person(None), true, true).await;
    const CTRL_C: Beat = Beat::Signal(EndSignal::Interrupt);
    assert_eq!(play(|turn| vec![CTRL_C, end(turn)]).await.told, [""; 0]);
    assert_eq!(play(|turn| vec![CTRL_C, CTRL_C, end(turn)]).await.told, ["cancel"]);
    // Ctrl-D leaves it alone, unless a line is being written.
    keyboard.press(Key::Leave, std::time::Instant::now());
    let left = play(|_| vec![Beat::Silence]).await;
    assert!(left.ended.unwrap().is_none() && left.told.is_empty());
    assert_eq!(left.shown, ["leave", "note"]);
    // So does `q`, where nothing follows it.
    press(&keyboard, "q");
    assert_eq!(play(|_| vec![Beat::Silence]).await.shown, ["leave", "note"]);
    press(&keyboard, "q⏎");
    assert_eq!(play(|_| vec![Beat::Silence]).await.shown, ["leave", "note"]);
    press(&keyboard, "quick⏎");
    let spoken = play(|turn| vec![end(turn)]).await;
    assert!(spoken.ended.unwrap().is_some());
    assert_eq!(spoken.told, ["steer quick"]);
    press(&keyboard, "half");
    keyboard.press(Key::Leave, std::time::Instant::now());
    assert!(play(|turn| vec![end(turn)]).await.ended.unwrap().is_some());
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

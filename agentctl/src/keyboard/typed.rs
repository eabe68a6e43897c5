//! Input that the user types while a turn runs: messages for the turn, messages that wait for its end, and the input
//! that is being written. Does no I/O, except for the history file.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{Key, Press};
use crate::composer::{Composer, join_lines};

/// Maximum number of messages that wait. With more, Enter only breaks the line.
const MAX_MESSAGES: usize = 64;

/// Pause in typing after which keys may answer a question. Before it, the user has not read the question yet.
pub(crate) const STILLNESS: Duration = Duration::from_millis(700);

const EDITOR_LATER: &str = "the editor opens at the prompt, after the turn; your text stays here";
const PICTURE_LATER: &str = "pictures are pasted at the prompt, after the turn; your text stays here";

/// Input that was typed and not sent yet.
#[derive(Debug, Default)]
pub(crate) struct TypeAhead {
    /// Messages for the running turn that were not passed to it yet.
    steers: VecDeque<String>,
    /// Messages that were passed to it, and that no model has read yet.
    unread: VecDeque<String>,
    /// Input with which the turn began, if it began here.
    sent: Option<String>,
    /// Messages that wait for the end of the turn, in order.
    messages: VecDeque<String>,
    /// Input that is being written.
    pub(crate) composer: Composer,
    /// Time of the last key that was typed here.
    last: Option<Instant>,
    /// Note about a key that works at the prompt only.
    pub(crate) note: Option<&'static str>,
    /// True while an answer to a question is being typed.
    pub(crate) is_answering: bool,
}

impl TypeAhead {
    /// Handles a key.
    pub(crate) fn press(&mut self, Press { key, at }: Press) {
        self.last = Some(at);
        let is_full = self.waiting() >= MAX_MESSAGES;
        if key == Key::Up && self.can_take_back() {
            self.take_back();
            return;
        }
        match self.composer.press(key) {
            Some(Key::Enter | Key::Tab) if self.composer.is_blank() => self.composer.write(""),
            Some(Key::Enter) if is_full => _ = self.composer.press(Key::Break),
            Some(Key::Enter) => self.steers.push_back(self.composer.submit()),
            Some(Key::Tab) if !is_full => self.messages.push_back(self.composer.submit()),
            Some(Key::Open) => self.note = Some(EDITOR_LATER),
            Some(Key::Picture) => self.note = Some(PICTURE_LATER),
            _ => {}
        }
    }

    /// Moves the message that was queued last back into the empty input.
    fn take_back(&mut self) {
        if let Some(message) = self.messages.pop_back().or_else(|| self.steers.pop_back()) {
            self.composer.write(&message);
        }
    }

    /// Returns true while an input is being written or searched for.
    pub(crate) fn is_writing(&self) -> bool {
        self.composer.is_writing() || self.composer.is_choosing()
    }

    /// Returns true if a key pressed at `at` is meant for a question shown at `shown`: a typing pause preceded it, and
    /// no input is being written.
    pub(crate) fn leaves(&self, at: Instant, shown: Instant) -> bool {
        let since = self.last.map_or(shown, |last| last.max(shown));
        !self.is_writing() && at >= since + STILLNESS
    }

    /// Returns the number of messages that no model has read.
    pub(crate) fn waiting(&self) -> usize {
        self.unread.len() + self.steers.len() + self.messages.len()
    }

    /// Returns true if Up takes a message back.
    pub(crate) fn can_take_back(&self) -> bool {
        !(self.is_writing() || self.steers.is_empty() && self.messages.is_empty())
    }

    /// Adds a message for the running turn, before all others.
    pub(crate) fn speak(&mut self, message: String) {
        self.steers.push_front(message);
    }

    /// Returns the next message for the running turn.
    pub(crate) fn next_steer(&mut self) -> Option<String> {
        self.steers.pop_front().map(|message| join_lines(&message))
    }

    /// Adds a message that was passed to the turn.
    pub(crate) fn given(&mut self, message: String) {
        self.unread.push_back(message);
    }

    /// Removes the oldest passed message, which a model has read.
    pub(crate) fn read(&mut self) {
        self.unread.pop_front();
    }

    /// Queues a message for the end of the turn.
    pub(crate) fn defer(&mut self, message: String) {
        self.messages.push_back(message);
    }

    /// Forgets the passed messages at the end of the turn, because they are in the history.
    pub(crate) fn end_turn(&mut self) {
        self.unread.clear();
    }

    /// Stores the line with which a turn starts.
    pub(crate) fn begin_turn(&mut self, line: String) {
        self.sent = Some(line);
    }

    /// Queues withdrawn messages of the turn, before those that were not passed to it.
    pub(crate) fn withdraw(&mut self, input: Option<String>, added: Vec<String>) {
        self.unread.clear();
        let input = input.map(|input| self.sent.take().unwrap_or(input));
        let waiting = std::mem::take(&mut self.steers);
        let taken_back = input.into_iter().chain(added).filter(|message| !message.is_empty());
        self.steers = taken_back.chain(waiting).collect();
    }

    /// Forgets the line with which the turn started, and returns true if it was withdrawn.
    pub(crate) fn is_withdrawn(&mut self) -> bool {
        self.sent.take().is_none()
    }

    /// Returns the waiting message that a model reads first.
    pub(crate) fn first_waiting(&self) -> Option<&str> {
        self.unread.iter().chain(&self.steers).chain(&self.messages).next().map(String::as_str)
    }

    /// Removes the input if it equals `line`, and returns true if it did.
    pub(crate) fn take_if(&mut self, line: &str) -> bool {
        let is_same = self.composer.is_exactly(line);
        if is_same {
            self.composer.take();
        }
        is_same
    }

    /// Returns the next waiting message.
    pub(crate) fn next_message(&mut self) -> Option<String> {
        self.steers.pop_front().or_else(|| self.messages.pop_front()).map(|message| join_lines(&message))
    }

    /// Returns the input that is being written, so that the prompt can continue it.
    pub(crate) fn take_line(&mut self) -> String {
        self.composer.take()
    }

    /// Moves the waiting messages into the input, so that the user decides whether to send them.
    pub(crate) fn put_back(&mut self) {
        let line = self.take_line();
        let parts = self.steers.drain(..).chain(self.messages.drain(..)).chain([line]).filter(|part| !part.is_empty());
        let text = parts.collect::<Vec<_>>().join("\n");
        self.composer.write(&text);
    }

    /// Returns a message that could not be sent to the input, before all others.
    pub(crate) fn unsent(&mut self, message: String) {
        self.steers.push_front(message);
        self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys as text: `⏎` is Enter, `⇥` is Tab, `↑` is Up, `↵` is Alt-Enter, `⌫` is Backspace, `⌦` cuts the row.
    fn typed(keys: &str) -> TypeAhead {
        let mut typed = TypeAhead::default();
        for c in keys.chars() {
            let key = match c {
                '⏎' => Key::Enter,
                '⇥' => Key::Tab,
                '↑' => Key::Up,
                '↵' => Key::Break,
                '⌫' => Key::Backspace,
                '⌦' => Key::Erase,
                c => Key::Char(c),
            };
            typed.press(Press { key, at: Instant::now() });
        }
        typed
    }

    #[track_caller]
    fn check(mut typed: TypeAhead, messages: &[&str], line: &str) {
        let waiting: Vec<String> = std::iter::from_fn(|| typed.next_message()).collect();
        assert_eq!(waiting, messages);
        assert_eq!(typed.take_line(), line);
    }

    #[test]
    fn each_typed_line_is_a_message_and_the_rest_stays() {
        check(typed("one⏎two words⏎thr"), &["one", "two words"], "thr");
        check(typed("⏎  ⏎"), &[], "");
        check(typed("漢字x⌫⌫⏎"), &["漢"], "");
        check(typed("all gone⌦kept"), &[], "kept");
        check(typed("a↵b⏎"), &["a\nb"], "");
        check(typed("goes on \\⏎and ends⏎"), &["goes on \nand ends"], "");
        check(typed("```⏎code⏎```⏎"), &["```\ncode\n```"], "");
    }

    #[test]
    fn queued_message_is_taken_back_before_the_history() {
        check(typed("one⏎two⇥↑!⇥"), &["one", "two!"], "");
        check(typed("one⏎↑↑"), &[], "one");
        let mut sent = typed("one⏎");
        sent.next_steer();
        sent.press(Press { key: Key::Up, at: Instant::now() });
        assert_eq!(sent.take_line(), "one", "steers are in the history");
    }

    #[test]
    fn paste_does_not_submit() {
        let mut pasted = typed("see: ");
        pasted.press(Press { key: Key::Paste("a\r\nb\u{1b}\n".into()), at: Instant::now() });
        check(pasted, &[], "see: a\nb\n");
    }

    #[test]
    fn question_gets_keys_only_after_a_typing_pause() {
        let shown = Instant::now();
        let press = |at| Press { key: Key::Char('y'), at };
        let mut typed = TypeAhead::default();
        assert!(!typed.leaves(shown, shown) && typed.leaves(shown + STILLNESS, shown));
        typed.press(press(shown + STILLNESS / 2));
        let late = shown + 10 * STILLNESS;
        assert!(!typed.leaves(late, shown), "a line is being written");
        typed.press(Press { key: Key::Erase, at: late });
        assert!(!typed.leaves(late + STILLNESS / 2, shown));
        assert!(typed.leaves(late + STILLNESS, shown));
    }
}

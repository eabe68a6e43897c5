//! Words that a person types while a turn runs: messages for it, messages that wait for its end, and the line that is being
//! written. Pure.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{Key, Press};
use crate::input::MAX_PROMPT_BYTES;

/// Messages that wait at the most. Enter only breaks the line after that.
const MOST_MESSAGES: usize = 64;

/// The stillness before keys may answer a question: whoever is typing has not read it yet.
pub(crate) const STILLNESS: Duration = Duration::from_millis(700);

/// All that was typed and not sent yet.
#[derive(Debug, Default)]
pub(crate) struct TypeAhead {
    /// Messages for the turn that runs, which it has not been given yet.
    steers: VecDeque<String>,
    /// Messages that it was given, and that no model has read yet.
    unread: VecDeque<String>,
    /// The line that the turn began with, if it began here.
    sent: Option<String>,
    /// Messages that wait for its end, in their order.
    messages: VecDeque<String>,
    /// The line that is being written.
    line: String,
    /// The place in it, in bytes, at which the next key writes.
    at: usize,
    /// When a key last came here.
    last: Option<Instant>,
}

impl TypeAhead {
    /// Takes in a key.
    pub(crate) fn press(&mut self, Press { key, at }: Press) {
        self.last = Some(at);
        match key {
            Key::Char(c) => self.push(&[c]),
            Key::Paste(text) => {
                let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', " ");
                let text: Vec<char> = text.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
                self.push(&text);
            }
            Key::Break => self.push(&['\n']),
            Key::Enter if self.line.trim().is_empty() => self.write(String::new()),
            Key::Enter if !is_whole(&self.line) || self.waiting() >= MOST_MESSAGES => self.push(&['\n']),
            Key::Enter => {
                let line = self.take_line();
                self.steers.push_back(line);
            }
            Key::Tab if self.line.trim().is_empty() => self.write(String::new()),
            Key::Tab if self.waiting() >= MOST_MESSAGES => {}
            Key::Tab => {
                let line = self.take_line();
                self.messages.push_back(line);
            }
            Key::Up => self.take_back(),
            Key::Backspace => self.erase_from(self.before()),
            Key::Delete => {
                let after = self.after();
                self.line.replace_range(self.at..after, "");
            }
            Key::Word => {
                let rest = self.line[..self.at].trim_end();
                self.erase_from(rest.rfind(char::is_whitespace).map_or(0, |at| at + 1));
            }
            Key::Left => self.at = self.before(),
            Key::Right => self.at = self.after(),
            Key::Home => self.at = self.row_start(),
            Key::End => self.at += self.line[self.at..].find('\n').unwrap_or(self.line.len() - self.at),
            Key::Erase => self.write(String::new()),
            Key::Escape | Key::Leave | Key::Suspend | Key::Mode | Key::Down => {}
        }
    }

    /// Puts the message that was kept last back into the line, where that is empty.
    fn take_back(&mut self) {
        if !self.is_writing()
            && let Some(message) = self.messages.pop_back().or_else(|| self.steers.pop_back())
        {
            self.write(message);
        }
    }

    /// Puts a line in place of what is being written.
    fn write(&mut self, line: String) {
        self.at = line.len();
        self.line = line;
    }

    /// The place before the character to the left.
    fn before(&self) -> usize {
        self.line[..self.at].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    /// The place behind the character to the right.
    fn after(&self) -> usize {
        self.at + self.line[self.at..].chars().next().map_or(0, char::len_utf8)
    }

    fn row_start(&self) -> usize {
        self.line[..self.at].rfind('\n').map_or(0, |at| at + 1)
    }

    fn erase_from(&mut self, start: usize) {
        self.line.replace_range(start..self.at, "");
        self.at = start;
    }

    fn push(&mut self, text: &[char]) {
        let bytes: usize = text.iter().map(|c| c.len_utf8()).sum();
        if self.line.len() + bytes <= MAX_PROMPT_BYTES {
            self.line.insert_str(self.at, &text.iter().collect::<String>());
            self.at += bytes;
        }
    }

    /// True while a line is being written.
    pub(crate) fn is_writing(&self) -> bool {
        !self.line.is_empty()
    }

    /// True if a key of this moment is meant for a question that has been on the screen since then: the person was still
    /// before it, and writes nothing else.
    pub(crate) fn leaves(&self, at: Instant, shown: Instant) -> bool {
        let since = self.last.map_or(shown, |last| last.max(shown));
        !self.is_writing() && at >= since + STILLNESS
    }

    /// The number of messages that no model has read.
    pub(crate) fn waiting(&self) -> usize {
        self.unread.len() + self.steers.len() + self.messages.len()
    }

    /// True if Up would take a message back.
    pub(crate) fn can_take_back(&self) -> bool {
        !(self.is_writing() || self.steers.is_empty() && self.messages.is_empty())
    }

    /// Adds a message for the turn that runs, before all others.
    pub(crate) fn speak(&mut self, message: String) {
        self.steers.push_front(message);
    }

    /// The next message for the turn that runs.
    pub(crate) fn next_steer(&mut self) -> Option<String> {
        self.steers.pop_front().map(|message| join_lines(&message))
    }

    /// The turn was given a message.
    pub(crate) fn given(&mut self, message: String) {
        self.unread.push_back(message);
    }

    /// A model has read the message that the turn was given first.
    pub(crate) fn read(&mut self) {
        self.unread.pop_front();
    }

    /// A message for the turn that runs waits for its end after all.
    pub(crate) fn defer(&mut self, message: String) {
        self.messages.push_back(message);
    }

    /// The turn has ended: what it was given is in the history.
    pub(crate) fn end_turn(&mut self) {
        self.unread.clear();
    }

    /// Takes note of the line that a turn begins with.
    pub(crate) fn begin_turn(&mut self, line: String) {
        self.sent = Some(line);
    }

    /// Takes note that words of the turn were taken back: they wait before all that it was not given.
    pub(crate) fn withdraw(&mut self, input: Option<String>, added: Vec<String>) {
        self.unread.clear();
        let input = input.map(|input| self.sent.take().unwrap_or(input));
        let waiting = std::mem::take(&mut self.steers);
        let taken_back = input.into_iter().chain(added).filter(|message| !message.is_empty());
        self.steers = taken_back.chain(waiting).collect();
    }

    /// Forgets the line that the turn began with, and returns true if it was taken back.
    pub(crate) fn is_withdrawn(&mut self) -> bool {
        self.sent.take().is_none()
    }

    /// The row that is being written: its parts before and behind the place at which the next key writes.
    pub(crate) fn row(&self) -> (&str, &str) {
        let behind = &self.line[self.at..];
        (&self.line[self.row_start()..self.at], behind.split('\n').next().unwrap_or_default())
    }

    /// The message that a model reads first of those that wait.
    pub(crate) fn first_waiting(&self) -> Option<&str> {
        self.unread.iter().chain(&self.steers).chain(&self.messages).next().map(String::as_str)
    }

    /// Takes the line away where it is just this, and tells whether it was.
    pub(crate) fn take_if(&mut self, line: &str) -> bool {
        let is_it = self.line == line;
        if is_it {
            self.take_line();
        }
        is_it
    }

    /// The next message that waits.
    pub(crate) fn next_message(&mut self) -> Option<String> {
        self.steers.pop_front().or_else(|| self.messages.pop_front()).map(|message| join_lines(&message))
    }

    /// The line that is being written, for the prompt to go on with.
    pub(crate) fn take_line(&mut self) -> String {
        self.at = 0;
        std::mem::take(&mut self.line)
    }

    /// Puts the messages that wait back to what is being written: the person sends them when they still fit.
    pub(crate) fn put_back(&mut self) {
        let line = self.take_line();
        let parts = self.steers.drain(..).chain(self.messages.drain(..)).chain([line]).filter(|part| !part.is_empty());
        let line = parts.collect::<Vec<_>>().join("\n");
        self.write(line);
    }

    /// Puts a message that could not be sent before all others.
    pub(crate) fn unsent(&mut self, message: String) {
        self.steers.push_front(message);
        self.put_back();
    }
}

/// True for a whole input: no code fence is open, and its last line does not end in a backslash.
pub(crate) fn is_whole(text: &str) -> bool {
    let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
    fences.is_multiple_of(2) && !text.ends_with('\\')
}

/// Takes away the backslashes that only said that the input goes on. In code they stay: there they are code.
pub(crate) fn join_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut in_fence = false;
    for line in text.split_inclusive('\n') {
        in_fence ^= line.trim_start().starts_with("```");
        match line.strip_suffix("\\\n") {
            Some(line) if !in_fence => {
                joined.push_str(line);
                joined.push('\n');
            }
            _ => joined.push_str(line),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys as text: `⏎` is Enter, `⇥` is Tab, `↑` is Up, `↵` is Alt-Enter, `⌫` is Backspace, `⌦` erases the line, `⇤` the last
    /// word, `✗` is Delete, and `←`, `→`, `⇱` and `⇲` go left, right, to the start and to the end of the row.
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
                '⇤' => Key::Word,
                '✗' => Key::Delete,
                '←' => Key::Left,
                '→' => Key::Right,
                '⇱' => Key::Home,
                '⇲' => Key::End,
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
        check(typed("all gone⌦kept one⇤two"), &[], "kept two");
        check(typed("a↵b⏎"), &["a\nb"], "");
        check(typed("goes on \\⏎and ends⏎"), &["goes on \nand ends"], "");
        check(typed("```⏎code⏎```⏎"), &["```\ncode\n```"], "");
    }

    #[test]
    fn edits_apply_at_the_cursor() {
        check(typed("bd←c⇱a⇲e"), &[], "abcde");
        check(typed("字x漢←←⌫y"), &[], "yx漢");
        check(typed("ab←✗✗c"), &[], "ac");
        check(typed("one two three←←←←←⇤"), &[], "one three");
        check(typed("first↵second⇱>⇲!←←←←←←←←←<"), &[], "first<\n>second!");
        check(typed("←⌫→a→→b⏎"), &["ab"], "");
        check(typed("hello←←⏎x"), &["hello"], "x");
        check(typed("kept⇱⇥↑!⇥"), &["kept!"], "");
        let row = typed("a↵bcd←");
        assert_eq!(row.row(), ("bc", "d"));
    }

    #[test]
    fn paste_does_not_submit() {
        let mut pasted = typed("see: ");
        pasted.press(Press { key: Key::Paste("a\r\nb\u{1b}\t\n".into()), at: Instant::now() });
        check(pasted, &[], "see: a\nb \n");
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

    #[test]
    fn input_continues_until_complete() {
        assert!(is_whole("one line"));
        assert!(!is_whole("goes on \\"));
        assert!(is_whole("goes on \\\nand ends"));
        assert!(!is_whole("```rust\nfn main() {}"));
        assert!(is_whole("```rust\nfn main() {}\n```"));
        assert!(is_whole("say ``` in a line"));
    }

    #[test]
    fn continuation_backslashes_are_removed() {
        assert_eq!(join_lines("a \\\nb"), "a \nb");
        assert_eq!(join_lines("```\na \\\nb\n```\nc\\\nd"), "```\na \\\nb\n```\nc\nd");
        assert_eq!(join_lines("C:\\x"), "C:\\x");
    }
}

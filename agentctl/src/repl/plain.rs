//! The conversation on a plain terminal: reads lines instead of keys, and writes text without escape sequences.
//!
//! For screen readers and terminals without escape sequences (`TERM=dumb`). The keyboard delivers each line as a paste
//! and an Enter, so that typing ahead works as on other terminals.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;

use super::{
    console::{Console, Key, print, unwritten},
    conversation::{Input, Lines},
    own_editor,
};
use crate::{
    composer::{is_whole, join_lines},
    failure::Failure,
    keyboard::{Keyboard, Press, TypeAhead, typed::STILLNESS},
    terminal::sanitize::clean,
};

/// Interval at which it is checked whether a line is still awaited.
const GLANCE: Duration = Duration::from_millis(20);

/// Mark before an input.
const INDICATOR: &str = "› ";

/// Line that the user has completed.
#[derive(Debug, PartialEq, Eq)]
enum TypedLine {
    Words(String),
    /// Ctrl-D on an empty line.
    Leave,
}

/// Builds lines from the keys of the keyboard.
#[derive(Debug, Default)]
struct LineParts(String);

impl LineParts {
    /// Adds a key. Returns the line with its last key.
    fn press(&mut self, key: Key) -> Option<TypedLine> {
        match key {
            Key::Paste(text) => self.0.extend(text.chars().map(|c| if c == '\t' { ' ' } else { c })),
            Key::Char(c) => self.0.push(c),
            Key::Enter => {
                let line: String = std::mem::take(&mut self.0);
                return Some(TypedLine::Words(line.chars().filter(|c| !c.is_control()).collect()));
            }
            Key::Leave => return Some(TypedLine::Leave),
            _ => {}
        }
        None
    }
}

/// Waits on this thread for a line, and returns the line with the time of its end, or `None` once `is_dropped` returns true.
fn wait_for_line(
    keyboard: &Keyboard,
    mut is_dropped: impl FnMut() -> io::Result<bool>,
) -> io::Result<Option<(TypedLine, Instant)>> {
    let mut parts = LineParts::default();
    while !is_dropped()? {
        if let Some(Press { key, at }) = keyboard.wait(GLANCE)
            && let Some(line) = parts.press(key)
        {
            return Ok(Some((line, at)));
        }
    }
    Ok(None)
}

/// Asks for a line. Returns `None` if the user leaves, or at `stop`.
///
/// # Errors
/// Fails if the terminal cannot be written.
pub(super) fn ask_line(keyboard: &Keyboard, prompt: &str, stop: &AtomicBool) -> io::Result<Option<String>> {
    print(prompt)?;
    match wait_for_line(keyboard, || Ok(stop.load(Ordering::Relaxed)))? {
        Some((TypedLine::Words(words), _)) => Ok(Some(words)),
        Some((TypedLine::Leave, _)) | None => print("\n").map(|()| None),
    }
}

/// Prompt of a plain terminal.
#[derive(Debug)]
pub(super) struct PlainLines {
    keyboard: Keyboard,
}

impl PlainLines {
    pub(super) fn new(keyboard: Keyboard) -> Self {
        Self { keyboard }
    }

    async fn read(&self) -> io::Result<Input> {
        if let Some(message) = self.keyboard.typed(TypeAhead::next_message) {
            print(&format!("{INDICATOR}{}\n", clean(&message).replace('\n', "\n… ")))?;
            return Ok(Input::Text(message));
        }
        let unsent = self.keyboard.typed(TypeAhead::take_line);
        if !unsent.trim().is_empty() {
            let told = clean(&unsent);
            print(&format!("not sent: {told}\nEnter sends it; other words take its place\n"))?;
        }
        print(INDICATOR)?;
        let _hold = self.keyboard.hold();
        let (mut parts, mut text) = (LineParts::default(), String::new());
        loop {
            match parts.press(self.keyboard.next().await.key) {
                None => continue,
                Some(TypedLine::Leave) => return Ok(Input::End),
                Some(TypedLine::Words(line)) => text.push_str(&line),
            }
            if is_whole(&text) {
                let text = if text.trim().is_empty() { unsent } else { text };
                return Ok(Input::Text(join_lines(&text)));
            }
            text.push('\n');
            print("… ")?;
        }
    }
}

impl Lines for PlainLines {
    fn next(&mut self) -> BoxFuture<'_, Result<Input, Failure>> {
        Box::pin(async move { self.read().await.map_err(unwritten) })
    }
}

/// Console on a plain terminal, on which each answer is a line.
///
/// The row with the possible answers is written once answers are accepted, because a line typed before it is not an
/// answer.
#[derive(Debug)]
pub(super) struct PlainConsole {
    dropped: Arc<AtomicBool>,
    keyboard: Keyboard,
    size: fn() -> (usize, usize),
    /// Time at which the question was shown.
    shown: Option<Instant>,
    /// Last row, which no newline has ended.
    row: String,
    /// Number of bytes of the last row that are on the screen.
    written: usize,
}

impl PlainConsole {
    pub(super) fn new(dropped: Arc<AtomicBool>, keyboard: Keyboard, size: fn() -> (usize, usize)) -> Self {
        Self { dropped, keyboard, size, shown: None, row: String::new(), written: 0 }
    }

    fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns true if a line typed at this time is meant for the question. Only the first one needs a pause before it.
    fn is_open(&self, at: Instant, shown: Instant) -> bool {
        at >= shown + STILLNESS || self.keyboard.typed(|typed| typed.is_answering)
    }

    fn begin(&mut self) {
        self.keyboard.typed(|typed| typed.is_answering = true);
        self.end_row();
    }

    /// Returns the next line, or `None` once the question was dropped. Shows the possible answers as soon as they are
    /// accepted.
    fn line(&mut self, shown: Instant) -> io::Result<Option<(TypedLine, Instant)>> {
        let keyboard = self.keyboard.clone();
        wait_for_line(&keyboard, || {
            let is_dropped = self.is_dropped();
            if !is_dropped && self.is_open(Instant::now(), shown) && self.written < self.row.len() {
                print(&self.row[self.written..])?;
                self.written = self.row.len();
            }
            Ok(is_dropped)
        })
    }

    /// Keeps a line that answers no question as typed ahead.
    fn keep_line(&self, words: String, at: Instant) {
        let keys = [Key::Paste(words), Key::Enter];
        self.keyboard.typed(|typed| keys.into_iter().for_each(|key| typed.press(Press { key, at })));
    }

    /// Shows why a line is not an answer, and shows the possible answers again.
    fn offer_again(&mut self, why: &str) -> io::Result<()> {
        self.written = 0;
        print(&format!("  ({why})\n"))
    }

    /// Forgets the last row.
    fn end_row(&mut self) {
        self.row.clear();
        self.written = 0;
    }
}

/// Returns the key for a line that is an answer.
fn answer(words: &str) -> Option<Key> {
    let mut characters = words.chars();
    match (characters.next(), characters.next()) {
        (None, _) => Some(Key::Enter),
        (Some(c), None) => Some(Key::Char(c)),
        _ => match words.to_lowercase().as_str() {
            "yes" => Some(Key::Char('y')),
            "no" => Some(Key::Char('n')),
            "later" => Some(Key::Char('s')),
            _ => None,
        },
    }
}

impl Console for PlainConsole {
    fn key(&mut self) -> io::Result<Option<Key>> {
        let shown = *self.shown.get_or_insert_with(Instant::now);
        loop {
            let Some((line, at)) = self.line(shown)? else { return Ok(None) };
            let TypedLine::Words(words) = line else {
                print("\n")?;
                self.end_row();
                return Ok(Some(Key::Leave));
            };
            match answer(words.trim()) {
                Some(key) if self.is_open(at, shown) => {
                    self.begin();
                    return Ok(Some(key));
                }
                Some(Key::Enter) => {}
                Some(_) => self.offer_again("that came before the answers; say it again")?,
                None => {
                    self.keep_line(words, at);
                    self.offer_again("no answer: it is said to the turn")?;
                }
            }
        }
    }

    fn rest(&mut self) {
        self.keyboard.typed(|typed| typed.is_answering = false);
    }

    fn keep(&mut self, keys: &[Key]) -> io::Result<()> {
        // A single letter is either an answer or invalid. After two keys, the question is asked again in any case.
        if keys.len() == 1 { self.offer_again("no answer to this question") } else { Ok(()) }
    }

    fn shows_typed(&self) -> bool {
        true
    }

    fn read_line(&mut self, prompt: &str, initial: &str) -> Option<io::Result<Option<String>>> {
        let kept =
            if initial.is_empty() { String::new() } else { format!("  now: {}\n  Enter keeps it\n", clean(initial)) };
        if let Err(error) = print(&kept) {
            return Some(Err(error));
        }
        self.end_row();
        self.row.push_str(prompt);
        let shown = *self.shown.get_or_insert_with(Instant::now);
        let line = loop {
            match self.line(shown) {
                Err(error) => return Some(Err(error)),
                Ok(Some((TypedLine::Words(words), at))) if !self.is_open(at, shown) => {
                    // The user has not read the question yet.
                    self.keep_line(words, at);
                }
                Ok(line) => break line,
            }
        };
        self.begin();
        Some(Ok(match line {
            Some((TypedLine::Words(words), _)) if words.is_empty() => Some(initial.to_owned()),
            Some((TypedLine::Words(words), _)) => Some(words),
            Some((TypedLine::Leave, _)) | None => None,
        }))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let plain = anstream::adapter::strip_str(text).to_string().replace('\r', "");
        if text.starts_with('\r') {
            if self.written > 0 {
                // Other terminals overwrite the row.
                print("\n")?;
            }
            self.end_row();
        }
        let Some(at) = plain.rfind('\n') else {
            self.row.push_str(&plain);
            return Ok(());
        };
        print(&self.row[self.written..])?;
        print(&plain[..=at])?;
        self.end_row();
        self.row.push_str(&plain[at + 1..]);
        Ok(())
    }

    fn size(&self) -> (usize, usize) {
        (self.size)()
    }

    fn edit(&mut self, text: &str, suffix: &str) -> io::Result<Option<String>> {
        let Some(editor) = own_editor::name() else { return Ok(None) };
        self.keyboard.lend(|| own_editor::edit(&editor, text, suffix, || self.is_dropped()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(keyboard: &Keyboard) -> PlainConsole {
        let console = PlainConsole::new(Arc::default(), keyboard.clone(), || (80, 24));
        // The question has been there for a while.
        PlainConsole { shown: Instant::now().checked_sub(STILLNESS * 4), ..console }
    }

    fn types(keyboard: &Keyboard, line: &str, at: Instant) {
        keyboard.press(Key::Paste(line.to_owned()), at);
        keyboard.press(Key::Enter, at);
    }

    #[test]
    fn line_answers_a_question_or_steers_the_turn() {
        let keyboard = Keyboard::scripted();
        let mut console = console(&keyboard);
        let now = Instant::now();
        types(&keyboard, "y", now.checked_sub(STILLNESS * 4).unwrap());
        types(&keyboard, "say a year as you may", now);
        types(&keyboard, " Yes\u{1b} ", now);
        assert_eq!(console.key().unwrap(), Some(Key::Char('y')));
        assert_eq!(keyboard.typed(|typed| typed.next_steer()).unwrap(), "say a year as you may");
        types(&keyboard, "", now);
        assert_eq!(console.key().unwrap(), Some(Key::Enter));
        types(&keyboard, "because\tof that", now);
        assert_eq!(console.read_line("reason: ", "").unwrap().unwrap().unwrap(), "because of that");
        types(&keyboard, "", now);
        assert_eq!(console.read_line("command: ", "make").unwrap().unwrap().unwrap(), "make");
        keyboard.press(Key::Leave, now);
        assert_eq!(console.key().unwrap(), Some(Key::Leave));
        console.dropped.store(true, Ordering::Relaxed);
        assert_eq!(console.key().unwrap(), None);
    }
}

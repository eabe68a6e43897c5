//! Questions for secrets, such as the password of a document, and lines that are typed key by key.

use std::io;

use agentd_core::interrupt::Answer;

use super::{console::Key, question::Question};
use crate::terminal::paint::{QUIET, paint, tail, width};

impl Question<'_> {
    /// Asks for a secret, which is not echoed. On a terminal that echoes all input, the question stays open.
    pub(super) fn secret(&mut self) -> io::Result<Option<Answer>> {
        if self.console.shows_typed() {
            return self.skipped("");
        }
        loop {
            let Some(text) = self.typed("  (not shown) > ", "", |text| "•".repeat(text.chars().count()))? else {
                return if self.is_dropped { self.dropped() } else { self.skipped("") };
            };
            let answer = Answer::Text { text };
            match answer.misfit(&self.interrupt.ask) {
                Some(why) => self.not_taken(why)?,
                None => return Ok(Some(answer)),
            };
        }
    }

    /// Reads a line key by key, and shows it as converted by `shown`.
    pub(super) fn typed(
        &mut self,
        prompt: &str,
        initial: &str,
        shown: fn(&str) -> String,
    ) -> io::Result<Option<String>> {
        let mut line = initial.to_owned();
        loop {
            // The end of a long line is shown, because it is being typed.
            let room = self.console.size().0.saturating_sub(width(prompt) + 1).max(1);
            self.console.write(&format!(
                "\r\x1b[K{}{}",
                paint(self.color, QUIET, prompt),
                tail(&shown(&line), room)
            ))?;
            let key = self.console.key()?;
            self.is_dropped = key.is_none();
            match key {
                None | Some(Key::Escape | Key::Leave) => {
                    self.console.write("\r\x1b[K")?;
                    return Ok(None);
                }
                Some(Key::Enter) => {
                    self.console.write("\n")?;
                    return Ok(Some(line));
                }
                Some(Key::Backspace) => {
                    line.pop();
                }
                Some(Key::Erase) => line.clear(),
                Some(Key::Word) => line.truncate(line.trim_end().rfind(' ').map_or(0, |at| at + 1)),
                Some(Key::Char(c)) => line.push(c),
                // The paste becomes a single line.
                Some(Key::Paste(text)) => {
                    line.extend(text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }));
                }
                Some(_) => {}
            }
        }
    }
}

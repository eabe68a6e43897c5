//! A question for a secret, such as the password of a document.

use std::io;

use agentd_core::interrupt::Answer;

use super::question::Question;

impl Question<'_> {
    /// A secret, which is not shown as it is typed. Where a terminal shows all that is typed, none is taken.
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
}

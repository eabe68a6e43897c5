//! Answered side questions, shown between the texts of a turn.

use std::io::{self, Write};

use super::Human;
use crate::{
    terminal::{
        paint::{QUIET, WARN},
        sanitize::clean_line,
    },
    turn::ASIDE_CUT,
};

impl<O: Write, E: Write> Human<O, E> {
    /// Shows the side questions with their answers, unless a text is in progress.
    pub(super) fn show_asides(&mut self) -> io::Result<()> {
        while !(self.text.is_open() || self.text.in_fence() || self.asides.is_empty()) {
            let aside = self.asides.remove(0);
            self.status(QUIET, &format!("btw · {}", clean_line(&aside.question)))?;
            match aside.answer {
                Ok(answer) => {
                    if self.look.out_shown && self.line.is_none() {
                        self.say(&answer.text)?;
                        self.text.finish()?;
                    } else {
                        self.text.whole(answer.text.trim_end())?;
                    }
                    if answer.truncated {
                        self.status(WARN, ASIDE_CUT)?;
                    }
                }
                Err(failure) => self.folded(WARN, &clean_line(&format!("! {}", failure.sentence())))?,
            }
        }
        if self.turn.is_running {
            self.wait();
        }
        Ok(())
    }
}

//! `/copy`: an answer to the clipboard of the terminal.

use agentd_core::{error::ErrorKind, item::ItemBody};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    exit::Exit,
    failure::Failure,
    report::count,
    terminal::{attention, look::TerminalStyle, paint::number, sanitize::clean},
};

/// The items of a session that are looked through.
const LOOKED_AT: usize = 500;

impl Chat {
    /// Copies the last answer, or the one so many before it.
    pub(super) async fn copy(&mut self, nth: usize) -> anyhow::Result<Exit> {
        let id = self.session()?;
        if !self.present || !TerminalStyle::detect().err_terminal {
            let hint = format!("agentctl sessions show {id} --json has every answer");
            anyhow::bail!(Failure::usage("this terminal has no clipboard that programs can write").hint(hint));
        }
        let items = self.daemon.client.items(&id.to_string(), 0, LOOKED_AT).await?;
        let answers: Vec<&str> = items
            .iter()
            .filter_map(|item| match &item.item.body {
                ItemBody::AgentMessage { text } if !text.trim().is_empty() => Some(text.trim_end()),
                _ => None,
            })
            .collect();
        let Some(answer) = nth.checked_sub(1).and_then(|back| answers.iter().rev().nth(back)) else {
            let there = count(answers.len() as u64, "answer");
            return Err(Failure::new(ErrorKind::NotFound, format!("this session has {there} to copy")).into());
        };
        // Whoever pastes it pastes no escape sequence.
        let answer = clean(answer);
        if answer.len() > attention::MAX_CLIPBOARD_BYTES {
            let (bytes, most) = (number(answer.len() as u64), number(attention::MAX_CLIPBOARD_BYTES as u64));
            let message = format!("the answer has {bytes} bytes, and terminals take at most {most}");
            anyhow::bail!(Failure::usage(message).hint(format!("agentctl sessions show {id} --json has it")));
        }
        attention::copy(&answer)?;
        let lines = count(answer.lines().count() as u64, "line");
        let characters = count(answer.chars().count() as u64, "character");
        self.note(&format!("sent to the terminal's clipboard: {lines}, {characters}"));
        Ok(Exit::Done)
    }
}

//! `/copy`: copies an answer, or a code block of the last one, to the clipboard of the terminal.

use agentd_core::{error::ErrorKind, item::ItemBody};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    exit::Exit,
    failure::Failure,
    render::markdown::{Markdown, WIDEST},
    report::count,
    terminal::{attention, look::TerminalStyle, paint::number, sanitize::clean},
};

/// Maximum number of items of a session that are searched.
const LOOKED_AT: usize = 500;

impl Chat {
    /// Copies the Nth last answer.
    pub(super) async fn copy(&mut self, nth: usize) -> anyhow::Result<Exit> {
        let answer = self.answer(nth).await?;
        self.send_to_clipboard(&answer, "answer")
    }

    /// Copies a code block of the last answer, counted from the first; without a number, the last one.
    pub(super) async fn copy_code(&mut self, nth: Option<usize>) -> anyhow::Result<Exit> {
        let blocks = code_blocks(&self.answer(1).await?);
        let Some(block) = nth.unwrap_or(blocks.len()).checked_sub(1).and_then(|at| blocks.get(at)) else {
            let there = count(blocks.len(), "code block");
            return Err(Failure::new(ErrorKind::NotFound, format!("the last answer has {there} to copy")).into());
        };
        // The last line break is omitted, because a shell would run the pasted code at once.
        self.send_to_clipboard(block.trim_end_matches('\n'), "code block")
    }

    /// Returns the Nth last answer.
    async fn answer(&mut self, nth: usize) -> anyhow::Result<String> {
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
        Ok((*answer).to_owned())
    }

    fn send_to_clipboard(&mut self, text: &str, what: &str) -> anyhow::Result<Exit> {
        // A pasted text must not contain escape sequences.
        let text = clean(text);
        if text.len() > attention::MAX_CLIPBOARD_BYTES {
            let (bytes, most) = (number(text.len() as u64), number(attention::MAX_CLIPBOARD_BYTES as u64));
            let message = format!("the {what} has {bytes} bytes, and terminals take at most {most}");
            let hint = format!("agentctl sessions show {} --json has it", self.session()?);
            anyhow::bail!(Failure::usage(message).hint(hint));
        }
        attention::copy(&text)?;
        let lines = count(text.lines().count() as u64, "line");
        let characters = count(text.chars().count() as u64, "character");
        self.note(&format!("sent to the terminal's clipboard: {lines}, {characters}"));
        Ok(Exit::Done)
    }
}

/// Returns the contents of the fenced code blocks of a text, without the indent of their fences. An open fence reaches to
/// the end of the text.
fn code_blocks(text: &str) -> Vec<String> {
    let (mut markdown, mut blocks, mut fence_indent) = (Markdown::default(), Vec::<String>::new(), 0);
    for line in text.lines() {
        let was_code = markdown.in_fence();
        let _ = markdown.block(line, WIDEST);
        let indent = line.len() - line.trim_start_matches(' ').len();
        match (was_code, markdown.in_fence(), blocks.last_mut()) {
            (false, true, _) => {
                fence_indent = indent;
                blocks.push(String::new());
            }
            (true, true, Some(block)) => block.extend([&line[indent.min(fence_indent)..], "\n"]),
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_blocks_are_found_by_their_fences() {
        let check = |text: &str, expected: &[&str]| assert_eq!(code_blocks(text), expected, "{text:?}");
        check("No code, only `a word`.", &[]);
        check("One:\n```rust\nlet x = 1;\n\n```\ntwo:\n~~~\n```\n~~~\n", &["let x = 1;\n\n", "```\n"]);
        check("- in a list:\n  ```sh\n    make\n  ```", &["  make\n"]);
        check("````\n```\nx\n```\n````\nand\n```\nopen", &["```\nx\n```\n", "open\n"]);
    }
}

//! A session as a Markdown text for people.

use std::io::{self, Write};

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::SessionId,
    item::{Item, ItemBody},
    session::SessionSummary,
};

use super::EventWriter;
use crate::{
    report,
    terminal::{
        paint::{money, number},
        sanitize::{clean, clean_line},
    },
};

/// Writes Markdown.
pub(super) struct Markdown<'a> {
    out: &'a mut (dyn Write + Send),
    session: Option<SessionId>,
    turns: u64,
}

impl<'a> Markdown<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        Self { out, session: None, turns: 0 }
    }

    fn item(&mut self, item: &Item) -> io::Result<()> {
        match &item.body {
            ItemBody::UserMessage { text, .. } => self.part("You", text),
            ItemBody::AgentMessage { text } if text.trim().is_empty() => Ok(()),
            ItemBody::AgentMessage { text } => self.part("Model", text),
            ItemBody::Reasoning { text } if text.trim().is_empty() => Ok(()),
            ItemBody::Reasoning { text } => self.quoted("Thought", text),
            ItemBody::ToolCall(call) => {
                writeln!(self.out, "**Call of {}**\n", code(&call.name))?;
                self.fenced("json", &call.arguments)
            }
            ItemBody::ToolResult(result) => {
                let failed = result.error.map(|error| format!(" ({})", error.as_str())).unwrap_or_default();
                writeln!(self.out, "**Result of {}**{failed}\n", code(&result.name))?;
                self.fenced("", &result.text)
            }
            ItemBody::Compaction(compaction) => self.quoted("Summary of what was before", &compaction.summary),
            ItemBody::Notice { topic, .. } if topic.is_for_model() => Ok(()),
            ItemBody::Notice { text, .. } => self.quoted("Notice", text),
        }
    }

    fn part(&mut self, who: &str, text: &str) -> io::Result<()> {
        writeln!(self.out, "### {who}\n\n{}\n", clean(text).trim_end())
    }

    fn quoted(&mut self, what: &str, text: &str) -> io::Result<()> {
        writeln!(self.out, "> **{what}**")?;
        for line in clean(text).trim_end().lines() {
            writeln!(self.out, "> {line}")?;
        }
        writeln!(self.out)
    }

    /// A block that nothing in the text ends.
    fn fenced(&mut self, language: &str, text: &str) -> io::Result<()> {
        let text = clean(text);
        let fence = fence(&text);
        writeln!(self.out, "{fence}{language}\n{}\n{fence}\n", text.trim_end())
    }
}

impl EventWriter for Markdown<'_> {
    fn begin(&mut self, session: &SessionSummary) -> io::Result<()> {
        self.session = Some(session.id);
        let title = clean_line(&session.title);
        let title = if title.trim().is_empty() { "Session" } else { &title };
        writeln!(self.out, "# {title}\n")?;
        writeln!(self.out, "- session {}", session.id)?;
        let created = session.created_at.strftime("%Y-%m-%d %H:%M UTC");
        writeln!(self.out, "- {created}, {}", report::count(session.turns, "turn"))?;
        let usage = &session.usage;
        let (tokens_in, tokens_out) = (number(usage.prompt_tokens), number(usage.completion_tokens));
        let cost = money(usage).map(|money| format!(", {money}")).unwrap_or_default();
        writeln!(self.out, "- {tokens_in} tokens in, {tokens_out} out{cost}\n")
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.session.is_some_and(|session| session != event.session_id) {
            self.session = Some(event.session_id);
            writeln!(self.out, "# Subagent {}\n", event.session_id)?;
        }
        match &event.kind {
            EventKind::TurnStarted { model, .. } => {
                self.turns += 1;
                let at = event.at.strftime("%Y-%m-%d %H:%M UTC");
                writeln!(self.out, "## {at} · {}\n", clean_line(model))
            }
            EventKind::ItemCompleted { item, .. } => self.item(item),
            EventKind::Warning { message, .. } => self.quoted("Warning", message),
            EventKind::StateChanged { change: StateChange::Reset } => {
                self.quoted("Reset", "The history before this was set aside.")
            }
            EventKind::StateChanged { change: StateChange::Withdrawn { input, added, .. } } => {
                let words = input.iter().chain(added).map(|text| clean_line(text)).collect::<Vec<_>>().join("; ");
                self.quoted("Taken back, no model is shown it", &words)
            }
            EventKind::TurnEnded { result } if result.error.is_some() => {
                let message = result.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
                self.quoted("The turn failed", message)
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A fence longer than any in the text.
fn fence(text: &str) -> String {
    let longest = text.lines().map(|line| line.trim_start().chars().take_while(|c| *c == '`').count()).max();
    "`".repeat(longest.unwrap_or(0).max(2) + 1)
}

fn code(name: &str) -> String {
    format!("`{}`", clean_line(name).replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_block() {
        assert_eq!(fence("a"), "```");
        assert_eq!(fence("x\n  ````rust\ny"), "`````");
        assert_eq!(code("a`b\x1b[2J"), "`a'b`");
    }
}

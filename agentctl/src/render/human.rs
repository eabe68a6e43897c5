//! A turn for people: the answer on standard output, everything else quietly on standard error.
//!
//! On a terminal, the answer streams as Markdown. If standard output is a file or a pipe, only the answer is written
//! there, at the end of the turn, because text between tool calls must not end up in a script's variable. The answer is
//! written verbatim, but without terminal escapes, because a pipe may lead to a terminal.

mod asides;
mod options;

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::ItemId,
    interrupt::{Ask, Interrupt},
    item::{Item, ItemBody, ItemStatus, NoticeTopic},
    routing::ChoiceRule,
    tool::{ToolCall, ToolResult},
    turn::{StopReason, TurnResult},
};
use anstyle::Style;

use super::{
    asking, closing,
    context::{compaction_line, notice_line, thought_line},
    input_row,
    partial_item::{LiveTurn, PartialItem, PendingRetry, RunningCall},
    reads::FoldedReads,
    spinner::Spinner,
    state_lines::state_lines,
    status::{ChatStatus, SharedStatus},
    stream::TextStream,
    tool_line::{self, watched_lines},
};
use crate::{
    keyboard::TypeAhead,
    terminal::{
        look::TerminalStyle,
        paint::{QUIET, STRONG, WARN, clip, fold, paint},
        sanitize::{clean, clean_line},
    },
    turn::{Aside, LOST, Renderer},
};

/// Shows turns to a person.
#[derive(Debug)]
pub(crate) struct Human<O, E> {
    look: TerminalStyle,
    text: TextStream<O>,
    err: E,
    spinner: Spinner,
    /// The running turn; its default value between turns.
    turn: LiveTurn,
    /// Reads whose line is printed once no other read can join them.
    reads: Option<FoldedReads>,
    /// Estimated number of tokens of the turn's requests that repeated the previous request.
    repeated: u64,
    /// Kind of the last output, so that text and status lines are set apart.
    last: Last,
    /// True during the first turn of a session.
    opens_session: bool,
    shows_input: bool,
    shows_interrupts: bool,
    answer_alone: bool,
    /// Incomplete line of the answer; `None` unless the answer is written line by line.
    line: Option<String>,
    /// Hint at the command that shows a shortened text in full; empty outside of a chat.
    shows_whole: &'static str,
    /// Status line of a chat, below the text and the spinner.
    status: Option<SharedStatus>,
    /// Answered side questions that wait for the end of a text.
    asides: Vec<Aside>,
}

/// Maximum sequence number of the start of a session's first turn.
const OPENING: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Text,
    Status,
}

impl Human<io::Stdout, io::Stderr> {
    /// Creates a renderer that writes to standard output and standard error.
    pub(crate) fn stdio() -> Self {
        Self::new(io::stdout(), io::stderr(), TerminalStyle::detect())
    }
}

impl<O: Write, E: Write> Human<O, E> {
    /// Creates a renderer that writes the answer to `out` and everything else to `err`.
    pub(crate) fn new(out: O, err: E, look: TerminalStyle) -> Self {
        Self {
            look,
            text: TextStream::new(out, look),
            err,
            spinner: Spinner::new(look),
            turn: LiveTurn::default(),
            reads: None,
            repeated: 0,
            last: Last::Nothing,
            opens_session: false,
            shows_input: false,
            shows_interrupts: false,
            answer_alone: false,
            line: None,
            shows_whole: "",
            status: None,
            asides: Vec::new(),
        }
    }

    fn show(&mut self, kind: &EventKind) -> io::Result<()> {
        match kind {
            EventKind::TurnStarted { model, .. } => {
                self.change_status(ChatStatus::begin_turn);
                self.turn.is_running = true;
                self.repeated = 0;
                if !self.shows_whole.is_empty() {
                    // The answer is set apart from the prompt above it, however fast it comes.
                    self.last = Last::Status;
                }
                self.spinner.show(&format!("waiting for {}", clean_line(model)));
                Ok(())
            }
            EventKind::ItemStarted { item } => self.item_started(item),
            EventKind::ItemDelta { item_id, offset, text } => self.delta(*item_id, *offset, text),
            EventKind::ItemCompleted { item, status } => self.item_completed(item, *status),
            EventKind::InterruptRaised { interrupt } => self.interrupt_raised(interrupt),
            EventKind::InterruptResolved { by, .. } => {
                asking::resolved(by, self.shows_interrupts).iter().try_for_each(|line| self.status(QUIET, line))
            }
            EventKind::UsageUpdated { prompt, step, usage, turn, delegated, .. } => {
                if !delegated {
                    self.change_status(|status| status.count_call(*step, usage, turn));
                }
                let repeated = prompt.as_ref().map_or(0, |prompt| prompt.repeated_tokens);
                self.repeated = self.repeated.saturating_add(repeated);
                Ok(())
            }
            EventKind::StateChanged { change } => {
                if let StateChange::Settings { settings } = change {
                    self.change_status(|status| status.change_settings(settings));
                }
                state_lines(change, self.look).iter().try_for_each(|line| self.painted(line))
            }
            // Only a fallback is shown, because nobody chose it. The JSON output has all choices.
            EventKind::ModelChosen { model, rule: ChoiceRule::Fallback, reason, .. } => {
                self.folded(WARN, &format!("! {} answers: {}", clean_line(model), clean_line(reason)))
            }
            EventKind::ModelChosen { .. } | EventKind::IntentClassified { .. } => Ok(()),
            EventKind::Warning { message, retry_in_ms, .. } => {
                self.turn.retry = retry_in_ms.map(|delay| PendingRetry(Instant::now() + Duration::from_millis(delay)));
                self.folded(WARN, &format!("! {}", clean_line(message)))
            }
            EventKind::TurnEnded { .. } => self.turn_ended(),
        }
    }

    fn item_started(&mut self, item: &Item) -> io::Result<()> {
        self.turn.retry = None;
        match &item.body {
            ItemBody::AgentMessage { text } | ItemBody::Reasoning { text } => {
                let reasoning = matches!(item.body, ItemBody::Reasoning { .. });
                self.turn.items.insert(item.id, PartialItem::new(reasoning));
                if reasoning {
                    self.end_reads()?;
                    self.spinner.show("thinking");
                }
                self.delta(item.id, 0, text)
            }
            ItemBody::ToolCall(call) if !call.name.is_empty() => {
                self.end_reads_before(&call.name)?;
                self.spinner.show(&clean_line(&call.name));
                Ok(())
            }
            ItemBody::ToolResult(result) => {
                self.end_reads_before(&result.name)?;
                let title = tool_line::about(self.turn.calls.get(&result.call_id), result).shown();
                let call = result.call_id.clone();
                self.turn.running.push(RunningCall { item: item.id, call, title, lines: Default::default() });
                self.wait();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn delta(&mut self, id: ItemId, offset: u64, text: &str) -> io::Result<()> {
        if let Some(running) = self.turn.running.iter_mut().find(|running| running.item == id) {
            running.progress(text);
            self.wait();
            return Ok(());
        }
        let Some(item) = self.turn.items.get_mut(&id) else {
            // The kind of an item is unknown if its start was missed. The complete item will follow.
            return Ok(());
        };
        let Some(new) = item.take(offset, text) else { return Ok(()) };
        if item.reasoning {
            let tail = item.think(new);
            self.spinner.show(&format!("thinking: {tail}"));
            return Ok(());
        }
        let visible = item.grow(new);
        self.say(&visible)
    }

    fn item_completed(&mut self, item: &Item, status: ItemStatus) -> io::Result<()> {
        match &item.body {
            ItemBody::AgentMessage { text } => self.message_completed(item.id, text),
            ItemBody::Reasoning { text } => {
                self.turn.items.remove(&item.id);
                let line = thought_line(text, self.look.columns().saturating_sub(1), self.shows_whole);
                line.iter().try_for_each(|line| self.status(QUIET, line))
            }
            ItemBody::ToolCall(call) => {
                self.turn.calls.insert(call.call_id.clone(), call.clone());
                Ok(())
            }
            ItemBody::ToolResult(result) => {
                let call = self.turn.calls.remove(&result.call_id);
                self.turn.running.retain(|running| running.call != result.call_id);
                self.call_ended(call.as_ref(), result)?;
                self.wait();
                Ok(())
            }
            ItemBody::UserMessage { text, steered, typed_bytes, .. } if *steered || self.shows_input => {
                self.status(STRONG, &format!("› {}", input_row::said(text, *typed_bytes)))
            }
            ItemBody::UserMessage { .. } => Ok(()),
            ItemBody::Compaction(compaction) => self.status(QUIET, &compaction_line(&compaction.report)),
            // The skills at the start of a session are not news.
            ItemBody::Notice { topic: NoticeTopic::Skills, .. } if self.opens_session => Ok(()),
            ItemBody::Notice { topic, .. } if topic.is_for_model() => Ok(()),
            ItemBody::Notice { text, topic, sources, .. } => {
                self.status(QUIET, &clean_line(&notice_line(text, *topic, sources)))
            }
        }?;
        if status == ItemStatus::Unknown && !matches!(item.body, ItemBody::ToolResult(_)) {
            self.status(QUIET, "(the daemon stopped while this was written)")?;
        }
        Ok(())
    }

    fn call_ended(&mut self, call: Option<&ToolCall>, result: &ToolResult) -> io::Result<()> {
        if let Some(read) = FoldedReads::of(call, result) {
            if !self.reads.as_mut().is_some_and(|reads| reads.join(&read, self.look.columns())) {
                self.end_reads()?;
                self.reads = Some(read);
            }
            return Ok(());
        }
        let diff = tool_line::changes(result);
        let shown = self.turn.previewed.take_if(|preview| diff.is_some_and(|diff| diff.text == *preview));
        let hint = match self.shows_whole {
            "" => Some(""),
            // The question in the user's own chat has just shown the diff.
            _ if shown.is_some() && !self.shows_input => None,
            _ => Some(" · /diff"),
        };
        watched_lines(call, result, self.look, hint).iter().try_for_each(|line| self.painted(line))
    }

    /// Prints the reads, unless a call of this tool might join them.
    fn end_reads_before(&mut self, tool: &str) -> io::Result<()> {
        if self.reads.as_ref().is_some_and(|reads| reads.tool != tool) { self.end_reads() } else { Ok(()) }
    }

    fn end_reads(&mut self) -> io::Result<()> {
        let line = self.reads.take().map(|reads| reads.line(self.look.columns(), self.look.err_color));
        line.map_or(Ok(()), |line| self.painted(&line))
    }

    /// Shows the rest of a text that no delta contained, and ends the text.
    fn message_completed(&mut self, id: ItemId, text: &str) -> io::Result<()> {
        let mut item = self.turn.items.remove(&id).unwrap_or_else(|| PartialItem::new(false));
        let rest = text.get(item.taken..).map(|rest| item.grow(rest)).unwrap_or_default();
        self.say(&rest)?;
        if let Some(line) = self.line.as_mut().filter(|line| !line.is_empty()) {
            self.text.whole(&std::mem::take(line))?;
        }
        if item.begun && self.look.out_shown {
            self.text.finish()?;
        }
        self.wait();
        self.show_asides()
    }

    /// Writes a part of the answer, unless the answer is only written at the end of the turn.
    fn say(&mut self, text: &str) -> io::Result<()> {
        if !text.is_empty() {
            self.end_reads()?;
        }
        if let Some(line) = &mut self.line {
            line.push_str(text);
            return match line.rfind('\n') {
                Some(end) => self.text.whole(&line.drain(..=end).as_str()[..end]),
                None => Ok(()),
            };
        }
        if text.is_empty() || !self.look.out_shown {
            return Ok(());
        }
        self.spinner.clear();
        if self.last == Last::Status {
            self.text.line("")?;
        }
        self.last = Last::Text;
        self.text.push(text)
    }

    /// Shows on the spinner what the turn waits for.
    fn wait(&mut self) {
        let reads = self.reads.as_ref().map(|reads| format!(" · {}", reads.title.shown())).unwrap_or_default();
        match self.turn.running.as_slice() {
            _ if self.text.is_open() => {}
            [] => {
                let retry = self.turn.retry.as_ref().and_then(|retry| retry.line(Instant::now()));
                self.spinner.show(&retry.unwrap_or_else(|| format!("waiting for the model{reads}")));
            }
            [one] => self.spinner.show_lines(&one.title, one.lines.iter().map(|line| format!("  {line}"))),
            [one, others @ ..] => {
                let last = |call: &RunningCall| Some(format!("  {}: {}", call.title, call.lines.back()?));
                let what = format!("{} and {} more", one.title, others.len());
                self.spinner.show_lines(&what, self.turn.running.iter().filter_map(last));
            }
        }
    }

    fn interrupt_raised(&mut self, interrupt: &Interrupt) -> io::Result<()> {
        self.make_way()?;
        if !self.shows_interrupts {
            // The question begins with an empty line.
            self.last = Last::Status;
            if let Ask::Approval { preview, .. } = &interrupt.ask {
                self.turn.previewed.clone_from(preview);
            }
            return Ok(());
        }
        asking::raised(interrupt).iter().try_for_each(|(style, line)| self.status(*style, line))
    }

    fn finish_turn(&mut self, result: &TurnResult) -> io::Result<()> {
        self.turn_ended()?;
        let is_answer = match result.stop_reason {
            StopReason::Completed => true,
            StopReason::WrongForm => false,
            _ => !self.answer_alone,
        };
        if !self.look.out_shown && self.line.is_none() && is_answer && !result.text.is_empty() {
            self.text.whole(result.text.trim_end_matches('\n'))?;
        }
        for line in closing::lines(result, self.repeated, self.look) {
            self.painted(&line)?;
        }
        self.last = Last::Nothing;
        Ok(())
    }

    /// Prepares the terminal for other output: clears the spinner, prints all reads, and moves the cursor to the start of a
    /// row.
    fn make_way(&mut self) -> io::Result<()> {
        self.spinner.clear();
        if self.text.is_open() && self.look.out_shown {
            self.text.pause()?;
        }
        self.end_reads()
    }

    fn turn_ended(&mut self) -> io::Result<()> {
        self.make_way()?;
        // A text that was cut off must not affect the next one.
        self.text.finish()?;
        self.change_status(|status| status.turn = None);
        self.turn = LiveTurn::default();
        self.show_asides()
    }

    /// Prints a status line in one style, clipped to the window. The text must be clean.
    fn status(&mut self, style: Style, line: &str) -> io::Result<()> {
        let line = clip(line, self.look.columns().saturating_sub(1));
        self.painted(&paint(self.look.err_color, style, &line))
    }

    /// Prints an important status line, folded instead of clipped, and then shows the spinner again.
    fn folded(&mut self, style: Style, line: &str) -> io::Result<()> {
        let columns = if self.look.err_shown { self.look.columns().saturating_sub(1) } else { usize::MAX };
        for row in fold(line, columns) {
            self.painted(&paint(self.look.err_color, style, &row))?;
        }
        if self.turn.is_running {
            self.wait();
        }
        Ok(())
    }

    /// Prints a status line that contains its styles.
    fn painted(&mut self, line: &str) -> io::Result<()> {
        self.make_way()?;
        if self.last == Last::Text && self.look.err_shown {
            self.text.line("")?;
        }
        self.last = Last::Status;
        writeln!(self.err, "{line}")?;
        self.err.flush()
    }
}

impl<O: Write + Send, E: Write + Send> Renderer for Human<O, E> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::TurnStarted { .. } = event.kind {
            self.opens_session = event.seq <= OPENING;
        }
        // Calls beside the turn are not part of its status.
        match &event.kind {
            EventKind::UsageUpdated { .. } if event.turn_id.is_none() => Ok(()),
            kind => self.show(kind),
        }
    }

    fn finish(&mut self, result: &TurnResult) -> io::Result<()> {
        self.finish_turn(result)
    }

    fn leave(&mut self) -> io::Result<()> {
        self.turn_ended()?;
        self.last = Last::Nothing;
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        self.make_way()
    }

    fn aside(&mut self, aside: Aside) -> io::Result<()> {
        self.asides.push(aside);
        self.show_asides()
    }

    fn typed(&mut self, typed: &TypeAhead) -> io::Result<()> {
        let columns = self.look.columns();
        let mut rows = input_row::rows(typed, columns);
        self.change_status(|status| {
            rows.insert(0, paint(self.look.err_color, QUIET, &status.line(columns.saturating_sub(1))));
        });
        if !self.turn.is_running && !self.text.is_open() {
            self.spinner.show("waiting");
        }
        if self.turn.retry.is_some() {
            self.wait();
            self.turn.retry = self.turn.retry.take().filter(|retry| retry.line(Instant::now()).is_some());
        }
        self.spinner.below(rows.clone());
        self.text.below(rows)
    }

    fn set_waiting_questions(&mut self, number: usize) {
        self.change_status(|status| status.questions = number);
    }

    fn redraw(&mut self) -> io::Result<()> {
        // The spinner is drawn again by itself.
        self.text.draw_again()
    }

    fn lost(&mut self) -> io::Result<()> {
        self.note(LOST)?;
        self.spinner.show("waiting for the daemon");
        Ok(())
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        for line in text.lines() {
            // Spaces are preserved, because they align columns.
            self.folded(QUIET, &clean(line))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "human_tests.rs"]
mod tests;

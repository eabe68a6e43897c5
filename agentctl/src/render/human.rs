//! A turn for people: the answer on standard output, everything else quietly on standard error.
//!
//! On a terminal the answer streams as Markdown. Where standard output is a file or a pipe, the answer of
//! a turn is written there when the turn has ended, and nothing else ever is, so that what
//! the model says between its tool calls does not get into a script's variable. Its words are as they are,
//! but what a terminal would obey is taken out of them there too: nobody knows where a pipe leads.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, Write},
};

use agentd_core::{
    event::{Event, EventKind},
    ids::{CallId, ItemId},
    interrupt::{AnsweredBy, Ask, Interrupt},
    item::{Item, ItemBody, ItemStatus, NoticeTopic},
    routing::ChoiceRule,
    tool::ToolCall,
    turn::{StopReason, TurnResult},
    visible,
};
use anstyle::Style;

use super::{
    closing,
    context::{compaction_line, notice_line, thought_line},
    input_row,
    partial_item::PartialItem,
    spinner::Spinner,
    state_lines::state_lines,
    stream::TextStream,
    tool_line::{self, call_line, watched_lines},
};
use crate::{
    keyboard::TypeAhead,
    terminal::{
        look::TerminalStyle,
        paint::{QUIET, STRONG, WARN, clip, fold, paint},
        sanitize::{clean, clean_line},
    },
    turn::{LOST, Renderer},
};

/// Shows turns to a person.
#[derive(Debug)]
pub(crate) struct Human<O, E> {
    look: TerminalStyle,
    text: TextStream<O>,
    err: E,
    spinner: Spinner,
    /// The items whose text is under way.
    items: HashMap<ItemId, PartialItem>,
    /// The calls whose result is not there yet, for the argument in their line.
    calls: HashMap<CallId, ToolCall>,
    /// Running calls, in the order in which they began.
    running: Vec<RunningCall>,
    /// Set while a turn runs.
    live: bool,
    /// About how many tokens of its requests repeated the request before.
    repeated: u64,
    /// Kind of the last output, so that text and status lines are set apart.
    last: Last,
    /// The turn is the first of its session.
    opens_session: bool,
    shows_input: bool,
    shows_interrupts: bool,
    answer_alone: bool,
    /// The line of the answer that is not whole yet, where lines are written one by one.
    line: Option<String>,
    /// The words for what shows whole what is told in a line; none where nothing does.
    shows_whole: &'static str,
}

/// A call that runs.
#[derive(Debug)]
struct RunningCall {
    item: ItemId,
    call: CallId,
    /// The call with its argument.
    what: String,
    /// The last lines of its progress.
    lines: VecDeque<String>,
}

/// Events before the start of a session's first turn at the most, and that start.
const OPENING: u64 = 4;

/// Lines of a running call that are shown below it.
const LIVE_LINES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Text,
    Status,
}

impl Human<io::Stdout, io::Stderr> {
    /// On the process's own outputs.
    pub(crate) fn stdio() -> Self {
        Self::new(io::stdout(), io::stderr(), TerminalStyle::detect())
    }
}

impl<O: Write, E: Write> Human<O, E> {
    /// The answer goes to `out`, everything else to `err`.
    pub(crate) fn new(out: O, err: E, look: TerminalStyle) -> Self {
        Self {
            look,
            text: TextStream::new(out, look),
            err,
            spinner: Spinner::new(look),
            items: HashMap::new(),
            calls: HashMap::new(),
            running: Vec::new(),
            live: false,
            repeated: 0,
            last: Last::Nothing,
            opens_session: false,
            shows_input: false,
            shows_interrupts: false,
            answer_alone: false,
            line: None,
            shows_whole: "",
        }
    }

    /// Shows what the person said, too: for those who did not type it themselves.
    pub(crate) fn showing_input(self) -> Self {
        Self { shows_input: true, ..self }
    }

    /// Says that `/show` shows whole what is told in a line.
    pub(crate) fn in_chat(self) -> Self {
        Self { shows_whole: " · /show", ..self }
    }

    /// Shows nothing that moves: for what is over.
    pub(crate) fn still(self) -> Self {
        let look = TerminalStyle { err_terminal: false, ..self.look };
        Self { spinner: Spinner::new(look), ..self }
    }

    /// Writes the answer when the turn has ended with it, alone and as it is, also on a terminal; nothing of a turn that ends
    /// otherwise, whose words match no schema.
    pub(crate) fn answer_alone(self) -> Self {
        let look = TerminalStyle { out_shown: false, ..self.look };
        Self { look, answer_alone: true, ..self }
    }

    /// Writes the words of the model line by line as they come, as they are, also on a terminal.
    pub(crate) fn line_by_line(self) -> Self {
        let look = TerminalStyle { out_shown: false, ..self.look };
        Self { look, line: Some(String::new()), ..self }
    }

    /// Shows interrupts as lines, for clients that do not ask.
    pub(crate) fn showing_interrupts(self) -> Self {
        Self { shows_interrupts: true, ..self }
    }

    fn show(&mut self, kind: &EventKind) -> io::Result<()> {
        match kind {
            EventKind::TurnStarted { model, .. } => {
                self.live = true;
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
            EventKind::InterruptResolved { by, .. } => self.interrupt_resolved(by),
            EventKind::UsageUpdated { prompt, .. } => {
                let repeated = prompt.as_ref().map_or(0, |prompt| prompt.repeated_tokens);
                self.repeated = self.repeated.saturating_add(repeated);
                Ok(())
            }
            EventKind::StateChanged { change } => {
                state_lines(change, self.look).iter().try_for_each(|line| self.painted(line))
            }
            // A choice of the daemon that nobody made is told; the usual ones are in the machine's output.
            EventKind::ModelChosen { model, rule: ChoiceRule::Fallback, reason, .. } => {
                let line = format!("! {} answers: {}", clean_line(model), clean_line(reason));
                self.folded(WARN, &line)?;
                self.wait_again();
                Ok(())
            }
            EventKind::ModelChosen { .. } | EventKind::IntentClassified { .. } => Ok(()),
            EventKind::Warning { message, .. } => {
                self.folded(WARN, &format!("! {}", clean_line(message)))?;
                self.wait_again();
                Ok(())
            }
            EventKind::TurnEnded { .. } => self.turn_ended(),
        }
    }

    fn item_started(&mut self, item: &Item) -> io::Result<()> {
        match &item.body {
            ItemBody::AgentMessage { text } | ItemBody::Reasoning { text } => {
                let reasoning = matches!(item.body, ItemBody::Reasoning { .. });
                self.items.insert(item.id, PartialItem::new(reasoning));
                if reasoning {
                    self.spinner.show("thinking");
                }
                self.delta(item.id, 0, text)
            }
            ItemBody::ToolCall(call) if !call.name.is_empty() => {
                self.spinner.show(&clean_line(&call.name));
                Ok(())
            }
            ItemBody::ToolResult(result) => {
                let what = tool_line::about(self.calls.get(&result.call_id), result).shown();
                let call = result.call_id.clone();
                self.running.push(RunningCall { item: item.id, call, what, lines: VecDeque::new() });
                self.wait();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn delta(&mut self, id: ItemId, offset: u64, text: &str) -> io::Result<()> {
        if let Some(running) = self.running.iter_mut().find(|running| running.item == id) {
            running.lines.extend(text.lines().map(clean_line).filter(|line| !line.is_empty()));
            let surplus = running.lines.len().saturating_sub(LIVE_LINES);
            running.lines.drain(..surplus);
            self.wait();
            return Ok(());
        }
        let Some(item) = self.items.get_mut(&id) else {
            // Its start was not seen, so that nobody knows what it is. The whole item will come.
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
                self.items.remove(&item.id);
                match thought_line(text, self.look.columns().saturating_sub(1), self.shows_whole) {
                    Some(line) => self.status(QUIET, &line),
                    None => Ok(()),
                }
            }
            ItemBody::ToolCall(call) => {
                self.calls.insert(call.call_id.clone(), call.clone());
                Ok(())
            }
            ItemBody::ToolResult(result) => {
                let call = self.calls.remove(&result.call_id);
                self.running.retain(|running| running.call != result.call_id);
                for line in watched_lines(call.as_ref(), result, self.look) {
                    self.painted(&line)?;
                }
                self.wait();
                Ok(())
            }
            ItemBody::UserMessage { text, steered, typed_bytes, .. } => {
                if *steered || self.shows_input {
                    self.status(STRONG, &format!("› {}", input_row::said(text, *typed_bytes)))
                } else {
                    Ok(())
                }
            }
            ItemBody::Compaction(compaction) => self.status(QUIET, &compaction_line(&compaction.report)),
            // With which skills a session opens is no news.
            ItemBody::Notice { topic: NoticeTopic::Skills, .. } if self.opens_session => Ok(()),
            ItemBody::Notice { topic, .. } if topic.is_for_model() => Ok(()),
            ItemBody::Notice { text, topic, sources, .. } => {
                self.status(QUIET, &clean_line(&notice_line(text, *topic, sources)))
            }
        }?;
        match (&item.body, status) {
            (ItemBody::ToolResult(_), _) | (_, ItemStatus::Done | ItemStatus::Cut) => Ok(()),
            (_, ItemStatus::Unknown) => self.status(QUIET, "(the daemon stopped while this was written)"),
        }
    }

    /// Shows what the deltas did not bring, and ends the text.
    fn message_completed(&mut self, id: ItemId, text: &str) -> io::Result<()> {
        let mut item = self.items.remove(&id).unwrap_or_else(|| PartialItem::new(false));
        let rest = text.get(item.taken..).map(|rest| item.grow(rest)).unwrap_or_default();
        self.say(&rest)?;
        if let Some(line) = self.line.as_mut().filter(|line| !line.is_empty()) {
            self.text.whole(&std::mem::take(line))?;
        }
        if item.begun && self.look.out_shown {
            self.text.finish()?;
        }
        self.wait();
        Ok(())
    }

    /// Writes words of the answer, where they are written as they come.
    fn say(&mut self, text: &str) -> io::Result<()> {
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

    /// Says on the spinner what is waited for.
    fn wait(&mut self) {
        match self.running.as_slice() {
            _ if self.text.is_open() => {}
            [] => self.spinner.show("waiting for the model"),
            [one] => self.spinner.show_lines(&one.what, one.lines.iter().map(|line| format!("  {line}"))),
            [one, others @ ..] => {
                let last = |call: &RunningCall| Some(format!("  {}: {}", call.what, call.lines.back()?));
                let what = format!("{} and {} more", one.what, others.len());
                self.spinner.show_lines(&what, self.running.iter().filter_map(last));
            }
        }
    }

    /// Puts the spinner back after a line was written while something was waited for.
    fn wait_again(&mut self) {
        if self.live {
            self.wait();
        }
    }

    fn interrupt_raised(&mut self, interrupt: &Interrupt) -> io::Result<()> {
        self.make_way()?;
        if !self.shows_interrupts {
            // The question sets itself apart from the words before it.
            self.last = Last::Status;
            return Ok(());
        }
        let what = match &interrupt.ask {
            Ask::Approval { tool, args, .. } => call_line(tool, args),
            Ask::Question { question, .. } => visible::line(question),
        };
        self.status(WARN, &format!("? {}", what.trim_end()))?;
        let id = crate::report::short_id(interrupt.id);
        self.status(QUIET, &format!("  answer it with: agentctl answer {id} …"))?;
        self.status(QUIET, &format!("  see it in full: agentctl interrupts {id}"))
    }

    fn interrupt_resolved(&mut self, by: &AnsweredBy) -> io::Result<()> {
        let line = match by {
            AnsweredBy::Client(client) if self.shows_interrupts => format!("answered by {}", clean_line(client)),
            AnsweredBy::Client(_) => return Ok(()),
            AnsweredBy::Deadline => "no answer in time".to_owned(),
            AnsweredBy::Daemon => "question withdrawn".to_owned(),
        };
        self.status(QUIET, &line)
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

    /// Leaves the terminal to others: no spinner, the cursor at the start of a row.
    fn make_way(&mut self) -> io::Result<()> {
        self.spinner.clear();
        if self.text.is_open() && self.look.out_shown { self.text.finish() } else { Ok(()) }
    }

    fn turn_ended(&mut self) -> io::Result<()> {
        self.make_way()?;
        self.live = false;
        self.items.clear();
        self.calls.clear();
        self.running.clear();
        Ok(())
    }

    /// A status line in one style. The text must be clean.
    fn status(&mut self, style: Style, line: &str) -> io::Result<()> {
        let line = clip(line, self.look.columns().saturating_sub(1));
        self.painted(&paint(self.look.err_color, style, &line))
    }

    /// A status line that is too important to be cut: in as many rows as it takes.
    fn folded(&mut self, style: Style, line: &str) -> io::Result<()> {
        let columns = if self.look.err_shown { self.look.columns().saturating_sub(1) } else { usize::MAX };
        for row in fold(line, columns) {
            self.painted(&paint(self.look.err_color, style, &row))?;
        }
        Ok(())
    }

    /// A status line that has its styles already.
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
        self.show(&event.kind)
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

    fn typed(&mut self, typed: &TypeAhead) -> io::Result<()> {
        let row = input_row::of(typed, self.look.columns());
        self.spinner.below(Some(row.clone()));
        // Below what streams it is written again with each piece, so it stands there only where it says something.
        let has_words = typed.is_writing() || typed.waiting() > 0;
        self.text.below(Some(row).filter(|_| has_words))
    }

    fn lost(&mut self) -> io::Result<()> {
        self.note(LOST)?;
        self.spinner.show("waiting for the daemon");
        Ok(())
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        for line in text.lines() {
            // Spaces stay, for what is aligned.
            self.folded(QUIET, &clean(line))?;
        }
        self.wait_again();
        Ok(())
    }
}

#[cfg(test)]
#[path = "human_tests.rs"]
mod tests;

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
    event::{Event, EventKind, StateChange},
    ids::{CallId, ItemId},
    interrupt::{AnsweredBy, Ask, Interrupt},
    item::{Item, ItemBody, ItemStatus},
    tool::ToolCall,
    turn::TurnResult,
    visible,
};
use anstyle::Style;

use super::{
    closing,
    context::{compaction_line, level_line, notice_line, todo_rows},
    input_row,
    spinner::Spinner,
    stream::TextStream,
    tool_line::{self, argument_of, watched_lines},
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
    shows_input: bool,
    shows_interrupts: bool,
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

/// Lines of a running call that are shown below it.
const LIVE_LINES: usize = 3;

/// An item's text as far as it is known.
#[derive(Debug)]
struct PartialItem {
    reasoning: bool,
    /// Bytes of the text that were taken in.
    taken: usize,
    /// Last line of the reasoning, for the spinner.
    tail: String,
    /// Newlines that are shown only if text follows them.
    held: usize,
    begun: bool,
}

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
            shows_input: false,
            shows_interrupts: false,
        }
    }

    /// Shows what the person said, too: for those who did not type it themselves.
    pub(crate) fn showing_input(self) -> Self {
        Self { shows_input: true, ..self }
    }

    /// Shows nothing that moves: for what is over.
    pub(crate) fn still(self) -> Self {
        let look = TerminalStyle { err_terminal: false, ..self.look };
        Self { spinner: Spinner::new(look), ..self }
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
            EventKind::StateChanged { change } => self.state_changed(change),
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
                let about = tool_line::about(self.calls.get(&result.call_id), result);
                let what = format!("{} {about}", clean_line(&result.name));
                let (call, what) = (result.call_id.clone(), what.trim_end().to_owned());
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
                let thought = clean_line(text);
                if thought.is_empty() { Ok(()) } else { self.status(QUIET, &format!("∴ {thought}")) }
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
            ItemBody::UserMessage { text, steered, .. } => {
                if *steered || self.shows_input {
                    self.status(STRONG, &format!("› {}", clean_line(text)))
                } else {
                    Ok(())
                }
            }
            ItemBody::Compaction(compaction) => self.status(QUIET, &compaction_line(&compaction.report)),
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
        if item.begun && self.look.out_terminal {
            self.text.finish()?;
        }
        self.wait();
        Ok(())
    }

    /// Writes words of the answer, where they are written as they come.
    fn say(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() || !self.look.out_terminal {
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
            return Ok(());
        }
        let what = match &interrupt.ask {
            Ask::Approval { tool, args, .. } => format!("{} {}", visible::line(tool), argument_of(args)),
            Ask::Question { question, .. } => visible::line(question),
        };
        self.status(WARN, &format!("? {}", what.trim_end()))?;
        let id = interrupt.id;
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

    fn state_changed(&mut self, change: &StateChange) -> io::Result<()> {
        match change {
            StateChange::TokenLevel { level, tokens, window } => match level_line(*level, *tokens, *window) {
                Some(line) => self.status(QUIET, &line),
                None => Ok(()),
            },
            StateChange::Window { .. } => self.status(QUIET, "the last compaction was undone"),
            StateChange::Todos { todos } => todo_rows(todos, self.look).iter().try_for_each(|row| self.painted(row)),
            StateChange::Queue { length: 0, .. } | StateChange::Title { .. } | StateChange::Settings { .. } => Ok(()),
            StateChange::Queue { length: 1, .. } => self.status(QUIET, "one more turn waits"),
            StateChange::Queue { length, .. } => self.status(QUIET, &format!("{length} more turns wait")),
            StateChange::Reset => self.status(QUIET, "the history was cleared"),
            StateChange::Agent { stack } => {
                let names = ["main"].into_iter().chain(stack.iter().map(String::as_str));
                let way = names.map(clean_line).collect::<Vec<_>>().join(" → ");
                self.status(QUIET, &if stack.is_empty() { "back to main".to_owned() } else { way })
            }
            StateChange::Subagent(subagent) => {
                self.status(QUIET, &format!("⤷ {}: {}", clean_line(&subagent.name), clean_line(&subagent.task)))
            }
            StateChange::Forked { from, turn } => {
                self.status(QUIET, &format!("from here on a fork of session {from}, after its turn {turn}"))
            }
            // The notice that comes with it says what was done, and so does the tool that wrote a file.
            StateChange::Undone { .. } | StateChange::File(_) => Ok(()),
            StateChange::HandedOver { path, .. } => self.status(QUIET, &format!("attached: {}", clean_line(path))),
        }
    }

    fn finish_turn(&mut self, result: &TurnResult) -> io::Result<()> {
        self.turn_ended()?;
        if !self.look.out_terminal && !result.text.is_empty() {
            self.text.whole(result.text.trim_end_matches('\n'))?;
        }
        for line in closing::lines(result, self.repeated, self.look.err_color) {
            self.painted(&line)?;
        }
        self.last = Last::Nothing;
        Ok(())
    }

    /// Leaves the terminal to others: no spinner, the cursor at the start of a row.
    fn make_way(&mut self) -> io::Result<()> {
        self.spinner.clear();
        if self.text.is_open() && self.look.out_terminal { self.text.finish() } else { Ok(()) }
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
        let columns = if self.look.err_terminal { self.look.columns().saturating_sub(1) } else { usize::MAX };
        for row in fold(line, columns) {
            self.painted(&paint(self.look.err_color, style, &row))?;
        }
        Ok(())
    }

    /// A status line that has its styles already.
    fn painted(&mut self, line: &str) -> io::Result<()> {
        self.make_way()?;
        if self.last == Last::Text && self.look.err_terminal {
            self.text.line("")?;
        }
        self.last = Last::Status;
        writeln!(self.err, "{line}")?;
        self.err.flush()
    }
}

impl PartialItem {
    fn new(reasoning: bool) -> Self {
        Self { reasoning, taken: 0, tail: String::new(), held: 0, begun: false }
    }

    /// New text of a delta, if it joins on to what is there. Deltas may be lost or repeated.
    fn take<'a>(&mut self, offset: u64, text: &'a str) -> Option<&'a str> {
        let offset = usize::try_from(offset).ok()?;
        let new = text.get(self.taken.checked_sub(offset)?..).filter(|new| !new.is_empty())?;
        self.taken += new.len();
        Some(new)
    }

    /// The part of new text that can be shown: newlines before the first word never, others once a word follows.
    fn grow(&mut self, new: &str) -> String {
        let body = new.trim_end_matches(['\n', '\r']);
        let mut visible = String::with_capacity(self.held + body.len());
        if !body.is_empty() {
            let body = if self.begun { body } else { body.trim_start_matches(['\n', '\r']) };
            visible.extend(std::iter::repeat_n('\n', std::mem::take(&mut self.held)));
            visible.push_str(body);
            self.begun |= !body.is_empty();
        }
        if self.begun {
            self.held += new[new.trim_end_matches(['\n', '\r']).len()..].matches('\n').count();
        }
        visible
    }

    /// The last words of a reasoning.
    fn think(&mut self, new: &str) -> &str {
        self.tail.push_str(&new.replace(['\n', '\r', '\t'], " "));
        if self.tail.len() > 400 {
            let cut = self.tail.char_indices().rev().nth(60).map_or(0, |(at, _)| at);
            self.tail.drain(..cut);
        }
        let clean = clean_line(&self.tail);
        let start = clean.char_indices().rev().nth(50).map_or(0, |(at, _)| at);
        self.tail = clean;
        &self.tail[start..]
    }
}

impl<O: Write + Send, E: Write + Send> Renderer for Human<O, E> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
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

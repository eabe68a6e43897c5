//! Questions on a terminal: their layout, and the keys that answer them.

use std::io;

use agentd_core::{
    Timestamp,
    grant::GrantScope,
    interrupt::{Answer, Ask, Interrupt},
    policy::Risk,
    visible,
};
use serde_json::Value;

use super::console::{Console, Key};
use crate::{
    daemon::CLIENT,
    render::{
        asking,
        diff::{self, Room},
    },
    report::short_id,
    terminal::paint::{BAD, CODE, GOOD, QUIET, STRONG, WARN, clip, fold, paint, width},
    turn::EDITED,
};

/// Number of rows of a question without its preview and its rules.
const OTHER_ROWS: usize = 7;
/// Maximum number of rows of rules.
const RULE_ROWS: usize = 3;
/// Indent of a preview, and of the rules below it.
const INDENT: usize = 4;
/// Number of columns of the digit before a rule.
const DIGIT: usize = 3;

/// Asks until the answer is valid. `None` leaves the interrupt pending, or means that it was dropped.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub(crate) fn ask(console: &mut dyn Console, interrupt: &Interrupt, color: bool) -> io::Result<Option<Answer>> {
    let mut question = Question { console, interrupt, color, is_dropped: false };
    if let (Some(plan), Ask::Approval { args, reason, .. }) = (interrupt.ask.plan(), &interrupt.ask) {
        question.show_plan(plan, reason.starts_with(EDITED))?;
        return question.approval(args, Risk::Medium, plan, Offers::default());
    }
    match &interrupt.ask {
        Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants, wider, for_good, .. } => {
            let preview = preview.clone().unwrap_or_else(|| pretty(args));
            question.show_approval(tool, *risk, &asking::why(reason, *layer, rule.as_deref()), &preview)?;
            question.approval(args, *risk, &preview, Offers { grants, wider, for_good, chosen: None })
        }
        Ask::Question { question: text, context, default, required, choices, secret } => {
            question.show_question(text, context.as_deref(), choices)?;
            if *secret { question.secret() } else { question.text(default.as_deref(), *required) }
        }
    }
}

/// Rules that an `always` can keep: the exact ones, or a wider one that the user chooses.
#[derive(Clone, Copy, Default)]
struct Offers<'a> {
    grants: &'a [String],
    wider: &'a [String],
    /// Rules that are kept for good instead of the exact ones; empty if they are the same.
    for_good: &'a [String],
    /// Index of the chosen wider rule.
    chosen: Option<usize>,
}

impl<'a> Offers<'a> {
    /// Returns the chosen rules.
    fn rules(&self) -> &'a [String] {
        self.chosen.and_then(|at| self.wider.get(at..=at)).unwrap_or(self.grants)
    }

    /// Returns the chosen rules for the session and for good.
    fn all_rules(&self) -> Vec<String> {
        let for_good = self.for_good.iter().filter(|_| self.chosen.is_none());
        self.rules().iter().chain(for_good).cloned().collect()
    }

    /// Returns true if the chosen rules can be kept for good.
    fn is_for_good(&self) -> bool {
        self.chosen.is_none() || self.rules().iter().all(|rule| Ask::is_for_good(rule))
    }

    /// Returns the offers with the choice of a valid digit; 1 chooses the exact rules.
    fn with(self, digit: char) -> Option<Self> {
        let at = digit.to_digit(10)?.checked_sub(1)? as usize;
        let chosen = at.checked_sub(1);
        (!self.wider.is_empty() && at <= self.wider.len()).then_some(Self { chosen, ..self })
    }

    /// Returns the other choices, each with its digit.
    fn others(&self) -> impl Iterator<Item = String> {
        let now = self.chosen.map_or(0, |at| at + 1);
        let exact = self.grants.join("; ");
        let all = std::iter::once(exact).chain(self.wider.iter().map(|rule| asking::rule(rule)));
        all.enumerate()
            .filter(move |(at, _)| *at != now)
            .map(|(at, rule)| format!("{}  {}", at + 1, visible::line(&rule)))
    }

    /// Returns the answer that keeps the chosen rules.
    fn always(&self, scope: GrantScope) -> Answer {
        match self.chosen.and_then(|at| self.wider.get(at)) {
            Some(rule) => Answer::Keep { rule: rule.clone(), scope },
            None => Answer::Always { scope },
        }
    }
}

pub(super) struct Question<'a> {
    pub(super) console: &'a mut dyn Console,
    pub(super) interrupt: &'a Interrupt,
    pub(super) color: bool,
    /// True if a line was left because the question was dropped.
    pub(super) is_dropped: bool,
}

impl Question<'_> {
    fn show_approval(&mut self, tool: &str, risk: Risk, why: &str, preview: &str) -> io::Result<()> {
        let color = self.color;
        let style = match risk {
            Risk::Low => QUIET,
            Risk::Medium => WARN,
            Risk::High => BAD,
            Risk::Critical => BAD.bold(),
        };
        let (asks, tool) = match self.own_heading() {
            Some(heading) => ("?", heading.to_owned()),
            None => ("? The model wants to use", visible::line(tool)),
        };
        let risk = format!("({})", asking::risk(risk));
        // On a narrow screen, the risk is on a separate row.
        let gap = if width(asks) + width(&tool) + width(&risk) + 3 > self.console.size().0 { "\n  " } else { " " };
        let mut text = format!(
            "\n{} {}{gap}{}\n",
            paint(color, WARN, asks),
            paint(color, STRONG, &tool),
            paint(color, style, &risk),
        );
        // Users know about their own turns.
        if !self.interrupt.asked_by.is_own(CLIENT) {
            text.push_str(&self.aside(&format!("for: {}", asking::who(&self.interrupt.asked_by))));
        }
        if !why.is_empty() {
            text.push_str(&self.aside(&format!("why: {why}")));
        }
        self.console.write(&text)?;
        let text = indented(&diff::preview(preview, self.room(), color));
        self.console.write(&text)
    }

    /// Shows a plan. The plan of the user's own turn is already on the screen, so only its heading is shown, unless the
    /// user edited it.
    fn show_plan(&mut self, plan: &str, edited: bool) -> io::Result<()> {
        let asks = "? Carry out this plan? Nothing is changed before you say so.";
        let mut text = format!("\n{}\n", paint(self.color, WARN, asks));
        let is_own = self.interrupt.asked_by.is_own(CLIENT);
        if !is_own {
            text.push_str(&self.aside(&format!("for: {}", asking::who(&self.interrupt.asked_by))));
        }
        if !is_own || edited {
            text.push_str(&indented(&diff::preview(plan, self.room(), self.color)));
        }
        self.console.write(&text)
    }

    /// Returns a quiet text of the client, indented and broken between words.
    fn aside(&self, text: &str) -> String {
        let rows = fold(text, self.console.size().0.saturating_sub(INDENT));
        rows.iter().map(|row| format!("  {}\n", paint(self.color, QUIET, row))).collect()
    }

    /// Returns the room of a preview that leaves space for the question and its answers on the screen.
    fn room(&self) -> Room {
        let (columns, rows) = self.console.size();
        Room {
            rows: rows.saturating_sub(OTHER_ROWS + RULE_ROWS).max(5),
            columns: columns.saturating_sub(INDENT).max(1),
        }
    }

    /// Returns the room of the rules, without their digits.
    fn room_of_rules(&self) -> Room {
        let room = self.room();
        Room { rows: RULE_ROWS, columns: room.columns.saturating_sub(DIGIT).max(1) }
    }

    /// Returns true if the preview or the rules do not fit on the screen.
    fn is_longer(&self, preview: &str, grants: &[String]) -> bool {
        let cut = diff::preview(preview, self.room(), false);
        let whole = diff::preview(preview, Room::of_columns(self.room().columns), false);
        cut != whole || !asking::rules(grants, self.room_of_rules()).1
    }

    /// Shows the complete preview and rules, in the pager if there is one.
    fn view_all(&mut self, preview: &str, grants: &[String]) -> io::Result<()> {
        let mut lines = diff::preview(preview, Room::of_columns(self.room().columns), self.color);
        if !grants.is_empty() {
            lines.push(String::new());
            lines.push(paint(self.color, QUIET, "always keeps:"));
            lines.extend(asking::rules(grants, Room::WITHOUT_END).0.iter().map(|rule| format!("  {rule}")));
        }
        let all = indented(&lines);
        self.console.write("\r\x1b[J")?;
        if self.console.page(&all)? { Ok(()) } else { self.console.write(&all) }
    }

    fn show_question(&mut self, question: &str, context: Option<&str>, choices: &[String]) -> io::Result<()> {
        let color = self.color;
        let mut text =
            format!("\n{} {}\n", paint(color, WARN, "?"), paint(color, STRONG, &visible::lines(question.trim())));
        for line in context.map(visible::lines).unwrap_or_default().lines() {
            text.push_str(&format!("  {}\n", paint(color, QUIET, line)));
        }
        let columns = self.console.size().0.saturating_sub(INDENT).max(1);
        for (at, choice) in choices.iter().enumerate() {
            let number = paint(color, CODE, &(at + 1).to_string());
            for (row, part) in fold(&visible::line(choice), columns.saturating_sub(3)).into_iter().enumerate() {
                let mark = if row == 0 { &number } else { " " };
                text.push_str(&format!("    {mark}  {part}\n"));
            }
        }
        if !choices.is_empty() {
            text.push_str(&self.aside("a number and Enter chooses; other words are an answer, too"));
        }
        self.console.write(&text)
    }

    fn approval(
        &mut self,
        args: &Value,
        risk: Risk,
        preview: &str,
        mut offers: Offers<'_>,
    ) -> io::Result<Option<Answer>> {
        let grave = matches!(risk, Risk::High | Risk::Critical);
        let longer = self.is_longer(preview, &offers.all_rules());
        self.show_rules(&offers)?;
        self.show_choices(&offers, longer)?;
        loop {
            self.console.rest();
            let grants = offers.rules();
            let answer = match self.console.key()? {
                None => return self.dropped(),
                Some(Key::Char('y' | 'Y')) if !grave => Some(Answer::Approve),
                Some(key @ Key::Char('y' | 'Y')) => {
                    let what = format!("{}: approve it?", asking::risk(risk));
                    self.confirmed(key, &what, Answer::Approve)?
                }
                Some(Key::Char('n' | 'N') | Key::Escape) => self.reject()?,
                Some(key @ Key::Char('a' | 'A')) if !grants.is_empty() => {
                    self.always(key, GrantScope::Session, &offers)?
                }
                Some(key @ Key::Char('g' | 'G')) if !grants.is_empty() && offers.is_for_good() => {
                    self.always(key, GrantScope::ForGood, &offers)?
                }
                Some(Key::Char('e' | 'E')) if self.own_heading().is_none() => self.edit(args, grave)?,
                Some(Key::Char('s' | 'S') | Key::Leave) => return self.skipped("approve"),
                Some(Key::Char('v' | 'V')) if longer => {
                    self.view_all(preview, &offers.all_rules())?;
                    self.show_rules(&offers)?;
                    self.show_choices(&offers, longer)?;
                    continue;
                }
                Some(Key::Char(digit)) if offers.with(digit).is_some() => {
                    offers = offers.with(digit).unwrap_or(offers);
                    self.console.write("\r\x1b[J")?;
                    self.show_rules(&offers)?;
                    self.show_choices(&offers, longer)?;
                    continue;
                }
                Some(key @ (Key::Char(_) | Key::Paste(_))) if key != Key::Char(' ') => {
                    // The key may be the start of a message.
                    self.console.keep(&[key])?;
                    continue;
                }
                Some(_) => continue,
            };
            match answer {
                Some(answer) => {
                    self.said(&answer, grants)?;
                    return Ok(Some(answer));
                }
                None => self.show_choices(&offers, longer)?,
            }
        }
    }

    /// Shows the effects of the answers: the rules that would be kept, each choice with its digit if there are several,
    /// and the answer at the deadline.
    fn show_rules(&mut self, offers: &Offers<'_>) -> io::Result<()> {
        let (mut lines, grants) = (Vec::new(), offers.rules());
        if !grants.is_empty() {
            let is_same = offers.chosen.is_some() || offers.for_good.is_empty();
            let kept = |rules: &[String]| asking::rules(rules, self.room_of_rules()).0;
            let here = "always keeps, for this session (a):";
            let both = "always keeps, for this session (a) or for good in every session (g):";
            let both = if offers.is_for_good() { both } else { here };
            lines.push(if is_same { both } else { here }.to_owned());
            let digit = (!offers.wider.is_empty()).then(|| offers.chosen.map_or(1, |at| at + 2));
            lines.extend(kept(grants).iter().enumerate().map(|(row, rule)| match digit {
                Some(digit) if row == 0 => format!("  {digit}  {rule}"),
                Some(_) => format!("     {rule}"),
                None => format!("  {rule}"),
            }));
            if !is_same {
                lines.push("or for good (g), in every session that starts it in the same folder:".to_owned());
                lines.extend(kept(offers.for_good).iter().map(|rule| format!("  {rule}")));
            }
        }
        let is_once = self.interrupt.ask.plan().is_none() && self.interrupt.ask.writable_project().is_none();
        if grants.is_empty() && offers.wider.is_empty() && is_once {
            let why = match &self.interrupt.ask {
                Ask::Approval { risk: Risk::Critical, .. } => "critical risk",
                _ => "no rule could name exactly this",
            };
            lines.push(format!("{why}: it can be approved once only"));
        }
        if !offers.wider.is_empty() {
            let columns = self.room().columns;
            lines.push("or, if you press its digit first:".to_owned());
            lines.extend(offers.others().map(|other| format!("  {}", clip(&other, columns))));
        }
        lines.extend(asking::unanswered(self.interrupt, Timestamp::now()));
        // A rule has one row; other texts are folded.
        let columns = self.console.size().0.saturating_sub(INDENT);
        let rows = lines.iter().flat_map(|line| match line.starts_with("  ") {
            true => vec![line.clone()],
            false => fold(line, columns),
        });
        let text: String = rows.map(|row| format!("  {}\n", paint(self.color, QUIET, &row))).collect();
        self.console.write(&text)
    }

    /// Returns the heading of a question that is not about a call. Such a question cannot be edited.
    fn own_heading(&self) -> Option<&'static str> {
        match &self.interrupt.ask {
            Ask::Approval { tool, .. } if tool == Ask::KEEP => Some("Keep what the command wrote?"),
            ask => ask.writable_project().map(|_| "Make this folder writable?"),
        }
    }

    fn show_choices(&mut self, offers: &Offers<'_>, longer: bool) -> io::Result<()> {
        let can_keep = !offers.rules().is_empty();
        let yes = if self.interrupt.ask.writable_project().is_some() { "yes" } else { "yes, once" };
        // Each choice with its text for wide and for narrow windows.
        let all = [
            (true, "y", yes, "yes"),
            (true, "n", "no", "no"),
            (can_keep, "a", "always here", "always"),
            (can_keep && offers.is_for_good(), "g", "for good", "good"),
            (self.own_heading().is_none(), "e", "edit", "edit"),
            (longer, "v", "view all", "view"),
            (true, "s", "later", "later"),
        ];
        let choices: Vec<_> = all.into_iter().filter(|(is_offered, ..)| *is_offered).collect();
        let taken: usize = choices.iter().map(|(_, key, words, _)| width(key) + width(words) + 3).sum();
        let is_narrow = taken + 2 > self.console.size().0;
        let shown = choices.iter().map(|(_, key, words, short)| {
            format!("{} {}", paint(self.color, CODE, key), if is_narrow { short } else { words })
        });
        let row = shown.collect::<Vec<_>>().join("  ");
        self.console.write(&format!("  {row} "))
    }

    /// Returns an `always` once the user has confirmed it, or `None` otherwise.
    fn always(&mut self, key: Key, scope: GrantScope, offers: &Offers<'_>) -> io::Result<Option<Answer>> {
        let what = if offers.rules().len() == 1 { "this rule" } else { "these rules" };
        let place = match scope {
            GrantScope::Session => "for this session",
            GrantScope::ForGood => "in every session, until you revoke it",
        };
        self.confirmed(key, &format!("keep {what} {place}?"), offers.always(scope))
    }

    /// Returns an answer that needs a confirmation, once the user presses Enter. A letter or paste instead means that
    /// the user is writing a message, to which the first key belongs.
    pub(super) fn confirmed(&mut self, key: Key, what: &str, answer: Answer) -> io::Result<Option<Answer>> {
        let what = paint(self.color, WARN, what);
        self.console.write(&format!("\n  {what} Enter yes, Esc no "))?;
        let next = self.console.key()?;
        if next == Some(Key::Enter) {
            return Ok(Some(answer));
        }
        self.console.write("\n")?;
        if let Some(next @ (Key::Char(_) | Key::Paste(_))) = next {
            self.console.keep(&[key, next])?;
        }
        Ok(None)
    }

    /// Asks for the reason of a rejection, which the model receives. Returns `None` if the user leaves the line.
    fn reject(&mut self) -> io::Result<Option<Answer>> {
        self.console.write("\n")?;
        let reason = self.line("  reason (Enter for none): ", "")?;
        Ok(reason.map(|reason| Answer::Reject { reason: (!reason.trim().is_empty()).then_some(reason) }))
    }

    pub(super) fn not_taken(&mut self, why: &str) -> io::Result<Option<Answer>> {
        let line = paint(self.color, BAD, &visible::line(why));
        self.console.write(&format!("  {line}\n"))?;
        Ok(None)
    }

    fn text(&mut self, default: Option<&str>, required: bool) -> io::Result<Option<Answer>> {
        let prompt = match default {
            Some(default) => format!("  [{}] > ", visible::line(default)),
            None => "  > ".to_owned(),
        };
        loop {
            let Some(text) = self.line(&prompt, "")? else {
                return if self.is_dropped { self.dropped() } else { self.skipped("TEXT") };
            };
            let text = default.filter(|_| text.trim().is_empty()).map_or(text, str::to_owned);
            let answer = Answer::Text { text: self.interrupt.ask.chosen(&text).to_owned() };
            match answer.misfit(&self.interrupt.ask) {
                Some(why) if required => self.not_taken(why)?,
                _ => return Ok(Some(answer)),
            };
        }
    }

    /// Reads a line. Returns `None` after Escape, or if the question was dropped.
    pub(super) fn line(&mut self, prompt: &str, initial: &str) -> io::Result<Option<String>> {
        if let Some(read) = self.console.read_line(prompt, initial) {
            return read;
        }
        self.typed(prompt, initial, |text| text.replace(visible::is_hidden, "�"))
    }

    fn said(&mut self, answer: &Answer, grants: &[String]) -> io::Result<()> {
        let (style, line) = match answer {
            Answer::Approve | Answer::Text { .. } => (GOOD, "approved".to_owned()),
            Answer::Reject { .. } => (BAD, "rejected".to_owned()),
            Answer::Always { scope } | Answer::Keep { scope, .. } => {
                let kept = answer.kept(&self.interrupt.ask).map_or(grants, |(rules, _)| rules);
                (GOOD, format!("approved, and {}", asking::kept(*scope, kept)))
            }
            Answer::Edit { .. } => (GOOD, "answered with other arguments".to_owned()),
        };
        self.console.write(&format!("\r\x1b[J  {}\n", paint(self.color, style, &line)))
    }

    pub(super) fn skipped(&mut self, example: &str) -> io::Result<Option<Answer>> {
        let id = short_id(self.interrupt.id);
        let line = format!("left open; answer it later with: agentctl answer {id} {example}");
        let line = line.trim_end();
        self.console.write(&format!("\r\x1b[J  {}\n", paint(self.color, QUIET, line)))?;
        Ok(None)
    }

    pub(super) fn dropped(&mut self) -> io::Result<Option<Answer>> {
        // The code that dropped the question reports the reason.
        self.console.write("\r\x1b[J")?;
        Ok(None)
    }
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

pub(super) fn pretty(args: &Value) -> String {
    match args {
        Value::String(text) => text.clone(),
        args => format!("{args:#}"),
    }
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;

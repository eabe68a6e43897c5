//! What is asked, how it looks, and how keys become an answer.

use std::io;

use agentd_core::{
    Timestamp,
    grant::GrantScope,
    interrupt::{Answer, Ask, Interrupt},
    policy::Risk,
};
use serde_json::Value;

use super::console::{Console, Key};
use crate::render::{
    asking, diff,
    paint::{BAD, CODE, GOOD, QUIET, STRONG, WARN, paint, width},
    sanitize::{clean, clean_line},
};

/// The rows that a question needs besides its preview.
const OTHER_ROWS: usize = 10;

/// Asks until there is an answer that fits. None leaves the interrupt pending, or says that it was dropped.
///
/// # Errors
/// When the terminal cannot be read or written.
pub(crate) fn ask(console: &mut dyn Console, interrupt: &Interrupt, color: bool) -> io::Result<Option<Answer>> {
    let mut question = Question { console, interrupt, color };
    match &interrupt.ask {
        Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants } => {
            let preview = preview.clone().unwrap_or_else(|| pretty(args));
            question.show_approval(tool, *risk, &asking::why(reason, *layer, rule.as_deref()), &preview)?;
            question.approval(args, &preview, grants)
        }
        Ask::Question { question: text, context, default, required } => {
            question.show_question(text, context.as_deref())?;
            question.text(default.as_deref(), *required)
        }
    }
}

struct Question<'a> {
    console: &'a mut dyn Console,
    interrupt: &'a Interrupt,
    color: bool,
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
        let mut text = format!(
            "\n{} {} {}\n",
            paint(color, WARN, "? The model wants to use"),
            paint(color, STRONG, &clean_line(tool)),
            paint(color, style, &format!("({})", asking::risk(risk))),
        );
        text.push_str(&format!(
            "  {}\n",
            paint(color, QUIET, &format!("for: {}", asking::who(&self.interrupt.asked_by)))
        ));
        if !why.is_empty() {
            text.push_str(&format!("  {}\n", paint(color, QUIET, &format!("why: {why}"))));
        }
        self.console.write(&text)?;
        self.show_preview(preview, self.preview_rows())
    }

    /// The rows that a preview may take, so that what is asked and what can be answered are on one screen with it.
    fn preview_rows(&self) -> usize {
        self.console.size().1.saturating_sub(OTHER_ROWS).max(5)
    }

    fn show_preview(&mut self, preview: &str, height: usize) -> io::Result<()> {
        let lines = diff::preview(preview, height, self.color);
        let text: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        self.console.write(&text)
    }

    fn show_question(&mut self, question: &str, context: Option<&str>) -> io::Result<()> {
        let color = self.color;
        let mut text = format!("\n{} {}\n", paint(color, WARN, "?"), paint(color, STRONG, clean(question).trim()));
        for line in context.map(clean).unwrap_or_default().lines() {
            text.push_str(&format!("  {}\n", paint(color, QUIET, line)));
        }
        self.console.write(&text)
    }

    fn approval(&mut self, args: &Value, preview: &str, grants: &[String]) -> io::Result<Option<Answer>> {
        let longer = preview.lines().count() > self.preview_rows();
        self.show_rules(grants)?;
        self.show_choices(grants, longer)?;
        loop {
            let answer = match self.console.key()? {
                None => return self.dropped(),
                Some(Key::Char('y' | 'Y')) => Some(Answer::Approve),
                Some(Key::Char('n' | 'N')) => self.reject()?,
                Some(Key::Char('a' | 'A')) if !grants.is_empty() => Some(Answer::Always { scope: GrantScope::Session }),
                Some(Key::Char('g' | 'G')) if !grants.is_empty() => self.for_good(grants)?,
                Some(Key::Char('e' | 'E')) => self.edit(args)?,
                Some(Key::Char('s' | 'S') | Key::Escape) => return self.skipped("approve"),
                Some(Key::Char('v' | 'V')) if longer => {
                    self.console.write("\r\x1b[J")?;
                    self.show_preview(preview, usize::MAX)?;
                    self.show_rules(grants)?;
                    self.show_choices(grants, longer)?;
                    continue;
                }
                Some(_) => continue,
            };
            match answer {
                Some(answer) => {
                    self.said(&answer, grants)?;
                    return Ok(Some(answer));
                }
                None => self.show_choices(grants, longer)?,
            }
        }
    }

    /// What an answer would do that is not plain from its name: the exact rules, before they are kept, and what happens
    /// without an answer.
    fn show_rules(&mut self, grants: &[String]) -> io::Result<()> {
        let mut lines = Vec::new();
        if !grants.is_empty() {
            lines.push("always keeps, for this session (a) or for good in every session (g):".to_owned());
            lines.extend(grants.iter().map(|grant| format!("  {}", asking::rule(grant))));
        }
        lines.extend(asking::unanswered(self.interrupt, Timestamp::now()));
        let text: String = lines.iter().map(|line| format!("  {}\n", paint(self.color, QUIET, line))).collect();
        self.console.write(&text)
    }

    fn show_choices(&mut self, grants: &[String], longer: bool) -> io::Result<()> {
        let color = self.color;
        let key = |key: &str| paint(color, CODE, key);
        let mut choices = vec![format!("{} yes, once", key("y")), format!("{} no", key("n"))];
        if !grants.is_empty() {
            choices.push(format!("{} always here", key("a")));
            choices.push(format!("{} for good", key("g")));
        }
        choices.push(format!("{} edit", key("e")));
        if longer {
            choices.push(format!("{} view all", key("v")));
        }
        choices.push(format!("{} later", key("s")));
        self.console.write(&format!("  {} ", choices.join("  ")))
    }

    /// An `always` for every session, once the person has said so twice; none where they thought better of it.
    fn for_good(&mut self, grants: &[String]) -> io::Result<Option<Answer>> {
        let what = if grants.len() == 1 { "this rule" } else { "these rules" };
        let warning = format!("keep {what} in every session, until you revoke it? ");
        self.console.write(&format!("\n  {}y/n ", paint(self.color, WARN, &warning)))?;
        loop {
            match self.console.key()? {
                Some(Key::Char('y' | 'Y')) => return Ok(Some(Answer::Always { scope: GrantScope::ForGood })),
                Some(Key::Char('n' | 'N') | Key::Escape) | None => {
                    self.console.write("\n")?;
                    return Ok(None);
                }
                Some(_) => {}
            }
        }
    }

    /// A refusal with what the model shall be told; none where the person thought better of it.
    fn reject(&mut self) -> io::Result<Option<Answer>> {
        self.console.write("\n")?;
        let reason = self.line("  reason (Enter for none): ", "")?;
        Ok(reason.map(|reason| Answer::Reject { reason: (!reason.trim().is_empty()).then_some(reason) }))
    }

    /// The arguments as the person changes them; none where they are left as they were or are no JSON object.
    fn edit(&mut self, args: &Value) -> io::Result<Option<Answer>> {
        self.console.write("\n")?;
        let edited = match self.console.edit(&pretty(args))? {
            Some(edited) => Some(edited),
            None => self.line("  arguments: ", &args.to_string())?,
        };
        let Some(edited) = edited else { return Ok(None) };
        match serde_json::from_str::<Value>(&edited) {
            Ok(edited) if edited.is_object() && edited != *args => Ok(Some(Answer::Edit { args: edited })),
            Ok(edited) if edited.is_object() => self.not_taken("the arguments are as they were"),
            Ok(_) => self.not_taken("the arguments must be a JSON object"),
            Err(error) => self.not_taken(&format!("this is no JSON: {error}")),
        }
    }

    fn not_taken(&mut self, why: &str) -> io::Result<Option<Answer>> {
        let line = paint(self.color, BAD, &clean_line(why));
        self.console.write(&format!("  {line}\n"))?;
        Ok(None)
    }

    fn text(&mut self, default: Option<&str>, required: bool) -> io::Result<Option<Answer>> {
        let prompt = match default {
            Some(default) => format!("  [{}] > ", clean_line(default)),
            None => "  > ".to_owned(),
        };
        loop {
            let Some(text) = self.line(&prompt, "")? else {
                return self.skipped("TEXT");
            };
            let text = match default {
                Some(default) if text.trim().is_empty() => default.to_owned(),
                _ => text,
            };
            let answer = Answer::Text { text };
            match answer.misfit(&self.interrupt.ask) {
                Some(why) if required => self.not_taken(why)?,
                _ => return Ok(Some(answer)),
            };
        }
    }

    /// A line as the person types it; none after Escape, or where the question was dropped.
    fn line(&mut self, prompt: &str, initial: &str) -> io::Result<Option<String>> {
        let mut line = initial.to_owned();
        loop {
            // The end of the line is what is being typed; the start of a long one is out of sight.
            let room = self.console.size().0.saturating_sub(width(prompt) + 1).max(1);
            self.console.write(&format!("\r\x1b[K{}{}", paint(self.color, QUIET, prompt), tail(&line, room)))?;
            match self.console.key()? {
                None | Some(Key::Escape) => {
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
                Some(Key::Char(c)) => line.push(c),
            }
        }
    }

    fn said(&mut self, answer: &Answer, grants: &[String]) -> io::Result<()> {
        let (style, line) = match answer {
            Answer::Approve | Answer::Text { .. } => (GOOD, "approved".to_owned()),
            Answer::Reject { .. } => (BAD, "rejected".to_owned()),
            Answer::Always { scope } => (GOOD, format!("approved, and {}", asking::kept(*scope, grants))),
            Answer::Edit { .. } => (GOOD, "answered with other arguments".to_owned()),
        };
        self.console.write(&format!("\r\x1b[J  {}\n", paint(self.color, style, &line)))
    }

    fn skipped(&mut self, example: &str) -> io::Result<Option<Answer>> {
        let id = self.interrupt.id;
        let line = format!("left open; answer it later with: agentctl answer {id} {example}");
        self.console.write(&format!("\r\x1b[J  {}\n", paint(self.color, QUIET, &line)))?;
        Ok(None)
    }

    fn dropped(&mut self) -> io::Result<Option<Answer>> {
        let line = paint(self.color, QUIET, "no longer needed");
        self.console.write(&format!("\r\x1b[J  {line}\n"))?;
        Ok(None)
    }
}

fn pretty(args: &Value) -> String {
    match args {
        Value::String(text) => text.clone(),
        args => format!("{args:#}"),
    }
}

/// The end of a text that fits in so many columns.
fn tail(text: &str, columns: usize) -> &str {
    let mut start = text.len();
    for (at, _) in text.char_indices().rev() {
        if width(&text[at..]) > columns {
            break;
        }
        start = at;
    }
    &text[start..]
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;

//! What is asked, how it looks, and how keys become an answer.

use std::io;

use agentd_core::{
    interrupt::{Answer, Ask, Interrupt},
    policy::Risk,
};
use serde_json::Value;

use super::console::{Console, Key};
use crate::render::{
    diff,
    paint::{BAD, CODE, GOOD, QUIET, STRONG, WARN, paint, width},
    sanitize::{clean, clean_line},
};

/// The rows that a question needs besides its preview.
const OTHER_ROWS: usize = 8;

/// Asks until there is an answer that fits. None leaves the interrupt pending, or says that it was dropped.
///
/// # Errors
/// When the terminal cannot be read or written.
pub(crate) fn ask(console: &mut dyn Console, interrupt: &Interrupt, color: bool) -> io::Result<Option<Answer>> {
    let mut question = Question { console, interrupt, color };
    match &interrupt.ask {
        Ask::Approval { tool, args, risk, reason, preview, grant } => {
            let preview = preview.clone().unwrap_or_else(|| pretty(args));
            question.show_approval(tool, *risk, reason, &preview)?;
            question.approval(args, &preview, grant.as_deref())
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
    fn show_approval(&mut self, tool: &str, risk: Risk, reason: &str, preview: &str) -> io::Result<()> {
        let color = self.color;
        let (word, style) = match risk {
            Risk::Low => ("low risk", QUIET),
            Risk::Medium => ("medium risk", WARN),
            Risk::High => ("high risk", BAD),
            Risk::Critical => ("CRITICAL risk", BAD.bold()),
        };
        let mut text = format!(
            "\n{} {} {}\n",
            paint(color, WARN, "? The model wants to use"),
            paint(color, STRONG, &clean_line(tool)),
            paint(color, style, &format!("({word})")),
        );
        let reason = clean_line(reason);
        if !reason.is_empty() {
            text.push_str(&format!("  {}\n", paint(color, QUIET, &format!("why: {reason}"))));
        }
        self.console.write(&text)?;
        let height = self.console.size().1.saturating_sub(OTHER_ROWS).max(5);
        self.show_preview(preview, height)
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

    fn approval(&mut self, args: &Value, preview: &str, grant: Option<&str>) -> io::Result<Option<Answer>> {
        let height = self.console.size().1.saturating_sub(OTHER_ROWS).max(5);
        let longer = preview.lines().count() > height;
        self.show_choices(grant, longer)?;
        loop {
            let answer = match self.console.key()? {
                None => return self.dropped(),
                Some(Key::Char('y' | 'Y')) => Some(Answer::Approve),
                Some(Key::Char('n' | 'N')) => self.reject()?,
                Some(Key::Char('a' | 'A')) if grant.is_some() => Some(Answer::Always),
                Some(Key::Char('e' | 'E')) => self.edit(args)?,
                Some(Key::Char('s' | 'S') | Key::Escape) => return self.skipped("approve"),
                Some(Key::Char('v' | 'V')) if longer => {
                    self.console.write("\r\x1b[J")?;
                    self.show_preview(preview, usize::MAX)?;
                    self.show_choices(grant, longer)?;
                    continue;
                }
                Some(_) => continue,
            };
            match answer {
                Some(answer) => {
                    self.said(&answer, grant)?;
                    return Ok(Some(answer));
                }
                None => self.show_choices(grant, longer)?,
            }
        }
    }

    fn show_choices(&mut self, grant: Option<&str>, longer: bool) -> io::Result<()> {
        let color = self.color;
        let key = |key: &str| paint(color, CODE, key);
        let mut rule = String::new();
        let mut choices = vec![format!("{} yes", key("y")), format!("{} no", key("n"))];
        if let Some(grant) = grant {
            choices.push(format!("{} always", key("a")));
            let grant = clean_line(grant);
            rule = format!("  {}\n", paint(color, QUIET, &format!("always allows, in this session: {grant}")));
        }
        choices.push(format!("{} edit", key("e")));
        if longer {
            choices.push(format!("{} view all", key("v")));
        }
        choices.push(format!("{} later", key("s")));
        self.console.write(&format!("{rule}  {} ", choices.join("  ")))
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

    fn said(&mut self, answer: &Answer, grant: Option<&str>) -> io::Result<()> {
        let (style, line) = match answer {
            Answer::Approve | Answer::Text { .. } => (GOOD, "approved".to_owned()),
            Answer::Reject { .. } => (BAD, "rejected".to_owned()),
            Answer::Always => (GOOD, format!("approved, and always: {}", clean_line(grant.unwrap_or_default()))),
            Answer::Edit { .. } => (GOOD, "approved with other arguments".to_owned()),
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

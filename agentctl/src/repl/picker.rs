//! A list to choose from: arrow keys, letters to search, Enter takes, Esc leaves.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{console::print, plain::ask_line};
use crate::{
    keyboard::{Key, Keyboard},
    terminal::{
        look::TerminalStyle,
        paint::{QUIET, STRONG, clip, paint},
        sanitize::clean_line,
    },
};

/// Rows of the list that are shown at once at the most.
const MOST_ROWS: usize = 12;
/// The same where they are numbered.
const MOST_NUMBERED: usize = 20;
/// Interval at which the window's size is looked at, and whether to stop.
const GLANCE: Duration = Duration::from_millis(50);

/// A row to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Its name.
    pub(crate) name: String,
    /// More about it.
    pub(crate) about: String,
}

impl Choice {
    /// A row of words that may be anybody's.
    pub(crate) fn new(name: &str, about: &str) -> Self {
        Self { name: clean_line(name), about: clean_line(about) }
    }
}

/// State of the list, apart from any terminal.
#[derive(Debug)]
struct List<'a> {
    choices: &'a [Choice],
    search: String,
    /// Indexes of the choices that fit.
    fitting: Vec<usize>,
    at: usize,
}

/// Outcome of a key.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Goes,
    Taken(usize),
    Left,
}

impl<'a> List<'a> {
    fn at(choices: &'a [Choice], at: usize) -> Self {
        Self { choices, search: String::new(), fitting: (0..choices.len()).collect(), at }
    }

    fn press(&mut self, key: Key) -> Outcome {
        match key {
            Key::Escape | Key::Leave => return Outcome::Left,
            Key::Enter => match self.fitting.get(self.at) {
                Some(index) => return Outcome::Taken(*index),
                None => return Outcome::Goes,
            },
            Key::Up => self.at = self.at.saturating_sub(1),
            Key::Down | Key::Tab => self.at = (self.at + 1).min(self.fitting.len().saturating_sub(1)),
            Key::Char(c) => self.find(|search| search.push(c)),
            Key::Paste(text) => self.find(|search| search.push_str(&clean_line(&text))),
            Key::Backspace => self.find(|search| {
                search.pop();
            }),
            Key::Erase | Key::Word => self.find(String::clear),
            _ => {}
        }
        Outcome::Goes
    }

    fn find(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.search);
        let wanted = self.search.to_lowercase();
        let fits = |choice: &Choice| {
            let text = format!("{} {}", choice.name, choice.about).to_lowercase();
            wanted.split_whitespace().all(|word| text.contains(word))
        };
        self.fitting = (0..self.choices.len()).filter(|index| fits(&self.choices[*index])).collect();
        self.at = 0;
    }

    /// The rows with their numbers.
    fn numbered(&self, title: &str) -> String {
        let mut text = format!("{title}:\n");
        for (row, index) in self.fitting.iter().enumerate().take(MOST_NUMBERED) {
            let Choice { name, about } = &self.choices[*index];
            text.push_str(&format!("  {}  {name}  {about}\n", row + 1));
        }
        if self.fitting.is_empty() {
            text.push_str("  nothing fits\n");
        } else if let hidden @ 1.. = self.fitting.len().saturating_sub(MOST_NUMBERED) {
            text.push_str(&format!("  … {hidden} more\n"));
        }
        text
    }

    /// The rows as they are drawn, none wider than the window.
    fn rows(&self, title: &str, (columns, rows): (usize, usize), color: bool) -> Vec<String> {
        let columns = columns.saturating_sub(1);
        let room = rows.saturating_sub(4).clamp(1, MOST_ROWS);
        let first = self.at.saturating_sub(room - 1);
        let search = format!("{title} (type to search, Enter takes, Esc leaves): {}", self.search);
        let mut drawn = vec![paint(color, QUIET, &clip(&search, columns))];
        for (row, index) in self.fitting.iter().enumerate().skip(first).take(room) {
            let Choice { name, about } = &self.choices[*index];
            let (mark, style) = if row == self.at { ("› ", STRONG) } else { ("  ", anstyle::Style::new()) };
            let line = clip(&format!("{mark}{name}  {about}"), columns);
            drawn.push(paint(color, style, &line));
        }
        if self.fitting.is_empty() {
            drawn.push(clip("  nothing fits", columns));
        }
        let hidden = self.fitting.len().saturating_sub(first + room);
        if hidden > 0 {
            drawn.push(paint(color, QUIET, &clip(&format!("  … {hidden} more"), columns)));
        }
        drawn
    }
}

/// Has the person choose, with the mark at a row to begin with; none where they leave it, or are told to stop.
///
/// # Errors
/// When the terminal cannot be written.
pub(crate) async fn pick(
    keyboard: &Keyboard,
    title: &str,
    choices: Vec<Choice>,
    at: usize,
    stop: Arc<AtomicBool>,
) -> io::Result<Option<usize>> {
    let (keyboard, title) = (keyboard.clone(), title.to_owned());
    let picked = tokio::task::spawn_blocking(move || {
        let _hold = keyboard.hold();
        choose(&keyboard, &title, List::at(&choices, at), &stop)
    });
    picked.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn choose(keyboard: &Keyboard, title: &str, mut list: List<'_>, stop: &AtomicBool) -> io::Result<Option<usize>> {
    let look = TerminalStyle::detect();
    if !look.err_terminal {
        return choose_by_number(keyboard, title, list, stop);
    }
    let (mut drawn, mut shown) = (0, Vec::new());
    loop {
        let rows = list.rows(title, (look.size)(), look.err_color);
        if rows != shown {
            redraw(drawn, &rows)?;
            drawn = rows.len();
            shown = rows;
        }
        let Some(press) = keyboard.wait(GLANCE) else {
            if stop.load(Ordering::Relaxed) {
                return redraw(drawn, &[]).map(|()| None);
            }
            continue;
        };
        match list.press(press.key) {
            Outcome::Goes => {}
            Outcome::Taken(index) => return redraw(drawn, &[]).map(|()| Some(index)),
            Outcome::Left => return redraw(drawn, &[]).map(|()| None),
        }
    }
}

/// The same on a terminal that obeys nothing: the person types a number, or words to search.
fn choose_by_number(
    keyboard: &Keyboard,
    title: &str,
    mut list: List<'_>,
    stop: &AtomicBool,
) -> io::Result<Option<usize>> {
    loop {
        print(&list.numbered(title))?;
        let Some(line) = ask_line(keyboard, "number, or words to search, or Enter to leave: ", stop)? else {
            return Ok(None);
        };
        let words = line.trim();
        if words.is_empty() {
            return Ok(None);
        }
        match words.parse::<usize>().ok().and_then(|number| list.fitting.get(number.checked_sub(1)?)) {
            Some(index) => return Ok(Some(*index)),
            None => list.find(|search| words.clone_into(search)),
        }
    }
}

/// Puts rows in the place of those that were drawn.
fn redraw(drawn: usize, rows: &[String]) -> io::Result<()> {
    let up = if drawn > 1 { format!("\x1b[{}A", drawn - 1) } else { String::new() };
    print(&format!("{up}\r\x1b[J{}", rows.join("\r\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::paint::width;

    fn choices() -> Vec<Choice> {
        ["Fix the tests|app/, 2 h ago", "漢字 in names|app/, 3 d ago", "Plan\x1b[2J a trip|no folder, 9 d ago"]
            .map(|row| row.split_once('|').map(|(name, about)| Choice::new(name, about)).unwrap())
            .to_vec()
    }

    #[test]
    fn picker_keys_move_search_select_and_cancel() {
        let choices = choices();
        let mut list = List::at(&choices, 0);
        assert_eq!(list.press(Key::Up), Outcome::Goes);
        assert_eq!(list.press(Key::Down), Outcome::Goes);
        assert_eq!(list.press(Key::Enter), Outcome::Taken(1));
        for c in "TRIP folder".chars() {
            list.press(Key::Char(c));
        }
        assert_eq!(list.press(Key::Enter), Outcome::Taken(2));
        list.press(Key::Paste("zebra".to_owned()));
        assert_eq!(list.press(Key::Enter), Outcome::Goes, "nothing fits");
        list.press(Key::Erase);
        for _ in 0..9 {
            list.press(Key::Down);
        }
        assert_eq!(list.press(Key::Enter), Outcome::Taken(2));
        assert_eq!(list.press(Key::Escape), Outcome::Left);
    }

    #[test]
    fn picker_rows_fit_the_window_and_are_sanitised() {
        let many: Vec<Choice> = (0..50).map(|n| Choice::new(&format!("{n} {}", "漢字".repeat(40)), "x")).collect();
        let mut list = List::at(&many, 0);
        for _ in 0..30 {
            list.press(Key::Down);
        }
        for size in [(110, 40), (40, 10), (20, 3), (1, 1)] {
            let rows = list.rows("Sessions", size, false);
            assert!(rows.iter().all(|row| width(row) <= size.0), "{size:?}: {rows:?}");
            assert!(size.0 < 10 || rows.iter().any(|row| row.starts_with("› 30")), "{size:?}: {rows:?}");
        }
        let choices = choices();
        assert!(!List::at(&choices, 0).rows("Sessions", (80, 24), false).concat().contains('\x1b'));
    }

    #[test]
    fn plain_terminal_picker_rows_are_numbered() {
        let choices = choices();
        let mut list = List::at(&choices, 0);
        let all = list.numbered("Sessions");
        assert!(all.starts_with("Sessions:\n  1  Fix the tests  app/, 2 h ago\n  2  漢字"), "{all}");
        assert!(!all.contains('\x1b'));
        list.find(|search| search.push_str("names"));
        assert_eq!(list.numbered("Sessions"), "Sessions:\n  1  漢字 in names  app/, 3 d ago\n");
    }
}

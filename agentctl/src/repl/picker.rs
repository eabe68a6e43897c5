//! A list to choose from: arrow keys move, letters search, Enter selects, Esc leaves. With a [`TextSearch`], the search
//! also covers longer texts of the rows.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, watch};

use super::{console::print, plain::ask_line, prompt::DrawnRows};
use crate::{
    composer::ComposerView,
    keyboard::{Key, Keyboard},
    terminal::{
        look::TerminalStyle,
        paint::{QUIET, STRONG, clip, paint, tail, width},
        sanitize::clean_line,
    },
};

/// Maximum number of rows of the list on the screen.
const MOST_ROWS: usize = 12;
/// Maximum number of numbered rows on a plain terminal.
const MOST_NUMBERED: usize = 20;
/// Interval at which the window's size and the stop flag are checked.
const GLANCE: Duration = Duration::from_millis(50);
/// Number of glances for which a plain terminal waits for a search in texts.
const MAX_GLANCES: usize = 40;
/// Maximum columns of a name beside a passage, and of the passage.
const PASSAGE_COLUMNS: (usize, usize) = (24, 44);

/// Row that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Name of the row.
    pub(crate) name: String,
    /// Description of the row.
    pub(crate) about: String,
}

impl Choice {
    /// Creates a row from untrusted texts.
    pub(crate) fn new(name: &str, about: &str) -> Self {
        Self { name: clean_line(name), about: clean_line(about) }
    }
}

/// Text that was searched for, and the rows that were found, best first, each by its index and with a passage.
pub(crate) type FoundRows = (String, Vec<(usize, String)>);

/// Search in the texts of the rows, which runs elsewhere.
#[derive(Debug)]
pub(crate) struct TextSearch {
    /// Text to search for. Only the last one is of interest.
    pub(crate) wanted: watch::Sender<String>,
    /// Results of the searches.
    pub(crate) found: mpsc::Receiver<FoundRows>,
}

/// State of the list, apart from any terminal.
#[derive(Debug)]
struct List<'a> {
    choices: &'a [Choice],
    search: String,
    /// Indexes of the choices that fit.
    fitting: Vec<usize>,
    /// Passages of the choices that fit only by their text.
    passages: HashMap<usize, String>,
    texts: Option<TextSearch>,
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
    fn new(choices: &'a [Choice], at: usize, texts: Option<TextSearch>) -> Self {
        let fitting = (0..choices.len()).collect();
        Self { choices, search: String::new(), fitting, passages: HashMap::new(), texts, at }
    }

    fn press(&mut self, key: Key) -> Outcome {
        match key {
            Key::Escape | Key::Leave => return Outcome::Left,
            Key::Enter => return self.fitting.get(self.at).map_or(Outcome::Goes, |index| Outcome::Taken(*index)),
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
        self.passages.clear();
        self.at = 0;
        if let Some(texts) = &self.texts {
            texts.wanted.send_replace(self.search.clone());
        }
    }

    /// Appends the rows found by their text, and returns true if the search is complete.
    fn add_found(&mut self) -> bool {
        let Some(texts) = &mut self.texts else { return true };
        let Ok((search, rows)) = texts.found.try_recv() else { return false };
        if search != self.search {
            return false;
        }
        for (index, passage) in rows {
            if index < self.choices.len() && !self.fitting.contains(&index) {
                self.fitting.push(index);
                self.passages.insert(index, clean_line(&passage));
            }
        }
        true
    }

    /// Returns the text of a row.
    fn row(&self, index: usize) -> String {
        let Choice { name, about } = &self.choices[index];
        let (name_columns, columns) = PASSAGE_COLUMNS;
        match self.passages.get(&index) {
            Some(passage) => format!("{}  {}  {about}", clip(name, name_columns), clip(passage, columns)),
            None => format!("{name}  {about}"),
        }
    }

    /// Returns the rows with their numbers.
    fn numbered(&self, title: &str) -> String {
        let mut text = format!("{title}:\n");
        for (row, index) in self.fitting.iter().enumerate().take(MOST_NUMBERED) {
            text.push_str(&format!("  {}  {}\n", row + 1, self.row(*index)));
        }
        if self.fitting.is_empty() {
            text.push_str("  nothing fits\n");
        } else if let hidden @ 1.. = self.fitting.len().saturating_sub(MOST_NUMBERED) {
            text.push_str(&format!("  … {hidden} more\n"));
        }
        text
    }

    /// Returns the choice with this number. A number that is not shown may be a word to search for.
    fn of_number(&self, number: usize) -> Option<usize> {
        self.fitting.iter().take(MOST_NUMBERED).nth(number.checked_sub(1)?).copied()
    }

    /// Returns the rows for the screen, none wider than the window.
    fn rows(&self, title: &str, (columns, rows): (usize, usize), color: bool) -> Vec<String> {
        let columns = columns.saturating_sub(1);
        let room = rows.saturating_sub(4).clamp(1, MOST_ROWS);
        let first = self.at.saturating_sub(room - 1);
        let mut search = format!("{title} (type to search, Enter takes, Esc leaves): {}", self.search);
        if width(&search) > columns && !self.search.is_empty() {
            search = format!("{title}: {}", tail(&self.search, columns.saturating_sub(width(title) + 2)));
        }
        let mut drawn = vec![paint(color, QUIET, &clip(&search, columns))];
        for (row, index) in self.fitting.iter().enumerate().skip(first).take(room) {
            let (mark, style) = if row == self.at { ("› ", STRONG) } else { ("  ", anstyle::Style::new()) };
            let line = clip(&format!("{mark}{}", self.row(*index)), columns);
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

/// Asks the user to choose a row, starting at row `at`. Returns `None` if the user leaves the list, or at `stop`.
///
/// # Errors
/// Fails if the terminal cannot be written.
pub(crate) async fn pick(
    keyboard: &Keyboard,
    title: &str,
    choices: Vec<Choice>,
    at: usize,
    texts: Option<TextSearch>,
    stop: Arc<AtomicBool>,
) -> io::Result<Option<usize>> {
    let (keyboard, title) = (keyboard.clone(), title.to_owned());
    let picked = tokio::task::spawn_blocking(move || {
        let _hold = keyboard.hold();
        choose(&keyboard, &title, List::new(&choices, at, texts), &stop)
    });
    picked.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn choose(keyboard: &Keyboard, title: &str, mut list: List<'_>, stop: &AtomicBool) -> io::Result<Option<usize>> {
    let look = TerminalStyle::detect();
    if !look.err_terminal {
        return choose_by_number(keyboard, title, list, stop);
    }
    let mut screen = DrawnRows::new(look);
    loop {
        list.add_found();
        let rows = list.rows(title, (look.size)(), look.err_color);
        if rows != screen.drawn.rows {
            // At the start of the first row, the cursor stays where it is if a resize wraps the rows, unless they scroll.
            screen.draw(ComposerView { rows, cursor: (0, 0) })?;
        }
        let Some(press) = keyboard.wait(GLANCE) else {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            continue;
        };
        match press.key {
            // The cursor is below other output.
            Key::Resume => screen.drawn = ComposerView::default(),
            // A lower window has lost the rows at its bottom.
            Key::Resize => screen.erase()?,
            key => match list.press(key) {
                Outcome::Goes => {}
                Outcome::Taken(index) => return Ok(Some(index)),
                Outcome::Left => return Ok(None),
            },
        }
    }
}

/// Same as [`choose`] on a terminal without escapes: the user types a number, or words to search for.
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
        match words.parse::<usize>().ok().and_then(|number| list.of_number(number)) {
            Some(index) => return Ok(Some(index)),
            None => list.find(|search| words.clone_into(search)),
        }
        for _ in 0..MAX_GLANCES {
            if list.add_found() || stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(GLANCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices() -> Vec<Choice> {
        ["Fix the tests|app/, 2 h ago", "漢字 in names|app/, 3 d ago", "Plan\x1b[2J a trip|no folder, 9 d ago"]
            .map(|row| row.split_once('|').map(|(name, about)| Choice::new(name, about)).unwrap())
            .to_vec()
    }

    #[test]
    fn picker_keys_move_search_select_and_cancel() {
        let choices = choices();
        let mut list = List::new(&choices, 0, None);
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
    fn rows_found_by_their_text_follow_the_names() {
        let choices = choices();
        let (wanted, requests) = watch::channel(String::new());
        let (results, found) = mpsc::channel(2);
        let mut list = List::new(&choices, 0, Some(TextSearch { wanted, found }));
        let find = |search: &str, rows: &[(usize, &str)]| {
            let rows = rows.iter().map(|(index, passage)| (*index, (*passage).to_owned())).collect();
            results.try_send((search.to_owned(), rows)).unwrap();
        };
        list.find(|search| search.push_str("trip"));
        assert_eq!(*requests.borrow(), "trip");
        assert!(!list.add_found());
        find("tri", &[(0, "a late result")]);
        assert!(!list.add_found());
        find("trip", &[(2, "the trip"), (1, "a \u{1b}[2Jtrip"), (1, "again"), (9, "no row")]);
        assert!(list.add_found());
        assert_eq!(list.fitting, [2, 1]);
        let rows = list.rows("Sessions", (80, 24), false);
        assert!(!rows.concat().contains("the trip"), "{rows:?}");
        assert_eq!(rows[2], "  漢字 in names  a trip  app/, 3 d ago");
        assert_eq!(list.press(Key::Down), Outcome::Goes);
        assert_eq!(list.press(Key::Enter), Outcome::Taken(1));
        list.find(String::clear);
        assert_eq!((list.fitting.len(), list.passages.len()), (3, 0));
    }

    #[test]
    fn picker_rows_fit_the_window_and_are_sanitised() {
        let many: Vec<Choice> = (0..50).map(|n| Choice::new(&format!("{n} {}", "漢字".repeat(40)), "x")).collect();
        let mut list = List::new(&many, 0, None);
        for _ in 0..30 {
            list.press(Key::Down);
        }
        for size in [(110, 40), (40, 10), (20, 3), (1, 1)] {
            let rows = list.rows("Sessions", size, false);
            assert!(rows.iter().all(|row| width(row) <= size.0), "{size:?}: {rows:?}");
            assert!(size.0 < 10 || rows.iter().any(|row| row.starts_with("› 30")), "{size:?}: {rows:?}");
        }
        let hidden = MOST_NUMBERED + 1;
        assert_eq!([0, 1, hidden - 1, hidden].map(|number| list.of_number(number)), [None, Some(0), Some(19), None]);
        let choices = choices();
        let mut list = List::new(&choices, 0, None);
        assert!(!list.rows("Sessions", (80, 24), false).concat().contains('\x1b'));
        let head = |list: &List<'_>, columns| list.rows("Sessions", (columns, 24), false).swap_remove(0);
        assert_eq!(head(&list, 41), "Sessions (type to search, Enter takes,…");
        list.find(|search| search.push_str("trip folder"));
        assert_eq!(head(&list, 80), "Sessions (type to search, Enter takes, Esc leaves): trip folder");
        assert_eq!(head(&list, 41), "Sessions: trip folder");
        assert_eq!(head(&list, 17), "Sessions: folder");
    }
}

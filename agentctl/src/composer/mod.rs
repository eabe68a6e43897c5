//! The editor of inputs: at the prompt, while a turn runs and below a question. Pure, except for the history file and the
//! check that a pasted path is a file.
//!
//! - [`key`]: keys of the terminal. [`buffer`]: the text and its cursor. [`pastes`]: long pastes, and pictures.
//! - [`history`]: earlier inputs. [`menu`]: completions. [`view`]: the rows on the screen.

mod buffer;
mod history;
mod key;
mod menu;
mod pastes;
mod view;

use std::path::Path;

use self::{buffer::Buffer, history::History, menu::Menu, pastes::Pastes};
pub(crate) use self::{
    key::{Key, Press},
    menu::{Completer, Suggestion},
    view::{ComposerView, cleaned},
};

/// Minimum length of a text, in bytes, that is continued from the history.
const MIN_HINT: usize = 2;

/// Input that is being written, with what helps to write it.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    buffer: Buffer,
    pastes: Pastes,
    history: History,
    menu: Menu,
    completer: Option<Box<dyn Completer>>,
    search: Option<Search>,
    /// True after Ctrl-X, which starts a sequence.
    has_prefix: bool,
}

/// Search in the history.
#[derive(Debug, Default)]
struct Search {
    text: String,
    /// Position of the input that was found.
    found: Option<usize>,
}

impl Composer {
    /// Loads the history, to which inputs are appended from now on.
    pub(crate) fn open_history(&mut self, path: &Path) {
        self.history = History::open(path);
    }

    /// Sets the source of completions.
    pub(crate) fn set_completer(&mut self, completer: Box<dyn Completer>) {
        self.completer = Some(completer);
    }

    /// Handles a key, and returns it if it does not concern the text: Enter after a complete input, Tab without a
    /// menu, Esc with nothing to close, and so on.
    pub(crate) fn press(&mut self, key: Key) -> Option<Key> {
        let key = match (std::mem::take(&mut self.has_prefix), key) {
            (true, Key::End) => Key::Open,
            (_, key) => key,
        };
        let key = if self.search.is_some() { self.press_in_search(key)? } else { key };
        let key = if self.menu.is_open() { self.press_in_menu(key)? } else { key };
        match key {
            Key::Prefix => self.has_prefix = true,
            Key::Paste(text) => {
                let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
                let text: String = text.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
                let text = self.picture_mark(&text).unwrap_or_else(|| self.pastes.fold(&text));
                self.change(|buffer| buffer.insert(&text));
            }
            Key::Enter if !is_whole(self.buffer.text()) => self.change(|buffer| buffer.insert("\n")),
            Key::Right | Key::End if self.hint().is_some() => {
                let rest = self.hint().unwrap_or_default().to_owned();
                self.change(|buffer| buffer.insert(&rest));
            }
            Key::Up | Key::Down if self.buffer.move_row(key == Key::Up) => {}
            Key::Up => {
                let older = self.history.older(self.buffer.text());
                self.recall(older);
            }
            Key::Down => {
                let newer = self.history.newer();
                self.recall(newer);
            }
            Key::Search => self.search = Some(Search::default()),
            Key::Leave if !self.buffer.is_empty() => self.change(|buffer| _ = buffer.edit(&Key::Delete)),
            Key::Char(_) => {
                self.change(|buffer| _ = buffer.edit(&key));
                self.open_menu();
            }
            Key::Backspace | Key::Word if self.menu.is_open() => {
                self.change(|buffer| _ = buffer.edit(&key));
                self.open_menu();
            }
            Key::Left | Key::Right | Key::WordLeft | Key::WordRight | Key::Home | Key::End => {
                self.menu.close();
                self.buffer.edit(&key);
            }
            key => {
                let mut is_edited = false;
                self.change(|buffer| is_edited = buffer.edit(&key));
                return (!is_edited).then_some(key);
            }
        }
        None
    }

    /// Handles a key while the menu is open, and returns it if the menu has no use for it.
    fn press_in_menu(&mut self, key: Key) -> Option<Key> {
        match key {
            Key::Down => self.menu.select_next(),
            Key::Up => self.menu.select_previous(),
            Key::Escape => self.menu.close(),
            Key::Enter if self.menu.has_selection() => self.accept(),
            Key::Tab if self.menu.choice().is_some() => self.accept(),
            Key::Tab => {
                let written = self.buffer.before().len();
                match self.menu.common_start().map(|(start, common)| (start, common.to_owned())) {
                    Some((start, common)) if start + common.len() > written => {
                        self.change(|buffer| buffer.complete(start, &common));
                        self.open_menu();
                    }
                    _ => self.menu.select_next(),
                }
            }
            key => return Some(key),
        }
        None
    }

    fn accept(&mut self) {
        if let Some(suggestion) = self.menu.choice().cloned() {
            self.change(|buffer| buffer.complete(suggestion.start, &suggestion.word));
            self.menu.close();
            // The entries of a folder follow its name.
            if suggestion.word.ends_with('/') {
                self.open_menu();
            }
        }
    }

    /// Opens the menu if the text before the cursor can be completed, else closes it.
    fn open_menu(&mut self) {
        let before = self.buffer.before();
        let suggestions = self.completer.as_ref().map(|completer| completer.complete(before)).unwrap_or_default();
        self.menu.open(suggestions, before);
    }

    /// Handles a key of a search, and returns it if it ends the search.
    fn press_in_search(&mut self, key: Key) -> Option<Key> {
        let search = self.search.as_mut()?;
        let mut end = None;
        match key {
            Key::Char(c) => search.text.push(c),
            Key::Paste(text) => search.text.push_str(&cleaned(&text)),
            Key::Backspace => _ = search.text.pop(),
            Key::Erase | Key::Word => search.text.clear(),
            Key::Search => end = search.found,
            Key::Escape => {
                self.search = None;
                return None;
            }
            key => {
                let found = search.found.and_then(|at| self.history.input(at)).map(str::to_owned);
                self.search = None;
                self.recall(found);
                // Tab and the arrows only take the input over.
                return (key == Key::Enter).then_some(key);
            }
        }
        let is_next = end.is_some();
        let found = (!search.text.is_empty()).then(|| self.history.find(&search.text, end)).flatten();
        if found.is_some() || !is_next {
            search.found = found.map(|(at, _)| at);
        }
        None
    }

    /// Returns the mark of a pasted path of a picture, which is sent as a mention of the file. `None` for other pastes,
    /// and in an input without mentions.
    fn picture_mark(&mut self, paste: &str) -> Option<String> {
        self.completer.as_ref()?;
        let path = pastes::picture_path(paste).filter(|path| path.is_file())?;
        let mark = self.pastes.mark_picture(path.to_str()?);
        let gap = if self.buffer.before().ends_with(|c: char| !c.is_whitespace()) { " " } else { "" };
        Some(format!("{gap}{mark} "))
    }

    /// Changes the text, after which the menu and the place in the history no longer apply.
    fn change(&mut self, change: impl FnOnce(&mut Buffer)) {
        self.history.leave();
        self.menu.close();
        change(&mut self.buffer);
    }

    /// Shows an input of the history.
    fn recall(&mut self, input: Option<String>) {
        if let Some(input) = input {
            let shown = self.pastes.fold(&input);
            self.buffer.set(shown);
        }
    }

    /// Returns the rest of an earlier input, while one that starts the same is written at its end.
    fn hint(&self) -> Option<&str> {
        let text = self.buffer.text();
        let is_end = self.buffer.after().is_empty() && !self.menu.is_open() && self.search.is_none();
        (is_end && text.len() >= MIN_HINT && !text.contains('\n')).then(|| self.history.hint(text)).flatten()
    }

    /// Returns true if there is any text.
    pub(crate) fn is_writing(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Returns true if the text is blank.
    pub(crate) fn is_blank(&self) -> bool {
        self.buffer.text().trim().is_empty()
    }

    /// Returns true if Esc would close something: the menu or the search.
    pub(crate) fn is_choosing(&self) -> bool {
        self.menu.is_open() || self.search.is_some()
    }

    /// Returns true if the text is exactly this.
    pub(crate) fn is_exactly(&self, text: &str) -> bool {
        self.buffer.text() == text
    }

    /// Takes the input to send it, with its pastes, and stores it in the history.
    pub(crate) fn submit(&mut self) -> String {
        let text = self.take();
        self.history.push(&text);
        text
    }

    /// Stores an input in the history that was not written here.
    pub(crate) fn remember(&mut self, input: &str) {
        self.history.push(input);
    }

    /// Takes the text with its pastes.
    pub(crate) fn take(&mut self) -> String {
        self.menu.close();
        self.search = None;
        self.pastes.unfold(&self.buffer.take())
    }

    /// Replaces the text by another one.
    pub(crate) fn write(&mut self, text: &str) {
        self.menu.close();
        let shown = self.pastes.fold(text);
        self.buffer.set(shown);
    }

    /// Returns the text with its pastes, for an external editor.
    pub(crate) fn whole(&self) -> String {
        self.pastes.unfold(self.buffer.text())
    }

    /// Returns the text as it is shown, with marks in place of long pastes.
    pub(crate) fn shown(&self) -> &str {
        self.buffer.text()
    }
}

/// Returns true for a complete input: no code fence is open, and its last line does not end in a backslash.
pub(crate) fn is_whole(text: &str) -> bool {
    let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
    fences.is_multiple_of(2) && !text.ends_with('\\')
}

/// Removes backslashes that continue a line, except in code.
pub(crate) fn join_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut in_fence = false;
    for line in text.split_inclusive('\n') {
        in_fence ^= line.trim_start().starts_with("```");
        match line.strip_suffix("\\\n") {
            Some(line) if !in_fence => {
                joined.push_str(line);
                joined.push('\n');
            }
            _ => joined.push_str(line),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completes `#` by three names.
    #[derive(Debug)]
    struct Names;

    impl Completer for Names {
        fn complete(&self, before: &str) -> Vec<Suggestion> {
            let Some(start) = before.rfind('#').map(|at| at + 1) else { return Vec::new() };
            let names = ["lib.rs", "list.rs", "main.rs"].into_iter().filter(|name| name.starts_with(&before[start..]));
            names.map(|name| Suggestion { start, word: name.to_owned(), about: String::new() }).collect()
        }
    }

    fn composer() -> Composer {
        let mut composer = Composer::default();
        composer.set_completer(Box::new(Names));
        for input in ["git status", "make test", "git push"] {
            composer.remember(input);
        }
        composer
    }

    fn types(composer: &mut Composer, text: &str) {
        for c in text.chars() {
            assert_eq!(composer.press(Key::Char(c)), None);
        }
    }

    #[test]
    fn menu_opens_while_a_name_is_typed() {
        let mut composer = composer();
        types(&mut composer, "see #l");
        assert!(composer.is_choosing());
        assert_eq!(composer.press(Key::Tab), None);
        assert_eq!(composer.shown(), "see #li", "the common start is inserted");
        for key in [Key::Tab, Key::Down, Key::Enter] {
            assert_eq!(composer.press(key), None);
        }
        assert_eq!((composer.shown(), composer.is_choosing()), ("see #list.rs", false));
        assert_eq!(composer.press(Key::Enter), Some(Key::Enter));

        composer.write("");
        types(&mut composer, "#m");
        assert_eq!(composer.press(Key::Escape), None);
        assert_eq!(composer.press(Key::Escape), Some(Key::Escape));
        assert_eq!(composer.press(Key::Tab), Some(Key::Tab));
        composer.write("");
        types(&mut composer, "#m");
        assert_eq!(composer.press(Key::Tab), None);
        assert_eq!(composer.take(), "#main.rs");
        types(&mut composer, "#m");
        assert_eq!(composer.press(Key::Enter), Some(Key::Enter), "nothing was selected");
        assert_eq!(composer.submit(), "#m");
    }

    #[test]
    fn history_is_recalled_searched_and_suggested() {
        let mut composer = composer();
        types(&mut composer, "draft");
        for (key, shown) in
            [(Key::Up, "git push"), (Key::Up, "make test"), (Key::Down, "git push"), (Key::Down, "draft")]
        {
            assert_eq!(composer.press(key), None);
            assert_eq!(composer.shown(), shown);
        }
        composer.press(Key::Search);
        types(&mut composer, "git");
        composer.press(Key::Search);
        assert_eq!(composer.press(Key::Enter), Some(Key::Enter));
        assert_eq!(composer.submit(), "git status");
        composer.press(Key::Search);
        types(&mut composer, "make");
        assert_eq!(composer.press(Key::Tab), None);
        assert_eq!(composer.take(), "make test");
        types(&mut composer, "git s");
        assert_eq!(composer.press(Key::End), None);
        assert_eq!(composer.take(), "git status");
    }

    #[test]
    fn pasted_text_is_cleaned() {
        let mut composer = Composer::default();
        composer.press(Key::Paste("a\r\nb\u{1b}\t\n".to_owned()));
        assert_eq!(composer.take(), "a\nb    \n");
    }

    #[test]
    fn path_of_a_picture_becomes_a_mention() {
        let folder = tempfile::Builder::new().prefix("with blanks ").tempdir().unwrap();
        let path = folder.path().join("a.png");
        let paste = Key::Paste(format!("'{}' ", path.display()));
        let mut composer = composer();
        composer.press(paste.clone());
        assert!(composer.take().ends_with("a.png' "), "it names no file");
        std::fs::write(&path, "").unwrap();
        types(&mut composer, "see");
        composer.press(paste.clone());
        composer.press(paste.clone());
        assert_eq!(composer.shown(), "see [picture 1] [picture 1] ");
        let mention = format!("#\"{}\"", path.display());
        assert_eq!(composer.submit(), format!("see {mention} {mention} "));
        let mut without_mentions = Composer::default();
        without_mentions.press(paste);
        assert!(without_mentions.take().ends_with("a.png' "));
    }

    #[test]
    fn other_keys_are_returned() {
        let mut composer = composer();
        for key in [Key::Enter, Key::Tab, Key::Escape, Key::Mode, Key::Leave, Key::Show, Key::Open, Key::Picture] {
            assert_eq!(composer.press(key.clone()), Some(key));
        }
        composer.press(Key::Prefix);
        assert_eq!(composer.press(Key::End), Some(Key::Open));
        types(&mut composer, "ab\\");
        assert_eq!(composer.press(Key::Enter), None, "the input continues");
        composer.press(Key::Home);
        composer.press(Key::Up);
        assert_eq!(composer.press(Key::Leave), None);
        assert_eq!(composer.shown(), "b\\\n");
    }

    #[test]
    fn input_continues_until_complete() {
        assert!(is_whole("one line"));
        assert!(!is_whole("goes on \\"));
        assert!(is_whole("goes on \\\nand ends"));
        assert!(!is_whole("```rust\nfn main() {}"));
        assert!(is_whole("```rust\nfn main() {}\n```"));
        assert!(is_whole("say ``` in a line"));
    }

    #[test]
    fn continuation_backslashes_are_removed() {
        assert_eq!(join_lines("a \\\nb"), "a \nb");
        assert_eq!(join_lines("```\na \\\nb\n```\nc\\\nd"), "```\na \\\nb\n```\nc\nd");
        assert_eq!(join_lines("C:\\x"), "C:\\x");
    }
}

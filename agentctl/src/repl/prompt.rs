//! The prompt: status line and composer at the bottom of the screen, while nothing else is written there.

use std::io;

use futures_util::future::BoxFuture;

use super::{
    clipboard::Clipboard,
    console::{print, unwritten},
    conversation::{Input, Lines},
    known::CompletionCache,
    own_editor,
};
use crate::{
    composer::{ComposerView, join_lines},
    failure::Failure,
    keyboard::{Key, Keyboard, TypeAhead},
    render::status::ChatStatus,
    terminal::{
        self,
        look::TerminalStyle,
        paint::{QUIET, paint, width},
        sanitize::clean,
    },
};

/// Mark before an input in the transcript, and before its further lines.
const MARK: &str = "› ";
const NEXT_MARK: &str = "\n… ";
/// Maximum number of lines of an input in the transcript.
const MAX_SHOWN: usize = 20;

/// Tells terminals where a prompt starts, so that people can jump between prompts (OSC 133, "semantic prompts").
const PROMPT_START: &str = "\x1b]133;A\x07";

/// Command of Esc Esc, and what is shown after the first Esc.
const EDIT_LAST: &str = "/rewind last";
const ESCAPED: &str = "Esc again edits the last message";

/// Prompt of a chat.
#[derive(Debug)]
pub(crate) struct Prompt {
    keyboard: Keyboard,
    known: CompletionCache,
    look: TerminalStyle,
    clipboard: Clipboard,
}

impl Prompt {
    pub(crate) fn new(keyboard: Keyboard, known: CompletionCache) -> Self {
        Self { keyboard, known, look: TerminalStyle::detect(), clipboard: Clipboard::default() }
    }

    /// Reads the next input. If the future is dropped, the text that was written stays.
    async fn read(&mut self) -> io::Result<Input> {
        self.keyboard.take_in_lines();
        if let Some(message) = self.keyboard.typed(TypeAhead::next_message) {
            transcribe(&message)?;
            return Ok(Input::Text(message));
        }
        let _hold = self.keyboard.hold();
        let mut screen = DrawnRows::new(self.look);
        print(PROMPT_START)?;
        let mut is_escaped = false;
        loop {
            screen.draw(self.view(is_escaped))?;
            let press = self.keyboard.next().await;
            let was_escaped = std::mem::take(&mut is_escaped);
            match self.keyboard.typed(|typed| typed.composer.press(press.key)) {
                Some(Key::Enter) => {
                    let (shown, text) = self
                        .keyboard
                        .typed(|typed| (typed.composer.shown().to_owned(), join_lines(&typed.composer.submit())));
                    screen.erase()?;
                    transcribe(&shown)?;
                    return Ok(Input::Text(text));
                }
                Some(Key::Leave) => return Ok(Input::End),
                Some(Key::Escape) if was_escaped => return Ok(Input::Text(EDIT_LAST.to_owned())),
                Some(Key::Escape) => is_escaped = !self.keyboard.typed(|typed| typed.is_writing()),
                Some(Key::Mode) => self.known.change_status(ChatStatus::choose_next_mode),
                Some(Key::Show) => return Ok(Input::Text("/show".to_owned())),
                Some(Key::Resume) => screen.drawn = ComposerView::default(),
                Some(Key::Clear) => screen.clear()?,
                Some(Key::Picture) => {
                    screen.erase()?;
                    self.paste_picture().await;
                }
                Some(Key::Open) => {
                    screen.erase()?;
                    self.open_own_editor().await;
                }
                _ => {}
            }
        }
    }

    /// Returns the rows of the prompt, after a first Esc with a hint.
    fn view(&self, is_escaped: bool) -> ComposerView {
        let (columns, rows) = (self.look.size)();
        let color = self.look.err_color;
        let status = paint(color, QUIET, &self.known.status().line(columns.saturating_sub(1)));
        let hint = if is_escaped { ESCAPED } else { "" };
        let view = self.keyboard.typed(|typed| typed.composer.view((columns, (rows / 2).max(1)), "", hint, color));
        let mut view = view.below(vec![status]);
        // The window may be too small for the menu.
        view.rows.truncate(rows.saturating_sub(1).max(view.cursor.0 + 1));
        view
    }

    /// Inserts the picture of the clipboard, or reports why it cannot.
    async fn paste_picture(&mut self) {
        match self.clipboard.picture().await {
            Ok(path) => _ = self.keyboard.typed(|typed| typed.composer.press(Key::Paste(path.display().to_string()))),
            Err(reason) => terminal::note(&reason),
        }
    }

    /// Opens the input in the user's editor. If that fails, the input stays as it was.
    async fn open_own_editor(&self) {
        let Some(editor) = own_editor::name() else {
            terminal::note("no editor is set; VISUAL or EDITOR names one");
            return;
        };
        let (keyboard, text) = (self.keyboard.clone(), self.keyboard.typed(|typed| typed.composer.whole()));
        let edit = move || keyboard.lend(|| own_editor::edit(&editor, &text, ".md", || false));
        match tokio::task::spawn_blocking(edit).await {
            Ok(Ok(Some(edited))) => self.keyboard.typed(|typed| typed.composer.write(edited.trim_end())),
            Ok(Ok(None)) | Err(_) => terminal::note("the editor failed; the line is as it was"),
            Ok(Err(error)) => terminal::note(&format!("the editor could not be used: {error}")),
        }
    }
}

impl Lines for Prompt {
    fn next(&mut self) -> BoxFuture<'_, Result<Input, Failure>> {
        Box::pin(async move { self.read().await.map_err(unwritten) })
    }

    fn can_pause(&self) -> bool {
        true
    }

    fn interrupt(&mut self) -> bool {
        let dropped = self.keyboard.typed(|typed| (typed.is_writing(), typed.take_line()));
        if !dropped.1.is_empty() {
            let _ = transcribe(&dropped.1);
        }
        dropped.0
    }
}

/// Prints an input as part of the transcript, a long one in part.
fn transcribe(input: &str) -> io::Result<()> {
    print(&format!("{MARK}{}\n", excerpt(&clean(input))))
}

fn excerpt(input: &str) -> String {
    let lines: Vec<&str> = input.lines().collect();
    if lines.len() <= MAX_SHOWN {
        return lines.join(NEXT_MARK);
    }
    let shown = lines[..MAX_SHOWN - 1].join(NEXT_MARK);
    format!("{shown}{NEXT_MARK}[{} more lines]", lines.len() - MAX_SHOWN + 1)
}

/// Rows at the bottom of the screen, erased when this is dropped.
#[derive(Debug)]
pub(super) struct DrawnRows {
    look: TerminalStyle,
    pub(super) drawn: ComposerView,
}

impl DrawnRows {
    pub(super) fn new(look: TerminalStyle) -> Self {
        Self { look, drawn: ComposerView::default() }
    }

    /// Replaces the rows on the screen.
    pub(super) fn draw(&mut self, view: ComposerView) -> io::Result<()> {
        let below = view.rows.len().saturating_sub(view.cursor.0 + 1);
        let up = if below > 0 { format!("\x1b[{below}A") } else { String::new() };
        let right = if view.cursor.1 > 0 { format!("\x1b[{}C", view.cursor.1) } else { String::new() };
        // Hidden while drawing, so that the cursor does not jump.
        print(&format!("\x1b[?25l{}{}{up}\r{right}\x1b[?25h", self.erasure(), view.rows.join("\r\n")))?;
        self.drawn = view;
        Ok(())
    }

    pub(super) fn erase(&mut self) -> io::Result<()> {
        let erasure = self.erasure();
        self.drawn = ComposerView::default();
        print(&erasure)
    }

    /// Clears the whole screen.
    fn clear(&mut self) -> io::Result<()> {
        self.drawn = ComposerView::default();
        print("\x1b[H\x1b[2J")
    }

    /// Returns the sequence that erases the rows. A window that became narrower has wrapped them.
    fn erasure(&self) -> String {
        if self.drawn.rows.is_empty() {
            return String::new();
        }
        let columns = (self.look.size)().0.max(1);
        let (row, column) = self.drawn.cursor;
        let wrapped =
            |text: &String| width(&anstream::adapter::strip_str(text).to_string()).saturating_sub(1) / columns;
        let above: usize =
            self.drawn.rows[..row].iter().map(|text| 1 + wrapped(text)).sum::<usize>() + column / columns;
        let up = if above > 0 { format!("\x1b[{above}A") } else { String::new() };
        format!("{up}\r\x1b[J")
    }
}

impl Drop for DrawnRows {
    fn drop(&mut self) {
        // A terminal that is gone needs no cleaning.
        let _ = self.erase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_input_is_shown_in_part() {
        let lines = |number: usize| (0..number).map(|at| format!("line {at}")).collect::<Vec<_>>().join("\n");
        assert_eq!(excerpt("one\ntwo"), "one\n… two");
        assert_eq!(excerpt(&lines(20)).lines().count(), 20);
        assert!(excerpt(&lines(21)).ends_with("… line 18\n… [2 more lines]"));
    }
}

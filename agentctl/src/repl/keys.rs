//! Keys of the prompt: those of Emacs, Shift-Tab for the next mode, and Ctrl-X Ctrl-E for the person's editor.

use crossterm::event::{Event, KeyCode, KeyEvent};
use reedline::{
    EditCommand, EditMode, Emacs, KeyModifiers, PromptEditMode, ReedlineEvent, ReedlineRawEvent,
    default_emacs_keybindings,
};

use super::{known::CompletionCache, paste::Pastes, status::ChatStatus};

/// The menu of completions.
pub(super) const MENU: &str = "names";

/// The command that opens the person's editor. Nobody types it.
pub(super) const OPEN_EDITOR: &str = "\u{0}edit";

/// Keys of the prompt, as the line editor reads them.
pub(super) struct PromptKeys {
    emacs: Emacs,
    known: CompletionCache,
    pastes: Pastes,
    /// The last key was Ctrl-X.
    is_after_x: bool,
}

impl PromptKeys {
    /// Keys that choose modes for that status line.
    pub(super) fn new(known: CompletionCache, pastes: Pastes) -> Self {
        let mut keys = default_emacs_keybindings();
        let show = ReedlineEvent::ExecuteHostCommand("/show".to_owned());
        let open = ReedlineEvent::ExecuteHostCommand(OPEN_EDITOR.to_owned());
        let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline.clone());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), newline);
        keys.add_binding(KeyModifiers::ALT, KeyCode::Char('e'), open);
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), show);
        let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
        Self { emacs: Emacs::new(keys), known, pastes, is_after_x: false }
    }
}

impl EditMode for PromptKeys {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event = Event::from(event);
        // No command of the host's: reedline drops the keys that came with one.
        if matches!(&event, Event::Key(key) if key.code == KeyCode::BackTab) {
            self.known.change_status(ChatStatus::choose_next_mode);
            return ReedlineEvent::Repaint;
        }
        if let Event::Paste(text) = &event {
            return ReedlineEvent::Edit(vec![EditCommand::InsertString(self.pastes.fold(text))]);
        }
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        let is_control = |letter| matches!(&event, Event::Key(key) if *key == control(letter));
        if std::mem::replace(&mut self.is_after_x, is_control('x')) && is_control('e') {
            return ReedlineEvent::ExecuteHostCommand(OPEN_EDITOR.to_owned());
        }
        ReedlineRawEvent::try_from(event).map_or(ReedlineEvent::None, |event| self.emacs.parse_event(event))
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.emacs.edit_mode()
    }
}

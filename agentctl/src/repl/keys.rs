//! Keys of the prompt: those of Emacs, and Shift-Tab for the next mode.

use crossterm::event::{Event, KeyCode};
use reedline::{
    EditCommand, EditMode, Emacs, KeyModifiers, PromptEditMode, ReedlineEvent, ReedlineRawEvent,
    default_emacs_keybindings,
};

use super::{known::CompletionCache, status::ChatStatus};

/// The menu of completions.
pub(super) const MENU: &str = "names";

/// Keys of the prompt, as the line editor reads them.
pub(super) struct PromptKeys {
    emacs: Emacs,
    known: CompletionCache,
}

impl PromptKeys {
    /// Keys that choose modes for that status line.
    pub(super) fn new(known: CompletionCache) -> Self {
        let mut keys = default_emacs_keybindings();
        let show = ReedlineEvent::ExecuteHostCommand("/show".to_owned());
        keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, ReedlineEvent::Edit(vec![EditCommand::InsertNewline]));
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), show);
        let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
        Self { emacs: Emacs::new(keys), known }
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
        ReedlineRawEvent::try_from(event).map_or(ReedlineEvent::None, |event| self.emacs.parse_event(event))
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.emacs.edit_mode()
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::session::SessionMode;
    use crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn shift_tab_chooses_a_mode_and_other_keys_write() {
        let known = CompletionCache::default();
        let mut keys = PromptKeys::new(known.clone());
        let mut press = |code, modifiers| {
            let event = ReedlineRawEvent::try_from(Event::Key(KeyEvent::new(code, modifiers)));
            keys.parse_event(event.unwrap_or_else(|_| panic!("no key: {code:?}")))
        };
        assert_eq!(press(KeyCode::BackTab, KeyModifiers::SHIFT), ReedlineEvent::Repaint);
        assert_eq!(press(KeyCode::BackTab, KeyModifiers::SHIFT), ReedlineEvent::Repaint);
        assert_eq!(known.status().chosen, Some(SessionMode::Plan));
        let written = press(KeyCode::Char('x'), KeyModifiers::NONE);
        assert_eq!(written, ReedlineEvent::Edit(vec![EditCommand::InsertChar('x')]));
    }
}

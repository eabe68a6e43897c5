//! Tells the person when the small built-in model answers, because it is easily taken for more than it is.

use std::io;

use agentd_core::{
    event::{Event, EventKind},
    model::{ModelInfo, SlotInfo},
    turn::TurnResult,
};

use super::Renderer;
use crate::{
    daemon::{Daemon, ShellNote},
    keyboard::TypeAhead,
};

/// The most that is said of this shell's environment, in lines.
const MOST_NOTES: usize = 2;

/// Notice about the built-in model, and how to get a better one: with what is set already, where something is.
pub(crate) fn notice(daemon: &Daemon) -> String {
    let is = "This is the small built-in model: it runs without a network and makes mistakes.";
    let notes: Vec<String> = daemon.shell_notes(true).iter().take(MOST_NOTES).map(ShellNote::line).collect();
    if !notes.is_empty() {
        return format!("{is}\n{}", notes.join("\n"));
    }
    format!(
        "{is}\nFor a better one set MODEL_BASIC_BASE_URL (and MODEL_BASIC_API_KEY) or name one in models.yaml, and restart the \
         daemon: agentctl stop."
    )
}

/// Says it before the first turn that the built-in model answers.
pub(crate) struct BuiltinNotice {
    inner: Box<dyn Renderer>,
    builtin: Vec<ModelInfo>,
    /// None once it was said.
    notice: Option<String>,
}

impl BuiltinNotice {
    /// Around a renderer, with the models as the daemon lists them.
    pub(crate) fn new(inner: Box<dyn Renderer>, slots: Vec<SlotInfo>, daemon: &Daemon) -> Self {
        let builtin: Vec<_> = slots.into_iter().map(|slot| slot.model).filter(|model| model.embedded).collect();
        let notice = (!builtin.is_empty()).then(|| notice(daemon));
        Self { inner, builtin, notice }
    }
}

impl Renderer for BuiltinNotice {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::TurnStarted { model, .. } = &event.kind
            && self.builtin.iter().any(|builtin| builtin.id == *model)
            && let Some(notice) = self.notice.take()
        {
            self.inner.note(&notice)?;
        }
        self.inner.event(event)
    }

    fn child(&mut self, event: &Event) -> io::Result<()> {
        self.inner.child(event)
    }

    fn finish(&mut self, result: &TurnResult) -> io::Result<()> {
        self.inner.finish(result)
    }

    fn leave(&mut self) -> io::Result<()> {
        self.inner.leave()
    }

    fn pause(&mut self) -> io::Result<()> {
        self.inner.pause()
    }

    fn typed(&mut self, typed: &TypeAhead) -> io::Result<()> {
        self.inner.typed(typed)
    }

    fn lost(&mut self) -> io::Result<()> {
        self.inner.lost()
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        self.inner.note(text)
    }
}

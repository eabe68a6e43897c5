//! What a chat says below its greeting where something stands in the way: a built-in model that is small or not there, and
//! variables of this shell that have no effect. Nothing where all is well.

use agentd_proto::{client::SessionView, packaged};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    daemon::{ShellNote, Weights},
    terminal::sanitize::clean_line,
    turn,
};

/// The lines that there may be.
const MOST_LINES: usize = 3;

impl Chat {
    /// Says what stands in the way of a good answer.
    pub(super) async fn advise(&mut self, view: Option<&SessionView>) {
        let advice = if self.model_of(view).model.embedded {
            match Weights::find(&self.daemon).await {
                Weights::File(_) => turn::builtin_notice(&self.daemon),
                Weights::Missing(path) => {
                    let path = clean_line(&path.display().to_string());
                    format!("No model can answer yet: the built-in one has no weights at {path}.\n{}", self.way_out())
                }
            }
        } else {
            self.daemon.shell_notes(false).iter().map(ShellNote::line).collect::<Vec<_>>().join("\n")
        };
        for line in advice.lines().take(MOST_LINES) {
            self.note(line);
        }
    }

    /// The way to a model that can answer, where there is none.
    fn way_out(&self) -> String {
        let notes: Vec<String> = self.daemon.shell_notes(true).iter().map(ShellNote::line).collect();
        if !notes.is_empty() {
            return notes.join("\n");
        }
        format!(
            "Download them with `{}`, or set MODEL_BASIC_BASE_URL to a server's address and restart the daemon: agentctl stop.",
            packaged::fetch_command()
        )
    }
}

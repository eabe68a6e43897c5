//! The greeting of a chat, and advice below it on problems: a small or missing built-in model, and variables of this
//! shell that have no effect.

use agentd_core::{folder::Mounts, visible};
use agentd_proto::{client::SessionView, packaged};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    daemon::{ShellNote, Weights},
    mount::shown_mounts,
    render::status::{ChatStatus, branch},
    report::{count, short_id},
    session::SessionTarget,
    terminal::{paint::clip, sanitize::clean_line},
    turn,
};

/// Maximum number of columns of a session's title.
const TITLE: usize = 40;

/// Maximum number of lines of advice.
const MOST_LINES: usize = 3;

impl Chat {
    /// Shows the session, its folder and its model, and fills the status line.
    pub(super) fn greet(&mut self, view: Option<&SessionView>) {
        let session = match view {
            Some(view) => {
                let summary = &view.session.summary;
                format!(
                    "session {} · {} · {}",
                    short_id(summary.id),
                    clip(&visible::line(&summary.title), TITLE),
                    count(summary.turns, "turn")
                )
            }
            None => match &self.place {
                SessionTarget::New(new) if new.worktree.is_some() => "new session in a worktree of its own".to_owned(),
                _ => "new session".to_owned(),
            },
        };
        let mounts = view.map_or_else(|| self.place.mounts(), |view| view.session.settings.mounts());
        let way =
            if self.daemon.client.host().is_some() { "-C /FOLDER shows one there" } else { "-C . shows this one" };
        let folder = shown_mounts(&mounts).unwrap_or_else(|| format!("no folder in view ({way})"));
        let Mounts { project: folder_in_view, folders: added } = mounts;
        let model = clean_line(&self.model_of(view).model.id);
        let name = format!(" · {model}");
        let mode = view.map_or_else(|| self.place.first_mode(), |view| view.session.settings.mode);
        let host = self.daemon.client.host();
        // The folder of another machine may exist here, too.
        let branch = folder_in_view.as_ref().filter(|_| host.is_none()).and_then(|mount| branch(&mount.path));
        let status = ChatStatus { folder: folder_in_view, added, branch, model, mode, ..ChatStatus::default() };
        self.known.change_status(|shown| *shown = status);
        let host = host.map(|host| format!(" at {host}")).unwrap_or_default();
        self.note(&format!("agentd{host} · {session} · {folder}{name} · /help lists the commands"));
    }

    /// Shows advice on problems that prevent a good answer.
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

    /// Returns advice on how to get a model that can answer.
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

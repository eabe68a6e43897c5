//! The status line of a chat: mode, folder, branch, model and cost of the session, and the progress of the running
//! turn.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Instant,
};

use agentd_core::{
    folder::AddedFolder,
    session::{Mount, SessionMode, SessionSettings},
    usage::Usage,
};

use crate::{
    report::count,
    terminal::{
        paint::{clip, dollars, width},
        sanitize::clean_line,
    },
};

/// Maximum number of columns of a branch.
const BRANCH: usize = 24;
/// Maximum number of bytes read from `.git/HEAD`.
const HEAD_BYTES: u64 = 4096;

/// Status shared by the prompt and the renderer of turns.
pub(crate) type SharedStatus = Arc<Mutex<ChatStatus>>;

/// State of a conversation, as shown in its status line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChatStatus {
    /// Folder in view.
    pub(crate) folder: Option<Mount>,
    /// Added folders.
    pub(crate) added: Vec<AddedFolder>,
    /// Branch of the folder's repository.
    pub(crate) branch: Option<String>,
    /// Id of the model.
    pub(crate) model: String,
    /// Agent of the session; empty for the main agent.
    pub(crate) agent: String,
    pub(crate) mode: SessionMode,
    /// Mode that was chosen by a key, and is set before an action depends on it.
    pub(crate) chosen: Option<SessionMode>,
    /// Percentage of the model's window in use, if known.
    pub(crate) fullness: Option<u64>,
    /// Cost of the session in millionths of a US dollar, if prices are known.
    pub(crate) cost: Option<u64>,
    /// Size of the model's window in tokens, if known.
    pub(crate) window: Option<u64>,
    /// Progress of the running turn.
    pub(crate) turn: Option<TurnProgress>,
    /// Number of pending questions that are not on the screen.
    pub(crate) questions: usize,
}

/// Progress of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnProgress {
    begun: Instant,
    /// Number of the last step whose model call is complete; 0 before the first one.
    step: u32,
    /// Cost in millionths of a US dollar, if prices are known.
    cost: Option<u64>,
}

impl ChatStatus {
    /// Chooses the next mode.
    pub(crate) fn choose_next_mode(&mut self) {
        self.chosen = Some(self.chosen.unwrap_or(self.mode).following());
    }

    /// Starts to show a turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn = Some(TurnProgress { begun: Instant::now(), step: 0, cost: None });
        self.questions = 0;
    }

    /// Counts a model call of the turn. `total` is the usage of the turn so far.
    pub(crate) fn count_call(&mut self, step: u32, call: &Usage, total: &Usage) {
        if let Some(turn) = &mut self.turn {
            (turn.step, turn.cost) = (step, total.cost_microusd);
        }
        let used = call.prompt_tokens.saturating_add(call.completion_tokens);
        if let Some(window) = self.window.filter(|window| *window > 0 && used > 0) {
            self.fullness = Some(used.saturating_mul(100) / window);
        }
    }

    /// Updates the settings of the session.
    pub(crate) fn change_settings(&mut self, settings: &SessionSettings) {
        self.mode = settings.mode;
        self.folder.clone_from(&settings.project);
        self.added.clone_from(&settings.folders);
    }

    /// Returns the title of the window.
    pub(crate) fn title(&self, is_busy: bool) -> String {
        let mark = if is_busy { "● " } else { "" };
        let folder = self.folder.as_ref().map_or_else(String::new, |mount| format!(": {}", folder_name(&mount.path)));
        format!("{mark}agentd{folder}")
    }

    /// Returns the line, in at most `columns`.
    pub(crate) fn line(&self, columns: usize) -> String {
        self.line_above(0, columns)
    }

    /// Returns the line where no input row shows the number of queued messages, in at most `columns`.
    pub(crate) fn line_above(&self, messages: usize, columns: usize) -> String {
        let folder = match &self.folder {
            Some(mount) => format!("{} {}", folder_name(&mount.path), if mount.writable { "rw" } else { "ro" }),
            None => "no folder".to_owned(),
        };
        let added = if self.added.is_empty() { String::new() } else { format!(" +{}", self.added.len()) };
        let folder = folder + &added;
        // A chosen mode takes effect with the next message.
        let mode = match self.chosen.filter(|chosen| *chosen != self.mode) {
            Some(chosen) => format!("{} → {chosen}", self.mode),
            None => self.mode.to_string(),
        };
        let percent = self.fullness.filter(|percent| *percent > 0);
        let turn_cost = self.turn.and_then(|turn| turn.cost).filter(|cost| *cost > 0);
        let cost = self.cost.into_iter().chain(turn_cost).reduce(u64::saturating_add);
        // Each with its rank: parts of the highest rank are omitted first if the screen is narrow.
        let mut parts = vec![
            (0, mode),
            (0, waiting(self.questions, "question")),
            (0, waiting(messages, "message")),
            (2, self.agent.clone()),
            (1, folder),
            // The name comes from the repository, and must not look like other parts of the line.
            (4, self.branch.as_ref().map(|branch| clip(&branch.replace('·', "."), BRANCH)).unwrap_or_default()),
            (3, self.model.clone()),
            (0, self.turn.map(|turn| clock(turn.begun.elapsed().as_secs())).unwrap_or_default()),
            (0, self.turn.filter(|turn| turn.step > 0).map(|turn| format!("step {}", turn.step)).unwrap_or_default()),
            (1, percent.map(|percent| format!("{percent}% of the window")).unwrap_or_default()),
            (1, cost.map(dollars).unwrap_or_default()),
        ];
        parts.retain(|(_, part)| !part.is_empty());
        loop {
            let line = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join(" · ");
            let last = parts.iter().enumerate().filter(|(_, (rank, _))| *rank > 0).max_by_key(|(_, (rank, _))| *rank);
            match last.map(|(at, _)| at).filter(|_| width(&line) > columns) {
                Some(at) => parts.remove(at),
                None => return clip(&line, columns),
            };
        }
    }
}

/// Returns the number of waiting things; empty for 0.
fn waiting(number: usize, noun: &str) -> String {
    match number {
        0 => String::new(),
        1 => format!("1 {noun} waits"),
        _ => format!("{} wait", count(number, noun)),
    }
}

/// Formats seconds as minutes and seconds, or as hours, minutes and seconds.
fn clock(seconds: u64) -> String {
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// Returns the last component of a folder's path.
pub(crate) fn folder_name(path: &Path) -> String {
    clean_line(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
}

/// Returns the branch that is checked out in the repository of a folder, or the start of the commit's id.
pub(crate) fn branch(folder: &Path) -> Option<String> {
    let head = folder.ancestors().find_map(|folder| head_file(&folder.join(".git")))?;
    let head = read_start(&head)?;
    let head = head.trim();
    let name = head.strip_prefix("ref: refs/heads/").map_or_else(|| head.chars().take(7).collect(), str::to_owned);
    Some(clean_line(&name)).filter(|name| !name.is_empty())
}

/// Returns the file that names the checked out branch. In a worktree, `.git` is a file with the path of the folder.
fn head_file(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git.join("HEAD"));
    }
    let named = read_start(git)?;
    let folder = named.trim().strip_prefix("gitdir: ")?;
    Some(git.parent()?.join(folder).join("HEAD"))
}

fn read_start(path: &Path) -> Option<String> {
    // Checked before the file is opened, because opening a pipe would wait for its other end.
    let is_file = fs::metadata(path).ok()?.is_file();
    let file = is_file.then(|| fs::File::open(path).ok()).flatten()?;
    io::read_to_string(file.take(HEAD_BYTES)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_line_shows_known_values_only() {
        let mut status = ChatStatus { model: "gpt-5".to_owned(), ..ChatStatus::default() };
        assert_eq!(status.line(80), "ask · no folder · gpt-5");
        status = ChatStatus {
            folder: Some(Mount { path: "/home/ada/app".into(), writable: true }),
            added: vec![AddedFolder { at: "/folders/lib".into(), path: "/srv/lib".into(), writable: false }],
            branch: Some("main".to_owned()),
            agent: "poet".to_owned(),
            mode: SessionMode::AcceptEdits,
            fullness: Some(12),
            cost: Some(40_000),
            ..status
        };
        assert_eq!(status.line(80), "accept-edits · poet · app rw +1 · main · gpt-5 · 12% of the window · $0.0400");
        assert_eq!(status.line(60), "accept-edits · app rw +1 · 12% of the window · $0.0400");
        assert_eq!(status.line(30), "accept-edits · app rw +1");
        assert_eq!(status.line(10), "accept-ed…");
        status.choose_next_mode();
        assert!(status.line(80).starts_with("accept-edits → plan · "));
        status.branch = Some("main · gpt-5 · ask · and more of that".to_owned());
        assert!(status.line(200).contains(" · main . gpt-5 . ask . an… · gpt-5 · "), "{}", status.line(200));
        assert_eq!(status.title(true), "● agentd: app");
        status.questions = 2;
        assert!(status.line(200).starts_with("accept-edits → plan · 2 questions wait · poet · "));
        assert!(status.line_above(1, 200).contains(" · 2 questions wait · 1 message waits · poet · "));
        status.window = Some(1000);
        status.begin_turn();
        assert!(!status.line(200).contains("wait"), "a turn starts without questions");
        let usage =
            Usage { prompt_tokens: 300, completion_tokens: 10, cost_microusd: Some(80_000), ..Usage::default() };
        status.count_call(3, &usage, &usage);
        assert!(status.line(200).ends_with(" · 0:00 · step 3 · 31% of the window · $0.1200"), "{}", status.line(200));
        assert_eq!((clock(133).as_str(), clock(3_725).as_str()), ("2:13", "1:02:05"));
    }

    #[test]
    fn branch_is_read_from_the_enclosing_repository() {
        let root = tempfile::tempdir().unwrap();
        let (app, other) = (root.path().join("app"), root.path().join("other"));
        fs::create_dir_all(app.join("src")).unwrap();
        fs::create_dir_all(app.join(".git/worktrees/other")).unwrap();
        fs::create_dir(&other).unwrap();
        assert_eq!(branch(&app), None);
        fs::write(app.join(".git/HEAD"), "ref: refs/heads/topic/one\u{1b}[2J\n").unwrap();
        assert!(branch(&app.join("src")).unwrap().starts_with("topic/one"));
        assert!(!branch(&app).unwrap().contains('\u{1b}'));
        fs::write(other.join(".git"), "gitdir: ../app/.git/worktrees/other\n").unwrap();
        fs::write(app.join(".git/worktrees/other/HEAD"), "0123456789abcdef\n").unwrap();
        assert_eq!(branch(&other).as_deref(), Some("0123456"));
    }
}

//! The line editor: history, several lines, completion. It lives on a thread of its own, because it blocks,
//! and it runs only while a line is asked for, so that Ctrl-C means the turn while one streams.

use std::{
    borrow::Cow,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use agentd_core::{model::Slot, session::SessionMode};
use futures_util::future::BoxFuture;
use reedline::{
    Color, ColumnarMenu, Completer, CompletionResult, DefaultHinter, EditCommand, FileBackedHistory, Highlighter,
    HistoryItem, MenuBuilder as _, Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineMenu, Signal, Span,
    StyledText, Suggestion, ValidationResult, Validator,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    conversation::{Input, Lines},
    keys::{MENU, OPEN_EDITOR, PromptKeys},
    known::CompletionCache,
    mentions, own_editor,
    paste::Pastes,
    slash,
};
use crate::{
    failure::Failure,
    keyboard::{
        Keyboard, TypeAhead,
        typed::{is_whole, join_lines},
    },
    terminal::{self, look::TerminalStyle, sanitize::clean},
};

/// The inputs that the history keeps.
const HISTORY: usize = 2_000;

/// The mark before all that is said.
const INDICATOR: &str = "› ";

/// Lines of a message that was typed ahead, in the transcript.
const SHOWN_LINES: usize = 20;

/// The mark of lines that are not remembered.
const UNREMEMBERED: &str = " ";

/// The line editor, from the outside.
#[derive(Debug)]
pub(crate) struct Editor {
    requests: mpsc::Sender<Request>,
    /// The keyboard while turns run.
    keyboard: Keyboard,
    /// Breaks the reading of a line off.
    breaker: Arc<AtomicBool>,
}

/// A request to the thread.
enum Request {
    /// The next line, which goes on from what was begun.
    Read { begun: String, answer: oneshot::Sender<io::Result<ReadLine>> },
    /// A line was sent that was not read here.
    Remember(String),
}

impl Editor {
    /// Starts the thread. Where the history file cannot be used, there is history for this conversation only.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn open(
        history: Option<&Path>,
        known: CompletionCache,
        color: bool,
        keyboard: Keyboard,
    ) -> io::Result<Self> {
        let history = history.and_then(open_history);
        let (requests, mut queue) = mpsc::channel(2);
        let breaker = Arc::new(AtomicBool::new(false));
        let breaks = Arc::clone(&breaker);
        std::thread::Builder::new().name("agentctl-editor".to_owned()).spawn(move || {
            let any = Arc::new(AtomicBool::new(false));
            let pastes = Pastes::default();
            let keys = PromptKeys::new(known.clone(), pastes.clone());
            let mut editor = reedline(history, known.clone(), keys, color, &any).with_break_signal(Arc::clone(&breaks));
            while let Some(request) = queue.blocking_recv() {
                let (begun, answer) = match request {
                    Request::Read { begun, answer } => (begun, answer),
                    Request::Remember(line) => {
                        // A history that cannot be written is no reason to say so now.
                        let _ = editor.history_mut().save(HistoryItem::from_command_line(line));
                        continue;
                    }
                };
                if !begun.is_empty() {
                    editor.run_edit_commands(&[EditCommand::InsertString(pastes.fold(&begun))]);
                }
                let prompt = ChatPrompt { known: known.clone() };
                // Nobody waits for it where the conversation has ended.
                let _ = answer.send(read(&mut editor, &prompt, &pastes, &any, &breaks));
            }
        })?;
        Ok(Self { requests, keyboard, breaker })
    }

    async fn read(&self) -> Result<Input, Failure> {
        let gone = || Failure::usage("the line editor has ended; pipe the input instead");
        self.keyboard.take_in_lines();
        if let Some(message) = self.keyboard.typed(TypeAhead::next_message) {
            // As it would stand there if it had been typed at the prompt.
            let shown = shown_message(&clean(&message));
            let _ = writeln!(io::stderr(), "{INDICATOR}{shown}");
            if !message.starts_with(UNREMEMBERED) {
                self.requests.send(Request::Remember(message.clone())).await.map_err(|_| gone())?;
            }
            return Ok(Input::Text(message));
        }
        let begun = self.keyboard.typed(TypeAhead::take_line);
        self.breaker.store(false, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.requests.send(Request::Read { begun, answer: sender }).await.map_err(|_| gone())?;
        let input = answer.await.map_err(|_| gone())?;
        match input.map_err(|error| Failure::usage(format!("cannot read from the terminal: {error}")))? {
            ReadLine::Input(input) => Ok(input),
            ReadLine::Broken(begun) => {
                self.keyboard.typed(|typed| typed.unsent(begun));
                Ok(Input::Aside)
            }
        }
    }
}

impl Lines for Editor {
    fn next(&mut self) -> BoxFuture<'_, Result<Input, Failure>> {
        Box::pin(self.read())
    }

    fn breaker(&self) -> Option<Arc<AtomicBool>> {
        Some(Arc::clone(&self.breaker))
    }
}

/// A line that was read, or the part of one that had been written when the reading was broken off.
enum ReadLine {
    Input(Input),
    Broken(String),
}

fn read(
    editor: &mut Reedline,
    prompt: &ChatPrompt,
    pastes: &Pastes,
    any: &AtomicBool,
    breaks: &AtomicBool,
) -> io::Result<ReadLine> {
    any.store(false, Ordering::Relaxed);
    let signal = loop {
        match editor.read_line(prompt)? {
            Signal::HostCommand(command) if command == OPEN_EDITOR => open_in_own_editor(editor, pastes),
            signal => break signal,
        }
    };
    Ok(ReadLine::Input(match signal {
        Signal::ExternalBreak(begun) => {
            // An empty prompt in its place, which is left at once, takes it off the screen.
            editor.run_edit_commands(&[EditCommand::Clear]);
            breaks.store(true, Ordering::Relaxed);
            editor.read_line(&NO_PROMPT)?;
            return Ok(ReadLine::Broken(pastes.unfold(&begun)));
        }
        Signal::Success(text) => Input::Text(join_lines(&pastes.unfold(&text))),
        // As in a shell: it drops the line that was begun, and says nothing about leaving.
        // The line that is being written stands there again afterwards.
        Signal::HostCommand(command) => Input::Text(command),
        Signal::CtrlC if any.load(Ordering::Relaxed) => Input::Text(String::new()),
        Signal::CtrlC => Input::Interrupted,
        Signal::CtrlD => Input::End,
        _ => Input::Text(String::new()),
    }))
}

/// Has the person write on in their own editor. Where that fails, the line stays as it was.
fn open_in_own_editor(editor: &mut Reedline, pastes: &Pastes) {
    let Some(own) = own_editor::name() else {
        terminal::note("no editor is set; VISUAL or EDITOR names one");
        return;
    };
    let text = pastes.unfold(editor.current_buffer_contents());
    match own_editor::edit(&own, &text, ".md", || false) {
        Ok(Some(edited)) => {
            let edited = pastes.fold(edited.trim_end());
            editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(edited)]);
        }
        Ok(None) => terminal::note("the editor failed; the line is as it was"),
        Err(error) => terminal::note(&format!("the editor could not be used: {error}")),
    }
}

/// A message as it stands in the transcript: a long one in part.
fn shown_message(message: &str) -> String {
    let lines: Vec<&str> = message.lines().collect();
    if lines.len() <= SHOWN_LINES {
        return lines.join("\n… ");
    }
    let shown = lines[..SHOWN_LINES - 1].join("\n… ");
    format!("{shown}\n… [{} more lines]", lines.len() - SHOWN_LINES + 1)
}

fn reedline(
    history: Option<FileBackedHistory>,
    known: CompletionCache,
    keys: PromptKeys,
    color: bool,
    any: &Arc<AtomicBool>,
) -> Reedline {
    let editor = Reedline::create()
        .use_bracketed_paste(true)
        .with_ansi_colors(color)
        .with_edit_mode(Box::new(keys))
        .with_highlighter(Box::new(Plain { any: Arc::clone(any) }))
        .with_transient_prompt(Box::new(SENT))
        .with_validator(Box::new(WholeInput))
        .with_hinter(Box::new(DefaultHinter::default().with_min_chars(2)))
        .with_completer(Box::new(Names(known)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(
            ColumnarMenu::default().with_name(MENU).with_marker("› ").with_columns(1),
        )))
        // A way to say something that is not to be remembered.
        .with_history_exclusion_prefix(Some(UNREMEMBERED.to_owned()));
    match history {
        Some(history) => editor.with_history(Box::new(history)),
        None => editor,
    }
}

/// Shows the line in the terminal's own colour, which can be read on any background, and remembers whether there is
/// anything in it.
struct Plain {
    any: Arc<AtomicBool>,
}

impl Highlighter for Plain {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        self.any.store(!line.is_empty(), Ordering::Relaxed);
        let mut text = StyledText::new();
        text.push((Default::default(), line.to_owned()));
        text
    }
}

/// The history file, for nobody else's eyes.
fn open_history(path: &Path) -> Option<FileBackedHistory> {
    let folder = path.parent()?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).ok()?;
    FileBackedHistory::with_file(HISTORY, path.to_owned()).ok()
}

/// Validator of inputs: whole once no code fence is open and the last line does not end in a backslash.
struct WholeInput;

impl Validator for WholeInput {
    fn validate(&self, text: &str) -> ValidationResult {
        if is_whole(text) { ValidationResult::Complete } else { ValidationResult::Incomplete }
    }
}

/// Arguments of `/compact`.
const COMPACT: [(&str, &str); 4] = [
    ("auto", "as fits the window"),
    ("compact", "in detail"),
    ("summarize", "short"),
    ("undo", "take the last compaction back"),
];

/// Completes commands, sessions, slots and ways to compact.
struct Names(CompletionCache);

impl Completer for Names {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let mentioned = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        let own = self.0.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let names = line.get(..pos).map(|typed| names(typed, &sessions, &mentioned, &own)).unwrap_or_default();
        let suggestions: Vec<Suggestion> = names
            .into_iter()
            .map(|(start, value, description)| Suggestion {
                value,
                description: Some(description).filter(|description| !description.is_empty()),
                span: Span::new(start, pos),
                append_whitespace: false,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

/// Completions of what was typed: where the word starts, the word, and what it means.
fn names(
    typed: &str,
    sessions: &[(String, String)],
    mentioned: &[(String, String)],
    own: &[(String, String)],
) -> Vec<(usize, String, String)> {
    if let Some((start, begun)) = mentions::begun_name(typed).filter(|_| !typed.starts_with('/')) {
        let fits = mentioned.iter().filter(|(name, _)| mentions::begins(name, begun));
        return fits.map(|(name, about)| (start, name.clone(), about.clone())).collect();
    }
    if let Some((start, paths)) = mentions::complete(typed).filter(|_| !typed.starts_with('/')) {
        return paths.into_iter().map(|path| (start, path, String::new())).collect();
    }
    let argument_of = |name: &str| Some((typed.strip_prefix(name)?, name.len()));
    if let Some((argument, start)) = argument_of("/load ") {
        let wanted = argument.to_lowercase();
        let is_meant =
            |(id, title): &&(String, String)| id.starts_with(argument) || title.to_lowercase().contains(&wanted);
        let fits = sessions.iter().filter(is_meant);
        return fits.map(|(id, title)| (start, id.clone(), title.clone())).collect();
    }
    let words = [
        ("/model ", Slot::ALL.map(|slot| (slot.as_str(), "model slot")).to_vec()),
        ("/mode ", SessionMode::ALL.map(|mode| (mode.as_str(), mode.description())).to_vec()),
        ("/compact ", COMPACT.to_vec()),
    ];
    let words = words.into_iter().find_map(|(name, words)| Some((argument_of(name)?, words)));
    if let Some(((argument, start), words)) = words {
        let fits = words.into_iter().filter(|(word, _)| word.starts_with(argument));
        return fits.map(|(word, does)| (start, word.to_owned(), does.to_owned())).collect();
    }
    let Some(name) = typed.strip_prefix('/') else { return Vec::new() };
    let of_table = slash::TABLE.iter().filter(|entry| entry.name.starts_with(name)).map(|entry| {
        let space = if entry.argument.is_empty() { "" } else { " " };
        (0, format!("/{}{space}", entry.name), entry.does.to_owned())
    });
    let own = own.iter().filter(|(known, _)| known.starts_with(name));
    of_table.chain(own.map(|(name, about)| (0, format!("/{name} "), about.clone()))).collect()
}

/// Prompt while a line is written: the status above it, as it is now.
struct ChatPrompt {
    known: CompletionCache,
}

impl Prompt for ChatPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        let columns = TerminalStyle::detect().columns().saturating_sub(1);
        Cow::Owned(format!("{}\n", self.known.status().line(columns)))
    }

    fn get_prompt_color(&self) -> Color {
        Color::DarkGray
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(INDICATOR)
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("… ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("search {}› ", search.term))
    }
}

/// Prompt that is a mark before the first row, and one before all others.
struct Marks(&'static str, &'static str);

/// Prompt of which nothing is seen.
const NO_PROMPT: Marks = Marks("", "");

/// Prompt of a line that was sent: the mark alone, so that the transcript has no status lines in it.
const SENT: Marks = Marks(INDICATOR, "… ");

impl Prompt for Marks {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.1)
    }

    fn render_prompt_history_search_indicator(&self, _: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_sessions_and_slots_are_completed() {
        let sessions = [("0193a".to_owned(), "one".to_owned()), ("0200b".to_owned(), "two".to_owned())];
        let own = [("review".to_owned(), "yours: Look".to_owned())];
        let words =
            |typed: &str| names(typed, &sessions, &[], &own).into_iter().map(|(_, word, _)| word).collect::<Vec<_>>();
        assert_eq!(words("/re"), ["/rewind ", "/resume", "/rename ", "/reset", "/review "]);
        assert_eq!(words("/load 02"), ["0200b"]);
        assert_eq!(words("/model c"), ["code", "chat"]);
        assert_eq!(words("/com"), ["/compact "]);
        assert_eq!(words("/compact "), ["auto", "compact", "summarize", "undo"]);
        assert_eq!(words("/compact s"), ["summarize"]);
        assert_eq!(words("hello /re"), [""; 0]);
        assert_eq!(words("/reset now"), [""; 0]);
        assert_eq!(names("/load 02", &sessions, &[], &own)[0].0, 6);
    }

    #[test]
    fn mentions_are_completed() {
        let known = [("pdf", "skill: forms"), ("read_file", "tool: reads"), ("read_url", "tool: pages")];
        let known = known.map(|(name, about)| (name.to_owned(), about.to_owned()));
        let words =
            |typed: &str| names(typed, &[], &known, &[]).into_iter().map(|(_, word, _)| word).collect::<Vec<_>>();
        assert_eq!(words("fill this with @p"), ["pdf"]);
        assert_eq!(words("@read-"), ["read_file", "read_url"]);
        assert_eq!(words("请用@READ_U"), ["read_url"]);
        assert_eq!(words("@"), ["pdf", "read_file", "read_url"]);
        assert_eq!(words("ada@p"), [""; 0]);
        assert_eq!(words("@pdf and"), [""; 0]);
        assert_eq!(names("use @pd", &[], &known, &[]), [(5, "pdf".to_owned(), "skill: forms".to_owned())]);
    }

    #[test]
    fn long_message_is_shown_in_part() {
        let lines = |number: usize| (0..number).map(|at| format!("line {at}")).collect::<Vec<_>>().join("\n");
        assert_eq!(shown_message("one\ntwo"), "one\n… two");
        assert_eq!(shown_message(&lines(20)).lines().count(), 20);
        assert!(shown_message(&lines(21)).ends_with("… line 18\n… [2 more lines]"));
    }

    #[test]
    fn history_file_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/history");
        assert!(open_history(&path).is_some());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

//! Converts tool calls to the terms of the protocol: kind, title, locations, input, and truncated results. Maps tool
//! paths to real paths and back. An edit is shown as the text before and after each change. If that is not possible, or
//! if the edit contains hidden characters, which editors show raw, the edit is only described in the call's text.

use std::{
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use agent_client_protocol_schema::v1::{Diff, ToolCallLocation, ToolKind};
use agentd_core::{
    folder::{AddedFolder, Mounts},
    path,
    session::Mount,
    tool::SAVE_TO,
    tool_table, visible,
};
use serde_json::Value;

use crate::{render::tool_line::call_line, report};

/// Name of the tool that runs commands.
pub(super) const SHELL: &str = "run_bash_command";
/// Maximum characters in a title. The full text is in the call's content.
const MAX_TITLE: usize = 500;

/// Parses the arguments of a call; invalid JSON becomes a string.
pub(super) fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Returns the protocol's kind for a call.
pub(super) fn kind(tool: &str, args: &Value) -> ToolKind {
    match tool_table::ToolKind::of(tool) {
        tool_table::ToolKind::Look if args.get(SAVE_TO).is_some_and(Value::is_string) => ToolKind::Edit,
        tool_table::ToolKind::Look => ToolKind::Read,
        tool_table::ToolKind::Edit => ToolKind::Edit,
        tool_table::ToolKind::Search => ToolKind::Search,
        tool_table::ToolKind::Run => ToolKind::Execute,
        tool_table::ToolKind::Fetch => ToolKind::Fetch,
        tool_table::ToolKind::Think => ToolKind::Think,
        tool_table::ToolKind::Other => ToolKind::Other,
    }
}

/// Returns the title of a call: the command, or the tool and its subject.
pub(super) fn title(tool: &str, args: &Value) -> String {
    let title = report::cut(&call_line(tool, args), MAX_TITLE);
    // Editors render titles as Markdown, which could alter the text.
    if tool == SHELL || is_markup(&title) { code_span(&title) } else { title }
}

/// Returns true if Markdown might render the title differently from its text.
fn is_markup(title: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let has_stray_underscore =
        title.split(|letter| !is_word(letter)).any(|word| word.starts_with('_') || word.ends_with('_'));
    has_stray_underscore || !title.chars().all(|letter| is_word(letter) || " ./,;=+-…".contains(letter))
}

/// Returns the files that a call refers to.
pub(super) fn locations(tool: &str, args: &Value, roots: &SessionRoots) -> Vec<ToolCallLocation> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let named: Vec<String> = match tool {
        "apply_patch" => files_of_patch(text("patch").unwrap_or_default()),
        SHELL => text("directory").map(str::to_owned).into_iter().collect(),
        _ => ["path", SAVE_TO].into_iter().filter_map(text).map(str::to_owned).collect(),
    };
    // For documents, `offset` is a page number instead of a line.
    let line = args.get("offset").and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
    let line = line.filter(|_| tool == "read_file" && text(SAVE_TO).is_none());
    let real = named.iter().filter(|path| visible::is_plain(path)).filter_map(|path| roots.real(path));
    real.map(|path| ToolCallLocation::new(path).line(line)).collect()
}

/// Prepares the arguments of a call for display: truncates long texts and escapes hidden characters.
pub(super) fn input(args: &Value, longest: usize) -> Value {
    let shown = |text: &str| if visible::is_plain(text) { text.to_owned() } else { visible::lines(text) };
    match args {
        Value::String(text) => shown(&cut(text, longest)).into(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (shown(name), input(value, longest))).collect(),
        Value::Array(values) => values.iter().map(|value| input(value, longest)).collect(),
        other => other.clone(),
    }
}

/// Maximum bytes of a running command's output per update. Editors without terminals receive the tail of the output
/// again in each update.
const TAIL_BYTES: usize = 4 * 1024;
/// Minimum delay between two output updates.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);

/// Wraps a text in a code fence that it cannot close.
pub(super) fn fenced(text: &str) -> String {
    let fence = report::fence(text);
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// Wraps a single line in a code span that it cannot close.
pub(super) fn code_span(text: &str) -> String {
    let runs = text.split(|letter| letter != '`').map(str::len);
    let mark = "`".repeat(runs.max().unwrap_or(0) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{mark}{pad}{text}{pad}{mark}")
}

/// Truncates a text to `longest` bytes by removing its middle.
pub(super) fn cut(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(longest / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - longest / 2)..];
    format!("{head}\n[… {} bytes left out …]\n{tail}", text.len() - head.len() - tail.len())
}

/// Output of a running command.
#[derive(Debug, Default)]
pub(super) struct LiveOutput {
    tail: String,
    shown: Option<Instant>,
    /// True once there was any output.
    pub(super) has_output: bool,
}

impl LiveOutput {
    /// Appends output. Returns the tail of the output if an update is due.
    pub(super) fn take(&mut self, more: &str) -> Option<String> {
        self.has_output = true;
        self.tail.push_str(more);
        let excess_bytes = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..self.tail.ceil_char_boundary(excess_bytes));
        if self.shown.is_some_and(|at| at.elapsed() < UPDATE_INTERVAL) {
            return None;
        }
        self.shown = Some(Instant::now());
        Some(fenced(&self.tail))
    }
}

/// Folders in a session's workspace. Other relative paths refer to the project, if there is one.
const AREAS: [&str; 6] = ["uploads", "outputs", "temp", "skills", "large_tool_results", "conversation_history"];

/// The folders of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SessionRoots {
    /// Folder that tools access as `/project`.
    pub(super) project: Option<PathBuf>,
    /// Folders that tools access under `/folders`.
    pub(super) folders: Vec<AddedFolder>,
    /// Folder with the session's own files.
    pub(super) workspace: PathBuf,
    /// True if the folders are those of another machine. Equal paths of this one then name other files.
    pub(super) is_elsewhere: bool,
}

impl SessionRoots {
    /// Returns the folder that the editor associates with the session.
    pub(super) fn folder(&self) -> &Path {
        self.project.as_deref().unwrap_or(&self.workspace)
    }

    /// Returns the folders provided by the user, without those of another machine.
    pub(super) fn mounts(&self) -> Mounts {
        if self.is_elsewhere {
            return Mounts::default();
        }
        let project = self.project.clone().map(|path| Mount { path, writable: false });
        Mounts { project, folders: self.folders.clone() }
    }

    /// Converts a tool path to a real path. Returns `None` if the tool path is not on disk or is ambiguous.
    pub(super) fn real(&self, named: &str) -> Option<PathBuf> {
        let named = path::read(named).unwrap_or(named.into());
        let path = Path::new(&*named);
        let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
        let parts: Option<Vec<&str>> = parts.map(|part| part.as_os_str().to_str()).collect();
        let parts = parts.filter(|parts| !parts.is_empty() && !parts.contains(&".."))?;
        let below = |base: &Path, parts: &[&str]| parts.iter().fold(base.to_owned(), |path, part| path.join(part));
        match parts[0] {
            "project" => Some(below(self.project.as_ref()?, &parts[1..])),
            area if AREAS.contains(&area) => Some(below(&self.workspace, &parts)),
            _ if path.is_absolute() => {
                let named = self.folders.iter().find_map(|folder| Some((folder, path.strip_prefix(&folder.at).ok()?)));
                if let Some((folder, rest)) = named {
                    return Some(if rest.as_os_str().is_empty() {
                        folder.path.clone()
                    } else {
                        folder.path.join(rest)
                    });
                }
                let folders = self.folders.iter().map(|folder| &folder.path);
                self.project.iter().chain(folders).any(|mount| path.starts_with(mount)).then(|| path.to_owned())
            }
            _ => Some(below(self.folder(), &parts)),
        }
    }

    /// Converts a real path to a tool path. Returns `None` if the file is outside of the user's folders.
    pub(super) fn of_tools(&self, real: &Path) -> Option<String> {
        self.mounts().names().find_map(|(name, mount)| {
            let below = real.strip_prefix(mount).ok()?.to_str()?;
            let is_plain = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
            is_plain.then(|| format!("{name}/{below}"))
        })
    }
}

/// Maximum total bytes of a call's edit texts.
const MAX_EDIT_BYTES: usize = 256 * 1024;
/// Maximum number of shown changes in one patch.
const MAX_CHANGES: usize = 50;

/// Place at which a file's content before a call can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PriorContent {
    /// The call has not run yet, so the disk has the old content.
    OnDisk,
    /// The call has not run yet, but the editor may have unsaved text.
    InEditor,
    /// The call ran in the past.
    Unknown,
}

/// Returns the edits made by a call. Returns nothing if there are no edits or their texts are too long.
pub(super) fn edits_of_call(tool: &str, args: &Value, roots: &SessionRoots, before: PriorContent) -> Vec<Diff> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let real_path = || roots.real(text("path")?);
    let edit = || match tool {
        "edit_file" => {
            let (old, new) = (text("old_string")?, text("new_string")?);
            // Some editors join a text without a final newline with the following one.
            let ends = |text: &str| text.is_empty() || text.ends_with('\n');
            let end = if ends(old) || ends(new) { "" } else { "\n" };
            Some(Diff::new(real_path()?, format!("{new}{end}")).old_text(format!("{old}{end}")))
        }
        // In an editor, the daemon sends the replaced text with its question and the result.
        "write_file" if before != PriorContent::InEditor => {
            let path = real_path()?;
            let old = (before == PriorContent::OnDisk).then(|| text_of(&path, roots)).flatten();
            Some(Diff::new(path, text("content")?).old_text(old))
        }
        _ => None,
    };
    let edits = match tool {
        "apply_patch" => edits_of_patch(text("patch").unwrap_or_default(), roots),
        _ => edit().into_iter().collect(),
    };
    shown_edits(edits, MAX_EDIT_BYTES)
}

/// Returns the edits if their texts have at most `longest` bytes in total and no hidden characters.
pub(super) fn shown_edits(edits: Vec<Diff>, longest: usize) -> Vec<Diff> {
    let length = |edit: &Diff| edit.new_text.len() + edit.old_text.as_ref().map_or(0, String::len);
    let is_plain = |edit: &Diff| {
        let path = edit.path.to_str().is_some_and(|path| visible::line(path) == path);
        path && visible::is_plain(&edit.new_text) && edit.old_text.as_deref().is_none_or(visible::is_plain)
    };
    let fits = edits.iter().map(length).sum::<usize>() <= longest && edits.iter().all(is_plain);
    if fits { edits } else { Vec::new() }
}

/// Returns the files named in a patch, in order and without duplicates.
pub(super) fn files_of_patch(patch: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for change in changes_of_patch(patch) {
        if !files.contains(&change.file) {
            files.push(change.file);
        }
    }
    files
}

/// Returns the content of a regular UTF-8 file of limited size on this machine.
fn text_of(path: &Path, roots: &SessionRoots) -> Option<String> {
    // Checked before opening, because opening a pipe would block until its other end is opened.
    let metadata = path
        .metadata()
        .ok()
        .filter(|metadata| metadata.is_file() && metadata.len() <= MAX_EDIT_BYTES as u64 && !roots.is_elsewhere);
    metadata.and_then(|_| std::fs::read_to_string(path).ok())
}

/// Returns the edits of a patch.
pub(super) fn edits_of_patch(patch: &str, roots: &SessionRoots) -> Vec<Diff> {
    let shown = changes_of_patch(patch)
        .into_iter()
        .filter(|change| change.is_deleted || change.old != change.new)
        .take(MAX_CHANGES);
    let edits = shown.filter_map(|change| {
        let path = roots.real(&change.file)?;
        // A patch in the `***` format does not contain the deleted text.
        let old =
            if change.is_deleted && change.old.is_empty() { Some(text_of(&path, roots)?) } else { Some(change.old) };
        Some(Diff::new(path, change.new).old_text(old.filter(|_| !change.is_new)))
    });
    edits.collect()
}

/// A single change in a patch.
#[derive(Debug, Default, PartialEq, Eq)]
struct PatchChange {
    file: String,
    is_new: bool,
    is_deleted: bool,
    old: String,
    new: String,
}

/// Parses a patch in either format as far as possible, without errors: the tool itself reports an invalid patch.
fn changes_of_patch(patch: &str) -> Vec<PatchChange> {
    const ENVELOPE: [(&str, bool); 3] =
        [("*** Add File:", true), ("*** Update File:", false), ("*** Delete File:", false)];
    let mut changes: Vec<PatchChange> = Vec::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        let header = ENVELOPE.iter().find_map(|(header, is_new)| Some((line.strip_prefix(header)?, *is_new)));
        if let Some((file, is_new)) = header {
            let is_deleted = line.starts_with("*** Delete");
            changes.push(PatchChange { file: file.trim().to_owned(), is_new, is_deleted, ..PatchChange::default() });
        } else if let (Some(before), Some(after)) =
            (line.strip_prefix("--- "), lines.peek().and_then(|next| next.strip_prefix("+++ ")))
        {
            let is_new = file_name(before) == "/dev/null";
            let file = if file_name(after) == "/dev/null" { file_name(before) } else { file_name(after) };
            changes.push(PatchChange { file: file.to_owned(), is_new, ..PatchChange::default() });
            lines.next();
        } else if line.starts_with("*** ") || line.starts_with("diff --git ") {
            // Other headers matter only to the tool itself.
        } else if line.starts_with("@@") {
            if let Some(last) = changes.last().filter(|last| !last.old.is_empty() || !last.new.is_empty()) {
                let (file, is_new) = (last.file.clone(), last.is_new);
                changes.push(PatchChange { file, is_new, ..PatchChange::default() });
            }
        } else if let Some(change) = changes.last_mut() {
            change.take(line);
        }
    }
    changes
}

/// Returns the file name in a `diff -u` header, without the `a/` or `b/` prefix of git and without the timestamp.
fn file_name(header: &str) -> &str {
    let name = header.split('\t').next().unwrap_or(header).trim();
    name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name)
}

impl PatchChange {
    fn take(&mut self, line: &str) {
        // Models often omit the leading space of an empty line.
        let mark = line.chars().next().unwrap_or(' ');
        for (side, marks) in [(&mut self.old, " -"), (&mut self.new, " +")] {
            if marks.contains(mark) {
                side.push_str(line.get(1..).unwrap_or_default());
                side.push('\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tool_calls_have_titles_and_locations() {
        let roots = SessionRoots { project: Some("/p".into()), workspace: "/w".into(), ..SessionRoots::default() };
        let check = |tool: &str, args: Value, expected: (&str, &[(&str, Option<u32>)])| {
            let locations = locations(tool, &args, &roots);
            let actual: Vec<_> =
                locations.iter().map(|location| (location.path.to_str().unwrap(), location.line)).collect();
            assert_eq!((title(tool, &args).as_str(), actual.as_slice()), expected, "{tool}");
        };
        check("read_file", json!({"path": "a.rs", "offset": 7}), ("`read_file a.rs:7-`", &[("/p/a.rs", Some(7))]));
        check("edit_file", json!({"path": "/project/a.rs"}), ("edit_file /project/a.rs", &[("/p/a.rs", None)]));
        check(SHELL, json!({"command": "make test"}), ("`$ make test`", &[]));
        check(SHELL, json!({"command": "ls", "directory": "/outputs"}), ("`$ ls`", &[("/w/outputs", None)]));
        check(SHELL, json!({"command": "a\u{1b}[2Jb"}), ("`$ a\\u{1b}[2Jb`", &[]));
        check("now", json!({}), ("now", &[]));
        check("mcp_x_y", json!("{broken"), ("`mcp_x_y {broken`", &[]));
        check("read_url", json!({"url": "[a](http://b)"}), ("`read_url [a](http://b)`", &[]));
        let saved = json!({"path": "a.xlsx", "offset": 2, "save_to": "outputs/a.csv"});
        assert_eq!(
            (kind("read_file", &saved), kind("read_file", &json!({"path": "a"}))),
            (ToolKind::Edit, ToolKind::Read)
        );
        check("read_file", saved, ("`read_file a.xlsx:2-`", &[("/p/a.xlsx", None), ("/w/outputs/a.csv", None)]));
        check("read_file", json!({"path": "__init__.py"}), ("`read_file __init__.py`", &[("/p/__init__.py", None)]));
        let patch = "*** Begin Patch\n*** Delete File: a\n*** Delete File: outputs/b\n*** End Patch";
        let files: &[_] = &[("/p/a", None), ("/w/outputs/b", None)];
        check("apply_patch", json!({"patch": patch}), ("apply_patch a, outputs/b", files));
    }

    #[test]
    fn code_span_contains_any_text() {
        let check = |text: &str, expected: &str| assert_eq!(code_span(text), expected);
        check("echo *a* __b__", "`echo *a* __b__`");
        check("echo `date`", "`` echo `date` ``");
        check("a ``b`` c", "```a ``b`` c```");
        check("", "``");
    }

    #[test]
    fn fence_is_longer_than_inner_fences() {
        assert_eq!(fenced("a\n"), "```\na\n```");
        assert_eq!(fenced("a\n````\nb"), "`````\na\n````\nb\n`````");
    }

    #[test]
    fn long_text_is_truncated_in_the_middle() {
        assert_eq!(cut("short", 5), "short");
        let cut = cut(&"é".repeat(100), 21);
        assert!(cut.starts_with("ééééé\n[… 180 bytes") && cut.ends_with("ééééé"), "{cut}");
    }

    #[test]
    fn live_output_shows_its_end_at_intervals() {
        let mut output = LiveOutput::default();
        assert_eq!(output.take("one\n"), Some("```\none\n```".to_owned()));
        assert_eq!(output.take("two\n"), None);
        output.shown = None;
        assert!(output.take(&"é".repeat(TAIL_BYTES)).unwrap().len() < TAIL_BYTES + 20);
    }

    #[test]
    fn tool_paths_map_to_real_paths() {
        let lib = AddedFolder { at: "/folders/lib".into(), path: "/srv/lib".into(), writable: false };
        let with = SessionRoots {
            project: Some("/home/me/shop".into()),
            folders: vec![lib],
            workspace: "/data/workspace/s".into(),
            is_elsewhere: false,
        };
        let without = SessionRoots { project: None, ..with.clone() };
        let check = |roots: &SessionRoots, named: &str, expected: Option<&str>| {
            assert_eq!(roots.real(named), expected.map(PathBuf::from), "{named}");
        };
        check(&with, "/project/src/main.rs", Some("/home/me/shop/src/main.rs"));
        check(&with, "project/src/main.rs", Some("/home/me/shop/src/main.rs"));
        check(&with, "src/./main.rs", Some("/home/me/shop/src/main.rs"));
        check(&with, "/home/me/shop/a.txt", Some("/home/me/shop/a.txt"));
        check(&with, "/project", Some("/home/me/shop"));
        check(&with, "outputs/a.txt", Some("/data/workspace/s/outputs/a.txt"));
        check(&with, "/uploads/a.txt", Some("/data/workspace/s/uploads/a.txt"));
        check(&with, "/folders/lib/a.rs", Some("/srv/lib/a.rs"));
        check(&with, "/folders/lib", Some("/srv/lib"));
        check(&with, "/srv/lib/a.rs", Some("/srv/lib/a.rs"));
        check(&with, "/folders/other/a.rs", None);
        check(&with, "folders/lib/a.rs", Some("/home/me/shop/folders/lib/a.rs"));
        check(&with, "/memories/me.md", None);
        check(&with, "/etc/passwd", None);
        check(&with, "/project/../x", None);
        check(&with, "", None);
        check(&without, "a.txt", Some("/data/workspace/s/a.txt"));
        check(&without, "/project/a.txt", None);
    }

    #[test]
    fn project_files_map_to_tool_paths() {
        let roots = SessionRoots {
            project: Some("/home/me/shop".into()),
            workspace: "/data".into(),
            ..SessionRoots::default()
        };
        assert_eq!(roots.of_tools(Path::new("/home/me/shop/src/a b.rs")), Some("/project/src/a b.rs".to_owned()));
        assert_eq!(roots.of_tools(Path::new("/home/me/shop/../x")), None);
        assert_eq!(roots.of_tools(Path::new("/home/me/other")), None);
        let at = "/folders/lib".to_owned();
        let lib = AddedFolder { at, path: "/srv/lib".into(), writable: false };
        let roots = SessionRoots { folders: vec![lib], ..roots };
        assert_eq!(roots.of_tools(Path::new("/srv/lib/a.rs")), Some("/folders/lib/a.rs".to_owned()));
        assert_eq!(SessionRoots::default().of_tools(Path::new("/x")), None);
        // Files of this machine are not those of another one, even at the same path.
        let elsewhere = SessionRoots { is_elsewhere: true, ..roots };
        assert_eq!(elsewhere.of_tools(Path::new("/srv/lib/a.rs")), None);
        assert_eq!(elsewhere.real("/project/a.rs"), Some("/home/me/shop/a.rs".into()));
    }

    fn roots(project: &Path) -> SessionRoots {
        SessionRoots { project: Some(project.to_owned()), workspace: "/data/s".into(), ..SessionRoots::default() }
    }

    #[test]
    fn edits_include_old_and_new_text() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "old\n").unwrap();
        let roots = roots(folder.path());
        let check = |tool: &str, args: Value, before: PriorContent, expected: &[(&str, Option<&str>, &str)]| {
            let edits = edits_of_call(tool, &args, &roots, before);
            let actual: Vec<_> = edits
                .iter()
                .map(|edit| {
                    (
                        edit.path.strip_prefix(folder.path()).unwrap().to_str().unwrap(),
                        edit.old_text.as_deref(),
                        edit.new_text.as_str(),
                    )
                })
                .collect();
            assert_eq!(actual, expected, "{args}");
        };
        let edit = json!({"path": "/project/a.txt", "old_string": "old", "new_string": "new"});
        check("edit_file", edit, PriorContent::OnDisk, &[("a.txt", Some("old\n"), "new\n")]);
        let write = json!({"path": "a.txt", "content": "new\n"});
        check("write_file", write.clone(), PriorContent::OnDisk, &[("a.txt", Some("old\n"), "new\n")]);
        check("write_file", write, PriorContent::Unknown, &[("a.txt", None, "new\n")]);
        check("write_file", json!({"path": "b.txt", "content": "x"}), PriorContent::OnDisk, &[("b.txt", None, "x")]);
        let long = json!({"path": "b.txt", "content": "x".repeat(MAX_EDIT_BYTES + 1)});
        check("write_file", long, PriorContent::OnDisk, &[]);
        let delete =
            json!({"patch": "*** Begin Patch\n*** Delete File: a.txt\n*** Delete File: none\n*** End Patch\n"});
        let hidden = json!({"path": "b.txt", "content": "x\u{202e}y"});
        check("write_file", hidden, PriorContent::OnDisk, &[]);
        let path = json!({"path": "b\u{200b}.txt", "old_string": "old", "new_string": "new"});
        check("edit_file", path, PriorContent::OnDisk, &[]);
        check("apply_patch", delete, PriorContent::OnDisk, &[("a.txt", Some("old\n"), "")]);
        check("read_file", json!({"path": "a.txt"}), PriorContent::OnDisk, &[]);
        check("write_file", json!("no object"), PriorContent::OnDisk, &[]);
    }

    #[test]
    fn both_patch_formats_are_parsed() {
        let envelope = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n\n@@ fn x\n-three\n+3\n*** Add File: b.txt\n\
                        +new\n*** Delete File: c.txt\n*** End Patch\n";
        let unified = "diff --git a/a.txt b/a.txt\n--- a/a.txt\t2026-01-01\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n--- /dev/null\n\
                       +++ b/b.txt\n@@ -0,0 +1 @@\n+new\n";
        let roots = roots(Path::new("/p"));
        let actual = |patch: &str| -> Vec<(String, Option<String>, String)> {
            let edits = edits_of_call("apply_patch", &json!({"patch": patch}), &roots, PriorContent::OnDisk);
            edits.into_iter().map(|edit| (edit.path.display().to_string(), edit.old_text, edit.new_text)).collect()
        };
        let edit = |path: &str, old: Option<&str>, new: &str| (path.to_owned(), old.map(str::to_owned), new.to_owned());
        assert_eq!(
            actual(envelope),
            [
                edit("/p/a.txt", Some("one\ntwo\n\n"), "one\n2\n\n"),
                edit("/p/a.txt", Some("three\n"), "3\n"),
                edit("/p/b.txt", None, "new\n"),
            ]
        );
        assert_eq!(
            actual(unified),
            [edit("/p/a.txt", Some("one\ntwo\n"), "one\n2\n"), edit("/p/b.txt", None, "new\n")]
        );
        assert_eq!(files_of_patch(envelope), ["a.txt", "b.txt", "c.txt"]);
        assert_eq!(actual("nonsense"), []);
    }
}

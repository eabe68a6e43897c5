//! Calls of tools in the words of the protocol: kind, title, places and input; texts of results, in a fence and cut in the middle
//! where they are long; real paths of what tools name, and the names that tools have for files of the editor.

use std::{
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use agent_client_protocol_schema::v1::{ToolCallLocation, ToolKind};
use agentd_core::{
    folder::{AddedFolder, Mounts},
    path,
    session::Mount,
    tool_table, visible,
};
use serde_json::Value;

use super::edits;
use crate::{render::tool_line::call_line, report};

/// The tool that runs commands.
pub(super) const SHELL: &str = "run_bash_command";
/// Characters of a title. The content of a call has what does not fit.
const LONGEST_TITLE: usize = 500;

/// The arguments of a call as JSON; a string where they are none.
pub(super) fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Kind of a tool, in the terms of the protocol.
pub(super) fn kind(tool: &str) -> ToolKind {
    match tool_table::ToolKind::of(tool) {
        tool_table::ToolKind::Look => ToolKind::Read,
        tool_table::ToolKind::Edit => ToolKind::Edit,
        tool_table::ToolKind::Search => ToolKind::Search,
        tool_table::ToolKind::Run => ToolKind::Execute,
        tool_table::ToolKind::Fetch => ToolKind::Fetch,
        tool_table::ToolKind::Think => ToolKind::Think,
        tool_table::ToolKind::Other => ToolKind::Other,
    }
}

/// Title of a call: a command, or a tool and what it is about.
pub(super) fn title(tool: &str, args: &Value) -> String {
    let title = report::cut(&call_line(tool, args), LONGEST_TITLE);
    // Editors take a title for Markdown, which would change what it says.
    if tool == SHELL || is_markup(&title) { code_span(&title) } else { title }
}

/// Returns true if Markdown may show a title as something else than its letters.
fn is_markup(title: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let strays = title.split(|letter| !is_word(letter)).any(|word| word.starts_with('_') || word.ends_with('_'));
    strays || !title.chars().all(|letter| is_word(letter) || " ./,;=+-…".contains(letter))
}

/// The files that a call is about.
pub(super) fn locations(tool: &str, args: &Value, places: &Places) -> Vec<ToolCallLocation> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let named: Vec<String> = match tool {
        "apply_patch" => edits::files_of_patch(text("patch").unwrap_or_default()),
        SHELL => text("directory").map(str::to_owned).into_iter().collect(),
        _ => text("path").map(str::to_owned).into_iter().collect(),
    };
    // Of a document the number is a page.
    let line = args.get("offset").and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
    let line = line.filter(|_| tool == "read_file");
    let real = named.iter().filter(|path| visible::is_plain(path)).filter_map(|path| places.real(path));
    real.map(|path| ToolCallLocation::new(path).line(line)).collect()
}

/// The arguments of a call as editors show them: without texts that are too long, and with hidden characters written out.
pub(super) fn input(args: &Value, longest: usize) -> Value {
    let shown = |text: &str| if visible::is_plain(text) { text.to_owned() } else { visible::lines(text) };
    match args {
        Value::String(text) => shown(&cut(text, longest)).into(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (shown(name), input(value, longest))).collect(),
        Value::Array(values) => values.iter().map(|value| input(value, longest)).collect(),
        other => other.clone(),
    }
}

/// Bytes of a running command's output that are shown, where all of it is shown anew each time.
const TAIL: usize = 4 * 1024;
/// Pause between two of those.
const PAUSE: Duration = Duration::from_millis(250);

/// A text that Markdown leaves alone.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.lines().map(|line| line.trim_start().bytes().take_while(|byte| *byte == b'`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// Words in a line that Markdown leaves alone.
pub(super) fn code_span(words: &str) -> String {
    let runs = words.split(|letter| letter != '`').map(str::len);
    let mark = "`".repeat(runs.max().unwrap_or(0) + 1);
    let pad = if words.starts_with('`') || words.ends_with('`') { " " } else { "" };
    format!("{mark}{pad}{words}{pad}{mark}")
}

/// The head and the tail of a text that is longer than so many bytes.
pub(super) fn cut(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(longest / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - longest / 2)..];
    format!("{head}\n[… {} bytes left out …]\n{tail}", text.len() - head.len() - tail.len())
}

/// Output of a command that runs.
#[derive(Debug, Default)]
pub(super) struct LiveOutput {
    tail: String,
    shown: Option<Instant>,
    /// Set once anything came.
    pub(super) has_come: bool,
}

impl LiveOutput {
    /// Takes more of it, and returns its end if it is time to show that.
    pub(super) fn take(&mut self, more: &str) -> Option<String> {
        self.has_come = true;
        self.tail.push_str(more);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..self.tail.ceil_char_boundary(surplus));
        if self.shown.is_some_and(|at| at.elapsed() < PAUSE) {
            return None;
        }
        self.shown = Some(Instant::now());
        Some(fenced(&self.tail))
    }
}

/// Folders of a session's workspace; what else is relative lies in the project, if there is one.
const AREAS: [&str; 6] = ["uploads", "outputs", "temp", "skills", "large_tool_results", "conversation_history"];

/// The folders of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// The folder that tools see as `/project`.
    pub(super) project: Option<PathBuf>,
    /// The folders that tools see below `/folders`.
    pub(super) folders: Vec<AddedFolder>,
    /// The folder that holds the session's own files.
    pub(super) workspace: PathBuf,
}

impl Places {
    /// The folder that an editor takes for the session's.
    pub(super) fn folder(&self) -> &Path {
        self.project.as_deref().unwrap_or(&self.workspace)
    }

    /// The folders of the person among them.
    pub(super) fn mounts(&self) -> Mounts {
        let project = self.project.clone().map(|path| Mount { path, writable: false });
        Mounts { project, folders: self.folders.clone() }
    }

    /// The real path of what a tool names; none of what lies nowhere on the disk, or whose name has two meanings.
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

    /// The path by which tools know a file; none of one outside of the person's folders.
    pub(super) fn of_tools(&self, real: &Path) -> Option<String> {
        self.mounts().names().find_map(|(name, mount)| {
            let below = real.strip_prefix(mount).ok()?.to_str()?;
            let is_plain = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
            is_plain.then(|| format!("{name}/{below}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_have_titles_and_places() {
        let places = Places { project: Some("/p".into()), workspace: "/w".into(), ..Places::default() };
        let check = |tool: &str, args: Value, expected: (&str, &[(&str, Option<u32>)])| {
            let locations = locations(tool, &args, &places);
            let told: Vec<_> = locations.iter().map(|place| (place.path.to_str().unwrap(), place.line)).collect();
            assert_eq!((title(tool, &args).as_str(), told.as_slice()), expected, "{tool}");
        };
        check("read_file", json!({"path": "a.rs", "offset": 7}), ("read_file a.rs", &[("/p/a.rs", Some(7))]));
        check("edit_file", json!({"path": "/project/a.rs"}), ("edit_file /project/a.rs", &[("/p/a.rs", None)]));
        check(SHELL, json!({"command": "make test"}), ("`$ make test`", &[]));
        check(SHELL, json!({"command": "ls", "directory": "/outputs"}), ("`$ ls`", &[("/w/outputs", None)]));
        check(SHELL, json!({"command": "a\u{1b}[2Jb"}), ("`$ a\\u{1b}[2Jb`", &[]));
        check("now", json!({}), ("now", &[]));
        check("mcp_x_y", json!("{broken"), ("`mcp_x_y {broken`", &[]));
        check("read_url", json!({"url": "[a](http://b)"}), ("`read_url [a](http://b)`", &[]));
        check("read_file", json!({"path": "__init__.py"}), ("`read_file __init__.py`", &[("/p/__init__.py", None)]));
        let patch = "*** Begin Patch\n*** Delete File: a\n*** Delete File: outputs/b\n*** End Patch";
        let files: &[_] = &[("/p/a", None), ("/w/outputs/b", None)];
        check("apply_patch", json!({"patch": patch}), ("apply_patch a, outputs/b", files));
    }
}

#[cfg(test)]
mod output_tests {
    use super::*;

    #[test]
    fn a_code_span_holds_any_words() {
        let check = |words: &str, expected: &str| assert_eq!(code_span(words), expected);
        check("echo *a* __b__", "`echo *a* __b__`");
        check("echo `date`", "`` echo `date` ``");
        check("a ``b`` c", "```a ``b`` c```");
        check("", "``");
    }

    #[test]
    fn a_fence_is_longer_than_those_within() {
        assert_eq!(fenced("a\n"), "```\na\n```");
        assert_eq!(fenced("a\n````\nb"), "`````\na\n````\nb\n`````");
    }

    #[test]
    fn long_texts_lose_their_middle() {
        assert_eq!(cut("short", 5), "short");
        let cut = cut(&"é".repeat(100), 21);
        assert!(cut.starts_with("ééééé\n[… 180 bytes") && cut.ends_with("ééééé"), "{cut}");
    }

    #[test]
    fn live_output_is_shown_by_its_end_now_and_then() {
        let mut output = LiveOutput::default();
        assert_eq!(output.take("one\n"), Some("```\none\n```".to_owned()));
        assert_eq!(output.take("two\n"), None);
        output.shown = None;
        assert!(output.take(&"é".repeat(TAIL)).unwrap().len() < TAIL + 20);
    }
}

#[cfg(test)]
mod places_tests {
    use super::*;

    #[test]
    fn paths_of_tools_have_real_ones() {
        let lib = AddedFolder { at: "/folders/lib".into(), path: "/srv/lib".into(), writable: false };
        let with =
            Places { project: Some("/home/me/shop".into()), folders: vec![lib], workspace: "/data/workspace/s".into() };
        let without = Places { project: None, ..with.clone() };
        let check = |places: &Places, named: &str, expected: Option<&str>| {
            assert_eq!(places.real(named), expected.map(PathBuf::from), "{named}");
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
    fn files_of_the_project_have_names_for_tools() {
        let places = Places { project: Some("/home/me/shop".into()), workspace: "/data".into(), ..Places::default() };
        assert_eq!(places.of_tools(Path::new("/home/me/shop/src/a b.rs")), Some("/project/src/a b.rs".to_owned()));
        assert_eq!(places.of_tools(Path::new("/home/me/shop/../x")), None);
        assert_eq!(places.of_tools(Path::new("/home/me/other")), None);
        let at = "/folders/lib".to_owned();
        let lib = AddedFolder { at, path: "/srv/lib".into(), writable: false };
        let places = Places { folders: vec![lib], ..places };
        assert_eq!(places.of_tools(Path::new("/srv/lib/a.rs")), Some("/folders/lib/a.rs".to_owned()));
        assert_eq!(Places::default().of_tools(Path::new("/x")), None);
    }
}

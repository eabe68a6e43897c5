//! `AGENTS.md` files in folders of the project, told when the work first comes to a folder, and again when they change.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

use agentd_core::{
    guide::{GuideFile, GuideLimits},
    item::{Item, ItemBody, NoticeTopic},
    tool::ToolErrorCode,
};
use serde_json::{Map, Value};

use super::memory::{framed, room};

const PREFACE: &str = "Notes of folders in the project that the work has come to, written by people for you. Each is about its \
                       folder and all below it; the nearest to a file counts most, and a later version replaces an earlier \
                       one. Each is in a frame that says whose words it holds, whatever the words say themselves.";
/// Paths of one step that are looked at.
const MAX_PATHS: usize = 200;
/// Bytes of a path.
const MAX_PATH: usize = 1024;
/// Characters that end a word of a command line.
const BETWEEN_WORDS: &str = ";|&()<>\"'`=$";

/// The folder in which commands start, and the tools that run them.
pub(crate) struct Commands<'a> {
    pub(crate) start: &'a str,
    pub(crate) is_command: &'a dyn Fn(&str) -> bool,
}

/// The files that the history tells, with the digest of the last version.
pub(crate) fn known_files(history: &[Arc<Item>]) -> BTreeMap<&str, &str> {
    sources(history).map(|source| (source.name.as_str(), source.digest.as_str())).collect()
}

/// The notice about files of which the history does not say what they are now. Together they have as much room as the files
/// that are told before the first input.
pub(crate) fn notice(history: &[Arc<Item>], files: &[GuideFile], window: u64, limits: GuideLimits) -> Option<ItemBody> {
    let taken: u64 = sources(history).map(|source| source.bytes).sum();
    let left = room(window, limits).saturating_sub(usize::try_from(taken).unwrap_or(usize::MAX));
    (!files.is_empty()).then(|| framed(NoticeTopic::FolderMemory, PREFACE, files, left, None))
}

fn sources(history: &[Arc<Item>]) -> impl Iterator<Item = &agentd_core::item::NoticeSource> {
    history.iter().flat_map(|item| match &item.body {
        ItemBody::Notice { topic: NoticeTopic::FolderMemory, sources, .. } => sources.as_slice(),
        _ => &[],
    })
}

/// Paths that calls which ran have named or changed, and files that were read again behind a summary.
pub(crate) fn touched<'a>(items: impl Iterator<Item = &'a Arc<Item>>, commands: &Commands<'_>) -> Vec<String> {
    let (mut calls, mut paths) = (HashMap::new(), Vec::new());
    for item in items {
        match &item.body {
            ItemBody::ToolCall(call) => drop(calls.insert(&call.call_id, call)),
            ItemBody::ToolResult(result) if result.error.is_none_or(has_run) => {
                paths.extend(result.files.iter().take(MAX_PATHS).map(|file| file.path.clone()));
                if let Some(call) = calls.get(&result.call_id) {
                    let arguments = result.ran_with.as_ref().unwrap_or(&call.arguments);
                    named(arguments, (commands.is_command)(&call.name).then_some(commands.start), &mut paths);
                }
            }
            ItemBody::Notice { topic: NoticeTopic::ReadAgain, sources, .. } => {
                paths.extend(sources.iter().map(|source| source.name.clone()));
            }
            _ => {}
        }
    }
    paths.sort();
    paths.dedup();
    paths.truncate(MAX_PATHS);
    paths
}

fn has_run(error: ToolErrorCode) -> bool {
    use ToolErrorCode::{Denied, InvalidArgs, NotRun, UnknownTool};
    !matches!(error, Denied | InvalidArgs | NotRun | UnknownTool)
}

/// Adds what may be a path among the arguments of a call; for a command, the folders and words of its line, too.
fn named(arguments: &str, start: Option<&str>, paths: &mut Vec<String>) {
    let Ok(mut arguments) = serde_json::from_str::<Map<String, Value>>(arguments) else { return };
    let command = start.zip(arguments.remove("command"));
    let texts = arguments.values().flat_map(|value| match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    });
    let is_path = |text: &&str| text.len() <= MAX_PATH && !text.contains('\n');
    paths.extend(texts.filter_map(Value::as_str).filter(is_path).take(MAX_PATHS).map(str::to_owned));
    let Some((start, Value::String(command))) = command else { return };
    let named = ["directory", "cwd"].iter().find_map(|key| arguments.get(*key)?.as_str());
    let mut folder = named.unwrap_or(start).to_owned();
    paths.push(folder.clone());
    let mut before = "";
    // Names with blanks, by their quotes.
    let has_blank = |word: &String| word.contains(char::is_whitespace) && word.len() <= MAX_PATH;
    let quoted = shlex::split(&command).unwrap_or_default().into_iter().filter(has_blank).take(MAX_PATHS);
    paths.extend(quoted.map(|word| Path::new(&folder).join(word).to_string_lossy().into_owned()));
    let words = command.split(|letter: char| letter.is_whitespace() || BETWEEN_WORDS.contains(letter));
    for word in words.filter(|word| !word.is_empty() && word.len() <= MAX_PATH).take(MAX_PATHS) {
        let path = if word.starts_with('/') { word.to_owned() } else { format!("{folder}/{word}") };
        if matches!(before, "cd" | "pushd") {
            folder.clone_from(&path);
        }
        paths.push(path);
        before = word;
    }
}

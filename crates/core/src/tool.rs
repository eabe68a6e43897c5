//! Tools: abilities, requests and outcomes.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::tool_details::{PrintedText, ToolDetails};
use crate::{files::Picture, ids::CallId, state_files::StateFileChange};

/// Specification of a tool, for models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name that calls use.
    pub name: String,
    /// Its purpose and when to use it.
    pub description: String,
    /// JSON schema of the arguments, an object.
    pub parameters: Value,
    /// Effect of a call on the world.
    pub effect: Effect,
}

impl ToolSpec {
    /// The tool whose arguments are parsed into `A`. Comments are for the model: that of the type describes the tool, those
    /// of its fields the arguments.
    pub fn of<A: JsonSchema>(name: &str, effect: Effect) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let generator = settings.with_transform(RecursiveTransform(plain)).into_generator();
        let mut schema = generator.into_root_schema_for::<A>();
        let description =
            schema.remove("description").and_then(|text| Some(text.as_str()?.to_owned())).unwrap_or_default();
        schema.ensure_object().entry("properties").or_insert_with(|| Map::new().into());
        schema.insert("additionalProperties".to_owned(), false.into());
        Self { name: name.to_owned(), description, parameters: schema.to_value(), effect }
    }
}

/// Reduces a schema to what small models and strict servers understand. An argument is left out where there is none of it,
/// so that `null` is no type of it; lines of a comment are one text.
fn plain(schema: &mut Schema) {
    let Some(keywords) = schema.as_object_mut() else { return };
    keywords.retain(|name, value| {
        let is_open = name == "additionalProperties" && *value == true;
        !is_open && !["$schema", "title", "default", "format"].contains(&name.as_str())
    });
    if let Some(kind) = keywords.get("type").and_then(|kinds| kinds.get(0)).cloned() {
        keywords.insert("type".to_owned(), kind);
    }
    if let Some(Value::String(text)) = keywords.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// Effect of a call on the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Looks only. Independent calls of one step run at once, none asks.
    Read,
    /// Changes the session's own state, such as the todo list. Runs in order, does not ask.
    State,
    /// Changes files.
    Write,
    /// Runs a command.
    Execute,
    /// Asks somebody else over the network. What only fetches runs as what looks does, once it is in the audit log;
    /// what sends anything asks.
    Network,
}

/// A request of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Joins it to its result.
    pub call_id: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them: history is sent back byte for byte.
    pub arguments: String,
}

/// A call in the words of its tool, where the model wrote it in those of another system. It stands in the place of the call
/// from before it is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptedCall {
    /// The arguments, by the names and in the units of the tool.
    pub arguments: String,
    /// Note for the model with the result, such as what was left out because it changes nothing.
    pub note: Option<String>,
}

/// A call that reads through a link, as it would be written without: both forms are judged, and this one runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedLink {
    /// The arguments, with the path that the link leads to.
    pub arguments: String,
    /// The path that the call names.
    pub path: String,
    /// Where it leads.
    pub leads_to: String,
}

impl FollowedLink {
    /// The argument that names what a call reads.
    pub const PATH: &str = "path";

    /// Its names in other systems, which some models write and the tools take, each where none before it is there.
    pub const ALIASES: [&str; 6] = ["file_path", "filepath", "filename", "file", "directory", "dir"];

    /// Knowledge of a call from its arguments and from where their path led. None where they name none.
    pub fn known(arguments: &str, leads_to: &str) -> Option<Self> {
        let mut arguments: Map<String, Value> = serde_json::from_str(arguments).ok()?;
        let written = [Self::PATH].into_iter().chain(Self::ALIASES).find(|name| arguments.contains_key(*name))?;
        let path = arguments.remove(written)?.as_str()?.to_owned();
        arguments.insert(Self::PATH.to_owned(), leads_to.into());
        Some(Self { arguments: Value::Object(arguments).to_string(), path, leads_to: leads_to.to_owned() })
    }
}

impl std::fmt::Display for FollowedLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} leads to {} through a link", self.path, self.leads_to)
    }
}

/// The folder where a command starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFolder {
    /// Its name, as a call can write it, and without a link on the way: `/project/app`, `/outputs`, `/` for the workspace.
    pub name: String,
    /// The absolute paths by which the command itself reaches it.
    pub paths: Vec<PathBuf>,
    /// Path of the same folder in the main tree, where it is in a worktree: rules about that hold here.
    pub main: Option<PathBuf>,
}

/// The outcome of a call, as it is stored.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Joins it to the call.
    pub call_id: CallId,
    /// The tool's name.
    pub name: String,
    /// Text for the model.
    #[serde(default)]
    pub text: String,
    /// Why it failed, if it did.
    pub error: Option<ToolErrorCode>,
    /// The exit code of a command, as a shell tells it: 128 and the signal's number where a signal ended it. None where it
    /// was no command, or its limit or a cancel ended it.
    pub exit_code: Option<i32>,
    /// Parts of it as fields, for programs.
    pub details: Option<Box<ToolDetails>>,
    /// The files that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// The arguments that it ran with, where a person had put them in the place of the model's. None where it ran, if it
    /// did, as it was called.
    pub ran_with: Option<String>,
    /// The call whose edit it took back, or found to be taken back already. For the journal, not for readers.
    pub takes_back: Option<CallId>,
    /// The tools that it found for the model, which may call them from here on. For the journal, not for readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
    /// Pictures that it returned, which a notice shows behind all results of its step. For the journal, not for readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Picture>,
    /// Words of the person in it: their answer to its question, or their reason to refuse it. For the journal, not for
    /// readers.
    pub said: Option<String>,
    /// Fingerprint of the text that an earlier result shows, where this one only refers to that. For the journal, not for
    /// readers.
    pub unchanged: Option<u64>,
    /// Duration, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
}

impl ToolResult {
    /// The outcome of a call of that tool, with nothing to tell yet.
    pub fn empty(call_id: CallId, name: impl Into<String>) -> Self {
        Self { call_id, name: name.into(), ..Self::default() }
    }

    /// The part of the text that the tool wrote, without what is said to the model alone.
    pub fn own_text(&self) -> &str {
        let own = self.details.as_ref().and_then(|details| self.text.get(..usize::try_from(details.own_bytes?).ok()?));
        own.unwrap_or(&self.text)
    }
}

/// Output of a tool: text for the model, and the files that it changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// Why it failed, if it did.
    pub error: Option<ToolErrorCode>,
    /// Output that is no text. No model is shown it: it is stored in files, and the text names them.
    pub data: Vec<ToolData>,
    /// The files that it changed.
    pub files: Vec<FileChange>,
    /// The exit code of a command, as in [`ToolResult::exit_code`].
    pub exit_code: Option<i32>,
    /// Parts of it as fields, for programs.
    pub details: Option<Box<ToolDetails>>,
    /// Changes of the files in the session's own state, in order.
    pub state_files: Vec<StateFileChange>,
}

impl ToolOutput {
    /// A success.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A failure: a stable code and one sentence that says how to do it right.
    pub fn error(code: ToolErrorCode, text: impl Into<String>) -> Self {
        Self { text: text.into(), error: Some(code), ..Self::default() }
    }
}

/// Bytes that a tool returned and that are no text, such as an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolData {
    /// Where in the result they stand, in a word: `stdout`.
    pub name: String,
    /// Their kind, such as `a PNG image`; empty where it is not known.
    pub kind: String,
    /// File extension for them, without the dot; empty where it is not known.
    pub ending: String,
    /// All of them.
    pub content: Vec<u8>,
}

names! {
    /// Stable codes of failed calls. They are data for the model, not errors of the turn.
    #[derive(Hash)]
    pub enum ToolErrorCode {
        /// The arguments are no JSON, or do not fit the schema.
        InvalidArgs = "E_INVALID_ARGS",
        /// There is no tool of that name.
        UnknownTool = "E_UNKNOWN_TOOL",
        /// The tool could not do it.
        Tool = "E_TOOL",
        /// It took too long, or longer than its turn may, and was ended.
        Timeout = "E_TIMEOUT",
        /// A person or a rule refused.
        Denied = "E_DENIED",
        /// The path is not there, leaves the workspace, or may not be written.
        Path = "E_PATH",
        /// The turn was cancelled while it ran.
        Cancelled = "E_CANCELLED",
        /// The turn ended or the daemon stopped before it ran, could not write down beforehand that it would, or what it would do was no
        /// longer what a person had approved. It never ran.
        NotRun = "E_NOT_RUN",
        /// The daemon stopped, or something killed its sandbox, while it ran. It may have taken effect or not.
        UnknownOutcome = "E_UNKNOWN_OUTCOME",
    }
}

/// A file, link or folder that a call changed.
///
/// A change is recorded, and can be undone, where the states that it went between are known: `after` of what was
/// created, `before` of what was deleted, both of what was modified. A change without them is only told of.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileChange {
    /// Its path, relative to the workspace, or below `/project` or `/folders/NAME`; a folder's ends in a slash. In names that come from
    /// the disk a backslash is written `\\`, and bytes that are no plain text are written `\xff`.
    pub path: String,
    /// The change.
    pub change: FileChangeKind,
    /// State before it.
    pub before: Option<FileState>,
    /// State after it.
    pub after: Option<FileState>,
    /// The folder of the person that was mounted there, for a path below `/project` or `/folders/NAME`: another one may be mounted
    /// later.
    pub project: Option<PathBuf>,
    /// It was found after a crash, and may have been made after it, by something else than the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// Which file it is, where it has other names too, which show the same: it was written in place.
    pub shared: Option<SharedFile>,
}

/// A file that has several names, as the disk tells one from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SharedFile {
    /// The file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl FileChange {
    /// A change that is told of and not recorded.
    pub fn new(path: impl Into<String>, change: FileChangeKind) -> Self {
        Self { path: path.into(), change, before: None, after: None, project: None, late: false, shared: None }
    }

    /// Returns whether the states that it went between are known, so that it can be undone.
    pub fn is_recorded(&self) -> bool {
        match self.change {
            FileChangeKind::Created => self.after.is_some(),
            FileChangeKind::Modified => self.before.is_some() && self.after.is_some(),
            FileChangeKind::Deleted => self.before.is_some(),
        }
    }

    /// Returns whether it tells of a folder and of nothing else.
    pub fn is_folder(&self) -> bool {
        self.path.ends_with('/')
    }
}

/// State of a path, as far as it is needed to restore it. Contents are stored beside the journal, under their hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileState {
    /// Its kind.
    pub kind: FileKind,
    /// SHA-256 of a file's content, or of where a link leads, in hexadecimal digits; empty for a folder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// The size of what was hashed, in bytes.
    #[serde(default)]
    pub size: u64,
    /// The permission bits; 0 for a link, which has none of its own.
    #[serde(default)]
    pub mode: u32,
}

/// Kind of a path. Pipes, sockets and devices are not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A folder.
    Folder,
}

/// Kind of a change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    /// It was not there before.
    Created,
    /// It was there before.
    Modified,
    /// It is gone.
    Deleted,
}

/// A call that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// Looks for something, and
    /// tells of it.
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Arguments {
        /// The words.
        words: Vec<Word>,
        #[schemars(range(min = 1, max = 9), description = "How many.")]
        most: Option<u32>,
        /// Any of them.
        #[serde(default)]
        any: bool,
        #[serde(default)]
        default: BTreeMap<String, String>,
        #[schemars(extend("enum" = ["a", "b"]))]
        kind: Option<String>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Word {
        title: String,
    }

    #[test]
    fn arguments_are_described_as_they_are_parsed() {
        let tool = ToolSpec::of::<Arguments>("look", Effect::Read);
        assert_eq!((&*tool.name, &*tool.description), ("look", "Looks for something, and tells of it."));
        let word = json!({
            "type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"],
            "additionalProperties": false
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "words": {"type": "array", "items": word, "description": "The words."},
                "most": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
                "any": {"type": "boolean", "description": "Any of them."},
                "default": {"type": "object", "additionalProperties": {"type": "string"}},
                "kind": {"type": "string", "enum": ["a", "b"]}
            },
            "required": ["words"],
            "additionalProperties": false
        });
        assert_eq!(tool.parameters, expected);
        let order = tool.parameters["properties"].as_object().map(|properties| properties.keys().collect::<Vec<_>>());
        assert_eq!(order.unwrap(), ["words", "most", "any", "default", "kind"]);

        let words = vec![Word { title: "a".to_owned() }];
        let parsed = Arguments { words, most: None, any: false, default: BTreeMap::new(), kind: None };
        assert_eq!(serde_json::from_value::<Arguments>(json!({"words": [{"title": "a"}]})).unwrap(), parsed);
    }
}

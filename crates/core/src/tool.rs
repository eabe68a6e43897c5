//! Tools: specifications, calls and results.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::tool_details::{PrintedText, ToolDetails};
use crate::{files::Picture, ids::CallId, state_files::StateFileChange};

/// Specification of a tool, for models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name used in calls.
    pub name: String,
    /// Purpose of the tool, and when to use it.
    pub description: String,
    /// JSON Schema of the arguments, of type object.
    pub parameters: Value,
    /// Effect of a call.
    pub effect: Effect,
}

impl ToolSpec {
    /// Creates the specification of a tool whose arguments are parsed into `A`. Models read the doc comments: the
    /// type's comment describes the tool, and the comments on its fields describe the arguments.
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

    /// Returns the effect of a call with these arguments. A call that saves what it reads changes a file.
    pub fn effect_of(&self, arguments: &str) -> Effect {
        if saved_file(&self.name, arguments).is_some() { Effect::Write } else { self.effect }
    }
}

/// Name of the tool that reads one file. If this tool may not read a file, no other tool shows that file either.
pub const READ_TOOL: &str = "read_file";
/// Name of the tool that writes one file.
pub const WRITE_TOOL: &str = "write_file";

/// Argument of [`READ_TOOL`] with the new file into which a call saves what it reads.
pub const SAVE_TO: &str = "save_to";

/// Returns the file into which a call saves what it reads.
pub fn saved_file(tool: &str, arguments: &str) -> Option<String> {
    let named = || serde_json::from_str::<Value>(arguments).ok()?.get(SAVE_TO)?.as_str().map(str::to_owned);
    if tool == READ_TOOL { named() } else { None }
}

/// Reduces a schema to features that small models and strict servers support. Optional arguments are omitted rather
/// than `null`, so `null` is removed from the types. Line breaks in doc comments become spaces.
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

/// Effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The call only reads. Independent calls of one step run in parallel, without approval.
    Read,
    /// The call changes the session's own state, such as the todo list. Runs in order, without approval.
    State,
    /// The call changes files on disk.
    Write,
    /// The call runs a command in a shell.
    Execute,
    /// The call accesses a server over the network. Fetches run like reads, but only after they are in the audit log.
    /// Requests that send data require approval.
    Network,
}

/// A tool call by the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id that links the call to its result.
    pub call_id: CallId,
    /// Name of the tool.
    pub name: String,
    /// Arguments as the model wrote them, because history is sent back byte for byte.
    pub arguments: String,
}

/// A call translated from the argument names of another agent system. The translated call replaces the original before
/// the policy judges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptedCall {
    /// Arguments with the names and units of the tool.
    pub arguments: String,
    /// Note for the model, added to the result: for example, that an argument without effect was dropped.
    pub note: Option<String>,
}

/// A call that reads through a link, rewritten without the link. The policy judges both forms, and the rewritten form
/// runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedLink {
    /// Arguments, with the path of the link's target.
    pub arguments: String,
    /// Path in the original call.
    pub path: String,
    /// Path of the link's target.
    pub leads_to: String,
}

impl FollowedLink {
    /// Name of the argument with the path that a call reads.
    pub const PATH: &str = "path";

    /// Names of the path argument in other systems. Some models write these names, and the tools accept them. The first
    /// name present is used.
    pub const ALIASES: [&str; 6] = ["file_path", "filepath", "filename", "file", "directory", "dir"];

    /// Reconstructs the value from a call's arguments and the target of its path. `None` if the arguments have no path.
    pub fn reconstruct(arguments: &str, leads_to: &str) -> Option<Self> {
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
    /// Path as a call can write it, without links: `/project/app`, `/outputs`, `/` for the workspace.
    pub name: String,
    /// Absolute paths at which the command itself reaches the folder.
    pub paths: Vec<PathBuf>,
    /// Path of the same folder in the main worktree, if the folder is in another worktree. Rules for the folder in the
    /// main worktree also apply to this folder.
    pub main: Option<PathBuf>,
}

/// The stored result of a call.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Id that links the result to the call.
    pub call_id: CallId,
    /// Name of the tool.
    pub name: String,
    /// Text for the model.
    #[serde(default)]
    pub text: String,
    /// Error code, if the call failed.
    pub error: Option<ToolErrorCode>,
    /// Exit code of a command as reported by a shell: 128 plus the signal number if a signal ended the command. `None`
    /// if the call was not a command, or if a limit or a cancel ended it.
    pub exit_code: Option<i32>,
    /// Structured parts of the result, for programs.
    pub details: Option<Box<ToolDetails>>,
    /// Files that the call changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// Arguments with which the call ran, if a user replaced the model's arguments. `None` if the call ran with the
    /// original arguments or did not run.
    pub ran_with: Option<String>,
    /// Call whose edit was reverted or found reverted by this call. Internal: stored in the journal, not meant for
    /// clients.
    pub takes_back: Option<CallId>,
    /// Tools that the call found for the model. The model may call these tools from now on. Internal: stored in the
    /// journal, not meant for clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
    /// Pictures in the result, for models that accept pictures. Earlier versions stored `pictures`, which a notice after
    /// the result repeats. Internal: stored in the journal, not meant for clients.
    #[serde(default, rename = "shown", skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Picture>,
    /// User text in the result: an answer to the call's question, or a reason for a refusal. Internal: stored in the
    /// journal, not meant for clients.
    pub said: Option<String>,
    /// Hash of the text in an earlier result, if this result only refers to the earlier one. Internal: stored in the
    /// journal, not meant for clients.
    pub unchanged: Option<u64>,
    /// Duration of the call, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
}

impl ToolResult {
    /// Creates the result of a call, without content.
    pub fn empty(call_id: CallId, name: impl Into<String>) -> Self {
        Self { call_id, name: name.into(), ..Self::default() }
    }

    /// Returns the text that the tool wrote, without additions for the model.
    pub fn own_text(&self) -> &str {
        let own = self.details.as_ref().and_then(|details| self.text.get(..usize::try_from(details.own_bytes?).ok()?));
        own.unwrap_or(&self.text)
    }
}

/// Output of a tool: text for the model, and the files that the call changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// Error code, if the call failed.
    pub error: Option<ToolErrorCode>,
    /// Binary output. Stored in files that the text names. Models that accept pictures are shown the pictures.
    pub data: Vec<ToolData>,
    /// Files that the call changed.
    pub files: Vec<FileChange>,
    /// Exit code of a command, as in [`ToolResult::exit_code`].
    pub exit_code: Option<i32>,
    /// Structured parts of the output, for programs.
    pub details: Option<Box<ToolDetails>>,
    /// Changes to files in the session's state, in order.
    pub state_files: Vec<StateFileChange>,
}

impl ToolOutput {
    /// Creates a successful output.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a failure with a stable code and one sentence on how to correct the call.
    pub fn error(code: ToolErrorCode, text: impl Into<String>) -> Self {
        Self { text: text.into(), error: Some(code), ..Self::default() }
    }
}

/// Binary data that a tool returned, such as an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolData {
    /// Name of the data in the result, such as `stdout`.
    pub name: String,
    /// Kind of the data, such as `a PNG image`; empty if unknown.
    pub kind: String,
    /// File extension without the dot; empty if unknown.
    pub ending: String,
    /// Bytes of the whole data.
    pub content: Vec<u8>,
    /// Path of the file that the data was read from. `None` if the data is not in a file yet.
    pub path: Option<String>,
    /// Page to draw, from 1, if the data is a PDF document.
    pub page: Option<u32>,
}

names! {
    /// Stable codes of failed calls. They are data for the model, not errors of the turn.
    #[derive(Hash)]
    pub enum ToolErrorCode {
        /// The arguments are not valid JSON, or violate the schema.
        InvalidArgs = "E_INVALID_ARGS",
        /// There is no tool with that name.
        UnknownTool = "E_UNKNOWN_TOOL",
        /// The tool failed to complete the call.
        Tool = "E_TOOL",
        /// The call was stopped because it exceeded its own time limit or the turn's.
        Timeout = "E_TIMEOUT",
        /// A user or a rule denied the call.
        Denied = "E_DENIED",
        /// The path does not exist, leaves the workspace, or is not writable.
        Path = "E_PATH",
        /// The turn was cancelled while the call ran.
        Cancelled = "E_CANCELLED",
        /// The call never ran, because the turn ended or the daemon stopped first, the call could not be recorded
        /// beforehand, or its effect was no longer the approved one.
        NotRun = "E_NOT_RUN",
        /// The daemon stopped, or the sandbox was killed, while the call ran. The call may or may not have taken
        /// effect.
        UnknownOutcome = "E_UNKNOWN_OUTCOME",
    }
}

/// A file, link or folder that a call changed.
///
/// A change is recorded, and can be undone, if its states are known: `after` for a created file, `before` for a deleted
/// one, and both for a modified one. A change without these states is only informational.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileChange {
    /// Path relative to the workspace, or in `/project` or `/folders/NAME`. A folder's path ends with a slash. In names
    /// from disk, a backslash is written `\\`, and bytes that are not plain text are written `\xff`.
    pub path: String,
    /// Kind of the change.
    pub change: FileChangeKind,
    /// State before the change.
    pub before: Option<FileState>,
    /// State after the change.
    pub after: Option<FileState>,
    /// User folder that was mounted there, for a path in `/project` or `/folders/NAME`. Another folder may be mounted
    /// there later.
    pub project: Option<PathBuf>,
    /// True if the change was found after a crash, and may have been made after the crash by something other than the
    /// call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// Identity of a file with several hard links. Such a file was written in place and therefore changed under all its
    /// names.
    pub shared: Option<SharedFile>,
}

/// Identity of a file with several hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SharedFile {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number on the device.
    pub inode: u64,
}

impl FileChange {
    /// Creates an informational change that is not recorded.
    pub fn new(path: impl Into<String>, change: FileChangeKind) -> Self {
        Self { path: path.into(), change, before: None, after: None, project: None, late: false, shared: None }
    }

    /// Returns true if the states needed to undo the change are known.
    pub fn is_recorded(&self) -> bool {
        match self.change {
            FileChangeKind::Created => self.after.is_some(),
            FileChangeKind::Modified => self.before.is_some() && self.after.is_some(),
            FileChangeKind::Deleted => self.before.is_some(),
        }
    }

    /// Returns true if the change is about a folder only.
    pub fn is_folder(&self) -> bool {
        self.path.ends_with('/')
    }
}

/// Properties of a path that are needed to restore it. Contents are stored outside of the journal, by hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileState {
    /// Kind of the path.
    pub kind: FileKind,
    /// SHA-256 of a file's content or of a link's target, in hexadecimal; empty for a folder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// Size of the hashed data, in bytes.
    #[serde(default)]
    pub size: u64,
    /// Permission bits; 0 for a link, which has no permissions.
    #[serde(default)]
    pub mode: u32,
}

/// Kind of a path. Pipes, sockets and devices are not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file with its content.
    File,
    /// A symbolic link with its target.
    Link,
    /// A folder, without its entries.
    Folder,
}

/// Kind of a file's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    /// The file did not exist before.
    Created,
    /// The file existed before and after.
    Modified,
    /// The file no longer exists.
    Deleted,
}

impl FileChangeKind {
    /// Returns the kind of the change that undoes this one.
    #[must_use]
    pub fn inverse(self) -> Self {
        match self {
            Self::Created => Self::Deleted,
            Self::Modified => Self::Modified,
            Self::Deleted => Self::Created,
        }
    }
}

/// A call that was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// Id of the call.
    pub call_id: CallId,
    /// Name of the tool.
    pub tool: String,
    /// Reason for the denial.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// Looks for something, and
    /// reports it.
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
    fn tool_schema_matches_the_parsed_arguments() {
        let tool = ToolSpec::of::<Arguments>("look", Effect::Read);
        assert_eq!((&*tool.name, &*tool.description), ("look", "Looks for something, and reports it."));
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

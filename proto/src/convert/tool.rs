//! Tools, their calls and results.

use agentd_core::{
    catalogue::{CatalogueTool, ToolLabel, ToolOrigin, ToolStanding, ToolTier},
    ids::CallId,
    tool::{
        Effect, FileChange, FileChangeKind, PrintedText, ToolCall, ToolDetails, ToolErrorCode, ToolResult, ToolSpec,
    },
};

use super::{WireError, all, enum_to_wire, json, mirrored, optional_enum, part, required_enum};
use crate::v1;

mirrored!(Effect, "the effect of a tool", [Read, State, Write, Execute, Network]);

mirrored!(
    ToolErrorCode,
    "the code of a tool error",
    [InvalidArgs, UnknownTool, Tool, Timeout, Denied, Path, Cancelled, NotRun, UnknownOutcome]
);

mirrored!(FileChangeKind, "the kind of a file change", [Created, Modified, Deleted]);

impl From<&ToolSpec> for v1::ToolSpec {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters_json: spec.parameters.to_string(),
            effect: enum_to_wire(spec.effect),
        }
    }
}

impl TryFrom<v1::ToolSpec> for ToolSpec {
    type Error = WireError;

    fn try_from(spec: v1::ToolSpec) -> Result<Self, WireError> {
        Ok(Self {
            name: spec.name,
            description: spec.description,
            parameters: json(&spec.parameters_json, "the schema of a tool")?,
            effect: required_enum(spec.effect)?,
        })
    }
}

mirrored!(ToolTier, "the tier of a tool", [Core, Enabled, Discovered, Off]);

/// Prefix of the name of a server.
const OF_SERVER: &str = "mcp:";

impl From<&ToolStanding> for v1::ToolStanding {
    fn from(standing: &ToolStanding) -> Self {
        let ToolStanding { tool: CatalogueTool { spec, origin, label, stands_for: _, foreign: _ }, visible, why } =
            standing;
        let origin = match origin {
            ToolOrigin::BuiltIn => "built_in".to_owned(),
            ToolOrigin::Conversation => "conversation".to_owned(),
            ToolOrigin::Mcp { server } => format!("{OF_SERVER}{server}"),
        };
        Self {
            tool: Some(spec.into()),
            origin,
            tier: enum_to_wire(label.tier),
            always_available: label.always_available,
            category: label.category.clone(),
            tags: label.tags.clone(),
            visible: *visible,
            why: why.clone(),
        }
    }
}

impl TryFrom<v1::ToolStanding> for ToolStanding {
    type Error = WireError;

    fn try_from(standing: v1::ToolStanding) -> Result<Self, WireError> {
        let v1::ToolStanding { tool, origin, tier: wire, always_available, category, tags, visible, why } = standing;
        let origin = match (origin.as_str(), origin.strip_prefix(OF_SERVER)) {
            ("built_in", _) => ToolOrigin::BuiltIn,
            ("conversation", _) => ToolOrigin::Conversation,
            (_, Some(server)) => ToolOrigin::Mcp { server: server.to_owned() },
            _ => return Err(WireError::Unknown("the origin of a tool")),
        };
        let label = ToolLabel { tier: required_enum(wire)?, always_available, category, tags };
        let tool = CatalogueTool { spec: part(tool, "a tool")?, origin, label, stands_for: None, foreign: None };
        Ok(Self { tool, visible, why })
    }
}

impl From<&ToolCall> for v1::ToolCall {
    fn from(call: &ToolCall) -> Self {
        Self { call_id: call.call_id.to_string(), name: call.name.clone(), arguments: call.arguments.clone() }
    }
}

impl From<v1::ToolCall> for ToolCall {
    fn from(call: v1::ToolCall) -> Self {
        Self { call_id: CallId::from(call.call_id), name: call.name, arguments: call.arguments }
    }
}

impl From<&ToolResult> for v1::ToolResult {
    fn from(result: &ToolResult) -> Self {
        Self {
            call_id: result.call_id.to_string(),
            name: result.name.clone(),
            text: result.text.clone(),
            error: result.error.map_or(v1::ToolErrorCode::Unspecified as i32, enum_to_wire),
            files: result.files.iter().map(Into::into).collect(),
            duration_ms: result.duration_ms,
            ran_with: result.ran_with.clone(),
            exit_code: result.exit_code,
            details: result.details.as_deref().map(Into::into),
        }
    }
}

impl From<&ToolDetails> for v1::ToolDetails {
    fn from(details: &ToolDetails) -> Self {
        let printed = |printed: &PrintedText| {
            let PrintedText { text, bytes, cut, tail } = printed.clone();
            v1::PrintedText { text, bytes, cut, tail }
        };
        Self {
            stdout: details.stdout.as_ref().map(printed),
            stderr: details.stderr.as_ref().map(printed),
            diff: details.diff.as_ref().map(printed),
            stored: details.stored.clone(),
            own_bytes: details.own_bytes,
        }
    }
}

impl From<v1::ToolDetails> for ToolDetails {
    fn from(details: v1::ToolDetails) -> Self {
        let printed = |v1::PrintedText { text, bytes, cut, tail }| PrintedText { text, bytes, cut, tail };
        Self {
            stdout: details.stdout.map(printed),
            stderr: details.stderr.map(printed),
            diff: details.diff.map(printed),
            stored: details.stored,
            own_bytes: details.own_bytes,
        }
    }
}

impl TryFrom<v1::ToolResult> for ToolResult {
    type Error = WireError;

    fn try_from(result: v1::ToolResult) -> Result<Self, WireError> {
        Ok(Self {
            call_id: CallId::from(result.call_id),
            name: result.name,
            text: result.text,
            error: optional_enum(result.error)?,
            files: all(result.files)?,
            ran_with: result.ran_with,
            takes_back: None,
            found: Vec::new(),
            pictures: Vec::new(),
            said: None,
            unchanged: None,
            duration_ms: result.duration_ms,
            exit_code: result.exit_code,
            details: result.details.map(|details| Box::new(details.into())),
        })
    }
}

impl From<&FileChange> for v1::FileChange {
    fn from(file: &FileChange) -> Self {
        Self { path: file.path.clone(), change: enum_to_wire(file.change) }
    }
}

impl TryFrom<v1::FileChange> for FileChange {
    type Error = WireError;

    fn try_from(file: v1::FileChange) -> Result<Self, WireError> {
        Ok(Self::new(file.path, required_enum(file.change)?))
    }
}

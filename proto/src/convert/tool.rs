//! Tools, their calls and results.

use agentd_core::{
    catalogue::{CatalogueTool, ToolLabel, ToolOrigin, ToolStanding, ToolTier},
    tool::{
        Effect, FileChange, FileChangeKind, PrintedText, ToolCall, ToolDetails, ToolErrorCode, ToolResult, ToolSpec,
    },
};

use super::{Wire, WireError, by_name, mirrored};
use crate::v1;

mirrored!(Effect, "the effect of a tool", [Read, State, Write, Execute, Network]);
mirrored!(ToolTier, "the tier of a tool", [Core, Enabled, Discovered, Off]);
mirrored!(
    ToolErrorCode,
    "the code of a tool error",
    [InvalidArgs, UnknownTool, Tool, Timeout, Denied, Path, Cancelled, NotRun, UnknownOutcome]
);
mirrored!(FileChangeKind, "the kind of a file change", [Created, Modified, Deleted]);

mirrored! { ToolSpec as v1::ToolSpec: name description effect, parameters = parameters_json "the schema of a tool" }
mirrored! { ToolCall as v1::ToolCall: call_id name arguments }
mirrored! {
    ToolResult as v1::ToolResult:
        call_id name text error files ran_with duration_ms exit_code details
        .. takes_back: None, found: Vec::new(), pictures: Vec::new(), said: None, unchanged: None
}
mirrored! {
    FileChange as v1::FileChange:
        path change .. before: None, after: None, project: None, late: false, shared: None
}
mirrored! { ToolDetails as v1::ToolDetails: stdout stderr diff stored own_bytes }
mirrored! { PrintedText as v1::PrintedText: text bytes cut tail }

/// Prefix of the name of a server.
const OF_SERVER: &str = "mcp:";

by_name! {
    ToolOrigin: |origin| match origin {
        Self::BuiltIn => "built_in".to_owned(),
        Self::Conversation => "conversation".to_owned(),
        Self::Mcp { server } => format!("{OF_SERVER}{server}"),
    }, |origin, _| match (origin, origin.strip_prefix(OF_SERVER)) {
        ("built_in", _) => Ok(Self::BuiltIn),
        ("conversation", _) => Ok(Self::Conversation),
        (_, Some(server)) => Ok(Self::Mcp { server: server.to_owned() }),
        _ => Err(WireError::Unknown("the origin of a tool")),
    };
}

impl From<&ToolStanding> for v1::ToolStanding {
    fn from(standing: &ToolStanding) -> Self {
        let ToolStanding { tool: CatalogueTool { spec, origin, label, .. }, visible, why } = standing;
        let ToolLabel { tier, always_available, category, tags } = label.clone();
        Self {
            tool: spec.to_wire(),
            origin: origin.to_wire(),
            tier: tier.to_wire(),
            always_available,
            category,
            tags,
            visible: *visible,
            why: why.clone(),
        }
    }
}

impl TryFrom<v1::ToolStanding> for ToolStanding {
    type Error = WireError;

    fn try_from(standing: v1::ToolStanding) -> Result<Self, WireError> {
        let v1::ToolStanding { tool, origin, tier, always_available, category, tags, visible, why } = standing;
        let origin = Wire::from_wire(origin, "the origin of a tool")?;
        let label = ToolLabel { tier: Wire::from_wire(tier, "the tier")?, always_available, category, tags };
        let spec = Wire::from_wire(tool, "a tool")?;
        let tool = CatalogueTool { spec, origin, label, stands_for: None, foreign: None };
        Ok(Self { tool, visible, why })
    }
}

//! The few shapes of the protocol that are needed.

use std::{collections::BTreeMap, path::Path};

use agentd_core::language::{Severity, WirePosition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{clean, uri};

/// Characters of a finding that are kept.
const MAX_MESSAGE: usize = 400;
/// Characters of its code and source.
const MAX_CODE: usize = 80;
/// Findings of one file that are kept.
const MAX_FINDINGS: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) character: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Range {
    pub(crate) start: Position,
    pub(crate) end: Position,
}

impl From<Position> for WirePosition {
    fn from(position: Position) -> Self {
        Self { line: position.line, character: position.character }
    }
}

/// A finding, as it is written.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WrittenFinding {
    range: Range,
    severity: Option<u8>,
    code: Option<Value>,
    source: Option<String>,
    #[serde(default)]
    message: Value,
}

/// A finding, made harmless.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) line: u32,
    pub(crate) character: u32,
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) code: String,
}

impl From<WrittenFinding> for Finding {
    fn from(written: WrittenFinding) -> Self {
        let WrittenFinding { range, severity, code, source, message } = written;
        let severity = match severity {
            None | Some(1) => Severity::Error,
            Some(2) => Severity::Warning,
            Some(3) => Severity::Information,
            Some(_) => Severity::Hint,
        };
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            // Markup, in newer versions.
            Value::Object(fields) => fields.get("value").and_then(Value::as_str).unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        let parts = [source.unwrap_or_default(), code.as_ref().map(text).unwrap_or_default()];
        let code: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
        Self {
            line: range.start.line,
            character: range.start.character,
            severity,
            message: clean::line(&text(&message), MAX_MESSAGE),
            code: clean::line(&code.join(" "), MAX_CODE),
        }
    }
}

/// Findings, by place.
pub(crate) fn findings(written: Vec<WrittenFinding>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = written.into_iter().take(MAX_FINDINGS).map(Finding::from).collect();
    findings.sort();
    findings.dedup();
    findings
}

#[derive(Debug, Deserialize)]
pub(crate) struct PublishedFindings {
    pub(crate) uri: String,
    pub(crate) version: Option<i32>,
    #[serde(default)]
    pub(crate) diagnostics: Vec<WrittenFinding>,
}

/// Answer to a request for the findings of one file.
#[derive(Debug, Deserialize)]
pub(crate) struct FindingReport {
    #[serde(default)]
    pub(crate) items: Vec<WrittenFinding>,
}

/// Word on work that a server is at.
#[derive(Debug, Deserialize)]
pub(crate) struct Progress {
    /// A number or a text.
    pub(crate) token: Value,
    pub(crate) value: ProgressValue,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ProgressValue {
    #[serde(default)]
    pub(crate) kind: Option<ProgressKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProgressKind {
    Begin,
    End,
    #[serde(other)]
    Other,
}

/// Word of some servers on whether they have loaded the project.
#[derive(Debug, Deserialize)]
pub(crate) struct ServerStatus {
    pub(crate) quiescent: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct InitializeResult {
    #[serde(default)]
    pub(crate) capabilities: Capabilities,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Capabilities {
    diagnostic_provider: Option<Value>,
}

impl Capabilities {
    /// Returns whether it can be asked for findings.
    pub(crate) fn can_be_pulled(&self) -> bool {
        self.diagnostic_provider.as_ref().is_some_and(|provider| !matches!(provider, Value::Null | Value::Bool(false)))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Registrations {
    #[serde(default)]
    pub(crate) registrations: Vec<Registration>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Registration {
    #[serde(default)]
    pub(crate) method: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ConfigurationItems {
    #[serde(default)]
    pub(crate) items: Vec<serde::de::IgnoredAny>,
}

/// A place, in either of its two forms.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum WrittenLocation {
    Plain {
        uri: String,
        range: Range,
    },
    #[serde(rename_all = "camelCase")]
    Link {
        target_uri: String,
        target_selection_range: Range,
    },
}

/// Places: none, one, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum WrittenLocations {
    Several(Vec<WrittenLocation>),
    One(WrittenLocation),
    None(()),
}

impl WrittenLocations {
    pub(crate) fn into_list(self) -> Vec<(String, Range)> {
        let list = match self {
            Self::Several(list) => list,
            Self::One(one) => vec![one],
            Self::None(()) => Vec::new(),
        };
        let plain = |location| match location {
            WrittenLocation::Plain { uri, range } => (uri, range),
            WrittenLocation::Link { target_uri, target_selection_range } => (target_uri, target_selection_range),
        };
        list.into_iter().map(plain).collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WorkspaceEdit {
    pub(crate) changes: Option<BTreeMap<String, Vec<TextEdit>>>,
    pub(crate) document_changes: Option<Vec<DocumentChange>>,
}

/// A change of a document, or of files, which has another form.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum DocumentChange {
    #[serde(rename_all = "camelCase")]
    Edits {
        text_document: DocumentName,
        edits: Vec<TextEdit>,
    },
    OfFiles(serde::de::IgnoredAny),
}

#[derive(Debug, Deserialize)]
pub(crate) struct DocumentName {
    pub(crate) uri: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextEdit {
    pub(crate) range: Range,
    pub(crate) new_text: String,
}

/// Parameters with which a server begins its work in a folder.
pub(crate) fn initialize(root: &Path) -> Value {
    let address = uri::of_path(root);
    let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    json!({
        "processId": null,
        "clientInfo": {"name": "agentd"},
        "rootPath": root.to_string_lossy(),
        "rootUri": address,
        "workspaceFolders": [{"uri": address, "name": name}],
        "capabilities": {
            "general": {"positionEncodings": ["utf-16"]},
            "window": {"workDoneProgress": true},
            "workspace": {
                "configuration": true,
                "workspaceFolders": true,
                "didChangeWatchedFiles": {"dynamicRegistration": true, "relativePatternSupport": true},
                "workspaceEdit": {"documentChanges": true},
                "diagnostics": {"refreshSupport": true},
            },
            "textDocument": {
                "synchronization": {"didSave": true},
                "publishDiagnostics": {"versionSupport": true},
                "diagnostic": {"dynamicRegistration": false},
                "definition": {"linkSupport": true},
                "references": {},
                "rename": {},
            },
            "experimental": {"serverStatusNotification": true},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn findings_are_bounded_and_harmless() {
        let range = json!({"start": {"line": 2, "character": 1}, "end": {"line": 2, "character": 4}});
        let written =
            json!({"range": range, "severity": 1, "code": 12, "source": "x\u{1b}", "message": "a\nb".repeat(9000)});
        let finding = findings(vec![of(written.clone()), of(written)]).remove(0);
        assert_eq!((finding.line, finding.character, &*finding.code), (2, 1, "x 12"));
        assert!(finding.message.chars().count() <= MAX_MESSAGE + 1 && !finding.message.contains('\n'));
    }

    #[test]
    fn places_have_several_forms() {
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
        let plain = json!({"uri": "file:///a", "range": range});
        let link = json!({"targetUri": "file:///b", "targetRange": range, "targetSelectionRange": range});
        let count = |value: Value| of::<WrittenLocations>(value).into_list().len();
        assert_eq!([count(json!(null)), count(plain.clone()), count(json!([plain, link]))], [0, 1, 2]);
    }
}

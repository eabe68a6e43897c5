//! Converts server answers for models: text between markers, everything else as attached data.

use agentd_core::{
    tool::{ToolData, ToolErrorCode, ToolOutput},
    untrusted::{self, UntrustedSource},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, GetPromptResult, ReadResourceResult, ResourceContents, Role,
};
use serde_json::Value;

/// Maximum text size of one answer, in bytes. Longer text is truncated with a note.
const MAX_TEXT: usize = 4 << 20;
/// Maximum number of parts of one answer.
const MAX_PARTS: usize = 1000;

/// Converts the result of a tool call.
pub(crate) fn of_tool(from: &str, result: CallToolResult) -> ToolOutput {
    let failed = result.is_error == Some(true);
    let mut answer = Answer::default();
    let texts = result.content.iter().filter_map(|part| match part {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let texts: Vec<&str> = texts.take(MAX_PARTS).collect();
    // Most servers repeat structured content as text, some of them in an object with the single field `result`.
    let is_repeated = |content: &Value| {
        let inner = content.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("result"));
        is_in(&texts, content) || inner.is_some_and(|inner| is_in(&texts, inner))
    };
    let structured = result.structured_content.filter(|content| !is_repeated(content));
    answer.blocks(result.content);
    if let Some(content) = structured {
        answer.text(&content.to_string());
    }
    answer.finish(from, failed)
}

/// Converts the result of a finished call if parts of the result are not defined by the protocol. Only the valid parts
/// are shown.
pub(crate) fn of_malformed(from: &str, result: &Value) -> ToolOutput {
    let field = |name: &str| result.get(name).filter(|value| !value.is_null());
    let failed = field("isError").is_some_and(|failed| *failed == true || *failed == "true");
    let mut answer = Answer::default();
    let (mut unknown, mut valid) = (Vec::new(), Vec::new());
    for part in field("content").and_then(Value::as_array).into_iter().flatten().take(MAX_PARTS) {
        match serde_json::from_value::<ContentBlock>(part.clone()) {
            Ok(part) => valid.push(part),
            Err(_) => {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or("unknown");
                unknown.push(kind.chars().take(40).collect::<String>());
            }
        }
    }
    if valid.is_empty() && unknown.is_empty() && field("structuredContent").is_none() {
        answer.text("[the call ran, but its result has an unknown form; it may have taken effect]");
    }
    answer.blocks(valid);
    if let Some(content) = field("structuredContent") {
        answer.text(&content.to_string());
    }
    if !unknown.is_empty() {
        answer.text(&format!("[omitted: parts of an unknown form ({})]", unknown.join(", ")));
    }
    answer.finish(from, failed)
}

/// Returns true if one of the texts equals `value`, or if `value` is an array whose items equal the texts, one by one.
fn is_in(texts: &[&str], value: &Value) -> bool {
    let is_same = |text: &str, value: &Value| match value {
        Value::String(expected) => text.trim() == expected.trim(),
        other => serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *other),
    };
    let items = value.as_array().filter(|items| !items.is_empty() && items.len() == texts.len());
    texts.iter().any(|text| is_same(text, value))
        || items.is_some_and(|items| texts.iter().zip(items).all(|(text, item)| is_same(text, item)))
}

/// Converts the contents of a resource.
pub(crate) fn of_resource(from: &str, result: ReadResourceResult) -> ToolOutput {
    let mut answer = Answer::default();
    for contents in result.contents.into_iter().take(MAX_PARTS) {
        answer.resource(contents);
    }
    answer.finish(from, false)
}

/// Converts a prompt for the model.
pub(crate) fn of_prompt(from: &str, result: GetPromptResult) -> ToolOutput {
    let mut answer = Answer::default();
    for message in result.messages.into_iter().take(MAX_PARTS) {
        answer.text(match message.role {
            Role::User => "user:",
            _ => "assistant:",
        });
        answer.blocks(vec![message.content]);
    }
    answer.finish(from, false)
}

/// Formats a list, one entry per line, with a note if there are more entries.
pub(crate) fn of_list(from: &str, mut entries: Vec<String>, more: bool, nothing: &str) -> ToolOutput {
    entries.extend(more.then(|| "- […] and more, not listed".to_owned()));
    let mut answer = Answer::default();
    answer.text(&if entries.is_empty() { nothing.to_owned() } else { entries.join("\n") });
    answer.finish(from, false)
}

/// Converts an error response from a server.
pub(crate) fn of_refusal(from: &str, error: &ErrorData) -> ToolOutput {
    const INVALID_PARAMS: i32 = -32602;
    let message: String = error.message.chars().take(4096).collect();
    let code = if error.code.0 == INVALID_PARAMS { ToolErrorCode::InvalidArgs } else { ToolErrorCode::Tool };
    let text = format!("the server refused the call\n{}", untrusted::framed(UntrustedSource::Mcp, from, &message));
    ToolOutput::error(code, text)
}

#[derive(Default)]
struct Answer {
    text: String,
    /// Length of the omitted text, in bytes.
    omitted: usize,
    data: Vec<ToolData>,
}

impl Answer {
    fn blocks(&mut self, blocks: Vec<ContentBlock>) {
        let count = blocks.len();
        for block in blocks.into_iter().take(MAX_PARTS) {
            match block {
                ContentBlock::Text(text) => self.text(&text.text),
                ContentBlock::Image(image) => self.encoded("image", &image.mime_type, &image.data),
                ContentBlock::Audio(audio) => self.encoded("audio", &audio.mime_type, &audio.data),
                ContentBlock::Resource(embedded) => self.resource(embedded.resource),
                ContentBlock::ResourceLink(link) => {
                    let about = link.description.map(|about| format!(": {about}")).unwrap_or_default();
                    self.text(&format!("[readable resource: {} ({}){about}]", link.uri, link.name));
                }
                _ => self.text("[a part of unknown type]"),
            }
        }
        if count > MAX_PARTS {
            self.text(&format!("[{} more parts omitted]", count - MAX_PARTS));
        }
    }

    fn resource(&mut self, contents: ResourceContents) {
        match contents {
            ResourceContents::TextResourceContents { uri, text, .. } => self.text(&format!("[{uri}]\n{text}")),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                self.text(&format!("[{uri}: bytes, stored in a file]"));
                self.encoded("resource", mime_type.as_deref().unwrap_or_default(), &blob);
            }
            _ => self.text("[a resource of unknown type]"),
        }
    }

    fn text(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let end = text.floor_char_boundary(MAX_TEXT.saturating_sub(self.text.len()));
        self.text.push_str(&text[..end]);
        self.omitted += text.len() - end;
    }

    fn encoded(&mut self, name: &str, media_type: &str, encoded: &str) {
        match STANDARD.decode(encoded.trim()) {
            Ok(content) => {
                let media_type: String = untrusted::sanitize(media_type).chars().take(100).collect();
                let ending = ending(&media_type);
                let name = format!("{name}_{}", self.data.len() + 1);
                self.data.push(ToolData { name, kind: media_type, ending, content, ..ToolData::default() });
            }
            Err(_) => self.text(&format!("[an {name} with invalid Base64, so it cannot be read]")),
        }
    }

    fn finish(self, from: &str, failed: bool) -> ToolOutput {
        let Self { text, omitted, data } = self;
        let mut output = match (text.is_empty(), data.is_empty()) {
            (true, true) => "the server returned nothing".to_owned(),
            (true, false) => "the server returned no text".to_owned(),
            (false, _) => untrusted::framed(UntrustedSource::Mcp, from, &text),
        };
        if omitted > 0 {
            output.push_str(&format!("\n[{omitted} more bytes omitted: request less at once]"));
        }
        if failed {
            output.insert_str(0, "the tool failed\n");
        }
        ToolOutput { text: output, error: failed.then_some(ToolErrorCode::Tool), data, ..ToolOutput::default() }
    }
}

/// Returns the file extension for a media type.
fn ending(media_type: &str) -> String {
    let kind = media_type.split(';').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    match kind.as_str() {
        "jpeg" => "jpg".to_owned(),
        "mpeg" => "mp3".to_owned(),
        "plain" => "txt".to_owned(),
        "svg+xml" => "svg".to_owned(),
        _ if kind.len() <= 5 && kind.chars().all(|letter| letter.is_ascii_alphanumeric()) => kind,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(result: serde_json::Value) -> ToolOutput {
        of_tool("x/say", serde_json::from_value(result).unwrap())
    }

    #[test]
    fn text_is_framed_and_other_content_attached() {
        let output = answered(json!({"content": [
            {"type": "text", "text": "one\u{1b}[2J </mcp_content>"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "image", "data": "!", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "resource", "resource": {"uri": "x:b", "text": "two"}},
        ]}));
        assert!(output.text.starts_with("<mcp_content from=\"x/say\">\none[2J &lt;/mcp_content>\n"), "{}", output.text);
        assert!(output.text.contains("invalid Base64") && output.text.contains("file:///a (a)"), "{}", output.text);
        assert!(output.text.contains("[x:b]\ntwo\n</mcp_content>"), "{}", output.text);
        assert_eq!(output.error, None);
        let [data] = output.data.as_slice() else { panic!("{:?}", output.data) };
        assert_eq!(
            (data.name.as_str(), data.ending.as_str(), data.content.as_slice()),
            ("image_1", "png", &b"hello"[..])
        );
    }

    #[test]
    fn failures_and_structured_content_are_shown() {
        let failed = answered(json!({"isError": true, "content": [{"type": "text", "text": "no such thing"}]}));
        assert_eq!(failed.error, Some(ToolErrorCode::Tool));
        assert!(failed.text.starts_with("the tool failed\n<mcp_content"), "{}", failed.text);
        let structured = answered(json!({"content": [], "structuredContent": {"degrees": 20}}));
        assert!(structured.text.contains("{\"degrees\":20}"), "{}", structured.text);
        assert_eq!(answered(json!({"content": []})).text, "the server returned nothing");
    }

    #[test]
    fn malformed_content_parts_are_skipped() {
        let output_of = |result: serde_json::Value| of_malformed("x/say", &result);
        let output = output_of(json!({"content": [
            {"type": "hologram", "x": 1}, {"type": "text"}, {"type": "text", "text": "fine"}
        ]}));
        assert_eq!(output.error, None);
        assert!(output.text.contains("fine") && output.text.contains("(hologram, text)"), "{}", output.text);
        let failed = output_of(json!({"isError": "true", "content": [{"type": "text", "text": "no such thing"}]}));
        assert_eq!(failed.error, Some(ToolErrorCode::Tool));
        for result in [json!({}), json!([]), json!(null), json!({"content": "fine"})] {
            let output = output_of(result.clone());
            assert!(output.error.is_none() && output.text.contains("the call ran"), "{result}: {}", output.text);
        }
    }

    #[test]
    fn structured_content_is_shown_only_if_it_adds_information() {
        let check = |texts: &[&str], structured: serde_json::Value, is_added: bool| {
            let blocks: Vec<_> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
            let output = answered(json!({"content": blocks, "structuredContent": structured}));
            let json = structured.to_string();
            let lines = output.text.lines().filter(|line| *line == json).count();
            let expected = usize::from(is_added) + texts.iter().filter(|text| **text == json).count();
            assert_eq!(lines, expected, "{}", output.text);
        };
        check(&["20 degrees"], json!({"degrees": 20}), true);
        check(&["{ \"degrees\": 20 }"], json!({"degrees": 20}), false);
        check(&[r#"{"degrees":20}"#], json!({"degrees": 20}), false);
        check(&[r#"{"degrees":20}"#], json!({"degrees": 21}), true);
        check(&["found it", r#"{"degrees":20}"#], json!({"degrees": 20}), false);
        check(&["20"], json!({"result": 20}), false);
        check(&["warm "], json!({"result": "warm"}), false);
        check(&["one", "two"], json!({"result": ["one", "two"]}), false);
        check(&["one", "two"], json!({"result": ["one", "three"]}), true);
        check(&["nothing"], json!({"result": []}), true);
        check(&["warm"], json!({"words": "warm"}), true);
    }

    #[test]
    fn overlong_result_is_truncated_with_a_notice() {
        let overlong_text = "ä".repeat(MAX_TEXT);
        let output = answered(json!({"content": [{"type": "text", "text": overlong_text}]}));
        assert!(output.text.len() < MAX_TEXT + 500);
        assert!(output.text.ends_with("more bytes omitted: request less at once]"), "no truncation notice");
    }
}

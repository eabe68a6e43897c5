//! The subject of a call: the lines of a file, the text and the place of a search, or the files of a patch.

use agentd_core::{
    tool::FollowedLink,
    tool_table::{ToolKind, ToolRow},
    visible,
};
use serde_json::Value;

use super::diff::LineCounts;

/// Name of the tool that applies patches.
pub(super) const PATCH: &str = "apply_patch";

/// Arguments that describe a call best, in order.
const MAIN_ARGUMENTS: [&str; 9] =
    ["path", "file_path", "command", "pattern", "query", "question", "url", "glob", "name"];

/// Arguments with the text of a search, in order, including names of other systems.
const SOUGHT: [&str; 8] = ["pattern", "query", "regex", "symbol", "name", "search_term", "search_query", "glob"];

/// Returns the main argument verbatim.
pub(crate) fn main_text(args: &Value) -> String {
    let Value::Object(fields) = args else { return args.as_str().unwrap_or_default().to_owned() };
    let main = MAIN_ARGUMENTS.iter().filter_map(|name| fields.get(*name)).find_map(Value::as_str);
    main.or_else(|| fields.values().find_map(Value::as_str)).unwrap_or_default().to_owned()
}

/// Returns the subject of a call, with every character visible.
pub(super) fn subject(tool: &str, args: &Value) -> String {
    let subject = match kind(tool) {
        ToolKind::Look => path(args).map(|path| path + &lines(args)),
        ToolKind::Search | ToolKind::Fetch => search(args),
        ToolKind::Edit if tool == PATCH => patched(&main_text(args)),
        _ => None,
    };
    subject.unwrap_or_else(|| visible::line(&main_text(args)))
}

/// Returns the kind of a tool, which may have its name of another system.
pub(super) fn kind(tool: &str) -> ToolKind {
    ToolKind::of(ToolRow::find(tool).map_or(tool, |row| row.name))
}

/// Returns the file that a subject such as `a.rs:1-40` begins with, and its lines; `None` for other subjects.
pub(super) fn file_and_lines(subject: &str) -> Option<(&str, &str)> {
    let (file, lines) = subject.rsplit_once(':')?;
    let is_range = !lines.is_empty() && lines.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_range.then_some((file, lines))
}

/// Returns the first argument of these names that is a text.
fn text(args: &Value, names: &[&str]) -> Option<String> {
    let texts = names.iter().filter_map(|name| args.get(*name)?.as_str());
    texts.map(visible::line).find(|text| !text.is_empty())
}

/// Returns the first argument of these names that is a number, even if it is written as text.
fn number(args: &Value, names: &[&str]) -> Option<u64> {
    let read = |value: &Value| value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    names.iter().find_map(|name| args.get(*name).and_then(read))
}

fn path(args: &Value) -> Option<String> {
    text(args, &[FollowedLink::PATH]).or_else(|| text(args, &FollowedLink::ALIASES))
}

/// Returns the lines of a file that a call shows, such as `:41-80`.
fn lines(args: &Value) -> String {
    let first = number(args, &["offset", "start_line"]);
    let begin = first.unwrap_or(1);
    let last = number(args, &["limit"]).map(|count| begin.saturating_add(count.saturating_sub(1)));
    match (first, last.or_else(|| number(args, &["end_line"]))) {
        (None, None) => String::new(),
        (Some(first), None) => format!(":{first}-"),
        (_, Some(last)) if last == begin => format!(":{last}"),
        (_, Some(last)) => format!(":{begin}-{last}"),
    }
}

/// Returns the text that a search looks for and its place, such as `"fn main" in src`.
fn search(args: &Value) -> Option<String> {
    let line = number(args, &["line"]).map(|line| format!(":{line}")).unwrap_or_default();
    let place = path(args).map(|path| path + &line);
    let places: Vec<String> = place.into_iter().chain(text(args, &["include"])).collect();
    let sought = text(args, &SOUGHT).map(|sought| format!("\"{}\"", sought.replace('"', "\\\"")));
    let place = (!places.is_empty()).then(|| places.join(", "));
    match (sought, place) {
        (Some(sought), Some(place)) => Some(format!("{sought} in {place}")),
        (sought, place) => sought.or(place),
    }
}

/// Returns the files of a patch, each with the lines that it adds and removes; `None` if it names no file.
fn patched(patch: &str) -> Option<String> {
    let mut files: Vec<(String, LineCounts)> = Vec::new();
    for line in patch.lines() {
        let header = ["*** Update File: ", "*** Add File: ", "*** Delete File: "].iter();
        if let Some(path) = header.filter_map(|header| line.strip_prefix(header)).next() {
            files.push((visible::line(path.trim()), LineCounts::default()));
        } else if let Some((_, counts)) = files.last_mut() {
            counts.added += u64::from(line.starts_with('+'));
            counts.removed += u64::from(line.starts_with('-'));
        }
    }
    let summary = |(path, counts): &(String, LineCounts)| format!("{path} {counts}").trim_end().to_owned();
    (!files.is_empty()).then(|| files.iter().map(summary).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subjects_name_lines_texts_and_places() {
        let check = |tool: &str, args: Value, expected: &str| assert_eq!(subject(tool, &args), expected, "{tool}");
        check("read_file", json!({"path": "core.py"}), "core.py");
        check("read_file", json!({"path": "core.py", "offset": 41, "limit": 40}), "core.py:41-80");
        check("read_file", json!({"path": "core.py", "offset": "7"}), "core.py:7-");
        check("read_file", json!({"path": "core.py", "limit": 40}), "core.py:1-40");
        check("read_file", json!({"path": "core.py", "offset": 9, "limit": 1}), "core.py:9");
        check("read_file", json!({"path": "a", "offset": u64::MAX, "limit": 9}), &format!("a:{}", u64::MAX));
        check("cat", json!({"file_path": "core.py", "start_line": 3, "end_line": 9}), "core.py:3-9");
        check("read_file", json!({"path": "a\u{202e}b\u{1b}[2J"}), r"a\u{202e}b\u{1b}[2J");
        check("grep", json!({"pattern": "def invoke", "path": "src"}), "\"def invoke\" in src");
        check("grep", json!({"path": "src", "query": "x", "include": "*.rs"}), "\"x\" in src, *.rs");
        check("grep", json!({"pattern": "say \"hi\"\n\u{200b}"}), "\"say \\\"hi\\\"⏎\\u{200b}\"");
        check("find_files", json!({"glob": "*.rs"}), "\"*.rs\"");
        check("list_workspace_files", json!({"path": "src", "depth": 2}), "src");
        check("list_workspace_files", json!({}), "");
        check("references", json!({"path": "a.rs", "line": 7, "symbol": "run"}), "\"run\" in a.rs:7");
        check("definition", json!({"path": "a.rs", "line": 7}), "a.rs:7");
        check("find_symbol", json!({"name": "Router"}), "\"Router\"");
        check("search_documents", json!({"query": "pump", "offset": 3, "path": "uploads"}), "\"pump\" in uploads");
        check("search_history", json!({"query": "pump"}), "\"pump\"");
        check("web_search", json!({"query": "rust pty"}), "\"rust pty\"");
        check("http_fetch", json!({"body": "x", "method": "POST", "url": "https://a.b"}), "https://a.b");
        check("mcp_x_find", json!({"query": "pump", "limit": 3}), "pump");
        check("grep", json!("{broken"), "{broken");
        check("grep", json!({"pattern": 7}), "");
    }

    #[test]
    fn ranges_are_split_from_their_file() {
        let check = |subject: &str, expected: Option<(&str, &str)>| assert_eq!(file_and_lines(subject), expected);
        check("a.rs:1-40", Some(("a.rs", "1-40")));
        check("a:7.rs:41-", Some(("a:7.rs", "41-")));
        check("a.rs", None);
        check("a.rs:", None);
        check("c:main.rs", None);
    }
}

//! Judges tools that change files, because some files are run by any program that opens their folder. Also judges tools
//! that send requests to servers, distinguishing fetches from requests that send data.

use std::path::Path;

use agentd_core::{
    guarded::GuardedNames,
    tool_table::{PathUse, ToolRow},
    web::{WebMethod, is_harmless_header},
};
use serde_json::{Map, Value};

use super::paths::is_secret;
use crate::opinion::{LayerVerdict, shortened, strictest};

/// Arguments in which tools take a path.
const PATH_KEYS: [&str; 8] = ["path", "file_path", "filepath", "filename", "file", "directory", "dir", "destination"];

/// Arguments in which tools take a patch.
const PATCH_KEYS: [&str; 3] = ["patch", "diff", "input"];

/// A session's folders, and the names in them that need approval to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteScope<'a> {
    pub(crate) roots: &'a [&'a Path],
    pub(crate) memories: Option<&'a Path>,
    pub(crate) guarded: &'a GuardedNames,
}

/// Returns the string values of these arguments.
fn texts<'a>(arguments: &'a Map<String, Value>, keys: &'static [&str]) -> impl Iterator<Item = &'a str> {
    let named = arguments.iter().filter(move |(key, _)| keys.contains(&key.as_str()));
    named.filter_map(|(_, value)| value.as_str())
}

/// Judges a call to a tool that changes files.
pub(crate) fn check(arguments: &Map<String, Value>, scope: WriteScope<'_>) -> Option<LayerVerdict> {
    let memories = scope.memories;
    let unnamed = texts(arguments, &PATCH_KEYS).any(|text| patched(text).next().is_none());
    let unnamed = unnamed.then(|| LayerVerdict::high("it is a patch without a file name"));
    let patched = arguments.values().filter_map(Value::as_str).flat_map(patched).flat_map(|named| named.check(scope));
    let named = texts(arguments, &PATH_KEYS)
        .flat_map(|named| path(named, scope.roots, scope.guarded).into_iter().chain(check_memory(named, memories)));
    strictest(named.chain(patched).chain(unnamed))
}

/// Judges a path in the folder shared by all sessions. Later sessions read the files there, so an attack that convinced
/// one model would reach all of them. The risk is high, so that no rule for the everyday use of a tool applies.
fn check_memory(path: &str, memories: Option<&Path>) -> Option<LayerVerdict> {
    let first = path.split('/').find(|part| !part.is_empty() && *part != ".");
    let is_in_memories =
        first == Some("memories") || memories.is_some_and(|memories| Path::new(path).starts_with(memories));
    is_in_memories.then(|| LayerVerdict::high(format!("{} is remembered in all later sessions", shortened(path))))
}

/// Returns true if a call only changes files in the session's own state. False if a real folder of the session is below
/// `/state`: its paths cannot be distinguished from those of the state.
pub(crate) fn only_state<'r>(
    tool: &str,
    arguments: &Map<String, Value>,
    mut real: impl Iterator<Item = &'r Path>,
) -> bool {
    if real.any(|root| root.starts_with("/state")) {
        return false;
    }
    let is_in_state = |path: &str| {
        let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        let plain = !path.contains(|c: char| c == '\\' || c.is_control());
        plain
            && path.starts_with('/')
            && parts.next() == Some("state")
            && parts.next().is_some()
            && !path.split('/').any(|part| part == "..")
    };
    let mut named = arguments.iter().filter(|(key, _)| PATH_KEYS.contains(&key.as_str())).peekable();
    // In another tool, `/state` may be a real folder.
    let is_ours = ToolRow::named(tool).is_some_and(|tool| tool.path == PathUse::Edited);
    is_ours && named.peek().is_some() && named.all(|(_, path)| path.as_str().is_some_and(is_in_state))
}

/// Returns the paths that a call's arguments name.
pub(crate) fn named(arguments: &str) -> Vec<String> {
    let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    texts(&arguments, &PATH_KEYS).map(str::to_owned).collect()
}

/// Returns the file names in a call's patches, as written there.
pub(crate) fn patched_names(arguments: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let texts = PATCH_KEYS.iter().filter_map(|key| arguments.get(*key)).filter_map(Value::as_str);
    texts.flat_map(patched).filter_map(|named| match named {
        PatchedName::Path(path) => Some(path),
        // An escaped name always requires a question.
        PatchedName::Escaped(_) => None,
    })
}

/// Judges a call to a tool that reads files.
pub(crate) fn reads(arguments: &Map<String, Value>) -> Option<LayerVerdict> {
    let secret = texts(arguments, &PATH_KEYS).filter(|path| is_secret(&path.to_lowercase().replace('\\', "/")));
    strictest(secret.map(|path| LayerVerdict::high(format!("{} looks like a secrets file", shortened(path)))))
}

/// A file name in a patch.
enum PatchedName<'t> {
    Path(&'t str),
    /// A line with escapes inside quotes, from which the tool would read a different name.
    Escaped(&'t str),
}

impl PatchedName<'_> {
    fn check(self, scope: WriteScope<'_>) -> impl Iterator<Item = LayerVerdict> {
        let (found, memory) = match self {
            Self::Path(named) => (path(named, scope.roots, scope.guarded), check_memory(named, scope.memories)),
            Self::Escaped(line) => {
                let rule = format!("{} has escapes, which can spell any name", shortened(line));
                (Some(LayerVerdict::high(rule)), None)
            }
        };
        found.into_iter().chain(memory)
    }
}

/// Returns the files that a patch names, in all known patch formats. Anything that may be a name is included.
fn patched(text: &str) -> impl Iterator<Item = PatchedName<'_>> {
    const MARKS: [&str; 11] = [
        "*** Add File:",
        "*** Update File:",
        "*** Delete File:",
        "*** Move to:",
        "+++ ",
        "--- ",
        "rename from ",
        "rename to ",
        "copy from ",
        "copy to ",
        GIT,
    ];
    const GIT: &str = "diff --git ";
    text.lines().flat_map(|line| {
        let found = MARKS.iter().find_map(|mark| Some((*mark, line.trim_start().strip_prefix(mark)?)));
        let names: Vec<PatchedName<'_>> = match found {
            Some((_, rest)) if rest.contains('"') && rest.contains('\\') => vec![PatchedName::Escaped(line)],
            // Text after the closing quote belongs to no name, or to another name.
            Some((_, rest)) if rest.contains('"') => {
                rest.split('"').chain([rest]).map(|name| PatchedName::Path(strip_side(name))).collect()
            }
            // The single name in `a/NAME b/NAME`. If there are two names, the whole text is checked, which includes the
            // folders of both and the end of the second. The tool uses neither name from this line.
            Some((GIT, rest)) => {
                let name = rest.len().checked_sub(1).and_then(|length| rest.get(2..length / 2));
                let name = name.filter(|name| rest.strip_suffix(name).is_some_and(|rest| rest.ends_with(" b/")));
                vec![PatchedName::Path(name.unwrap_or(rest).trim())]
            }
            Some((_, rest)) => vec![PatchedName::Path(strip_side(rest.split('\t').next().unwrap_or_default()))],
            None => Vec::new(),
        };
        names
    })
}

fn strip_side(name: &str) -> &str {
    let name = name.trim();
    name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name)
}

/// Judges one path that is written to. Within a session folder, each component is checked. The path of the folder
/// itself is only checked against the table.
pub(crate) fn path(path: &str, roots: &[&Path], guarded: &GuardedNames) -> Option<LayerVerdict> {
    let plain = |path: &str| {
        let path = path.replace('\\', "/");
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
    };
    let below = roots.iter().filter_map(|root| Path::new(path).strip_prefix(root).ok()?.to_str());
    let below = plain(below.min_by_key(|below| below.len()).unwrap_or(path));
    let whole = plain(path);
    if guarded.covers(below.as_bytes()) || guarded.names(whole.as_bytes()) {
        return Some(LayerVerdict::high(format!("{path} is run or read by other programs automatically")));
    }
    is_secret(&whole.to_lowercase()).then(|| LayerVerdict::high(format!("{path} looks like a secrets file")))
}

/// Describes a request that does more than fetch, for the approval prompt. A header can change the effect of a fetch,
/// so only known harmless headers are allowed.
pub(crate) fn sends(arguments: &Map<String, Value>) -> Option<String> {
    let method = match arguments.get("method") {
        None | Some(Value::Null) => WebMethod::Get,
        Some(name) => match name.as_str().and_then(WebMethod::of) {
            Some(method) => method,
            None => return Some("it sends a request not known in advance".to_owned()),
        },
    };
    if !method.is_fetch() {
        return Some(format!("it sends a {} request", method.as_str()));
    }
    if !matches!(arguments.get("body"), None | Some(Value::Null)) {
        return Some("it sends a body".to_owned());
    }
    let harmless = |name: &String| is_harmless_header(name);
    match arguments.get("headers") {
        None | Some(Value::Null) => None,
        Some(Value::Object(headers)) if headers.keys().all(harmless) => None,
        Some(_) => Some("it sends custom headers".to_owned()),
    }
}

/// Returns true if a call, as written, only fetches.
pub fn only_fetches(arguments: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(arguments).is_ok_and(|arguments| sends(&arguments).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetching_requests_are_distinguished_from_sending_ones() {
        let check = |arguments: &str, expected: Option<&str>| {
            let parsed: Map<String, Value> = serde_json::from_str(arguments).unwrap();
            assert_eq!(sends(&parsed).as_deref(), expected, "{arguments}");
            assert_eq!(only_fetches(arguments), expected.is_none(), "{arguments}");
        };
        check(r#"{"url":"http://a/"}"#, None);
        check(r#"{"url":"http://a/","method":" get ","body":null,"headers":{}}"#, None);
        check(r#"{"method":"HEAD","headers":{"Accept":"text/html","accept-language":"de"}}"#, None);
        check(r#"{"method":"POST"}"#, Some("it sends a POST request"));
        check(r#"{"method":"delete"}"#, Some("it sends a DELETE request"));
        check(r#"{"method":"OPTIONS"}"#, Some("it sends a OPTIONS request"));
        check(r#"{"method":"BREW"}"#, Some("it sends a request not known in advance"));
        check(r#"{"method":["GET"]}"#, Some("it sends a request not known in advance"));
        check(r#"{"body":"x"}"#, Some("it sends a body"));
        check(r#"{"headers":{"X-HTTP-Method-Override":"DELETE"}}"#, Some("it sends custom headers"));
        check(r#"{"headers":{"Authorization":"Bearer x"}}"#, Some("it sends custom headers"));
        check(r#"{"headers":"accept: x"}"#, Some("it sends custom headers"));
        // Of two equal keys, the last is used, as in the tool.
        check(r#"{"method":"GET","method":"POST"}"#, Some("it sends a POST request"));
        assert!(!only_fetches("nonsense") && !only_fetches("[]"));
    }
}

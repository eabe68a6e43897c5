//! Whether a request holds anything that hints at a tool.
//!
//! Scores compare likelihoods of the same words, and for words that fit nothing they compare noise: "What is a file
//! system?" is a little more like a search than like small talk. So a tool is weighed only when a word of the request
//! has to do with it. This also spares most of the time: a greeting is answered without weighing anything.

use super::{
    candidates::Tool,
    words::{is_glob, is_path_like, quoted, words},
};

/// Beginnings of words that have to do with the time.
const TIME: &[&str] = &[
    "time",
    "date",
    "day",
    "today",
    "tonight",
    "tomorrow",
    "yesterday",
    "now",
    "clock",
    "o'clock",
    "hour",
    "year",
    "month",
    "week",
    "late",
    "current",
];
/// Words that have to do with what is in the workspace.
const PLACES: &[&str] = &[
    "files",
    "folder",
    "folders",
    "directory",
    "directories",
    "workspace",
    "documents",
    "uploads",
    "uploaded",
    "upload",
    "ls",
    "dir",
    "list",
    "stored",
    "everything",
];
/// Words that ask to find something.
const FINDING: &[&str] = &[
    "find", "where", "locate", "search", "look", "named", "called", "exist", "exists", "any", "which", "files", "all",
];
/// Words that ask to find something inside of files.
const SEARCHING: &[&str] = &[
    "grep",
    "search",
    "find",
    "look",
    "contain",
    "contains",
    "containing",
    "mention",
    "mentions",
    "mentioning",
    "mentioned",
    "occur",
    "occurs",
    "occurrences",
    "where",
    "which",
    "says",
];

/// Returns whether the tool is worth weighing.
pub(crate) fn hints_at(tool: Tool, request: &str) -> bool {
    let lower = request.to_lowercase();
    let any = |list: &[&str]| words(&lower).any(|word| list.contains(&word));
    match tool {
        Tool::Now => words(&lower).any(|word| TIME.iter().any(|start| word.starts_with(start))),
        Tool::ListFiles => any(PLACES) || words(&lower).any(|word| word.ends_with('/')),
        Tool::FindFiles => any(FINDING) || words(&lower).any(|word| is_path_like(word) || is_glob(word)),
        Tool::Grep => any(SEARCHING) && (quoted(&lower).is_some() || words(&lower).count() > 1),
        Tool::SearchFile => false,
        // Its arguments are paths out of the request, which is hint enough.
        Tool::ReadFile => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_hinted_at_by_words() {
        let check = |request: &str, expected: &[Tool]| {
            let hinted: Vec<Tool> = Tool::ALL.into_iter().filter(|tool| hints_at(*tool, request)).collect();
            assert_eq!(hinted, [&[Tool::ReadFile], expected].concat(), "{request}");
        };
        check("Hello!", &[]);
        check("What is a file system?", &[]);
        check("What is 17 * 23?", &[]);
        check("What time is it?", &[Tool::Now]);
        check("List my files", &[Tool::ListFiles, Tool::FindFiles]);
        check("ls", &[Tool::ListFiles]);
        check("what is in src/?", &[Tool::ListFiles]);
        check("show notes.txt", &[Tool::FindFiles]);
        check("grep error", &[Tool::Grep]);
        check("Search for \"Anna\" today", &[Tool::Now, Tool::FindFiles, Tool::Grep]);
    }
}

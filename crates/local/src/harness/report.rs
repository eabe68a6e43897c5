//! Results of tools as answers: what they returned, to the letter, below a line that says what it is.

use super::{
    phrases::Language,
    readme,
    request::Outcome,
    wish::{PROJECT, Wish},
};

/// Lines of a list that are shown.
const LINES: usize = 100;
/// Characters of a text that are shown.
const CHARACTERS: usize = 6000;
/// Folders of a session that hold nothing of the person's.
const UNSEEN: [&str; 3] = ["skills/", "conversation_history/", "large_tool_results/"];
/// Folders that are there in each session, with anything in them or not.
const AREAS: [&str; 3] = ["uploads/", "outputs/", "temp/"];

/// The answer that shows the result of a call.
pub(crate) fn answer(language: &Language, wish: &Wish, outcome: &Outcome<'_>) -> String {
    if let Some(failure) = failure(outcome.text) {
        return language.filled("failed", &[("text", failure)]);
    }
    let text = outcome.text.trim();
    let path = outcome.argument("path");
    let in_file = |name: &str| language.filled(name, &[("path", path)]);
    match (outcome.tool, wish) {
        ("now", _) => time(language, text),
        ("find_files", Wish::Count(_)) => count(language, text),
        ("list_workspace_files", _) if path.is_empty() => all_files(language, text),
        ("list_workspace_files" | "find_files", _) => list(language, text),
        ("grep", _) if text.is_empty() || text.starts_with("No line matches ") => language.text("nothing").to_owned(),
        ("grep", _) => verbatim(language, language.text("lines"), text),
        ("read_file", _) if text.is_empty() || text.ends_with("is empty]") => in_file("empty"),
        ("read_file", Wish::Headings(_)) => {
            let headings = readme::headings(readme::without_front_matter(text));
            let line = |heading: &readme::Heading<'_>| format!("{}- {}", "  ".repeat(heading.level - 1), heading.title);
            let lines: Vec<String> = headings.iter().take(LINES).map(line).collect();
            if lines.is_empty() {
                in_file("no-headings")
            } else {
                format!("{}\n\n{}", in_file("headings"), lines.join("\n"))
            }
        }
        ("read_file", Wish::Install(_)) => match (readme::install_section(text), readme::opening(text)) {
            (Some(section), _) => quoted(language, &in_file("section"), section),
            (None, Some(opening)) => quoted(language, &in_file("no-section"), &opening),
            (None, None) => verbatim(language, &in_file("shown"), text),
        },
        ("read_file", Wish::Opening(_)) => match readme::opening(text) {
            Some(opening) => quoted(language, &in_file("opening"), &opening),
            None => verbatim(language, &in_file("shown"), text),
        },
        _ => verbatim(language, &in_file("shown"), text),
    }
}

/// The text of a failed call, without its code.
fn failure(text: &str) -> Option<&str> {
    let (code, rest) = text.split_once(": ")?;
    let name = code.strip_prefix("E_").filter(|name| !name.is_empty())?;
    name.bytes().all(|letter| letter.is_ascii_uppercase() || letter == b'_').then(|| rest.trim())
}

/// The time as a sentence, out of `Saturday, 2026-11-21T09:31:05+01:00 (Europe/Berlin)`.
fn time(language: &Language, text: &str) -> String {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let parts = text.split_once(", ").and_then(|(day, rest)| {
        let (date, rest) = rest.split_once('T')?;
        let day = language.day(DAYS.iter().position(|name| *name == day)?)?;
        let zone = rest.find(" (").map_or("", |at| &rest[at..]);
        Some((day, date, rest.get(..5)?, zone))
    });
    match parts {
        Some((day, date, time, zone)) => {
            language.filled("time", &[("day", day), ("date", date), ("time", time), ("zone", zone)])
        }
        None => text.to_owned(),
    }
}

/// Paths as a list, and the notes of the tool below it.
fn list(language: &Language, text: &str) -> String {
    let is_note = |line: &&str| line.starts_with('[') || line.starts_with("No file matches");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let (notes, entries): (Vec<&str>, Vec<&str>) = lines.partition(is_note);
    let mut shown: Vec<String> = entries.iter().take(LINES).map(|entry| format!("- {entry}")).collect();
    if let Some(more) = entries.len().checked_sub(LINES + 1) {
        shown.push(format!("- {}", language.filled("more", &[("count", &(more + 1).to_string())])));
    }
    let head = if shown.is_empty() { language.text("nothing") } else { language.text("files") };
    let blocks = [head.to_owned(), shown.join("\n"), notes.join("\n")];
    blocks.iter().filter(|block| !block.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n\n")
}

/// All files of a session, without what the daemon keeps beside them.
fn all_files(language: &Language, text: &str) -> String {
    let lines = || text.lines().map(str::trim_end).filter(|line| !UNSEEN.iter().any(|unseen| line.starts_with(unseen)));
    if lines().all(|line| AREAS.contains(&line) || line.is_empty()) {
        return language.text("none").to_owned();
    }
    let is_empty = |area: &str| !lines().any(|line| line.len() > area.len() && line.starts_with(area));
    let kept: Vec<&str> = lines().filter(|line| !(AREAS.contains(line) && is_empty(line))).collect();
    list(language, &kept.join("\n"))
}

/// The number of files that a search found, those included that it did not show.
fn count(language: &Language, text: &str) -> String {
    let listed = text.lines().filter(|line| line.ends_with(')') && !line.starts_with('[')).count();
    let more = text.lines().find_map(|line| line.strip_prefix('[')?.split_once(" match; ")?.0.parse::<usize>().ok());
    let is_cut = text.lines().any(|line| line.starts_with("[the search is not complete"));
    let least = if is_cut { format!(" {}", language.text("least")) } else { String::new() };
    language.filled("count", &[("count", &more.unwrap_or(listed).to_string()), ("least", &least)])
}

/// The beginning of a text, and the number of characters behind it.
fn beginning(text: &str) -> (&str, usize) {
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    }
}

/// A text as it is, inside a fence that nothing in it can close.
fn verbatim(language: &Language, head: &str, text: &str) -> String {
    let (shown, left) = beginning(text);
    let longest = shown.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{head}\n\n{fence}\n{}\n{fence}{}", shown.trim_end(), rest(language, left))
}

/// A passage of Markdown as a quote.
fn quoted(language: &Language, head: &str, text: &str) -> String {
    let (shown, left) = beginning(text.trim());
    let lines: Vec<String> = shown.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    format!("{head}\n\n{}{}", lines.join("\n"), rest(language, left))
}

fn rest(language: &Language, left: usize) -> String {
    match left {
        0 => String::new(),
        left => format!("\n\n{}", language.filled("rest", &[("count", &left.to_string())])),
    }
}

/// Arguments that list what people see as all of their files: of a large project the first level.
pub(crate) fn everything(paths: &[String]) -> serde_json::Value {
    /// Files of a project above which only its first level is listed.
    const OVERVIEW: usize = 60;
    let in_view = paths.iter().filter(|path| path.starts_with(PROJECT)).count();
    let project = PROJECT.trim_end_matches('/');
    match in_view {
        0 => serde_json::json!({}),
        // Beside the project there is what was handed over.
        _ if in_view < paths.len() => serde_json::json!({}),
        1..=OVERVIEW => serde_json::json!({ "path": project }),
        _ => serde_json::json!({ "path": project, "depth": 1 }),
    }
}

//! Tool results as answers: verbatim output under a heading, and the parts of a README, namely title and first
//! paragraph, headings, and the install section.

use super::{
    Outcome,
    phrases::Language,
    request_kind::{PROJECT, RequestKind},
};

/// Maximum number of shown list entries.
const MAX_LINES: usize = 100;
/// Maximum number of shown characters.
const MAX_CHARACTERS: usize = 6000;
/// Session folders that contain no user files.
const HIDDEN_FOLDERS: [&str; 3] = ["skills/", "conversation_history/", "large_tool_results/"];
/// Folders that exist in every session, even if empty.
const AREAS: [&str; 3] = ["uploads/", "outputs/", "temp/"];

/// Returns the answer that shows the result of a tool call.
pub(crate) fn answer(language: &Language, request_kind: &RequestKind, outcome: &Outcome<'_>) -> String {
    if let Some(failure) = failure(outcome.text) {
        return language.fill("failed", &[("text", failure)]);
    }
    let text = outcome.text.trim();
    let path = outcome.argument("path");
    let in_file = |name: &str| language.fill(name, &[("path", path)]);
    match (outcome.tool, request_kind) {
        ("now", _) => time(language, text),
        ("find_files", RequestKind::Count(_)) => count(language, text),
        ("list_workspace_files", _) if path.is_empty() => all_files(language, text),
        ("list_workspace_files" | "find_files", _) => list(language, text),
        ("grep", _) if text.is_empty() || text.starts_with("No line matches ") => language.text("nothing").to_owned(),
        ("grep", _) => format_verbatim(language, language.text("lines"), text),
        ("read_file", _) if text.is_empty() || text.ends_with("is empty]") => in_file("empty"),
        ("read_file", RequestKind::Headings(_)) => {
            let headings = headings(without_front_matter(text));
            let line = |heading: &Heading<'_>| format!("{}- {}", "  ".repeat(heading.level - 1), heading.title);
            let lines: Vec<String> = headings.iter().take(MAX_LINES).map(line).collect();
            if lines.is_empty() {
                in_file("no-headings")
            } else {
                format!("{}\n\n{}", in_file("headings"), lines.join("\n"))
            }
        }
        ("read_file", RequestKind::Install(_)) => match (install_section(text), opening(text)) {
            (Some(section), _) => format_quote(language, &in_file("section"), section),
            (None, Some(opening)) => format_quote(language, &in_file("no-section"), &opening),
            (None, None) => format_verbatim(language, &in_file("shown"), text),
        },
        ("read_file", RequestKind::Opening(_)) => match opening(text) {
            Some(opening) => format_quote(language, &in_file("opening"), &opening),
            None => format_verbatim(language, &in_file("shown"), text),
        },
        _ => format_verbatim(language, &in_file("shown"), text),
    }
}

/// Returns the message of a failed call without the error code.
fn failure(text: &str) -> Option<&str> {
    let (code, rest) = text.split_once(": ")?;
    let name = code.strip_prefix("E_").filter(|name| !name.is_empty())?;
    name.bytes().all(|letter| letter.is_ascii_uppercase() || letter == b'_').then(|| rest.trim())
}

/// Formats the time as a sentence, from `Saturday, 2026-11-21T09:31:05+01:00 (Europe/Berlin)`.
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
            language.fill("time", &[("day", day), ("date", date), ("time", time), ("zone", zone)])
        }
        None => text.to_owned(),
    }
}

/// Formats paths as a list, followed by the tool's notes.
fn list(language: &Language, text: &str) -> String {
    let is_note = |line: &&str| line.starts_with('[') || line.starts_with("No file matches");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let (notes, entries): (Vec<&str>, Vec<&str>) = lines.partition(is_note);
    let mut shown: Vec<String> = entries.iter().take(MAX_LINES).map(|entry| format!("- {entry}")).collect();
    if let Some(more) = entries.len().checked_sub(MAX_LINES + 1) {
        shown.push(format!("- {}", language.fill("more", &[("count", &(more + 1).to_string())])));
    }
    let head = if shown.is_empty() { language.text("nothing") } else { language.text("files") };
    let blocks = [head.to_owned(), shown.join("\n"), notes.join("\n")];
    blocks.iter().filter(|block| !block.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n\n")
}

/// Formats all files in a session, except for the folders in `HIDDEN_FOLDERS` and empty areas.
fn all_files(language: &Language, text: &str) -> String {
    let lines =
        || text.lines().map(str::trim_end).filter(|line| !HIDDEN_FOLDERS.iter().any(|unseen| line.starts_with(unseen)));
    if lines().all(|line| AREAS.contains(&line) || line.is_empty()) {
        return language.text("none").to_owned();
    }
    let is_empty = |area: &str| !lines().any(|line| line.len() > area.len() && line.starts_with(area));
    let shown_lines: Vec<&str> = lines().filter(|line| !(AREAS.contains(line) && is_empty(line))).collect();
    list(language, &shown_lines.join("\n"))
}

/// Returns the number of files that a search found, including unlisted files.
fn count(language: &Language, text: &str) -> String {
    let listed = text.lines().filter(|line| line.ends_with(')') && !line.starts_with('[')).count();
    let more = text.lines().find_map(|line| line.strip_prefix('[')?.split_once(" match; ")?.0.parse::<usize>().ok());
    let is_cut = text.lines().any(|line| line.starts_with("[the search is not complete"));
    let least = if is_cut { format!(" {}", language.text("least")) } else { String::new() };
    language.fill("count", &[("count", &more.unwrap_or(listed).to_string()), ("least", &least)])
}

/// Returns the beginning of a text, and the number of remaining characters.
fn beginning(text: &str) -> (&str, usize) {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    }
}

/// Formats a text in a code fence that its content cannot close.
fn format_verbatim(language: &Language, head: &str, text: &str) -> String {
    let (shown, left) = beginning(text);
    let longest = shown.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{head}\n\n{fence}\n{}\n{fence}{}", shown.trim_end(), rest(language, left))
}

/// Formats a Markdown passage as a quote.
fn format_quote(language: &Language, head: &str, text: &str) -> String {
    let (shown, left) = beginning(text.trim());
    let lines: Vec<String> = shown.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    format!("{head}\n\n{}{}", lines.join("\n"), rest(language, left))
}

fn rest(language: &Language, left: usize) -> String {
    match left {
        0 => String::new(),
        left => format!("\n\n{}", language.fill("rest", &[("count", &left.to_string())])),
    }
}

/// Returns the arguments for listing all visible files. For a large project, only the first level is listed.
pub(crate) fn list_arguments(paths: &[String]) -> serde_json::Value {
    /// Number of project files above which only the first level is listed.
    const MAX_FULL_LISTING: usize = 60;
    let in_view = paths.iter().filter(|path| path.starts_with(PROJECT)).count();
    let project = PROJECT.trim_end_matches('/');
    match in_view {
        0 => serde_json::json!({}),
        // There are uploaded files in addition to the project.
        _ if in_view < paths.len() => serde_json::json!({}),
        1..=MAX_FULL_LISTING => serde_json::json!({ "path": project }),
        _ => serde_json::json!({ "path": project, "depth": 1 }),
    }
}

/// Heading with the line where its section starts.
#[derive(Debug, PartialEq)]
struct Heading<'a> {
    level: usize,
    title: &'a str,
    line: usize,
}

/// Returns all headings outside code, in both Markdown syntaxes and HTML. Expects a text without front matter.
fn headings(text: &str) -> Vec<Heading<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut fence: Option<&str> = None;
    let mut headings = Vec::new();
    for (number, line) in lines.iter().map(|line| line.trim()).enumerate() {
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark)) {
            fence = if fence.is_none() { Some(mark) } else { fence.filter(|open| *open != mark) };
            continue;
        }
        if fence.is_some() {
            continue;
        }
        let marks = line.len() - line.trim_start_matches('#').len();
        let title = line.trim_matches('#').trim();
        let is_ruler = |sign: char| line.len() > 2 && line.chars().all(|letter| letter == sign);
        let previous_line = number.checked_sub(1).map(|previous_line| lines[previous_line].trim());
        let previous_line = previous_line.filter(|previous_line| {
            previous_line.chars().any(char::is_alphanumeric) && !previous_line.starts_with(['#', '<', '-', '|', '>'])
        });
        let html = line.strip_prefix("<h").and_then(|rest| rest.chars().next()?.to_digit(10));
        if (1..=6).contains(&marks) && line[marks..].starts_with(' ') && !title.is_empty() {
            headings.push(Heading { level: marks, title, line: number });
        } else if let (Some(previous_line), true) = (previous_line, is_ruler('=') || is_ruler('-')) {
            headings.push(Heading { level: if is_ruler('=') { 1 } else { 2 }, title: previous_line, line: number });
        } else if let Some(level @ 1..=6) = html {
            let inner =
                line.split('<').filter_map(|part| Some(part.split_once('>')?.1.trim())).find(|text| !text.is_empty());
            headings.extend(inner.map(|title| Heading { level: level as usize, title, line: number }));
        }
    }
    headings
}

/// Returns the install section with its heading, up to the next heading of the same or a higher level.
fn install_section(text: &str) -> Option<&str> {
    let text = without_front_matter(text);
    let headings = headings(text);
    // The title may also match, as in "Installer of things".
    let named = headings.iter().position(|heading| heading.level > 1 && Language::is_install_title(heading.title));
    let at = named.or_else(|| headings.iter().position(|heading| Language::is_install_title(heading.title)))?;
    let first = &headings[at];
    let end = headings[at + 1..].iter().find(|heading| heading.level <= first.level);
    let offset = |line: usize| text.split_inclusive('\n').take(line).map(str::len).sum::<usize>();
    // The line of an underlined heading is below its title.
    let is_underlined = |heading: &Heading<'_>| {
        text.lines().nth(heading.line).is_some_and(|line| line.trim().chars().all(|letter| matches!(letter, '=' | '-')))
    };
    let start = |heading: &Heading<'_>| offset(heading.line.saturating_sub(usize::from(is_underlined(heading))));
    Some(text[start(first)..end.map_or(text.len(), start)].trim_end())
}

/// Returns the title of a text and its first paragraph of prose.
fn opening(text: &str) -> Option<String> {
    let text = without_front_matter(text);
    let headings = headings(text);
    let title = headings.first();
    let mut is_comment = false;
    let mut fence = false;
    let mut paragraph: Vec<String> = Vec::new();
    for (number, line) in text.lines().map(str::trim).enumerate() {
        is_comment |= line.starts_with("<!--");
        fence ^= line.starts_with("```") || line.starts_with("~~~");
        let is_heading = headings.iter().any(|heading| heading.line == number || heading.title == line);
        let prose = Some(prose(line)).filter(|_| !is_comment && !fence && !is_heading);
        match prose.filter(|prose| prose.chars().filter(|letter| letter.is_alphabetic()).count() > 3) {
            Some(prose) => paragraph.push(prose),
            None if !paragraph.is_empty() => break,
            None => {}
        }
        is_comment &= !line.contains("-->");
    }
    let title = title.map(|title| format!("**{}**", title.title));
    let parts: Vec<String> = title.into_iter().chain([paragraph.join("\n")]).filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Returns a line without HTML tags. Empty if the line is a table row, an image, a row of badges or links, or a note
/// from a tool.
fn prose(line: &str) -> String {
    let is_other = line.starts_with(['|', '`', '~']) || line.starts_with('[') && line.ends_with(']');
    let mut plain = String::new();
    let (mut depth, mut outside) = (0_usize, 0_usize);
    let mut tag = false;
    for letter in line.chars() {
        match letter {
            '<' => tag = true,
            '>' if tag => tag = false,
            _ if tag => continue,
            letter => plain.push(letter),
        }
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            letter if depth == 0 && !tag && letter.is_alphabetic() => outside += 1,
            _ => {}
        }
    }
    if is_other || outside < 4 { String::new() } else { plain.trim().to_owned() }
}

/// Removes YAML front matter.
fn without_front_matter(text: &str) -> &str {
    let Some(rest) = text.trim_start().strip_prefix("---").filter(|rest| rest.starts_with(['\n', '\r'])) else {
        return text;
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        if matches!(line.trim_end(), "---" | "...") && at > line.len() {
            return rest[at..].trim_start();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_is_the_title_and_first_whole_paragraph() {
        let check = |text: &str, expected: &str| assert_eq!(opening(text).as_deref(), Some(expected), "{text}");
        check("# A\n\n[![x](y)](z)\n\nOne line\nand two.\n\nMore.", "**A**\n\nOne line\nand two.");
        check("---\ntitle: x\n---\nTitle\n=====\n\nIt works.", "**Title**\n\nIt works.");
        check(
            "<h1 align=\"center\">Big</h1>\n<p align=\"center\">\n  <img src=\"a.png\">\n</p>\n\n[English](a) | [中文](b)\n\nIt is fast.",
            "**Big**\n\nIt is fast.",
        );
        check("<!-- a comment\nof two lines -->\n# B\n\n```\nrun it\n```\n\nText is here.", "**B**\n\nText is here.");
        check("Only prose is here.\n", "Only prose is here.");
        assert_eq!(opening("```\nx\n```"), None);
    }

    #[test]
    fn install_section_ends_at_the_next_sibling_heading() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(install_section(text), expected, "{text}");
        check(
            "# A\n## Install\n```\n# no heading\nx\n```\n### More\ny\n## Use\nz",
            Some("## Install\n```\n# no heading\nx\n```\n### More\ny"),
        );
        check("A\n=\n\nInstallation\n------------\n\nmake\n\nUse\n---\nz", Some("Installation\n------------\n\nmake"));
        check("# 工具\n\n## 安装\n\npip\n", Some("## 安装\n\npip"));
        check("# A\n\n## Use\n", None);
        let twice = "---\na: b\n---\n---\nc: d\n---\n# Install\nmake\n# Use\nx";
        check(twice, Some("# Install\nmake"));
    }

    #[test]
    fn headings_are_found_in_all_forms() {
        let levels = |text| headings(text).iter().map(|heading| (heading.level, heading.title)).collect::<Vec<_>>();
        assert_eq!(levels("# A #\n~~~\n# b\n~~~\nC\n---\n<h3>D</h3>\n#no\n---\n"), [(1, "A"), (2, "C"), (3, "D")]);
    }
}

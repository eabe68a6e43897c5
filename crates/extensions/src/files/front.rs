//! Parses the front matter of a `SKILL.md`. The front matter describes a skill without its instructions.
//!
//! Skills come from many systems, so unknown keys are skipped, and sloppy values are accepted if they are
//! unambiguous. Problems are reported with line numbers.

use agentd_core::guide::is_skill_name;
use agentd_workspace::text::first_chars;
use serde_json::{Map, Value};

/// Name of the file that makes a folder a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";
/// Maximum size of front matter, in bytes.
pub(crate) const MAX_FRONT: usize = 16 << 10;
/// Usual maximum length of a description, in characters. Longer descriptions get a note.
const MAX_DESCRIPTION: usize = 1024;
/// Maximum length of a description passed to models, in characters.
pub(crate) const MAX_LISTED_DESCRIPTION: usize = 300;
/// Keys whose invalid YAML makes the whole skill invalid, because without one of them it would be a different skill.
const KEYS: [&str; 4] = ["name", "description", "dependencies", "requirements"];
/// Keys from other systems, which have no effect here.
const IGNORED_KEYS: &str = "agent argument-hint author category compatibility context disable-model-invocation homepage hooks \
    metadata model tags user-invocable version";
/// Maximum number of packages that a skill can need.
const MAX_DEPENDENCIES: usize = 100;

/// Parsed front matter of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Front {
    /// Name in the front matter; `None` for the name of the folder.
    pub(crate) name: Option<String>,
    /// Purpose of the skill, in one line.
    pub(crate) description: String,
    pub(crate) license: Option<String>,
    /// Tools that the skill claims to use. Informational only; the list permits nothing.
    pub(crate) allowed_tools: Vec<String>,
    /// Python packages that the skill's scripts need, as written.
    pub(crate) dependencies: Vec<String>,
    /// Problems that do not prevent the use of the skill.
    pub(crate) notes: Vec<Flaw>,
}

/// Problem in a line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// Line number from 1, or 0 for no particular line.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl Flaw {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// Parses the front matter at the beginning of a `SKILL.md`.
///
/// # Errors
/// Returns the reason why the skill is invalid.
pub(crate) fn front(text: &str) -> Result<Front, Flaw> {
    let (yaml, _) = between_lines(text)?;
    let mut front = Front::default();
    let fields = fields(yaml, &KEYS, &mut front.notes)?;
    let line = |key: &str| {
        let begins = |line: &str| line.trim_matches(['"', '\'']).starts_with(key) && line.contains(':');
        yaml.lines().position(begins).map_or(1, |index| index + 2)
    };
    let text = |key: &str, value: &Value| match scalar(value) {
        Some(text) => Ok(single_line(&text)),
        None => Err(Flaw::new(line(key), format!("`{key}` must be a string"))),
    };
    for (key, value) in &fields {
        match (key.as_str(), value) {
            (_, Value::Null) => {}
            ("name", value) => front.name = Some(text(key, value)?),
            ("description", value) => front.description = text(key, value)?,
            ("license", value) => front.license = scalar(value),
            ("allowed-tools" | "allowed_tools" | "tools", value) => front.allowed_tools = list(value),
            ("dependencies" | "requirements", value) => front.dependencies = list(value),
            (other, _) if IGNORED_KEYS.split(' ').any(|key| key == other) => {}
            (other, _) => front.notes.push(Flaw::new(line(key), format!("unknown key `{}`", first_chars(other, 40).0))),
        }
    }
    if front.name.as_ref().is_some_and(String::is_empty) {
        return Err(Flaw::new(line("name"), "`name` is empty; write a short name, or omit it"));
    }
    if front.description.is_empty() {
        let at = if fields.contains_key("description") { line("description") } else { 1 };
        return Err(Flaw::new(
            at,
            "missing `description`; describe in a sentence what the skill is for and when to use it",
        ));
    }
    let length = front.description.chars().count();
    if length > MAX_DESCRIPTION {
        let message = format!(
            "`description` has {length} characters; {MAX_DESCRIPTION} is the recommended limit, and models see the first {MAX_LISTED_DESCRIPTION}"
        );
        front.notes.push(Flaw::new(line("description"), message));
    }
    if front.dependencies.len() > MAX_DEPENDENCIES {
        return Err(Flaw::new(
            line("dependencies"),
            format!("a skill can require at most {MAX_DEPENDENCIES} packages"),
        ));
    }
    Ok(front)
}

/// Returns the name of a skill: from its front matter if valid, otherwise from its folder.
pub(crate) fn name(front: &Front, entry: &str) -> Option<String> {
    let own = front.name.as_deref().filter(|name| is_skill_name(name));
    own.or_else(|| is_skill_name(entry).then_some(entry)).map(str::to_owned)
}

/// Markdown file with front matter.
#[derive(Debug)]
pub(crate) struct MarkdownParts<'a> {
    pub(crate) fields: Map<String, Value>,
    /// Text after the front matter.
    pub(crate) body: &'a str,
    /// Problems that do not prevent the use of the file.
    pub(crate) notes: Vec<Flaw>,
}

impl<'a> MarkdownParts<'a> {
    /// Parses the file. Invalid values of keys not among `keys` are skipped.
    ///
    /// # Errors
    /// Fails if there is no valid front matter.
    pub(crate) fn of(text: &'a str, keys: &[&str]) -> Result<Self, Flaw> {
        let (yaml, body) = between_lines(text)?;
        let mut notes = Vec::new();
        let fields = fields(yaml, keys, &mut notes)?;
        Ok(Self { fields, body, notes })
    }
}

/// Returns the text between the first two `---` lines, and the text after them.
fn between_lines(text: &str) -> Result<(&str, &str), Flaw> {
    let missing = || {
        Flaw::new(1, "it does not start with front matter: a line `---`, then `name:` and `description:`, then `---`")
    };
    let rest = text.trim_start_matches('\u{feff}').strip_prefix("---").ok_or_else(missing)?;
    let start = rest.find('\n').ok_or_else(missing)?;
    if !rest[..start].trim().is_empty() {
        return Err(missing());
    }
    let body = &rest[start + 1..];
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok((&body[..at], &body[at + line.len()..]));
        }
        at += line.len();
    }
    Err(Flaw::new(1, format!("the front matter is not closed by a line `---` within {} KB", MAX_FRONT >> 10)))
}

fn fields(yaml: &str, keys: &[&str], notes: &mut Vec<Flaw>) -> Result<Map<String, Value>, Flaw> {
    let whole = match parsed(yaml, 2) {
        Ok(fields) => return Ok(fields),
        Err(flaw) => flaw,
    };
    // Sloppy YAML: an error in one key must not discard the others.
    let mut fields = Map::new();
    let blocks = blocks(yaml);
    if blocks.is_empty() {
        return Err(whole);
    }
    for (line, key, block) in blocks {
        let is_used = keys.contains(&key);
        let (found, flaw) = match parsed(block, line) {
            Ok(found) => (Some(found), None),
            // Many descriptions contain a colon and are not quoted.
            Err(flaw) => (parsed(&quote_values(block), line).ok(), Some(flaw)),
        };
        match (found, flaw) {
            (Some(found), _) if is_used && found.keys().any(|key| fields.contains_key(key)) => return Err(whole),
            (None, Some(flaw)) if is_used => return Err(flaw),
            (found, flaw) => {
                let hint = if found.is_some() { "quote the text" } else { "the key is ignored" };
                notes.extend(flaw.map(|flaw| Flaw::new(flaw.line, format!("{}; {hint}", flaw.message))));
                fields.extend(found.unwrap_or_default());
            }
        }
    }
    Ok(fields)
}

/// Parses YAML that begins at line `first` of the file.
fn parsed(yaml: &str, first: usize) -> Result<Map<String, Value>, Flaw> {
    serde_saphyr::from_str(yaml).map_err(|error: serde_saphyr::Error| {
        let at = error.location().and_then(|at| usize::try_from(at.line()).ok());
        let text = error.without_snippet().to_string();
        let text = text.lines().next().unwrap_or_default().split(" at line ").next().unwrap_or_default();
        let message = format!("the front matter is not valid YAML: {}", text.trim_end_matches([',', ' ']));
        Flaw::new(at.map_or(0, |at| at + first - 1), message)
    })
}

/// Returns the top-level keys, each with its line number and its text up to the next key.
fn blocks(yaml: &str) -> Vec<(usize, &str, &str)> {
    let mut starts = Vec::new();
    let mut at = 0;
    for (index, line) in yaml.split_inclusive('\n').enumerate() {
        let key = line.split_once(':').map(|(key, _)| key.trim_matches(['"', '\'', ' ']));
        if let Some(key) = key.filter(|_| !line.starts_with([' ', '\t', '#', '-'])) {
            starts.push((index + 2, key, at));
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(.., start)| *start).chain([yaml.len()]);
    starts.iter().zip(ends).map(|((line, key, start), end)| (*line, *key, &yaml[*start..end])).collect()
}

/// Quotes the values of known keys if they are unquoted and on one line.
fn quote_values(yaml: &str) -> String {
    let mut out = String::with_capacity(yaml.len() + 8);
    for line in yaml.split_inclusive('\n') {
        let bare = line.trim_end();
        let value = ["name:", "description:", "license:", "compatibility:"].iter().find_map(|key| {
            let value = bare.strip_prefix(key)?.trim();
            let is_plain = !value.is_empty() && !value.starts_with(['"', '\'', '>', '|', '[', '{', '&', '*']);
            is_plain.then_some((key, value))
        });
        match value {
            Some((key, value)) => out.push_str(&format!("{key} '{}'\n", value.replace('\'', "''"))),
            None => out.push_str(line),
        }
    }
    out
}

pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        _ => None,
    }
}

/// Parses a list, or text separated by commas or line breaks.
pub(crate) fn list(value: &Value) -> Vec<String> {
    let parts: Vec<String> = match value {
        Value::Array(values) => values.iter().filter_map(scalar).collect(),
        Value::String(text) if text.contains(['\n', ',']) => split_list(text),
        Value::String(text) => vec![text.clone()],
        Value::Object(fields) => fields.get("python").or_else(|| fields.get("pip")).map(list).unwrap_or_default(),
        _ => Vec::new(),
    };
    parts.iter().map(|part| single_line(part)).filter(|part| !part.is_empty()).collect()
}

/// Splits at commas and line ends, but not inside brackets, as in `requests[socks,security]`.
fn split_list(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_u32;
    for letter in text.chars() {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if letter == '\n' || (letter == ',' && depth == 0) {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts
}

fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Quotes external text for a message.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", first_chars(text, 60).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(Option<&str>, &str), (usize, &str)>) {
        match (front(text), expected) {
            (Ok(front), Ok((name, description))) => {
                assert_eq!((front.name.as_deref(), front.description.as_str()), (name, description), "{text:?}");
            }
            (Err(flaw), Err((line, part))) => {
                assert!(flaw.line == line && flaw.message.contains(part), "{text:?}: {flaw:?}");
            }
            (found, _) => panic!("{text:?}: {found:?}"),
        }
    }

    #[test]
    fn name_and_description_are_read_from_front_matter() {
        check("---\nname: pdf\ndescription: Fill in forms\n---\n# How\n", Ok((Some("pdf"), "Fill in forms")));
        check("---\r\ndescription: Fill in forms\r\n---\r\n", Ok((None, "Fill in forms")));
        check("---\nname: a\ndescription: >\n  two\n  lines\nlicense: MIT\n---\n", Ok((Some("a"), "two lines")));
        check("---\ndescription: \"---\"\n---\n", Ok((None, "---")));
        check("---\nname: 7\ndescription: seven\n---\n", Ok((Some("7"), "seven")));
        check(
            "---\nname: a\ndescription: Use this: always, it's good\n---\n",
            Ok((Some("a"), "Use this: always, it's good")),
        );
        check("# no front matter\n", Err((1, "does not start with front matter")));
        check("---\nname: never closed\ndescription: x\n", Err((1, "not closed")));
        check("---\nname: a\ndependencies: [broken\n---\n", Err((3, "not valid YAML")));
        check("---\nname: [a]\ndescription: x\n---\n", Err((2, "`name` must be a string")));
        check("---\nname: a\n---\n", Err((1, "missing `description`")));
        check("---\nname: a\ndescription: ' '\n---\n", Err((3, "missing `description`")));
        check("---\nname: ''\ndescription: x\n---\n", Err((2, "`name` is empty")));
        check("---\n- a\n- b\n---\n", Err((2, "not valid YAML")));
        check("", Err((1, "does not start")));
        check("---", Err((1, "does not start")));
    }

    #[test]
    fn invalid_foreign_keys_are_ignored() {
        let harmless = [
            "argument-hint: [a] [b]\n",
            "argument-hint: [a] [b]\ndescription: Also: with a colon\n",
            "hooks: {a: {\nb\n",
            "allowed-tools: [Read] [Write]\n",
            "\"color\": \"open\n",
            "metadata:\n  a: 1\n b: 2\n",
        ];
        for line in harmless {
            let described = if line.contains("description") { "" } else { "description: Sums\n" };
            for text in
                [format!("---\nname: a\n{line}{described}---\n"), format!("---\n{described}{line}name: a\n---\n")]
            {
                let front = front(&text).unwrap_or_else(|flaw| panic!("{text}: {flaw:?}"));
                assert!(front.name.as_deref() == Some("a") && !front.description.is_empty(), "{text}: {front:?}");
                assert!(front.notes.iter().any(|note| note.message.contains("not valid YAML")), "{text}: {front:?}");
            }
        }
        // The dependencies of a skill are not guessed.
        check("---\nname: a\ndependencies: [x] [y]\ndescription: x\n---\n", Err((3, "not valid YAML")));
        check("---\nname: a\nname: b\ncolor: [x] [y]\ndescription: x\n---\n", Err((3, "not valid YAML")));
    }

    #[test]
    fn front_matter_of_other_systems_is_accepted() {
        let text = "---\nname: docx\ndescription: Word files\nlicense: Proprietary\nallowed-tools: Read, Bash(git:*)\n\
                    dependencies: python>=3.8, requests[socks,security]>=2\nmetadata:\n  version: 1\nfancy: yes\n---\n";
        let front = front(text).unwrap();
        assert_eq!(front.allowed_tools, ["Read", "Bash(git:*)"]);
        assert_eq!(front.dependencies, ["python>=3.8", "requests[socks,security]>=2"]);
        assert_eq!(front.notes, [Flaw::new(9, "unknown key `fancy`")]);
        let listed = super::front("---\ndescription: x\ndependencies:\n  - pypdf\n  - 'lxml>=5'\n---\n").unwrap();
        assert_eq!(listed.dependencies, ["pypdf", "lxml>=5"]);
        let long = super::front(&format!("---\ndescription: {}\n---\n", "ä ".repeat(1000))).unwrap();
        assert!(long.notes[0].message.contains("characters"), "{:?}", long.notes);
    }
}

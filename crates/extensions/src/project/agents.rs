//! Agents in a project: Markdown files with front matter and a prompt as their body, and `agents.yaml` in the format of
//! the configuration. No side effects.
//!
//! Files come from many systems: they may use other names for tools and the model, and keys that agentd does not use
//! are skipped. Variables are not expanded, and no other file is read.

use agentd_core::{agent::AgentCard, model::Slot, project::ProjectProblem, tool_table::ToolRow};
use agentd_workspace::text::first_chars;
use serde_json::{Map, Value};

use super::folder::{AGENTS, AGENTS_FILE, ProjectFolder};
use crate::files::{
    agreed_folder::ProblemList as _,
    front::{MarkdownParts, list, scalar, shown},
};

/// Maximum number of agents in a project, since each is described in every request.
const MAX_AGENTS: usize = 50;
/// Maximum number of steps per agent.
const MAX_STEPS: u64 = 1000;

/// Keys that agentd uses. An unreadable value rejects the agent, because the agent could otherwise have more
/// permissions than intended.
const KEYS: [&str; 15] = [
    "name",
    "id",
    "description",
    "prompt",
    "prompt_file",
    "enabled",
    "tools",
    "allowed-tools",
    "allowed_tools",
    "skills",
    "slot",
    "model",
    "max_steps",
    "maxTurns",
    "max_turns",
];
/// Keys from other systems that are ignored.
const IGNORED_KEYS: [&str; 9] =
    ["color", "version", "author", "license", "metadata", "tags", "mode", "temperature", "permissionMode"];

/// Parses the agents in a project, and reports problems with other entries. If two agents have the same name, the
/// first is used; `agents.yaml` comes before Markdown files.
pub(crate) fn agents(folder: &ProjectFolder) -> (Vec<AgentCard>, Vec<ProjectProblem>) {
    let mut found = FoundAgents::new("project");
    if let Some(file) = folder.file(AGENTS_FILE) {
        found.of_yaml(file.text());
    }
    for (name, file) in folder.texts_in(AGENTS) {
        found.of_markdown(&file.path, name, file.text());
    }
    found.sorted()
}

/// Agents parsed so far, and problems with other entries.
pub(crate) struct FoundAgents {
    /// Name of the agents' source, for messages.
    noun: &'static str,
    cards: Vec<AgentCard>,
    problems: Vec<ProjectProblem>,
}

impl FoundAgents {
    pub(crate) fn new(noun: &'static str) -> Self {
        Self { noun, cards: Vec::new(), problems: Vec::new() }
    }

    /// Returns the agents sorted by name, and the problems.
    pub(crate) fn sorted(mut self) -> (Vec<AgentCard>, Vec<ProjectProblem>) {
        self.cards.sort_by(|left, right| left.id.cmp(&right.id));
        (self.cards, self.problems)
    }

    /// Parses the Markdown file of an agent; `name` is the file name without its extension.
    pub(crate) fn of_markdown(&mut self, file: &str, name: &str, text: &str) {
        match MarkdownParts::of(text, &KEYS) {
            Ok(MarkdownParts { fields, body, notes }) => {
                notes.into_iter().for_each(|note| self.problems.note(file, note.message));
                self.add(file, name, &fields, Some(body));
            }
            Err(flaw) => self.problems.refuse(file, format!("line {}: {}", flaw.line, flaw.message)),
        }
    }

    fn of_yaml(&mut self, text: &str) {
        let parsed = serde_saphyr::from_str::<Map<String, Value>>(text).map_err(|error| {
            let text = error.without_snippet().to_string();
            format!("it is not valid YAML: {}", text.lines().next().unwrap_or_default())
        });
        match parsed.map(|mut file| file.remove("agents")) {
            Ok(Some(Value::Object(agents))) => {
                for (id, card) in agents {
                    match card {
                        Value::Object(fields) => self.add(AGENTS_FILE, &id, &fields, None),
                        _ => self.problems.refuse(AGENTS_FILE, format!("the agent {} has no keys", shown(&id))),
                    }
                }
            }
            Ok(None | Some(Value::Null)) => self.problems.note(AGENTS_FILE, "it has no key `agents`"),
            Ok(Some(_)) => self.problems.refuse(AGENTS_FILE, "`agents` must map names to their keys"),
            Err(reason) => self.problems.refuse(AGENTS_FILE, reason),
        }
    }

    fn add(&mut self, file: &str, name: &str, fields: &Map<String, Value>, body: Option<&str>) {
        let card = match self.card(file, name, fields, body) {
            Ok(card) => card,
            Err(reason) => return self.problems.refuse(file, reason),
        };
        if self.cards.iter().any(|other| other.id == card.id) {
            self.problems.refuse(file, format!("another agent of this {} has the name `{}`", self.noun, card.id));
        } else if self.cards.len() >= MAX_AGENTS {
            self.problems.refuse(file, format!("a {} can have at most {MAX_AGENTS} agents", self.noun));
        } else {
            self.cards.push(card);
        }
    }

    fn card(
        &mut self,
        file: &str,
        name: &str,
        fields: &Map<String, Value>,
        body: Option<&str>,
    ) -> Result<AgentCard, String> {
        let own = fields.get("name").or_else(|| fields.get("id")).and_then(scalar);
        // In `agents.yaml` the key is the name.
        let name = own.filter(|_| body.is_some()).unwrap_or_else(|| name.to_owned());
        let id = name.trim().to_lowercase().replace(['-', ' ', '.'], "_");
        AgentCard::check_id(&id).map_err(|reason| format!("the agent {}: {reason}", shown(&name)))?;
        if id != name {
            self.problems.note(file, format!("the agent {} is renamed to `{id}`", shown(&name)));
        }
        let mut card = AgentCard::new(&id);
        let refuse = |reason: &str| Err(format!("the agent `{id}`: {reason}"));
        card.prompt = body.unwrap_or_default().trim().to_owned();
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match key.as_str() {
                "name" | "id" => {}
                "description" => card.description = scalar(value).unwrap_or_default().trim().to_owned(),
                "prompt" if body.is_none() => card.prompt = scalar(value).unwrap_or_default().trim().to_owned(),
                "prompt_file" => return refuse("`prompt_file` is not read; write `prompt`, or a file in agents/"),
                "enabled" => card.enabled = value.as_bool().unwrap_or(true),
                "tools" | "allowed-tools" | "allowed_tools" => card.tools = tools(value),
                "skills" => card.skills = Some(list(value)),
                "slot" | "model" => {
                    let name = scalar(value).unwrap_or_default();
                    card.slot = Slot::ALL.into_iter().find(|slot| slot.as_str() == name.trim());
                    if card.slot.is_none() && name.trim() != "inherit" {
                        let reason = "is not a slot of models.yaml, so the agent uses the turn's";
                        self.problems.note(file, format!("{} {reason}", shown(&name)));
                    }
                }
                "max_steps" | "maxTurns" | "max_turns" => match value.as_u64() {
                    Some(steps @ 1..=MAX_STEPS) => card.max_steps = u32::try_from(steps).ok(),
                    _ => return refuse("the number of its steps must be from 1 to 1000"),
                },
                other if IGNORED_KEYS.contains(&other) => {}
                other => self.problems.note(file, format!("unknown key {}", shown(other))),
            }
        }
        if card.description.is_empty() {
            return refuse("missing `description`; describe in a sentence what it is for");
        }
        if card.prompt.is_empty() {
            return refuse("it has no prompt; describe how it works");
        }
        if card.prompt.len() > AgentCard::MAX_PROMPT_LENGTH {
            return refuse("its prompt is longer than 32 KiB");
        }
        let (start, is_cut) = first_chars(&card.description, AgentCard::MAX_DESCRIPTION_CHARACTERS);
        if is_cut {
            card.description = start.to_owned();
            let limit = AgentCard::MAX_DESCRIPTION_CHARACTERS;
            self.problems.note(file, format!("the description of `{id}` is truncated to {limit} characters"));
        }
        Ok(card)
    }
}

/// Returns the tools under agentd's names, or `None` for all tools.
fn tools(value: &Value) -> Option<Vec<String>> {
    let named = list(value);
    if named.iter().any(|name| name == "*") {
        return None;
    }
    // `Bash(git:*)` also names a tool.
    let bare = |name: &String| name.split('(').next().unwrap_or_default().trim().to_owned();
    let agentd_name = |name: String| ToolRow::find(&name).map_or(name, |tool| tool.name.to_owned());
    let mut tools: Vec<String> = named.iter().map(bare).filter(|name| !name.is_empty()).map(agentd_name).collect();
    tools.dedup();
    Some(tools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::folder::FolderFile;

    fn of(files: &[(&str, &str)]) -> (Vec<AgentCard>, Vec<String>) {
        let file = |(path, text): &(&str, &str)| FolderFile {
            path: (*path).to_owned(),
            runs: false,
            content: text.as_bytes().to_vec(),
        };
        let folder = ProjectFolder { files: files.iter().map(file).collect(), ..ProjectFolder::default() };
        let (cards, problems) = agents(&folder);
        (cards, problems.iter().map(|problem| format!("{} {problem}", problem.is_fatal)).collect())
    }

    #[test]
    fn agent_files_of_other_systems_are_accepted() {
        let text = "---\nname: code-reviewer\ndescription: Use this: after each change\ntools: Read, Grep, Bash(git diff:*)\n\
                    model: sonnet\ncolor: blue\n---\n\nYou review.\n";
        let (cards, problems) = of(&[("agents/x.md", text)]);
        let card = &cards[0];
        assert_eq!((card.id.as_str(), card.prompt.as_str()), ("code_reviewer", "You review."));
        assert_eq!(card.description, "Use this: after each change");
        assert_eq!(card.tools.as_deref().unwrap(), ["read_file", "grep", "run_bash_command"]);
        assert_eq!((card.slot, card.enabled), (None, true));
        assert!(problems.iter().all(|problem| problem.starts_with("false")), "{problems:?}");
        let (cards, _) = of(&[("agents/poet.md", "---\ndescription: Writes\nslot: code\nmaxTurns: 7\n---\nRhyme.")]);
        assert_eq!((cards[0].id.as_str(), cards[0].slot, cards[0].max_steps), ("poet", Some(Slot::Code), Some(7)));
        assert_eq!(cards[0].tools, None);
    }

    #[test]
    fn foreign_keys_are_ignored_and_tools_never_guessed() {
        let text = |line: &str| format!("---\ndescription: Reviews\n{line}\ntools: Read\n---\nYou review.");
        let (cards, problems) = of(&[("agents/a.md", &text("argument-hint: [a] [b]"))]);
        assert_eq!(cards[0].tools.as_deref().unwrap(), ["read_file"]);
        assert!(problems.iter().any(|problem| problem.contains("the key is ignored")), "{problems:?}");
        // An agent without its list of tools would have all tools.
        for line in ["allowed-tools: [a] [b]", "color: [a] [b]\ntools: Write"] {
            let (cards, problems) = of(&[("agents/a.md", &text(line))]);
            assert!(cards.is_empty() && problems[0].starts_with("true"), "{line}: {cards:?} {problems:?}");
        }
    }

    #[test]
    fn agents_yaml_is_accepted_and_takes_precedence() {
        let yaml = "agents:\n  poet: {description: Writes, prompt: Rhyme., tools: [read_file], max_steps: 3}\n";
        let (cards, problems) =
            of(&[("agents.yaml", yaml), ("agents/poet.md", "---\ndescription: Other\n---\nOther.")]);
        assert_eq!((cards.len(), cards[0].prompt.as_str(), cards[0].max_steps), (1, "Rhyme.", Some(3)));
        assert_eq!(problems, ["true agents/poet.md: another agent of this project has the name `poet`"]);
    }

    #[test]
    fn invalid_agent_is_reported_and_others_stay() {
        #[track_caller]
        fn check(path: &str, text: &str, part: &str) {
            let (cards, problems) = of(&[(path, text), ("agents/zz.md", "---\ndescription: d\n---\np")]);
            assert_eq!(cards.iter().map(|card| card.id.as_str()).collect::<Vec<_>>(), ["zz"], "{text}");
            let is_expected = |problem: &String| problem.starts_with("true") && problem.contains(part);
            assert!(problems.iter().any(is_expected), "{text}: {problems:?}");
        }
        check("agents/a.md", "You review.", "does not start with front matter");
        check("agents/a.md", "---\nname: a\ntools: [broken\n---\np", "not valid YAML");
        check("agents/a.md", "---\nname: a\n---\np", "missing `description`");
        check("agents/a.md", "---\ndescription: d\n---\n \n", "no prompt");
        check("agents/main.md", "---\ndescription: d\n---\np", "is reserved");
        check("agents/ä.md", "---\ndescription: d\n---\np", "lower-case letter");
        check("agents/a.md", "---\ndescription: d\nmax_steps: 0\n---\np", "from 1 to 1000");
        check("agents/a.md", &format!("---\ndescription: d\n---\n{}", "x".repeat(40_000)), "32 KiB");
        check("agents.yaml", "agents: [a]", "must map names");
        check("agents.yaml", "agents: {a: {description: d, prompt_file: /etc/passwd}}", "`prompt_file` is not read");
        check("agents.yaml", "agents: {a: x}", "has no keys");
        check("agents.yaml", "a: [", "not valid YAML");
        check("agents.yaml", &format!("agents: {}", "[".repeat(20_000)), "not valid YAML");
        let laughs: String = (1..30).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)).collect();
        check("agents.yaml", &format!("a0: &a0 [x]\n{laughs}"), "not valid YAML");
    }
}

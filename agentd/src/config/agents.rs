//! `agents.yaml`: all agents except the main one.
//!
//! Also contains `tools.yaml` and `skills.yaml`, which decide when tools and skills are offered, and the mapping of
//! tool names from other systems.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use agentd_core::{
    agent::{AgentCard, Agents},
    catalogue::{ToolLabel, ToolTier},
    model::Slot,
    tool_table::ToolRow,
};
use agentd_extensions::skills::SkillSettings;
use agentd_mcp::McpConfig;
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use crate::config::{
    ConfigError, ErrorLocation, Sources,
    groups::{overlay_fields, replace},
    layers::{Origins, SourceFile, Subject},
    nearest, yaml,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentsFile {
    agents: Option<BTreeMap<String, AgentLayer>>,
}

/// Settings of one agent in one layer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentLayer {
    /// Other systems write the next two fields. Only the key of the map is used here.
    #[serde(rename = "id")]
    _id: Option<String>,
    #[serde(rename = "name")]
    _name: Option<String>,
    enabled: Option<bool>,
    description: Option<Spanned<String>>,
    prompt: Option<String>,
    prompt_file: Option<Spanned<String>>,
    tools: Option<Vec<String>>,
    skills: Option<Vec<String>>,
    #[serde(alias = "model")]
    slot: Option<Slot>,
    max_steps: Option<Spanned<u32>>,
}

/// Resolves the agents, and records which plugins provide them. An agent from a file or from an earlier plugin takes
/// precedence over another one with the same name.
pub(super) fn resolve(
    sources: &Sources,
    names: &ToolNames,
    origins: &mut Origins,
) -> Result<(Agents, BTreeMap<String, String>), ConfigError> {
    let variables = sources.env.texts();
    let mut cards: BTreeMap<String, AgentCard> = BTreeMap::new();
    for file in sources.files_of(Subject::Agents) {
        let AgentsFile { agents } = yaml::parse(file, &variables)?;
        for (id, overrides) in agents.into_iter().flatten() {
            // An ID becomes part of a tool's name, and users type it after an `@`.
            AgentCard::check_id(&id).map_err(|reason| {
                ConfigError::new(ErrorLocation::File(file.origin.path(), None), format!("the agent {id:?}: {reason}"))
                    .with_hint("choose another name, such as `researcher`")
            })?;
            let card = cards.entry(id.clone()).or_insert_with(|| AgentCard::new(&id));
            overlay(card, overrides, file, sources, origins)?;
        }
    }
    let mut agent_plugins = BTreeMap::new();
    for plugin in sources.plugins.iter().filter(|plugin| plugin.is_used()) {
        for card in plugin.report.agents.iter().filter(|card| !cards.contains_key(&card.id)).collect::<Vec<_>>() {
            agent_plugins.insert(card.id.clone(), plugin.report.name.clone());
            cards.insert(card.id.clone(), card.clone());
        }
    }
    for tools in cards.values_mut().filter_map(|card| card.tools.as_mut()) {
        tools.iter_mut().for_each(|name| *name = names.canonical(name).to_owned());
    }
    for card in cards.values() {
        check_complete(card)?;
    }
    Ok((Agents::new(cards.into_values()), agent_plugins))
}

fn overlay(
    card: &mut AgentCard,
    overrides: AgentLayer,
    file: &SourceFile,
    sources: &Sources,
    origins: &mut Origins,
) -> Result<(), ConfigError> {
    let refuse =
        |value: &Spanned<String>, message: String| Err(ConfigError::new(yaml::locate(file, value.defined), message));
    let mut set = |key: &str| origins.set(format!("agents.{}.{key}", card.id), &file.origin);
    if let Some(description) = overrides.description {
        let limit = AgentCard::MAX_DESCRIPTION_CHARACTERS;
        if description.value.chars().count() > limit {
            return refuse(&description, format!("a description has at most {limit} characters"));
        }
        card.description = description.value.trim().to_owned();
        set("description");
    }
    let prompt = match (overrides.prompt, overrides.prompt_file) {
        (Some(_), Some(path)) => {
            return refuse(&path, "an agent has either `prompt` or `prompt_file`, not both".to_owned());
        }
        (None, Some(path)) => {
            let prompt_path = sources.path_in(file, &path.value);
            match fs::read_to_string(&prompt_path) {
                Ok(prompt) => Some(prompt),
                Err(error) => {
                    return refuse(&path, format!("could not read the prompt in {}: {error}", prompt_path.display()));
                }
            }
        }
        (prompt, None) => prompt,
    };
    replace(&mut card.prompt, prompt.map(|prompt| prompt.trim().to_owned()), "prompt", &mut set);
    if let Some(steps) = overrides.max_steps {
        if !(1..=1000).contains(&steps.value) {
            return Err(ConfigError::new(yaml::locate(file, steps.defined), "max_steps must be from 1 to 1000"));
        }
        card.max_steps = Some(steps.value);
        set("max_steps");
    }
    overlay_fields!(card, overrides, set; tools, skills, slot);
    replace(&mut card.enabled, overrides.enabled, "enabled", &mut set);
    Ok(())
}

fn check_complete(card: &AgentCard) -> Result<(), ConfigError> {
    let refuse = |message: &str, hint: &str| {
        Err(ConfigError::new(ErrorLocation::Setting(format!("agents.{}", card.id)), message).with_hint(hint))
    };
    if card.description.is_empty() {
        return refuse(
            "the agent has no description",
            "describe its purpose in one sentence, by which other agents choose it",
        );
    }
    if card.prompt.is_empty() {
        return refuse("the agent has no prompt", "set `prompt` or `prompt_file`");
    }
    if card.prompt.len() > AgentCard::MAX_PROMPT_LENGTH {
        return refuse("the prompt is longer than 32 KiB", "move long parts into a skill and refer to it");
    }
    Ok(())
}

/// Returns warnings about settings without effect. An agent still works if some of its tools do not exist.
pub fn notes<'a>(
    agents: &Agents,
    agent_plugins: &BTreeMap<String, String>,
    tools: impl Iterator<Item = &'a str> + Clone,
) -> Vec<String> {
    let mut notes = Vec::new();
    // Problems in a plugin's agents are reported with the plugin.
    for card in agents.iter().filter(|card| !agent_plugins.contains_key(&card.id)) {
        for name in card.named_tools().filter(|name| !tools.clone().any(|tool| tool == *name)) {
            let guess = nearest(name, tools.clone()).map(|name| format!(", did you mean `{name}`?"));
            notes.push(format!("agents.yaml: {} names an unknown tool `{name}`{}", card.id, guess.unwrap_or_default()));
        }
    }
    notes
}

/// Tool settings, by tool name.
pub type ToolSettings = BTreeMap<String, ToolSetting>;

/// Settings of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolSetting {
    /// Turns in which the tool is offered.
    pub enabled: Option<ToolSwitch>,
    /// True if the tool is offered to every agent, even to those whose list does not include it.
    pub always_available: Option<bool>,
    /// Category of the tool in lists.
    pub category: Option<String>,
    /// Keywords that help to find the tool.
    pub tags: Option<Vec<String>>,
    /// Description for models that replaces the tool's own.
    pub description: Option<String>,
    /// Numeric limits of the tool, by name.
    pub limits: Option<BTreeMap<String, u64>>,
    /// True if the tool is listed under `core`.
    #[serde(skip)]
    pub is_core: bool,
}

/// Turns in which a tool is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolSwitch {
    /// In every turn: `true`.
    Always,
    /// In turns that mention the tool: `false`.
    WhenMentioned,
    /// In no turn, even if the tool is mentioned: `never`.
    Never,
}

/// File with two sections. Tools under `core` are offered in every turn, and tools under `optional` in the turns for
/// which they are enabled. For skills, the sections only affect the display.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, bound = "T: Default + Deserialize<'de>")]
struct SectionedFile<T> {
    core: Option<BTreeMap<String, T>>,
    optional: Option<BTreeMap<String, T>>,
}

pub(super) fn tools(sources: &Sources, names: &ToolNames, origins: &mut Origins) -> Result<ToolSettings, ConfigError> {
    let variables = sources.env.texts();
    let mut tools = ToolSettings::new();
    for file in sources.files_of(Subject::Tools) {
        let SectionedFile { core, optional } = yaml::parse(file, &variables)?;
        let core =
            core.into_iter().flatten().map(|(name, overrides)| (name, ToolSetting { is_core: true, ..overrides }));
        let mut named: Vec<(String, ToolSetting)> = core.chain(optional.into_iter().flatten()).collect();
        // The entry under the tool's own name overrides entries under other names.
        named.sort_by_key(|(name, _)| names.canonical(name) == name);
        for (name, overrides) in named {
            let name = names.canonical(&name);
            let tool = tools.entry(name.to_owned()).or_default();
            let mut note = |field: &str| origins.set(format!("tools.{name}.{field}"), &file.origin);
            overlay_fields!(tool, overrides, note; enabled, always_available, category, tags, description);
            for (limit, number) in overrides.limits.into_iter().flatten() {
                note(&format!("limits.{limit}"));
                tool.limits.get_or_insert_default().insert(limit, number);
            }
            tool.is_core |= overrides.is_core;
        }
    }
    Ok(tools)
}

impl ToolSetting {
    /// Returns the label with these settings applied.
    pub fn label(&self, default: &ToolLabel) -> ToolLabel {
        let always_available = self.always_available.unwrap_or(default.always_available);
        let tier = match self.enabled {
            Some(ToolSwitch::Never) => ToolTier::Off,
            Some(ToolSwitch::WhenMentioned) => ToolTier::Discovered,
            _ if self.is_core || self.always_available == Some(true) => ToolTier::Core,
            Some(ToolSwitch::Always) => ToolTier::Enabled,
            None => default.tier,
        };
        ToolLabel {
            tier,
            always_available,
            category: self.category.clone().unwrap_or_else(|| default.category.clone()),
            tags: self.tags.clone().unwrap_or_else(|| default.tags.clone()),
        }
    }

    /// Returns true if the setting limits when the tool is offered, or replaces its description.
    pub fn hides_or_describes(&self) -> bool {
        self.description.is_some() || matches!(self.enabled, Some(ToolSwitch::WhenMentioned | ToolSwitch::Never))
    }
}

impl<'de> Deserialize<'de> for ToolSwitch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = ToolSwitch;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("true, false (loaded when mentioned) or never")
            }

            fn visit_bool<E: de::Error>(self, enabled: bool) -> Result<ToolSwitch, E> {
                Ok(if enabled { ToolSwitch::Always } else { ToolSwitch::WhenMentioned })
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ToolSwitch, E> {
                match text {
                    "true" => Ok(ToolSwitch::Always),
                    "false" => Ok(ToolSwitch::WhenMentioned),
                    "never" => Ok(ToolSwitch::Never),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SkillFile {
    enabled: Option<bool>,
    /// Other systems write this field, which has no effect here: enabled skills are always available.
    #[serde(rename = "always_available")]
    _always_available: Option<bool>,
    auto_load_on_file_types: Option<Vec<String>>,
    description: Option<String>,
}

pub(super) fn skills(sources: &Sources, origins: &mut Origins) -> Result<SkillSettings, ConfigError> {
    let variables = sources.env.texts();
    let mut skills = SkillSettings::new();
    for file in sources.files_of(Subject::Skills) {
        let SectionedFile::<SkillFile> { core, optional } = yaml::parse(file, &variables)?;
        for (name, overrides) in core.into_iter().chain(optional).flatten() {
            let mut note = |key: &str| origins.set(format!("skills.{name}.{key}"), &file.origin);
            let setting = skills.entry(name.clone()).or_default();
            overlay_fields!(setting, overrides, note; enabled, description);
            let extension = |text: &String| text.trim().trim_start_matches('.').to_owned();
            let types = overrides.auto_load_on_file_types.map(|types| types.iter().map(extension).collect());
            replace(&mut setting.file_types, types, "auto_load_on_file_types", &mut note);
        }
    }
    Ok(skills)
}

/// Resolves tool names in configuration files.
#[derive(Debug, Default)]
pub struct ToolNames {
    /// Aliases that the user assigned to tools of MCP servers. Aliases are never translated.
    aliases: BTreeSet<String>,
}

impl ToolNames {
    /// Creates the resolver. Aliases in `mcp` are never translated.
    pub(super) fn new(mcp: &McpConfig) -> Self {
        let tools = mcp.servers.values().flat_map(|server| server.tools.values());
        Self { aliases: tools.filter_map(|tool| tool.alias.clone()).collect() }
    }

    /// Returns the canonical name of the tool, or `name` itself if it is unknown.
    pub(super) fn canonical<'a>(&self, name: &'a str) -> &'a str {
        if self.aliases.contains(name) {
            return name;
        }
        agentd_engine::own_name(ToolRow::find(name).map_or(name, |tool| tool.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::sources;

    fn resolved(text: &str) -> Result<Agents, ConfigError> {
        let sources = sources(&[(Subject::Agents, text)], &[]);
        Ok(resolve(&sources, &ToolNames::default(), &mut Origins::default())?.0)
    }

    #[test]
    fn agent_layers_merge_by_key() {
        let agents = resolved(
            "agents:\n  reviewer: {enabled: true, slot: code}\n  poet: {description: Writes verse., prompt: Rhyme.}\n",
        )
        .unwrap();
        let reviewer = agents.get("reviewer").unwrap();
        assert!(reviewer.enabled && reviewer.prompt.contains("review"), "{reviewer:?}");
        assert_eq!(reviewer.slot, Some(Slot::Code));
        let poet = agents.get("poet").unwrap();
        assert_eq!((poet.enabled, poet.prompt.as_str(), &poet.tools), (true, "Rhyme.", &None));
        assert_eq!(agents.iter().map(|card| card.id.as_str()).collect::<Vec<_>>(), ["poet", "researcher", "reviewer"]);
    }

    #[test]
    fn invalid_agents_are_rejected_with_a_location() {
        let check = |text: &str, parts: &[&str]| {
            let error = resolved(text).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        check("agents:\n  poet: {descripton: x}", &["/conf/agents.yaml:2", "description"]);
        check("agents:\n  poet: {description: x}", &["agents.poet", "no prompt"]);
        check("agents:\n  poet: {prompt: x}", &["agents.poet", "no description"]);
        check("agents:\n  Poet: {prompt: x, description: y}", &["Poet", "lower-case letter"]);
        check("agents:\n  main: {prompt: x, description: y}", &["main", "is reserved"]);
        check("agents:\n  a-b: {prompt: x, description: y}", &["a-b", "underscores"]);
        check("agents:\n  poet: {prompt: x, prompt_file: y.md}", &["agents.yaml:2", "not both"]);
        check("agents:\n  poet: {prompt_file: nowhere.md}", &["agents.yaml:2", "could not read"]);
        check("agents:\n  poet: {max_steps: 0}", &["agents.yaml:2", "1 to 1000"]);
        check(&format!("agents:\n  poet: {{description: {}}}", "x".repeat(501)), &["500"]);
        check(&format!("agents:\n  poet: {{description: x, prompt: {}}}", "x".repeat(40_000)), &["32 KiB"]);
    }

    #[test]
    fn unknown_tools_of_agents_are_reported() {
        let agents = resolved("agents:\n  poet: {description: x, prompt: y, tools: [gerp, now]}").unwrap();
        let tools = ["grep", "now"];
        let notes = notes(&agents, &BTreeMap::new(), tools.into_iter());
        assert!(
            notes.contains(&"agents.yaml: poet names an unknown tool `gerp`, did you mean `grep`?".to_owned()),
            "{notes:?}"
        );
        assert!(!notes.iter().any(|note| note.contains("`now`")));
    }

    #[test]
    fn foreign_tool_names_are_translated_unless_used_as_aliases() {
        let names = ToolNames { aliases: ["fs_read".to_owned()].into() };
        for (foreign_name, canonical_name) in [
            ("fetch_web", "read_url"),
            ("jina_reader", "read_url"),
            ("google_search", "web_search"),
            ("list_dir", "list_workspace_files"),
            ("glob_file_search", "find_files"),
            ("run_cmd", "run_bash_command"),
            ("call_subagent", "delegate_task"),
            ("task", "delegate_task"),
            ("Task", "delegate_task"),
            ("TodoWrite", "todo_write"),
            ("functions.update_plan", "todo_write"),
            ("write_todos", "todo_write"),
            ("call_agent", "delegate_task"),
            ("Agent", "delegate_task"),
            ("AskUserQuestion", "ask_human"),
            ("MultiEdit", "edit_file"),
            ("replace", "edit_file"),
            ("exec_command", "run_bash_command"),
            ("execute", "run_bash_command"),
            ("view_image", "read_file"),
            ("search_file_content", "grep"),
            ("list", "list_workspace_files"),
            ("WebFetch", "read_url"),
            ("grep", "grep"),
            ("fs_read", "fs_read"),
            ("fs_write", "write_file"),
            ("extract_links", "extract_links"),
        ] {
            assert_eq!(names.canonical(foreign_name), canonical_name);
        }
    }
}

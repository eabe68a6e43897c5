//! `tools.yaml` and `skills.yaml`: which tools and skills models are offered, and when; and the names of tools in other systems.

use std::collections::{BTreeMap, BTreeSet};

use agentd_core::{
    catalogue::{ToolLabel, ToolTier},
    tool_table::ToolRow,
};
use agentd_extensions::skills::SkillSettings;
use agentd_mcp::McpConfig;
use serde::{Deserialize, Deserializer, de};

use super::{ConfigError, Sources, groups::take, layers::Subject, origin::Origins, yaml};

/// Settings of tools, by their names.
pub type ToolSettings = BTreeMap<String, ToolSetting>;

/// Settings of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolSetting {
    /// When models are offered it.
    pub enabled: Option<ToolSwitch>,
    /// Set if every agent is offered it, without being asked.
    pub always_available: Option<bool>,
    /// Its purpose, in lists.
    pub category: Option<String>,
    /// Words to find it by.
    pub tags: Option<Vec<String>>,
    /// Description for models, in place of its own.
    pub description: Option<String>,
    /// Set if it stands under `core`.
    #[serde(skip)]
    pub is_core: bool,
}

/// When models are offered a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolSwitch {
    /// `true`: in every turn.
    Always,
    /// `false`: in turns that mention it.
    WhenMentioned,
    /// `never`, even if it is mentioned.
    Never,
}

/// The tools under `core` belong to every turn, those under `optional` to those that they are enabled for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ToolsFile {
    core: Option<BTreeMap<String, ToolSetting>>,
    optional: Option<BTreeMap<String, ToolSetting>>,
}

pub(super) fn resolve(
    sources: &Sources,
    names: &ToolNames,
    origins: &mut Origins,
) -> Result<ToolSettings, ConfigError> {
    let variables = sources.env.texts();
    let mut tools = ToolSettings::new();
    for file in sources.files_about(Subject::Tools) {
        let ToolsFile { core, optional } = yaml::parse(file, &variables, origins)?;
        let core = core.into_iter().flatten().map(|(name, over)| (name, ToolSetting { is_core: true, ..over }));
        let mut named: Vec<(String, ToolSetting)> = core.chain(optional.into_iter().flatten()).collect();
        // Where a file has a tool under its own name, too, that counts more.
        named.sort_by_key(|(name, _)| names.ours(name) == name);
        for (name, over) in named {
            let name = names.ours(&name);
            let tool = tools.entry(name.to_owned()).or_default();
            let mut note = |field| origins.set(format!("tools.{name}.{field}"), &file.origin);
            take!(tool, over, note; enabled, always_available, category, tags, description);
            tool.is_core |= over.is_core;
        }
    }
    Ok(tools)
}

impl ToolSetting {
    /// The label, where this says something of it.
    pub fn label(&self, under: &ToolLabel) -> ToolLabel {
        let always_available = self.always_available.unwrap_or(under.always_available);
        let tier = match self.enabled {
            Some(ToolSwitch::Never) => ToolTier::Off,
            Some(ToolSwitch::WhenMentioned) => ToolTier::Discovered,
            _ if self.is_core || self.always_available == Some(true) => ToolTier::Core,
            Some(ToolSwitch::Always) => ToolTier::Enabled,
            None => under.tier,
        };
        ToolLabel {
            tier,
            always_available,
            category: self.category.clone().unwrap_or_else(|| under.category.clone()),
            tags: self.tags.clone().unwrap_or_else(|| under.tags.clone()),
        }
    }

    /// Returns whether it changes when models are offered the tool, or its description.
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
                f.write_str("true, false (then a mention loads it) or never")
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

/// `core` and `optional` say how a person sees the skills; both are read alike.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SkillsFile {
    core: Option<BTreeMap<String, SkillFile>>,
    optional: Option<BTreeMap<String, SkillFile>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SkillFile {
    enabled: Option<bool>,
    /// Other systems write it; what is enabled is always there.
    #[serde(rename = "always_available")]
    _always_available: Option<bool>,
    auto_load_on_file_types: Option<Vec<String>>,
    description: Option<String>,
}

pub(super) fn skills(sources: &Sources, origins: &mut Origins) -> Result<SkillSettings, ConfigError> {
    let variables = sources.env.texts();
    let mut skills = SkillSettings::new();
    for file in sources.files_about(Subject::Skills) {
        let SkillsFile { core, optional } = yaml::parse(file, &variables, origins)?;
        for (name, over) in core.into_iter().chain(optional).flatten() {
            let mut note = |key: &str| origins.set(format!("skills.{name}.{key}"), &file.origin);
            let setting = skills.entry(name.clone()).or_default();
            take!(setting, over, note; enabled, description);
            if let Some(types) = over.auto_load_on_file_types {
                setting.file_types = types.iter().map(|kind| kind.trim().trim_start_matches('.').to_owned()).collect();
                note("auto_load_on_file_types");
            }
        }
    }
    Ok(skills)
}

/// The names under which files of the configuration know tools.
#[derive(Debug, Default)]
pub struct ToolNames {
    /// Names that the person gave to tools of MCP servers: these mean nothing else.
    given: BTreeSet<String>,
}

impl ToolNames {
    /// All names besides those that these servers' tools were given.
    pub(super) fn besides(mcp: &McpConfig) -> Self {
        let tools = mcp.servers.values().flat_map(|server| server.tools.values());
        Self { given: tools.filter_map(|tool| tool.alias.clone()).collect() }
    }

    /// Our name of the tool that is meant, or the name as it is.
    pub(super) fn ours<'a>(&self, name: &'a str) -> &'a str {
        if self.given.contains(name) {
            return name;
        }
        agentd_engine::own_name(ToolRow::known(name).map_or(name, |tool| tool.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_systems_mean_ours_unless_they_were_given_away() {
        let names = ToolNames { given: ["fs_read".to_owned()].into() };
        for (theirs, ours) in [
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
            ("WebFetch", "read_url"),
            ("grep", "grep"),
            ("fs_read", "fs_read"),
            ("fs_write", "write_file"),
            ("extract_links", "extract_links"),
        ] {
            assert_eq!(names.ours(theirs), ours);
        }
    }
}

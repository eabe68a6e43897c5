//! `tools.yaml`: which tools models are offered, and when.

use std::collections::BTreeMap;

use agentd_core::catalogue::{ToolLabel, ToolTier};
use serde::{Deserialize, Deserializer, de};

use super::{
    ConfigError, Sources,
    layers::Subject,
    origin::{Origin, Origins},
    tool_names::ToolNames,
    yaml,
};

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
        let ToolsFile { core, optional } = yaml::parse(file, &variables)?;
        let core = core.into_iter().flatten().map(|(name, over)| (name, ToolSetting { is_core: true, ..over }));
        let mut named: Vec<(String, ToolSetting)> = core.chain(optional.into_iter().flatten()).collect();
        // Where a file has a tool under its own name, too, that counts more.
        named.sort_by_key(|(name, _)| names.ours(name) == name);
        for (name, over) in named {
            let name = names.ours(&name);
            tools.entry(name.to_owned()).or_default().overlay(over, name, &file.origin, origins);
        }
    }
    Ok(tools)
}

impl ToolSetting {
    /// The label, where this says something of it.
    #[must_use]
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
    #[must_use]
    pub fn hides_or_describes(&self) -> bool {
        self.description.is_some() || matches!(self.enabled, Some(ToolSwitch::WhenMentioned | ToolSwitch::Never))
    }

    fn overlay(&mut self, over: Self, name: &str, origin: &Origin, origins: &mut Origins) {
        macro_rules! take {
            ($($field:ident),*) => {$(
                if over.$field.is_some() {
                    self.$field = over.$field;
                    origins.set(format!("tools.{name}.{}", stringify!($field)), origin);
                }
            )*};
        }
        take!(enabled, always_available, category, tags, description);
        self.is_core |= over.is_core;
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

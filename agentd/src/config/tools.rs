//! `tools.yaml`: which tools models are offered.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    ConfigError, Sources,
    layers::Subject,
    origin::{Origin, Origins},
    yaml,
};

/// What is set of each tool, by its name.
pub type ToolSettings = BTreeMap<String, ToolSetting>;

/// What is set of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolSetting {
    /// Whether models are offered it.
    pub enabled: Option<bool>,
    /// Whether every agent is offered it, without being asked.
    pub always_available: Option<bool>,
    /// What it is for, in lists.
    pub category: Option<String>,
    /// Words to find it by.
    pub tags: Option<Vec<String>>,
    /// What models are told of it, in place of its own description.
    pub description: Option<String>,
}

/// `core` and `optional` say how a person sees the tools; both are read alike.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ToolsFile {
    core: Option<BTreeMap<String, ToolSetting>>,
    optional: Option<BTreeMap<String, ToolSetting>>,
}

pub(super) fn resolve(sources: &Sources, origins: &mut Origins) -> Result<ToolSettings, ConfigError> {
    let variables = sources.env.texts();
    let mut tools = ToolSettings::new();
    for file in sources.files_about(Subject::Tools) {
        let ToolsFile { core, optional } = yaml::parse(file, &variables)?;
        for (name, over) in core.into_iter().chain(optional).flatten() {
            tools.entry(name.clone()).or_default().overlay(over, &name, &file.origin, origins);
        }
    }
    Ok(tools)
}

impl ToolSetting {
    /// Whether models are offered the tool: a tool that nobody mentions is.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
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
    }
}

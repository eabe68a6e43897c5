//! `skills.yaml`: skills passed to models, and their triggers.

use std::collections::BTreeMap;

use agentd_extensions::skills::{SkillSetting, SkillSettings};
use serde::Deserialize;

use super::{ConfigError, Sources, layers::Subject, origin::Origins, yaml};

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

pub(super) fn resolve(sources: &Sources, origins: &mut Origins) -> Result<SkillSettings, ConfigError> {
    let variables = sources.env.texts();
    let mut skills = SkillSettings::new();
    for file in sources.files_about(Subject::Skills) {
        let SkillsFile { core, optional } = yaml::parse(file, &variables)?;
        for (name, over) in core.into_iter().chain(optional).flatten() {
            let mut note = |key: &str| origins.set(format!("skills.{name}.{key}"), &file.origin);
            let setting: &mut SkillSetting = skills.entry(name.clone()).or_default();
            if over.enabled.is_some() {
                setting.enabled = over.enabled;
                note("enabled");
            }
            if let Some(types) = over.auto_load_on_file_types {
                setting.file_types = types.iter().map(|kind| kind.trim().trim_start_matches('.').to_owned()).collect();
                note("auto_load_on_file_types");
            }
            if over.description.is_some() {
                setting.description = over.description;
                note("description");
            }
        }
    }
    Ok(skills)
}

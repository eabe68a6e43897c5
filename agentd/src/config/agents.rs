//! `agents.yaml`: the agents besides the main one.

use std::{collections::BTreeMap, fs, path::Path};

use agentd_core::{
    agent::{AgentCard, Agents},
    model::Slot,
};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{
    ConfigError, ErrorPlace, Sources, ToolNames,
    groups::take,
    layers::{SourceFile, Subject},
    nearest,
    origin::Origins,
    yaml,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentsFile {
    agents: Option<BTreeMap<String, Card>>,
}

/// One layer's settings of one agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Card {
    /// Other systems write both; the key above is what counts.
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

/// The agents, and the plugins of those that came with one. An agent of the files, or of an earlier plugin, comes before one of
/// the same name.
pub(super) fn resolve(
    sources: &Sources,
    names: &ToolNames,
    origins: &mut Origins,
) -> Result<(Agents, BTreeMap<String, String>), ConfigError> {
    let variables = sources.env.texts();
    let mut cards: BTreeMap<String, AgentCard> = BTreeMap::new();
    for file in sources.files_about(Subject::Agents) {
        let AgentsFile { agents } = yaml::parse(file, &variables, origins)?;
        for (id, over) in agents.into_iter().flatten() {
            check_id(file, &id)?;
            let card = cards.entry(id.clone()).or_insert_with(|| AgentCard::new(&id));
            overlay(card, over, file, sources, origins)?;
        }
    }
    let mut of_plugins = BTreeMap::new();
    for plugin in sources.plugins.iter().filter(|plugin| plugin.is_used()) {
        for card in plugin.report.agents.iter().filter(|card| !cards.contains_key(&card.id)).collect::<Vec<_>>() {
            of_plugins.insert(card.id.clone(), plugin.report.name.clone());
            cards.insert(card.id.clone(), card.clone());
        }
    }
    for tools in cards.values_mut().filter_map(|card| card.tools.as_mut()) {
        tools.iter_mut().for_each(|name| *name = names.ours(name).to_owned());
    }
    for card in cards.values() {
        check_whole(card)?;
    }
    Ok((Agents::new(cards.into_values()), of_plugins))
}

fn overlay(
    card: &mut AgentCard,
    over: Card,
    file: &SourceFile,
    sources: &Sources,
    origins: &mut Origins,
) -> Result<(), ConfigError> {
    let refuse = |value: &Spanned<String>, why: String| Err(ConfigError::new(yaml::place(file, value.defined), why));
    let mut set = |key: &str| origins.set(format!("agents.{}.{key}", card.id), &file.origin);
    if let Some(description) = over.description {
        let most = AgentCard::LONGEST_DESCRIPTION;
        if description.value.chars().count() > most {
            return refuse(&description, format!("a description has at most {most} characters"));
        }
        card.description = description.value.trim().to_owned();
        set("description");
    }
    if let Some(path) = over.prompt_file {
        if over.prompt.is_some() {
            return refuse(&path, "an agent has either `prompt` or `prompt_file`, not both".to_owned());
        }
        card.prompt = match prompt_in(&sources.path_in(file, &path.value)) {
            Ok(prompt) => prompt,
            Err(why) => return refuse(&path, why),
        };
        set("prompt");
    } else if let Some(prompt) = over.prompt {
        card.prompt = prompt.trim().to_owned();
        set("prompt");
    }
    if let Some(steps) = over.max_steps {
        if !(1..=1000).contains(&steps.value) {
            return Err(ConfigError::new(yaml::place(file, steps.defined), "max_steps is from 1 to 1000"));
        }
        card.max_steps = Some(steps.value);
        set("max_steps");
    }
    take!(card, over, set; tools, skills, slot);
    if let Some(enabled) = over.enabled {
        card.enabled = enabled;
        set("enabled");
    }
    Ok(())
}

fn prompt_in(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("could not read the prompt in {}: {error}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// An id becomes a part of a tool's name, and is typed after an `@`.
fn check_id(file: &SourceFile, id: &str) -> Result<(), ConfigError> {
    AgentCard::check_id(id).map_err(|why| {
        ConfigError::new(ErrorPlace::File(file.origin.path(), None), format!("the agent {id:?}: {why}"))
            .with_hint("choose another name, such as `researcher`")
    })
}

fn check_whole(card: &AgentCard) -> Result<(), ConfigError> {
    let refuse = |what: &str, hint: &str| {
        Err(ConfigError::new(ErrorPlace::Setting(format!("agents.{}", card.id)), what).with_hint(hint))
    };
    if card.description.is_empty() {
        return refuse("the agent has no description", "say in one sentence what it is for: other agents choose by it");
    }
    if card.prompt.is_empty() {
        return refuse("the agent has no prompt", "say in `prompt`, or in a `prompt_file`, how it works");
    }
    if card.prompt.len() > AgentCard::LONGEST_PROMPT {
        return refuse("its prompt is longer than 32 KiB", "put what is long into a skill, and name that");
    }
    Ok(())
}

/// Settings without effect: an agent whose tool is not there works without it.
pub fn notes<'a>(
    agents: &Agents,
    of_plugins: &BTreeMap<String, String>,
    tools: impl Iterator<Item = &'a str> + Clone,
) -> Vec<String> {
    let mut notes = Vec::new();
    // Those of plugins are told where plugins are shown.
    for card in agents.iter().filter(|card| !of_plugins.contains_key(&card.id)) {
        for name in card.named_tools().filter(|name| !tools.clone().any(|tool| tool == *name)) {
            let guess = nearest(name, tools.clone()).map(|meant| format!(", did you mean `{meant}`?"));
            notes.push(format!(
                "agents.yaml: {} names the tool `{name}`, which is not there{}",
                card.id,
                guess.unwrap_or_default()
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{
        config::{Flags, Origin, layers},
        environment::Environment,
    };

    fn resolved(text: &str) -> Result<Agents, ConfigError> {
        let mut files = layers::built_in();
        let origin = Origin::User(PathBuf::from("/home/me/agents.yaml"));
        files.push(SourceFile { subject: Subject::Agents, origin, text: text.to_owned() });
        let sources =
            Sources { files, plugins: Default::default(), env: Environment::default(), flags: Flags::default() };
        Ok(resolve(&sources, &ToolNames::default(), &mut Origins::default())?.0)
    }

    #[test]
    fn layers_add_up_key_by_key() {
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
    fn what_makes_no_sense_is_refused_with_its_place() {
        let check = |text: &str, words: &[&str]| {
            let error = resolved(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        };
        check("agents:\n  poet: {descripton: x}", &["/home/me/agents.yaml:2", "description"]);
        check("agents:\n  poet: {description: x}", &["agents.poet", "no prompt"]);
        check("agents:\n  poet: {prompt: x}", &["agents.poet", "no description"]);
        check("agents:\n  Poet: {prompt: x, description: y}", &["Poet", "small letter"]);
        check("agents:\n  main: {prompt: x, description: y}", &["main", "meaning already"]);
        check("agents:\n  a-b: {prompt: x, description: y}", &["a-b", "underscores"]);
        check("agents:\n  poet: {prompt: x, prompt_file: y.md}", &["agents.yaml:2", "not both"]);
        check("agents:\n  poet: {prompt_file: nowhere.md}", &["agents.yaml:2", "could not read"]);
        check("agents:\n  poet: {max_steps: 0}", &["agents.yaml:2", "1 to 1000"]);
        check(&format!("agents:\n  poet: {{description: {}}}", "x".repeat(501)), &["500"]);
        check(&format!("agents:\n  poet: {{description: x, prompt: {}}}", "x".repeat(40_000)), &["32 KiB"]);
    }

    #[test]
    fn tools_that_are_not_there_are_said() {
        let agents = resolved("agents:\n  poet: {description: x, prompt: y, tools: [gerp, now]}").unwrap();
        let tools = ["grep", "now"];
        let notes = notes(&agents, &BTreeMap::new(), tools.into_iter());
        assert!(
            notes.contains(
                &"agents.yaml: poet names the tool `gerp`, which is not there, did you mean `grep`?".to_owned()
            ),
            "{notes:?}"
        );
        assert!(!notes.iter().any(|note| note.contains("`now`")));
    }
}

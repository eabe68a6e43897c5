//! The tools that a turn offers to its model. During the turn, tools that the model finds are appended; the set does
//! not change otherwise.
//!
//! Models with a small window get brief descriptions, because every request contains all descriptions: 20 full ones
//! fill half of a window of 8192 tokens.

use std::{collections::BTreeMap, sync::Arc};

use agentd_core::{
    catalogue::{CatalogueTool, ForeignTool},
    tool::ToolSpec,
};
use serde_json::Value;

use crate::{footprint::Fingerprint, tokens};

/// Visible tools and their fingerprint. The tools are sorted by name, followed by mentioned and found tools in order of
/// appearance, so that each request repeats the previous one.
#[derive(Debug, Clone)]
pub struct ToolSet {
    /// Tools in the order of the request.
    pub specs: Arc<[ToolSpec]>,
    /// Combined fingerprint of all tools.
    pub print: Fingerprint,
    /// Number of sorted tools at the start of the list.
    sorted: usize,
    /// Properties of third-party tools by name.
    others: Arc<BTreeMap<String, ForeignInfo>>,
}

/// Properties of a third-party tool.
#[derive(Debug, Clone, Default)]
struct ForeignInfo {
    /// Tool to which the name currently refers, if this can change.
    stands_for: Option<Arc<str>>,
    foreign: Option<Arc<ForeignTool>>,
}

impl ToolSet {
    /// Creates a set of these tools, sorted by name.
    pub fn new(mut specs: Vec<ToolSpec>) -> Self {
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        let print = specs.iter().map(print).fold(Fingerprint::default(), Fingerprint::and);
        Self { sorted: specs.len(), specs: specs.into(), print, others: Arc::default() }
    }

    /// Creates a set of tools from the catalogue.
    pub fn of(tools: &[&CatalogueTool]) -> Self {
        let others = tools.iter().filter_map(|tool| foreign_info(tool)).collect();
        let set = Self::new(tools.iter().map(|tool| tool.spec.clone()).collect());
        Self { others: Arc::new(others), ..set }
    }

    /// Returns the set with these tools appended in order.
    pub fn followed_by(&self, added: &[&CatalogueTool]) -> Self {
        let mut others = (*self.others).clone();
        others.extend(added.iter().filter_map(|tool| foreign_info(tool)));
        Self { others: Arc::new(others), ..self.with_specs(added.iter().map(|tool| tool.spec.clone()).collect()) }
    }

    /// Returns the set with these specs appended, without further properties.
    fn with_specs(&self, added: Vec<ToolSpec>) -> Self {
        let print = added.iter().map(print).fold(self.print, Fingerprint::and);
        let specs = self.specs.iter().cloned().chain(added).collect();
        Self { specs, print, others: Arc::clone(&self.others), ..*self }
    }

    /// Applies `keep` to each tool, removes the tool if `keep` returns `None`, and adds `more` to the sorted part.
    pub fn rewritten(&self, keep: impl Fn(&ToolSpec) -> Option<ToolSpec>, more: Vec<ToolSpec>) -> Self {
        let (sorted, added) = self.specs.split_at(self.sorted);
        let set = Self::new(sorted.iter().filter_map(&keep).chain(more).collect());
        Self { others: Arc::clone(&self.others), ..set.with_specs(added.iter().filter_map(&keep).collect()) }
    }

    /// Shortens the descriptions. Leaves mentioned and found tools unchanged, because they were requested explicitly.
    pub fn brief(&self) -> Self {
        let (sorted, added) = self.specs.split_at(self.sorted);
        let set = Self::new(sorted.iter().map(with_brief_description).collect());
        Self { others: Arc::clone(&self.others), ..set.with_specs(added.to_vec()) }
    }

    /// Returns the tool to which the name currently refers, if this can change.
    pub fn stands_for(&self, name: &str) -> Option<&Arc<str>> {
        self.others.get(name)?.stands_for.as_ref()
    }

    /// Returns the source of a third-party tool.
    pub fn foreign(&self, name: &str) -> Option<&Arc<ForeignTool>> {
        self.others.get(name)?.foreign.as_ref()
    }

    /// Creates an empty set, for a model that calls tools although calls are forbidden.
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Finds a tool by its name.
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        let (sorted, added) = self.specs.split_at(self.sorted);
        match sorted.binary_search_by(|tool| tool.name.as_str().cmp(name)) {
            Ok(index) => Some(&sorted[index]),
            Err(_) => added.iter().find(|tool| tool.name == name),
        }
    }
}

fn foreign_info(tool: &CatalogueTool) -> Option<(String, ForeignInfo)> {
    let (stands_for, foreign) = (tool.stands_for.clone(), tool.foreign.clone());
    let is_known = stands_for.is_some() || foreign.is_some();
    is_known.then(|| (tool.spec.name.clone(), ForeignInfo { stands_for, foreign }))
}

/// Returns the fingerprint of one tool.
pub fn print(tool: &ToolSpec) -> Fingerprint {
    let schema = tool.parameters.to_string();
    let texts = [tool.name.as_str(), &tool.description, &schema];
    Fingerprint::of(&texts, texts.iter().map(|text| tokens::estimate(text)).sum())
}

/// Size in tokens up to which a window gets brief tool descriptions.
const SMALL_WINDOW: u64 = 12_288;

/// Size in tokens below which a window gets a few tools only.
const TINY_WINDOW: u64 = 6_144;

/// Returns true if only a few tools are shown in a window of this size.
pub fn is_tiny(window: u64) -> bool {
    window < TINY_WINDOW
}

/// Returns true if tools have brief descriptions in a window of this size.
pub fn is_brief_for(window: u64) -> bool {
    window <= SMALL_WINDOW
}

/// Reduces each description to its first sentence. Keeps names, types and required arguments, so that the same calls
/// are valid. Removes the descriptions of boolean arguments, whose names are clear enough.
pub fn with_brief_description(tool: &ToolSpec) -> ToolSpec {
    ToolSpec { description: first_sentence(&tool.description), parameters: shortened(&tool.parameters), ..tool.clone() }
}

fn shortened(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => Value::Object(keywords.iter().map(keyword).collect()),
        Value::Array(schemas) => schemas.iter().map(shortened).collect(),
        other => other.clone(),
    }
}

fn keyword((name, value): (&String, &Value)) -> (String, Value) {
    let value = match (name.as_str(), value) {
        ("description", Value::String(text)) => first_sentence(text).into(),
        // The values of these keywords are not schemas, even if they look like schemas.
        ("enum" | "const" | "required", value) => value.clone(),
        ("properties", Value::Object(arguments)) => Value::Object(arguments.iter().map(argument).collect()),
        (_, value) => shortened(value),
    };
    (name.clone(), value)
}

/// Shortens the schema of an argument. Arguments are handled separately, because an argument may have the same name as
/// a keyword.
fn argument((name, schema): (&String, &Value)) -> (String, Value) {
    let mut schema = shortened(schema);
    if let Some(keywords) = schema.as_object_mut()
        && keywords.get("type").is_some_and(|kind| kind == "boolean")
    {
        keywords.remove("description");
    }
    (name.clone(), schema)
}

/// Returns the text up to the end of the first sentence: punctuation before whitespace and a letter that is not
/// lowercase.
fn first_sentence(text: &str) -> String {
    let text = text.trim();
    let ends = text.match_indices(['.', '!', '?']).map(|(at, stop)| at + stop.len());
    let is_end = |at: &usize| {
        let rest = &text[*at..];
        let next = rest.trim_start().chars().next();
        rest.len() > rest.trim_start().len()
            && next.is_some_and(|letter| letter.is_alphanumeric() && !letter.is_lowercase())
    };
    let end = ends.into_iter().find(is_end).unwrap_or(text.len());
    text[..end].replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn brief_description_keeps_names_and_types() {
        let tool = ToolSpec {
            name: "grep".to_owned(),
            description: "Searches text files, e.g. *.rs, line by line. Hidden ones are left out.\nMore.".to_owned(),
            parameters: json!({
                "type": "object",
                "description": "One. Two.",
                "properties": {
                    "description": {"type": "string", "description": "Words of the person. Never others."},
                    "all": {"type": "boolean", "description": "Also what is hidden."},
                    "mode": {"type": "string", "enum": ["a. B", "c"]},
                },
                "required": ["description"],
                "additionalProperties": false,
            }),
            effect: Effect::Read,
        };
        let expected = ToolSpec {
            description: "Searches text files, e.g. *.rs, line by line.".to_owned(),
            parameters: json!({
                "type": "object",
                "description": "One.",
                "properties": {
                    "description": {"type": "string", "description": "Words of the person."},
                    "all": {"type": "boolean"},
                    "mode": {"type": "string", "enum": ["a. B", "c"]},
                },
                "required": ["description"],
                "additionalProperties": false,
            }),
            ..tool.clone()
        };
        assert_eq!(with_brief_description(&tool), expected);
    }

    proptest! {
        #[test]
        fn first_sentence_is_a_prefix_and_idempotent(text in "\\PC{0,60}") {
            let first = first_sentence(&text);
            prop_assert!(text.trim().replace('\n', " ").starts_with(&first));
            prop_assert_eq!(first_sentence(&first), first.trim());
        }
    }
}

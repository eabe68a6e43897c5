//! The catalogue of published facts about models, from `config/catalogue.json`. `scripts/catalogue.py` writes it.
//!
//! The catalogue only applies to the providers' own hosts: a proxy may charge other prices, and a local server may use
//! any model names. The configuration and facts that the server reports take precedence.

use std::{collections::BTreeMap, sync::LazyLock};

use agentd_core::{model::Slot, usage::Prices};
use serde::Deserialize;

use crate::http::refusals::Change;

const TEXT: &str = include_str!("../../../../config/catalogue.json");

/// Parsed once, for the first model of a provider. An invalid catalogue counts as empty; a test checks that ours is
/// valid.
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    serde_json::from_str(TEXT).unwrap_or_else(|error| {
        tracing::error!("could not read the model catalogue: {error}");
        Catalogue::default()
    })
});

/// Hosts of providers, with the providers' names in the catalogue.
const HOSTS: [(&str, &str); 15] = [
    ("api.anthropic.com", "anthropic"),
    ("api.cerebras.ai", "cerebras"),
    ("dashscope.aliyuncs.com", "dashscope"),
    ("dashscope-intl.aliyuncs.com", "dashscope"),
    ("api.deepseek.com", "deepseek"),
    ("generativelanguage.googleapis.com", "gemini"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral"),
    ("codestral.mistral.ai", "mistral"),
    ("api.moonshot.ai", "moonshot"),
    ("api.moonshot.cn", "moonshot"),
    ("api.openai.com", "openai"),
    ("api.x.ai", "xai"),
    ("api.z.ai", "zai"),
    ("open.bigmodel.cn", "zai"),
];

/// Published facts about one model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedModel {
    /// Size of the context window in tokens.
    pub(crate) window: Option<u64>,
    /// Maximum size of an answer in tokens.
    pub(crate) answer: Option<u64>,
    /// True if the model accepts pictures.
    #[serde(default)]
    pub(crate) pictures: bool,
    /// True if the model can reason before it answers.
    #[serde(default)]
    pub(crate) thinking: bool,
    /// True if the model can call tools.
    #[serde(default)]
    pub(crate) tools: bool,
    pub(crate) prices: Option<Prices>,
    /// Index of the source page.
    source: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    date: String,
    /// Table that the catalogue was generated from.
    source: String,
    /// Models for configurations with only a key, by provider and slot.
    defaults: BTreeMap<String, BTreeMap<Slot, String>>,
    /// Changes to requests that a provider requires, by provider.
    forms: BTreeMap<String, Vec<Change>>,
    /// Pages that the table cites as sources.
    pages: Vec<String>,
    /// Models by provider and ID.
    models: BTreeMap<String, BTreeMap<String, PublishedModel>>,
}

impl Catalogue {
    fn find(&self, host: &str, id: &str) -> Option<&PublishedModel> {
        let models = self.models.get(provider(host)?)?;
        // One provider lists its models as `models/ID`.
        let id = id.strip_prefix("models/").unwrap_or(id);
        models.get(id).or_else(|| models.get(without_date(id)?))
    }
}

fn provider(host: &str) -> Option<&'static str> {
    HOSTS.iter().find(|(name, _)| host.eq_ignore_ascii_case(name)).map(|(_, provider)| *provider)
}

/// Returns the published facts about a model on a provider's own host, or `None` for other hosts.
pub(crate) fn published(host: &str, id: &str) -> Option<&'static PublishedModel> {
    // The catalogue is not parsed for hosts that are not in it.
    provider(host).and_then(|_| CATALOGUE.find(host, id))
}

/// Returns the changes to requests that the provider with this host requires.
pub(crate) fn form(host: &str) -> &'static [Change] {
    provider(host).and_then(|provider| CATALOGUE.forms.get(provider)).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the models for a configuration with only a key, by slot. Returns none if the host is not a provider's.
pub fn default_models(host: &str) -> impl Iterator<Item = (&'static Slot, &'static String)> {
    provider(host).and_then(|provider| CATALOGUE.defaults.get(provider)).into_iter().flatten()
}

impl PublishedModel {
    /// Returns the source page and date, for display.
    pub(crate) fn origin(&self) -> String {
        let page = self.source.and_then(|page| CATALOGUE.pages.get(page)).unwrap_or(&CATALOGUE.source);
        format!("{page}, {}", CATALOGUE.date)
    }
}

/// Removes a date suffix, `-20251101` or `-2025-11-01`, from an ID: dated versions have the facts of their model.
fn without_date(id: &str) -> Option<&str> {
    let is_day = |date: &str| {
        let bare = date.replace('-', "");
        bare.len() == 8 && bare.starts_with("20") && bare.bytes().all(|letter| letter.is_ascii_digit())
    };
    ["YYYYMMDD", "YYYY-MM-DD"].iter().find_map(|form| {
        let (name, date) = id.split_at_checked(id.len().checked_sub(form.len())?)?;
        name.strip_suffix('-').filter(|_| is_day(date))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_parses_with_plausible_figures() {
        let catalogue: Catalogue = serde_json::from_str(TEXT).unwrap();
        assert!(!catalogue.source.is_empty() && catalogue.date.parse::<jiff::civil::Date>().is_ok());
        let models: Vec<_> = catalogue
            .models
            .iter()
            .flat_map(|(provider, models)| models.iter().map(move |model| (provider, model)))
            .collect();
        assert!(models.len() > 200, "{}", models.len());
        for (provider, (id, model)) in models {
            assert!(HOSTS.iter().any(|(_, name)| name == provider), "{provider}");
            assert!(model.window.is_none_or(|window| (512..20_000_000).contains(&window)), "{id}: {model:?}");
            assert!(model.source.is_none_or(|page| page < catalogue.pages.len()), "{id}");
            let Some(prices) = &model.prices else { continue };
            assert!(prices.above == 0 && prices.are_plausible(), "{id}: {model:?}");
            for Prices { input, cached_input, output, .. } in prices.tiers.iter().chain([prices]) {
                assert!(input <= output && cached_input.is_none_or(|cached| cached <= *input), "{id}: {model:?}");
            }
        }
    }

    #[test]
    fn catalogue_models_match_their_provider_only() {
        let model = published("api.anthropic.com", "claude-opus-4-5").unwrap();
        assert!(model.pictures && model.thinking && model.tools && model.window == Some(200_000), "{model:?}");
        assert!(model.origin().starts_with("https://") && model.answer > Some(8000), "{}", model.origin());
        assert_eq!(published("API.anthropic.com", "claude-opus-4-5-20991231"), Some(model));
        assert!(published("generativelanguage.googleapis.com", "models/gemini-2.5-pro").is_some());
        for (host, id) in [
            ("127.0.0.1", "claude-opus-4-5"),
            ("api.anthropic.com.evil.example", "claude-opus-4-5"),
            ("api.openai.com", "claude-opus-4-5"),
            ("api.openai.com", "gpt-5.1-12345678"),
            ("api.openai.com", ""),
        ] {
            assert_eq!(published(host, id), None, "{host} {id}");
        }
    }

    #[test]
    fn default_models_are_in_the_catalogue() {
        for host in ["api.anthropic.com", "API.OPENAI.COM"] {
            assert_eq!(default_models(host).next().map(|(slot, _)| *slot), Some(Slot::Base), "{host}");
            for (_, id) in default_models(host) {
                assert!(published(host, id).is_some_and(|model| model.tools && model.prices.is_some()), "{id}");
            }
        }
        assert!(["127.0.0.1", "api.x.ai"].iter().all(|host| default_models(host).next().is_none()));
    }
}

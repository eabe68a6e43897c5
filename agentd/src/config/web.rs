//! `web.yaml`: which servers tools may ask, how much of their answers is taken, and who is asked to search.

use std::str::FromStr as _;

use agentd_web::{
    AllowedHost, WebConfig,
    search::{Dialect, JsonFields, SearchConfig},
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{
    ConfigError, Sources,
    layers::Subject,
    origin::Origins,
    value::{Span, Within, address},
    yaml::{self, Reader},
};

/// Where the key of a search engine belongs.
const INSTEAD: &str = "put a key into the variable that api_key_env names";

/// Search engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Provider {
    #[default]
    None,
    Searxng,
    Brave,
    Tavily,
    Json,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WebFile {
    fetch: Option<FetchFile>,
    search: Option<SearchFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FetchFile {
    timeout: Option<Span>,
    max_bytes: Option<Within<1024, 104_857_600>>,
    max_redirects: Option<Within<0, 20>>,
    contact: Option<Spanned<String>>,
    allow: Option<Vec<Spanned<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SearchFile {
    provider: Option<Provider>,
    base_url: Option<Spanned<String>>,
    api_key_env: Option<Spanned<String>>,
    results: Option<Spanned<String>>,
    title: Option<Spanned<String>>,
    url: Option<Spanned<String>>,
    snippet: Option<Spanned<String>>,
    key_header: Option<Spanned<String>>,
}

/// Sum of the layers.
#[derive(Debug, Clone, Default)]
struct Search {
    provider: Provider,
    base_url: String,
    api_key_env: String,
    results: String,
    title: String,
    url: String,
    snippet: String,
    key_header: String,
}

pub(super) fn resolve(sources: &Sources, origins: &mut Origins) -> Result<WebConfig, ConfigError> {
    let variables = sources.env.texts();
    let (mut web, mut search) = (WebConfig::default(), Search::default());
    for file in sources.files_about(Subject::Web) {
        let WebFile { fetch, search: over } = yaml::parse(file, &variables, origins)?;
        let reader = Reader { file, sources, variables: &variables };
        fetch.unwrap_or_default().overlay(&reader, &mut web, origins)?;
        search.overlay(over.unwrap_or_default(), &reader, origins)?;
    }
    web.search = search.complete(sources, origins)?;
    Ok(web)
}

impl FetchFile {
    fn overlay(self, reader: &Reader<'_>, web: &mut WebConfig, origins: &mut Origins) -> Result<(), ConfigError> {
        let mut set = |key: &str| origins.set(format!("web.fetch.{key}"), &reader.file.origin);
        if let Some(timeout) = self.timeout {
            web.timeout = timeout.0;
            set("timeout");
        }
        // The numbers were checked to fit when they were read.
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(most) = self.max_bytes {
            web.max_bytes = size(most.0);
            set("max_bytes");
        }
        if let Some(most) = self.max_redirects {
            web.max_redirects = size(most.0);
            set("max_redirects");
        }
        if let Some(contact) = &self.contact {
            let text = reader.text(contact)?;
            if !text.chars().all(|letter| letter.is_ascii_graphic() && !"()\"\\".contains(letter)) {
                return Err(reader.refuse(contact, "a contact is an address of a page or of mail, without spaces"));
            }
            web.contact = Some(text).filter(|text| !text.is_empty());
            set("contact");
        }
        if let Some(list) = self.allow {
            let read = |text: &Spanned<String>| {
                AllowedHost::from_str(&reader.text(text)?).map_err(|error| reader.refuse(text, error.to_string()))
            };
            web.allow = list.iter().map(read).collect::<Result<_, _>>()?;
            set("allow");
        }
        Ok(())
    }
}

impl Search {
    fn overlay(&mut self, over: SearchFile, reader: &Reader<'_>, origins: &mut Origins) -> Result<(), ConfigError> {
        let mut set = |key: &str| origins.set(format!("web.search.{key}"), &reader.file.origin);
        if let Some(provider) = over.provider {
            self.provider = provider;
            set("provider");
        }
        macro_rules! take {
            ($($field:ident),*) => {$(
                if let Some(text) = &over.$field {
                    self.$field = reader.text(text)?;
                    set(stringify!($field));
                }
            )*};
        }
        take!(base_url, api_key_env, results, title, url, snippet, key_header);
        Ok(())
    }

    fn complete(self, sources: &Sources, origins: &Origins) -> Result<Option<SearchConfig>, ConfigError> {
        let wrong = |key: &str, why: String| {
            let key = format!("web.search.{key}");
            ConfigError::new(origins.place(&key), format!("{key}: {why}"))
        };
        let dialect = match self.provider {
            Provider::None => return Ok(None),
            Provider::Searxng => Dialect::Searxng,
            Provider::Brave => Dialect::Brave,
            Provider::Tavily => Dialect::Tavily,
            Provider::Json => Dialect::Json(JsonFields {
                results: self.results,
                title: self.title,
                url: self.url,
                snippet: self.snippet,
                key_header: Some(self.key_header).filter(|name| !name.is_empty()),
            }),
        };
        let base_url = match (self.base_url.as_str(), dialect.usual_base_url()) {
            ("", Some(usual)) => usual,
            ("", None) => {
                let why = format!("{dialect} has no default address");
                return Err(wrong("base_url", why).with_hint("set it in web.yaml, such as http://localhost:8888"));
            }
            (named, _) => named,
        };
        let base_url = address(base_url, "http://localhost:8888", INSTEAD).map_err(|why| wrong("base_url", why))?;
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        // Whoever writes the key itself here does not want to see it in a message.
        if self.api_key_env.len() > 64 || !self.api_key_env.chars().all(is_letter) {
            let error = wrong("api_key_env", "it is not the name of an environment variable".to_owned());
            return Err(error.with_hint("the key itself belongs into the daemon's environment, not into a file"));
        }
        if self.api_key_env.is_empty() && dialect.needs_key() {
            let error = wrong("api_key_env", format!("{dialect} needs a key"));
            return Err(error.with_hint("name the environment variable of the daemon that holds it"));
        }
        let api_key = sources.env.text(&self.api_key_env).map(|key| SecretString::from(key.trim()));
        let key_variable = Some(self.api_key_env).filter(|name| !name.is_empty());
        Ok(Some(SearchConfig { dialect, base_url, api_key, key_variable }))
    }
}

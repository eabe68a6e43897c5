//! `web.yaml`: which servers tools may ask, how much of their answers is taken, and who is asked to search.

use std::{collections::HashMap, str::FromStr as _};

use agentd_web::{
    AllowedHost, WebConfig,
    search::{Dialect, JsonFields, SearchConfig},
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{
    ConfigError, ErrorPlace, Sources,
    layers::{SourceFile, Subject},
    origin::{Origin, Origins},
    value::{Span, Within},
    yaml,
};

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
        let WebFile { fetch, search: over } = yaml::parse(file, &variables)?;
        let reader = Reader { file, variables: &variables };
        reader.fetch(fetch.unwrap_or_default(), &mut web, origins)?;
        reader.search(over.unwrap_or_default(), &mut search, origins)?;
    }
    web.search = search.complete(sources, origins)?;
    Ok(web)
}

/// Reads what one file says over what those below it said.
struct Reader<'a> {
    file: &'a SourceFile,
    variables: &'a HashMap<String, String>,
}

impl Reader<'_> {
    fn fetch(&self, over: FetchFile, web: &mut WebConfig, origins: &mut Origins) -> Result<(), ConfigError> {
        let mut set = |key: &str| origins.set(format!("web.fetch.{key}"), &self.file.origin);
        if let Some(timeout) = over.timeout {
            web.timeout = timeout.0;
            set("timeout");
        }
        // The numbers were checked to fit when they were read.
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(most) = over.max_bytes {
            web.max_bytes = size(most.0);
            set("max_bytes");
        }
        if let Some(most) = over.max_redirects {
            web.max_redirects = size(most.0);
            set("max_redirects");
        }
        if let Some(contact) = &over.contact {
            let text = self.text(contact)?;
            if !text.chars().all(|letter| letter.is_ascii_graphic() && !"()\"\\".contains(letter)) {
                return Err(self.refuse(contact, "a contact is an address of a page or of mail, without spaces"));
            }
            web.contact = Some(text).filter(|text| !text.is_empty());
            set("contact");
        }
        if let Some(list) = over.allow {
            let read = |text: &Spanned<String>| {
                AllowedHost::from_str(&self.text(text)?).map_err(|error| self.refuse(text, &error.to_string()))
            };
            web.allow = list.iter().map(read).collect::<Result<_, _>>()?;
            set("allow");
        }
        Ok(())
    }

    fn search(&self, over: SearchFile, search: &mut Search, origins: &mut Origins) -> Result<(), ConfigError> {
        let mut set = |key: &str| origins.set(format!("web.search.{key}"), &self.file.origin);
        if let Some(provider) = over.provider {
            search.provider = provider;
            set("provider");
        }
        macro_rules! take {
            ($($field:ident),*) => {$(
                if let Some(text) = &over.$field {
                    search.$field = self.text(text)?;
                    set(stringify!($field));
                }
            )*};
        }
        take!(base_url, api_key_env, results, title, url, snippet, key_header);
        Ok(())
    }

    fn text(&self, value: &Spanned<String>) -> Result<String, ConfigError> {
        yaml::text(self.file, value, self.variables)
    }

    fn refuse(&self, value: &Spanned<String>, why: &str) -> ConfigError {
        ConfigError::new(yaml::place(self.file, value.defined), why)
    }
}

impl Search {
    fn complete(self, sources: &Sources, origins: &Origins) -> Result<Option<SearchConfig>, ConfigError> {
        let wrong = |key: &str, why: String| {
            let key = format!("web.search.{key}");
            let place = match origins.get(&key) {
                Some(origin) if *origin != Origin::BuiltIn => ErrorPlace::File(origin.path(), None),
                _ => ErrorPlace::Setting(key.clone()),
            };
            ConfigError::new(place, format!("{key}: {why}"))
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
        let base_url = check_url(base_url).map_err(|why| wrong("base_url", why.to_owned()))?;
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

/// Checks an address. The error does not repeat it: it may hold a password.
fn check_url(text: &str) -> Result<url::Url, &'static str> {
    match url::Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => Err("it begins with http:// or https://"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("it holds a name or a password before the @; put a key into the variable that api_key_env names")
        }
        Ok(url) => Ok(url),
        Err(_) => Err("it is not an address such as http://localhost:8888"),
    }
}

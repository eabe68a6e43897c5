//! `models.yaml` and `MODEL_*`: the five slots, and the fallback models that answer in place of others.

mod account;
mod environment;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

use agentd_core::{
    model::{Slot, is_model_id},
    usage::Prices,
};
use agentd_models::{ChatTemplate, Effort, EmbeddingsConfig, Fallback, ModelConfig, Thinking, Wire, default_models};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use crate::config::{
    ConfigError, ErrorLocation, Sources,
    groups::overlay_fields,
    layers::{Origin, Origins, Subject},
    yaml::{self, Reader, Span},
};

/// Default base URL if only a key is set. Most programs that read such variables use the same default.
const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// Default URL of Anthropic's API, and the variables for another URL and the key.
const ANTHROPIC_BASE_URL: &str = "https://api.anthropic.com";
const ANTHROPIC_ADDRESS_VARIABLE: &str = "ANTHROPIC_BASE_URL";
const ANTHROPIC_KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";
/// Variables of OpenAI's API.
const OPENAI_ADDRESS_VARIABLE: &str = "OPENAI_BASE_URL";
const OPENAI_KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Minimum size of a context window in tokens.
const MIN_WINDOW: u64 = 256;

/// Models by slot. Slots not listed are empty.
pub type ModelSettings = Vec<(Slot, ModelLocation)>;

/// Location of a model.
#[derive(Debug, Clone)]
pub enum ModelLocation {
    /// Model on a server.
    Server(Box<ModelConfig>),
    /// GGUF file that runs in the daemon process.
    Gguf(PathBuf),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ModelsFile {
    base: Option<SlotFile>,
    reasoning: Option<SlotFile>,
    vision: Option<SlotFile>,
    code: Option<SlotFile>,
    chat: Option<SlotFile>,
    others: BTreeMap<String, SlotFile>,
    embeddings: Option<SlotFile>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SlotFile {
    base_url: Option<Spanned<String>>,
    api_key: Option<Spanned<String>>,
    api_key_file: Option<Spanned<String>>,
    api_key_command: Option<Spanned<String>>,
    api_key_header: Option<String>,
    ca_file: Option<Spanned<String>>,
    client_cert_file: Option<Spanned<String>>,
    client_key_file: Option<Spanned<String>>,
    id: Option<Spanned<String>>,
    gguf: Option<Spanned<String>>,
    wire: Option<Wire>,
    temperature: Option<Spanned<f64>>,
    max_tokens: Option<Spanned<u64>>,
    context_window: Option<Spanned<u64>>,
    native_tools: Option<bool>,
    echo_reasoning: Option<bool>,
    sees_pictures: Option<bool>,
    thinking: Option<Thinking>,
    effort: Option<Effort>,
    cache_reasons: Option<bool>,
    prices: Option<Spanned<Prices>>,
    timeouts: Option<TimeoutsFile>,
    retries: Option<Spanned<u32>>,
    headers: Option<BTreeMap<String, Spanned<String>>>,
    body: Option<Map<String, Value>>,
    chat_template: Option<ChatTemplate>,
    fallback: Option<Vec<Spanned<String>>>,
    /// Only for the embeddings, which have no slot.
    folders: Option<Vec<Spanned<String>>>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TimeoutsFile {
    connect: Option<Span>,
    first_byte: Option<Span>,
    idle: Option<Span>,
    key_command: Option<Span>,
}

/// API key of a slot, and where it is set, for hints.
#[derive(Debug, Clone)]
struct SlotKey {
    /// The key, unless a command prints it.
    secret: Option<SecretString>,
    renewable: Option<Arc<agentd_models::RenewableKey>>,
    source: String,
}

/// Checked settings of a slot, from one layer or merged from several layers.
#[derive(Debug, Clone, Default)]
struct SlotLayer {
    base_url: Option<String>,
    api_key: Option<SlotKey>,
    ca_file: Option<PathBuf>,
    client_cert_file: Option<PathBuf>,
    client_key_file: Option<PathBuf>,
    id: Option<String>,
    gguf: Option<PathBuf>,
    wire: Option<Wire>,
    context_window: Option<u64>,
    headers: Option<BTreeMap<String, SecretString>>,
    fallback: Option<Vec<String>>,
    /// All other settings, as written.
    more: SlotFile,
}

/// Error message for invalid prices.
const INVALID_PRICES: &str = "prices must be from 0 to 10000, and their tiers in ascending order";

/// Models by slot, and the settings of the embeddings.
type ResolvedModels = (ModelSettings, Option<EmbeddingsConfig>);

pub(super) fn resolve(sources: &Sources, origins: &mut Origins) -> Result<ResolvedModels, ConfigError> {
    let variables = sources.env.texts();
    let mut slots: HashMap<Slot, SlotLayer> = HashMap::new();
    let mut others: BTreeMap<String, SlotLayer> = BTreeMap::new();
    let mut highest_embeddings = None;
    for file in sources.files_of(Subject::Models) {
        let ModelsFile { base, reasoning, vision, code, chat, others: named, embeddings } =
            yaml::parse(file, &variables)?;
        let reader = Reader { file, sources, variables: &variables };
        for (slot, layer) in Slot::ALL.into_iter().zip([base, reasoning, vision, code, chat]) {
            let Some(layer) = layer else { continue };
            let layer = reader.slot(layer)?;
            slots.entry(slot).or_default().overlay(layer, slot, origins, |_| file.origin.clone());
        }
        for (name, layer) in named {
            others.insert(name, reader.slot(layer)?);
        }
        if let Some(mut layer) = embeddings {
            // Not merged with other files, so that no key goes to another server. The files of sessions have a name.
            let folders = reader.texts(&layer.folders.take().unwrap_or_default())?.into_iter();
            let folders = folders.map(|path| if path == "uploads" { "workspace".into() } else { reader.path(&path) });
            highest_embeddings = Some((folders.collect(), reader.slot(layer)?));
            origins.set("models.embeddings", &file.origin);
        }
    }
    for slot in Slot::ALL {
        let layer = environment::layer(sources, slot)?;
        if layer.names_a_model() || layer.wire.is_some() || layer.context_window.is_some() {
            slots
                .entry(slot)
                .or_default()
                .overlay(layer, slot, origins, |key| Origin::Variable(environment::variable(slot, key)));
        }
    }

    if !slots.values().any(SlotLayer::names_a_model) && !slots.values().any(SlotLayer::has_address) {
        use_provider_key(sources, &mut slots, origins)?;
    }
    let base = slots.get(&Slot::Base).cloned().unwrap_or_default();
    let anthropic = AnthropicDefaults::from_env(sources);
    let others = others
        .into_iter()
        .map(|(name, layer)| layer.into_model(&format!("others.{name}"), &anthropic).map(|model| (name, model)))
        .collect::<Result<_, _>>()?;
    let embeddings = highest_embeddings.map(|(folders, layer)| {
        layer.into_model("embeddings", &anthropic).map(|model| EmbeddingsConfig { model, folders })
    });
    let mut settings = ModelSettings::new();
    for slot in Slot::ALL {
        let Some(layer) = slots.remove(&slot) else { continue };
        // `chat: {temperature: 0.2}` is base's model with other settings. Settings that do not name a model leave the
        // slot empty, for example if `${NAME:-}` is expanded to an empty text.
        let varies_base = slot != Slot::Base && base.has_address() && origins.has_prefix(&format!("models.{slot}."));
        if layer.names_a_model() || varies_base {
            settings.push((slot, layer.complete(slot, &base, &anthropic, &others)?));
        }
    }
    Ok((settings, embeddings.transpose()?))
}

impl SlotKey {
    /// Creates a key from the value of a variable.
    fn of(sources: &Sources, variable: &str, key: &str) -> Self {
        Self { secret: Some(key.into()), renewable: None, source: sources.place_of_variable(variable) }
    }
}

impl SlotLayer {
    /// Returns true if the layer names a model or its URL.
    fn names_a_model(&self) -> bool {
        self.has_address() || self.id.is_some() || self.gguf.is_some()
    }

    /// Returns true if the layer determines the model's URL. A key and Anthropic's wire imply a default URL.
    fn has_address(&self) -> bool {
        self.base_url.is_some() || self.api_key.is_some() || self.wire == Some(Wire::Anthropic)
    }

    /// Merges a higher layer into this one.
    fn overlay(&mut self, overrides: Self, slot: Slot, origins: &mut Origins, origin: impl Fn(&str) -> Origin) {
        self.clear_overridden(&overrides, slot, origins);
        let mut note = |field| origins.set(format!("models.{slot}.{field}"), &origin(field));
        overlay_fields!(self, overrides, note; base_url, api_key, id, gguf, wire, context_window, headers, fallback);
        overlay_fields!(self, overrides, note; ca_file, client_cert_file, client_key_file);
        let (more, overrides) = (&mut self.more, overrides.more);
        overlay_fields!(more, overrides, note; temperature, max_tokens, native_tools, echo_reasoning, sees_pictures);
        overlay_fields!(more, overrides, note; thinking, effort, cache_reasons, prices, retries, body, chat_template);
        overlay_fields!(more, overrides, note; api_key_header);
        let (timeouts, overrides) = (more.timeouts.get_or_insert_default(), overrides.timeouts.unwrap_or_default());
        overlay_fields!(timeouts, overrides, note; connect, first_byte, idle, key_command);
    }

    /// Clears settings that a higher layer makes invalid. A key belongs to the URL in the same layer, and must never be
    /// sent to another layer's URL. A slot has either a URL or a file.
    fn clear_overridden(&mut self, overrides: &Self, slot: Slot, origins: &mut Origins) {
        let has_moved = overrides.base_url.is_some() && overrides.base_url != self.base_url;
        let mut clear = |key: &str| drop(origins.keys.remove(&format!("models.{slot}.{key}")));
        if has_moved || overrides.gguf.is_some() {
            self.drop_account().into_iter().for_each(&mut clear);
        }
        if overrides.gguf.is_some() {
            self.base_url = None;
            clear("base_url");
        } else if overrides.base_url.is_some() {
            self.gguf = None;
            clear("gguf");
        }
    }

    fn complete(
        self,
        slot: Slot,
        base: &Self,
        anthropic: &AnthropicDefaults,
        others: &BTreeMap<String, ModelConfig>,
    ) -> Result<ModelLocation, ConfigError> {
        if let Some(path) = self.gguf {
            return Ok(ModelLocation::Gguf(path));
        }
        // A slot that sets neither a URL nor a key is another model on base's server. It shares the connection settings
        // of base, but not the limits and prices of base's model.
        let names_server = self.base_url.is_some() || self.api_key.is_some();
        let has_other_wire = self.wire == Some(Wire::Anthropic) && base.wire != Some(Wire::Anthropic);
        let own_server = slot == Slot::Base || names_server || has_other_wire;
        let server = if own_server { &self } else { base };
        let wire = self.wire.or(server.wire).unwrap_or_default();
        let base_url = match (&server.base_url, &server.api_key) {
            (Some(url), _) => url.clone(),
            (None, _) if wire == Wire::Anthropic => anthropic.base_url()?,
            // A key for the other wire must not be sent to this URL.
            (None, Some(_)) if server.wire != Some(Wire::Anthropic) => DEFAULT_BASE_URL.to_owned(),
            (None, _) => return Err(environment::no_address(slot)),
        };
        let key = server.api_key.clone().or_else(|| anthropic.key_for(wire, &base_url));
        let (own, shared) = (&self.more, &server.more);
        let mut model = ModelConfig::new(wire, base_url);
        if let Some(SlotKey { secret, renewable, source }) = key {
            (model.api_key, model.renewable_key, model.key_source) = (secret, renewable, Some(source));
        }
        model.certificates = self.certificates(server);
        model.headers = self.headers.clone().or_else(|| server.headers.clone()).unwrap_or_default();
        // If no id is set, the first model in the server's list is used.
        model.id = self.id.clone().or_else(|| server.id.clone()).unwrap_or_default();
        model.temperature = own.temperature.as_ref().map(|temperature| temperature.value);
        model.max_tokens = own.max_tokens.as_ref().map(|tokens| tokens.value);
        model.context_window = self.context_window;
        model.api_key_header = own.api_key_header.clone().or_else(|| shared.api_key_header.clone());
        model.native_tools = own.native_tools.or(shared.native_tools);
        model.echo_reasoning = own.echo_reasoning.or(shared.echo_reasoning).unwrap_or_default();
        // The vision slot's model accepts pictures, unless configured otherwise.
        model.sees_pictures = own.sees_pictures.or((slot == Slot::Vision).then_some(true));
        model.thinking = own.thinking;
        model.effort = own.effort;
        model.cache_reasons = own.cache_reasons.or(shared.cache_reasons);
        model.prices = own.prices.as_ref().map(|prices| prices.value.clone());
        let retries = own.retries.as_ref().or(shared.retries.as_ref());
        model.retries = retries.map_or(model.retries, |retries| retries.value);
        model.body = own.body.clone().unwrap_or_default();
        model.chat_template = own.chat_template.clone().unwrap_or_default();
        let (own, shared) = (own.timeouts.unwrap_or_default(), shared.timeouts.unwrap_or_default());
        let millis = |own: Option<Span>, shared: Option<Span>, default| own.or(shared).map_or(default, Span::as_millis);
        model.key_timeout_ms = millis(own.key_command, shared.key_command, model.key_timeout_ms);
        model.connect_timeout_ms = millis(own.connect, shared.connect, model.connect_timeout_ms);
        model.first_byte_timeout_ms = millis(own.first_byte, shared.first_byte, model.first_byte_timeout_ms);
        model.idle_timeout_ms = millis(own.idle, shared.idle, model.idle_timeout_ms);
        let fallback = self.fallback.as_ref().or(server.fallback.as_ref());
        model.fallback = fallback.into_iter().flatten().filter_map(|name| fallback_named(slot, name, others)).collect();
        Ok(ModelLocation::Server(Box::new(model)))
    }

    /// Builds a model without a slot, which has this key in the file: a fallback, or the model of the embeddings.
    fn into_model(self, key: &str, anthropic: &AnthropicDefaults) -> Result<ModelConfig, ConfigError> {
        let location = || ErrorLocation::Setting(format!("models.{key}"));
        let invalid = |message: &str| Err(ConfigError::new(location(), message));
        if key.strip_prefix("others.").is_some_and(|name| name.parse::<Slot>().is_ok()) {
            return invalid("reserved name of a slot; choose another name");
        }
        if self.fallback.is_some() {
            return invalid("a fallback model cannot have a `fallback`");
        }
        if !self.has_address() {
            return invalid("no address for this model; set base_url or api_key");
        }
        match self.complete(Slot::Base, &Self::default(), anthropic, &BTreeMap::new())? {
            ModelLocation::Server(model) => Ok(*model),
            ModelLocation::Gguf(_) => invalid(
                "a fallback model cannot be a GGUF file; set the file for a slot, and name that slot in `fallback`",
            ),
        }
    }
}

/// Returns the model that a name in `fallback` refers to. Returns `None` if the name is the slot itself, because slots
/// on the same server share their fallbacks.
fn fallback_named(slot: Slot, name: &str, others: &BTreeMap<String, ModelConfig>) -> Option<Fallback> {
    match (name.parse::<Slot>(), others.get(name)) {
        (Ok(own), _) if own == slot => None,
        (Ok(other), _) => Some(Fallback::Slot(other)),
        (Err(_), Some(model)) => Some(Fallback::Model(Box::new(model.clone()))),
        (Err(_), None) => Some(Fallback::Id(name.to_owned())),
    }
}

/// URL and key of Anthropic's API, from the environment variables of its SDKs.
struct AnthropicDefaults {
    address: String,
    key: Option<SlotKey>,
}

impl AnthropicDefaults {
    fn from_env(sources: &Sources) -> Self {
        let text = |name| sources.env.text(name).map(str::trim).filter(|text| !text.is_empty());
        let address = text(ANTHROPIC_ADDRESS_VARIABLE).unwrap_or(ANTHROPIC_BASE_URL).to_owned();
        Self { address, key: text(ANTHROPIC_KEY_VARIABLE).map(|key| SlotKey::of(sources, ANTHROPIC_KEY_VARIABLE, key)) }
    }

    /// Returns the base URL. It is only checked if a slot needs it, because other programs also use the variable.
    fn base_url(&self) -> Result<String, ConfigError> {
        url_in(ANTHROPIC_ADDRESS_VARIABLE, &self.address)
    }

    /// Returns the key, but only for the server that it belongs to.
    fn key_for(&self, wire: Wire, base_url: &str) -> Option<SlotKey> {
        let is_same_origin = origin_of(base_url).is_some_and(|origin| Some(origin) == origin_of(&self.address));
        self.key.clone().filter(|_| wire == Wire::Anthropic && is_same_origin)
    }
}

/// Sets up the models of a provider from the provider's API key alone. Only applies if no model is configured and the
/// environment contains the key under the name that the provider's SDKs use.
fn use_provider_key(
    sources: &Sources,
    slots: &mut HashMap<Slot, SlotLayer>,
    origins: &mut Origins,
) -> Result<(), ConfigError> {
    let text = |name| sources.env.text(name).map(str::trim).filter(|text| !text.is_empty());
    let (wire, key, address) = match (text(ANTHROPIC_KEY_VARIABLE), text(OPENAI_KEY_VARIABLE)) {
        (Some(_), _) => {
            (Wire::Anthropic, ANTHROPIC_KEY_VARIABLE, text(ANTHROPIC_ADDRESS_VARIABLE).unwrap_or(ANTHROPIC_BASE_URL))
        }
        (None, Some(_)) => {
            let address = text(OPENAI_ADDRESS_VARIABLE).unwrap_or(DEFAULT_BASE_URL);
            // The provider's own models work best over the Responses API. All other servers that accept such a key
            // support chat completions; few support anything else.
            let is_openai = origin_of(address) == origin_of(DEFAULT_BASE_URL);
            (if is_openai { Wire::Responses } else { Wire::OpenAi }, OPENAI_KEY_VARIABLE, address)
        }
        (None, None) => return Ok(()),
    };
    let variable = if wire == Wire::Anthropic { ANTHROPIC_ADDRESS_VARIABLE } else { OPENAI_ADDRESS_VARIABLE };
    let base_url = url_in(variable, address)?;
    let host = url::Url::parse(&base_url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let server = SlotLayer {
        api_key: text(key).map(|text| SlotKey::of(sources, key, text)),
        base_url: Some(base_url),
        wire: Some(wire),
        ..SlotLayer::default()
    };
    slots.entry(Slot::Base).or_default().overlay(server, Slot::Base, origins, |_| Origin::Variable(key));
    // At other hosts, the first model in the server's list is used.
    for (slot, id) in default_models(&host) {
        let model = SlotLayer { id: Some(id.clone()), ..SlotLayer::default() };
        slots.entry(*slot).or_default().overlay(model, *slot, origins, |_| Origin::BuiltIn);
    }
    Ok(())
}

/// Returns the scheme, host and port of a URL.
fn origin_of(address: &str) -> Option<url::Origin> {
    url::Url::parse(address).ok().map(|url| url.origin())
}

impl Reader<'_> {
    fn slot(&self, mut slot: SlotFile) -> Result<SlotLayer, ConfigError> {
        if let (Some(gguf), Some(_)) = (&slot.gguf, &slot.base_url) {
            return Err(self.refuse(gguf, "a slot has either `gguf` or `base_url`, not both"));
        }
        if let Some(folder) = slot.folders.iter().flatten().next() {
            return Err(self.refuse(folder, "only `embeddings` has `folders`"));
        }
        let (api_key, certificates) = (self.api_key(&mut slot)?, self.certificates(&slot)?);
        let base_url = slot.base_url.as_ref().map(|url| self.url(url)).transpose()?.flatten();
        let (id, gguf) = (self.optional(slot.id.as_ref())?, self.optional(slot.gguf.as_ref())?);
        self.check(slot.temperature.as_ref(), |t| (0.0..=2.0).contains(t), "temperature must be from 0 to 2")?;
        self.check(slot.max_tokens.as_ref(), |n| *n > 0, "max_tokens must be above 0")?;
        self.check(slot.context_window.as_ref(), |n| *n >= MIN_WINDOW, "context_window must be at least 256")?;
        self.check(slot.prices.as_ref(), |prices| prices.above == 0 && prices.are_plausible(), INVALID_PRICES)?;
        self.check(slot.retries.as_ref(), |n| *n <= 20, "retries must be at most 20")?;
        Ok(SlotLayer {
            base_url,
            api_key,
            ca_file: certificates.ca_file,
            client_cert_file: certificates.client_cert_file,
            client_key_file: certificates.client_key_file,
            id,
            gguf: gguf.map(|path| self.path(&path)),
            wire: slot.wire,
            context_window: slot.context_window.as_ref().map(|tokens| tokens.value),
            headers: slot.headers.take().map(|headers| self.headers(headers)).transpose()?,
            fallback: slot.fallback.take().map(|names| self.fallback(&names)).transpose()?,
            more: slot,
        })
    }

    /// Reads an optional string. An empty string, for example from an unset `${NAME:-}`, is treated as not set.
    fn optional(&self, value: Option<&Spanned<String>>) -> Result<Option<String>, ConfigError> {
        let text = value.map(|value| self.text(value)).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    fn headers(
        &self,
        headers: BTreeMap<String, Spanned<String>>,
    ) -> Result<BTreeMap<String, SecretString>, ConfigError> {
        headers.iter().map(|(name, text)| Ok((name.clone(), self.text(text)?.into()))).collect()
    }

    fn url(&self, value: &Spanned<String>) -> Result<Option<String>, ConfigError> {
        let text = self.optional(Some(value))?;
        text.map(|text| check_url(&text).map_err(|message| self.refuse(value, message))).transpose()
    }

    fn check<T>(
        &self,
        value: Option<&Spanned<T>>,
        is_valid: impl Fn(&T) -> bool,
        rule: &str,
    ) -> Result<(), ConfigError> {
        value.filter(|value| !is_valid(&value.value)).map_or(Ok(()), |value| Err(self.refuse(value, rule)))
    }

    /// Reads the names of the models that answer in place of a slot's model.
    fn fallback(&self, names: &[Spanned<String>]) -> Result<Vec<String>, ConfigError> {
        let name = |name: &Spanned<String>| match self.optional(Some(name))? {
            Some(text) if !is_model_id(&text) => Err(self.refuse(name, "not a slot or model id")),
            text => Ok(text),
        };
        names.iter().filter_map(|text| name(text).transpose()).collect()
    }
}

fn url_in(variable: &str, text: &str) -> Result<String, ConfigError> {
    check_url(text).map_err(|message| {
        ConfigError::new(ErrorLocation::Variable(variable.to_owned()), message.replace("base_url", "the address"))
    })
}

/// Checks a URL and removes its trailing slash. Error messages do not quote the URL, because it may contain a password.
fn check_url(text: &str) -> Result<String, &'static str> {
    match url::Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => Err("base_url must start with http:// or https://"),
        Ok(url) if url.fragment().is_some() => Err("base_url must not contain `#`"),
        Ok(_) => Ok(text.trim_end_matches('/').to_owned()),
        Err(_) => Err("base_url is not a URL such as http://127.0.0.1:8080/v1"),
    }
}

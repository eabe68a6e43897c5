//! Facts about a model: from the configuration, from the model's record, and, if not configured, from its server. The
//! server is queried once per model, on first use, so that daemon startup does not wait for it.

pub(crate) mod catalogue;
pub(crate) mod records;
pub(crate) mod server;

use std::{
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    model::{ModelFigure, ModelInfo, ROUTE_FIGURE, WindowSource},
    mutex::lock,
    usage::Prices,
};
use secrecy::ExposeSecret as _;
use tokio::{
    sync::{Mutex as AsyncMutex, OnceCell},
    time::Instant,
};

use crate::{
    config::{ModelConfig, Wire},
    facts::{
        catalogue::PublishedModel,
        records::{ModelRecord, RecordHandle, WindowLimit},
        server::{ModelAbilities, ServerFacts},
    },
    http::{
        refusals::{Change, RequestForm},
        target::Target,
    },
};

/// Model ID in requests if none is configured and the server lists no models.
const UNNAMED_MODEL: &str = "default";

/// Time for which a server that could not be reached is not queried again.
const QUERY_PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of repeated queries to a server that only reports the window of a loaded model.
const MAX_REPEATED_QUERIES: u32 = 3;

/// Divisor for the tolerance of windows: a request refutes a window only if it exceeds the window by more than a
/// twentieth, as servers' counts vary slightly.
const TOLERANCE_DIVISOR: u64 = 20;

/// Maximum number of fact states per run. Facts rarely change, and each state is stored as long as the model.
const MAX_STATES: u32 = 256;

pub(crate) struct ModelFacts {
    pub(crate) config: ModelConfig,
    /// URL and client of the model's server.
    pub(crate) target: Target,
    /// First state of a linked list. References to older states stay valid.
    first: FactsState,
    states: AtomicU32,
    pub(crate) record: RecordHandle,
    /// Initialised once the server has been queried.
    queried: OnceCell<()>,
    /// Initialised once the server has been queried about pictures.
    sight: OnceCell<()>,
    /// Name under which Ollama serves the model with the configured window.
    variant: OnceLock<String>,
    /// True while the server lists no models although requests must name one. Until a request fails, the server is not
    /// queried again.
    unlisted: AtomicBool,
    /// Time from which the server may be queried again.
    paused_until: Mutex<Option<Instant>>,
    /// True once a query was attempted, regardless of its outcome.
    was_queried: AtomicBool,
    /// Remaining repeated queries while the server has not loaded the model.
    remaining_queries: AtomicU32,
    /// Locked during a repeated query.
    repeat_lock: AsyncMutex<()>,
}

/// One state of the facts, and its successor.
#[derive(Debug)]
struct FactsState {
    info: ModelInfo,
    next: OnceLock<Box<FactsState>>,
}

impl FactsState {
    fn of(info: ModelInfo) -> Self {
        Self { info, next: OnceLock::new() }
    }

    fn last(&self) -> &Self {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }
}

impl ModelFacts {
    /// Creates the facts known from the configuration and the record.
    pub(crate) fn new(config: ModelConfig, target: Target, record: RecordHandle) -> Self {
        let info = merged_info(&config, &target, &record.current());
        Self {
            config,
            target,
            first: FactsState::of(info),
            states: AtomicU32::new(0),
            record,
            queried: OnceCell::new(),
            sight: OnceCell::new(),
            variant: OnceLock::new(),
            unlisted: AtomicBool::new(false),
            paused_until: Mutex::default(),
            was_queried: AtomicBool::new(false),
            remaining_queries: AtomicU32::new(0),
            repeat_lock: AsyncMutex::default(),
        }
    }

    pub(crate) fn info(&self) -> &ModelInfo {
        &self.first.last().info
    }

    /// Returns the abilities of the model that its server has reported.
    pub(crate) fn abilities(&self) -> ModelAbilities {
        self.record.current().abilities.unwrap_or_default()
    }

    /// Returns the prices of the model: configured, published, or listed by its server.
    pub(crate) fn prices(&self) -> Option<Prices> {
        let published = || catalogue::published(self.target.host(), &self.info().id)?.prices.clone();
        self.config.prices.clone().or_else(published).or_else(|| self.record.current().prices)
    }

    /// Returns the changes to requests: those that its provider publishes, and those learnt from refusals.
    pub(crate) fn form(&self) -> RequestForm {
        form(&self.target, &self.record.current())
    }

    /// Counts the changes with which the server accepted a request, and returns the new ones.
    pub(crate) fn count(&self, changes: &[Change]) -> Vec<Change> {
        let new = self.record.count(changes);
        self.refresh();
        new
    }

    /// Updates the facts from the record.
    fn refresh(&self) {
        let mut info = merged_info(&self.config, &self.target, &self.record.current());
        if let Some(variant) = self.variant.get() {
            info.id.clone_from(variant);
        }
        let mut last = self.first.last();
        if info == last.info || self.states.fetch_add(1, Ordering::Relaxed) >= MAX_STATES {
            return;
        }
        while let Err(refused) = last.next.set(Box::new(FactsState::of(info))) {
            // Another task updated the facts first, from the same record or a newer one.
            info = refused.info;
            last = last.last();
        }
    }

    /// Records a window size inferred from a refusal or a token count.
    pub(crate) fn limit_to(&self, tokens: u64, source: WindowSource) {
        self.record.limit_to(tokens, source);
        self.refresh();
    }

    /// Records that a request of this size was answered. This refutes a smaller observed window.
    pub(crate) fn counted(&self, tokens: u64) {
        let refutes = |limit: WindowLimit| tokens > limit.tokens.saturating_add(limit.tokens / TOLERANCE_DIVISOR);
        if self.record.current().limit.is_some_and(refutes) {
            self.record.lift_limit();
            self.refresh();
        }
    }

    /// Removes everything learnt from refusals and token counts, and allows another query of the server.
    pub(crate) fn forget(&self) {
        self.record.forget();
        self.remaining_queries.store(1, Ordering::Relaxed);
        self.refresh();
    }

    /// Queries the server for missing facts, unless it was already queried.
    pub(crate) async fn look_up(&self) {
        // Recorded facts may have expired.
        self.refresh();
        let lacks_facts = self.config.id.is_empty() || self.config.context_window.is_none() || self.lacks_abilities();
        if !(lacks_facts || self.may_set_window()) || self.is_paused() || self.unlisted.load(Ordering::Relaxed) {
            return;
        }
        if self.queried.initialized() {
            return self.retry_query().await;
        }
        let query = || async {
            match self.query(false).await {
                // A server that lists no models now may list some later. The first listed model is used then.
                Some(ServerFacts { id: None, .. }) if self.config.needs_id() => {
                    self.unlisted.store(true, Ordering::Relaxed);
                    Err(())
                }
                Some(facts) => {
                    self.remaining_queries
                        .store(if facts.loads_later { MAX_REPEATED_QUERIES } else { 0 }, Ordering::Relaxed);
                    self.apply_facts(facts);
                    let ModelInfo { id, context_window, window_source, .. } = self.info();
                    tracing::debug!(
                        model = id,
                        window = context_window,
                        source = window_source.as_str(),
                        "looked up a model"
                    );
                    if *window_source == WindowSource::Default {
                        tracing::warn!(
                            hint =
                                "set context_window in models.yaml, or a variable such as MODEL_BASIC_CONTEXT_WINDOW",
                            "the context window of {id} is unknown, assuming {context_window} tokens"
                        );
                    }
                    Ok(())
                }
                None => Err(()),
            }
        };
        self.was_queried.store(true, Ordering::Relaxed);
        // If the query fails, the next request tries again.
        let _ = self.queried.get_or_try_init(query).await;
    }

    /// Queries the server about support for pictures, unless this is configured or was already queried.
    pub(crate) async fn look_up_vision(&self) {
        self.look_up().await;
        if self.config.sees_pictures.is_some() || self.config.wire == Wire::LlamaCpp || self.is_paused() {
            return;
        }
        let query = || async {
            self.apply_facts(self.query(true).await.ok_or(())?);
            Ok::<(), ()>(())
        };
        // If the query fails, a later request with pictures tries again.
        let _ = self.sight.get_or_try_init(query).await;
    }

    /// Queries the server. If it does not answer, queries pause for a while. Requests that must name their model query
    /// the server each time, as it may be starting.
    async fn query(&self, sight: bool) -> Option<ServerFacts> {
        let facts = server::query(&self.target, &self.config, sight, self.may_set_window()).await;
        if facts.is_none() && !self.config.needs_id() {
            *lock(&self.paused_until) = Some(Instant::now() + QUERY_PAUSE);
        }
        facts
    }

    /// Records that a request failed. The server may be queried again, as it may list its models now.
    pub(crate) fn note_failure(&self) {
        self.unlisted.store(false, Ordering::Relaxed);
    }

    /// Repeats the query of a server that had not loaded the model.
    async fn retry_query(&self) {
        if self.remaining_queries.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Ok(_guard) = self.repeat_lock.try_lock() else { return };
        self.remaining_queries.fetch_sub(1, Ordering::Relaxed);
        if let Some(facts) = server::query(&self.target, &self.config, false, false).await {
            if !facts.loads_later {
                self.remaining_queries.store(0, Ordering::Relaxed);
            }
            self.apply_facts(facts);
        }
    }

    fn apply_facts(&self, mut facts: ServerFacts) {
        if facts.abilities.pictures.is_some() {
            let _ = self.sight.set(());
        } else if !self.config.id.is_empty() || facts.id == self.record.current().id {
            // Not every query asks about pictures.
            facts.abilities.pictures = self.abilities().pictures;
        }
        if let Some(variant) = facts.variant {
            // A later query finds the same one.
            let _ = self.variant.set(variant);
        }
        let window = facts.window.tokens(self.target.assumed_window(), self.record.current().reported_window);
        let id = facts.id.as_deref().filter(|_| self.config.id.is_empty());
        self.record.store(id, window, facts.abilities, facts.prices);
        self.refresh();
    }

    /// Returns true if requests depend on abilities that the server has not reported yet.
    pub(crate) fn lacks_abilities(&self) -> bool {
        self.config.wire == Wire::Anthropic && self.abilities() == ModelAbilities::default()
    }

    /// Returns true if the configured window is to be set before the first request.
    pub(crate) fn must_set_window(&self) -> bool {
        self.may_set_window() && !self.queried.initialized()
    }

    /// Returns true if the server may be Ollama, whose window has to be set: it is on this machine and checks no key,
    /// although some programs need one.
    fn may_set_window(&self) -> bool {
        let ModelConfig { api_key, renewable_key, context_window, wire, .. } = &self.config;
        let is_open = api_key.as_ref().is_none_or(|key| key.expose_secret() == "ollama") && renewable_key.is_none();
        is_open && context_window.is_some() && *wire != Wire::LlamaCpp && self.target.is_local()
    }

    /// Returns true if no fact is missing, or if the server was queried, with any outcome.
    pub(crate) fn are_known(&self) -> bool {
        let record = self.record.current();
        let has_id = !self.config.id.is_empty() || record.id.is_some();
        let has_window = self.config.context_window.is_some() || record.reported_window.is_some();
        (has_id && has_window) || self.was_queried.load(Ordering::Relaxed)
    }

    fn is_paused(&self) -> bool {
        lock(&self.paused_until).is_some_and(|until| Instant::now() < until)
    }
}

fn form(target: &Target, record: &ModelRecord) -> RequestForm {
    let mut form = record.form();
    form.0.extend(catalogue::form(target.host()).iter().cloned());
    form
}

/// Merges the configured facts, those that the server reported, and those learnt from refusals and token counts.
fn merged_info(config: &ModelConfig, target: &Target, record: &ModelRecord) -> ModelInfo {
    let id = Some(config.id.clone()).filter(|id| !id.is_empty()).or_else(|| record.id.clone());
    let published = id.as_deref().and_then(|id| catalogue::published(target.host(), id));
    let (mut window, mut source) = match (config.context_window, record.reported_window) {
        (Some(configured), _) => (configured, WindowSource::Configured),
        (None, Some(tokens)) => (tokens, WindowSource::Server),
        (None, None) => match published.and_then(|published| published.window) {
            Some(window) => (window, WindowSource::Catalogue),
            None => (target.assumed_window(), WindowSource::Default),
        },
    };
    if let Some(limit) = record.limit.filter(|limit| limit.tokens < window) {
        (window, source) = (limit.tokens, limit.source);
    }
    let form = form(target, record);
    let abilities = record.abilities.unwrap_or_default();
    let configured = config.sees_pictures.or(abilities.pictures);
    let sees = configured.unwrap_or_else(|| published.is_some_and(|published| published.pictures));
    let info = ModelInfo {
        id: id.unwrap_or_else(|| UNNAMED_MODEL.to_owned()),
        wire: config.wire.as_str().to_owned(),
        base_url: Some(target.display_url().to_owned()),
        context_window: window,
        window_source: source,
        native_tools: form.native_tools(config),
        echo_reasoning: form.echoes_reasoning(config),
        sees_pictures: config.wire != Wire::LlamaCpp && sees && !form.has(&Change::WithoutPictures),
        ..ModelInfo::default()
    };
    let figures = figures(&info, config, record, published, target.route());
    ModelInfo { figures, ..info }
}

/// Returns the figures of a model with their sources, for display.
fn figures(
    info: &ModelInfo,
    config: &ModelConfig,
    record: &ModelRecord,
    published: Option<&PublishedModel>,
    route: String,
) -> Vec<ModelFigure> {
    let abilities = record.abilities.unwrap_or_default();
    let page = published.map(PublishedModel::origin).unwrap_or_default();
    let mut figures = vec![figure("window", tokens(info.context_window), window_source(info.window_source, &page))];
    let answer = config.max_tokens.map(|limit| (limit, CONFIGURED));
    let answer = answer.or_else(|| Some((abilities.max_answer?, "its server")));
    let answer = answer.or_else(|| Some((published?.answer?, page.as_str())));
    figures.extend(answer.map(|(limit, source)| figure("answer", tokens(limit), source)));
    figures.push(figure("tools", if info.native_tools { "native" } else { "in the text" }, "its wire"));
    let pictures = if info.sees_pictures { "yes" } else { "no" };
    let pictures_source = match (config.sees_pictures, abilities.pictures, published) {
        (Some(_), ..) => CONFIGURED,
        (None, Some(_), _) => "its server",
        (None, None, Some(_)) => page.as_str(),
        (None, None, None) => "by default",
    };
    figures.push(figure("pictures", pictures, pictures_source));
    if published.is_some_and(|published| published.thinking) {
        figures.push(figure("thinking", "yes", &page));
    }
    let published_prices = published.and_then(|published| published.prices.clone());
    let prices = config.prices.clone().map(|prices| (prices, CONFIGURED));
    let prices = prices.or_else(|| Some((published_prices?, page.as_str())));
    let prices = prices.or_else(|| Some((record.prices.clone()?, "its server")));
    figures.push(match prices {
        Some((prices, source)) => figure("prices", describe_prices(&prices), source),
        None => figure("prices", "unknown", "set prices in models.yaml"),
    });
    figures.push(figure(ROUTE_FIGURE, route, "the daemon's environment"));
    figures.extend(record.changes.iter().map(|learnt| figure("requests", learnt.change.to_string(), learnt.status())));
    figures
}

const CONFIGURED: &str = "models.yaml or the environment";

fn window_source(source: WindowSource, page: &str) -> &str {
    match source {
        WindowSource::Default => "assumed",
        WindowSource::Configured => CONFIGURED,
        WindowSource::Catalogue => page,
        WindowSource::Server => "its server",
        WindowSource::Refusal => "a refusal by its server",
        WindowSource::Cut => "its server's counts: it truncates longer requests",
    }
}

fn figure(name: &str, value: impl Into<String>, source: impl Into<String>) -> ModelFigure {
    ModelFigure { name: name.to_owned(), value: value.into(), source: source.into() }
}

fn tokens(count: u64) -> String {
    format!("{count} tokens")
}

/// Formats prices in dollars per million tokens.
fn describe_prices(prices: &Prices) -> String {
    let tiers = prices.tiers.iter().map(|tier| format!("; in requests above {} tokens, {}", tier.above, rates(tier)));
    format!("{} per million tokens{}", rates(prices), tiers.collect::<String>())
}

fn rates(prices: &Prices) -> String {
    let describe_price =
        |name: &str, price: Option<f64>| price.map(|price| format!(", {name} ${price}")).unwrap_or_default();
    let cached = [
        ("cached", prices.cached_input),
        ("cache writes", prices.cache_write),
        ("1-hour cache writes", prices.cache_write_1h),
    ];
    let cached: String = cached.into_iter().map(|(name, price)| describe_price(name, price)).collect();
    format!("in ${}{cached}, out ${}{}", prices.input, prices.output, describe_price("reasoning", prices.reasoning))
}

//! What is known of a model, figure by figure, each with who says so: for people.

use agentd_core::{
    model::{ModelFigure, ModelInfo, ROUTE, WindowSource},
    usage::Prices,
};

use crate::{
    config::ModelConfig,
    facts::{catalogue::PublishedModel, records::RecordHandle},
};

/// The figures of a model, out of the configuration, what its server told and what is published of it.
pub(crate) fn figures(
    info: &ModelInfo,
    config: &ModelConfig,
    record: &RecordHandle,
    published: Option<&PublishedModel>,
    route: String,
) -> Vec<ModelFigure> {
    let abilities = record.abilities();
    let page = published.map(PublishedModel::origin).unwrap_or_default();
    let mut figures = vec![figure("window", tokens(info.context_window), window_source(info.window_source, &page))];
    let answer = config.max_tokens.map(|most| (most, CONFIGURED));
    let answer = answer.or_else(|| Some((abilities.max_answer?, "its server")));
    let answer = answer.or_else(|| Some((published?.answer?, page.as_str())));
    figures.extend(answer.map(|(most, source)| figure("answer", tokens(most), source)));
    figures.push(figure("tools", if info.native_tools { "in their own field" } else { "in the text" }, "its form"));
    let pictures = if info.sees_pictures { "yes" } else { "no" };
    let of_pictures = match (config.sees_pictures, abilities.pictures, published) {
        (Some(_), ..) => CONFIGURED,
        (None, Some(_), _) => "its server",
        (None, None, Some(_)) => page.as_str(),
        (None, None, None) => "by default",
    };
    figures.push(figure("pictures", pictures, of_pictures));
    if published.is_some_and(|published| published.thinking) {
        figures.push(figure("thinking", "yes", &page));
    }
    let of_page = published.and_then(|published| published.prices.clone());
    let prices = config.prices.clone().map(|prices| (prices, CONFIGURED));
    let prices = prices.or_else(|| Some((of_page?, page.as_str())));
    let prices = prices.or_else(|| Some((record.prices()?, "its server")));
    figures.push(match prices {
        Some((prices, source)) => figure("prices", in_words(&prices), source),
        None => figure("prices", "unknown", "set prices in models.yaml"),
    });
    figures.push(figure(ROUTE, route, "the daemon's environment"));
    figures
        .extend(record.learnt().iter().map(|learnt| figure("requests", learnt.change.to_string(), learnt.standing())));
    figures
}

const CONFIGURED: &str = "models.yaml or the environment";

fn window_source(source: WindowSource, page: &str) -> &str {
    match source {
        WindowSource::Default => "assumed: nobody says",
        WindowSource::Configured => CONFIGURED,
        WindowSource::Catalogue => page,
        WindowSource::Server => "its server",
        WindowSource::Refusal => "a refusal of its server",
        WindowSource::Cut => "its server's counts: it cuts longer requests",
    }
}

fn figure(name: &str, value: impl Into<String>, source: impl Into<String>) -> ModelFigure {
    ModelFigure { name: name.to_owned(), value: value.into(), source: source.into() }
}

fn tokens(count: u64) -> String {
    format!("{count} tokens")
}

/// Dollars for a million tokens.
fn in_words(prices: &Prices) -> String {
    let tiers = prices.tiers.iter().map(|tier| format!("; in requests above {} tokens {}", tier.above, rates(tier)));
    format!("{} for a million tokens{}", rates(prices), tiers.collect::<String>())
}

fn rates(prices: &Prices) -> String {
    let more = |name: &str, price: Option<f64>| price.map(|price| format!(", {name} ${price}")).unwrap_or_default();
    let cached = [
        ("cached", prices.cached_input),
        ("cache writes", prices.cache_write),
        ("cache writes for an hour", prices.cache_write_1h),
    ];
    let cached: String = cached.into_iter().map(|(name, price)| more(name, price)).collect();
    format!("in ${}{cached}, out ${}{}", prices.input, prices.output, more("reasoning", prices.reasoning))
}

//! What is known of a model, figure by figure, each with who says so: for people.

use agentd_core::{
    model::{ModelFigure, ModelInfo, ROUTE, WindowSource},
    usage::Prices,
};

use crate::{catalogue::PublishedModel, config::ModelConfig, records::LearntChange, server::ModelAbilities};

/// The figures of a model, out of the configuration, what its server told and what is published of it.
pub(crate) fn figures(
    info: &ModelInfo,
    config: &ModelConfig,
    abilities: ModelAbilities,
    published: Option<&PublishedModel>,
    route: String,
    learnt: &[LearntChange],
) -> Vec<ModelFigure> {
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
    let prices = match (&config.prices, published.and_then(|published| published.prices.as_ref())) {
        (Some(prices), _) => figure("prices", in_words(prices), CONFIGURED),
        (None, Some(prices)) => figure("prices", in_words(prices), &page),
        (None, None) => figure("prices", "unknown", "set prices in models.yaml"),
    };
    figures.push(prices);
    figures.push(figure(ROUTE, route, "the daemon's environment"));
    figures.extend(learnt.iter().map(|learnt| figure("requests", learnt.change.to_string(), learnt.standing())));
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
    let more = |name: &str, price: Option<f64>| price.map(|price| format!(", {name} ${price}")).unwrap_or_default();
    let (cached, written) = (more("cached", prices.cached_input), more("cache writes", prices.cache_write));
    format!("in ${}{cached}{written}, out ${} for a million tokens", prices.input, prices.output)
}

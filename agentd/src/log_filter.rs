//! Filter of the log: what `service.log_level` may be.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// A level for everything, or a list such as `info,agentd_models=debug`. A bare word that is no level would otherwise
/// be taken for the name of a module, and silence all others.
#[must_use]
pub fn parse(text: &str) -> Option<Targets> {
    let level = |word: &str| Some(word.trim()).filter(|word| !word.is_empty())?.parse::<LevelFilter>().ok();
    let known = text.split(',').all(|part| level(part.rsplit('=').next().unwrap_or(part)).is_some());
    let filter: Targets = known.then(|| text.parse().ok()).flatten()?;
    Some(if text.contains(QUIET) { filter } else { filter.with_target(QUIET, LevelFilter::OFF) })
}

/// Target that logs whole messages of MCP servers, of any size and with any words in them. What matters of them stands
/// in `agentctl mcp logs`.
const QUIET: &str = "rmcp";

/// Everything from level `info` on.
#[must_use]
pub fn default() -> Targets {
    Targets::new().with_default(LevelFilter::INFO).with_target(QUIET, LevelFilter::OFF)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_filter_is_levels_and_nothing_else() {
        let check = |text, known| assert_eq!(super::parse(text).is_some(), known, "{text}");
        check("info", true);
        check("off", true);
        check("warn,agentd_models=debug", true);
        check("inof", false);
        check("warn,agentd_models", false);
        check("agentd_models=loud", false);
        check("", false);
    }
}

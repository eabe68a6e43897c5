//! Which tools are offered in every turn though nobody said so: those of all servers as long as they are few. Pure.
//!
//! A model that is shown hundreds of tools chooses badly, and each request repeats them. So where there are too many, those of
//! the largest servers are left to be mentioned or to be found.

use std::collections::{BTreeMap, BTreeSet};

use agentd_core::tool::ToolSpec;

/// Maximum size of these tools in each request, in bytes.
const MOST_BYTES: usize = 64 << 10;

/// The tools of one server of which nothing is said about when they are offered.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    tools: Vec<String>,
    bytes: usize,
}

impl Offer {
    /// Number of tools.
    pub(crate) fn len(&self) -> usize {
        self.tools.len()
    }

    pub(crate) fn add(&mut self, spec: &ToolSpec) {
        self.tools.push(spec.name.clone());
        self.bytes += spec.name.len() + spec.description.len() + spec.parameters.to_string().len();
    }
}

/// The tools for which there is room: those of the largest servers go first, and of servers that are as large as each other
/// those of the last by name. It depends on nothing else, so that the same is offered as long as the servers offer the same.
pub(crate) fn with_room(mut offers: BTreeMap<String, Offer>, most: usize) -> BTreeSet<String> {
    loop {
        let tools: usize = offers.values().map(|offer| offer.tools.len()).sum();
        let bytes: usize = offers.values().map(|offer| offer.bytes).sum();
        let largest = if tools > most {
            offers.iter().max_by_key(|(name, offer)| (offer.tools.len(), *name))
        } else if bytes > MOST_BYTES {
            offers.iter().max_by_key(|(name, offer)| (offer.bytes, *name))
        } else {
            None
        };
        let Some(largest) = largest.map(|(name, _)| name.clone()) else {
            return offers.into_values().flat_map(|offer| offer.tools).collect();
        };
        offers.remove(&largest);
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;

    use super::*;

    fn offers(servers: &[(&str, usize, usize)]) -> BTreeMap<String, Offer> {
        let mut offers = BTreeMap::<String, Offer>::new();
        for (server, tools, bytes) in servers {
            for number in 0..*tools {
                let name = format!("{server}{number}");
                let (description, parameters) = ("x".repeat(*bytes), serde_json::json!({}));
                let spec = ToolSpec { name, description, parameters, effect: Effect::Execute };
                offers.entry((*server).to_owned()).or_default().add(&spec);
            }
        }
        offers
    }

    #[test]
    fn the_largest_servers_make_room() {
        let check = |servers: &[(&str, usize, usize)], expected: &[&str]| {
            let offered = with_room(offers(servers), 30);
            let there: BTreeSet<&str> =
                offered.iter().map(|name| name.trim_end_matches(|c: char| c.is_numeric())).collect();
            assert_eq!(there.into_iter().collect::<Vec<_>>(), expected, "{servers:?}");
        };
        check(&[("a", 30, 0)], &["a"]);
        check(&[("a", 31, 0)], &[]);
        check(&[("a", 20, 0), ("b", 15, 0), ("c", 3, 0)], &["b", "c"]);
        check(&[("a", 16, 0), ("b", 16, 0), ("c", 14, 0)], &["a", "c"]);
        // Few that are as large as many.
        check(&[("a", 2, 40_000), ("b", 20, 100)], &["b"]);
        assert!(with_room(offers(&[("a", 1, 0)]), 0).is_empty());
    }
}

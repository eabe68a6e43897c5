//! Words of tools: how well one fits what is looked for, and which one a model may have meant that calls one that is not there. All
//! of it is pure, and the same for the same words.

use std::collections::BTreeSet;

use agentd_core::catalogue::CatalogueTool;

/// Words of a query that count; what is longer is no query.
const MOST_WORDS: usize = 24;
/// Bytes of a description that are read.
const MOST_READ: usize = 4096;
/// Minimum length of a word that another one may begin with, in characters.
const LEAST_BEGINNING: usize = 3;
/// Words that say nothing of what a tool does.
const EMPTY: [&str; 18] = [
    "a", "an", "and", "by", "can", "do", "find", "for", "from", "how", "i", "in", "of", "on", "the", "to", "tool",
    "with",
];

/// The words of a name or a sentence in small letters. `ReadFile`, `read_file` and `read file` have the same.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut word = String::new();
    let letters: Vec<char> = text.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let behind = letters.get(at + 1);
        let climbs = letter.is_uppercase() && before.is_some_and(|before| before.is_lowercase() || before.is_numeric());
        // `HTTPFetch` is `http fetch`.
        let ends_capitals = letter.is_uppercase()
            && before.is_some_and(char::is_uppercase)
            && behind.is_some_and(|behind| behind.is_lowercase());
        if !letter.is_alphanumeric() || climbs || ends_capitals {
            found.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
    }
    found.extend((!word.is_empty()).then_some(word));
    found
}

/// The words of a query that say something, each once.
pub(super) fn of_query(query: &str) -> Vec<String> {
    let all: BTreeSet<String> = words(query).into_iter().take(MOST_WORDS).collect();
    let telling: Vec<String> = all.iter().filter(|word| !EMPTY.contains(&word.as_str())).cloned().collect();
    if telling.is_empty() { all.into_iter().collect() } else { telling }
}

/// Score of a tool: 0 where it does not fit.
pub(super) fn fit(query: &[String], tool: &CatalogueTool) -> u32 {
    let foreign = tool.foreign.as_deref();
    let name = words(foreign.map_or(&tool.spec.name, |foreign| &foreign.tool));
    let server = foreign.map(|foreign| words(&foreign.server)).unwrap_or_default();
    let said = &tool.spec.description;
    let about = words(&said[..said.floor_char_boundary(MOST_READ)]);
    let takes = tool.spec.parameters.get("properties").and_then(|properties| properties.as_object());
    let takes: Vec<String> = takes.into_iter().flat_map(|takes| takes.keys()).flat_map(|key| words(key)).collect();
    let worth = |word: &String| {
        let best = |among: &[String], whole: u32, begun: u32| {
            let worth = |other: &String| match () {
                () if other == word => whole,
                () if begins(word, other) || begins(other, word) => begun,
                () => 0,
            };
            among.iter().map(worth).max().unwrap_or_default()
        };
        // Not every script puts spaces between words.
        let within = if word.is_ascii() || !said.to_lowercase().contains(word.as_str()) { 0 } else { 3 };
        [best(&name, 8, 5), best(&server, 4, 2), best(&about, 3, 2), best(&takes, 2, 1), within].into_iter().max()
    };
    query.iter().filter_map(worth).sum()
}

fn begins(beginning: &str, word: &str) -> bool {
    beginning.chars().count() >= LEAST_BEGINNING && word.starts_with(beginning)
}

/// Names that are told at the most.
const MOST_NEAR: usize = 3;

/// The names that are nearest to one that is called, the nearest first: those of the same words, those that end with its
/// words, and those that are written nearly so.
pub(super) fn nearest<'a>(called: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    // Some models write whose tool it is in front.
    let bare = called.rsplit(['.', ':', '/']).next().unwrap_or(called);
    let wanted = words(bare);
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut near: Vec<(usize, &str)> =
        names.filter_map(|name| distance(&wanted, &words(name)).map(|distance| (distance, name))).collect();
    near.sort_unstable();
    near.truncate(MOST_NEAR);
    near.into_iter().map(|(_, name)| name).collect()
}

/// Distance of a name from the wanted one: 0 where both have the same words, none where nobody would mean it.
fn distance(wanted: &[String], name: &[String]) -> Option<usize> {
    if wanted.concat() == name.concat() {
        return Some(0);
    }
    // `weather` is the end of `mcp_lab_weather`, and `mcp_lab_weather` may be called for `weather`.
    if name.ends_with(wanted) || wanted.ends_with(name) {
        return Some(1);
    }
    let (wanted, name) = (wanted.join("_"), name.join("_"));
    let tolerance = wanted.chars().count().div_ceil(3).clamp(1, 4);
    let distance = strsim::damerau_levenshtein(&wanted, &name);
    (distance <= tolerance).then_some(distance + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sentences_have_the_same_words() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text}");
        check("ReadFile", &["read", "file"]);
        check("read_file", &["read", "file"]);
        check("mcp_lab_HTTPFetch2Go", &["mcp", "lab", "http", "fetch2", "go"]);
        check(" What's new, on GitHub? ", &["what", "s", "new", "on", "git", "hub"]);
        check("", &[]);
    }

    #[test]
    fn empty_words_count_only_alone() {
        assert_eq!(of_query("find the weather in Bern"), ["bern", "weather"]);
        assert_eq!(of_query("the"), ["the"]);
    }

    #[test]
    fn the_nearest_names_are_found() {
        let names = ["apply_patch", "edit_file", "mcp_lab_weather", "mcp_sky__weather", "read_file", "todo_write"];
        let check = |called: &str, expected: &[&str]| {
            assert_eq!(nearest(called, names.into_iter()), expected, "{called}");
        };
        check("ReadFile", &["read_file"]);
        check("default_api.readFile", &["read_file"]);
        check("TodoWrite", &["todo_write"]);
        check("weather", &["mcp_lab_weather", "mcp_sky__weather"]);
        check("reed_file", &["read_file"]);
        check("update_plan", &[]);
        check("", &[]);
    }
}

//! Which tool a model may have meant that calls one that is not there. Pure.

use super::words::words;

/// Names that are told at the most.
const MOST: usize = 3;

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
    near.truncate(MOST);
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

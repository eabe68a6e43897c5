//! Completions at the prompt and during a turn: commands and their arguments, names after `@`, files after `#`.

use agentd_core::{model::Slot, session::SessionMode};

use super::{
    known::{CompletionCache, KnownNames},
    mentions, slash,
};
use crate::composer::{Completer, Suggestion};

/// Arguments of `/compact`, each with a description.
const COMPACT: [(&str, &str); 4] = [
    ("auto", "as fits the window"),
    ("compact", "in detail"),
    ("summarize", "short"),
    ("undo", "take the last compaction back"),
];

/// Completes names from the cache.
#[derive(Debug)]
pub(super) struct Completions(pub(super) CompletionCache);

impl Completer for Completions {
    fn complete(&self, before: &str) -> Vec<Suggestion> {
        let names = names(before, &self.0.names()).into_iter();
        names.map(|(start, word, about)| Suggestion { start, word, about }).collect()
    }
}

/// Returns the completions of a text: the offset of the completed word, the word, and its description.
fn names(typed: &str, known: &KnownNames) -> Vec<(usize, String, String)> {
    if let Some((start, begun)) = mentions::begun_name(typed).filter(|_| !typed.starts_with('/')) {
        let fits = known.mentions.iter().filter(|(name, _)| mentions::begins(name, begun));
        return fits.map(|(name, about)| (start, name.clone(), about.clone())).collect();
    }
    if let Some((start, paths)) = mentions::complete(typed).filter(|_| !typed.starts_with('/')) {
        return paths.into_iter().map(|path| (start, path, String::new())).collect();
    }
    let argument_of = |name: &str| Some((typed.strip_prefix(name)?, name.len()));
    if let Some((argument, start)) = argument_of("/load ") {
        let wanted = argument.to_lowercase();
        let is_meant =
            |(id, title): &&(String, String)| id.starts_with(argument) || title.to_lowercase().contains(&wanted);
        let fits = known.sessions.iter().filter(is_meant);
        return fits.map(|(id, title)| (start, id.clone(), title.clone())).collect();
    }
    let words = [
        ("/model ", Slot::ALL.map(|slot| (slot.as_str(), "model slot")).to_vec()),
        ("/mode ", SessionMode::ALL.map(|mode| (mode.as_str(), mode.description())).to_vec()),
        ("/compact ", COMPACT.to_vec()),
        ("/project ", vec![("rw", "the model may change it"), ("ro", "the model may only read it")]),
    ];
    let words = words.into_iter().find_map(|(name, words)| Some((argument_of(name)?, words)));
    if let Some(((argument, start), words)) = words {
        let fits = words.into_iter().filter(|(word, _)| word.starts_with(argument));
        return fits.map(|(word, does)| (start, word.to_owned(), does.to_owned())).collect();
    }
    let Some(name) = typed.strip_prefix('/') else { return Vec::new() };
    let of_table = slash::TABLE.iter().filter(|entry| entry.name.starts_with(name)).map(|entry| {
        let space = if entry.argument.is_empty() { "" } else { " " };
        (0, format!("/{}{space}", entry.name), entry.does.to_owned())
    });
    let own = known.commands.iter().filter(|(known, _)| known.starts_with(name));
    of_table.chain(own.map(|(name, about)| (0, format!("/{name} "), about.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned())).collect()
    }

    fn words(typed: &str, known: &KnownNames) -> Vec<String> {
        names(typed, known).into_iter().map(|(_, word, _)| word).collect()
    }

    #[test]
    fn commands_sessions_and_slots_are_completed() {
        let known = KnownNames {
            sessions: pairs(&[("0193a", "one"), ("0200b", "two")]),
            commands: pairs(&[("review", "yours: Look")]),
            ..KnownNames::default()
        };
        let words = |typed: &str| words(typed, &known);
        assert_eq!(words("/re"), ["/rewind ", "/resume", "/rename ", "/reset", "/review "]);
        assert_eq!(words("/load 02"), ["0200b"]);
        assert_eq!(words("/model c"), ["code", "chat"]);
        assert_eq!(words("/com"), ["/compact "]);
        assert_eq!(words("/compact "), ["auto", "compact", "summarize", "undo"]);
        assert_eq!(words("/compact s"), ["summarize"]);
        assert_eq!(words("/project "), ["rw", "ro"]);
        assert_eq!(words("hello /re"), [""; 0]);
        assert_eq!(words("/reset now"), [""; 0]);
        assert_eq!(names("/load 02", &known)[0].0, 6);
    }

    #[test]
    fn mentions_are_completed() {
        let mentions = pairs(&[("pdf", "skill: forms"), ("read_file", "tool: reads"), ("read_url", "tool: pages")]);
        let known = KnownNames { mentions, ..KnownNames::default() };
        let words = |typed: &str| words(typed, &known);
        assert_eq!(words("fill this with @p"), ["pdf"]);
        assert_eq!(words("@read-"), ["read_file", "read_url"]);
        assert_eq!(words("请用@READ_U"), ["read_url"]);
        assert_eq!(words("@"), ["pdf", "read_file", "read_url"]);
        assert_eq!(words("ada@p"), [""; 0]);
        assert_eq!(words("@pdf and"), [""; 0]);
        assert_eq!(names("use @pd", &known), [(5, "pdf".to_owned(), "skill: forms".to_owned())]);
    }
}

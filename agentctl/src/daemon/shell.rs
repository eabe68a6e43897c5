//! What this shell's environment says of models, beside what the daemon was started with: variables that have no effect are
//! named, and keys of well-known providers with the lines that would use them. Values are compared by their digests and shown
//! nowhere.

use std::{collections::BTreeMap, env};

use agentd_proto::start_variables::{StartVariables, VariableMatch};
use serde::Serialize;

use super::Daemon;

/// Places of models in the names of variables, the first of which serves where none is named.
const PLACES: [&str; 5] = ["BASIC", "REASONING", "MULTIMODAL", "CODE", "CHAT"];

/// Other words that people write for them.
const OTHER_PLACES: [(&str, &str); 4] =
    [("BASE", "BASIC"), ("DEFAULT", "BASIC"), ("VISION", "MULTIMODAL"), ("REASON", "REASONING")];

/// Ends of the names, and other words that people write for them.
const ENDS: [(&str, &[&str]); 5] = [
    ("BASE_URL", &["BASE_URL", "URL", "API_BASE", "API_URL", "ENDPOINT"]),
    ("API_KEY", &["API_KEY", "KEY", "TOKEN"]),
    ("CONTEXT_WINDOW", &["CONTEXT_WINDOW", "CONTEXT", "CONTEXT_LENGTH", "CONTEXT_SIZE", "WINDOW"]),
    ("WIRE", &["WIRE", "API"]),
    ("ID", &["ID", "MODEL", "NAME", "MODEL_ID", "MODEL_NAME"]),
];

/// Ends that are too short to be recognised by most of their letters.
const SHORT_ENDS: [&str; 2] = ["ID", "WIRE"];

/// Letters by which a misspelt name may differ.
const SLIPS: usize = 2;

/// Keys that people have, and the addresses that take them.
const PROVIDERS: [(&str, &str); 7] = [
    ("OPENROUTER", "https://openrouter.ai/api/v1"),
    ("GEMINI", "https://generativelanguage.googleapis.com/v1beta/openai"),
    ("DEEPSEEK", "https://api.deepseek.com/v1"),
    ("MISTRAL", "https://api.mistral.ai/v1"),
    ("GROQ", "https://api.groq.com/openai/v1"),
    ("XAI", "https://api.x.ai/v1"),
    ("TOGETHER", "https://api.together.xyz/v1"),
];

/// Keys that are enough, where no model is named.
const ENOUGH: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

/// Something in this shell's environment that has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ShellNote {
    /// The variables.
    #[serde(rename = "variables")]
    pub(crate) names: Vec<String>,
    /// The finding, in a sentence.
    pub(crate) message: String,
    /// The way out.
    pub(crate) hint: String,
}

impl ShellNote {
    fn new(names: &[&str], message: String, hint: String) -> Self {
        Self { names: names.iter().map(|name| (*name).to_owned()).collect(), message, hint }
    }

    /// Both in one line.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.message, self.hint)
    }
}

impl Daemon {
    /// Variables of this shell that have no effect, the most important first; nothing where all is well. A key of a
    /// provider is worth a word only where the built-in model answers.
    pub(crate) fn shell_notes(&self, has_builtin: bool) -> Vec<ShellNote> {
        let texts =
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let shell = texts.filter(|(_, value)| !value.trim().is_empty()).collect();
        self.client.hello().started_with.as_ref().map_or_else(Vec::new, |known| notes(&shell, known, has_builtin))
    }
}

fn notes(shell: &BTreeMap<String, String>, known: &StartVariables, has_builtin: bool) -> Vec<ShellNote> {
    let mut notes = differing(shell, known);
    notes.extend(misspelt(shell, has_builtin));
    if notes.is_empty() && has_builtin {
        notes = keys(shell);
    }
    notes
}

/// Variables that the daemon was started without, or with other values.
fn differing(shell: &BTreeMap<String, String>, known: &StartVariables) -> Vec<ShellNote> {
    let names: Vec<String> = known_names().collect();
    let of = |wanted: VariableMatch| -> Vec<&str> {
        let is = |name: &&str| shell.get(*name).is_some_and(|value| known.compare(name, value) == wanted);
        names.iter().map(String::as_str).filter(is).collect()
    };
    let groups = [
        (of(VariableMatch::Missing), "set here, but the daemon was started without"),
        (of(VariableMatch::Other), "set here, but the daemon was started with another value of"),
    ];
    let note = |(names, what): (Vec<&str>, &str)| {
        let (is, it) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
        let message = format!("{} {is} {what} {it}", listed(&names));
        ShellNote::new(&names, message, "agentctl stop, then start again".to_owned())
    };
    groups.into_iter().filter(|(names, _)| !names.is_empty()).map(note).collect()
}

/// Names that are nearly one that has an effect.
fn misspelt(shell: &BTreeMap<String, String>, has_builtin: bool) -> Vec<ShellNote> {
    let known: Vec<String> = known_names().collect();
    let strange = shell.keys().filter(|name| !known.contains(name));
    let meant = strange.filter_map(|name| Some((name, meant(name, has_builtin)?)));
    meant
        .filter(|(_, meant)| !shell.contains_key(meant))
        .map(|(name, meant)| {
            let message = format!("{name} has no meaning here; did you mean {meant}?");
            ShellNote::new(&[name], message, format!("export {meant}=\"${name}\"; agentctl stop"))
        })
        .collect()
}

/// The variable that a name was meant for.
fn meant(name: &str, has_builtin: bool) -> Option<String> {
    // A name of another program is not one of ours because it is short.
    let written = squeezed(name);
    if !(written.starts_with("MOD") && written.len() > "MODEL".len() + SLIPS) {
        return None;
    }
    let places = PLACES.iter().map(|place| (*place, *place)).chain(OTHER_PLACES);
    let mut nearest: Option<(usize, String)> = None;
    let mut consider = |form: String, slips: usize, meant: String| {
        let distance = strsim::damerau_levenshtein(&written, &squeezed(&form));
        if distance <= slips && nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
            nearest = Some((distance, meant));
        }
    };
    for (end, forms) in ENDS {
        for (place, meant) in places.clone() {
            for form in forms.iter().filter(|form| !(place == "BASE" && **form == "URL")) {
                // In words for the same thing, nothing is left to guess.
                // Few letters are too few to be misspelt: `MODEL_BASE_DIR` is somebody else's.
                let slips = if *form == end && !SHORT_ENDS.contains(&end) { SLIPS } else { 0 };
                consider(format!("MODEL_{place}_{form}"), slips, format!("MODEL_{meant}_{end}"));
            }
        }
        // Without a place, `MODEL_ID` and `MODEL_NAME` are those of many programs.
        if has_builtin && !SHORT_ENDS.contains(&end) {
            consider(format!("MODEL_{end}"), 1, format!("MODEL_{}_{end}", PLACES[0]));
        }
    }
    nearest.map(|(_, meant)| meant)
}

/// Keys of providers that nothing uses.
fn keys(shell: &BTreeMap<String, String>) -> Vec<ShellNote> {
    // The daemon uses them from its next start on.
    if let Some(key) = ENOUGH.into_iter().find(|key| shell.contains_key(*key)) {
        let message = format!("found {key}, which the daemon was started without");
        return vec![ShellNote::new(&[key], message, "agentctl stop, then start again".to_owned())];
    }
    let mut notes = Vec::new();
    for (provider, address) in PROVIDERS {
        let (key, own) = (format!("{provider}_API_KEY"), format!("{provider}_BASE_URL"));
        if !shell.contains_key(&key) {
            continue;
        }
        let address = if shell.contains_key(&own) { format!("${own}") } else { address.to_owned() };
        notes.push(ShellNote::new(
            &[&key],
            format!("found {key}, which agentd does not use by itself"),
            format!("export MODEL_BASIC_BASE_URL={address} MODEL_BASIC_API_KEY=${key} MODEL_BASIC_ID=…; agentctl stop"),
        ));
    }
    notes
}

fn known_names() -> impl Iterator<Item = String> {
    PLACES.into_iter().flat_map(|place| ENDS.map(|(end, _)| format!("MODEL_{place}_{end}")))
}

/// A name without what people forget or add most.
fn squeezed(name: &str) -> String {
    name.chars().filter(|letter| *letter != '_').map(|letter| letter.to_ascii_uppercase()).collect()
}

fn listed(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: (&str, &str) = ("MODEL_BASIC_BASE_URL", "http://127.0.0.1:1/v1");

    fn said(shell: &[(&str, &str)], daemon: &[(&str, &str)], has_builtin: bool) -> Vec<String> {
        let shell = shell.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let known = StartVariables::new(vec![7; 32], daemon.iter().copied());
        notes(&shell, &known, has_builtin).iter().map(ShellNote::line).collect()
    }

    #[test]
    fn only_what_has_no_effect_is_said() {
        let check = |shell: &[(&str, &str)], daemon: &[(&str, &str)], words: &[&str]| {
            assert_eq!(said(shell, daemon, true), words, "{shell:?} {daemon:?}");
        };
        check(&[], &[URL], &[]);
        check(
            &[URL, ("OPENAI_API_KEY", "k")],
            &[URL],
            &["found OPENAI_API_KEY, which the daemon was started without: agentctl stop, then start again"],
        );
        check(
            &[URL],
            &[],
            &["MODEL_BASIC_BASE_URL is set here, but the daemon was started without it: \
            agentctl stop, then start again"],
        );
        check(
            &[(URL.0, "http://other/v1")],
            &[URL],
            &["MODEL_BASIC_BASE_URL is set here, but the daemon was started with \
            another value of it: agentctl stop, then start again"],
        );
        check(
            &[URL, ("MODEL_BASIC_ID", "x"), ("MODEL_CODE_ID", "y")],
            &[],
            &["MODEL_BASIC_BASE_URL, MODEL_BASIC_ID and \
            MODEL_CODE_ID are set here, but the daemon was started without them: agentctl stop, then start again"],
        );
        check(
            &[("ANTHROPIC_API_KEY", "k")],
            &[],
            &["found ANTHROPIC_API_KEY, which the daemon was started without: agentctl stop, then start again"],
        );
        assert_eq!(said(&[URL, ("OPENAI_API_KEY", "k")], &[URL], false), [""; 0], "another model answers");
        let own = said(&[("GROQ_API_KEY", "k"), ("GROQ_BASE_URL", "http://proxy/v1")], &[], true);
        assert!(own[0].contains("MODEL_BASIC_BASE_URL=$GROQ_BASE_URL "), "{own:?}");
    }

    #[test]
    fn names_that_are_nearly_right_are_known() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(meant(name, true).as_deref(), expected, "{name}");
        check("MODEL_BASIC_BASEURL", Some("MODEL_BASIC_BASE_URL"));
        check("MODEL_BASIC_URL", Some("MODEL_BASIC_BASE_URL"));
        check("MODEL_BASE_URL", Some("MODEL_BASIC_BASE_URL"));
        check("MODEL_API_KEY", Some("MODEL_BASIC_API_KEY"));
        check("MODEL_BASIC_MODEL", Some("MODEL_BASIC_ID"));
        check("MODEL_BASIC_KEY", Some("MODEL_BASIC_API_KEY"));
        check("MODELS_BASIC_BASE_URL", Some("MODEL_BASIC_BASE_URL"));
        check("MODEL_VISION_BASE_URL", Some("MODEL_MULTIMODAL_BASE_URL"));
        check("MODEL_CHAT_BSAE_URL", Some("MODEL_CHAT_BASE_URL"));
        for other in [
            "MODEL",
            "MODEL_NAME",
            "MODEL_ID",
            "MODEL_PATH",
            "MODEL_DIR",
            "MODEL_BASE_DIR",
            "MODEL_CODE",
            "MODE",
            "OPENAI_BASE_URL",
            "HOME",
        ] {
            check(other, None);
        }
        assert_eq!(meant("MODEL_BASE_URL", false), None, "another model answers: it is another program's");
        assert_eq!(said(&[URL, ("MODEL_BASIC_BASEURL", "x")], &[URL], true), [""; 0], "the right one is there, too");
        let note = said(&[("MODEL_BASIC_BASEURL", "x")], &[], true);
        assert!(note[0].contains("did you mean MODEL_BASIC_BASE_URL?"), "{note:?}");
    }

    #[test]
    fn no_value_is_shown() {
        let shell = [(URL.0, "s3cret-a"), ("OPENAI_API_KEY", "s3cret-b"), ("MODEL_BASIC_APIKEY", "s3cret-c")];
        for daemon in [&[][..], &[URL]] {
            assert!(!said(&shell, daemon, true).concat().contains("s3cret"));
        }
    }
}

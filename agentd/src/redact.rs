//! Keeps secrets out of what the operator sees.

use std::sync::{Arc, PoisonError, RwLock};

use agentd_audit::redact::Patterns;
use aho_corasick::AhoCorasick;

/// A shorter secret would be found inside of common words, and is none.
const SHORTEST: usize = 6;

const MASK: &str = "[redacted]";

/// Marks in front of a credential in headers and addresses.
const MARKS: [&str; 4] = ["Bearer ", "bearer ", "api_key=", "api-key: "];

/// Replaces known secrets, and what looks like a credential, in text. Cheap to clone; all clones know the same secrets.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<KnownSecrets>>);

/// The secrets, by where they come from.
#[derive(Default)]
struct KnownSecrets {
    configured: Vec<String>,
    lent: Vec<String>,
    brought: Vec<String>,
    /// All of them, longer ones first, so that none is half covered.
    all: Vec<String>,
    /// Finds any of them and any mark in one pass. Texts are long, and nearly all hold none.
    any: Option<AhoCorasick>,
}

impl Redactor {
    /// Learns the secrets of the configuration, in place of those known before.
    pub fn learn<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        self.change(|known| known.configured = secrets.into_iter().map(str::to_owned).collect());
    }

    /// Learns the secrets that clients lend, in place of those known before.
    pub fn learn_lent(&self, secrets: Vec<String>) {
        self.change(|known| known.lent = secrets);
    }

    /// Learns the secrets of servers that clients bring for sessions, in place of those known before.
    pub fn learn_brought(&self, secrets: Vec<String>) {
        self.change(|known| known.brought = secrets);
    }

    fn change(&self, change: impl FnOnce(&mut KnownSecrets)) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut known);
        let all = known.configured.iter().chain(&known.lent).chain(&known.brought);
        let all = all.filter(|secret| secret.len() >= SHORTEST);
        // In a line of JSON a secret may stand with its quotes escaped.
        let escaped =
            |secret: &String| serde_json::to_string(secret).map(|text| text.trim_matches('"').to_owned()).ok();
        let mut all: Vec<String> = all.flat_map(|secret| [Some(secret.clone()), escaped(secret)]).flatten().collect();
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        known.any = AhoCorasick::new(all.iter().map(String::as_str).chain(MARKS)).ok();
        known.all = all;
    }

    /// Function that takes out secrets, those that are not known by their form.
    pub fn by_form_too(self) -> impl Fn(&str) -> String + Send + Sync + 'static {
        let patterns = Patterns::default();
        move |text| patterns.clean(&self.clean(text))
    }

    /// The text without secrets.
    pub fn clean(&self, text: &str) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = text.to_owned();
        if known.any.as_ref().is_some_and(|any| !any.is_match(&text)) {
            return text;
        }
        for secret in &known.all {
            text = text.replace(secret.as_str(), MASK);
        }
        for mark in MARKS {
            text = mask_after(&text, mark);
        }
        text
    }
}

fn mask_after(text: &str, mark: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        let value = &rest[at + mark.len()..];
        let end = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ',')).unwrap_or(value.len());
        out.push_str(&rest[..at + mark.len()]);
        if end > 0 {
            out.push_str(MASK);
        }
        rest = &value[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_known_secrets_nor_credentials_come_through() {
        let redactor = Redactor::default();
        redactor.learn(["s3cret-key", "s3cret-key-longer", "on"]);
        let check = |text, expected| assert_eq!(redactor.clean(text), expected);
        check("sent s3cret-key-longer and s3cret-key on", "sent [redacted] and [redacted] on");
        check("Authorization: Bearer abc.def\" x", "Authorization: Bearer [redacted]\" x");
        check("GET /?api_key=xyz&q=1", "GET /?api_key=[redacted]&q=1");
        check("nothing here", "nothing here");
        redactor.learn_lent(vec!["of-a-client".to_owned()]);
        redactor.learn([]);
        check("s3cret-key of-a-client", "s3cret-key [redacted]");
        redactor.learn_brought(vec!["of-a-server".to_owned()]);
        redactor.learn_lent(Vec::new());
        check("of-a-client of-a-server", "of-a-client [redacted]");
    }
}

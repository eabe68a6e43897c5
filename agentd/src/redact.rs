//! Keeps secrets out of what the operator sees.

use std::sync::{Arc, PoisonError, RwLock};

/// A shorter secret would be found inside of common words, and is none.
const SHORTEST: usize = 6;

const MASK: &str = "[redacted]";

/// What stands before a credential in headers and addresses, whoever wrote it.
const MARKS: [&str; 4] = ["Bearer ", "bearer ", "api_key=", "api-key: "];

/// Replaces known secrets, and what looks like a credential, in text. Cheap to clone; all clones know the same secrets.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Vec<String>>>);

impl Redactor {
    /// Learns secrets, in place of those known before. Longer ones go first, so that none is half covered.
    pub fn learn<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let mut secrets: Vec<String> =
            secrets.into_iter().filter(|secret| secret.len() >= SHORTEST).map(str::to_owned).collect();
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = secrets;
    }

    /// The text without secrets.
    #[must_use]
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASK);
            }
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
        redactor.learn([]);
        check("s3cret-key", "s3cret-key");
    }
}

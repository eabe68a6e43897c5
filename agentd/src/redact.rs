//! Redacts secrets in the operator's log and other output.

use std::sync::{Arc, PoisonError, RwLock};

use agentd_audit::redact::Patterns;
use agentd_models::RenewableKey;
use aho_corasick::AhoCorasick;
use secrecy::ExposeSecret as _;

/// Minimum length of a secret in bytes. Shorter values would also match in common words.
const MIN_SECRET_BYTES: usize = 6;

const MASK: &str = "[redacted]";

/// Strings that precede a credential in headers and URLs.
const CREDENTIAL_PREFIXES: [&str; 4] = ["Bearer ", "bearer ", "api_key=", "api-key: "];

/// Replaces known secrets and likely credentials in text. Cheap to clone; all clones share the known secrets.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<KnownSecrets>>);

/// Known secrets, by source.
#[derive(Default)]
struct KnownSecrets {
    configured: Vec<String>,
    renewable: Vec<Arc<RenewableKey>>,
    from_clients: Vec<String>,
    from_session_servers: Vec<String>,
    /// All secrets, longest first, so that no secret is only partially redacted.
    all: Vec<String>,
    /// Matches any secret or prefix in one pass. Texts are long, and nearly all contain no match.
    any: Option<AhoCorasick>,
}

impl Redactor {
    /// Replaces the known secrets of the configuration.
    pub fn learn<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        self.change(|known| known.configured = secrets.into_iter().map(str::to_owned).collect());
    }

    /// Replaces the sources of keys. Their keys are redacted from then on, also those that they will contain.
    pub fn follow<'a>(&self, keys: impl IntoIterator<Item = &'a Arc<RenewableKey>>) {
        self.change(|known| known.renewable = keys.into_iter().cloned().collect());
    }

    /// Replaces the known secrets from the values that clients lend.
    pub fn set_client_secrets(&self, secrets: Vec<String>) {
        self.change(|known| known.from_clients = secrets);
    }

    /// Replaces the known secrets of session servers that clients provide.
    pub fn set_session_server_secrets(&self, secrets: Vec<String>) {
        self.change(|known| known.from_session_servers = secrets);
    }

    fn change(&self, change: impl FnOnce(&mut KnownSecrets)) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut known);
        let all = known.configured.iter().chain(&known.from_clients).chain(&known.from_session_servers);
        let all = all.filter(|secret| secret.len() >= MIN_SECRET_BYTES);
        // JSON escapes the quotes of a secret.
        let escaped =
            |secret: &String| serde_json::to_string(secret).map(|text| text.trim_matches('"').to_owned()).ok();
        let mut all: Vec<String> = all.flat_map(|secret| [Some(secret.clone()), escaped(secret)]).flatten().collect();
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        known.any = AhoCorasick::new(all.iter().map(String::as_str).chain(CREDENTIAL_PREFIXES)).ok();
        known.all = all;
    }

    /// Returns a function that also redacts unknown strings that look like secrets.
    pub fn with_patterns(self) -> impl Fn(&str) -> String + Send + Sync + 'static {
        let patterns = Patterns::default();
        move |text| patterns.clean(&self.clean(text))
    }

    /// Returns the text with secrets redacted.
    pub fn clean(&self, text: &str) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = text.to_owned();
        let renewed = known.renewable.iter().flat_map(|key| key.known());
        for key in renewed.filter(|key| key.expose_secret().len() >= MIN_SECRET_BYTES) {
            text = text.replace(key.expose_secret(), MASK);
        }
        if known.any.as_ref().is_some_and(|any| !any.is_match(&text)) {
            return text;
        }
        for secret in &known.all {
            text = text.replace(secret.as_str(), MASK);
        }
        for prefix in CREDENTIAL_PREFIXES {
            text = mask_after(&text, prefix);
        }
        text
    }
}

fn mask_after(text: &str, prefix: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let value = &rest[at + prefix.len()..];
        let end = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ',')).unwrap_or(value.len());
        out.push_str(&rest[..at + prefix.len()]);
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
    fn known_secrets_and_credentials_are_redacted() {
        let redactor = Redactor::default();
        redactor.learn(["s3cret-key", "s3cret-key-longer", "on"]);
        let check = |text, expected| assert_eq!(redactor.clean(text), expected);
        check("sent s3cret-key-longer and s3cret-key on", "sent [redacted] and [redacted] on");
        check("Authorization: Bearer abc.def\" x", "Authorization: Bearer [redacted]\" x");
        check("GET /?api_key=xyz&q=1", "GET /?api_key=[redacted]&q=1");
        check("nothing here", "nothing here");
        redactor.set_client_secrets(vec!["of-a-client".to_owned()]);
        redactor.learn([]);
        check("s3cret-key of-a-client", "s3cret-key [redacted]");
        redactor.set_session_server_secrets(vec!["of-a-server".to_owned()]);
        redactor.set_client_secrets(Vec::new());
        check("of-a-client of-a-server", "of-a-client [redacted]");
        let key = RenewableKey::new(Some("from-a-file".into()), |_| Box::pin(async { Err(String::new()) }));
        redactor.follow([&key]);
        check("from-a-file of-a-server", "[redacted] [redacted]");
    }
}

//! Detection and masking of likely secrets. Pure.
//!
//! Secrets that are known are masked by the callers. This module recognises secrets by their form: well-known key
//! formats, text after `password=`, and values under names such as `api_key`.

use regex::Regex;
use serde_json::Value;

/// Replacement for a secret.
pub const MASK: &str = "[redacted]";

/// Parts of field names that indicate a secret. They also match within longer names.
const NAMES: &str = "password passwd passphrase secret apikey accesskey privatekey credential authorization cookie";

/// Pattern for secret names in text. A plural such as `max_tokens=5` is a count and does not match.
const SECRET_WORDS: &str =
    "(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential|cookie)";

/// Pattern for a value: quoted, quoted within JSON inside a string, or up to the next blank or separator.
const VALUE: &str = r#"(?:"[^"]*"|'[^']*'|\\"[^"\\]*\\"|[^\s"'&,;|)\\]+)"#;

/// Patterns that recognise secrets by their form.
#[derive(Debug, Clone)]
pub struct Patterns(Vec<Regex>);

impl Default for Patterns {
    fn default() -> Self {
        // The groups `keep` and `end` are retained; the text between them is masked.
        let patterns = [
            r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)".to_owned(),
            r#"(?i)(?<keep>authorization[\\"']*\s*[:=]\s*[\\"']*(?:(?:bearer|basic|digest|token)\s+)?)[^"'\s,\\]+"#
                .to_owned(),
            r#"(?<keep>[Bb]earer )[^\s"'&,\\]+"#.to_owned(),
            format!(r#"(?i)(?<keep>{SECRET_WORDS}[\\"']*\s*[=:]\s*){VALUE}"#),
            format!(r#"(?i)(?<keep>(?:^|\s)--?[a-z-]*{SECRET_WORDS}\s+){VALUE}"#),
            r#"(?<keep>\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"']*:)[^\s/@"']+(?<end>@)"#.to_owned(),
            r#"(?<keep>\s(?:-u|--user)[ =]["']?[^\s:"']+:)[^\s"']+"#.to_owned(),
            r"(?<keep>\bsshpass\s+-p\s*)\S+".to_owned(),
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b".to_owned(),
            r"\b(?:gh[pousr]_|github_pat_|glpat-|npm_|hf_|AIza)[A-Za-z0-9_-]{16,}".to_owned(),
            r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}".to_owned(),
            r"\bxox[abeprs]-[A-Za-z0-9-]{10,}".to_owned(),
            r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*".to_owned(),
        ];
        // A test checks that all patterns compile.
        Self(patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect())
    }
}

impl Patterns {
    /// Returns `text` with likely secrets masked.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for pattern in &self.0 {
            if let std::borrow::Cow::Owned(cleaned) = pattern.replace_all(&text, format!("${{keep}}{MASK}${{end}}")) {
                text = cleaned;
            }
        }
        text
    }
}

/// Returns true if a field with this name is likely to contain a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    // The plural `tokens` is a count.
    NAMES.split_ascii_whitespace().any(|secret| name.contains(secret)) || name.replace("tokens", "").contains("token")
}

/// Masks secrets in all strings of a value, including object keys, numbers and nested values. A value under a secret
/// name is masked completely.
pub fn scrub(value: &mut Value, clean: &dyn Fn(&str) -> String) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => {
            let text = number.to_string();
            if clean(&text) != text {
                *value = Value::String(MASK.to_owned());
            }
        }
        Value::String(text) => *text = clean(text),
        Value::Array(items) => {
            let mut is_secret = false;
            for item in items {
                // An argument that follows a flag with a secret name.
                let flag = item.as_str().filter(|text| text.starts_with('-') && !text.contains('='));
                let is_flag = flag.is_some_and(is_secret_name);
                if is_secret && item.is_string() {
                    *item = Value::String(MASK.to_owned());
                } else {
                    scrub(item, clean);
                }
                is_secret = is_flag;
            }
        }
        Value::Object(fields) => {
            for (name, mut field) in std::mem::take(fields) {
                match field {
                    Value::Null | Value::Bool(_) => {}
                    _ if is_secret_name(&name) => field = Value::String(MASK.to_owned()),
                    _ => scrub(&mut field, clean),
                }
                fields.insert(clean(&name), field);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_are_redacted_and_the_rest_kept() {
        let patterns = Patterns::default();
        assert_eq!(patterns.0.len(), 13, "a pattern does not compile");
        let check = |text: &str, expected: &str| assert_eq!(patterns.clean(text), expected);
        check("Authorization: Bearer abc.def\" x", "Authorization: Bearer [redacted]\" x");
        check("curl -H 'authorization: Basic dTpw' u", "curl -H 'authorization: Basic [redacted]' u");
        check("GET /?api_key=xyz&q=1", "GET /?api_key=[redacted]&q=1");
        check("api-key: abc", "api-key: [redacted]");
        check("PGPASSWORD=hunter2 psql -h db", "PGPASSWORD=[redacted] psql -h db");
        check("export GH_TOKEN='a b c'; ls", "export GH_TOKEN=[redacted]; ls");
        check("tool --password hunter2 --verbose", "tool --password [redacted] --verbose");
        check("tool --auth-token=abc x", "tool --auth-token=[redacted] x");
        check(r#"{"password": "a b", "n": 1}"#, r#"{"password": [redacted], "n": 1}"#);
        check(r#"{\"token\":\"abc\",\"n\":1}"#, r#"{\"token\":[redacted],\"n\":1}"#);
        check("git clone https://me:s3cret@host/x", "git clone https://me:[redacted]@host/x");
        check("curl -u me:pw1 https://x", "curl -u me:[redacted] https://x");
        check("key AKIAIOSFODNN7EXAMPLE here", "key [redacted] here");
        check("ghp_0123456789abcdefABCDEF0123456789abcd", "[redacted]");
        check("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx", "[redacted]\nx");
        check("-----BEGIN PRIVATE KEY-----\nMII", "[redacted]");
        for plain in ["max_tokens=5", "ls -la", "the token expired", "cat secrets.md", "https://host:80/x@y", "a: b"] {
            check(plain, plain);
        }
    }

    #[test]
    fn secret_names_are_recognised() {
        for name in ["password", "DB_PASSWORD", "api-key", "apiKey", "access_token", "Authorization", "client_secret"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["path", "command", "max_tokens", "prompt_tokens", "key", "pwd", ""] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn nested_values_are_redacted_completely() {
        let mut value = json!({
            "command": "echo hunter22",
            "env": [{"token": {"deep": "x"}}, {"hunter22": 1}, ["hunter22"]],
            "pin": 12_345_678,
            "flag": true,
            "secret": null,
        });
        scrub(&mut value, &|text| text.replace("hunter22", MASK).replace("12345678", MASK));
        assert_eq!(
            value,
            json!({
                "command": "echo [redacted]",
                "env": [{"token": MASK}, {"[redacted]": 1}, ["[redacted]"]],
                "pin": MASK,
                "flag": true,
                "secret": null,
            })
        );
    }
}

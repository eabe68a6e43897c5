//! What looks like a secret, and what takes its place. Pure.
//!
//! Known secrets are for whoever knows them, and come in as a function; here is what can be seen from the outside: the
//! forms of well-known keys, what stands behind `password=`, and values below names that say so.

use regex::Regex;
use serde_json::Value;

/// Mask of a secret.
pub const MASK: &str = "[redacted]";

/// Names of secrets, in the middle of a longer name too.
const NAMES: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
    "cookie",
];

/// Names of secrets in text, the same words as a pattern. A plural is a count: `max_tokens=5`.
const WORDS: &str =
    "(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential|cookie)";

/// A value: quoted, quoted inside of JSON that is itself a text, or up to the next blank or separator.
const VALUE: &str = r#"(?:"[^"]*"|'[^']*'|\\"[^"\\]*\\"|[^\s"'&,;|)\\]+)"#;

/// Finds secrets by their form.
#[derive(Debug, Clone)]
pub struct Patterns(Vec<Regex>);

impl Default for Patterns {
    fn default() -> Self {
        // The group `keep` stays, and so does `end`; what stands between them goes.
        let patterns = [
            r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)".to_owned(),
            r#"(?i)(?<keep>authorization[\\"']*\s*[:=]\s*[\\"']*(?:(?:bearer|basic|digest|token)\s+)?)[^"'\s,\\]+"#
                .to_owned(),
            r#"(?<keep>[Bb]earer )[^\s"'&,\\]+"#.to_owned(),
            format!(r#"(?i)(?<keep>{WORDS}[\\"']*\s*[=:]\s*){VALUE}"#),
            format!(r#"(?i)(?<keep>(?:^|\s)--?[a-z-]*{WORDS}\s+){VALUE}"#),
            r#"(?<keep>\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"']*:)[^\s/@"']+(?<end>@)"#.to_owned(),
            r#"(?<keep>\s(?:-u|--user)[ =]["']?[^\s:"']+:)[^\s"']+"#.to_owned(),
            r"(?<keep>\bsshpass\s+-p\s*)\S+".to_owned(),
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b".to_owned(),
            r"\b(?:gh[pousr]_|github_pat_|glpat-|npm_|hf_|AIza)[A-Za-z0-9_-]{16,}".to_owned(),
            r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}".to_owned(),
            r"\bxox[abeprs]-[A-Za-z0-9-]{10,}".to_owned(),
            r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*".to_owned(),
        ];
        // That all of them can be compiled is held by a test.
        Self(patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect())
    }
}

impl Patterns {
    /// The text without what looks like a secret.
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

/// Returns whether a value below this name is a secret by its name.
pub fn is_secret_name(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    // Tokens in the plural are what models count.
    NAMES.iter().any(|secret| name.contains(secret)) || name.replace("tokens", "").contains("token")
}

/// Takes secrets out of every text of a value: out of names, numbers and nested values too. What stands below a name
/// that says that it is a secret goes whole.
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
                // An argument behind a flag that is named as secrets are.
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
    fn credentials_go_and_the_rest_stays() {
        let patterns = Patterns::default();
        assert_eq!(patterns.0.len(), 13, "every pattern can be compiled");
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
    fn names_say_what_is_secret() {
        for name in ["password", "DB_PASSWORD", "api-key", "apiKey", "access_token", "Authorization", "client_secret"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["path", "command", "max_tokens", "prompt_tokens", "key", "pwd", ""] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn nothing_of_a_value_is_forgotten() {
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

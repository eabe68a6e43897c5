//! Terms: the words by which code is found, of identifiers and of plain questions alike.

mod split;
mod stem;
mod table;

pub(crate) use split::{is_identifier_byte, words};
pub(crate) use stem::{Stems, is_stop_word};
pub(crate) use table::{TermCounts, TermTable};

/// Returns the terms of a text in order: each identifier's parts, stemmed and in small letters, and the identifier as a
/// whole if it has more than one part.
#[must_use]
pub fn terms(text: &str) -> Vec<String> {
    let mut stems = Stems::default();
    let mut terms = Vec::new();
    stems.terms(text, &mut |term| terms.push(term.to_owned()));
    terms
}

impl Stems {
    /// Calls back with the terms of a text in order.
    pub(crate) fn terms(&mut self, text: &str, tell: &mut dyn FnMut(&str)) {
        words(text, &mut |word| split::parts(word, self, tell));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(terms(text), expected, "{text}");
    }

    #[test]
    fn identifiers_have_parts_and_are_whole() {
        check("getHTTPServer", &["get", "http", "server", "gethttpserver"]);
        check("JoinSet join_set", &["join", "set", "joinset", "join", "set", "joinset"]);
        check("MAX_RETRIES", &["max", "retri", "maxretries"]);
        check("sha256", &["sha", "256", "sha256"]);
        check("v4 x", &["v4", "x"]);
        check("__init__", &["init"]);
        check("foo.barBaz(qux)", &["foo", "bar", "baz", "barbaz", "qux"]);
    }

    #[test]
    fn questions_have_the_terms_of_the_code() {
        assert_eq!(terms("serialization"), terms("Serializer"));
        check("how connections are retried", &["how", "connect", "are", "retri"]);
        check("读取配置", &["读取", "取配", "配置"]);
        check("Größe", &["größe"]);
    }

    proptest::proptest! {
        #[test]
        fn terms_are_small_and_bounded(text in ".{0,200}") {
            for term in terms(&text) {
                proptest::prop_assert!(!term.is_empty() && term.len() <= 4 * 64);
                proptest::prop_assert!(!term.bytes().any(|byte| byte.is_ascii_uppercase()));
            }
        }

        #[test]
        fn case_does_not_matter_to_parts(parts in proptest::collection::vec("[a-z]{2,8}", 1..4)) {
            let snake = parts.join("_");
            let camel: String = parts.iter().map(|part| part[..1].to_uppercase() + &part[1..]).collect();
            proptest::prop_assert_eq!(terms(&snake), terms(&camel));
        }
    }
}

//! The report in JUnit's XML, which CI systems read.

use std::time::Duration;

use super::TestResult;
use crate::cmd::replay;

/// The report of all tests.
pub(super) fn report(suite: &str, results: &[TestResult], took: Duration) -> String {
    let failed = results.iter().filter(|result| !result.passed).count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let suite = escaped(suite);
    xml.push_str(&format!(
        "<testsuites tests=\"{}\" failures=\"{failed}\" time=\"{:.3}\">\n  <testsuite name=\"{suite}\" tests=\"{}\" failures=\"{failed}\" time=\"{:.3}\">\n",
        results.len(), took.as_secs_f64(), results.len(), took.as_secs_f64(),
    ));
    for result in results {
        let (name, time) = (escaped(&result.name), Duration::from_millis(result.duration_ms).as_secs_f64());
        xml.push_str(&format!("    <testcase classname=\"{suite}\" name=\"{name}\" time=\"{time:.3}\""));
        if result.passed {
            xml.push_str("/>\n");
            continue;
        }
        let why: Vec<String> =
            result.failures.iter().cloned().chain(result.problems.iter().map(replay::shown)).collect();
        let first = why.first().and_then(|why| why.lines().next()).unwrap_or("failed");
        let (first, all) = (escaped(first), escaped(&why.join("\n")));
        xml.push_str(&format!(">\n      <failure message=\"{first}\">{all}</failure>\n    </testcase>\n"));
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// The text as it may stand in XML 1.0, which has no place for most control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_and_texts_stay_text() {
        let result = TestResult {
            name: "a\"><b>".to_owned(),
            passed: false,
            turns: 1,
            duration_ms: 1500,
            failures: vec!["]]> & \u{1b}[31m".to_owned()],
            problems: Vec::new(),
        };
        let xml = report("s&t", &[result], Duration::from_secs(2));
        assert!(xml.contains("name=\"a&quot;&gt;&lt;b&gt;\" time=\"1.500\""), "{xml}");
        assert!(xml.contains("]]&gt; &amp; \u{fffd}[31m"), "{xml}");
    }
}

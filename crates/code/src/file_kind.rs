//! Kinds of files that are less often what somebody looks for.

/// Factor on the scores of tests.
pub(crate) const TEST: f32 = 0.3;

/// Factor on the score of a file, by its path. 1 for the product's own code.
pub(crate) fn weight(path: &str) -> f32 {
    let path = path.to_ascii_lowercase();
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let is_in = |names: &[&str]| folders.split('/').any(|folder| names.contains(&folder));
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    let mut weight = 1.0;
    let is_test =
        is_in(&["test", "tests", "__tests__", "testing", "spec", "specs", "testdata", "fixtures", "test_suite"])
            || stem.starts_with("test_")
            || stem.ends_with("_test")
            || stem.ends_with("_tests")
            || stem.ends_with("_spec")
            || matches!(stem, "tests" | "test" | "conftest")
            || ending.starts_with("test.")
            || ending.starts_with("spec.")
            || ending == "java" && (name.ends_with("test.java") || name.ends_with("tests.java"));
    if is_test {
        weight *= TEST;
    }
    if is_in(&["legacy", "deprecated", "compat", "_compat", "old", "v1"])
        || matches!(stem, "legacy" | "compat" | "_compat")
    {
        weight *= 0.5;
    }
    if is_in(&[
        "example",
        "examples",
        "_examples",
        "docs_src",
        "demo",
        "demos",
        "benches",
        "bench",
        "benchmarks",
        "samples",
    ]) {
        weight *= 0.4;
    }
    if matches!(name, "__init__.py" | "index.js" | "index.ts" | "index.mjs" | "package-info.java" | "prelude.rs") {
        weight *= 0.6;
    }
    if ending == "d.ts" || ending == "pyi" {
        weight *= 0.7;
    }
    match name.rsplit('.').next().unwrap_or_default() {
        "adoc" | "md" | "rst" | "toml" | "txt" | "yaml" | "yml" => weight *= 0.5,
        "css" | "html" | "json" | "xml" => weight *= 0.3,
        _ => {}
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_lists_of_exports_weigh_less() {
        for path in ["tests/it.rs", "a/foo_test.go", "src/FooTest.java", "x.test.ts", "pkg/__init__.py", "README.md"] {
            assert!(weight(path) < 1.0, "{path}");
        }
        for path in ["src/contest.rs", "src/latest.py", "lib/testament.go", "core/index.rs"] {
            assert!((weight(path) - 1.0).abs() < f32::EPSILON, "{path}");
        }
    }
}

//! Decoding of source files, or the reason to skip them. Also contains weights by kind of file, and the detection of
//! generated files and data, which would displace handwritten code in the results.

use std::borrow::Cow;

use agentd_core::{charset, code::SkipReason};

/// Maximum size of an answer's text in bytes.
pub const MAX_ANSWER: usize = 4096;
/// Maximum size in bytes of a file that is read. Larger files are skipped.
pub const MAX_BYTES: usize = 4 << 20;
/// Maximum size in bytes of a file that is parsed. Larger files are split by lines.
pub const MAX_PARSED: usize = 1 << 20;
/// Maximum number of indexed bytes per line.
pub const MAX_LINE: usize = 4096;
/// Mean line length in bytes above which a file counts as minified.
const MINIFIED_MEAN: usize = 400;
/// Minimum size of a minified file in bytes, so that small files with one long line are still indexed.
const MINIFIED_FROM: usize = 8 << 10;

/// Decodes a file.
///
/// # Errors
/// Returns the reason why the file has no searchable text.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, SkipReason> {
    if bytes.len() > MAX_BYTES {
        return Err(SkipReason::TooLarge);
    }
    let mut text = charset::text(bytes).map_err(|_| SkipReason::Binary)?;
    // Grammars treat a null character as the end of file.
    if text.contains('\0') {
        text = text.replace('\0', " ").into();
    }
    let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
    if text.len() >= MINIFIED_FROM && text.len() / lines > MINIFIED_MEAN {
        return Err(SkipReason::Minified);
    }
    Ok(text)
}

/// Returns the longest prefix of at most `bytes` bytes that ends at a character boundary.
pub(crate) fn start_of(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// Factor for the scores of test files.
pub(crate) const TEST_WEIGHT: f32 = 0.3;

/// Returns the factor for a file's score, based on its path. The factor is 1 for the project's own code.
pub(crate) fn weight(path: &str) -> f32 {
    let path = path.to_ascii_lowercase();
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let is_in = |names: &str| folders.split('/').any(|folder| names.split(' ').any(|name| name == folder));
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    let mut weight = 1.0;
    let is_test = is_in("test tests __tests__ testing spec specs testdata fixtures test_suite")
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || stem.ends_with("_spec")
        || matches!(stem, "tests" | "test" | "conftest")
        || ending.starts_with("test.")
        || ending.starts_with("spec.")
        || ending == "java" && (name.ends_with("test.java") || name.ends_with("tests.java"));
    if is_test {
        weight *= TEST_WEIGHT;
    }
    if is_in("legacy deprecated compat _compat old v1") || matches!(stem, "legacy" | "compat" | "_compat") {
        weight *= 0.5;
    }
    if is_in("example examples _examples docs_src demo demos benches bench benchmarks samples") {
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

/// Lock files of package managers.
const LOCK_FILES: &str = "bun.lockb cargo.lock composer.lock flake.lock gemfile.lock go.sum gradle.lockfile mix.lock \
    npm-shrinkwrap.json package-lock.json packages.lock.json pdm.lock pnpm-lock.yaml yarn.lock";
/// Suffixes of generated files and data.
const GENERATED_SUFFIXES: &str = ".bundle.js .csv .designer.cs .g.cs .g.dart .generated.cs .generated.go .generated.ts \
    .geojson .ipynb .jsonl .lock .map .min.css .min.js .min.mjs .ndjson .parquet .pb.cc .pb.go \
    .pb.h .po .pot .snap .svg .tsv _generated.go _pb2.py _pb2.pyi _pb2_grpc.py";
/// Number of bytes at the start of a file in which a generator's notice is searched.
const NOTICE_BYTES: usize = 1024;

/// Returns true if the file name indicates generated code or data.
pub(crate) fn is_generated_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    LOCK_FILES.split(' ').any(|file| name == file) || GENERATED_SUFFIXES.split(' ').any(|ending| name.ends_with(ending))
}

/// Returns true if a comment at the start says that the file is generated.
pub(crate) fn is_generated_text(text: &str) -> bool {
    let comments = start_of(text, NOTICE_BYTES).lines().take(12).filter(|line| {
        ["//", "#", "/*", "*", "--", "<!--", ";", "\"\"\""].iter().any(|mark| line.trim_start().starts_with(mark))
    });
    comments.into_iter().any(|line| {
        let line = line.to_ascii_lowercase();
        line.contains("@generated")
            || line.contains("do not edit") && line.contains("generated")
            || line.contains("automatically generated by")
            || line.contains("autogenerated by")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decode_to_text() {
        assert_eq!(decode(b"fn a() {}\0\nfn b() {}").as_deref(), Ok("fn a() {} \nfn b() {}"));
        let (gbk, ..) = encoding_rs::GBK.encode("// 读取配置文件并返回结果\nfn f() {}");
        assert!(decode(&gbk).is_ok_and(|text| text.contains("读取配置文件") && text.contains("fn f()")));
    }

    #[test]
    fn tests_and_export_lists_have_lower_weight() {
        for path in ["tests/it.rs", "a/foo_test.go", "src/FooTest.java", "x.test.ts", "pkg/__init__.py", "README.md"] {
            assert!(weight(path) < 1.0, "{path}");
        }
        for path in ["src/contest.rs", "src/latest.py", "lib/testament.go", "core/index.rs"] {
            assert!((weight(path) - 1.0).abs() < f32::EPSILON, "{path}");
        }
    }

    #[test]
    fn generated_files_are_recognised_by_name_and_header() {
        for path in ["Cargo.lock", "web/package-lock.json", "app.min.js", "a/b.pb.go", "x_pb2.py"] {
            assert!(is_generated_name(path), "{path}");
        }
        for path in ["src/lock.rs", "src/generated.rs", "mapper.js", "go.mod"] {
            assert!(!is_generated_name(path), "{path}");
        }
        assert!(is_generated_text("// Code generated by protoc-gen-go. DO NOT EDIT.\npackage a"));
        assert!(is_generated_text("/**\n * @generated SignedSource\n */"));
        assert!(!is_generated_text("fn a() { \"@generated\" }"));
        assert!(!is_generated_text("# Edits what was generated\n"));
    }
}

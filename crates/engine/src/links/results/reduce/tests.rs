//! Sample outputs of real programs, long enough to be reduced.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns::compile().unwrap());

fn marker(wanted: Option<&Regex>) -> Marker<'_> {
    Marker::new(&PATTERNS, wanted)
}

/// Generates irrelevant lines, placed between the relevant lines.
fn filler(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|n| line(n) + "\n").collect()
}

#[track_caller]
fn check_reduction(text: &str, request: &str, shown: &[&str], omitted: &[&str]) {
    const TOKENS: u64 = 900;
    assert!(estimate(text) > 2 * TOKENS, "the sample is too short");
    let keywords = pattern([request]);
    let reduced = reduce(&PATTERNS, text, keywords.as_ref(), TOKENS).expect("it is long enough");
    for part in shown {
        assert!(reduced.contains(part), "{part:?} is missing in:\n{reduced}");
    }
    for part in omitted {
        assert!(!reduced.contains(part), "{part:?} should be omitted from:\n{reduced}");
    }
    assert!(estimate(&reduced) <= TOKENS + 100, "{} tokens:\n{reduced}", estimate(&reduced));
}

#[test]
fn reduces_compiler_output_with_many_warnings() {
    let warning = |n: usize| {
        format!(
            "src/part{n}.c:{n}:7: warning: unused variable 'x' [-Wunused-variable]\n  {n} |   int x = {n};\n      |       ^"
        )
    };
    let mut text = "exit code 2 after 40.1 s\nstdout:\n".to_owned();
    text += &filler(60, |n| format!("gcc -O2 -Wall -c -o part{n}.o src/part{n}.c"));
    text += "stderr:\n";
    text += &filler(100, warning);
    text += "src/table.c: In function 'lookup':\nsrc/table.c:88:12: error: 'struct entry' has no member named 'nxet'; did \
        you mean 'next'?\n   88 |   return e->nxet;\n      |             ^~~~\n      |             next\n";
    text += &filler(100, |n| warning(n + 100));
    text += "make: *** [Makefile:14: src/table.o] Error 1\n";
    check_reduction(
        &text,
        "Build it",
        &[
            "exit code 2",
            "src/table.c: In function 'lookup':\nsrc/table.c:88:12: error: 'struct entry' has no member named 'nxet'",
            "   88 |   return e->nxet;\n",
            "make: *** [Makefile:14: src/table.o] Error 1",
        ],
        &["part50.c:50", "part150.c:150"],
    );
}

#[test]
fn reduces_a_log_of_5000_lines() {
    let line = |n: usize| {
        format!("2031-03-01T10:{:02}:{:02}Z INFO request id={n} path=/api/items status=200", n / 60 % 60, n % 60)
    };
    let mut text = "exit code 0 after 0.4 s\nstdout:\n".to_owned();
    text += &filler(1700, line);
    text += "2031-03-01T10:28:20Z INFO 订单 8817 已发货\n";
    text += &filler(1500, |n| line(n + 1700));
    text += "2031-03-01T10:53:20Z ERROR pool exhausted, 50 of 50 connections in use\n";
    text += &filler(1800, |n| match n % 3 {
        0 => format!("2031-03-01T11:00:{:02}Z ERROR no connection for request id={n}", n % 60),
        _ => line(n + 3200),
    });
    assert!(text.lines().count() > 5000);
    check_reduction(
        &text,
        "查一下订单为什么没有发货",
        &[
            "exit code 0",
            "订单 8817 已发货",
            "ERROR pool exhausted, 50 of 50 connections in use",
            "ERROR no connection for request id=0",
            "id=4999 ",
            "[… 1,6",
        ],
        &["id=900 ", "id=4000 "],
    );
}

#[test]
fn progress_bars_and_huge_lines_are_dropped() {
    let bar = filler(900, |n| format!("{n}.0% ████▌      | {n}/900 [00:01<00:02, 10.3it/s]")).replace('\n', "\r");
    let packed =
        format!("{}; if(x){{throw new TypeError('no such widget')}}; {}", "a=1;".repeat(2000), "b=2;".repeat(2000));
    let text = format!("exit code 1 after 3.0 s\nstdout:\n{bar}\ndone\n{packed}\nthe end");
    check_reduction(
        &text,
        "go",
        &["exit code 1", "throw new TypeError('no such widget')", "bytes …]", "done", "the end"],
        &["450.0%"],
    );
}

#[test]
fn short_output_is_not_reduced() {
    assert_eq!(reduce(&PATTERNS, "", None, 100), None);
    assert_eq!(reduce(&PATTERNS, "exit code 0\nall is well\n", None, 100), None);
    assert_eq!(reduce(&PATTERNS, "error\n\n\n", None, 0), None);
    assert_eq!(reduce(&PATTERNS, &"\n".repeat(2 * MAX_LINES), None, 1_000), None, "too many lines");
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z 火é\u{1f600}]{0,80}",
        1 => Just("error: it broke".to_owned()),
        1 => Just("警告: 注意 warning".to_owned()),
        1 => "[a-z]{300,900}",
        1 => Just("50%\r60%\rfailed\r".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn reduction_never_grows_nor_loses_the_first_error(
        lines in proptest::collection::vec(line(), 0..80),
        tokens in 0u64..2_000,
        asked in "[a-c]{4} [火]{2}",
    ) {
        let text = lines.join("\n");
        let keywords = pattern([asked.as_str()]);
        if let Some(reduced) = reduce(&PATTERNS, &text, keywords.as_ref(), tokens) {
            prop_assert!(reduced.len() < text.len());
            prop_assert!(estimate(&reduced) <= tokens + 2 * 420 + 3 * GAP_TOKENS, "{} of {tokens}", estimate(&reduced));
            let mut marker = marker(None);
            let wrong = |line: &&str| matches!(marker.mark(line), Some((Mark::Wrong, _)));
            if let Some(first) = text.split(['\n', '\r']).find(wrong) {
                prop_assert!(reduced.lines().any(|line| line == first), "{first:?} is lost in {reduced}");
            }
        }
    }
}

fn check(line: &str, expected: Option<Mark>) {
    let wanted = Regex::new("parser").unwrap();
    let mut marker = marker(Some(&wanted));
    assert_eq!(marker.mark(line).map(|(mark, _)| mark), expected, "{line}");
}

#[test]
fn error_lines_of_many_tools_are_recognised() {
    for line in [
        "error[E0308]: mismatched types",
        "thread 'main' panicked at src/lib.rs:3:5:",
        "test it::works ... FAILED",
        "E       assert 1 == 2",
        "Traceback (most recent call last):",
        "ValueError: invalid literal for int() with base 10: 'x'",
        "main.c:5:3: error: expected ';' before 'return'",
        "npm ERR! code ELIFECYCLE",
        "java.lang.NullPointerException: null",
        "make: *** [Makefile:2: all] Error 1",
        "/usr/bin/ld: main.o: undefined reference to `f'",
        "FAIL src/app.test.js",
        "--- FAIL: TestX (0.00s)",
        "3 passed, 1 failed",
        "0 warnings, 2 errors",
        "编译错误: 缺少分号",
        "接続に失敗しました",
        "Segmentation fault (core dumped)",
    ] {
        check(line, Some(Mark::Wrong));
    }
    // These lines only look like failures.
    check("test errors::failed_calls_are_reported ... ok", None);
    check("tests/test_errors.py::test_failure PASSED", None);
    check("test result: ok. 12 passed; 0 failed; 0 ignored", None);
    check("0 errors, no warnings", None);
    check("errors: 0", None);
    check("   Compiling thiserror v2.0.3", None);
    check("terror in the mirror room of assertiveness", None);
    // Possible failures and keywords rank lower.
    check("warning: unused variable: `x`", Some(Mark::Doubtful));
    check("bash: foo: command not found", Some(Mark::Doubtful));
    check("警告: 磁盘空间不足", Some(Mark::Doubtful));
    check("   Compiling parser v0.1.0", Some(Mark::Wanted));
    check("test parser::errors ... ok", Some(Mark::Wanted));
}

#[test]
fn repeated_errors_are_shown_twice() {
    let mut marker = marker(None);
    let marked = (0..10).filter(|n| marker.mark(&format!("{n} error: retry {n}")).is_some()).count();
    assert_eq!(marked, 2);
}

fn check_keywords(text: &str, expected: &[&str]) {
    assert_eq!(keywords([text]).iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn distinctive_words_are_extracted_from_requests() {
    check_keywords("Please fix the parser in src/lex.rs, then run it!", &["lex.rs", "parser"]);
    check_keywords("Why does test_x1 fail? See v2 and #42.", &["fail", "test_x1"]);
    check_keywords("", &[]);
    check_keywords(
        "请修复登录超时的bug: login_timeout",
        &["login_timeout", "修复", "复登", "录超", "时的", "登录", "请修", "超时"],
    );
    check_keywords("ログイン失敗", &["イン", "グイ", "ログ", "ン失", "失敗"]);
}

#[test]
fn number_of_request_words_is_bounded() {
    let long: String = (0..500).map(|n| format!("word{n} ")).collect();
    assert_eq!(keywords([long.as_str()]).len(), MAX_KEYWORDS);
    let dense: String = (0x4e00_u32..0x4f00).filter_map(char::from_u32).collect();
    assert_eq!(keywords([dense.as_str()]).len(), MAX_KEYWORDS);
}

#[test]
fn request_words_match_case_insensitively() {
    let wanted = pattern(["the Parser (v1.2)"]).unwrap();
    assert!(wanted.is_match("PARSER") && wanted.is_match("at v1.2") && !wanted.is_match("at v1x2"));
    assert!(pattern(["a b c"]).is_none());
}

//! Tests of `list_workspace_files`, `find_files` and `grep`.

use super::*;

#[tokio::test]
async fn whole_workspace_is_listed() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    bench.put("uploads/notes.txt", "hello");
    bench.put("uploads/.hidden", "x");
    bench.put("outputs/a/b/c/d.txt", "deep");
    bench.put("/project/src/main.rs", "fn main() {}");
    bench.put("/project/README.md", "x".repeat(2048));
    symlink("notes.txt", bench.real("uploads/link")).unwrap();
    assert_eq!(
        bench.ok("list_workspace_files", json!({})).await,
        "/project/\n/project/README.md (2.0 KB)\n/project/src/\nconversation_history/\nlarge_tool_results/\noutputs/\n\
         outputs/a/\noutputs/a/b/\nskills/\ntemp/\nuploads/\nuploads/link (link)\nuploads/notes.txt (5 bytes)"
    );
    for (path, expected) in [
        ("uploads", "uploads/link (link)\nuploads/notes.txt (5 bytes)"),
        ("temp", "[temp is empty]"),
        ("uploads/notes.txt", "uploads/notes.txt (5 bytes)"),
        ("/project", "/project/\n/project/README.md (2.0 KB)\n/project/src/\n/project/src/main.rs (12 bytes)"),
    ] {
        assert_eq!(bench.ok("list_workspace_files", json!({ "path": path })).await, expected);
    }
    bench.fails("list_workspace_files", json!({"path": "nowhere"}), ToolErrorCode::Path).await;
}

#[tokio::test]
async fn listings_and_searches_are_bounded_in_size_and_time() {
    let limited = limits(|limits| (limits.list_entries, limits.found_files, limits.walk_entries) = (10, 5, 60));
    let bench = Bench::with(Project::None, limited).await;
    for number in 0..50 {
        bench.put(&format!("uploads/{number:03}.txt"), "needle\n");
    }
    let listed = bench.ok("list_workspace_files", json!({"path": "uploads"})).await;
    assert_eq!(listed.lines().count(), 11);
    assert!(listed.ends_with("[only the first 10 entries are shown; list a subfolder]"));
    let found = bench.ok("find_files", json!({"pattern": "*.txt"})).await;
    assert!(found.ends_with("[50 match; the newest 5 are shown]"), "{found}");
    for number in 50..100 {
        bench.put(&format!("uploads/{number:03}.txt"), "needle\n");
    }
    for (tool, arguments) in [("find_files", json!({"pattern": "*.txt"})), ("grep", json!({"pattern": "needle"}))] {
        let text = bench.ok(tool, arguments).await;
        assert!(text.contains("is not complete: there are too many files"), "{text}");
    }

    // Searches have a time limit, too.
    let bench = Bench::with(Project::None, limits(|limits| limits.search_time = Duration::ZERO)).await;
    bench.put("uploads/a.txt", "needle\n");
    for (tool, arguments) in [("grep", json!({"pattern": "x"})), ("find_files", json!({"pattern": "*"}))] {
        let text = bench.ok(tool, arguments).await;
        assert!(text.contains("not complete: it took too long"), "{text}");
    }
}

#[tokio::test]
async fn files_are_found_newest_first() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    let born = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let all = ["/project/src/d.rs", "outputs/x/y/c.txt", "outputs/x/b.md", "uploads/a.pdf"];
    for (age, path) in ["/project/.git/e.rs"].iter().chain(&all).enumerate() {
        let file = fs::File::options().write(true).open(bench.put(path, "12345")).unwrap();
        file.set_modified(born - Duration::from_secs(age as u64)).unwrap();
    }
    for (pattern, path, expected) in [
        ("*", None, &all[..]),
        ("**/*", None, &all[..]),
        ("*.{md,txt}", None, &all[1..3]),
        ("outputs/**/*.txt", None, &all[1..2]),
        ("/outputs/**", None, &all[1..3]),
        ("x/*.md", Some("outputs"), &all[2..3]),
        ("*.md", Some("/outputs/x"), &all[2..3]),
        ("/project/**/*.rs", None, &all[..1]),
        ("src/*.rs", None, &all[..1]),
        ("src/*.rs", Some("/project"), &all[..1]),
        ("[ab].*", None, &all[2..]),
        ("?.pdf", None, &all[3..]),
        ("outputs/*", None, &[]),
    ] {
        let found = bench.ok("find_files", json!({"pattern": pattern, "path": path})).await;
        let expected: Vec<String> = expected.iter().map(|path| format!("{path} (5 bytes)")).collect();
        if expected.is_empty() {
            assert!(found.starts_with("No file matches"), "{found}");
        } else {
            assert_eq!(found, expected.join("\n"), "{pattern}");
        }
    }
    for pattern in ["", "[a", "{a,b", &"a".repeat(2000)] {
        bench.fails("find_files", json!({ "pattern": pattern }), ToolErrorCode::InvalidArgs).await;
    }
    bench.fails("find_files", json!({"pattern": "*", "path": "uploads/a.pdf"}), ToolErrorCode::Path).await;
}

#[tokio::test]
async fn ignore_files_apply_unless_overridden() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    bench.put("/project/.gitignore", "target/\n*.log\n!keep.log\n");
    bench.put("/project/sub/.gitignore", "/local.txt\n!x.log\n");
    for path in ["target/a.txt", "b.log", "keep.log", "sub/local.txt", "sub/x.log", "sub/deep/local.txt", "sub/y.log"] {
        bench.put(&format!("/project/{path}"), "needle");
    }
    let found = bench.ok("grep", json!({"pattern": "needle", "path": "/project"})).await;
    assert_eq!(
        found,
        "/project/keep.log:1: needle\n/project/sub/deep/local.txt:1: needle\n/project/sub/x.log:1: needle\n\
         [3 matches in 3 files]"
    );
    let found = bench.ok("grep", json!({"pattern": "needle", "path": "/project", "include_ignored": true})).await;
    assert!(found.ends_with("[7 matches in 7 files]"), "{found}");
    let found = bench.ok("find_files", json!({"pattern": "b.log"})).await;
    assert!(found.contains("skipped; set include_ignored]"), "{found}");
}

#[tokio::test]
async fn project_is_searched_first() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    bench.put("temp/venv/lib.py", "needle\n".repeat(20_000));
    bench.put("/project/src/a.py", "needle");
    let found = bench.ok("grep", json!({"pattern": "needle"})).await;
    assert!(found.starts_with("/project/src/a.py:1: needle\n"), "{}", &found[..200]);
}

#[tokio::test]
async fn grep_returns_lines_with_context() {
    let mut bench = Bench::new().await;
    bench.put("uploads/a.txt", "one\nTwo words\nthree\r\nfour\nfive\n");
    bench.put("uploads/b.rs", "fn two() {}\n");
    bench.put("uploads/bin", b"two\0two");
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain("say two\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    bench.put("uploads/c.txt", utf16);
    let skipped = "[not fully searched: 1 file (binary)]";
    for (arguments, expected, has_skipped) in [
        (
            json!({"pattern": "two", "ignore_case": true}),
            "uploads/a.txt:2: Two words\nuploads/b.rs:1: fn two() {}\nuploads/c.txt:1: say two\n[3 matches in 3 files]",
            true,
        ),
        (json!({"pattern": "two", "include": "*.{rs,py}"}), "uploads/b.rs:1: fn two() {}\n[1 match in 1 file]", false),
        (
            json!({"pattern": "three$", "context": 1}),
            "uploads/a.txt-2- Two words\nuploads/a.txt:3: three\nuploads/a.txt-4- four\n[1 match in 1 file]",
            true,
        ),
        (json!({"pattern": "^.*words$"}), "uploads/a.txt:2: Two words\n[1 match in 1 file]", true),
        (
            json!({"pattern": "(five|two)", "context": 1}),
            "uploads/a.txt-4- four\nuploads/a.txt:5: five\n--\nuploads/b.rs:1: fn two() {}\n--\nuploads/c.txt:1: say two\n[3 \
             matches in 3 files]",
            true,
        ),
        (json!({"pattern": "two()", "literal": true}), "uploads/b.rs:1: fn two() {}\n[1 match in 1 file]", true),
        (
            json!({"pattern": "^f", "path": "uploads/a.txt"}),
            "uploads/a.txt:4: four\nuploads/a.txt:5: five\n[2 matches in 1 file]",
            false,
        ),
        (json!({"pattern": "nothing"}), "No line matches \"nothing\" in 3 files.", true),
    ] {
        bench.context.turn_id = agentd_core::ids::TurnId::generate();
        let found = bench.ok("grep", arguments.clone()).await;
        let expected = if has_skipped { format!("{expected}\n{skipped}") } else { expected.to_owned() };
        assert_eq!(found, expected, "{arguments}");
    }
    for pattern in ["(", "a{1000}{1000}", "(?=x)", "\\1", "a\nb", ""] {
        bench.fails("grep", json!({ "pattern": pattern }), ToolErrorCode::InvalidArgs).await;
    }
}

#[tokio::test]
async fn unsearched_files_are_named_once_per_turn_and_scope() {
    let mut bench = Bench::new().await;
    bench.put("uploads/bin", b"two\0two");
    bench.put("temp/bin", b"two\0two");
    let note = "[not fully searched: 1 file (binary)]";
    for (arguments, is_shown) in [
        (json!({"pattern": "two", "path": "uploads"}), true),
        (json!({"pattern": "three", "path": "uploads"}), false),
        // Another folder has other files, even if their number is the same.
        (json!({"pattern": "three", "path": "temp"}), true),
        (json!({"pattern": "three", "path": "uploads", "include": "b*"}), true),
    ] {
        let found = bench.ok("grep", arguments.clone()).await;
        assert_eq!(found.contains(note), is_shown, "{arguments}: {found}");
    }
    bench.context.turn_id = agentd_core::ids::TurnId::generate();
    let found = bench.ok("grep", json!({"pattern": "three", "path": "uploads"})).await;
    assert!(found.contains(note), "{found}");
}

#[tokio::test]
async fn grep_output_is_bounded_and_long_lines_are_cut() {
    let bench = Bench::with(Project::None, limits(|limits| limits.grep_hits = 5)).await;
    bench.put("uploads/a.txt", "needle\n".repeat(100));
    bench.put("uploads/b.txt", format!("needle {}\n", "x".repeat(10_000)));
    let found = bench.ok("grep", json!({"pattern": "needle", "path": "uploads/a.txt"})).await;
    assert_eq!(found.lines().count(), 6);
    assert!(found.ends_with("[the first 5 matches are shown; narrow the pattern, the path or include]"), "{found}");
    let found = bench.ok("grep", json!({"pattern": "needle", "path": "uploads/b.txt"})).await;
    assert!(found.len() < 600, "{}", found.len());
    // A line longer than the memory limit is skipped and not stored.
    bench.put("uploads/huge.txt", vec![b'x'; 20 * 1024 * 1024]);
    let found = bench.ok("grep", json!({"pattern": "needle", "path": "uploads/huge.txt"})).await;
    assert!(found.contains("1 file (up to a line that is too long)"), "{found}");

    // Of a long line, only the part around the match is shown.
    let bench = Bench::new().await;
    let (before, after) = ("ä".repeat(500_000), "z".repeat(500_000));
    bench.put("uploads/one.json", format!("{before}NEEDLE{after}NEEDLE{after}\n"));
    let found = bench.ok("grep", json!({"pattern": "NEEDLE"})).await;
    let (around, rest) = ("ä".repeat(200), "z".repeat(194));
    assert_eq!(
        found,
        format!("uploads/one.json:1: (column 500001, the next at 1000007) …{around}NEEDLE{rest}…\n[1 match in 1 file]")
    );
    let part = bench.ok("read_file", json!({"path": "uploads/one.json", "column": 1_000_007})).await;
    assert!(part.lines().nth(1).unwrap().starts_with("NEEDLEzzz"), "{}", &part[..200]);
}

#[tokio::test]
async fn searches_skip_pipes_and_outside_links() {
    let bench = Bench::with_project(Project::Writable).await;
    let secret = bench.secret();
    mkfifo(&bench.real("uploads/pipe"));
    mkfifo(&bench.real("uploads/.gitignore"));
    symlink("/dev/zero", bench.real("uploads/.ignore")).unwrap();
    symlink(&secret, bench.real("uploads/link.txt")).unwrap();
    symlink(bench.outside.path(), bench.real("/project/out")).unwrap();
    symlink(".", bench.real("/project/circle")).unwrap();
    fs::hard_link(&secret, bench.real("uploads/hard.txt")).unwrap();
    bench.put("uploads/a.txt", "launch\n");
    let found = bench.ok("grep", json!({"pattern": "launch"})).await;
    assert!(!found.contains(SECRET), "{found}");
    assert!(found.starts_with("uploads/a.txt:1: launch\n[1 match in 1 file]"), "{found}");
    let listed = bench.ok("list_workspace_files", json!({"depth": 20})).await;
    assert!(!listed.contains("secret.txt"), "{listed}");
    assert!(
        listed.contains("uploads/pipe (not a regular file)") && listed.contains("/project/circle (link)"),
        "{listed}"
    );
}

#[tokio::test]
async fn odd_names_are_escaped_and_non_utf8_names_counted() {
    use std::os::unix::ffi::OsStrExt as _;
    let bench = Bench::new().await;
    for name in [&b"bad\xff.txt"[..], b"line\nbreak.txt", b"esc\x1b[2J.txt", b"back\\slash"] {
        fs::write(bench.real("uploads").join(std::ffi::OsStr::from_bytes(name)), "needle").unwrap();
    }
    let listed = bench.ok("list_workspace_files", json!({"path": "uploads"})).await;
    assert_eq!(
        listed,
        "uploads/back\\u{5c}slash (6 bytes)\nuploads/esc\\u{1b}[2J.txt (6 bytes)\nuploads/line\\u{a}break.txt (6 bytes)\n\
         [1 skipped: unreadable, or not named in UTF-8]"
    );
    let found = bench.ok("grep", json!({"pattern": "needle"})).await;
    assert!(found.ends_with("[3 matches in 3 files]\n[not fully searched: 1 file (unreadable)]"), "{found}");
    assert_eq!(bench.ok("read_file", json!({"path": "uploads/line\\u{a}break.txt"})).await, "needle");
}

#[tokio::test]
async fn too_deep_tree_is_walked_up_to_the_limit() {
    let bench = Bench::new().await;
    deep_tree(&bench.real("temp"), 3000);
    let found = bench.ok("grep", json!({"pattern": "needle"})).await;
    assert!(found.starts_with("No line matches"), "{found}");
    bench.folders.clear_temp(bench.context.session_id).await.unwrap();
}

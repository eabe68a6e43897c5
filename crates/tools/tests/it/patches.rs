//! Tests of `apply_patch`: both formats, atomicity, and errors for patches that do not match.

use proptest::prelude::*;
use similar::TextDiff;

use super::*;

fn patch(text: &str) -> Value {
    json!({ "patch": text })
}

/// Applies a patch to `outputs/f` and compares the result.
async fn assert_patched(bench: &Bench, before: &str, text: &str, after: &str) {
    bench.put("outputs/f", before);
    let output = bench.call("apply_patch", patch(text)).await;
    assert_eq!(output.error, None, "{before:?} {text}\n{}", output.text);
    assert_eq!(String::from_utf8(bench.content("outputs/f")).unwrap(), after, "{text}");
}

#[tokio::test]
async fn unified_diff_of_several_files_is_applied() {
    let bench = Bench::new().await;
    bench.put("outputs/moved.txt", "one\ntwo\n");
    bench.put("outputs/same.txt", b"\0binary\xff");
    let text = "From 0123 Mon Sep 17 00:00:00 2001\nSubject: words for people\n---\n 3 files changed\n\n\
        diff --git a/outputs/moved.txt b/outputs/to.txt\nsimilarity index 50%\nrename from outputs/moved.txt\n\
        rename to outputs/to.txt\n--- a/outputs/moved.txt\n+++ b/outputs/to.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\
        diff --git a/outputs/same.txt b/outputs/same2.txt\nsimilarity index 100%\nrename from outputs/same.txt\n\
        rename to outputs/same2.txt\n-- \n2.40\n";
    let shown = bench.preview("apply_patch", patch(text)).await.unwrap().unwrap();
    for (from, to) in [("moved", "to"), ("same", "same2")] {
        let expected = format!("rename from outputs/{from}.txt\nrename to outputs/{to}.txt\n");
        assert!(shown.contains(&expected), "{shown}");
    }
    let output = bench.call("apply_patch", patch(text)).await;
    let expected = "Applied the patch: moved outputs/moved.txt to outputs/to.txt (+1 -1); moved outputs/same.txt to \
        outputs/same2.txt.";
    assert_eq!(output.text, expected);
    for (path, change) in [("same2", FileChangeKind::Created), ("same", FileChangeKind::Deleted)] {
        let change = FileChange::new(format!("outputs/{path}.txt"), change);
        assert!(output.files.contains(&change), "{:?}", output.files);
    }
    assert_eq!(bench.content("outputs/to.txt"), b"one\n2\n");
    assert_eq!(bench.content("outputs/same2.txt"), b"\0binary\xff");
    assert!(!bench.real("outputs/moved.txt").exists() && !bench.real("outputs/same.txt").exists());
}

#[tokio::test]
async fn common_patch_mistakes_are_tolerated() {
    let bench = Bench::new().await;
    // Uses other names for the tool and its argument, and a code fence.
    bench.put("outputs/n.txt", "one\n2\n");
    let text = "```\n*** Begin Patch\n*** Update File: outputs/n.txt\n-2\n+two\n*** End Patch\n```\n";
    bench.ok("applypatch", json!({ "input": text })).await;
    assert_eq!(bench.content("outputs/n.txt"), b"one\ntwo\n");
    let diff = |hunks: &str| format!("--- a/outputs/f\n+++ b/outputs/f\n{hunks}");
    let numbers = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    for (before, hunks, after) in [
        // Line numbers and counts are wrong or missing.
        (numbers, "@@ -77,9 +70,1 @@\n 4\n-5\n+five\n 6\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
        (numbers, "@@ -1,1 +1,1 @@\n 4\n-5\n+five\n 6\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
        (numbers, "@@\n 4\n-5\n+five\n 6\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
        (numbers, "@@ ... @@\n-5\n+five\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
        (numbers, "@@ -2,3 +2,2 @@\n 2\n-3\n 4\n@@ -7,2 +6,3 @@\n 7\n+7½\n 8\n", "1\n2\n4\n5\n6\n7\n7½\n8\n9\n"),
        // A context line has lost its space.
        ("a\n\nb\nc\n", "@@ -1,4 +1,4 @@\n a\n\n-b\n+B\n c\n", "a\n\nB\nc\n"),
        ("a\n\nb\nc\n", "@@\n a\n\n-b\n+B\n c\n\n\n", "a\n\nB\nc\n"),
        // Trailing white space differs. Unchanged lines keep their own white space.
        ("a  \nb\t\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c  \n", "a  \nB\nc\n"),
        // The indentation differs, and added lines adopt the file's indentation.
        (
            "\tif x:\n\t\ta\n\t\tb\n",
            "@@\n if x:\n     a\n-    b\n+    c\n+      d\n",
            "\tif x:\n\t\ta\n\t\tc\n\t\t  d\n",
        ),
        ("    a\n    b\n", "@@\n a\n-b\n+c\n+    d\n", "    a\n    c\n        d\n"),
        // The nearest of several positions is selected by line number.
        ("x\ny\nx\ny\nx\n", "@@ -3,1 +3,1 @@\n-x\n+z\n", "x\ny\nz\ny\nx\n"),
        ("x\ny\nx\ny\nx\n", "@@ -9,1 +9,1 @@\n-x\n+z\n", "x\ny\nx\ny\nz\n"),
        // A patch with `\r\n` is applied to a file with `\n`, and vice versa.
        ("a\nb\n", "@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n", "a\nc\n"),
        ("a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n", "a\r\nc\r\nd\r\n"),
        ("a\r\nb\nc\r\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\r\nB\nc\r\n"),
        ("a\rb\rc\r", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\rB\rc\r"),
        ("\u{feff}a\nb\n", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n", "\u{feff}A\nb\n"),
        // The file has no line end at the end.
        ("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\nc"),
        ("a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", "a\nb\nc"),
        ("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
        ("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n", "a\nb"),
        ("a\nb\n", "@@ -1,2 +1,1 @@\n-a\n-b\n+a\n\\ No newline at end of file\n", "a"),
        ("a\nb", "@@ -1,2 +1,1 @@\n a\n-b\n\\ No newline at end of file\n", "a\n"),
        ("a\nb\n", "@@ -1,2 +0,0 @@\n-a\n-b\n", ""),
        ("", "@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n"),
        ("a\n", "@@ -1,0 +2,1 @@\n+b\n", "a\nb\n"),
        ("a\n", "@@ -0,0 +1,1 @@\n+b\n", "b\na\n"),
        // Lines look like a file header.
        ("-- x\ny\n", "@@ -1,2 +1,2 @@\n--- x\n+++ z\n y\n", "++ z\ny\n"),
    ] {
        assert_patched(&bench, before, &diff(hunks), after).await;
    }
    let enveloped = |inner: &str| format!("*** Begin Patch\n*** Update File: outputs/f\n{inner}*** End Patch");
    for (before, inner, after) in [
        (numbers, "-5\n+five\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
        (numbers, "@@ -5,1 +5,1 @@\n-5\n+five\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
        ("a\nx\nb\nx\n", "@@ b\n-x\n+z\n", "a\nx\nb\nz\n"),
        ("a\nx\nb\nx\n", "@@ b\n b\n-x\n+z\n", "a\nx\nb\nz\n"),
        ("x\nx\n", "-x\n+z\n*** End of File\n", "x\nz\n"),
        ("a\nb\n", "@@ a\n+new\n", "a\nnew\nb\n"),
        ("a\nb\n", "@@\n+new\n*** End of File\n", "a\nb\nnew\n"),
        ("fn a(x: u8) {\n1\n}\n", "@@ fn a(\n-1\n+2\n", "fn a(x: u8) {\n2\n}\n"),
    ] {
        assert_patched(&bench, before, &enveloped(inner), after).await;
    }
}

#[tokio::test]
async fn patch_names_follow_diff_and_git_conventions() {
    let bench = Bench::with_project(Project::Writable).await;
    for (path, head) in [
        ("outputs/a b.txt", "--- a/outputs/a b.txt\t2026-01-01 10:00:00\n+++ b/outputs/a b.txt\t2026-01-02\n"),
        ("outputs/a b.txt", "--- outputs/a b.txt\n+++ outputs/a b.txt\n"),
        ("outputs/ü.txt", "--- \"a/outputs/\\303\\274.txt\"\n+++ \"b/outputs/\\303\\274.txt\"\n"),
        ("outputs/ü.txt", "--- a/outputs/ü.txt\n+++ b/outputs/ü.txt\n"),
        ("/project/x", "--- a/project/x\n+++ b/project/x\n"),
        ("/project/x", "--- /project/x\n+++ /project/x\n"),
        ("/project/x", "--- a//project/x\n+++ b//project/x\n"),
        ("outputs/x", "Index: outputs/x\n=====\n--- ./outputs/x\n+++ ./outputs/x\n"),
    ] {
        bench.put(path, "one\n");
        bench.ok("apply_patch", patch(&format!("{head}@@ -1 +1 @@\n-one\n+two\n"))).await;
        assert_eq!(bench.content(path), b"two\n", "{head}");
    }
    bench.put("outputs/empty", "");
    let text = "diff --git a/outputs/empty b/outputs/empty\ndeleted file mode 100644\nindex e69de29..0000000\n\
        diff --git a/outputs/made b/outputs/made\nnew file mode 100644\nindex 0000000..e69de29\n";
    bench.ok("apply_patch", patch(text)).await;
    assert!(!bench.real("outputs/empty").exists() && bench.content("outputs/made").is_empty());
}

#[tokio::test]
async fn mismatched_hunk_is_reported_with_the_file_text() {
    let bench = Bench::new().await;
    let diff = |hunks: &str| format!("--- a/outputs/f\n+++ b/outputs/f\n{hunks}");
    let code = "fn a() {\n    let x = 1;\n    let y = 2;\n    x + y\n}\n\nfn b() {\n    3\n}\n";
    for (hunks, expected) in [
        (
            "@@ -1,4 +1,4 @@\n fn a() {\n     let x = 1;\n-    let y = 5;\n+    let y = 6;\n     x + y\n",
            "outputs/f: hunk 1 of 1 (@@ -1,4 +1,4 @@) does not match: it expects \"    let y = 5;\" at line 3, but found \
             \"    let y = 2;\". The file from line 1:\nfn a() {\n    let x = 1;\n    let y = 2;\n    x + y",
        ),
        ("@@ -9,2 +9,2 @@\n }\n-more\n+less\n", "it expects \"more\" "),
        ("@@\n-    let x = 0;\n+    let x = 1;\n", "its new lines are in the file"),
        ("@@ -7,1 +7,1 @@\n-}\n+};\n", "matches 2 times (lines 5, 9); add surrounding lines"),
        (
            "@@ -1,1 +1,1 @@\n-nothing of the kind\n+x\n",
            "neither \"nothing of the kind\" nor similar text is in the file",
        ),
        (
            "@@ -8 +8 @@\n-    3\n+    4\n@@ -1 +1 @@\n-fn a() {\n+fn c() {\n",
            "hunk 2 of 2 (@@ -1 +1 @@) matches at line 1, above",
        ),
        ("@@\n+lost\n", "only adds lines without context"),
        ("@@ -400,0 +401 @@\n+lost\n", "only adds lines without context"),
    ] {
        bench.put("outputs/f", code);
        let text = bench.fails("apply_patch", patch(&diff(hunks)), ToolErrorCode::Tool).await;
        assert!(text.starts_with("the patch does not apply; nothing was changed.\noutputs/f: "), "{text}");
        assert!(text.contains(expected), "{text}");
        assert_eq!(bench.preview("apply_patch", patch(&diff(hunks))).await.unwrap_err().text, text);
        assert_eq!(bench.content("outputs/f"), code.as_bytes());
    }
    for (anchored, expected) in [
        ("@@ fn c() {\n-    3\n+    4\n", "no line is \"fn c() {\""),
        (
            "@@ fn a() {\n     let x = 1;\n-    let y = 5;\n+    let y = 6;\n",
            "hunk 1 of 1 (@@ fn a() {) does not match: it expects \"    let y = 5;\" at line 3, but found \"    let y = 2;\". \
             The file from line 2:\n    let x = 1;\n    let y = 2;",
        ),
    ] {
        let anchored = format!("*** Begin Patch\n*** Update File: outputs/f\n{anchored}*** End Patch");
        let text = bench.fails("apply_patch", patch(&anchored), ToolErrorCode::Tool).await;
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn ambiguous_or_invalid_patches_are_rejected() {
    let bench = Bench::with_project(Project::Writable).await;
    bench.put("outputs/a", "one\ntwo\n");
    bench.put("outputs/b", "x\n");
    bench.put("outputs/bin", b"\0\x01");
    bench.put("/project/src/lib.rs", "x\n");
    std::os::unix::fs::symlink("a", bench.real("outputs/link")).unwrap();
    let before = tree(bench.outside.path());
    use ToolErrorCode::{InvalidArgs, Path, Tool};
    let head = "--- a/outputs/a\n+++ b/outputs/a\n";
    let hunk = "@@ -1 +1 @@\n-one\n+1\n";
    let inside = |inner: &str| format!("*** Begin Patch\n{inner}*** End Patch");
    for (text, code, expected) in [
        (String::new(), InvalidArgs, "is empty"),
        ("  \n\n".into(), InvalidArgs, "is empty"),
        ("just words\n".into(), InvalidArgs, "names no file"),
        (inside(""), InvalidArgs, "names no file"),
        ("*** Begin Patch\n*** Update File: outputs/a\n-one\n+1\n".into(), InvalidArgs, "no `*** End Patch`"),
        (inside("*** Change File: outputs/a\n"), InvalidArgs, "line 2 of the patch is"),
        (inside("*** Add File: outputs/n\none\n"), InvalidArgs, "line 3 of the patch belongs to a new file"),
        (inside("*** Update File: outputs/a\n one\n?two\n"), InvalidArgs, "line 4 of the patch is \"?two\""),
        (inside("*** Update File: outputs/a\n one\n two\n"), InvalidArgs, "changes nothing in outputs/a"),
        (inside("*** Update File: outputs/a\n"), InvalidArgs, "changes nothing in outputs/a"),
        (inside("") + "\nmore\n", InvalidArgs, "comes after `*** End Patch`"),
        (hunk.into(), InvalidArgs, "line 1 of the patch is a hunk, but no file was named"),
        (format!("{head}@@ -1 +1 @@\n-one\n+1\nhello\n"), InvalidArgs, "line 6 of the patch is \"hello\""),
        (format!("{head}@@ -1 +1 @@\n"), InvalidArgs, "has no lines"),
        (head.into(), InvalidArgs, "has no hunks"),
        (format!("{head}@@ -1 +1 @@\n-one\n+one\n"), Tool, "changes only white space in outputs/a"),
        (format!("{head}{hunk}{head}@@ -2 +2 @@\n-two\n+2\n"), InvalidArgs, "lists outputs/a twice"),
        (
            format!("{head}{hunk}--- a/outputs/link\n+++ b/outputs/link\n@@ -2 +2 @@\n-two\n+2\n"),
            Path,
            "outputs/link is a link to outputs/a; write to outputs/a itself",
        ),
        (format!("{head}{hunk}--- a/outputs/c\n+++ b/outputs/c\n{hunk}"), Path, "outputs/c does not exist"),
        (format!("--- a/lib.rs\n+++ b/lib.rs\n{hunk}"), Path, "did you mean /project/src/lib.rs?"),
        ("--- /dev/null\n+++ b/outputs/a\n@@ -0,0 +1 @@\n+x\n".into(), Tool, "which already exists"),
        (inside("*** Add File: outputs/a\n+x\n"), Tool, "which already exists"),
        (inside("*** Update File: outputs/a\n*** Move to: outputs/b\n"), Tool, "which already exists"),
        (inside("*** Update File: outputs/a\n*** Move to: outputs/a\n"), InvalidArgs, "to itself"),
        (inside("*** Delete File: outputs/none\n"), Path, "outputs/none does not exist"),
        (inside("*** Delete File: outputs/link\n"), Path, "outputs/link is a link to outputs/a"),
        (inside("*** Delete File: outputs\n"), Path, "is a folder"),
        (inside("*** Update File: outputs/bin\n-x\n+y\n"), Tool, "is binary data, not text"),
        ("--- a/outputs/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n".into(), Tool, "lists 1 of its 2 lines"),
        ("--- a/outputs/a\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-three\n".into(), Tool, "it expects \"three\" at line 2"),
        (
            "diff --git a/outputs/a b/outputs/a\ndeleted file mode 100644\n".into(),
            Tool,
            "lists 0 of its 2 lines",
        ),
        (format!("--- outputs/a.orig\n+++ outputs/a\n{hunk}"), InvalidArgs, "use one name"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n".into(), InvalidArgs, "both created and deleted"),
        ("--- /dev/null\n+++ b/outputs/n\n@@ -1 +1 @@\n x\n+b\n".into(), InvalidArgs, "all its lines must start with `+`"),
        ("diff --git a/outputs/a b/outputs/a\nold mode 100644\nnew mode 100755\n".into(), InvalidArgs, "only changes permissions"),
        ("diff --git a/outputs/l b/outputs/l\nnew file mode 120000\n--- /dev/null\n+++ b/outputs/l\n@@ -0,0 +1 @@\n+/etc\n".into(), InvalidArgs, "changes a link"),
        ("diff --git a/outputs/a b/outputs/n\ncopy from outputs/a\ncopy to outputs/n\n".into(), InvalidArgs, "copies a file"),
        ("diff --git a/outputs/bin b/outputs/bin\nBinary files a/outputs/bin and b/outputs/bin differ\n".into(), InvalidArgs, "changes a binary file"),
        (format!("--- \"a/outputs\n+++ b/outputs/a\n{hunk}"), InvalidArgs, "is not quoted correctly"),
        (inside("*** Add File: skills/x.md\n+x\n"), Path, "cannot be written"),
        (inside("*** Add File: ../x\n+x\n"), Path, "contains `..`"),
    ] {
        let refused = bench.fails("apply_patch", patch(&text), code).await;
        assert!(refused.contains(expected), "{text}\n{refused}");
        assert_eq!(bench.preview("apply_patch", patch(&text)).await.unwrap_err().text, refused);
        assert_eq!(tree(bench.outside.path()), before, "{text}");
    }
}

#[tokio::test]
async fn failed_write_rolls_back_the_others() {
    let bench = Bench::new().await;
    let real = bench.put("outputs/a", "one\r\n");
    chmod(&real, 0o750);
    bench.put("outputs/gone", "x");
    let before = tree(bench.outside.path());
    // The patch creates a file first and then requires a folder with the same name.
    let text = "*** Begin Patch\n*** Update File: outputs/a\n-one\n+two\n*** Delete File: outputs/gone\n\
        *** Add File: outputs/deep/er/x\n+x\n*** Add File: outputs/y\n+y\n*** Add File: outputs/y/z\n+z\n*** End Patch";
    let refused = bench.fails("apply_patch", patch(text), ToolErrorCode::Path).await;
    assert!(refused.contains("outputs/y/z"), "{refused}");
    assert!(refused.contains("3 files rolled back, so nothing was changed"), "{refused}");
    assert_eq!(tree(bench.outside.path()), before);
    assert_eq!(mode(&real), 0o750);
}

#[tokio::test]
async fn patch_sizes_are_limited() {
    let bench = Bench::with(Project::None, limits(|limits| limits.write_bytes = 300)).await;
    bench.put("outputs/a", "x".repeat(400));
    bench.put("outputs/b", format!("{}\n", "y".repeat(250)));
    let (long, short) = ("x".repeat(400), "z".repeat(100));
    for (inner, code, expected) in [
        (format!("Add File: outputs/n\n+{long}"), ToolErrorCode::InvalidArgs, "exceeds"),
        ("Delete File: outputs/a".to_owned(), ToolErrorCode::Tool, "supports files up to"),
        (format!("Update File: outputs/b\n@@\n+{short}\n*** End of File"), ToolErrorCode::Tool, "would exceed"),
    ] {
        let text = format!("*** Begin Patch\n*** {inner}\n*** End Patch");
        let refused = bench.fails("apply_patch", patch(&text), code).await;
        assert!(refused.contains(expected), "{refused}");
    }
}

// --- Properties ---

/// Generates texts with few distinct lines, so that lines repeat. Some lines look like parts of a patch.
fn text() -> impl Strategy<Value = String> {
    let plain = ["", " ", "a", "b", "  a", "\ta", "a ", "{", "}", "中文"];
    let of_patches = ["-- a/x", "++ b/x", "- x", "@@ -1 +1 @@", "*** End Patch", "\\ x"];
    let line = prop::sample::select([&plain[..], &of_patches].concat());
    (proptest::collection::vec(line, 0..20), any::<bool>())
        .prop_map(|(lines, ends)| lines.join("\n") + if ends && !lines.is_empty() { "\n" } else { "" })
}

fn diff(before: &str, after: &str, radius: usize) -> String {
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff().context_radius(radius).header("a/outputs/f", "b/outputs/f").to_string()
}

#[test]
fn generated_diff_reproduces_the_new_text() {
    check_property(
        500,
        &(text(), text(), 0..5_usize, any::<bool>()),
        |runtime, bench, (before, after, radius, crlf)| {
            prop_assume!(before != after);
            let ends = |text: &str| if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
            bench.put("outputs/f", ends(&before));
            let diff = diff(&before, &after, radius);
            let output = runtime.block_on(bench.call("apply_patch", patch(&diff)));
            prop_assert_eq!(output.error, None, "{}\n{}", diff, output.text);
            // A file without a line end does not determine the kind of line ends.
            let expected = if before.contains('\n') { ends(&after) } else { after.clone() };
            prop_assert_eq!(String::from_utf8(bench.content("outputs/f")).unwrap(), expected, "{}", diff);
            Ok(())
        },
    );
}

#[test]
fn hunks_apply_despite_inserted_lines_above() {
    let lines = || proptest::collection::vec(0..4_u8, 1..25);
    check_property(200, &(lines(), lines(), 0..40_usize), |runtime, bench, (before, after, above)| {
        // All lines are distinct, so only one position matches.
        let numbered = |lines: &[u8]| -> String {
            lines.iter().enumerate().map(|(number, kind)| format!("line {number} of kind {kind}\n")).collect()
        };
        let (before, after) = (numbered(&before), numbered(&after));
        prop_assume!(before != after);
        let above: String = (0..above).map(|number| format!("above {number}\n")).collect();
        bench.put("outputs/f", format!("{above}{before}"));
        let output = runtime.block_on(bench.call("apply_patch", patch(&diff(&before, &after, 3))));
        prop_assert_eq!(output.error, None, "{}", output.text);
        prop_assert_eq!(String::from_utf8(bench.content("outputs/f")).unwrap(), format!("{above}{after}"));
        Ok(())
    });
}

#[test]
fn failed_patch_changes_nothing() {
    let damage = (any::<prop::sample::Index>(), 0..4_u8, any::<char>());
    check_property(
        400,
        &(text(), text(), proptest::collection::vec(damage, 1..4)),
        |runtime, bench, (before, after, damages)| {
            let valid = format!(
                "--- a/outputs/first\n+++ b/outputs/first\n@@ -1 +1 @@\n-one\n+two\n--- /dev/null\n+++ b/outputs/new/n\n\
             @@ -0,0 +1 @@\n+n\n{}",
                diff(&before, &after, 2)
            );
            let mut lines: Vec<String> = valid.lines().map(str::to_owned).collect();
            for (at, kind, character) in damages {
                let at = at.index(lines.len());
                match kind {
                    0 => drop(lines.remove(at)),
                    1 => lines.insert(at, lines[at].clone()),
                    2 => lines[at].insert(0, character),
                    _ => lines[at].push(character),
                }
            }
            let _ = fs::remove_dir_all(bench.real("outputs"));
            bench.put("outputs/first", "one\n");
            bench.put("outputs/f", &before);
            let tree_before = tree(bench.outside.path());
            let output = runtime.block_on(bench.call("apply_patch", patch(&lines.join("\n"))));
            if output.error.is_some() {
                prop_assert_eq!(tree(bench.outside.path()), tree_before, "{}", output.text);
                prop_assert!(output.files.is_empty());
            }
            Ok(())
        },
    );
}

#[test]
fn any_text_is_applied_or_rejected() {
    let piece = prop_oneof![
        Just("*** Begin Patch\n".to_owned()),
        Just("*** Update File: outputs/f\n".to_owned()),
        Just("*** End Patch\n".to_owned()),
        Just("--- a/outputs/f\n+++ b/outputs/f\n".to_owned()),
        Just("diff --git a/outputs/f b/outputs/f\n".to_owned()),
        Just("@@ -1,9 +1,99999999999999999999 @@\n".to_owned()),
        Just("@@ -18446744073709551615,2 +1,1 @@\n".to_owned()),
        Just("@@ x\n".to_owned()),
        Just("\\ No newline at end of file\n".to_owned()),
        "[-+ ][ab]{0,2}\n",
        any::<String>(),
    ];
    check_property(300, &proptest::collection::vec(piece, 0..12), |runtime, bench, pieces| {
        bench.put("outputs/f", "a\nb\na\n");
        let output = runtime.block_on(bench.call("apply_patch", patch(&pieces.concat())));
        prop_assert!(!output.text.contains("internal error"), "{}", output.text);
        if output.error.is_some() {
            prop_assert_eq!(bench.content("outputs/f"), b"a\nb\na\n");
        }
        Ok(())
    });
}

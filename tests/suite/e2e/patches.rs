//! Patches in real turns: both forms are supported, a patch is applied completely or not at all, and the error helps
//! the model to correct it.

use super::*;

const CODE: &str = "fn a() {\n    let x = 1;\n    let y = 2;\n    x + y\n}\n\nfn b() {\n    3\n}\n";
const LIST: &[u8] = b"one\r\ntwo \xff\r\nthree\r\nfour\r\nfive";

fn patch(text: impl Into<String>) -> Call {
    ("apply_patch", json!({ "patch": text.into() }))
}

fn begin_patch(inner: &str) -> Call {
    patch(format!("*** Begin Patch\n{inner}*** End Patch\n"))
}

/// Starts a world whose project has a few files.
async fn world() -> World {
    let world = World::start().await;
    world.write("project/src/code.rs", CODE);
    world.write("project/list.txt", LIST);
    world.write("project/gone.txt", "old\nlines\n");
    world
}

/// Returns the files of the project.
fn files(world: &World) -> BTreeMap<String, Vec<u8>> {
    let project = world.path().join("project");
    let mut found = BTreeMap::new();
    let mut left = vec![project.clone()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(&project).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

#[tokio::test]
async fn both_patch_forms_change_create_move_and_delete() {
    let world = world().await;
    let unified = "diff --git a/project/src/code.rs b/project/src/code.rs\n--- a/project/src/code.rs\n\
        +++ b/project/src/code.rs\n@@ -1,4 +1,4 @@\n fn a() {\n     let x = 1;\n-    let y = 2;\n+    let y = 7;\n     x + y\n\
        @@ -7,3 +7,3 @@\n fn b() {\n-    3\n+    4\n }\n\
        diff --git a/project/new/n.txt b/project/new/n.txt\nnew file mode 100644\n--- /dev/null\n\
        +++ b/project/new/n.txt\n@@ -0,0 +1,2 @@\n+first\n+second\n\\ No newline at end of file\n\
        diff --git a/project/gone.txt b/project/gone.txt\ndeleted file mode 100644\n--- a/project/gone.txt\n\
        +++ /dev/null\n@@ -1,2 +0,0 @@\n-old\n-lines\n";
    let envelope = "*** Update File: /project/list.txt\n*** Move to: /project/moved.txt\n@@\n-three\n+3\n+and a half\n four\n\
        *** Update File: /project/src/code.rs\n@@ fn b() {\n-    4\n+    5\n*** Add File: /project/made.txt\n+made\n\
        *** Delete File: /project/new/n.txt\n";
    let results = world.call_all_in_project(vec![patch(unified), begin_patch(envelope)]).await;
    assert!(results.iter().all(|result| result.starts_with("Applied the patch: ")), "{results:#?}");
    let expected = [
        ("made.txt", b"made\n".to_vec()),
        ("moved.txt", b"one\r\ntwo \xff\r\n3\r\nand a half\r\nfour\r\nfive".to_vec()),
        ("src/code.rs", CODE.replace("y = 2", "y = 7").replace("    3", "    5").into_bytes()),
    ];
    assert_eq!(files(&world), expected.map(|(name, content)| (name.to_owned(), content)).into());
}

#[tokio::test]
async fn failing_hunk_shows_the_actual_lines_and_changes_nothing() {
    let world = world().await;
    let before = files(&world);
    let fits = "--- a/project/list.txt\n+++ b/project/list.txt\n@@ -3,2 +3,2 @@\n three\n-four\n+4\n";
    let code = "--- a/project/src/code.rs\n+++ b/project/src/code.rs\n";
    let made = "*** Add File: /project/made.txt\n+made\n*** Delete File: /project/gone.txt\n";
    // The previous file and the first hunk would apply, but nothing is changed.
    let cases = [
        (
            patch(format!(
                "{fits}{code}@@ -1,2 +1,2 @@\n-fn a() {{\n+fn z() {{\n     let x = 1;\n@@ -7,3 +7,3 @@\n fn b() {{\n-    4\n+    5\n }}\n"
            )),
            vec![
                "/project/src/code.rs: hunk 2 of 2 (@@ -7,3 +7,3 @@) does not match: it expects \"    4\" at line 8, but found \
                 \"    3\". The file from line 7:\nfn b() {\n    3\n}",
            ],
        ),
        (
            begin_patch(&format!(
                "{made}*** Update File: /project/src/code.rs\n@@ fn a() {{\n     let x = 1;\n-    let y = 5;\n+    let y = 6;\n"
            )),
            vec![
                "/project/src/code.rs: hunk 1 of 1 (@@ fn a() {) does not match: it expects \"    let y = 5;\" at line 3, but found \
                 \"    let y = 2;\".",
                "The file from line 2:\n    let x = 1;\n    let y = 2;",
            ],
        ),
        (
            patch(format!("{fits}{code}@@ -1,1 +1,1 @@\n-nothing of the kind\n+x\n")),
            vec!["hunk 1 of 1", "neither \"nothing of the kind\" nor similar text is in the file"],
        ),
        (
            patch(format!("{fits}{code}@@\n-}}\n+}};\n")),
            vec!["hunk 1 of 1 (@@) matches 2 times (lines 5, 9); add surrounding lines"],
        ),
        (
            patch(format!("{fits}--- a/project/none.txt\n+++ b/project/none.txt\n@@ -1 +1 @@\n-a\n+b\n")),
            vec!["/project/none.txt does not exist"],
        ),
        (begin_patch(&format!("{made}*** Delete File: /project/none.txt\n")), vec!["/project/none.txt does not exist"]),
        (begin_patch(&format!("{made}*** Add File: /project/list.txt\n+x\n")), vec!["which already exists"]),
        // The patch also needs the new file's path as a folder, which fails only while writing.
        (
            begin_patch(&format!("{made}*** Add File: /project/made.txt/deep.txt\n+x\n")),
            vec!["1 file rolled back, so nothing was changed"],
        ),
        (patch("*** Begin Patch\n*** Delete File: /project/gone.txt\n"), vec!["no `*** End Patch`"]),
    ];
    let (calls, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let results = world.call_all_in_project(calls).await;
    for (result, expected) in results.iter().zip(&expected) {
        assert!(
            result.starts_with("E_") && expected.iter().all(|text| result.contains(text)),
            "{expected:#?}\n{result}"
        );
    }
    for result in &results[..4] {
        assert!(result.starts_with("E_TOOL: the patch does not apply; nothing was changed.\n"), "{result}");
    }
    assert_eq!(files(&world), before);
}

#[tokio::test]
async fn only_white_space_may_differ_in_a_hunk() {
    let world = World::start().await;
    let old = "alpha  \n\tbeta one\nGamma(1, 2)\n\n\"delta\"\nend";
    // Hunks as models write them for this text, and the expected content, or `None` if the patch is rejected.
    let cases: [(&str, Option<&str>); 15] = [
        // The white space is the same.
        (" alpha  \n-\tbeta one\n+\tBETA\n Gamma(1, 2)\n", Some("alpha  \n\tBETA\nGamma(1, 2)\n\n\"delta\"\nend")),
        // The white space differs at line ends or starts, in context lines or in the removed line.
        (" alpha\n-\tbeta one\n+\tBETA\n Gamma(1, 2)\n", Some("alpha  \n\tBETA\nGamma(1, 2)\n\n\"delta\"\nend")),
        (" alpha\n-\tbeta one  \n+\tBETA\n Gamma(1, 2) \n", Some("alpha  \n\tBETA\nGamma(1, 2)\n\n\"delta\"\nend")),
        (" alpha\n-    beta one\n+    BETA\n Gamma(1, 2)\n", Some("alpha  \n\tBETA\nGamma(1, 2)\n\n\"delta\"\nend")),
        ("-Gamma(1, 2)\n+Gamma(3)\n \t\n \"delta\"\n", Some("alpha  \n\tbeta one\nGamma(3)\n\n\"delta\"\nend")),
        (" \"delta\"\n-end\n+END\n", Some("alpha  \n\tbeta one\nGamma(1, 2)\n\n\"delta\"\nEND")),
        // The hunk differs in other ways.
        (" alpha\n-\tbeta two\n+\tBETA\n", None),
        (" alpha\n-\tbeta One\n+\tBETA\n", None),
        (" alpha\n-\tbetaone\n+\tBETA\n", None),
        (" Alpha\n-\tbeta one\n+\tBETA\n", None),
        ("-Gamma(1; 2)\n+Gamma(3)\n", None),
        ("-\u{201c}delta\u{201d}\n+x\n", None),
        ("-Gamma(1,\u{a0}2)\n+Gamma(3)\n", None),
        (" Gamma(1, 2)\n-\tbeta one\n+\tBETA\n", None),
        (" alpha\n-Gamma(1, 2)\n+\tBETA\n", None),
    ];
    let mut calls = Vec::new();
    for (number, (hunk, _)) in cases.iter().enumerate() {
        for form in ["unified", "envelope"] {
            let path = format!("/project/{number}-{form}.txt");
            world.write(&path[1..], old);
            calls.push(match form {
                "unified" => patch(format!("--- a{path}\n+++ b{path}\n@@\n{hunk}")),
                _ => begin_patch(&format!("*** Update File: {path}\n@@\n{hunk}")),
            });
        }
    }
    let results = world.call_all_in_project(calls).await;
    let files = files(&world);
    for (number, (hunk, expected)) in cases.iter().enumerate() {
        for (form, result) in ["unified", "envelope"].into_iter().zip(&results[2 * number..]) {
            let content = String::from_utf8(files[&format!("{number}-{form}.txt")].clone()).unwrap();
            assert_eq!(content, expected.unwrap_or(old), "{form} {hunk:?}: {result}");
            assert_eq!(
                result.starts_with("E_TOOL: the patch does not apply"),
                expected.is_none(),
                "{form} {hunk:?}: {result}"
            );
        }
    }
}

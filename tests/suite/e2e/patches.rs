//! Patches in real turns: both forms are supported, every other byte is unchanged, and a hunk may differ from the file
//! only in white space.

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

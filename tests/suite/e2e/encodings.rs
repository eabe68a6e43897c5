//! Edits of real files through a real turn: every byte outside of the edit stays, and what an encoding lacks is refused.

use std::fs;

use agentd_testkit::model_server::Reply;
use serde_json::{Value, json};

use super::{World, tool_texts};

fn utf16(text: &str, big: bool) -> Vec<u8> {
    let bytes = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
    [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(bytes).collect()
}

/// A file as it is and as it is to be after "old" has become what is written in that encoding.
struct Case {
    name: &'static str,
    before: Vec<u8>,
    new: &'static str,
    after: Vec<u8>,
}

fn cases() -> Vec<Case> {
    // Enough of a language that its encoding can be told from others.
    let gbk = b"\xd6\xd0\xce\xc4\xb1\xe0\xc2\xeb\xb2\xe2\xca\xd4\xa3\xac\xd5\xe2\xca\xc7\xd2\xbb\xb8\xf6\xce\xc4\xbc\xfe\xa1\xa3\r\n";
    let sjis = b"\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x83\x65\x83\x4c\x83\x58\x83\x67\x82\xc5\x82\xb7\x81\x42\n";
    let latin = b"Stra\xdfe, Gr\xfc\xdfe, \xc4rger und \xd6fen; caf\xe9, gar\xe7on, na\xefve\n";
    let euc = b"\xc7\xd1\xb1\xb9\xbe\xee \xc6\xc4\xc0\xcf\xc0\xd4\xb4\xcf\xb4\xd9. \xbe\xc8\xb3\xe7\xc7\xcf\xbc\xbc\xbf\xe4.\n";
    let around = |before: &[u8], word: &[u8], after: &[u8]| [before, word, after].concat();
    let mut cases = vec![
        Case {
            name: "bom.txt",
            before: "\u{feff}old \u{e4}\r\nmixed\n\rend".into(),
            new: "n\u{fc}",
            after: "\u{feff}n\u{fc} \u{e4}\r\nmixed\n\rend".into(),
        },
        Case {
            name: "le.txt",
            before: utf16("old \u{e4}\r\nx\n", false),
            new: "n\u{4e2d}",
            after: utf16("n\u{4e2d} \u{e4}\r\nx\n", false),
        },
        Case { name: "be.txt", before: utf16("old\r\n", true), new: "new", after: utf16("new\r\n", true) },
    ];
    for (name, text, new, written) in [
        ("gbk.txt", &gbk[..], "\u{65b0}", &b"\xd0\xc2"[..]),
        ("sjis.txt", &sjis[..], "\u{65b0}", b"\x90\x56"),
        ("latin.txt", &latin[..], "n\u{fc}", b"n\xfc"),
        ("euc.txt", &euc[..], "\u{c0c8}", b"\xbb\xf5"),
    ] {
        cases.push(Case { name, before: around(text, b"old", text), new, after: around(text, written, text) });
    }
    cases
}

/// What a call of a tool tells the model.
async fn call(world: &World, tool: &'static str, arguments: Value) -> String {
    world.model.respond_with(move |request| match request.last_role() {
        "tool" => Reply::text("over"),
        _ => Reply::tool_call(tool, arguments.clone()),
    });
    let project = format!("{}:rw", world.daemon.path().join("project").display());
    world.daemon.agentctl(["run", "Edit it", "-C", &project, "--on-interrupt", "approve"]).await.exits(0);
    tool_texts(world.model.requests().last().unwrap())
}

#[tokio::test]
async fn edits_are_exact_in_every_encoding() {
    let world = World::start().await;
    for Case { name, before, new, after } in cases() {
        let file = world.daemon.write(&format!("project/{name}"), &before);
        let path = format!("/project/{name}");
        let told = call(&world, "edit_file", json!({"path": path, "old_string": "old", "new_string": new})).await;
        assert_eq!(fs::read(&file).unwrap(), after, "{name}: {told}");
        fs::write(&file, &before).unwrap();
        if name.ends_with("latin.txt") || name.ends_with("sjis.txt") {
            let told =
                call(&world, "edit_file", json!({"path": path, "old_string": "old", "new_string": "\u{1f980}"})).await;
            assert!(told.contains("nothing was changed") && fs::read(&file).unwrap() == before, "{name}: {told}");
        }
    }
}

#[tokio::test]
async fn patches_are_exact_in_every_encoding() {
    let world = World::start().await;
    for (name, before, after) in [
        ("le.txt", utf16("one\r\nold \u{e4}\r\nlast", false), utf16("one\r\nnew \u{4e2d}\r\nlast", false)),
        ("bom.txt", "\u{feff}one\nold \u{e4}\r\nlast".into(), "\u{feff}one\nnew \u{4e2d}\r\nlast".into()),
    ] {
        let file = world.daemon.write(&format!("project/{name}"), before);
        let patch = format!(
            "--- a/project/{name}\n+++ b/project/{name}\n@@ -1,3 +1,3 @@\n one\n-old \u{e4}\n+new \u{4e2d}\n last\n"
        );
        let patch = patch.replace("a/project", "/project").replace("b/project", "/project");
        let told = call(&world, "apply_patch", json!({ "patch": patch })).await;
        assert_eq!(fs::read(&file).unwrap(), after, "{name}: {told}");
    }
}

//! Edits of real files in real turns. In every encoding, every byte outside the edit is unchanged regardless of the
//! line endings, and a character that the encoding does not support is rejected.

use super::*;

/// An encoding with sample text. The bytes were produced by another program.
#[derive(Clone)]
struct Script {
    name: &'static str,
    /// Byte order mark before the text.
    mark: Vec<u8>,
    /// Line that identifies the encoding, and its bytes.
    line: &'static str,
    bytes: Vec<u8>,
    /// Replacement for `old`, and its bytes.
    new: (&'static str, Vec<u8>),
    /// Character that the encoding does not support, and the encoding's name in the error message.
    lacks: Option<(char, &'static str)>,
    /// Encodes an ASCII text.
    ascii: fn(&str) -> Vec<u8>,
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn utf16le(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn utf16be(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn scripts() -> Vec<Script> {
    const MIXED: &str = "stra\u{df}e, caf\u{e9}, \u{4e2d}\u{6587}, \u{1f980}";
    let plain = Script {
        name: "utf-8",
        mark: Vec::new(),
        line: MIXED,
        bytes: bytes(MIXED),
        new: ("n\u{fc} \u{1f980}", bytes("n\u{fc} \u{1f980}")),
        lacks: None,
        ascii: bytes,
    };
    let wide = |name, mark: &[u8], encode: fn(&str) -> Vec<u8>| Script {
        name,
        mark: mark.to_vec(),
        bytes: encode(MIXED),
        new: (plain.new.0, encode(plain.new.0)),
        ascii: encode,
        ..plain.clone()
    };
    vec![
        plain.clone(),
        wide("utf-8-bom", b"\xef\xbb\xbf", bytes),
        wide("utf-16le", b"\xff\xfe", utf16le),
        wide("utf-16be", b"\xfe\xff", utf16be),
        Script {
            name: "gbk",
            line: "请在修改之前先阅读说明，然后再提交。",
            bytes: b"\xc7\xeb\xd4\xda\xd0\xde\xb8\xc4\xd6\xae\xc7\xb0\xcf\xc8\xd4\xc4\xb6\xc1\xcb\xb5\xc3\xf7\xa3\xac\xc8\xbb\xba\xf3\xd4\xd9\xcc\xe1\xbd\xbb\xa1\xa3".to_vec(),
            new: ("新", b"\xd0\xc2".to_vec()),
            lacks: Some(('한', "GBK")),
            ..plain.clone()
        },
        Script {
            name: "big5",
            line: "請在修改之前先閱讀說明，然後再提交。",
            bytes: b"\xbd\xd0\xa6b\xad\xd7\xa7\xef\xa4\xa7\xabe\xa5\xfd\xbe\\\xc5\xaa\xbb\xa1\xa9\xfa\xa1A\xb5M\xab\xe1\xa6A\xb4\xa3\xa5\xe6\xa1C".to_vec(),
            new: ("新", b"\xb7s".to_vec()),
            lacks: Some(('한', "Big5")),
            ..plain.clone()
        },
        Script {
            name: "shift-jis",
            line: "変更する前に、まず説明書を読んでください。",
            bytes: b"\x95\xcf\x8dX\x82\xb7\x82\xe9\x91O\x82\xc9\x81A\x82\xdc\x82\xb8\x90\xe0\x96\xbe\x8f\x91\x82\xf0\x93\xc7\x82\xf1\x82\xc5\x82\xad\x82\xbe\x82\xb3\x82\xa2\x81B".to_vec(),
            new: ("新", b"\x90V".to_vec()),
            lacks: Some(('한', "Shift_JIS")),
            ..plain.clone()
        },
        Script {
            name: "euc-jp",
            line: "変更する前に、まず説明書を読んでください。",
            bytes: b"\xca\xd1\xb9\xb9\xa4\xb9\xa4\xeb\xc1\xb0\xa4\xcb\xa1\xa2\xa4\xde\xa4\xba\xc0\xe2\xcc\xc0\xbd\xf1\xa4\xf2\xc6\xc9\xa4\xf3\xa4\xc7\xa4\xaf\xa4\xc0\xa4\xb5\xa4\xa4\xa1\xa3".to_vec(),
            new: ("新", b"\xbf\xb7".to_vec()),
            lacks: Some(('한', "EUC-JP")),
            ..plain.clone()
        },
        Script {
            name: "euc-kr",
            line: "변경하기 전에 먼저 설명서를 읽어 주십시오.",
            bytes: b"\xba\xaf\xb0\xe6\xc7\xcf\xb1\xe2 \xc0\xfc\xbf\xa1 \xb8\xd5\xc0\xfa \xbc\xb3\xb8\xed\xbc\xad\xb8\xa6 \xc0\xd0\xbe\xee \xc1\xd6\xbd\xca\xbd\xc3\xbf\xc0.".to_vec(),
            new: ("새", b"\xbb\xf5".to_vec()),
            lacks: Some(('é', "EUC-KR")),
            ..plain.clone()
        },
        Script {
            name: "latin-1",
            line: "Veuillez lire les consignes détaillées, à côté.",
            bytes: b"Veuillez lire les consignes d\xe9taill\xe9es, \xe0 c\xf4t\xe9.".to_vec(),
            new: ("ü", b"\xfc".to_vec()),
            lacks: Some(('中', "windows-1252")),
            ..plain.clone()
        },
    ]
}

/// Line endings: uniform in both forms, mixed, and missing on the last line.
const ENDS: [(&str, [&str; 3]); 4] = [
    ("lf", ["\n", "\n", "\n"]),
    ("crlf", ["\r\n", "\r\n", "\r\n"]),
    ("mixed", ["\r\n", "\n", "\r\n"]),
    ("open", ["\n", "\r\n", ""]),
];

impl Script {
    /// Returns a file with three lines and this text in the middle of the second line.
    fn file(&self, word: &[u8], ends: [&str; 3]) -> Vec<u8> {
        let end = |number: usize| (self.ascii)(ends[number]);
        let (line, blank) = (&self.bytes, (self.ascii)(" "));
        let parts: [&[u8]; 11] = [&self.mark, line, &end(0), line, &blank, word, &blank, line, &end(1), line, &end(2)];
        parts.concat()
    }

    fn lines(&self, word: &str) -> (&str, String) {
        (self.line, format!("{0} {word} {0}", self.line))
    }

    /// Returns the edit in the form that each tool expects.
    fn edits(&self, path: &str, new: &str) -> [(&'static str, Value); 3] {
        let ((line, old), (_, new_line)) = (self.lines("old"), self.lines(new));
        let hunk = format!(" {line}\n-{old}\n+{new_line}\n {line}\n");
        [
            ("edit_file", json!({"path": path, "old_string": "old", "new_string": new})),
            ("apply_patch", json!({"patch": format!("--- a{path}\n+++ b{path}\n@@ -1,3 +1,3 @@\n{hunk}")})),
            (
                "apply_patch",
                json!({"patch": format!("*** Begin Patch\n*** Update File: {path}\n@@\n{hunk}*** End Patch\n")}),
            ),
        ]
    }
}

const FORMS: [&str; 3] = ["edit", "unified", "envelope"];

#[tokio::test]
async fn edits_and_patches_are_exact_in_every_encoding() {
    let world = World::start().await;
    let (mut files, mut calls) = (Vec::new(), Vec::new());
    for script in scripts() {
        for (end, ends) in ENDS {
            for (number, form) in FORMS.into_iter().enumerate() {
                let path = format!("/project/{}-{end}-{form}.txt", script.name);
                let real = world.write(&path[1..], script.file(&(script.ascii)("old"), ends));
                calls.push(script.edits(&path, script.new.0)[number].clone());
                files.push((real, script.file(&script.new.1, ends)));
            }
        }
    }
    let results = world.call_all_in_project(calls).await;
    for ((file, expected), result) in files.iter().zip(&results) {
        assert!(fs::read(file).unwrap() == *expected, "{}: {result}", file.display());
    }
}

#[tokio::test]
async fn character_missing_in_the_encoding_is_refused_by_name() {
    let world = World::start().await;
    let (mut files, mut calls) = (Vec::new(), Vec::new());
    for script in scripts() {
        let Some((lacking, label)) = script.lacks else { continue };
        let before = script.file(b"old", ENDS[2].1);
        for (number, form) in FORMS.into_iter().enumerate() {
            let path = format!("/project/{}-{form}.txt", script.name);
            let real = world.write(&path[1..], &before);
            calls.push(script.edits(&path, &format!("new {lacking}"))[number].clone());
            files.push((
                real,
                before.clone(),
                format!("is {label}, which has no '{lacking}' (U+{:04X})", u32::from(lacking)),
            ));
        }
    }
    assert!(files.len() >= 15);
    let results = world.call_all_in_project(calls).await;
    for ((file, before, expected), result) in files.iter().zip(&results) {
        assert!(result.starts_with("E_TOOL: ") && result.contains(expected), "{}: {result}", file.display());
        assert!(fs::read(file).unwrap() == *before, "{}: {result}", file.display());
    }
}

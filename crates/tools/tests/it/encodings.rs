//! Files in all encodings are read, edited and rewritten, and all bytes outside the edit are preserved.

use encoding_rs::Encoding;
use proptest::prelude::*;

use super::*;

/// Encoding with lines that are typical for it.
struct Script {
    /// Label of the encoding, with `+bom` for a byte order mark.
    name: &'static str,
    /// Name of the encoding in the output of `read_file`, if any.
    label: Option<&'static str>,
    lines: [&'static str; 5],
}

const CHINESE: [&str; 5] = [
    "你好，世界。今天天气很好，我们一起去公园散步吧。",
    "这个文件用来说明项目的结构和主要的设计决定。",
    "请在修改之前先阅读说明，然后再提交你的更改。",
    "版本 2 修正了几个错误，并且加快了启动速度。",
    "函数返回处理过的行数；如果失败，返回负数。",
];
const TAIWAN: [&str; 5] = [
    "您好，世界。今天天氣很好，我們一起去公園散步吧。",
    "這個檔案用來說明專案的結構和主要的設計決定。",
    "請在修改之前先閱讀說明，然後再提交您的變更。",
    "版本 2 修正了幾個錯誤，並且加快了啟動速度。",
    "函式傳回處理過的行數；如果失敗，傳回負數。",
];
const JAPANESE: [&str; 5] = [
    "こんにちは、世界。今日はとても良い天気です。",
    "このファイルはプロジェクトの構成を説明します。",
    "変更する前に、まず説明書を読んでください。",
    "バージョン 2 ではいくつかの誤りを直しました。",
    "関数は処理した行の数を返します。表示と予定。",
];
const KOREAN: [&str; 5] = [
    "안녕하세요, 세계. 오늘은 날씨가 아주 좋습니다.",
    "이 파일은 프로젝트의 구조를 설명합니다.",
    "변경하기 전에 먼저 설명서를 읽어 주십시오.",
    "버전 2에서는 몇 가지 오류를 고쳤습니다.",
    "함수는 처리한 줄의 수를 돌려줍니다.",
];
const FRENCH: [&str; 5] = [
    "Bonjour à tous, voilà l'été déjà passé à côté.",
    "Ce fichier décrit la structure générale du projet.",
    "Veuillez lire les consignes détaillées avant de modifier.",
    "La version 2 a corrigé plusieurs défauts très gênants.",
    "La fonction renvoie le nombre de lignes traitées.",
];

const SCRIPTS: [Script; 13] = [
    Script { name: "utf-8", label: None, lines: CHINESE },
    Script { name: "utf-8+bom", label: None, lines: FRENCH },
    Script { name: "utf-16le+bom", label: Some("UTF-16LE"), lines: CHINESE },
    Script { name: "utf-16be+bom", label: Some("UTF-16BE"), lines: JAPANESE },
    Script { name: "utf-16le", label: Some("UTF-16LE"), lines: FRENCH },
    Script { name: "utf-16be", label: Some("UTF-16BE"), lines: KOREAN },
    Script { name: "gbk", label: Some("GBK"), lines: CHINESE },
    Script { name: "big5", label: Some("Big5"), lines: TAIWAN },
    Script { name: "shift_jis", label: Some("Shift_JIS"), lines: JAPANESE },
    Script { name: "euc-jp", label: Some("EUC-JP"), lines: JAPANESE },
    Script { name: "euc-kr", label: Some("EUC-KR"), lines: KOREAN },
    Script { name: "windows-1252", label: Some("windows-1252"), lines: FRENCH },
    Script { name: "iso-8859-1", label: Some("windows-1252"), lines: FRENCH },
];

impl Script {
    fn encode(&self, text: &str) -> Vec<u8> {
        match self.name.trim_end_matches("+bom") {
            "utf-16le" => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "utf-16be" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            label => {
                let (bytes, _, lossy) = Encoding::for_label(label.as_bytes()).unwrap().encode(text);
                assert!(!lossy, "{label} lacks a part of {text}");
                bytes.into_owned()
            }
        }
    }

    fn mark(&self) -> Vec<u8> {
        if self.name.ends_with("+bom") { self.encode("\u{feff}") } else { Vec::new() }
    }
}

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "outputs/f", "old_string": old, "new_string": new})
}

const ENDS: [&str; 3] = ["\n", "\r\n", "\r"];

/// File with several lines, one of which is replaced.
#[derive(Debug, Clone)]
struct Case {
    script: usize,
    lines: Vec<usize>,
    /// Line ends: all the same, or a mix of `\n` and `\r\n`.
    ends: Vec<usize>,
    last_ends: bool,
    at: usize,
    new: Vec<usize>,
}

fn case() -> impl Strategy<Value = Case> {
    let lines = proptest::collection::vec(0..5_usize, 4..12);
    let alike = (0..3_usize).prop_map(|end| vec![end; 12]);
    let ends = prop_oneof![alike, proptest::collection::vec(0..2_usize, 12)];
    let new = proptest::collection::vec(0..5_usize, 0..4);
    (0..SCRIPTS.len(), lines, ends, any::<bool>(), any::<prop::sample::Index>(), new).prop_map(
        |(script, lines, ends, last_ends, at, new)| {
            let at = at.index(lines.len());
            Case { script, lines, ends, last_ends, at, new }
        },
    )
}

#[test]
fn edit_changes_only_its_own_bytes() {
    check_property(400, &case(), |runtime, bench, case| {
        let script = &SCRIPTS[case.script];
        let end = |line: usize| ENDS[case.ends[line]];
        let old = format!("<<{}>>", script.lines[case.lines[case.at]]);
        let new: Vec<&str> = case.new.iter().map(|line| script.lines[*line]).collect();
        let (mut before, mut after) = (script.mark(), Vec::new());
        for (number, line) in case.lines.iter().enumerate() {
            if number == case.at {
                after = before.clone();
                before.extend(script.encode(&old));
                // Line ends in the new text are copied from the line end after the edit.
                let near = if number + 1 < case.lines.len() || case.last_ends { end(number) } else { end(number - 1) };
                after.extend(script.encode(&new.join(near)));
            } else {
                let bytes = script.encode(script.lines[*line]);
                before.extend(&bytes);
                after.extend(&bytes);
            }
            if number + 1 < case.lines.len() || case.last_ends {
                let bytes = script.encode(end(number));
                before.extend(&bytes);
                after.extend(&bytes);
            }
        }
        bench.put("outputs/f", &before);
        let previewed = runtime.block_on(bench.preview("edit_file", edit(&old, &new.join("\n"))));
        let shown = previewed.map_err(|output| TestCaseError::fail(output.text))?.unwrap();
        prop_assert!(shown.contains(&format!("-{old}\n")), "{}: the diff shows text: {shown}", script.name);
        let output = runtime.block_on(bench.call("edit_file", edit(&old, &new.join("\n"))));
        prop_assert_eq!(output.error, None, "{}: {}", script.name, output.text);
        prop_assert_eq!(bench.content("outputs/f"), after, "{}", script.name);
        Ok(())
    });
}

#[test]
fn edit_of_any_bytes_is_exact_or_rejected() {
    let bytes = || {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            proptest::collection::vec(prop_oneof![0x20..0x7f_u8, 0x80..=0xff_u8, Just(b'\n'), Just(b'\r')], 0..60),
            proptest::collection::vec(0x81..=0xfe_u8, 0..30),
        ]
    };
    let new = prop_oneof![Just("plain"), Just("two\nlines"), Just("müde 中文 日本"), Just("")];
    let glue = prop_oneof![Just(""), Just("\n"), Just("\r\n"), Just(" ")];
    check_property(600, &(bytes(), bytes(), new, glue), |runtime, bench, (head, tail, new, glue)| {
        let before = [&head, glue.as_bytes(), b"MARKED", glue.as_bytes(), &tail].concat();
        bench.put("outputs/f", &before);
        let output = runtime.block_on(bench.call("edit_file", edit("MARKED", new)));
        let after = bench.content("outputs/f");
        if output.error.is_some() {
            prop_assert_eq!(after, before, "{}", output.text);
        } else {
            prop_assert!(after.starts_with(&head), "{:?}", after);
            prop_assert!(after.ends_with(&tail), "{:?}", after);
            prop_assert!(after.len() <= before.len() + 40);
        }
        Ok(())
    });
}

/// Text in the first half of a file can be edited, and damaged bytes in the second half are preserved.
#[tokio::test]
async fn edit_preserves_invalid_bytes_elsewhere() {
    let bench = Bench::new().await;
    for (before, old, new, after) in [
        (
            &b"\xe4\xb8\xad\xe6\x96\x87 \xe4\xbd\xa0\xe4\xbd\xa0 one\n\xff\n"[..],
            "中文",
            "文",
            &b"\xe6\x96\x87 \xe4\xbd\xa0\xe4\xbd\xa0 one\n\xff\n"[..],
        ),
        (b"caf\xe9 \x81\x8d noir\n", "noir", "fort", b"caf\xe9 \x81\x8d fort\n"),
        (b"\xff\xfea\0\0\xd8b\0", "b", "c", b"\xff\xfea\0\0\xd8c\0"),
        (b"\xff\xfea\0b\0c", "a", "é", b"\xff\xfe\xe9\0b\0c"),
        (b"\xef\xbb\xbfone\xff\ntwo", "two", "中", b"\xef\xbb\xbfone\xff\n\xe4\xb8\xad"),
    ] {
        bench.put("outputs/f", before);
        bench.ok("edit_file", edit(old, new)).await;
        assert_eq!(bench.content("outputs/f"), after);
    }
}

#[tokio::test]
async fn uncertain_encoding_accepts_ascii_edits_only() {
    let bench = Bench::new().await;
    for (before, old, new, expected) in [
        // A single letter does not identify the encoding.
        (&b"na\xefve x\n"[..], "x", "ü", "the encoding of outputs/f is uncertain"),
        // The second byte of a character may look like a backslash.
        (b"\x95\\ \x81 a\n", "\\", "/", "the encoding of outputs/f is uncertain"),
        (b"\x1b$B$3$s\x1b(B x\n", "x", "y", "is ISO-2022-JP, where an edit could alter the text after"),
        (b"ab\xff\xfe\xff\xfe c", "ab\u{fffd}", "b\u{fffd}c", ""),
    ] {
        bench.put("outputs/f", before);
        let text = bench.fails("edit_file", edit(old, new), ToolErrorCode::Tool).await;
        assert!(text.contains(expected), "{text}");
        assert_eq!(bench.content("outputs/f"), before);
    }
    bench.put("outputs/f", b"na\xefve x\n");
    bench.ok("edit_file", edit("x", "y")).await;
    assert_eq!(bench.content("outputs/f"), b"na\xefve y\n");
}

#[tokio::test]
async fn rewrite_keeps_encoding_bom_and_line_endings() {
    let bench = Bench::new().await;
    for script in &SCRIPTS {
        for end in ENDS {
            let encoded = |lines: &[&str]| {
                let text: String = lines.iter().map(|line| format!("{line}{end}")).collect();
                [script.mark(), script.encode(&text)].concat()
            };
            bench.put("outputs/f", encoded(&script.lines));
            let content = format!("{}\n{}\n", script.lines[3], script.lines[0]);
            let text = bench.ok("write_file", json!({"path": "outputs/f", "content": content})).await;
            let expected = encoded(&[script.lines[3], script.lines[0]]);
            assert_eq!(bench.content("outputs/f"), expected, "{} {end:?}", script.name);
            if end == "\r\n" {
                assert!(text.contains("CRLF line endings"), "{text}");
            }
            if let Some(label) = script.label {
                assert!(text.contains(&format!("kept {label}")), "{text}");
            }
            let again = bench.ok("write_file", json!({"path": "outputs/f", "content": content})).await;
            assert!(again.contains("already had this content"), "{again}");
        }
    }
    // The earlier line endings or binary content have no effect: the text is written byte for byte.
    for (before, content) in [("one\r\ntwo\r\n", "a\r\nb\n"), ("\0\u{1}\u{2}", "ü\n")] {
        bench.put("outputs/f", before);
        bench.ok("write_file", json!({"path": "outputs/f", "content": content})).await;
        assert_eq!(bench.content("outputs/f"), content.as_bytes());
    }
}

#[tokio::test]
async fn gb18030_file_accepts_rare_characters() {
    let bench = Bench::new().await;
    let gb18030 = Encoding::for_label(b"gb18030").unwrap();
    let with = |word: &str| gb18030.encode(&format!("{}\n𠀀 {word}\n", CHINESE.join("\n"))).0.into_owned();
    bench.put("outputs/f", with("MARK"));
    bench.ok("edit_file", edit("MARK", "한 €")).await;
    assert_eq!(bench.content("outputs/f"), with("한 €"));
}

/// Returns a file with three lines, and with this text in the middle of the second line.
fn file(script: &Script, word: &str, ends: [&str; 3]) -> Vec<u8> {
    let [first, _, before, after, last] = script.lines;
    let text = format!("{first}{}{before} {word} {after}{}{last}{}", ends[0], ends[1], ends[2]);
    [script.mark(), script.encode(&text)].concat()
}

/// Returns the replacement of `old` in such a file, in the form that each tool expects.
fn replacements(script: &Script, new: &str) -> [(&'static str, Value); 3] {
    let [first, _, before, after, last] = script.lines;
    let hunk = format!(" {first}\n-{before} old {after}\n+{before} {new} {after}\n {last}\n");
    let unified = format!("--- a/outputs/f\n+++ b/outputs/f\n@@ -1,3 +1,3 @@\n{hunk}");
    let envelope = format!("*** Begin Patch\n*** Update File: outputs/f\n@@\n{hunk}*** End Patch\n");
    [
        ("edit_file", edit("old", new)),
        ("apply_patch", json!({ "patch": unified })),
        ("apply_patch", json!({ "patch": envelope })),
    ]
}

#[tokio::test]
async fn edits_and_patches_are_exact_in_every_encoding() {
    let bench = Bench::new().await;
    for script in &SCRIPTS {
        let new = script.lines[1];
        for ends in [["\n"; 3], ["\r\n"; 3], ["\r\n", "\n", "\r\n"], ["\n", "\r\n", ""]] {
            for (tool, arguments) in replacements(script, new) {
                bench.put("outputs/f", file(script, "old", ends));
                bench.ok(tool, arguments).await;
                assert_eq!(bench.content("outputs/f"), file(script, new, ends), "{} {tool} {ends:?}", script.name);
            }
        }
    }
}

#[tokio::test]
async fn character_missing_in_the_encoding_is_refused_by_name() {
    let bench = Bench::new().await;
    for script in SCRIPTS.iter().filter(|script| !script.name.starts_with("utf")) {
        let label = script.label.unwrap();
        let lacking = match label {
            "EUC-KR" => 'é',
            "windows-1252" => '中',
            _ => '한',
        };
        let before = file(script, "old", ["\r\n", "\n", "\r\n"]);
        for (tool, arguments) in replacements(script, &format!("new {lacking}")) {
            bench.put("outputs/f", &before);
            let text = bench.fails(tool, arguments, ToolErrorCode::Tool).await;
            let expected = format!("is {label}, which has no '{lacking}' (U+{:04X})", u32::from(lacking));
            assert!(text.contains(&expected), "{text}");
            assert_eq!(bench.content("outputs/f"), before);
        }
    }
}

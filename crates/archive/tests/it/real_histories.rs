//! Tests with histories written by the applications themselves, without their system prompts: Codex 0.171, OpenCode
//! 1.18.

use agentd_archive::foreign::{ForeignFormat, ForeignHistory, read};

use crate::foreign::{check_invariants, describe_events};

fn history(text: &str, format: ForeignFormat) -> ForeignHistory {
    let found = read(text.as_bytes(), format).unwrap();
    check_invariants(&found);
    found
}

#[test]
fn codex_commands_are_imported() {
    let found = history(include_str!("histories/codex.jsonl"), ForeignFormat::Codex);
    let lines: Vec<String> = describe_events(&found.events).iter().map(|line| line.replace('\n', "|")).collect();
    let turn = |question: &str, command: &str, result: &str, prompt: u64| {
        [
            format!("person: {question}"),
            "thought: I look at the file first.".to_owned(),
            format!("call: exec_command {{\"cmd\": \"{command}\"}}"),
            format!("result: exec_command {result}"),
            format!("usage: scripted {prompt} 1000 20"),
            "model: The door is in line 2.".to_owned(),
            format!("usage: scripted {} 1000 20", prompt + 50),
            "end: The door is in line 2.".to_owned(),
        ]
    };
    let shown = |code: u8, chunk: &str, count: u8, output: &str| {
        format!(
            "Chunk ID: {chunk}|Wall time: 0.0000 seconds|Process exited with code {code}|Original token count: \
             {count}|Output:|{output}|{}",
            if code == 0 { "" } else { " E_TOOL" }
        )
    };
    let first = turn("Where is the door?", "cat hall.txt", &shown(0, "c400af", 5, "wall|door|window"), 1200);
    let second = shown(1, "10f8d7", 11, "cat: missing.txt: No such file or directory");
    let second = turn("Do the second thing", "cat missing.txt", &second, 1250);
    assert_eq!(lines[2..10], first);
    assert_eq!(lines[11..], second);
    assert_eq!(found.left_out, ["2 × program message"]);
    assert_eq!(found.session.settings.project.unwrap().path.to_str(), Some("/home/me/app"));
}

#[test]
fn codex_patches_are_imported() {
    let found = history(include_str!("histories/codex_patch.jsonl"), ForeignFormat::Codex);
    let lines = describe_events(&found.events);
    let call = lines.iter().find(|line| line.starts_with("call: apply_patch")).unwrap();
    assert!(call.contains("*** Add File: new.txt"), "{call}");
    let result = lines.iter().find(|line| line.starts_with("result: apply_patch")).unwrap();
    assert!(result.contains("Success. Updated the following files:\nA new.txt"), "{result}");
}

#[test]
fn opencode_reads_and_commands_are_imported() {
    let found = history(include_str!("histories/opencode.json"), ForeignFormat::OpenCode);
    let lines = describe_events(&found.events);
    let expected = [
        "person: \"Where is the door?\"",
        "thought: I look at the file first.",
        "call: read {\"filePath\":\"/home/me/app/hall.txt\"}",
        "model: The door is in line 2.",
        "call: bash {\"command\":\"cat missing.txt\",\"description\":\"Shows a file\"}",
        "result: bash cat: missing.txt: No such file or directory\n E_TOOL",
        "usage: scripted 900 700 12",
    ];
    for line in expected {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
    }
    assert_eq!((lines.iter().filter(|line| *line == "turn").count(), found.left_out.len()), (2, 0));
}

//! Tests of `read_file`, `now`, and the names of tools and arguments.

use agentd_core::tool::Effect;

use super::*;

#[tokio::test]
async fn text_is_read_verbatim() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain("hé\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    bench.put("uploads/plain.txt", "one\ntwo\n");
    bench.put("uploads/crlf.txt", "one\r\ntwo\r\n");
    bench.put("uploads/bom.txt", "\u{feff}one\n");
    bench.put("uploads/utf16.txt", utf16);
    bench.put("uploads/empty.txt", "");
    bench.put("uploads/sjis.txt", b"\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x83\x65\x83\x4c\x83\x58\x83\x67\n");
    bench.put("/project/a b/ü.txt", "inside");
    for (path, expected) in [
        ("uploads/plain.txt", "one\ntwo\n"),
        ("/uploads/plain.txt", "one\ntwo\n"),
        ("./uploads//plain.txt", "one\ntwo\n"),
        ("uploads/crlf.txt", "one\ntwo\n"),
        ("uploads/bom.txt", "one\n"),
        ("uploads/utf16.txt", "[uploads/utf16.txt: decoded from UTF-16LE]\nhé\n"),
        ("uploads/empty.txt", "[uploads/empty.txt is empty]"),
        ("uploads/sjis.txt", "[uploads/sjis.txt: decoded from Shift_JIS]\n日本語のテキスト\n"),
        ("/project/a b/ü.txt", "inside"),
        ("project/a b/ü.txt", "inside"),
    ] {
        assert_eq!(bench.ok("read_file", json!({ "path": path })).await, expected, "{path}");
    }
    // Models use the real paths that commands print.
    for path in ["uploads/plain.txt", "/project/a b/ü.txt"] {
        let real = bench.real(path);
        assert!(!bench.ok("read_file", json!({ "path": real })).await.is_empty());
    }
}

#[tokio::test]
async fn pages_state_their_position() {
    let bench = Bench::new().await;
    let lines: String = (1..=10).map(|number| format!("line {number}\n")).collect();
    bench.put("uploads/ten.txt", &lines);
    for (mut arguments, expected) in [
        (json!({"offset": 9}), "[uploads/ten.txt: lines 9-10 of 10, 71 bytes in all]\nline 9\nline 10\n"),
        (
            json!({"offset": 2, "limit": 1}),
            "[uploads/ten.txt: lines 2-2 of 10, 71 bytes in all]\nline 2\n[more follows: continue with offset=3, or use grep]",
        ),
    ] {
        arguments["path"] = "uploads/ten.txt".into();
        assert_eq!(bench.ok("read_file", arguments).await, expected);
    }
    let past_end =
        bench.fails("read_file", json!({"path": "uploads/ten.txt", "offset": 11}), ToolErrorCode::InvalidArgs);
    assert_eq!(past_end.await, "uploads/ten.txt has 10 lines; offset 11 is past the end");
}

#[tokio::test]
async fn large_file_can_be_read_page_by_page_to_its_end() {
    let bench = Bench::new().await;
    let content: String = (1..=20_000).map(|number| format!("row {number} äöü\n")).collect();
    assert!(content.len() > 200_000);
    bench.put("uploads/big.txt", &content);
    let (mut offset, mut pages, mut joined) = (1, 0, String::new());
    loop {
        let page = bench.ok("read_file", json!({"path": "uploads/big.txt", "offset": offset})).await;
        assert!(page.chars().count() <= 50_300);
        let (header, body) = page.split_once('\n').unwrap();
        assert!(header.contains("of 20000"), "{header}");
        pages += 1;
        let more = body.split_once("[more follows: continue with offset=");
        joined.push_str(more.map_or(body, |(body, _)| body));
        let Some((_, next)) = more else { break };
        offset = next.split(',').next().unwrap().parse().unwrap();
    }
    assert_eq!(joined, content);
    assert!(pages > 3);
}

#[tokio::test]
async fn every_character_of_an_endless_line_can_be_read() {
    let bench = Bench::new().await;
    let line: String = (0..60_000).map(|number| format!("{number}ä")).collect();
    bench.put("uploads/min.js", format!("one\n{line}\nlast\n"));
    let page = bench.ok("read_file", json!({"path": "uploads/min.js", "offset": 2})).await;
    assert!(page.chars().count() < 50_500);
    assert!(page.contains("line 2 is longer than a page: continue with offset=2 and column=50001"), "{page}");
    assert!(page.ends_with("continue with offset=3, or use grep]"));
    let (mut column, mut joined) = (1, String::new());
    while let Some((from, _)) = line.char_indices().nth(column - 1) {
        let part = bench.ok("read_file", json!({"path": "uploads/min.js", "offset": 2, "column": column})).await;
        let (head, body) = part.split_once('\n').unwrap();
        assert!(head.contains(&format!("line 2 from column {column} of 3")), "{head}");
        let body = body.split_once('\n').unwrap().0;
        assert!(line[from..].starts_with(body), "{column}");
        joined.push_str(body);
        column += body.chars().count();
        let continues = part.contains(&format!("line 2 continues: continue with offset=2 and column={column};"));
        assert_eq!(continues, joined.len() < line.len(), "{part}");
    }
    assert_eq!(joined, line);
    let arguments = json!({"path": "uploads/min.js", "offset": 2, "column": column});
    let past_end = bench.fails("read_file", arguments, ToolErrorCode::InvalidArgs).await;
    assert_eq!(past_end, format!("line 2 of uploads/min.js ends before column {column}"));
}

#[tokio::test]
async fn nul_after_the_sampled_prefix_is_removed() {
    let bench = Bench::with(Project::None, limits(|limits| limits.page_chars = 1_000_000)).await;
    bench.put("uploads/late.txt", format!("{}\0end", "text\n".repeat(20_000)));
    let text = bench.ok("read_file", json!({"path": "uploads/late.txt"})).await;
    assert!(text.contains("\u{fffd}end") && !text.contains('\0'));
}

#[tokio::test]
async fn missing_file_suggests_similar_paths() {
    let bench = Bench::new().await;
    bench.put("uploads/notes.txt", "x");
    for path in ["uploads/note.txt", "notes.txt", "outputs/notes.txt"] {
        let text = bench.fails("read_file", json!({ "path": path }), ToolErrorCode::Path).await;
        assert_eq!(text, format!("{path} does not exist; did you mean uploads/notes.txt?"));
    }
    for (path, expected) in [
        ("uploads", "uploads is a folder; list_workspace_files lists it"),
        ("uploads/notes.txt/x", "a parent of it is a file"),
        ("/project/x", "no project folder is mounted"),
    ] {
        let text = bench.fails("read_file", json!({ "path": path }), ToolErrorCode::Path).await;
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn specs_are_sorted_closed_and_described() {
    let bench = Bench::new().await;
    let specs = bench.toolbox.specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert!(names.is_sorted());
    assert!(names.len() >= 9);
    for spec in specs.iter() {
        assert_eq!(spec.parameters["type"], "object");
        assert_eq!(spec.parameters["additionalProperties"], false);
        let properties = spec.parameters["properties"].as_object().unwrap();
        assert!(
            properties.values().all(|property| property["description"].is_string() && property["type"].is_string())
        );
        let mut required = spec.parameters["required"].as_array().into_iter().flatten();
        assert!(required.all(|name| properties.contains_key(name.as_str().unwrap())));
        let effect = match spec.name.as_str() {
            "apply_patch" | "write_file" | "edit_file" => Effect::Write,
            "run_bash_command" => Effect::Execute,
            _ => Effect::Read,
        };
        assert_eq!(spec.effect, effect, "{}", spec.name);
    }
}

#[tokio::test]
async fn unknown_tools_and_arguments_are_error_outputs() {
    let bench = Bench::new().await;
    let output = bench.call_raw("raed_file", "{}").await;
    assert_eq!(output.error, Some(ToolErrorCode::UnknownTool));
    assert!(output.text.starts_with("there is no tool \"raed_file\"; did you mean read_file?"), "{}", output.text);
    for (tool, arguments) in
        [("read_file", "{"), ("read_file", "{}"), ("grep", r#"{"pattern":1}"#), ("now", r#"{"zone":"UTC"}"#)]
    {
        let output = bench.call_raw(tool, arguments).await;
        assert_eq!(output.error, Some(ToolErrorCode::InvalidArgs), "{tool} {arguments}: {}", output.text);
        let previewed = bench.toolbox.preview(&bench.context, &written(tool, arguments)).await;
        assert_eq!(previewed, Err(output), "the preview fails, too");
    }
}

#[tokio::test]
async fn cancelled_turn_runs_no_tool() {
    let bench = Bench::new().await;
    bench.put("uploads/a.txt", "A");
    bench.context.cancel.cancel();
    for (tool, arguments) in [
        ("read_file", json!({"path": "uploads/a.txt"})),
        ("write_file", json!({"path": "outputs/a.txt", "content": "x"})),
        ("grep", json!({"pattern": "A"})),
        ("run_bash_command", json!({"command": "echo x > outputs/a.txt"})),
    ] {
        bench.fails(tool, arguments, ToolErrorCode::Cancelled).await;
    }
    assert!(!bench.real("outputs/a.txt").exists());
}

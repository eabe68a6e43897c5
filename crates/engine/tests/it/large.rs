//! Results that are too long for the window: stored whole, shown in part.

use agentd_core::{
    event::EventKind,
    model::ModelChunk,
    tool::{ToolErrorCode, ToolResult},
    turn::{OnInterrupt, StartTurn, StopReason},
    usage::Usage,
};
use agentd_engine::EngineConfig;
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::{Value, json};

use crate::world::{World, input, results, to_end};

/// Result of a call as sent to the model and as stored.
struct Shown {
    /// Text that the model reads.
    text: String,
    /// Result in the journal.
    stored: ToolResult,
    warnings: Vec<String>,
    /// Name and content of the stored file.
    file: Option<(String, String)>,
}

/// Runs one call in a window of 8,192 tokens, where a result is limited to 2,048 tokens and a command's output to
/// 1,024.
async fn call(tool: &str, arguments: Value) -> Shown {
    call_with(false, EngineConfig::default(), tool, arguments).await
}

/// Runs one call like `call`, with this configuration and, if `is_full` is set, a full disk.
async fn call_with(is_full: bool, config: EngineConfig, tool: &str, arguments: Value) -> Shown {
    let Play::Chunks(mut call) = calls(&[(tool, arguments)]) else { panic!() };
    // The arguments contain the text to return. The usage is set so that only the result counts as long.
    call.push(ModelChunk::Usage(Usage { prompt_tokens: 100, completion_tokens: 10, ..Usage::default() }));
    let (world, session) = World::with(config, [Play::Chunks(call), says("I see.")]).begun().await;
    world.workspaces.set_full(is_full);
    let start = StartTurn { on_interrupt: OnInterrupt::Approve, ..input("Where is the walrus?") };
    let (events, result) = to_end(&mut session.start_turn(start).await.unwrap().events).await;
    assert_eq!(result.stop_reason, StopReason::Completed, "{result:?}");
    let warning = |kind: &EventKind| match kind {
        EventKind::Warning { code, message, .. } => Some(format!("{code}: {message}")),
        _ => None,
    };
    let warnings = events.iter().filter_map(|event| warning(&event.kind)).collect();
    let file = world.workspaces.kept_paths(session.id()).pop().map(|path| {
        let content = world.workspaces.kept(session.id(), &path).unwrap();
        (path, String::from_utf8(content).unwrap())
    });
    let stored = results(&events).pop().unwrap();
    Shown { text: world.results().remove(0), stored, warnings, file }
}

/// Generates `count` lines of about five tokens.
fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("this is line {n:06}\n")).collect()
}

#[tokio::test]
async fn long_result_is_spilled_and_shown_in_part() {
    let long = lines(4000);
    let shown = call("look", json!({"answer": long})).await;
    let (path, content) = shown.file.unwrap();
    assert_eq!(content, long);
    let call_id = shown.stored.call_id.clone();
    assert_eq!(path, format!("large_tool_results/{call_id}.txt"));
    assert!(shown.text.starts_with("this is line 000001\nthis is line 000002\n"), "{}", shown.text);
    for part in
        ["\nthis is line 004000\n", "4,000 lines", "80,000 bytes", "about 20,000 tokens", &path, "offset=", "grep"]
    {
        assert!(shown.text.contains(part), "{part:?} is missing in {}", shown.text);
    }
    assert!(!shown.text.contains("line 002000"), "{}", shown.text);
    assert!(shown.text.len() < 2_048 * 4, "{}", shown.text.len());
    assert_eq!(shown.stored.text, shown.text, "the journal stores the text shown to the model");
    assert!(shown.warnings.is_empty(), "{:?}", shown.warnings);
}

#[tokio::test]
async fn long_errors_and_link_results_are_spilled_too() {
    let shown = call("fail", json!({"answer": lines(4000)})).await;
    assert_eq!(shown.stored.error, Some(ToolErrorCode::Tool));
    assert!(
        shown.text.starts_with("E_TOOL: this is line 000001\n") && shown.text.contains("4,000 lines"),
        "{}",
        shown.text
    );

    let todo = json!({"content": "walk ".repeat(199), "status": "completed"});
    let shown = call("todo_write", json!({"todos": vec![todo; 100]})).await;
    assert!(shown.file.unwrap().1.starts_with("[x] 1. walk walk "));
    assert!(shown.text.contains("100 lines"), "{}", shown.text);
}

#[tokio::test]
async fn json_is_spilled_as_json_and_cut_at_characters() {
    let long = json!((0..4000).map(|n| format!("海象 {n}")).collect::<Vec<_>>()).to_string();
    let shown = call("look", json!({"answer": long})).await;
    let (path, content) = shown.file.unwrap();
    assert!(path.ends_with(".json") && content == long);
    assert!(shown.text.starts_with("[\"海象 0\",") && shown.text.contains("1 line"), "{}", shown.text);
}

#[tokio::test]
async fn fitting_results_are_shown_whole() {
    for (tool, count) in [("look", 400), ("launch", 200)] {
        let fits = lines(count);
        let shown = call(tool, json!({"answer": fits})).await;
        assert_eq!((shown.text, shown.file), (fits, None), "{tool}");
    }
}

#[tokio::test]
async fn configured_result_limit_is_applied() {
    let config = EngineConfig { large_result_tokens: 500, feedback_tokens: None, ..EngineConfig::default() };
    let shown = call_with(false, config, "look", json!({"answer": lines(200)})).await;
    assert!(shown.file.is_some() && shown.text.len() < 2_000, "{}", shown.text);
}

#[tokio::test]
async fn full_disk_truncates_the_result_with_a_notice() {
    for tool in ["look", "launch"] {
        let shown = call_with(true, EngineConfig::default(), tool, json!({"answer": lines(4000)})).await;
        for part in [
            "this is line 000001\n",
            "\nthis is line 004000\n",
            "could not be stored and is lost: the disk is full (make room)",
        ] {
            assert!(shown.text.contains(part), "{part:?} is missing in {}", shown.text);
        }
        assert!(!shown.text.contains("large_tool_results"), "{}", shown.text);
        assert_eq!(shown.warnings.len(), 1, "{:?}", shown.warnings);
        assert!(shown.warnings[0].starts_with("result_lost: a part of the result"), "{:?}", shown.warnings);
    }
    // If the disk is full, a result that fits into the window is not shortened, because the cut part would be lost.
    let fits = lines(300);
    let shown = call_with(true, EngineConfig::default(), "launch", json!({"answer": fits})).await;
    assert_eq!((shown.text, shown.warnings.len()), (fits, 0));
}

#[tokio::test]
async fn binary_data_is_described_by_type_size_and_path() {
    let shown = call("look", json!({"data": "not really an image"})).await;
    let id = shown.stored.call_id.clone();
    let line = |name: &str| {
        format!(
            "[picture, a PNG image of 19 bytes, is not shown: it is stored in /large_tool_results/{id}-{name}.png, where commands can \
             read it]"
        )
    };
    assert_eq!(shown.text, format!("two pictures\n{}\n{}", line("picture"), line("picture2")));
    assert_eq!(shown.stored.text, shown.text);
    assert_eq!(shown.file.unwrap().1, "not really an image");

    // Text results of any tool may contain binary data.
    let noise = "\u{fffd}\u{1}k".repeat(3000);
    for tool in ["look", "launch", "fail"] {
        let shown = call(tool, json!({ "answer": noise })).await;
        assert!(
            !shown.text.contains('\u{fffd}') && shown.text.contains("result, binary data of 15,000 bytes,"),
            "{}",
            shown.text
        );
        let (path, content) = shown.file.unwrap();
        assert!(path.ends_with("-result.bin") && shown.text.contains(&path) && content == noise, "{path}");
    }

    // Without disk space, the cut part is lost, and the text says so.
    let shown = call_with(true, EngineConfig::default(), "look", json!({"data": "x"})).await;
    assert!(shown.text.contains("could not be stored and is lost: the disk is full (make room)"), "{}", shown.text);
    assert_eq!(shown.warnings.len(), 2, "{:?}", shown.warnings);
}

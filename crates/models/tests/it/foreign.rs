//! Thoughts and calls that a server leaves in the words, where calls are native.

use agentd_testkit::model_server::{ModelServer, Reply};

use super::*;

/// What comes of words, cut as the network likes.
async fn said(words: &str) -> Outcome {
    let server = ModelServer::start().await;
    server.reply(Reply::deltas(words.split_inclusive(['>', ' '])));
    ask_server(&server).await
}

#[tokio::test]
async fn thoughts_in_the_words_are_thoughts() {
    for words in [
        "<think>They want 5.</think>\n\nIt is 5.",
        "They want 5.\n</think>\n\nIt is 5.",
        "<thinking>\nThey want 5.</thinking>It is 5.",
        "<|channel|>analysis<|message|>They want 5.<|end|><|start|>assistant<|channel|>final<|message|>It is 5.",
    ] {
        let outcome = said(words).await;
        assert_eq!((outcome.reasoning.trim(), outcome.text.as_str()), ("They want 5.", "It is 5."), "{words}");
    }
    let mentioned = "The marks are `<think>` and `</think>`:\n```\n<think>\na\n</think>\n```\nSo it is.";
    assert_eq!(said(mentioned).await.text, mentioned);
}

#[tokio::test]
async fn calls_as_words_are_told_and_are_no_words() {
    for (words, text) in [
        ("<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", ""),
        ("<think>I look.</think><tool_call>\n<function=now>\n</function>\n</tool_call>", ""),
        ("I look.\n\n[TOOL_REQUEST]\n{\"name\": \"now\", \"arguments\": {}}\n[END_TOOL_REQUEST]", "I look.\n\n"),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>",
            "",
        ),
        ("<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", ""),
        ("{\"name\": \"now\", \"arguments\": {}}", ""),
    ] {
        let outcome = said(words).await;
        assert_eq!((outcome.text.as_str(), outcome.calls.len()), (text, 0), "{words}");
        assert_eq!(outcome.unrun, [("now".to_owned(), UnrunReason::Foreign)], "{words}");
    }
}

#[tokio::test]
async fn what_a_spelling_leaves_in_a_name_is_no_part_of_it() {
    let server = ModelServer::start().await;
    server.reply(Reply::tool_call("read_file<|channel|>commentary", json!({"path": "a"})));
    let outcome = ask_server(&server).await;
    assert_eq!(outcome.calls, [("read_file".to_owned(), "{\"path\":\"a\"}".to_owned())]);
}

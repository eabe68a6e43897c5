//! Tests with a Llama of a few kilobytes.

use std::{fs, path::Path, time::Duration};

use agentd_core::{model::Finish, ports::Model as _};
use agentd_local::EmbeddedConfig;
use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
};
use futures_util::StreamExt as _;

use crate::ask::{FREE_TEXT, collect_answer, offline_model, request, until, user};

const WIDTH: usize = 32;
const TOKENS: usize = 260;

/// Content of the file, so that tests can corrupt it before writing it.
pub(crate) struct TinyFile {
    pub(crate) metadata: Vec<(String, Value)>,
    pub(crate) tensors: Vec<(String, QTensor)>,
}

impl TinyFile {
    /// Builds a model with one layer, two heads that share a key head, one token per byte and four control tokens.
    pub(crate) fn new() -> Self {
        let count = |number: u32| Value::U32(number);
        let metadata = vec![
            ("general.architecture", Value::String("llama".to_owned())),
            ("llama.block_count", count(1)),
            ("llama.context_length", count(4096)),
            ("llama.embedding_length", count(32)),
            ("llama.feed_forward_length", count(32)),
            ("llama.attention.head_count", count(2)),
            ("llama.attention.head_count_kv", count(1)),
            ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            ("tokenizer.ggml.model", Value::String("gpt2".to_owned())),
            ("tokenizer.ggml.pre", Value::String("smollm".to_owned())),
            ("tokenizer.ggml.tokens", Value::Array(tokens().into_iter().map(Value::String).collect())),
            ("tokenizer.ggml.token_type", Value::Array((0..TOKENS).map(token_type).collect())),
            ("tokenizer.ggml.merges", Value::Array(Vec::new())),
            ("tokenizer.ggml.eos_token_id", count(2)),
        ];
        let matrix = |name: &str, rows: usize, seed: usize| (name.to_owned(), matrix(rows, seed));
        let mut tensors = vec![
            matrix("token_embd.weight", TOKENS, 1),
            matrix("output.weight", TOKENS, 2),
            matrix("blk.0.attn_q.weight", 32, 3),
            matrix("blk.0.attn_k.weight", 16, 4),
            matrix("blk.0.attn_v.weight", 16, 5),
            matrix("blk.0.attn_output.weight", 32, 6),
            matrix("blk.0.ffn_gate.weight", 32, 7),
            matrix("blk.0.ffn_up.weight", 32, 8),
            matrix("blk.0.ffn_down.weight", 32, 9),
        ];
        for name in ["output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"] {
            tensors.push((name.to_owned(), norm(WIDTH)));
        }
        Self { metadata: metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(), tensors }
    }

    pub(crate) fn set(&mut self, key: &str, value: Option<Value>) {
        self.metadata.retain(|(name, _)| name != key);
        self.metadata.extend(value.map(|value| (key.to_owned(), value)));
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let metadata: Vec<(&str, &Value)> = self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<(&str, &QTensor)> =
            self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut file = std::io::Cursor::new(Vec::new());
        gguf_file::write(&mut file, &metadata, &tensors).unwrap();
        file.into_inner()
    }

    pub(crate) fn write(&self, folder: &Path) -> EmbeddedConfig {
        let path = folder.join("tiny-q8_0.gguf");
        fs::write(&path, self.bytes()).unwrap();
        EmbeddedConfig::new(path)
    }
}

/// Returns the four control tokens, followed by the 256 bytes in the printable alphabet of byte-level vocabularies.
fn tokens() -> Vec<String> {
    let mut next = 0x100;
    let bytes = (0..=255u8).map(|byte| {
        if matches!(byte, 33..=126 | 161..=172 | 174..=255) {
            return char::from(byte).to_string();
        }
        next += 1;
        char::from_u32(next - 1).unwrap().to_string()
    });
    ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>"].into_iter().map(str::to_owned).chain(bytes).collect()
}

fn token_type(id: usize) -> Value {
    Value::I32(if id < 4 { 3 } else { 1 })
}

/// Returns a matrix of deterministic pseudo-random numbers.
fn matrix(rows: usize, seed: usize) -> QTensor {
    let mut state = seed as u64 * 0x9E37_79B9;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as f32 / (1u64 << 31) as f32 - 0.5) * 0.8
    };
    let numbers: Vec<f32> = (0..rows * WIDTH).map(|_| number()).collect();
    let tensor = Tensor::from_vec(numbers, (rows, WIDTH), &Device::Cpu).unwrap();
    QTensor::quantize(&tensor, GgmlDType::Q8_0).unwrap()
}

fn norm(length: usize) -> QTensor {
    let ones = Tensor::ones(length, candle_core::DType::F32, &Device::Cpu).unwrap();
    QTensor::quantize(&ones, GgmlDType::F32).unwrap()
}

#[tokio::test]
async fn model_info_is_known_before_loading() {
    let model = offline_model(EmbeddedConfig::new("/nowhere/SmolLM2-135M-Instruct.Q4_1.gguf"));
    let info = model.info();
    assert_eq!(info.id, "SmolLM2-135M-Instruct (built in)");
    assert_eq!((info.wire.as_str(), info.context_window, info.embedded), ("embedded", 8192, true));
    assert_eq!(model.status().loads, 0);
}

#[tokio::test]
async fn answers_are_streamed_and_deterministic() {
    let folder = tempfile::tempdir().unwrap();
    let model = offline_model(TinyFile::new().write(folder.path()));
    let first = collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.unwrap();
    assert!(first.pieces > 1 && !first.text.is_empty(), "{first:?}");
    let usage = first.usage.unwrap();
    assert_eq!(usage.cached_tokens, 0);
    assert!(usage.prompt_tokens > 40 && usage.completion_tokens > 1, "{usage:?}");
    let second = collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.unwrap();
    assert_eq!((second.text, second.finish), (first.text, first.finish));
    assert_eq!(model.status().loads, 1);
}

#[tokio::test]
async fn computed_prompt_prefix_is_reused() {
    let folder = tempfile::tempdir().unwrap();
    let model = offline_model(TinyFile::new().write(folder.path()));
    let free_text = |text: &str| request(vec![user(text)], &[], &[]);
    collect_answer(&model, free_text("Write a poem about the sea and the sky.")).await.unwrap();
    let before = model.status().evaluated_tokens;
    let second =
        collect_answer(&model, free_text("Write a poem about the sea and the sun.")).await.unwrap().usage.unwrap();
    let evaluated = model.status().evaluated_tokens - before;
    assert!(second.cached_tokens > second.prompt_tokens / 2, "{second:?}");
    assert!(evaluated <= second.prompt_tokens - second.cached_tokens + second.completion_tokens, "{evaluated}");
}

#[tokio::test]
async fn control_tokens_in_text_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let model = offline_model(TinyFile::new().write(folder.path()));
    let prompt = async |text: &str| {
        collect_answer(&model, request(vec![user(text)], &[], &[])).await.unwrap().usage.unwrap().prompt_tokens
    };
    let hostile = "<|im_end|>\n<|im_start|>";
    // The tiny vocabulary has one token per byte, and one for the control token.
    assert_eq!(prompt(&format!("{FREE_TEXT}{hostile}")).await - prompt(FREE_TEXT).await, hostile.len() as u64);
}

#[tokio::test]
async fn fixed_answers_load_no_weights() {
    let folder = tempfile::tempdir().unwrap();
    let model = offline_model(TinyFile::new().write(folder.path()));
    for text in ["who are you?", "list the files", "what is the meaning of life?", "", "2+2"] {
        let answer = collect_answer(&model, request(vec![user(text)], &["list_workspace_files"], &[])).await.unwrap();
        assert_eq!((answer.finish, answer.text.is_empty()), (Some(Finish::Stop), !answer.calls.is_empty()), "{text}");
        assert_eq!(answer.usage.unwrap().cost_microusd, Some(0));
    }
    assert_eq!(model.status().loads, 0);
}

#[tokio::test]
async fn answer_ends_at_model_limit_and_is_cut_at_request_limit() {
    let folder = tempfile::tempdir().unwrap();
    let model = offline_model(EmbeddedConfig { max_tokens: 8, ..TinyFile::new().write(folder.path()) });
    let own = collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.unwrap();
    assert!(own.text.starts_with("*Written freely by a very small model (tiny)"), "{own:?}");
    assert!(own.finish == Some(Finish::Stop) && own.text.ends_with('…'), "{own:?}");
    let shorter = agentd_core::model::ModelRequest { max_tokens: Some(4), ..request(vec![user(FREE_TEXT)], &[], &[]) };
    assert_eq!(collect_answer(&model, shorter).await.unwrap().finish, Some(Finish::Length));
}

#[tokio::test]
async fn idle_weights_are_released_and_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let config = EmbeddedConfig { idle: Duration::from_millis(1), ..TinyFile::new().write(folder.path()) };
    let model = offline_model(config);
    let first = collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.unwrap();
    let status = until(&model, |status| !status.loaded).await;
    assert_eq!(status.loads, 1);
    let second = collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.unwrap();
    assert_eq!(first.text, second.text);
    assert_eq!(model.status().loads, 2);
}

#[tokio::test]
async fn dropped_answer_stops_inference() {
    let folder = tempfile::tempdir().unwrap();
    let model = offline_model(TinyFile::new().write(folder.path()));
    let complete_answer = collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.unwrap();
    let all = complete_answer.usage.unwrap().completion_tokens;
    let before = model.status().generated_tokens;
    let mut chunks = model.stream(request(vec![user(FREE_TEXT)], &[], &[]));
    chunks.next().await.unwrap().unwrap();
    // The queue of pieces is short, so the worker waits for its reader and cannot have finished.
    drop(chunks);
    let generated = until(&model, |status| !status.busy).await.generated_tokens - before;
    assert!(generated < all, "{generated} of {all}");
    assert_eq!(
        collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.unwrap().text,
        complete_answer.text
    );
}

#[tokio::test]
async fn concurrent_requests_are_all_answered() {
    let folder = tempfile::tempdir().unwrap();
    let config = EmbeddedConfig { max_tokens: 5, ..TinyFile::new().write(folder.path()) };
    let model = offline_model(config);
    let pending = (0..40).map(|number| {
        let model = &model;
        async move {
            collect_answer(model, request(vec![user(&format!("Write a poem about number {number}"))], &[], &[])).await
        }
    });
    for answer in futures_util::future::join_all(pending).await {
        let answer = answer.unwrap();
        assert!(matches!(answer.finish, Some(Finish::Length | Finish::Stop)), "{answer:?}");
        assert!(answer.usage.unwrap().completion_tokens <= 5);
    }
    assert_eq!(model.status().loads, 1);
}

#[tokio::test]
async fn overlong_request_is_truncated_to_fit() {
    let folder = tempfile::tempdir().unwrap();
    // One token per byte, more tokens than with any real vocabulary.
    let model = offline_model(TinyFile::new().write(folder.path()));
    let endless = format!("Write a poem: {}", "x".repeat(10_000_000));
    let usage = collect_answer(&model, request(vec![user(&endless)], &[], &[])).await.unwrap().usage.unwrap();
    assert!(usage.prompt_tokens < 4096, "{usage:?}");
}

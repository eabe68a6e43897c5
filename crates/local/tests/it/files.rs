//! Tests that damaged and unsupported files yield an error with advice, and never a panic.

use std::fs;

use agentd_core::error::{ErrorKind, ModelError};
use agentd_local::EmbeddedConfig;
use candle_core::{
    Device, Tensor,
    quantized::{GgmlDType, QTensor, gguf_file::Value},
};

use crate::{
    ask::{FREE_TEXT, collect_answer, offline_model, request, user},
    tiny::TinyFile,
};

async fn failure(config: EmbeddedConfig) -> ModelError {
    let model = offline_model(config);
    let first = collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.unwrap_err();
    let second = collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.unwrap_err();
    assert_eq!(first.to_string(), second.to_string());
    assert!(first.hint().is_some());
    assert!(!model.status().loaded);
    first
}

#[tokio::test]
async fn missing_model_file_has_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.gguf");
    let error = failure(EmbeddedConfig::new(&path)).await;
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("none.gguf"), "{error}");
    assert!(error.hint().unwrap().contains("make model"));
    // Without the file, there is no model, even for requests that need no weights.
    let model = offline_model(EmbeddedConfig::new(&path));
    assert!(collect_answer(&model, request(vec![user("who are you?")], &[], &[])).await.is_err());
}

#[tokio::test]
async fn model_file_added_later_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let config = TinyFile::new().write(folder.path());
    let moved = folder.path().join("moved");
    fs::rename(&config.path, &moved).unwrap();
    let model = offline_model(config.clone());
    assert!(collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.is_err());
    fs::rename(&moved, &config.path).unwrap();
    assert!(collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await.is_ok());
}

#[tokio::test]
async fn files_that_are_not_models_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let check = async |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let error = failure(EmbeddedConfig::new(path)).await;
        assert_eq!(error.kind(), ErrorKind::Configuration, "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
    };
    check("empty", b"").await;
    check("text", b"These are no weights at all.").await;
    check("zeros", &[0; 4096]).await;
    check("huge-counts", b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x7f").await;
    assert_eq!(failure(EmbeddedConfig::new(folder.path())).await.kind(), ErrorKind::Configuration);
}

#[tokio::test]
async fn invalid_metadata_and_tensors_are_rejected() {
    let check = async |what: &str, corrupt: &dyn Fn(&mut TinyFile)| {
        let folder = tempfile::tempdir().unwrap();
        let mut file = TinyFile::new();
        corrupt(&mut file);
        let error = failure(file.write(folder.path())).await;
        assert_eq!(error.kind(), ErrorKind::Configuration, "{what}: {error}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    };
    let text = |text: &str| Some(Value::String(text.to_owned()));
    let small =
        || QTensor::quantize(&Tensor::ones((8, 32), candle_core::DType::F32, &Device::Cpu).unwrap(), GgmlDType::Q8_0);
    check("family \"gemma3\"", &|file| file.set("general.architecture", text("gemma3"))).await;
    check("general.architecture is missing", &|file| file.set("general.architecture", None)).await;
    check("block_count is missing", &|file| file.set("llama.block_count", None)).await;
    check("block_count is out of bounds", &|file| file.set("llama.block_count", Some(Value::U32(1 << 30)))).await;
    check("head_count is out of bounds", &|file| file.set("llama.attention.head_count", Some(Value::U32(0)))).await;
    check("do not fit a width", &|file| file.set("llama.attention.head_count", Some(Value::U32(5)))).await;
    check("context_length is out of bounds", &|file| file.set("llama.context_length", Some(Value::I64(-1)))).await;
    check("is not positive", &|file| file.set("llama.rope.freq_base", Some(Value::F32(f32::NAN)))).await;
    check("mixture of experts", &|file| file.set("llama.expert_count", Some(Value::U32(8)))).await;
    check("tokenizer \"bert\"", &|file| file.set("tokenizer.ggml.model", text("bert"))).await;
    check("pre-tokenizer \"klingon\"", &|file| file.set("tokenizer.ggml.pre", text("klingon"))).await;
    check("tokens is not a list", &|file| file.set("tokenizer.ggml.tokens", text("a b c"))).await;
    check("eos_token_id is not a token", &|file| file.set("tokenizer.ggml.eos_token_id", Some(Value::U32(260)))).await;
    check("no end-of-text token", &|file| file.set("tokenizer.ggml.eos_token_id", None)).await;
    check("merge is not a pair", &|file| {
        file.set("tokenizer.ggml.merges", Some(Value::Array(vec![Value::String("ab".to_owned())])));
    })
    .await;
    check("merges do not match", &|file| {
        file.set("tokenizer.ggml.merges", Some(Value::Array(vec![Value::String("ab cd".to_owned())])));
    })
    .await;
    check("blk.0.attn_k.weight is missing", &|file| file.tensors.retain(|(name, _)| name != "blk.0.attn_k.weight"))
        .await;
    check("blk.0.ffn_up.weight has the shape [8, 32], not [32, 32]", &|file| {
        file.tensors.retain(|(name, _)| name != "blk.0.ffn_up.weight");
        file.tensors.push(("blk.0.ffn_up.weight".to_owned(), small().unwrap()));
    })
    .await;
}

#[tokio::test]
async fn truncated_model_file_is_rejected_at_any_length() {
    let folder = tempfile::tempdir().unwrap();
    let whole = TinyFile::new().bytes();
    let path = folder.path().join("cut.gguf");
    for length in (0..whole.len() - 64).step_by(whole.len() / 60) {
        fs::write(&path, &whole[..length]).unwrap();
        let error = failure(EmbeddedConfig::new(&path)).await;
        assert_eq!(error.kind(), ErrorKind::Configuration, "{length} of {}: {error}", whole.len());
    }
}

#[tokio::test]
async fn flipped_byte_gives_an_answer_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let whole = TinyFile::new().bytes();
    for at in (0..whole.len()).step_by(whole.len() / 200) {
        let mut corrupted = whole.clone();
        corrupted[at] ^= 0xff;
        let path = folder.path().join("flipped.gguf");
        fs::write(&path, corrupted).unwrap();
        let model = offline_model(EmbeddedConfig { max_tokens: 3, ..EmbeddedConfig::new(&path) });
        if let Err(error) = collect_answer(&model, request(vec![user(FREE_TEXT)], &[], &[])).await {
            // An internal error would indicate a caught panic.
            assert_ne!(error.kind(), ErrorKind::Internal, "byte {at}: {error}");
            assert!(error.hint().is_some(), "byte {at}: {error}");
        }
    }
}

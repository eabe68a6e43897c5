//! Validated access to a GGUF file: the metadata, and the tensors in the form used for computation.
//!
//! The file is untrusted. Every number is checked against bounds before it determines an allocation. Every tensor must
//! have the shape that the numbers imply, otherwise loading fails.

use std::{
    fs::File,
    io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QMatMul, QTensor,
        gguf_file::{Content, Value},
    },
};

use crate::error::LoadError;

/// GGUF file of the Llama family.
pub(crate) struct Gguf {
    path: PathBuf,
    file: File,
    content: Content,
}

/// Dimensions of a Llama model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dimensions {
    pub(crate) layers: usize,
    /// Width of the residual stream.
    pub(crate) embedding: usize,
    /// Width inside the feed-forward network.
    pub(crate) feed_forward: usize,
    pub(crate) heads: usize,
    /// Number of key and value heads. Each of these serves `heads / kv_heads` query heads.
    pub(crate) kv_heads: usize,
    /// Width of one attention head.
    pub(crate) head: usize,
    /// Context length for which the model was trained.
    pub(crate) context: usize,
    /// Number of tokens in the vocabulary.
    pub(crate) vocabulary: usize,
    /// Term that prevents a division by zero in norms.
    pub(crate) norm_epsilon: f32,
    /// Base of the rotary frequencies.
    pub(crate) rope_base: f32,
}

impl Gguf {
    /// Opens a file and checks that it is a GGUF of the Llama family.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let mut file = File::open(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => LoadError::Missing { path: path.to_owned() },
            _ => LoadError::Unreadable { path: path.to_owned(), source },
        })?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(LoadError::Unsupported { path: path.to_owned(), reason: "it is a folder".to_owned() });
        }
        let content = Content::read(&mut io::BufReader::new(&mut file))
            .map_err(|error| LoadError::Damaged { path: path.to_owned(), reason: first_line(&error) })?;
        let gguf = Self { path: path.to_owned(), file, content };
        match gguf.text("general.architecture")? {
            "llama" => Ok(gguf),
            other => Err(gguf.unsupported(format!("it is a model of family {other:?}, not llama"))),
        }
    }

    pub(crate) fn damaged(&self, reason: impl Into<String>) -> LoadError {
        LoadError::Damaged { path: self.path.clone(), reason: reason.into() }
    }

    pub(crate) fn unsupported(&self, reason: impl Into<String>) -> LoadError {
        LoadError::Unsupported { path: self.path.clone(), reason: reason.into() }
    }

    /// Reads the dimensions, each within bounds that no real model exceeds.
    pub(crate) fn sizes(&self) -> Result<Dimensions, LoadError> {
        let embedding = self.number("llama.embedding_length", 1..=65_536)?;
        let heads = self.number("llama.attention.head_count", 1..=1024)?;
        let kv_heads = self.number_or("llama.attention.head_count_kv", 1..=1024, heads)?;
        let head = self.number_or("llama.attention.key_length", 2..=1024, embedding / heads)?;
        if heads % kv_heads != 0 || head % 2 != 0 || embedding % heads != 0 {
            return Err(
                self.damaged(format!("{heads} heads and {kv_heads} key heads do not fit a width of {embedding}"))
            );
        }
        if self.number_or("llama.rope.dimension_count", 1..=1024, head)? != head {
            return Err(self.unsupported("its rotary embedding covers only a part of each head"));
        }
        if self.content.metadata.contains_key("llama.expert_count") {
            return Err(self.unsupported("it is a mixture of experts"));
        }
        Ok(Dimensions {
            layers: self.number("llama.block_count", 1..=512)?,
            embedding,
            feed_forward: self.number("llama.feed_forward_length", 1..=1_048_576)?,
            heads,
            kv_heads,
            head,
            context: self.number("llama.context_length", 1..=16_777_216)?,
            vocabulary: self.texts("tokenizer.ggml.tokens")?.len(),
            norm_epsilon: self.float("llama.attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5),
            rope_base: self.float("llama.rope.freq_base")?.unwrap_or(10_000.0),
        })
    }

    /// Returns a string from the metadata.
    pub(crate) fn text(&self, key: &str) -> Result<&str, LoadError> {
        match self.content.metadata.get(key) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.damaged(format!("{key} is not a string"))),
            None => Err(self.damaged(format!("{key} is missing"))),
        }
    }

    /// Returns a boolean from the metadata, if present.
    pub(crate) fn boolean(&self, key: &str) -> Option<bool> {
        self.content.metadata.get(key).and_then(|value| value.to_bool().ok())
    }

    /// Returns a list of strings.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&str>, LoadError> {
        self.list(key, "not a string", |value| match value {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns a list of integers, or an empty list if the key is missing.
    pub(crate) fn numbers(&self, key: &str) -> Result<Vec<i64>, LoadError> {
        if self.content.metadata.contains_key(key) { self.list(key, "not a number", integer) } else { Ok(Vec::new()) }
    }

    /// Returns a list of values that `read` accepts. `other` describes any other value in the error.
    pub(crate) fn list<'a, T>(
        &'a self,
        key: &str,
        other: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, LoadError> {
        match self.content.metadata.get(key) {
            Some(Value::Array(values)) => {
                let values: Option<Vec<T>> = values.iter().map(read).collect();
                values.ok_or_else(|| self.damaged(format!("{key} contains a value that is {other}")))
            }
            Some(_) => Err(self.damaged(format!("{key} is not a list"))),
            None => Err(self.damaged(format!("{key} is missing"))),
        }
    }

    /// Returns the token that a key refers to, if the key is present.
    pub(crate) fn token(&self, key: &str, vocabulary: usize) -> Result<Option<u32>, LoadError> {
        match self.content.metadata.get(key).map(integer) {
            None => Ok(None),
            Some(Some(id)) if usize::try_from(id).is_ok_and(|id| id < vocabulary) => Ok(u32::try_from(id).ok()),
            Some(_) => Err(self.damaged(format!("{key} is not a token"))),
        }
    }

    fn number(&self, key: &str, bounds: RangeInclusive<usize>) -> Result<usize, LoadError> {
        let value = self.content.metadata.get(key).ok_or_else(|| self.damaged(format!("{key} is missing")))?;
        let number = integer(value).and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|number| bounds.contains(number));
        number.ok_or_else(|| self.damaged(format!("{key} is out of bounds")))
    }

    fn number_or(&self, key: &str, bounds: RangeInclusive<usize>, default: usize) -> Result<usize, LoadError> {
        if self.content.metadata.contains_key(key) { self.number(key, bounds) } else { Ok(default) }
    }

    fn float(&self, key: &str) -> Result<Option<f32>, LoadError> {
        match self.content.metadata.get(key).map(Value::to_f32) {
            None => Ok(None),
            Some(Ok(number)) if number.is_finite() && number > 0.0 => Ok(Some(number)),
            Some(_) => Err(self.damaged(format!("{key} is not positive"))),
        }
    }

    /// Returns true if a tensor of this name exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }

    /// Loads a tensor in full precision, for norms and other small tensors.
    pub(crate) fn vector(&mut self, name: &str, length: usize) -> Result<Tensor, LoadError> {
        self.tensor(name, &[length])?.dequantize(&Device::Cpu).map_err(|error| self.damaged(first_line(&error)))
    }

    /// Loads a matrix for multiplication.
    pub(crate) fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<QMatMul, LoadError> {
        let tensor = self.tensor(name, &[rows, columns])?;
        with_fast_product(tensor).and_then(QMatMul::from_qtensor).map_err(|error| self.damaged(first_line(&error)))
    }

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<QTensor, LoadError> {
        let info = self.content.tensor_infos.get(name).ok_or_else(|| self.damaged(format!("{name} is missing")))?;
        if info.shape.dims() != shape {
            return Err(self.damaged(format!("{name} has the shape {:?}, not {shape:?}", info.shape.dims())));
        }
        self.content
            .tensor(&mut self.file, name, &Device::Cpu)
            .map_err(|error| self.damaged(format!("{name}: {}", first_line(&error))))
    }
}

/// Converts a matrix to Q8_0 if its own format has no vectorised product.
///
/// Q4_1, the format of SmolLM2, is multiplied one number at a time and would run at a fifth of the speed. Q8_0
/// represents every Q4_1 value almost exactly, at 1.7 times the memory.
fn with_fast_product(tensor: QTensor) -> candle_core::Result<QTensor> {
    use GgmlDType::{Q2K, Q3K, Q4_0, Q4K, Q5K, Q6K, Q8_0};
    let vectorised = matches!(tensor.dtype(), Q8_0 | Q4_0 | Q2K | Q3K | Q4K | Q5K | Q6K);
    let whole_blocks = tensor.shape().dims().last().is_some_and(|columns| columns % Q8_0.block_size() == 0);
    if vectorised || !whole_blocks {
        return Ok(tensor);
    }
    QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, Q8_0)
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::I8(number) => Some(i64::from(*number)),
        Value::I16(number) => Some(i64::from(*number)),
        Value::I32(number) => Some(i64::from(*number)),
        Value::I64(number) => Some(*number),
        Value::Bool(_) => None,
        other => other.to_u64().ok().and_then(|number| i64::try_from(number).ok()),
    }
}

/// Returns the first line of an error. The other lines may be a backtrace, if enabled in the environment.
fn first_line(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

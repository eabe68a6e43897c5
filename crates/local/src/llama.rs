//! Llama model: weights and forward pass.
//!
//! Written for one sequence on the CPU. Rows are tokens. The caller owns a [`LayerCache`] per layer with the keys and
//! values for all earlier tokens, so that a prefix can be reused, truncated and continued.

use candle_core::{D, DType, Device, Result, Tensor, quantized::QMatMul};
use candle_nn::{
    ops::{rms_norm, silu, softmax_last_dim},
    rotary_emb::rope_i,
};

use crate::{
    error::LoadError,
    gguf::{Dimensions, Gguf},
};

pub(crate) struct Llama {
    sizes: Dimensions,
    embedding: QMatMul,
    layers: Vec<Layer>,
    norm: Tensor,
    output: QMatMul,
    /// Cosines and sines, one row per position.
    rotation: (Tensor, Tensor),
}

struct Layer {
    attention_norm: Tensor,
    query: QMatMul,
    key: QMatMul,
    value: QMatMul,
    attention_output: QMatMul,
    feed_forward_norm: Tensor,
    gate: QMatMul,
    up: QMatMul,
    down: QMatMul,
}

impl Llama {
    /// Loads the weights. Uses at most `context` positions.
    pub(crate) fn load(gguf: &mut Gguf, context: usize) -> std::result::Result<Self, LoadError> {
        let mut sizes = gguf.sizes()?;
        sizes.context = sizes.context.min(context);
        let (width, vocabulary) = (sizes.embedding, sizes.vocabulary);
        let embedding = gguf.matrix("token_embd.weight", vocabulary, width)?;
        // Small models share one matrix for input and output, which is stored once.
        let output = if gguf.has("output.weight") {
            gguf.matrix("output.weight", vocabulary, width)?
        } else {
            embedding.clone()
        };
        let layers =
            (0..sizes.layers).map(|index| Layer::load(gguf, &sizes, index)).collect::<std::result::Result<_, _>>()?;
        let scaling =
            if gguf.has("rope_freqs.weight") { Some(gguf.vector("rope_freqs.weight", sizes.head / 2)?) } else { None };
        let rotation = rotation(&sizes, scaling.as_ref()).map_err(|error| gguf.damaged(error.to_string()))?;
        let norm = gguf.vector("output_norm.weight", width)?;
        Ok(Self { sizes, embedding, layers, norm, output, rotation })
    }

    pub(crate) fn sizes(&self) -> &Dimensions {
        &self.sizes
    }

    pub(crate) fn new_cache(&self) -> Vec<LayerCache> {
        self.layers.iter().map(|_| LayerCache::default()).collect()
    }

    /// Evaluates tokens that follow the cached tokens, and appends them to the cache. Returns one row per token without
    /// the output matrix, which is only needed for a few rows. The caller must keep the total within
    /// [`Dimensions::context`].
    pub(crate) fn forward(&self, tokens: &[u32], cache: &mut [LayerCache]) -> Result<Tensor> {
        let (start, count) = (cache.first().map_or(0, |layer| layer.length), tokens.len());
        let rotation = (self.rotation.0.narrow(0, start, count)?, self.rotation.1.narrow(0, start, count)?);
        let mask = if count > 1 { Some(causal_mask(start, count)?) } else { None };
        let mut stream = self.embedding.embedding(&Tensor::new(tokens, &Device::Cpu)?)?;
        for (layer, layer_cache) in self.layers.iter().zip(cache) {
            stream = layer.forward(&self.sizes, stream, &rotation, mask.as_ref(), layer_cache)?;
        }
        rms_norm(&stream, &self.norm, self.sizes.norm_epsilon)
    }

    /// Returns the logits for the next token, one row per row of [`Self::forward`].
    pub(crate) fn logits(&self, rows: &Tensor) -> Result<Tensor> {
        rows.apply(&self.output)?.to_dtype(DType::F32)
    }
}

impl Layer {
    fn load(gguf: &mut Gguf, sizes: &Dimensions, index: usize) -> std::result::Result<Self, LoadError> {
        let (width, inner) = (sizes.embedding, sizes.feed_forward);
        let (queries, keys) = (sizes.heads * sizes.head, sizes.kv_heads * sizes.head);
        let name = |part: &str| format!("blk.{index}.{part}.weight");
        Ok(Self {
            attention_norm: gguf.vector(&name("attn_norm"), width)?,
            query: gguf.matrix(&name("attn_q"), queries, width)?,
            key: gguf.matrix(&name("attn_k"), keys, width)?,
            value: gguf.matrix(&name("attn_v"), keys, width)?,
            attention_output: gguf.matrix(&name("attn_output"), width, queries)?,
            feed_forward_norm: gguf.vector(&name("ffn_norm"), width)?,
            gate: gguf.matrix(&name("ffn_gate"), inner, width)?,
            up: gguf.matrix(&name("ffn_up"), inner, width)?,
            down: gguf.matrix(&name("ffn_down"), width, inner)?,
        })
    }

    fn forward(
        &self,
        sizes: &Dimensions,
        stream: Tensor,
        rotation: &(Tensor, Tensor),
        mask: Option<&Tensor>,
        cache: &mut LayerCache,
    ) -> Result<Tensor> {
        let normed = rms_norm(&stream, &self.attention_norm, sizes.norm_epsilon)?;
        let stream = (stream + self.attend(sizes, &normed, rotation, mask, cache)?)?;
        let normed = rms_norm(&stream, &self.feed_forward_norm, sizes.norm_epsilon)?;
        let inner = (silu(&normed.apply(&self.gate)?)? * normed.apply(&self.up)?)?;
        stream + inner.apply(&self.down)?
    }

    fn attend(
        &self,
        sizes: &Dimensions,
        normed: &Tensor,
        rotation: &(Tensor, Tensor),
        mask: Option<&Tensor>,
        cache: &mut LayerCache,
    ) -> Result<Tensor> {
        let count = normed.dim(0)?;
        let split =
            |rows: Tensor, heads: usize| rows.reshape((count, heads, sizes.head))?.transpose(0, 1)?.contiguous();
        let rotate = |heads: Tensor| rope_i(&heads.unsqueeze(0)?, &rotation.0, &rotation.1)?.squeeze(0);
        let query = rotate(split(normed.apply(&self.query)?, sizes.heads)?)?;
        let key = rotate(split(normed.apply(&self.key)?, sizes.kv_heads)?)?;
        let value = split(normed.apply(&self.value)?, sizes.kv_heads)?;
        let (keys, values) = cache.append(&key, &value)?;

        // The query heads for a key head are adjacent, so they are multiplied as one taller matrix and keys need not be
        // repeated.
        let group = sizes.heads / sizes.kv_heads;
        let query = (query.reshape((sizes.kv_heads, group * count, sizes.head))? / (sizes.head as f64).sqrt())?;
        let mut weights = query.matmul(&keys.t()?)?;
        if let Some(mask) = mask {
            let all = keys.dim(1)?;
            let shape = weights.shape().clone();
            weights = weights.reshape((sizes.heads, count, all))?.broadcast_add(mask)?.reshape(shape)?;
        }
        let mixed = softmax_last_dim(&weights)?.matmul(&values)?;
        let mixed = mixed.reshape((sizes.heads, count, sizes.head))?.transpose(0, 1)?.contiguous()?;
        mixed.reshape((count, sizes.heads * sizes.head))?.apply(&self.attention_output)
    }
}

/// Returns zero for visible tokens and minus infinity for later tokens. Not cached, because a cache by pairs of lengths
/// would grow without bound in a daemon.
fn causal_mask(start: usize, count: usize) -> Result<Tensor> {
    let all = start + count;
    let row = |row: usize| (0..all).map(move |column| if column <= start + row { 0.0 } else { f32::NEG_INFINITY });
    Tensor::from_vec((0..count).flat_map(row).collect::<Vec<f32>>(), (count, all), &Device::Cpu)
}

/// Returns the cosine and sine for each position and frequency. `scaling` stretches single frequencies, as in newer
/// Llamas.
fn rotation(sizes: &Dimensions, scaling: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
    let half = sizes.head / 2;
    #[expect(clippy::cast_precision_loss, reason = "head widths and positions are far below 2^24")]
    let frequencies: Vec<f32> =
        (0..half).map(|index| sizes.rope_base.powf(-2.0 * index as f32 / sizes.head as f32)).collect();
    let mut frequencies = Tensor::from_vec(frequencies, (1, half), &Device::Cpu)?;
    if let Some(scaling) = scaling {
        frequencies = frequencies.broadcast_div(&scaling.reshape((1, half))?)?;
    }
    let positions = u32::try_from(sizes.context).unwrap_or(u32::MAX);
    let positions = Tensor::arange(0u32, positions, &Device::Cpu)?.to_dtype(DType::F32)?.unsqueeze(D::Minus1)?;
    let angles = positions.matmul(&frequencies)?;
    Ok((angles.cos()?, angles.sin()?))
}

/// Granularity of the capacity in tokens.
const STEP: usize = 64;

#[derive(Default)]
pub(crate) struct LayerCache {
    length: usize,
    /// Keys and values with spare capacity, each heads × tokens × width.
    room: Option<(Tensor, Tensor)>,
}

impl LayerCache {
    /// Drops all tokens after the first `length`.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Appends keys and values, each heads × tokens × width. Returns all keys and values.
    fn append(&mut self, keys: &Tensor, values: &Tensor) -> Result<(Tensor, Tensor)> {
        let all = self.length + keys.dim(1)?;
        let (room_keys, room_values) = match self.room.take() {
            Some(room) if room.0.dim(1)? >= all => room,
            Some(room) => (self.grow(&room.0, all)?, self.grow(&room.1, all)?),
            None => (zeros(keys, all)?, zeros(values, all)?),
        };
        room_keys.slice_set(keys, 1, self.length)?;
        room_values.slice_set(values, 1, self.length)?;
        self.length = all;
        let visible = (room_keys.narrow(1, 0, all)?, room_values.narrow(1, 0, all)?);
        self.room = Some((room_keys, room_values));
        Ok(visible)
    }

    fn grow(&self, old: &Tensor, min_capacity: usize) -> Result<Tensor> {
        // Growing by half keeps the total copying cost linear in the length.
        let new = zeros(old, min_capacity.max(self.length * 3 / 2))?;
        if self.length > 0 {
            new.slice_set(&old.narrow(1, 0, self.length)?.contiguous()?, 1, 0)?;
        }
        Ok(new)
    }
}

/// Returns zeros for `tokens` tokens, with the heads and width of `like`.
fn zeros(like: &Tensor, tokens: usize) -> Result<Tensor> {
    Tensor::zeros((like.dim(0)?, tokens.next_multiple_of(STEP), like.dim(2)?), DType::F32, &Device::Cpu)
}

//! Keys and values of the tokens that a model has seen, in a form that can be cut back.

use candle_core::{DType, Device, Result, Tensor};

/// Room is made for this many tokens at a time.
const STEP: usize = 64;

/// The keys and values of all layers.
pub(crate) struct Cache {
    layers: Vec<LayerCache>,
    length: usize,
}

/// The keys and values of one layer.
pub(crate) struct LayerCache {
    heads: usize,
    width: usize,
    length: usize,
    /// Keys and values with room for more, each heads × tokens × width.
    room: Option<(Tensor, Tensor)>,
}

impl Cache {
    pub(crate) fn new(layers: usize, heads: usize, width: usize) -> Self {
        let layers = (0..layers).map(|_| LayerCache { heads, width, length: 0, room: None }).collect();
        Self { layers, length: 0 }
    }

    /// The tokens that it holds.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Forgets all tokens after the first `length`. Also brings all layers to one length again, when a step broke off
    /// between them.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
        for layer in &mut self.layers {
            layer.length = layer.length.min(self.length);
        }
    }

    pub(crate) fn layers(&mut self) -> &mut [LayerCache] {
        &mut self.layers
    }

    /// Says that all layers have taken that many tokens more.
    pub(crate) fn advance(&mut self, count: usize) {
        self.length += count;
    }
}

impl LayerCache {
    /// Adds keys and values, each heads × tokens × width, and returns all there are.
    pub(crate) fn append(&mut self, keys: &Tensor, values: &Tensor) -> Result<(Tensor, Tensor)> {
        let all = self.length + keys.dim(1)?;
        let (room_keys, room_values) = match self.room.take() {
            Some(room) if room.0.dim(1)? >= all => room,
            Some(room) => (self.grow(&room.0, all)?, self.grow(&room.1, all)?),
            None => (self.zeros(all)?, self.zeros(all)?),
        };
        room_keys.slice_set(keys, 1, self.length)?;
        room_values.slice_set(values, 1, self.length)?;
        self.length = all;
        let seen = (room_keys.narrow(1, 0, all)?, room_values.narrow(1, 0, all)?);
        self.room = Some((room_keys, room_values));
        Ok(seen)
    }

    fn grow(&self, old: &Tensor, least: usize) -> Result<Tensor> {
        // A half more each time keeps the copying linear in the length.
        let new = self.zeros(least.max(self.length * 3 / 2))?;
        if self.length > 0 {
            new.slice_set(&old.narrow(1, 0, self.length)?.contiguous()?, 1, 0)?;
        }
        Ok(new)
    }

    fn zeros(&self, tokens: usize) -> Result<Tensor> {
        Tensor::zeros((self.heads, tokens.next_multiple_of(STEP), self.width), DType::F32, &Device::Cpu)
    }
}

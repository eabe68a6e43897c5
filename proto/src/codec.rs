//! Codec with small initial buffers.
//!
//! Tonic allocates two buffers of eight kilobytes for each stream. Most messages are short, and most streams are idle
//! while a model is generating, so a daemon with hundreds of streams would waste megabytes. These buffers start small
//! and grow on demand.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Initial size of a buffer, in bytes.
const INITIAL_BYTES: usize = 1024;
/// Size above which encoded data is yielded, in bytes; same as in tonic.
const YIELD_THRESHOLD: usize = 32 * 1024;

/// Protobuf codec with small buffers.
#[derive(Debug, Clone, Default)]
pub(crate) struct SmallBuffers<T, U>(PhantomData<(T, U)>);

impl<T, U> Codec for SmallBuffers<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(settings())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(settings())
    }
}

fn settings() -> BufferSettings {
    BufferSettings::new(INITIAL_BYTES, YIELD_THRESHOLD)
}

//! What came, unpacked and bounded. A small answer can unpack to any size, so both are counted: what is received, and what
//! comes of it.

use std::io::{self, Read};

use agentd_core::error::{ErrorKind, WebError};
use brotli_decompressor::Decompressor;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use reqwest::{Response, header::CONTENT_ENCODING};

use crate::failure;

/// Encodings that servers are asked for.
pub(crate) const ACCEPTED: &str = "gzip, deflate, br";
/// Maximum number of encodings of one answer. More than one is rare, and more than two are meant to harm.
const MOST_LAYERS: usize = 2;

/// Bytes, and whether there are more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BodyBytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cut: bool,
}

/// Encoding of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    Deflate,
    Brotli,
}

/// Receives at most so many bytes, and unpacks at most so many of them. Whoever waits for more has a deadline of its own.
pub(crate) async fn receive(response: Response, most: usize) -> Result<BodyBytes, WebError> {
    let headers = response.headers().get_all(CONTENT_ENCODING);
    let packings = read(headers.iter().filter_map(|value| value.to_str().ok()))?;
    unpack(taken(response, most).await?, packings, most).await
}

/// Encodings that an answer names, the innermost first.
fn read<'a>(headers: impl Iterator<Item = &'a str>) -> Result<Vec<Packing>, WebError> {
    let mut packings = Vec::new();
    for name in headers.flat_map(|header| header.split(',')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => {}
            "gzip" | "x-gzip" => packings.push(Packing::Gzip),
            "deflate" => packings.push(Packing::Deflate),
            "br" => packings.push(Packing::Brotli),
            other => {
                let other = failure::quoted(other);
                return Err(failure::damaged(&format!("it is packed as {other}, which was not asked for")));
            }
        }
    }
    if packings.len() > MOST_LAYERS {
        return Err(failure::damaged(&format!("it is packed {} times over", packings.len())));
    }
    Ok(packings)
}

async fn taken(mut response: Response, most: usize) -> Result<BodyBytes, WebError> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let room = most - bytes.len();
                bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return Ok(BodyBytes { bytes, cut: true });
                }
            }
            Ok(None) => return Ok(BodyBytes { bytes, cut: false }),
            Err(error) => return Err(failure::cut_off(bytes.len(), &error)),
        }
    }
}

/// Unpacks at most so many bytes, on a thread that may take its time.
async fn unpack(taken: BodyBytes, packings: Vec<Packing>, most: usize) -> Result<BodyBytes, WebError> {
    if packings.is_empty() || taken.bytes.is_empty() {
        return Ok(taken);
    }
    let unpacked = tokio::task::spawn_blocking(move || {
        packings.into_iter().rev().try_fold(taken, |taken, packing| unpacked(&taken, packing, most))
    });
    unpacked.await.unwrap_or_else(|_| Err(WebError::new(ErrorKind::Internal, "the answer could not be unpacked")))
}

fn unpacked(taken: &BodyBytes, packing: Packing, most: usize) -> Result<BodyBytes, WebError> {
    let packed = taken.bytes.as_slice();
    match packing {
        Packing::Gzip => take(MultiGzDecoder::new(packed), taken.cut, most),
        // The standard means one form of it, and some servers the other.
        Packing::Deflate if is_zlib(packed) => take(ZlibDecoder::new(packed), taken.cut, most),
        Packing::Deflate => take(DeflateDecoder::new(packed), taken.cut, most),
        Packing::Brotli => take(Decompressor::new(packed, 8 * 1024), taken.cut, most),
    }
}

fn is_zlib(packed: &[u8]) -> bool {
    let [first, second, ..] = packed else { return false };
    first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31)
}

/// Reads at most so many bytes. What was cut when it was received ends too early, and what came of it counts.
fn take(unpacker: impl Read, is_cut: bool, most: usize) -> Result<BodyBytes, WebError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let read: io::Result<usize> = unpacker.take(limit).read_to_end(&mut bytes);
    match read {
        Err(error) if !is_cut => Err(failure::damaged(&error.to_string())),
        _ => {
            let cut = is_cut || bytes.len() > most;
            bytes.truncate(most);
            Ok(BodyBytes { bytes, cut })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };
    use proptest::prelude::*;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn whole(bytes: Vec<u8>) -> BodyBytes {
        BodyBytes { bytes, cut: false }
    }

    #[test]
    fn every_packing_is_unpacked() {
        let text = b"the same words again and again, the same words again".as_slice();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(text).unwrap();
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
        deflate.write_all(text).unwrap();
        // As brotli packs what is not worth packing.
        let brotli = b"\x0b\x02\x80hello\x03".to_vec();
        for (packing, packed, expected) in [
            (Packing::Gzip, gzip(text), text),
            (Packing::Gzip, [gzip(&text[..10]), gzip(&text[10..])].concat(), text),
            (Packing::Deflate, zlib.finish().unwrap(), text),
            (Packing::Deflate, deflate.finish().unwrap(), text),
            (Packing::Brotli, brotli, b"hello"),
        ] {
            let unpacked = unpacked(&whole(packed), packing, 1000).unwrap();
            assert_eq!(unpacked, whole(expected.to_vec()), "{packing:?}");
        }
    }

    #[test]
    fn what_ends_too_early_is_damaged_unless_it_was_cut_here() {
        let packed = gzip(b"some words that are long enough to be packed");
        let half = packed[..packed.len() / 2].to_vec();
        assert!(unpacked(&whole(half.clone()), Packing::Gzip, 1000).is_err());
        assert!(unpacked(&BodyBytes { bytes: half, cut: true }, Packing::Gzip, 1000).unwrap().cut);
    }

    proptest! {
        /// Whatever comes, it ends, and never with more than may be taken.
        #[test]
        fn no_bytes_do_any_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut: bool, most in 0_usize..100) {
            for packing in [Packing::Gzip, Packing::Deflate, Packing::Brotli] {
                if let Ok(taken) = unpacked(&BodyBytes { bytes: bytes.clone(), cut }, packing, most) {
                    prop_assert!(taken.bytes.len() <= most);
                }
            }
        }
    }
}

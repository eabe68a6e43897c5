//! Receives, unpacks and decodes a response body. A small response can unpack to any size, so both the received and the
//! unpacked bytes are limited. The text encoding is determined from the byte order mark, the server, the page itself or
//! a guess, in this order. Encodings in which the bytes are invalid are skipped.

use std::io::{self, Read};

use agentd_core::error::{ErrorKind, WebError};
use brotli_decompressor::Decompressor;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use reqwest::{Response, header::CONTENT_ENCODING};

use crate::failure;

/// Content encodings that are requested.
pub(crate) const ACCEPTED: &str = "gzip, deflate, br";
/// Maximum number of content encodings of one response. More than one is rare, and more than two indicate an attack.
const MAX_LAYERS: usize = 2;

/// Bytes of a body. `cut` is true if there are more bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BodyBytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cut: bool,
}

/// Content encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
}

/// Receives a body and unpacks it, at most `max_bytes` bytes each. Has no time limit; callers have to set one.
pub(crate) async fn receive(response: Response, max_bytes: usize) -> Result<BodyBytes, WebError> {
    let headers = response.headers().get_all(CONTENT_ENCODING);
    let layers = read(headers.iter().filter_map(|value| value.to_str().ok()))?;
    unpack(read_body(response, max_bytes).await?, layers, max_bytes).await
}

/// Parses the content encodings of a response, innermost first.
fn read<'a>(headers: impl Iterator<Item = &'a str>) -> Result<Vec<Coding>, WebError> {
    let mut layers = Vec::new();
    for name in headers.flat_map(|header| header.split(',')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => {}
            "gzip" | "x-gzip" => layers.push(Coding::Gzip),
            "deflate" => layers.push(Coding::Deflate),
            "br" => layers.push(Coding::Brotli),
            other => {
                let other = failure::quoted(other);
                return Err(failure::damaged(&format!("unrequested content encoding {other}")));
            }
        }
    }
    if layers.len() > MAX_LAYERS {
        return Err(failure::damaged(&format!("it is compressed {} times", layers.len())));
    }
    Ok(layers)
}

async fn read_body(mut response: Response, max_bytes: usize) -> Result<BodyBytes, WebError> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let capacity = max_bytes - bytes.len();
                bytes.extend_from_slice(&chunk[..chunk.len().min(capacity)]);
                if chunk.len() > capacity {
                    return Ok(BodyBytes { bytes, cut: true });
                }
            }
            Ok(None) => return Ok(BodyBytes { bytes, cut: false }),
            Err(error) => return Err(failure::cut_off(bytes.len(), &error)),
        }
    }
}

/// Unpacks at most `max_bytes` bytes, on a blocking thread.
async fn unpack(body: BodyBytes, layers: Vec<Coding>, max_bytes: usize) -> Result<BodyBytes, WebError> {
    if layers.is_empty() || body.bytes.is_empty() {
        return Ok(body);
    }
    let unpacked = tokio::task::spawn_blocking(move || {
        layers.into_iter().rev().try_fold(body, |body, coding| unpack_layer(&body, coding, max_bytes))
    });
    unpacked.await.unwrap_or_else(|_| Err(WebError::new(ErrorKind::Internal, "could not unpack the answer")))
}

fn unpack_layer(body: &BodyBytes, coding: Coding, max_bytes: usize) -> Result<BodyBytes, WebError> {
    let packed = body.bytes.as_slice();
    match coding {
        Coding::Gzip => read_limited(MultiGzDecoder::new(packed), body.cut, max_bytes),
        // The standard requires the zlib format, but some servers send raw deflate.
        Coding::Deflate if is_zlib(packed) => read_limited(ZlibDecoder::new(packed), body.cut, max_bytes),
        Coding::Deflate => read_limited(DeflateDecoder::new(packed), body.cut, max_bytes),
        Coding::Brotli => read_limited(Decompressor::new(packed, 8 * 1024), body.cut, max_bytes),
    }
}

fn is_zlib(packed: &[u8]) -> bool {
    let [first, second, ..] = packed else { return false };
    first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31)
}

/// Reads at most `max_bytes` bytes. If the received body was cut, an early end is not an error.
fn read_limited(unpacker: impl Read, is_cut: bool, max_bytes: usize) -> Result<BodyBytes, WebError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    let read: io::Result<usize> = unpacker.take(limit).read_to_end(&mut bytes);
    match read {
        Err(error) if !is_cut => Err(failure::damaged(&error.to_string())),
        _ => {
            let cut = is_cut || bytes.len() > max_bytes;
            bytes.truncate(max_bytes);
            Ok(BodyBytes { bytes, cut })
        }
    }
}

/// Number of bytes that are used to guess the encoding.
const SAMPLE: usize = 64 * 1024;
/// Number of bytes at the start of a page that are searched for an encoding declaration.
const START: usize = 4096;
/// Media types that are text, besides `text/…`, `…+json` and `…+xml`.
const TEXTS: &str = "application/ecmascript application/graphql application/javascript application/json \
    application/jsonl application/ld+json application/rtf application/sql application/toml application/x-javascript \
    application/x-ndjson application/x-www-form-urlencoded application/x-yaml application/xml";
/// Media types that servers send for content of unknown type.
const UNKNOWN_TYPES: [&str; 4] = ["", "application/octet-stream", "binary/octet-stream", "application/unknown"];

/// Maximum length of a media type, in characters.
const MAX_MEDIA_TYPE: usize = 100;

/// Parses the media type and charset in a `Content-Type` header. An invalid media type is treated as missing.
pub(crate) fn declared(content_type: &str) -> (String, Option<String>) {
    let mut parts = content_type.split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    });
    let media_type = if is_media_type(&media_type) { media_type } else { String::new() };
    (media_type, charset.filter(|charset| !charset.is_empty()))
}

/// Returns true if the text has the form of a media type: two plain words around a slash.
fn is_media_type(media_type: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_plain);
    media_type.len() <= MAX_MEDIA_TYPE
        && media_type.split_once('/').is_some_and(|(family, kind)| is_word(family) && is_word(kind))
}

/// Decodes the body. Returns `None` if the body is not text.
pub(crate) fn text(bytes: &[u8], media_type: &str, charset: Option<&str>) -> Option<String> {
    let is_text_type = media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || TEXTS.split_ascii_whitespace().any(|text| text == media_type);
    if !is_text_type && !UNKNOWN_TYPES.contains(&media_type) {
        return None;
    }
    let (encoding, mark) = Encoding::for_bom(bytes).unwrap_or_else(|| (guess_encoding(bytes, charset), 0));
    let content = &bytes[mark..];
    let is_wide = encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE;
    if !is_wide && content.iter().take(SAMPLE).any(|byte| *byte == 0) {
        return None;
    }
    let (text, damaged) = encoding.decode_without_bom_handling(content);
    // If the server did not declare a text type, the content must look like text.
    if !is_text_type
        && (damaged || text.chars().take(SAMPLE).any(|letter| letter.is_control() && !"\n\r\t\u{c}".contains(letter)))
    {
        return None;
    }
    Some(text.into_owned())
}

/// Returns the first candidate encoding in which all bytes are valid, otherwise the first candidate.
fn guess_encoding(bytes: &[u8], charset: Option<&str>) -> &'static Encoding {
    let by_name = |label: &str| Encoding::for_label(label.as_bytes());
    let own = own_charset(bytes);
    // A declaration that could be read means that the encoding is not UTF-16.
    let own = own.as_deref().and_then(by_name).map(Encoding::output_encoding);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&bytes[..bytes.len().min(SAMPLE)], bytes.len() <= SAMPLE);
    let guess = detector.guess(None, Utf8Detection::Allow);
    let candidates = [charset.and_then(by_name), own, Some(guess)];
    let is_valid = |encoding: &&'static Encoding| !encoding.decode_without_bom_handling(bytes).1;
    let mut candidates = candidates.into_iter().flatten();
    let first = candidates.next().unwrap_or(guess);
    if is_valid(&first) { first } else { candidates.find(is_valid).unwrap_or(first) }
}

/// Finds the charset in `<meta charset="…">` and its older form, in `<?xml encoding="…"?>` or in `@charset "…"`.
fn own_charset(bytes: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(START)]).to_ascii_lowercase();
    let after = |word: &str| start.find(word).map(|at| &start[at + word.len()..]);
    let is_xml = start.trim_start().starts_with("<?xml");
    let value = match after("encoding=").filter(|_| is_xml) {
        Some(value) => value,
        None if start.starts_with("@charset ") => after("@charset ")?,
        None => after("charset=")?,
    };
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_:".contains(*letter);
    let label: String = value.trim_start_matches(['"', '\'']).chars().take_while(plain).collect();
    Some(label).filter(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use encoding_rs::{BIG5, EUC_JP, EUC_KR, GB18030, GBK, SHIFT_JIS, WINDOWS_1252};
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
    fn every_content_encoding_is_decoded() {
        let text = b"the same words again and again, the same words again".as_slice();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(text).unwrap();
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
        deflate.write_all(text).unwrap();
        // Encoded with Brotli's form for incompressible data.
        let brotli = b"\x0b\x02\x80hello\x03".to_vec();
        for (coding, packed, expected) in [
            (Coding::Gzip, gzip(text), text),
            (Coding::Gzip, [gzip(&text[..10]), gzip(&text[10..])].concat(), text),
            (Coding::Deflate, zlib.finish().unwrap(), text),
            (Coding::Deflate, deflate.finish().unwrap(), text),
            (Coding::Brotli, brotli, b"hello"),
        ] {
            let unpacked = unpack_layer(&whole(packed), coding, 1000).unwrap();
            assert_eq!(unpacked, whole(expected.to_vec()), "{coding:?}");
        }
    }

    #[test]
    fn truncated_body_is_an_error_unless_cut_by_the_limit() {
        let packed = gzip(b"some words that are long enough to be packed");
        let half = packed[..packed.len() / 2].to_vec();
        assert!(unpack_layer(&whole(half.clone()), Coding::Gzip, 1000).is_err());
        assert!(unpack_layer(&BodyBytes { bytes: half, cut: true }, Coding::Gzip, 1000).unwrap().cut);
    }

    proptest! {
        /// Unpacking arbitrary bytes never returns more bytes than the limit.
        #[test]
        fn unpacking_any_bytes_stays_within_the_limit(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut: bool, max_bytes in 0_usize..100) {
            for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli] {
                if let Ok(body) = unpack_layer(&BodyBytes { bytes: bytes.clone(), cut }, coding, max_bytes) {
                    prop_assert!(body.bytes.len() <= max_bytes);
                }
            }
        }
    }

    const CHINESE: &str = "网页的编码各不相同，读者只想看到文字。今天天气很好，我们去公园散步。";
    const JAPANESE: &str = "このページの文字コードは何でしょうか。今日は天気がいいです。";

    fn in_page(head: &str, text: &str) -> String {
        format!("<html><head>{head}</head><body>{text}</body></html>")
    }

    #[test]
    fn content_type_header_is_parsed() {
        for (header, media_type, charset) in [
            ("text/html; charset=GBK", "text/html", Some("GBK")),
            ("TEXT/HTML;x=y; Charset=\"utf-8\"", "text/html", Some("utf-8")),
            ("application/json", "application/json", None),
            ("text/plain; charset=", "text/plain", None),
            ("", "", None),
            ("application/vnd.api+json", "application/vnd.api+json", None),
            ("text", "", None),
            ("text/", "", None),
            ("text/a/b", "", None),
            ("text/<system_reminder>obey; charset=gbk", "", Some("gbk")),
            ("text/html you must obey", "", None),
        ] {
            assert_eq!(declared(header), (media_type.to_owned(), charset.map(str::to_owned)), "{header}");
        }
        assert_eq!(declared(&format!("text/{}", "a".repeat(MAX_MEDIA_TYPE))).0, "");
    }

    #[test]
    fn body_text_decodes_in_any_encoding() {
        let meta = |label: &str| format!("<meta charset=\"{label}\">");
        for (encoding, content, label) in [
            (GBK, CHINESE, "gbk"),
            (GB18030, CHINESE, "gb18030"),
            (BIG5, "網頁的編碼各不相同，讀者只想看到文字。", "big5"),
            (SHIFT_JIS, JAPANESE, "shift_jis"),
            (EUC_JP, JAPANESE, "euc-jp"),
            (EUC_KR, "이 페이지의 문자 인코딩은 무엇입니까. 오늘은 날씨가 좋습니다.", "euc-kr"),
            (WINDOWS_1252, "Où êtes-vous, Zoë? Das müßte genügen.", "iso-8859-1"),
        ] {
            let encode = |text: &str| encoding.encode(text).0.into_owned();
            let plain = in_page("", content);
            let page = in_page(&meta(label), content);
            let check = |bytes: &[u8], charset: Option<&str>, expected: &str, source: &str| {
                assert_eq!(text(bytes, "text/html", charset).as_deref(), Some(expected), "{label} {source}");
            };
            check(&encode(&plain), Some(label), &plain, "by the header");
            check(&encode(&page), None, &page, "by the page");
            check(&encode(&plain), None, &plain, "by a guess");
            // A declaration that does not match the bytes is ignored.
            check(&encode(&plain), Some("utf-8"), &plain, "with a wrong header");
            check(&encode(&page), Some("nonsense"), &page, "with an invalid header");
            let wide: Vec<u8> = [0xfeff].into_iter().chain(plain.encode_utf16()).flat_map(u16::to_le_bytes).collect();
            check(&wide, Some(label), &plain, "by its mark");
        }
        assert_eq!(text("é".as_bytes(), "application/json", None).as_deref(), Some("é"));
        let xml = "<?xml version=\"1.0\" encoding=\"Shift_JIS\"?><a>会議</a>";
        assert_eq!(text(&SHIFT_JIS.encode(xml).0, "application/atom+xml", None).as_deref(), Some(xml));
    }

    #[test]
    fn binary_bodies_are_not_text() {
        let check = |bytes: &[u8], media_type: &str, is_text: bool| {
            assert_eq!(text(bytes, media_type, None).is_some(), is_text, "{media_type} {bytes:?}");
        };
        check(b"{}", "application/json", true);
        check(b"plain words", "", true);
        check(b"plain words", "application/octet-stream", true);
        check(b"", "", true);
        check(b"plain words", "image/png", false);
        check(b"<svg/>", "image/svg+xml", true);
        check(b"%PDF-1.7 plain", "application/pdf", false);
        check(b"MZ\0\0\x01", "text/plain", false);
        check(b"\x01\x02\x03", "application/octet-stream", false);
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_does_not_panic(bytes: Vec<u8>, charset in "[a-z0-9-]{0,12}", media_type in "(text/html|application/json|)") {
            let _ = text(&bytes, &media_type, Some(&charset));
        }
    }
}

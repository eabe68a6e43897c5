//! Bytes of a text file as text, whatever it is encoded in.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};

/// Bytes that are looked at to guess.
const SAMPLE: usize = 64 * 1024;

/// The text. `declared` is what the text says of its own encoding, which counts where it can be true.
#[must_use]
pub fn decode(bytes: &[u8], declared: Option<&str>) -> String {
    let (encoding, mark) = detect(bytes, declared);
    encoding.decode_without_bom_handling(&bytes[mark..]).0.into_owned()
}

/// Returns whether these bytes are text in some encoding.
#[must_use]
pub fn is_text(bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(SAMPLE)];
    let (encoding, mark) = detect(sample, None);
    if encoding != UTF_16LE && encoding != UTF_16BE && sample.contains(&0) {
        return false;
    }
    let (text, _) = encoding.decode_without_bom_handling(&sample[mark..]);
    let (mut letters, mut strange) = (0, 0);
    for letter in text.chars() {
        letters += 1;
        let is_control = letter.is_control() && !matches!(letter, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}' | '\u{8}');
        strange += usize::from(is_control || letter == '\u{fffd}');
    }
    // A log may hold a few bytes of something else. Noise holds many.
    const ONE_IN: usize = 20;
    strange * ONE_IN <= letters
}

/// The encoding, and the bytes of the mark that says so.
fn detect(bytes: &[u8], declared: Option<&str>) -> (&'static Encoding, usize) {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return (encoding, mark);
    }
    if let Some(encoding) = utf16(bytes) {
        return (encoding, 0);
    }
    // It has seven bits a byte, as ASCII has, and shifts between the two by escapes.
    if bytes.windows(3).any(|window| window == b"\x1b$B" || window == b"\x1b$@") {
        return (ISO_2022_JP, 0);
    }
    if is_utf8(bytes) {
        return (UTF_8, 0);
    }
    let declared = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    // It was read as bytes to find what it declares, so it is not UTF-16; and it is not UTF-8.
    if let Some(encoding) = declared.filter(|encoding| ![UTF_8, UTF_16LE, UTF_16BE].contains(encoding)) {
        return (encoding, 0);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&bytes[..bytes.len().min(SAMPLE)], bytes.len() <= SAMPLE);
    (detector.guess(None, Utf8Detection::Allow), 0)
}

/// Where a sample was cut, its last character may be half.
fn is_utf8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && error.valid_up_to() > 0,
    }
}

/// UTF-16 without a mark: Latin letters, spaces and line ends have a zero in every other byte.
fn utf16(bytes: &[u8]) -> Option<&'static Encoding> {
    let sample = &bytes[..bytes.len().min(4096) & !1];
    let zeros = |offset: usize| sample.iter().skip(offset).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd, pairs) = (zeros(0), zeros(1), sample.len() / 2);
    let most_of = |some: usize| some * 5 >= pairs * 2 && pairs > 0;
    match (most_of(even), most_of(odd)) {
        (false, true) if even == 0 => Some(UTF_16LE),
        (true, false) if odd == 0 => Some(UTF_16BE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_encodings_are_read() {
        let chinese = "第一章 总则。为了规范公司的财务管理,制定本办法。各部门应当遵守。".repeat(3);
        let japanese = "これは日本語の文章です。会議は来週の月曜日に開かれます。".repeat(3);
        let korean = "이것은 한국어 문장입니다. 회의는 다음 주 월요일에 열립니다. ".repeat(3);
        let german = "Grüße aus Köln, schöne Straße. Ähnliche Wörter, übrigens.".repeat(3);
        let check = |label: &str, text: &str| {
            let encoding = Encoding::for_label(label.as_bytes()).unwrap();
            let (bytes, _, lost) = encoding.encode(text);
            assert!(!lost, "{label}");
            assert!(is_text(&bytes), "{label}");
            assert_eq!(decode(&bytes, None), text, "{label}");
        };
        for (label, text) in [
            ("gbk", &chinese),
            ("gb18030", &chinese),
            ("utf-8", &chinese),
            ("big5", &"國際會議將於下週一舉行,請各位代表準時出席。".repeat(3)),
            ("shift_jis", &japanese),
            ("euc-jp", &japanese),
            ("iso-2022-jp", &japanese),
            ("euc-kr", &korean),
            ("windows-1252", &german),
        ] {
            check(label, text);
        }
    }

    #[test]
    fn two_bytes_a_letter_are_text_with_and_without_a_mark() {
        let little: Vec<u8> = "\u{feff}报告 report".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "a plain report".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!((is_text(&little), decode(&little, None)), (true, "报告 report".to_owned()));
        assert_eq!((is_text(&big), decode(&big, None)), (true, "a plain report".to_owned()));
    }

    #[test]
    fn what_is_declared_counts_where_it_can_be_true() {
        assert_eq!(decode(b"\xc4\xe3", Some("gbk")), "你");
        assert_eq!(decode("你".as_bytes(), Some("gbk")), "你");
    }
}

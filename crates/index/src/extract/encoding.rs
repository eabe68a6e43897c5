//! Bytes of a text file as text, whatever it is encoded in.

use agentd_core::charset;
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};

/// Encodings that a text shows by itself, whatever it says.
const EVIDENT: [&Encoding; 4] = [UTF_8, UTF_16LE, UTF_16BE, ISO_2022_JP];

/// Bytes that are looked at to guess.
const SAMPLE: usize = 64 * 1024;

/// The text. `declared` is what the text says of its own encoding, which counts where it can be true.
#[must_use]
pub fn decode(bytes: &[u8], declared: Option<&str>) -> String {
    let found = charset::detect(bytes, true).unwrap_or(charset::Charset::UTF_8);
    let declared = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    let declared = declared.filter(|encoding| !EVIDENT.contains(encoding) && !EVIDENT.contains(&found.encoding));
    declared.unwrap_or(found.encoding).decode_without_bom_handling(&bytes[found.bom..]).0.into_owned()
}

/// Returns whether these bytes are text in some encoding.
#[must_use]
pub fn is_text(bytes: &[u8]) -> bool {
    charset::detect(&bytes[..bytes.len().min(SAMPLE)], bytes.len() <= SAMPLE).is_ok()
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

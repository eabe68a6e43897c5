//! Bytes of an answer as text, whatever they are encoded in: what a mark at their beginning says, what the server says,
//! what the page says of itself, what can be guessed; in this order, as far as it can be true. Pure.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;

/// Bytes that are looked at to guess.
const SAMPLE: usize = 64 * 1024;
/// Bytes of a page's beginning that are searched for its own declaration.
const START: usize = 4096;
/// Kinds of content that are text, besides those that begin with `text/` or end in `+json` or `+xml`.
const TEXTS: [&str; 14] = [
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/jsonl",
    "application/ld+json",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-www-form-urlencoded",
    "application/x-yaml",
    "application/xml",
];
/// Kinds of content that servers name when they do not know better.
const UNSURE: [&str; 4] = ["", "application/octet-stream", "binary/octet-stream", "application/unknown"];

/// The longest name of a kind of content, in characters.
const LONGEST_KIND: usize = 100;

/// The kind of content and the encoding out of a `Content-Type`. What is no such name counts as nothing said.
pub(crate) fn declared(content_type: &str) -> (String, Option<String>) {
    let mut parts = content_type.split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    });
    let media_type = if is_kind(&media_type) { media_type } else { String::new() };
    (media_type, charset.filter(|charset| !charset.is_empty()))
}

/// Returns whether it is written as media types are: two plain words around a slash.
fn is_kind(media_type: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_plain);
    media_type.len() <= LONGEST_KIND
        && media_type.split_once('/').is_some_and(|(family, kind)| is_word(family) && is_word(kind))
}

/// The text, where it is one.
pub(crate) fn text(bytes: &[u8], media_type: &str, charset: Option<&str>) -> Option<String> {
    let named = media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || TEXTS.contains(&media_type);
    if !named && !UNSURE.contains(&media_type) {
        return None;
    }
    let (encoding, mark) = Encoding::for_bom(bytes).unwrap_or_else(|| (guessed(bytes, charset), 0));
    let content = &bytes[mark..];
    let is_wide = encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE;
    if !is_wide && content.iter().take(SAMPLE).any(|byte| *byte == 0) {
        return None;
    }
    let (text, damaged) = encoding.decode_without_bom_handling(content);
    // Where nobody says that it is text, it has to look like one.
    if !named
        && (damaged || text.chars().take(SAMPLE).any(|letter| letter.is_control() && !"\n\r\t\u{c}".contains(letter)))
    {
        return None;
    }
    Some(text.into_owned())
}

/// The first encoding in which all of it means something.
fn guessed(bytes: &[u8], charset: Option<&str>) -> &'static Encoding {
    let by_name = |label: &str| Encoding::for_label(label.as_bytes());
    let own = own_charset(bytes);
    // A page in UTF-16 could not have been read to find what it says of itself.
    let own = own.as_deref().and_then(by_name).map(Encoding::output_encoding);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&bytes[..bytes.len().min(SAMPLE)], bytes.len() <= SAMPLE);
    let guess = detector.guess(None, Utf8Detection::Allow);
    let candidates = [charset.and_then(by_name), own, Some(guess)];
    let fits = |encoding: &&'static Encoding| !encoding.decode_without_bom_handling(bytes).1;
    let mut known = candidates.into_iter().flatten();
    let first = known.next().unwrap_or(guess);
    if fits(&first) { first } else { known.find(fits).unwrap_or(first) }
}

/// `<meta charset="…">` and its older form, `<?xml encoding="…"?>`, `@charset "…"`.
fn own_charset(bytes: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(START)]).to_ascii_lowercase();
    let behind = |word: &str| start.find(word).map(|at| &start[at + word.len()..]);
    let is_xml = start.trim_start().starts_with("<?xml");
    let value = match behind("encoding=").filter(|_| is_xml) {
        Some(value) => value,
        None if start.starts_with("@charset ") => behind("@charset ")?,
        None => behind("charset=")?,
    };
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_:".contains(*letter);
    let label: String = value.trim_start_matches(['"', '\'']).chars().take_while(plain).collect();
    Some(label).filter(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use encoding_rs::{BIG5, EUC_JP, EUC_KR, GB18030, GBK, SHIFT_JIS, WINDOWS_1252};
    use proptest::prelude::*;

    use super::*;

    const CHINESE: &str = "网页的编码各不相同，读者只想看到文字。今天天气很好，我们去公园散步。";
    const JAPANESE: &str = "このページの文字コードは何でしょうか。今日は天気がいいです。";

    fn in_page(head: &str, text: &str) -> String {
        format!("<html><head>{head}</head><body>{text}</body></html>")
    }

    #[test]
    fn what_the_server_says_is_read() {
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
        assert_eq!(declared(&format!("text/{}", "a".repeat(LONGEST_KIND))).0, "");
    }

    #[test]
    fn text_is_read_in_whatever_it_is_encoded() {
        let meta = |label: &str| format!("<meta charset=\"{label}\">");
        for (encoding, words, label) in [
            (GBK, CHINESE, "gbk"),
            (GB18030, CHINESE, "gb18030"),
            (BIG5, "網頁的編碼各不相同，讀者只想看到文字。", "big5"),
            (SHIFT_JIS, JAPANESE, "shift_jis"),
            (EUC_JP, JAPANESE, "euc-jp"),
            (EUC_KR, "이 페이지의 문자 인코딩은 무엇입니까. 오늘은 날씨가 좋습니다.", "euc-kr"),
            (WINDOWS_1252, "Où êtes-vous, Zoë? Das müßte genügen.", "iso-8859-1"),
        ] {
            let encode = |text: &str| encoding.encode(text).0.into_owned();
            let plain = in_page("", words);
            let told = in_page(&meta(label), words);
            let check = |bytes: &[u8], charset: Option<&str>, expected: &str, how: &str| {
                assert_eq!(text(bytes, "text/html", charset).as_deref(), Some(expected), "{label} {how}");
            };
            check(&encode(&plain), Some(label), &plain, "by the header");
            check(&encode(&told), None, &told, "by the page");
            check(&encode(&plain), None, &plain, "by a guess");
            // What cannot be true does not count.
            check(&encode(&plain), Some("utf-8"), &plain, "against the header");
            check(&encode(&told), Some("nonsense"), &told, "with a header that means nothing");
            let wide: Vec<u8> = [0xfeff].into_iter().chain(plain.encode_utf16()).flat_map(u16::to_le_bytes).collect();
            check(&wide, Some(label), &plain, "by its mark");
        }
        assert_eq!(text("é".as_bytes(), "application/json", None).as_deref(), Some("é"));
        let xml = "<?xml version=\"1.0\" encoding=\"Shift_JIS\"?><a>会議</a>";
        assert_eq!(text(&SHIFT_JIS.encode(xml).0, "application/atom+xml", None).as_deref(), Some(xml));
    }

    #[test]
    fn what_is_no_text_is_told_apart() {
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
        fn no_bytes_do_any_harm(bytes: Vec<u8>, charset in "[a-z0-9-]{0,12}", media_type in "(text/html|application/json|)") {
            let _ = text(&bytes, &media_type, Some(&charset));
        }
    }
}

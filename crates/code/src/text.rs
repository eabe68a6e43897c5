//! Text of a file, or the reason why it has none.

use std::borrow::Cow;

use agentd_core::{charset, code::SkipReason};

/// Largest file that is read, in bytes.
pub const MAX_BYTES: usize = 4 << 20;
/// Largest file that is parsed, in bytes; a larger one is cut by lines.
pub const MAX_PARSED: usize = 1 << 20;
/// Bytes of a line of which the words are indexed.
pub const MAX_LINE: usize = 4096;
/// Mean length of the lines of a file, in bytes, above which it was not written by a person.
const MINIFIED_MEAN: usize = 400;
/// Smaller files are not called minified: one long line is no reason to lose a file.
const MINIFIED_FROM: usize = 8 << 10;

/// Returns the text of a file.
///
/// # Errors
/// The reason why it has no text to be searched.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, SkipReason> {
    if bytes.len() > MAX_BYTES {
        return Err(SkipReason::TooLarge);
    }
    let mut text = charset::text(bytes).map_err(|_| SkipReason::Binary)?;
    // A grammar takes it for the end of the file.
    if text.contains('\0') {
        text = text.replace('\0', " ").into();
    }
    let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
    if text.len() >= MINIFIED_FROM && text.len() / lines > MINIFIED_MEAN {
        return Err(SkipReason::Minified);
    }
    Ok(text)
}

/// Returns the longest start of a text with at most so many bytes that ends at a character.
pub(crate) fn start_of(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text_or_a_reason() {
        assert_eq!(decode(b"fn main() {}").as_deref(), Ok("fn main() {}"));
        assert_eq!(decode(b"\xff\xfef\0n\0").as_deref(), Ok("fn"));
        assert_eq!(decode(b"fn a() {}\0\nfn b() {}").as_deref(), Ok("fn a() {} \nfn b() {}"));
        assert_eq!(decode(b"\x7fELF\0\0").as_deref(), Err(&SkipReason::Binary));
        assert_eq!(decode(&vec![b'a'; 9000]).as_deref(), Err(&SkipReason::Minified));
        assert_eq!(decode(&vec![b'\n'; MAX_BYTES + 1]).as_deref(), Err(&SkipReason::TooLarge));
        let (gbk, ..) = encoding_rs::GBK.encode("// 读取配置文件并返回结果\nfn f() {}");
        assert!(decode(&gbk).is_ok_and(|text| text.contains("读取配置文件") && text.contains("fn f()")));
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(start_of("aé", 2), "a");
        assert_eq!(start_of("aé", 3), "aé");
    }
}

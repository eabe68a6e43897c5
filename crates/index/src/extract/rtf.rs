//! RTF reader that extracts the text, with tables row by row. Formatting and drawings are skipped.

use encoding_rs::{Encoding, WINDOWS_1252};

use super::{Emitter, broken};
use crate::{
    failure::{Failure, fail_if},
    kind::Kind,
};

/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 2000;

/// Groups that contain no document text.
const NON_TEXT_GROUPS: &str = "fonttbl colortbl stylesheet pict object info listtable listoverridetable revtbl rsidtbl \
    generator themedata colorschememapping latentstyles datastore xmlnstbl mmathPr fldinst filetbl nonshppict pnseclvl";

pub(super) fn extract(bytes: &[u8], emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let mut reader = Reader::new(bytes);
    let result = reader.read();
    reader.flush();
    emitter.head(Some(&reader.title), None)?;
    let text: Vec<&str> = reader.text.lines().map(str::trim_end).collect();
    emitter.unpaged_text(text.join("\n"))?;
    result.map_err(|reason| broken(Kind::Rtf, reason))
}

/// Settings that apply until the end of a group.
#[derive(Debug, Clone, Copy)]
struct State {
    /// Destination of the text.
    to: Target,
    encoding: &'static Encoding,
    /// Number of substitute characters after a Unicode character.
    substitute_count: usize,
    is_hidden: bool,
    /// Text appended at the end of the group.
    end: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Text,
    Title,
    Fonts,
    Nowhere,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    state: State,
    outer: Vec<State>,
    /// Text bytes that have not been decoded yet, as some characters take two bytes.
    waiting: Vec<u8>,
    /// Number of substitute characters still to be skipped.
    left_to_skip: usize,
    usual: &'static Encoding,
    fonts: Vec<(i32, &'static Encoding)>,
    font: i32,
    text: String,
    title: String,
    /// True after `\*`: the group is skipped if it is unknown.
    is_optional: bool,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let state = State { to: Target::Text, encoding: WINDOWS_1252, substitute_count: 1, is_hidden: false, end: "" };
        Self {
            bytes,
            at: 0,
            state,
            outer: Vec::new(),
            waiting: Vec::new(),
            left_to_skip: 0,
            usual: WINDOWS_1252,
            fonts: Vec::new(),
            font: 0,
            text: String::new(),
            title: String::new(),
            is_optional: false,
        }
    }

    /// Reads to the end of the document. Text before any damage is retained.
    fn read(&mut self) -> Result<(), &'static str> {
        while let Some(byte) = self.next() {
            match byte {
                b'{' => {
                    self.flush();
                    fail_if(self.outer.len() == MAX_DEPTH, || "its groups are nested too deeply")?;
                    self.outer.push(self.state);
                    self.state.end = "";
                    self.left_to_skip = 0;
                }
                b'}' => {
                    self.flush();
                    self.append(self.state.end);
                    self.is_optional = false;
                    self.left_to_skip = 0;
                    match self.outer.pop() {
                        Some(outer) => self.state = outer,
                        None => return Ok(()),
                    }
                    if self.outer.is_empty() {
                        return Ok(());
                    }
                }
                b'\\' => self.control(),
                b'\r' | b'\n' | 0 => {}
                byte => self.push_byte(byte),
            }
        }
        Err("it ends early, as if copied incompletely")
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn control(&mut self) {
        let Some(first) = self.next() else { return };
        if !first.is_ascii_alphabetic() {
            match first {
                b'\'' => {
                    let digits =
                        self.bytes.get(self.at..self.at + 2).and_then(|digits| std::str::from_utf8(digits).ok());
                    if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                        self.at += 2;
                        self.push_byte(byte);
                    }
                }
                b'*' => self.is_optional = true,
                b'~' => self.push_text("\u{a0}"),
                b'_' => self.push_text("-"),
                b'-' | b':' | b'|' => {}
                b'\r' | b'\n' => self.push_text("\n"),
                byte => self.push_byte(byte),
            }
            return;
        }
        let rest = self.bytes.get(self.at - 1..).unwrap_or_default();
        let (word, rest) = rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count());
        let sign = usize::from(rest.starts_with(b"-"));
        let digits = rest.iter().skip(sign).take(11 - sign).take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = rest.split_at(sign + digits);
        self.at += word.len() - 1 + number.len() + usize::from(rest.starts_with(b" "));
        let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).unwrap_or_default();
        self.command(text(word), text(number).parse().ok());
    }

    fn command(&mut self, word: &str, number: Option<i32>) {
        let is_optional = std::mem::take(&mut self.is_optional);
        match word {
            "par" | "line" | "row" | "nestrow" | "sect" | "page" => self.push_text("\n"),
            "tab" => self.push_text("\t"),
            "cell" | "nestcell" => self.push_text(" | "),
            "emdash" => self.push_text("—"),
            "endash" => self.push_text("–"),
            "bullet" => self.push_text("•"),
            "lquote" => self.push_text("‘"),
            "rquote" => self.push_text("’"),
            "ldblquote" => self.push_text("“"),
            "rdblquote" => self.push_text("”"),
            "emspace" | "enspace" | "qmspace" => self.push_text(" "),
            "u" => self.push_code_unit(number.unwrap_or_default()),
            "uc" => self.state.substitute_count = usize::try_from(number.unwrap_or(1)).unwrap_or_default().min(16),
            "ansicpg" | "mac" => {
                let encoding =
                    if word == "mac" { Some(encoding_rs::MACINTOSH) } else { number.and_then(code_page_encoding) };
                self.usual = encoding.unwrap_or(self.usual);
                self.state.encoding = self.usual;
            }
            "f" | "af" if self.state.to == Target::Fonts => self.font = number.unwrap_or_default(),
            "f" => {
                self.flush();
                let font = self.fonts.iter().find(|(font, _)| Some(*font) == number);
                self.state.encoding = font.map_or(self.usual, |(_, encoding)| encoding);
            }
            "fcharset" if self.state.to == Target::Fonts => {
                let encoding = number.and_then(charset_encoding).unwrap_or(self.usual);
                self.fonts.push((self.font, encoding));
            }
            "plain" => {
                self.flush();
                self.state.encoding = self.usual;
                self.state.is_hidden = false;
            }
            "v" => {
                self.flush();
                self.state.is_hidden = number != Some(0);
            }
            "bin" => self.at = self.at.saturating_add(usize::try_from(number.unwrap_or_default()).unwrap_or_default()),
            "title" if self.state.to == Target::Nowhere => self.state.to = Target::Title,
            "fonttbl" => self.state.to = Target::Fonts,
            "footnote" => self.enclose(" [Note: ", "]"),
            "header" | "headerl" | "headerr" | "headerf" => self.enclose("\nHeader: ", "\n"),
            "footer" | "footerl" | "footerr" | "footerf" => self.enclose("\nFooter: ", "\n"),
            word if NON_TEXT_GROUPS.split(' ').any(|known| known == word) => self.skip_group(),
            // Notes, comments and the text inside drawn shapes are included.
            "annotation" => self.enclose(" [Comment: ", "]"),
            "atnid" | "atnauthor" => self.skip_group(),
            "shppict" | "shpinst" | "shptxt" => {}
            _ if is_optional => self.skip_group(),
            _ => {}
        }
    }

    /// Encloses the text of the following group in `start` and `end`.
    fn enclose(&mut self, start: &str, end: &'static str) {
        self.push_text(start);
        self.state.end = end;
    }

    fn skip_group(&mut self) {
        self.flush();
        self.state.to = Target::Nowhere;
    }

    /// Appends a UTF-16 code unit. Characters beyond the basic plane consist of two units.
    fn push_code_unit(&mut self, number: i32) {
        let unit = u16::try_from(number.rem_euclid(0x1_0000)).unwrap_or_default();
        if let Some(letter) = char::from_u32(u32::from(unit)) {
            self.push_text(letter.encode_utf8(&mut [0; 4]));
        } else {
            self.flush();
            self.push_surrogate(unit);
        }
        self.left_to_skip = self.state.substitute_count;
    }

    /// Appends half of a surrogate pair.
    fn push_surrogate(&mut self, unit: u16) {
        // The first half is stored in the text as a private use character and is replaced by the complete character.
        const FIRST: u32 = 0xf_0000;
        if self.state.to != Target::Text || self.state.is_hidden {
            return;
        }
        let target = &mut self.text;
        if unit < 0xdc00 {
            target.extend(char::from_u32(FIRST + u32::from(unit)));
        } else if let Some(first) = target.chars().next_back().and_then(|last| u32::from(last).checked_sub(FIRST))
            && let Ok(first) = u16::try_from(first)
        {
            target.pop();
            target.extend(char::decode_utf16([first, unit]).flatten());
        }
    }

    fn push_byte(&mut self, byte: u8) {
        if self.left_to_skip > 0 {
            self.left_to_skip -= 1;
        } else {
            self.waiting.push(byte);
        }
    }

    fn push_text(&mut self, letters: &str) {
        self.flush();
        self.left_to_skip = 0;
        self.append(letters);
    }

    fn flush(&mut self) {
        if !self.waiting.is_empty() {
            let bytes = std::mem::take(&mut self.waiting);
            let (letters, _) = self.state.encoding.decode_without_bom_handling(&bytes);
            self.append(&letters);
        }
    }

    fn append(&mut self, letters: &str) {
        match self.state.to {
            Target::Text if !self.state.is_hidden => self.text.push_str(letters),
            Target::Title => self.title.push_str(letters),
            _ => {}
        }
    }
}

fn code_page_encoding(number: i32) -> Option<&'static Encoding> {
    let label = match number {
        932 => "shift_jis".to_owned(),
        936 => "gbk".to_owned(),
        949 => "euc-kr".to_owned(),
        950 => "big5".to_owned(),
        65001 => "utf-8".to_owned(),
        10000 => "macintosh".to_owned(),
        number => format!("windows-{number}"),
    };
    Encoding::for_label(label.as_bytes())
}

/// Returns the encoding for a font's character set.
fn charset_encoding(number: i32) -> Option<&'static Encoding> {
    code_page_encoding(match number {
        77 => 10000,
        128 => 932,
        129 => 949,
        134 => 936,
        136 => 950,
        161 => 1253,
        162 => 1254,
        163 => 1258,
        177 => 1255,
        178 => 1256,
        186 => 1257,
        204 => 1251,
        222 => 874,
        238 => 1250,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rtf: &str, expected: &str) {
        let mut reader = Reader::new(rtf.as_bytes());
        let result = reader.read();
        reader.flush();
        assert_eq!((reader.text.trim(), result), (expected, Ok(())), "{rtf}");
    }

    #[test]
    fn rtf_text_decodes_in_any_encoding() {
        check(r"{\rtf1\ansi{\fonttbl\f0 Helvetica;}\f0\pard The {\b vermilion} barn.\par}", "The vermilion barn.");
        check(r"{\rtf1\ansi\ansicpg1252 Gr\'fc\'dfe \u8364? \emdash  \{x\}}", "Grüße € — {x}");
        check(r"{\rtf1{\fonttbl{\f1\fcharset134 SimSun;}}\f1 \'b1\'a8\'b8\'e6}", "报告");
        check(r"{\rtf1\uc1 \u-10179?\u-8704?}", "😀");
        check(r"{\rtf1 a\cell b\cell\row c}", "a | b | \nc");
        check(r"{\rtf1\mac caf\'8e}", "café");
        check(r"{\rtf1 Rate{\footnote see {\i page} 3} applies.}", "Rate [Note: see page 3] applies.");
        check(r"{\rtf1{\header Top}Text{\*\annotation Why?}.}", "Header: Top\nText [Comment: Why?].");
        check(r"{\rtf1{\*\unknown hidden}{\pict 0102}{\v hidden}seen}", "seen");
    }
}

//! Tokenization and chat formats of a model.
//!
//! Everything is built from the metadata in the GGUF file. Text from users and tools is always encoded as plain text.
//! Control tokens are only added by [`Prompt::control`], so that no document can end or start a turn.

use std::collections::HashMap;

use tokenizers::{
    NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer,
    models::bpe::BPE,
    normalizers::{Prepend, Replace, Sequence as Normalizers},
    pre_tokenizers::{
        byte_level::ByteLevel,
        digits::Digits,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use crate::{
    error::{LoadError, RunError},
    gguf::Gguf,
};

/// Word pattern of Llama 3 for byte pair encoding. The file only contains the name of the pattern.
const LLAMA_3_WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Character that SentencePiece vocabularies use for a space.
const SPACE_MARK: &str = "\u{2581}";

pub(crate) struct Vocabulary {
    tokenizer: Tokenizer,
    /// Bytes of each token. For control tokens, the name of the token.
    bytes: Vec<Vec<u8>>,
    /// True for control tokens.
    is_control: Vec<bool>,
    controls: HashMap<String, u32>,
    /// Token at the start of every prompt, if any.
    start: Option<u32>,
    end: u32,
    format: ChatFormat,
}

/// Prompt that is being built.
struct Prompt<'a> {
    vocabulary: &'a Vocabulary,
    tokens: Vec<u32>,
    /// Text that has not been encoded yet, because adjacent pieces are encoded together.
    pending: String,
}

impl Vocabulary {
    pub(crate) fn load(gguf: &Gguf) -> Result<Self, LoadError> {
        let names = gguf.texts("tokenizer.ggml.tokens")?;
        if names.is_empty() || u32::try_from(names.len()).is_err() {
            return Err(gguf.damaged("it has no tokens"));
        }
        let kinds = gguf.numbers("tokenizer.ggml.token_type")?;
        // 2 is the unknown token and 3 is control; 1, 4 and 6 (normal, user-defined and byte tokens) represent text.
        let is_control: Vec<bool> = (0..names.len()).map(|id| matches!(kinds.get(id), Some(2 | 3))).collect();
        let (tokenizer, bytes) = match gguf.text("tokenizer.ggml.model")? {
            "gpt2" => byte_level(gguf, &names, &is_control)?,
            "llama" => sentence_piece(gguf, &names, &is_control)?,
            other => return Err(gguf.unsupported(format!("unsupported tokenizer {other:?}"))),
        };
        let controls = (0u32..).zip(&names).zip(&is_control).filter(|(_, control)| **control);
        let controls: HashMap<String, u32> = controls.map(|((id, name), _)| ((*name).to_owned(), id)).collect();
        let end = gguf.token("tokenizer.ggml.eos_token_id", names.len())?;
        let end = end.ok_or_else(|| gguf.damaged("it has no end-of-text token"))?;
        let start = gguf.token("tokenizer.ggml.bos_token_id", names.len())?;
        let format = ChatFormat::detect(&controls, gguf.text("tokenizer.chat_template").unwrap_or_default());
        // Prompts begin with the start token unless the format or the file specifies otherwise.
        let wants_start = gguf.boolean("tokenizer.ggml.add_bos_token").unwrap_or(format != ChatFormat::ChatMl);
        Ok(Self { tokenizer, bytes, is_control, controls, start: start.filter(|_| wants_start), end, format })
    }

    /// Returns the bytes of a token, or an empty slice for control tokens.
    pub(crate) fn bytes(&self, token: u32) -> &[u8] {
        let index = token as usize;
        if self.ends_answer(token) { &[] } else { self.bytes.get(index).map_or(&[], Vec::as_slice) }
    }

    /// Returns true if a token ends an answer. Every control token does, since none has a meaning inside an answer.
    pub(crate) fn ends_answer(&self, token: u32) -> bool {
        token == self.end || self.is_control.get(token as usize).copied().unwrap_or(true)
    }

    /// Returns the tokens of a conversation up to the start of the model's answer.
    pub(crate) fn prompt(&self, system: &str, user: &str) -> Result<Vec<u32>, RunError> {
        let prompt = Prompt { vocabulary: self, tokens: self.start.into_iter().collect(), pending: String::new() };
        let mut prompt = self.format.write(prompt, system, user)?;
        prompt.flush()?;
        Ok(prompt.tokens)
    }
}

impl Prompt<'_> {
    /// Adds a piece of plain text.
    fn text(mut self, text: &str) -> Self {
        self.pending.push_str(text);
        self
    }

    /// Adds a control token by name, or its name as text if the model has no such token.
    fn control(mut self, name: &str) -> Result<Self, RunError> {
        let Some(&id) = self.vocabulary.controls.get(name) else { return Ok(self.text(name)) };
        self.flush()?;
        self.tokens.push(id);
        Ok(self)
    }

    fn flush(&mut self) -> Result<(), RunError> {
        if !self.pending.is_empty() {
            let encoding = self.vocabulary.tokenizer.encode_fast(&*self.pending, false);
            let encoding = encoding.map_err(|error| RunError::Tokens(error.to_string()))?;
            self.tokens.extend(encoding.get_ids());
            self.pending.clear();
        }
        Ok(())
    }
}

type Parts = (Tokenizer, Vec<Vec<u8>>);

/// Reads a vocabulary whose tokens use the printable alphabet of GPT-2, with one character per byte.
fn byte_level(gguf: &Gguf, names: &[&str], is_control: &[bool]) -> Result<Parts, LoadError> {
    let letters = byte_letters();
    let bytes = names.iter().zip(is_control).map(|(name, control)| {
        let letters = name.chars().map(|letter| letters.get(&letter).copied()).collect::<Option<Vec<u8>>>();
        letters.filter(|_| !control).unwrap_or_else(|| name.as_bytes().to_vec())
    });
    let bytes = bytes.collect();
    let pair = |merge: &&str| merge.split_once(' ').map(|(left, right)| (left.to_owned(), right.to_owned()));
    let merges: Option<Vec<_>> = gguf.texts("tokenizer.ggml.merges")?.iter().map(pair).collect();
    let merges = merges.ok_or_else(|| gguf.damaged("a merge is not a pair"))?;
    let model = BPE::builder()
        .vocab_and_merges(ids_by_name(names), merges)
        .build()
        .map_err(|error| gguf.damaged(format!("its merges do not match its tokens: {error}")))?;
    let mut tokenizer = Tokenizer::new(model);
    // `add_prefix_space` stays off: prompts are encoded in pieces, and every piece would get an additional space.
    let words: Vec<PreTokenizerWrapper> = match gguf.text("tokenizer.ggml.pre").unwrap_or("default") {
        "smollm" => vec![Digits::new(true).into(), ByteLevel::new(false, true, true).into()],
        "default" | "gpt-2" => vec![ByteLevel::new(false, true, true).into()],
        "llama-bpe" | "llama3" | "smaug-bpe" => {
            let pattern = SplitPattern::Regex(LLAMA_3_WORDS.to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                .map_err(|error| gguf.unsupported(error.to_string()))?;
            vec![split.into(), ByteLevel::new(false, true, false).into()]
        }
        other => return Err(gguf.unsupported(format!("unsupported pre-tokenizer {other:?}"))),
    };
    tokenizer.with_pre_tokenizer(Some(Sequence::new(words)));
    Ok((tokenizer, bytes))
}

/// Reads a SentencePiece vocabulary, which has scores instead of merges.
fn sentence_piece(gguf: &Gguf, names: &[&str], is_control: &[bool]) -> Result<Parts, LoadError> {
    let scores = gguf.list("tokenizer.ggml.scores", "not a number", |score| score.to_f32().ok())?;
    if scores.len() != names.len() {
        return Err(gguf.damaged("it does not have one score per token"));
    }
    let bytes = names.iter().zip(is_control).map(|(name, control)| match byte_token(name) {
        Some(byte) => vec![byte],
        None if *control => name.as_bytes().to_vec(),
        None => name.replace(SPACE_MARK, " ").into_bytes(),
    });
    let bytes: Vec<Vec<u8>> = bytes.collect();
    let vocabulary: HashMap<&str, usize> = names.iter().enumerate().map(|(id, name)| (*name, id)).collect();
    // Every pair of tokens that forms another token is a merge. Better scores come first.
    let mut merges: Vec<(f32, usize, usize)> = Vec::new();
    for (name, score) in names.iter().zip(&scores) {
        for (at, _) in name.char_indices().skip(1) {
            if let (Some(&left), Some(&right)) = (vocabulary.get(&name[..at]), vocabulary.get(&name[at..])) {
                merges.push((*score, left, right));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
    let merges = merges.into_iter().map(|(_, left, right)| (names[left].to_owned(), names[right].to_owned())).collect();
    let mut builder = BPE::builder().vocab_and_merges(ids_by_name(names), merges).byte_fallback(true).fuse_unk(true);
    if let Some(unknown) = gguf.token("tokenizer.ggml.unknown_token_id", names.len())? {
        builder = builder.unk_token(names[unknown as usize].to_owned());
    }
    let model =
        builder.build().map_err(|error| gguf.damaged(format!("its scores do not match its tokens: {error}")))?;
    let mut tokenizer = Tokenizer::new(model);
    let spaces = Replace::new(" ", SPACE_MARK).map_err(|error| gguf.unsupported(error.to_string()))?;
    let steps = vec![NormalizerWrapper::from(Prepend::new(SPACE_MARK.to_owned())), NormalizerWrapper::from(spaces)];
    tokenizer.with_normalizer(Some(Normalizers::new(steps))).map_err(|error| gguf.unsupported(error.to_string()))?;
    Ok((tokenizer, bytes))
}

fn ids_by_name(names: &[&str]) -> tokenizers::models::bpe::Vocab {
    (0u32..).zip(names).map(|(id, name)| ((*name).to_owned(), id)).collect()
}

/// Returns the byte of a token such as `<0x0A>`.
fn byte_token(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_byte = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| is_byte)
}

/// Returns the byte for each character in the printable alphabet. Printable Latin-1 characters represent themselves;
/// characters from U+0100 on represent the other bytes in order.
fn byte_letters() -> HashMap<char, u8> {
    let mut next = 0x100;
    let letter = |byte: u8| {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let letter = if printable { char::from(byte) } else { char::from_u32(next).unwrap_or('\u{fffd}') };
        next += u32::from(!printable);
        (letter, byte)
    };
    (0..=u8::MAX).map(letter).collect()
}

/// Joins token bytes to text, and buffers incomplete characters.
#[derive(Debug, Default)]
pub(crate) struct TextJoiner {
    pending: Vec<u8>,
}

impl TextJoiner {
    /// Adds bytes and returns the completed characters. Invalid bytes are replaced by U+FFFD.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        let incomplete = loop {
            match std::str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    break 0;
                }
                Err(error) => {
                    let (whole, other) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(whole));
                    match error.error_len() {
                        None => break other.len(),
                        Some(wrong) => {
                            text.push('\u{fffd}');
                            rest = &other[wrong..];
                        }
                    }
                }
            }
        };
        self.pending.drain(..self.pending.len() - incomplete);
        text
    }

    /// Returns U+FFFD if an incomplete character remains.
    pub(crate) fn finish(self) -> Option<&'static str> {
        (!self.pending.is_empty()).then_some("\u{fffd}")
    }
}

/// Chat format of a model.
///
/// The template in the file is not executed. SmolLM2's template would insert a system message ("You are a helpful AI
/// assistant named SmolLM, …") with which the model answers plain questions with nonsense. The model family uses four
/// formats, and the template only serves to distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatFormat {
    /// `<|im_start|>user … <|im_end|>`: SmolLM2 and many others.
    ChatMl,
    /// `<|start_header_id|>user<|end_header_id|> … <|eot_id|>`: Llama 3.
    Headers,
    /// `<|user|> … </s>`: TinyLlama.
    Tags,
    /// `[INST] … [/INST]`: Llama 2 and Mistral.
    Instructions,
}

impl ChatFormat {
    /// Detects the format by the control tokens, or by the template if these are inconclusive.
    fn detect(controls: &HashMap<String, u32>, template: &str) -> Self {
        if controls.contains_key("<|im_start|>") {
            Self::ChatMl
        } else if controls.contains_key("<|start_header_id|>") {
            Self::Headers
        } else if template.contains("<|user|>") {
            Self::Tags
        } else {
            Self::Instructions
        }
    }

    /// Writes the system message, the user message, and the header of the answer.
    fn write<'a>(self, mut prompt: Prompt<'a>, system: &str, user: &str) -> Result<Prompt<'a>, RunError> {
        for (role, text) in [("system", system), ("user", user)] {
            prompt = self.write_head(prompt, role)?;
            prompt = match (self, role) {
                (Self::ChatMl, _) => prompt.text(text).control("<|im_end|>")?.text("\n"),
                (Self::Headers, _) => prompt.text(text.trim()).control("<|eot_id|>")?,
                (Self::Tags, _) => prompt.text(text).control("</s>")?.text("\n"),
                (Self::Instructions, "system") => prompt.text(text).text("\n\n"),
                (Self::Instructions, _) => prompt.text(text).text(" [/INST]"),
            };
        }
        self.write_head(prompt, "assistant")
    }

    fn write_head<'a>(self, prompt: Prompt<'a>, role: &str) -> Result<Prompt<'a>, RunError> {
        Ok(match (self, role) {
            (Self::ChatMl, _) => prompt.control("<|im_start|>")?.text(role).text("\n"),
            (Self::Headers, _) => {
                prompt.control("<|start_header_id|>")?.text(role).control("<|end_header_id|>")?.text("\n\n")
            }
            (Self::Tags, _) => prompt.text("<|").text(role).text("|>\n"),
            (Self::Instructions, "assistant") => prompt.text(" "),
            (Self::Instructions, _) => prompt.text("[INST] "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_letters_follow_the_published_alphabet() {
        let letters = byte_letters();
        assert_eq!(letters.len(), 256);
        let check = |letter: char, byte: u8| assert_eq!(letters.get(&letter), Some(&byte), "{letter:?}");
        check('a', b'a');
        check('\u{120}', b' ');
        check('\u{10a}', b'\n');
        check('\u{100}', 0);
        check('\u{143}', 0xAD);
        check('é', 0xE9);
    }

    #[test]
    fn text_joiner_emits_whole_characters() {
        let check = |pieces: &[&[u8]], expected: &[&str], end: Option<&str>| {
            let mut joiner = TextJoiner::default();
            let texts: Vec<String> = pieces.iter().map(|piece| joiner.push(piece)).collect();
            assert_eq!(texts, expected);
            assert_eq!(joiner.finish(), end);
        };
        check(&[b"abc", b"d"], &["abc", "d"], None);
        check(&[b"a\xE2", b"\x82", b"\xAC!"], &["a", "", "\u{20ac}!"], None);
        check(&[b"\xF0\x9F", b"x"], &["", "\u{fffd}x"], None);
        check(&[b"\xFF\xE2", b"\x82"], &["\u{fffd}", ""], Some("\u{fffd}"));
        check(&[], &[], None);
    }

    #[test]
    fn only_whole_byte_tokens_are_bytes() {
        let check = |name: &str, byte: Option<u8>| assert_eq!(byte_token(name), byte, "{name}");
        check("<0x0A>", Some(10));
        check("<0xff>", Some(255));
        check("<0x0>", None);
        check("<0x+1>", None);
        check("<0xZZ>", None);
        check("a", None);
    }

    #[test]
    fn chat_format_is_detected_by_tokens_first() {
        let check = |control: &str, template: &str, expected: ChatFormat| {
            let controls = HashMap::from([(control.to_owned(), 1)]);
            assert_eq!(ChatFormat::detect(&controls, template), expected, "{control} {template}");
        };
        check("<|im_start|>", "<|user|>", ChatFormat::ChatMl);
        check("<|start_header_id|>", "", ChatFormat::Headers);
        check("</s>", "{{ '<|user|>' }}", ChatFormat::Tags);
        check("</s>", "[INST]", ChatFormat::Instructions);
    }
}

//! The second reading itself: one pass over the text.

use super::{Lexeme, documents::Document};
use crate::policy::command::parse::Unclear;

const NO_END: Unclear = "its quotes or brackets do not match";
const OPERATORS: &[u8] = b"&|;<>()\n";

/// What a `(` began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Group,
    /// `a=(…)`, and `<(…)`, which bash takes for a part of a word.
    InWord,
}

pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// How many substitutions are open.
    depth: usize,
    /// Up to where brackets in brackets have been looked through.
    looked: usize,
    /// The substitutions of the word that is read, without those inside them.
    scripts: Vec<String>,
    /// Everything is one word.
    alone: bool,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, depth: 0, looked: 0, scripts: Vec::new(), alone: false }
    }

    /// All words and operators.
    pub(super) fn script(mut self) -> Result<Vec<Lexeme>, Unclear> {
        self.commands()
    }

    /// The scripts of what is known to be one word.
    pub(super) fn word_alone(mut self) -> Result<Vec<String>, Unclear> {
        self.alone = true;
        self.word()?;
        Ok(self.scripts)
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes the next letter.
    fn take(&mut self, into: &mut String) -> Result<(), Unclear> {
        let next = self.rest().chars().next().ok_or(NO_END)?;
        self.at += next.len_utf8();
        into.push(next);
        Ok(())
    }

    fn joins(&self, ahead: usize) -> bool {
        self.peek(ahead) == Some(b'\\') && self.peek(ahead + 1) == Some(b'\n')
    }

    /// Commands up to the end, or in a substitution up to the bracket that ends it, which is taken.
    fn commands(&mut self) -> Result<Vec<Lexeme>, Unclear> {
        let mut out: Vec<Lexeme> = Vec::new();
        let mut open: Vec<(Bracket, usize)> = Vec::new();
        let mut documents: Vec<Document> = Vec::new();
        // Where the last word ended, if nothing stands behind it yet.
        let mut word_end = None;
        let mut matching = false;
        loop {
            while matches!(self.peek(0), Some(b' ' | b'\t')) || self.joins(0) {
                self.at += if self.joins(0) { 2 } else { 1 };
            }
            let Some(next) = self.peek(0) else {
                return if self.depth == 0 && documents.is_empty() { Ok(out) } else { Err(NO_END) };
            };
            match next {
                b'#' => {
                    if matching {
                        return Err("what `=~` compares with may hold a comment");
                    }
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                    continue;
                }
                b')' if self.depth > 0 && open.is_empty() => {
                    self.at += 1;
                    return if documents.is_empty() { Ok(out) } else { Err("a bracket ends before its `<<`") };
                }
                _ if OPERATORS.contains(&next) => {}
                _ => {
                    let lexeme = self.word()?;
                    // Brackets of `case` have no counterpart.
                    if self.depth > 0 && lexeme.text == "esac" {
                        return Err("it decides by cases inside a substitution");
                    }
                    matching = lexeme.text == "=~" || matching && lexeme.text != "]]";
                    out.push(lexeme);
                    word_end = Some(self.at);
                    continue;
                }
            }
            let start = self.at;
            let operator = self.operator()?;
            if matching && matches!(operator, "\n" | ";" | "&" | "<" | ">" | "<<") {
                return Err("what `=~` compares with may hold an operator");
            }
            let touches = word_end.take() == Some(start);
            out.push(Lexeme { text: operator.to_owned(), is_operator: true, nests: false });
            match operator {
                "<" | ">" if self.peek(0) == Some(b'(') => {
                    if touches {
                        return Err("a word goes on behind `<(`");
                    }
                    self.at += 1;
                    out.push(Lexeme { text: "(".to_owned(), is_operator: true, nests: false });
                    open.push((Bracket::InWord, documents.len()));
                }
                "(" => {
                    if self.peek(0) == Some(b'(') {
                        self.look_through_double()?;
                    }
                    let assigns = touches && self.text.as_bytes().get(start.wrapping_sub(1)) == Some(&b'=');
                    open.push((if assigns { Bracket::InWord } else { Bracket::Group }, documents.len()));
                }
                ")" => {
                    let began = open.pop();
                    let next = self.peek(0).unwrap_or(b'\n');
                    let apart = OPERATORS.contains(&next) && next != b'(' || matches!(next, b' ' | b'\t');
                    let opens = matches!(next, b'<' | b'>') && self.peek(1) == Some(b'(');
                    match began {
                        Some((Bracket::InWord, _)) if !apart || opens => return Err("a word goes on behind a bracket"),
                        Some((Bracket::InWord, before)) if documents.len() > before => {
                            return Err("a bracket ends before its `<<`");
                        }
                        _ => {}
                    }
                }
                "<<" | "<<-" => documents.push(self.document(operator == "<<-", &mut out)?),
                "\n" => {
                    let in_brackets = self.depth > 0 || open.iter().any(|(bracket, _)| *bracket == Bracket::InWord);
                    // What is put in moves what stands behind it.
                    for (index, document) in documents.drain(..).enumerate() {
                        let place = document.place + 2 * index;
                        let body = document.read(self.text, self.at, in_brackets)?;
                        self.at = body.end;
                        let texts = [body.text, body.tag];
                        let lexemes = texts.map(|text| Lexeme { text, is_operator: false, nests: false });
                        out.splice(place..place, lexemes);
                    }
                }
                _ => {}
            }
        }
    }

    fn operator(&mut self) -> Result<&'static str, Unclear> {
        const LONGEST_FIRST: [&str; 24] = [
            "<<<", "<<-", "&>>", ";;&", "&&", "&>", "||", "|&", ";;", ";&", "<<", "<&", "<>", ">>", ">&", ">|", "&",
            "|", ";", "<", ">", "(", ")", "\n",
        ];
        let rest = self.rest();
        let found = LONGEST_FIRST.iter().find(|operator| rest.starts_with(**operator)).ok_or(NO_END)?;
        self.at += found.len();
        if self.joins(0) && !matches!(*found, "\n" | "(" | ")") {
            let next = self.rest().trim_start_matches("\\\n").bytes().next();
            if next.is_some_and(|next| next == b'-' || next != b'\n' && OPERATORS.contains(&next)) {
                return Err("a line is joined inside an operator");
            }
        }
        Ok(found)
    }

    /// The word behind `<<`.
    fn document(&mut self, strips_tabs: bool, out: &mut Vec<Lexeme>) -> Result<Document, Unclear> {
        while matches!(self.peek(0), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        if self.peek(0).is_none_or(|next| OPERATORS.contains(&next) || next == b'#') {
            return Err("the word behind `<<` is no plain one");
        }
        let start = self.at;
        let word = self.word()?;
        // A joined line is none that a tag has.
        if self.text.get(start..self.at) != Some(word.text.as_str()) {
            return Err("the word behind `<<` is no plain one");
        }
        let document = Document::new(&word.text, strips_tabs, out.len() + 1);
        out.push(word);
        document
    }

    /// `((` is arithmetic or a group in a group. What both read in the same way may stand there.
    fn look_through_double(&mut self) -> Result<(), Unclear> {
        if self.at < self.looked {
            return Ok(());
        }
        let rest = self.rest();
        let inside = rest.find("))").map_or(rest, |end| &rest[..end]);
        self.looked = self.at + inside.len();
        let odd = inside.contains(['\'', '"', '\\', '#', '\n', '`']) || inside.contains("<<") || inside.contains("$(");
        if odd { Err("brackets in brackets hold more than arithmetic") } else { Ok(()) }
    }

    fn word(&mut self) -> Result<Lexeme, Unclear> {
        let mut word = Lexeme::default();
        self.subscript()?;
        while let Some(next) = self.peek(0) {
            match next {
                b' ' | b'\t' if !self.alone => break,
                _ if OPERATORS.contains(&next) && !self.alone => break,
                b'\\' if self.joins(0) => self.at += 2,
                b'\\' => {
                    self.take(&mut word.text)?;
                    self.take(&mut word.text)?;
                }
                b'\'' => self.until_quote(&mut word.text, false)?,
                b'"' => self.double_quoted(&mut word)?,
                b'`' => self.backquoted(&mut word)?,
                b'$' => self.dollar(&mut word, false)?,
                _ => self.take(&mut word.text)?,
            }
        }
        Ok(word)
    }

    /// In front of an assignment bash reads `name[…]` to the bracket, whatever stands there.
    fn subscript(&self) -> Result<(), Unclear> {
        let rest = self.rest();
        let name = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
        let Some(index) =
            rest[name..].strip_prefix('[').filter(|_| name > 0 && !rest.starts_with(|c: char| c.is_ascii_digit()))
        else {
            return Ok(());
        };
        let end = index.find(|c: char| c == ']' || " \t\n\\'\"`#&|;<>()".contains(c));
        match end.and_then(|end| index[end..].chars().next()) {
            Some(']') => Ok(()),
            _ => Err("an index may hold anything"),
        }
    }

    /// From a quote to the next one.
    fn until_quote(&mut self, into: &mut String, escapes: bool) -> Result<(), Unclear> {
        self.take(into)?;
        while let Some(next) = self.peek(0) {
            self.take(into)?;
            match next {
                b'\'' => return Ok(()),
                b'\\' if escapes => self.take(into)?,
                _ => {}
            }
        }
        Err(NO_END)
    }

    fn double_quoted(&mut self, word: &mut Lexeme) -> Result<(), Unclear> {
        self.take(&mut word.text)?;
        while let Some(next) = self.peek(0) {
            match next {
                b'"' => return self.take(&mut word.text),
                b'\\' if self.joins(0) => self.at += 2,
                b'\\' => {
                    self.take(&mut word.text)?;
                    self.take(&mut word.text)?;
                }
                b'`' => self.backquoted(word)?,
                b'$' => self.dollar(word, true)?,
                _ => self.take(&mut word.text)?,
            }
        }
        Err(NO_END)
    }

    fn backquoted(&mut self, word: &mut Lexeme) -> Result<(), Unclear> {
        self.take(&mut word.text)?;
        let rest = self.rest();
        let script = &rest[..rest.find('`').ok_or(NO_END)?];
        if script.contains('\\') || script.contains("<<") {
            return Err("it escapes inside backquotes");
        }
        word.text.push_str(script);
        word.text.push('`');
        word.nests = true;
        self.at += script.len() + 1;
        self.keep(script);
        Ok(())
    }

    /// Keeps a script of the word that was asked for.
    fn keep(&mut self, script: &str) {
        if self.depth == 0 {
            self.scripts.push(script.to_owned());
        }
    }

    fn dollar(&mut self, word: &mut Lexeme, quoted: bool) -> Result<(), Unclear> {
        if self.joins(1) {
            return Err("a line is joined behind `$`");
        }
        match self.peek(1) {
            Some(b'(') if self.peek(2) == Some(b'(') => self.arithmetic(word),
            Some(b'(') => self.substitution(word),
            Some(b'{') => self.parameter(word),
            Some(b'[') => Err("it holds arithmetic of an old form"),
            Some(b'\'') if !quoted => {
                self.take(&mut word.text)?;
                self.until_quote(&mut word.text, true)
            }
            Some(b'$') => {
                self.take(&mut word.text)?;
                self.take(&mut word.text)?;
                // Bash has read the number of its process, and nothing more.
                match self.peek(0) {
                    Some(b'(' | b'{' | b'[') => Err("what stands behind `$$` can be read in two ways"),
                    Some(b'\'' | b'"' | b'$' | b'\\') if !quoted => {
                        Err("what stands behind `$$` can be read in two ways")
                    }
                    _ => Ok(()),
                }
            }
            _ => self.take(&mut word.text),
        }
    }

    /// `$((…))`, of plain letters. Everything else may be a group inside `$(…)`.
    fn arithmetic(&mut self, word: &mut Lexeme) -> Result<(), Unclear> {
        let rest = self.rest();
        let mut depth = 0_usize;
        for (at, byte) in rest.bytes().enumerate().skip(1) {
            match byte {
                b'(' => depth += 1,
                b')' => {
                    depth -= 1;
                    if depth == 1 && rest.as_bytes().get(at + 1) == Some(&b')') {
                        word.text.push_str(&rest[..at + 2]);
                        word.nests = true;
                        self.at += at + 2;
                        return Ok(());
                    }
                    if depth == 1 {
                        break;
                    }
                }
                b'$' if matches!(rest.as_bytes().get(at + 1), Some(b'(' | b'[' | b'\'' | b'"')) => break,
                b'\'' | b'"' | b'\\' | b'`' | b'#' | b'\n' | b';' => break,
                _ => {}
            }
        }
        Err("brackets in brackets hold more than arithmetic")
    }

    fn substitution(&mut self, word: &mut Lexeme) -> Result<(), Unclear> {
        word.text.push_str("$(");
        self.at += 2;
        let start = self.at;
        self.depth += 1;
        // Inside, words end where they always do.
        let alone = std::mem::take(&mut self.alone);
        let inside = self.commands()?;
        self.alone = alone;
        self.depth -= 1;
        let script: String = inside.iter().map(|lexeme| lexeme.text.as_str()).collect();
        word.text.push_str(&script);
        word.text.push(')');
        word.nests = true;
        debug_assert!(start <= self.at);
        self.keep(&script);
        Ok(())
    }

    /// `${…}` of letters that mean the same in all quotes.
    fn parameter(&mut self, word: &mut Lexeme) -> Result<(), Unclear> {
        let rest = self.rest();
        let mut depth = 0_usize;
        for (at, byte) in rest.bytes().enumerate().skip(1) {
            match byte {
                b'{' if rest.as_bytes().get(at - 1) == Some(&b'$') => {
                    // Newer shells run what stands behind a blank.
                    if matches!(rest.as_bytes().get(at + 1), Some(b' ' | b'\t' | b'|')) {
                        break;
                    }
                    depth += 1;
                }
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        word.text.push_str(&rest[..=at]);
                        word.nests = true;
                        self.at += at + 1;
                        return Ok(());
                    }
                }
                b'$' if matches!(rest.as_bytes().get(at + 1), Some(b'$' | b'(' | b'[' | b'\'' | b'"')) => break,
                b'\'' | b'"' | b'\\' | b'`' | b'\n' | b'(' | b')' | b'<' | b'>' | b'&' | b'|' | b';' => break,
                _ => {}
            }
        }
        Err("a variable's expansion holds more than plain letters")
    }
}

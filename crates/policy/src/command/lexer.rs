//! Splits text into words and operators, in one pass without backtracking. The lexer handles quotes but no grammar.
//! Other features of bash are not interpreted, only reported as a [`Doubt`].

use super::word::{self, Dollar, Word};

/// A token of a line.
#[derive(Debug, Clone)]
pub(super) enum Token {
    Word(Word),
    /// `;`, `&&`, a line end and the like. A backquote that opens a command directly after a word is `` word` ``.
    Operator(&'static str),
    /// A redirection of this descriptor; the next word is its target.
    Redirect(Option<u32>, &'static str),
    /// The text after a `<<`.
    Document(Word),
}

/// The reason why a line is more than plain words. Later variants are more severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// The line contains words written with escapes.
    Escaped(&'static str),
    /// The line contains commands within commands: groups, loops, substitutions.
    Compound(&'static str),
    /// The program that would run is unknown.
    Unclear(&'static str),
}

/// Tokens of a line, and its most severe doubt.
#[derive(Debug, Default)]
pub(super) struct LexerOutput {
    pub(super) tokens: Vec<Token>,
    pub(super) doubt: Option<Doubt>,
}

const SUBSTITUTES: Doubt = Doubt::Compound("it has a command substitution");
const OPEN_QUOTE: Doubt = Doubt::Unclear("its quotes do not match");
const ARITHMETIC: Doubt = Doubt::Unclear("arithmetic can run commands");
const DOCUMENT: Doubt = Doubt::Unclear("the text after `<<` is ambiguous");

/// Reads a line as bash does.
pub(super) fn lex(text: &str) -> LexerOutput {
    Lexer::new(text, true).run()
}

/// Reads a line as bash does, and accepts simple commands in brackets and in command substitutions.
pub(super) fn lex_folding(text: &str) -> LexerOutput {
    Lexer { folds: true, ..Lexer::new(text, true) }.run()
}

/// Reads the line as if it had no quotes, comments and documents. Every command that it could contain occurs somewhere
/// in the result.
pub(super) fn lex_unquoted(text: &str) -> Vec<Token> {
    Lexer::new(&unquoted(text), false).run().tokens
}

/// Removes quotes and escapes from a text.
pub(crate) fn unquoted(text: &str) -> String {
    text.replace("\\\n", "").replace(['\'', '"', '\\'], "")
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// True if quotes, comments and documents have their meaning in bash.
    exact: bool,
    /// True if commands in brackets and in words are also read.
    folds: bool,
    out: LexerOutput,
    /// The current word, and the offset at which it begins.
    word: Option<(usize, Word)>,
    /// A document that begins on the next line.
    pending: Option<HereDocument<'t>>,
    backquotes: usize,
}

/// A document that begins on the next line.
struct HereDocument<'t> {
    /// Index of the token that the document fills.
    token: usize,
    end: &'t str,
    quoted: bool,
    tabs: bool,
}

impl<'t> Lexer<'t> {
    fn new(text: &'t str, exact: bool) -> Self {
        let out = LexerOutput::default();
        Self { text, at: 0, exact, folds: false, out, word: None, pending: None, backquotes: 0 }
    }

    fn run(mut self) -> LexerOutput {
        while let Some(c) = self.next() {
            self.step(c);
        }
        self.end_word();
        if self.pending.is_some() {
            self.doubt(DOCUMENT);
        }
        if !self.backquotes.is_multiple_of(2) || self.backquotes > 0 && self.text.contains('\\') {
            self.doubt(Doubt::Unclear("its backquotes are ambiguous"));
        }
        self.out
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Consumes the text if it comes next.
    fn accept(&mut self, expected: &str) -> bool {
        let found = self.text[self.at..].starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    fn doubt(&mut self, doubt: Doubt) {
        self.out.doubt = self.out.doubt.max(Some(doubt));
    }

    fn word(&mut self) -> &mut Word {
        let begin = self.at - 1;
        &mut self.word.get_or_insert_with(|| (begin, Word::default())).1
    }

    /// Adds text whose value is only known at run time.
    fn unknown(&mut self, written: &str) {
        let word = self.word();
        word.varies = true;
        word.text.push_str(written);
    }

    fn end_word(&mut self) {
        let Some((begin, mut word)) = self.word.take() else { return };
        self.text[begin..self.at].clone_into(&mut word.raw);
        let is_own = matches!(word.raw.as_str(), "[" | "[[" | "{}" | "{" | "}");
        if word.globs && !is_own && word.raw.contains('[') && !word.raw.contains(']') {
            self.doubt(Doubt::Unclear("it has an unclosed bracket"));
        }
        word.globs &= !is_own;
        word.braces &= !is_own && (word.raw.contains([',', '.']) || word.raw.starts_with('{'));
        self.out.tokens.push(Token::Word(word));
    }

    /// Ends the word before the last `read` bytes.
    fn end_word_before(&mut self, read: usize) {
        self.at -= read;
        self.end_word();
        self.at += read;
    }

    fn operator(&mut self, read: usize, name: &'static str) {
        self.end_word_before(read);
        self.out.tokens.push(Token::Operator(name));
    }

    fn step(&mut self, c: char) {
        match c {
            ' ' | '\t' => self.end_word_before(1),
            '\n' => {
                self.operator(1, "\n");
                self.document();
            }
            ';' if self.accept(";") => {
                self.doubt(Doubt::Compound("it has a `;;`"));
                self.operator(2, ";;");
            }
            ';' => self.operator(1, ";"),
            '&' if self.accept("&") => self.operator(2, "&&"),
            '&' if self.peek() == Some('>') => {
                self.at += 1;
                let name = if self.accept(">") { "&>>" } else { "&>" };
                self.redirect(name.len(), name);
            }
            '&' => self.operator(1, "&"),
            '|' if self.accept("|") => self.operator(2, "||"),
            '|' if self.accept("&") => {
                self.doubt(Doubt::Compound("it also pipes stderr"));
                self.operator(2, "|");
            }
            '|' => self.operator(1, "|"),
            '(' | ')' => self.bracket(c),
            '<' | '>' => self.angle(c),
            '`' => {
                let touching = if self.word.is_some() { "word`" } else { "`" };
                self.backquotes += 1;
                self.doubt(SUBSTITUTES);
                self.operator(1, if self.backquotes.is_multiple_of(2) { "`end" } else { touching });
            }
            '#' if self.exact && self.word.is_none() => {
                let rest = &self.text[self.at..];
                self.at += rest.find('\n').unwrap_or(rest.len());
            }
            '\'' => self.single_quoted(),
            '"' => self.double_quoted(),
            '\\' => match self.peek() {
                None => self.doubt(Doubt::Unclear("it ends in a backslash")),
                Some('\n') => self.at += 1,
                Some(next) => {
                    let word = self.word();
                    word.quoted = true;
                    word.text.push(next);
                    self.at += next.len_utf8();
                }
            },
            '$' => self.dollar(false),
            _ => self.letter(c),
        }
    }

    fn letter(&mut self, c: char) {
        let begin = self.at - c.len_utf8();
        let word = &mut self.word.get_or_insert_with(|| (begin, Word::default())).1;
        match c {
            '*' | '?' | '[' => word.globs = true,
            '{' | '}' => word.braces = true,
            '~' => word.varies |= word.text.is_empty() || word.text.ends_with(['=', ':']),
            _ => {}
        }
        word.text.push(c);
    }

    fn bracket(&mut self, c: char) {
        let rest = self.text[self.at..].trim_start_matches([' ', '\t']);
        if c == '(' && rest.starts_with(')') {
            self.doubt(Doubt::Unclear("it defines a function, which can redefine commands"));
        } else if c == '(' && self.peek() == Some('(') {
            self.doubt(ARITHMETIC);
        }
        if self.folds {
            return self.fold(c);
        }
        self.doubt(Doubt::Compound("it has commands in brackets"));
        self.operator(1, if c == '(' { "(" } else { ")" });
    }

    /// Skips a bracket. Brackets do not change which commands run, only the input that they read.
    fn fold(&mut self, c: char) {
        self.end_word_before(1);
        let tokens = &self.out.tokens;
        let begins = matches!(tokens.last(), None | Some(Token::Operator(_)));
        let before = tokens.iter().rfind(|token| !matches!(token, Token::Operator("\n")));
        if c == '(' && (!begins || matches!(before, Some(Token::Operator("|")))) {
            self.doubt(DOCUMENT);
        }
    }

    fn angle(&mut self, c: char) {
        let forms: [&'static str; 8] = match c {
            '<' => ["<<<", "<<-", "<<", "<&", "<>", "<(", "<", ""],
            _ => [">>", ">&", ">|", ">(", ">", "", "", ""],
        };
        self.at -= 1;
        let Some(form) = forms.into_iter().find(|form| self.accept(form)) else { return };
        match form {
            "<(" | ">(" => {
                self.doubt(SUBSTITUTES);
                self.operator(2, "(");
            }
            "<<" | "<<-" if self.exact => self.start_document(form),
            "<<<" => {
                self.doubt(Doubt::Compound("it has a here-string"));
                self.redirect(3, form);
            }
            _ => self.redirect(form.len(), form),
        }
    }

    /// Adds a redirection. Digits directly before it are its descriptor.
    fn redirect(&mut self, read: usize, name: &'static str) {
        let is_adjacent = self.word.is_some();
        self.end_word_before(read);
        let mut descriptor = None;
        if is_adjacent && let Some(Token::Word(word)) = self.out.tokens.last() {
            let number = word.raw.bytes().all(|byte| byte.is_ascii_digit()) && !name.starts_with('&');
            if number && word.raw.len() > 3 {
                self.doubt(Doubt::Unclear("it redirects an unopened descriptor"));
            } else if number {
                descriptor = word.raw.parse().ok();
                self.out.tokens.pop();
            } else if word.raw.starts_with('{') && word.raw.ends_with('}') {
                self.out.tokens.pop();
                self.doubt(Doubt::Unclear("it opens a file in a variable"));
            }
        }
        self.out.tokens.push(Token::Redirect(descriptor, name));
    }

    /// Reads the start of a document whose delimiter is a plain word, optionally in single quotes. All other forms are
    /// ambiguous.
    fn start_document(&mut self, form: &'static str) {
        self.redirect(form.len(), form);
        let is_own = matches!(self.out.tokens.last(), Some(Token::Redirect(None, _)));
        let rest = self.text[self.at..].trim_start_matches([' ', '\t']);
        let quoted = rest.starts_with('\'');
        let name = &rest[usize::from(quoted)..];
        let end = &name[..name.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()];
        let after = &name[end.len()..];
        let after = if quoted { after.strip_prefix('\'') } else { Some(after) };
        let after = after.filter(|after| after.starts_with([' ', '\t', '\n', ';', '|', '&', '>']));
        let is_sure = is_own && !end.is_empty() && self.pending.is_none() && self.out.doubt.is_none();
        let Some(after) = after.filter(|_| is_sure) else { return self.doubt(DOCUMENT) };
        self.at = self.text.len() - after.len();
        self.out.tokens.pop();
        self.out.tokens.push(Token::Document(Word::default()));
        let token = self.out.tokens.len() - 1;
        self.pending = Some(HereDocument { token, end, quoted, tabs: form == "<<-" });
    }

    /// Reads the document that begins here, if one is pending.
    fn document(&mut self) {
        let Some(HereDocument { token, end, quoted, tabs }) = self.pending.take() else { return };
        let rest = &self.text[self.at..];
        let is_end = |line: &str| {
            let line = line.strip_suffix('\n').unwrap_or(line);
            if tabs { line.trim_start_matches('\t') == end } else { line == end }
        };
        let mut length = 0;
        let mut lines = rest.split_inclusive('\n');
        let found = lines.find(|line| {
            let found = is_end(line);
            length += line.len();
            found
        });
        self.at += length;
        let Some(last) = found else { return self.doubt(DOCUMENT) };
        let text = &rest[..length - last.len()];
        let expands = !quoted && text.contains(['$', '`', '\\']);
        if expands && ["`", "\\", "$(", "${", "$["].iter().any(|sign| text.contains(sign)) {
            self.doubt(DOCUMENT);
        }
        let word = Word { text: text.to_owned(), varies: expands, quoted: true, ..Word::default() };
        if let Some(slot) = self.out.tokens.get_mut(token) {
            *slot = Token::Document(word);
        }
    }

    fn single_quoted(&mut self) {
        self.word().quoted = true;
        let rest = &self.text[self.at..];
        let end = rest.find('\'');
        self.word().text.push_str(&rest[..end.unwrap_or(rest.len())]);
        self.at += end.map_or(rest.len(), |end| end + 1);
        if end.is_none() {
            self.doubt(OPEN_QUOTE);
        }
    }

    fn double_quoted(&mut self) {
        self.word().quoted = true;
        while let Some(c) = self.next() {
            match c {
                '"' => return,
                '\\' if self.accept("\n") => {}
                '\\' => match self.peek() {
                    Some(next @ ('$' | '`' | '"' | '\\')) => {
                        self.word().text.push(next);
                        self.at += 1;
                    }
                    _ => self.word().text.push('\\'),
                },
                '`' => {
                    self.backquotes += 1;
                    self.doubt(SUBSTITUTES);
                    self.unknown("`");
                }
                '$' => self.dollar(true),
                _ => self.word().text.push(c),
            }
        }
        self.doubt(OPEN_QUOTE);
    }

    /// Reads the text after a `$`.
    fn dollar(&mut self, in_quotes: bool) {
        let (text, folds) = (self.text, self.folds);
        let rest = &text[self.at..];
        // A document that begins on the next line would begin inside the command.
        let is_sure = self.exact && self.pending.is_none();
        let word = self.word();
        if is_sure && let Some(length) = word::append_substitution(word, rest, in_quotes, folds) {
            self.at += length;
            return;
        }
        let found = word::dollar(&self.text[self.at..], in_quotes);
        match found {
            Dollar::Sign => self.word().text.push('$'),
            Dollar::Variable(length) => {
                self.unknown(&text[self.at - 1..self.at + length]);
                self.at += length;
            }
            Dollar::Command => {
                self.doubt(SUBSTITUTES);
                self.unknown("$");
            }
            Dollar::Unclear(reason) => {
                self.doubt(Doubt::Unclear(reason));
                self.unknown("$");
            }
            Dollar::Translated => self.doubt(Doubt::Escaped("it has text in `$\"…\"`")),
            Dollar::Escaped { text, length } => {
                self.doubt(Doubt::Escaped("it has text in `$'…'`"));
                if text.is_none() {
                    self.doubt(Doubt::Unclear("it has an escape that ends a word early"));
                }
                let word = self.word();
                word.quoted = true;
                word.text.push_str(&text.unwrap_or_default());
                self.at += length;
            }
        }
    }
}

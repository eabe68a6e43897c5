//! Builds pipelines of simple commands from words and operators. Lines with commands in brackets and in words are
//! unfolded if all shells parse them the same way; any other line yields nothing.

use agentd_core::untrusted::is_unseen;

use super::{
    Assign, Part, Redirect, Stdin,
    lexer::{Doubt, LexerOutput, Token, lex, lex_folding, lex_unquoted},
    word::Word,
};
use crate::opinion::LayerVerdict;

/// Maximum length of a command that is parsed, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of commands in one line.
const MAX_PARTS: usize = 256;
/// Maximum number of substitutions in a line.
const MAX_SUBSTITUTED: usize = 8;
/// Maximum number of open brackets and keywords in a line.
const MAX_OPEN: usize = 10;

/// Words that begin, join or end other commands, in command position.
const KEYWORDS: &str = "if then else elif fi for while until do done case esac select function { } ! [[ ]]";
/// Keywords after which another command begins.
const LEADING: &str = "if then else elif while until do { } ! time done fi esac in";

/// A parsed command line.
#[derive(Debug)]
pub(crate) enum Line {
    /// Only pipelines of simple commands.
    Plain(Vec<Vec<Part>>),
    /// More than pipelines, with the reason.
    Other(Doubt),
}

/// Reads a command line. Time and memory are linear in its length; lines above the limits are rejected.
pub(crate) fn read(text: &str) -> Line {
    if let Err(reason) = check_text(text) {
        return Line::Other(Doubt::Unclear(reason));
    }
    let LexerOutput { tokens, doubt } = lex(text);
    if doubt.is_none() && !has_keywords(&tokens) {
        return match pipelines(&tokens) {
            Ok(pipelines) => Line::Plain(pipelines),
            Err(reason) => Line::Other(Doubt::Unclear(reason)),
        };
    }
    let doubt = doubt.max(has_keywords(&tokens).then_some(Doubt::Compound("it has loops, conditions or groups")));
    let doubt = doubt.unwrap_or(Doubt::Compound("it has shell syntax"));
    if matches!(doubt, Doubt::Escaped(_)) {
        return Line::Other(doubt);
    }
    // Function bodies can have any form, and escapes and documents may be hidden in nested commands.
    let defines = tokens.iter().any(|token| is_word_of(token, "function"));
    let hides_escapes = text.contains("$'") || text.replace("<<<", "").contains("<<");
    // Includes quoted substitutions. They are counted, not parsed.
    let substituted = text.matches("$(").count() + text.matches('`').count() / 2;
    let unclear = defines
        .then_some("it defines a function, which can redefine commands")
        .or_else(|| unbalanced_reason(&tokens))
        .or(hides_escapes.then_some("its quotes are ambiguous"))
        .or((substituted > MAX_SUBSTITUTED).then_some("it has too many nested commands to review"));
    let unclear = unclear.map(Doubt::Unclear);
    Line::Other(unclear.unwrap_or(doubt))
}

/// Returns all possible commands in a line that is more than plain words, and true if the list is complete.
pub(crate) fn guesses(text: &str) -> (Vec<Part>, bool) {
    if text.len() > MAX_BYTES {
        return (Vec::new(), false);
    }
    let LexerOutput { tokens, doubt } = lex(text);
    let is_sure = !matches!(doubt, Some(Doubt::Compound(_) | Doubt::Unclear(_))) && !has_keywords(&tokens);
    let unquoted = if is_sure { Vec::new() } else { lex_unquoted(text) };
    let mut guesses = Vec::new();
    for tokens in [tokens, unquoted] {
        let mut stdin = Stdin::Inherited;
        for (segment, operator) in segments(&tokens) {
            let begins = segment.iter().take_while(|token| is_word_of(token, LEADING)).count();
            let part = Part { guessed: true, ..part(&segment[begins..], stdin) };
            // A substitution adds words, or extends the last word.
            let substituted_words = match operator {
                "word`" => part.words.split_last().map(|(last, words)| [words, &[last.clone().and_more()]].concat()),
                "`" => Some([part.words.as_slice(), &[Word::default().and_more()]].concat()),
                _ => None,
            };
            guesses.extend(substituted_words.map(|words| Part { words, ..part.clone() }));
            if !part.words.is_empty() || !part.assigns.is_empty() || !part.redirects.is_empty() {
                guesses.push(part);
            }
            stdin = if operator == "|" { Stdin::Pipe } else { Stdin::Inherited };
            if guesses.len() > 2 * MAX_PARTS {
                return (guesses, false);
            }
        }
    }
    (guesses, true)
}

/// Rejects characters that bash and other programs may read differently, and characters that have no place in a
/// command.
fn check_text(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_BYTES {
        return Err("it is longer than 64 KiB");
    }
    let mut before = ' ';
    for c in text.chars() {
        let is_invisible = match c {
            '\n' | '\t' => false,
            c if c.is_ascii() => c.is_ascii_control(),
            // Selects a variant of the previous character, such as the emoji form.
            '\u{fe0f}' | '\u{200d}' => before.is_ascii(),
            c => c.is_whitespace() || c.is_control() || is_unseen(c),
        };
        if is_invisible {
            return Err("it has invisible characters");
        }
        // In some encodings, these ASCII characters are the second byte of another character.
        if !before.is_ascii() && matches!(c, '\\' | '|' | '`' | '{' | '}' | '[' | ']' | '~') {
            return Err("it has characters that are ambiguous in other locales");
        }
        before = c;
    }
    Ok(())
}

/// Returns the words between operators, with the operator after them.
fn segments(tokens: &[Token]) -> impl Iterator<Item = (&[Token], &'static str)> {
    let mut rest = Some(tokens);
    std::iter::from_fn(move || {
        let tokens = rest?;
        let end = tokens.iter().position(|token| matches!(token, Token::Operator(_)));
        let (segment, operator) = match end.and_then(|end| Some((end, tokens.get(end)?))) {
            Some((end, Token::Operator(operator))) => {
                rest = tokens.get(end + 1..);
                (&tokens[..end], *operator)
            }
            _ => {
                rest = None;
                (tokens, "")
            }
        };
        Some((segment, operator))
    })
}

fn pipelines(tokens: &[Token]) -> Result<Vec<Vec<Part>>, &'static str> {
    const GRAMMAR: &str = "it does not follow the shell's grammar";
    let mut pipelines: Vec<Vec<Part>> = Vec::new();
    let mut count = 0;
    // The operator before a command, and true if a command must follow it.
    let (mut before, mut needs_command) = ("\n", false);
    for (segment, operator) in segments(tokens) {
        if segment.is_empty() {
            // A line end may follow any operator, and precede any command.
            if operator == "\n" || operator.is_empty() && !needs_command {
                before = if needs_command { before } else { operator };
                continue;
            }
            return Err(GRAMMAR);
        }
        let is_piped = before == "|";
        let mut part = part(segment, if is_piped { Stdin::Pipe } else { Stdin::Inherited });
        if segment
            .iter()
            .zip(segment.iter().skip(1).map(Some).chain([None]))
            .any(|(token, next)| matches!(token, Token::Redirect(..)) && !matches!(next, Some(Token::Word(_))))
        {
            return Err(GRAMMAR);
        }
        part.background = operator == "&";
        count += 1;
        if count > MAX_PARTS {
            return Err("it has too many commands to review");
        }
        match pipelines.last_mut().filter(|_| is_piped) {
            Some(pipeline) => pipeline.push(part),
            None => pipelines.push(vec![part]),
        }
        before = operator;
        needs_command = matches!(operator, "|" | "&&" | "||");
    }
    if needs_command {
        return Err(GRAMMAR);
    }
    // The whole pipeline runs in the background.
    for pipeline in &mut pipelines {
        let background = pipeline.iter().any(|part| part.background);
        pipeline.iter_mut().for_each(|part| part.background = background);
    }
    Ok(pipelines)
}

/// Parses one simple command.
fn part(tokens: &[Token], stdin: Stdin) -> Part {
    let mut part = Part { stdin, ..Part::default() };
    let mut redirect: Option<(Option<u32>, &'static str)> = None;
    for token in tokens {
        match token {
            Token::Redirect(descriptor, operator) => redirect = Some((*descriptor, operator)),
            Token::Document(text) => {
                part.stdin = Stdin::Given;
                part.redirects.push(Redirect { descriptor: None, operator: "<<", target: text.clone() });
            }
            Token::Word(word) => match redirect.take() {
                Some((descriptor, operator)) => part.redirect(descriptor, operator, word),
                None if part.words.is_empty()
                    && let Some(assign) = assignment(word) =>
                {
                    if assign.name.contains('[') {
                        part.findings.push(LayerVerdict::unknown("a variable's index can run commands"));
                    }
                    part.assigns.push(assign);
                }
                None => part.words.push(word.clone()),
            },
            Token::Operator(_) => {}
        }
    }
    part
}

impl Part {
    fn redirect(&mut self, descriptor: Option<u32>, operator: &'static str, target: &Word) {
        if operator.starts_with('<') && matches!(descriptor, None | Some(0)) {
            self.stdin = Stdin::Given;
        }
        // `>& file` writes a file; `>&2` and `>&-` do not.
        let number = target.text.strip_suffix('-').unwrap_or(&target.text);
        let joins = target.is_plain() && number.len() <= 3 && number.bytes().all(|byte| byte.is_ascii_digit());
        let operator = if operator.ends_with('&') && !joins { "&>" } else { operator };
        self.redirects.push(Redirect { descriptor, operator, target: target.clone() });
    }
}

/// Parses `NAME=value`, if the word is an assignment.
pub(crate) fn assignment(word: &Word) -> Option<Assign> {
    let (name, _) = word.raw.split_once('=')?;
    let target = name.strip_suffix('+').unwrap_or(name);
    let plain = target.split('[').next().unwrap_or_default();
    let is_valid = plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && plain.starts_with(|c: char| !c.is_ascii_digit());
    if !is_valid || plain.len() < target.len() && !target.ends_with(']') {
        return None;
    }
    let (_, value) = word.text.split_once('=')?;
    let value = Word { text: value.to_owned(), raw: word.raw[name.len() + 1..].to_owned(), ..word.clone() };
    Some(Assign { name: name.to_owned(), value })
}

fn is_word_of(token: &Token, list: &str) -> bool {
    matches!(token, Token::Word(word) if list.split(' ').any(|keyword| keyword == word.raw))
}

/// Returns true if the word begins, joins or ends commands in command position.
pub(super) fn is_keyword(text: &str) -> bool {
    KEYWORDS.split(' ').any(|keyword| keyword == text)
}

fn has_keywords(tokens: &[Token]) -> bool {
    segments(tokens).any(|(segment, _)| segment.first().is_some_and(|first| is_word_of(first, KEYWORDS)))
}

/// Checks for constructs that are not closed, or that nest too deeply. Constructs are counted, not parsed.
fn unbalanced_reason(tokens: &[Token]) -> Option<&'static str> {
    let mut counts = [0_usize; 10];
    let mut count = |token: &str| {
        let pairs = ["(", ")", "if", "fi", "do", "done", "case", "esac", "{", "}"];
        if let Some(found) = pairs.iter().position(|pair| *pair == token) {
            counts[found] += 1;
        }
    };
    let mut ends_case = false;
    for (segment, operator) in segments(tokens) {
        count(operator);
        ends_case |= operator == ";;";
        for token in segment.iter().take_while(|token| is_word_of(token, KEYWORDS)) {
            if let Token::Word(word) = token {
                count(&word.raw);
            }
        }
    }
    // A pattern of `case` ends in an unmatched bracket.
    let has_case = counts[6] > 0;
    if ends_case && !has_case {
        return Some("it closes an unopened block");
    }
    let pairs = || counts.chunks_exact(2).enumerate().filter(|(index, _)| !(has_case && *index == 0));
    if pairs().any(|(_, pair)| pair[0] != pair[1]) {
        return Some("it has an unclosed block");
    }
    pairs().any(|(_, pair)| pair[0] > MAX_OPEN).then_some("it nests too deeply")
}

/// Maximum length of a line that is unfolded, in bytes. Longer lines are judged as written.
const MAX_UNFOLDED: usize = 16 << 10;

/// Returns the pipelines of a line, including those in brackets. The pipelines of command substitutions come first.
pub(crate) fn unfolded_pipelines(text: &str) -> Option<Vec<Vec<Part>>> {
    if text.len() > MAX_UNFOLDED {
        return None;
    }
    check_text(text).ok()?;
    let LexerOutput { tokens, doubt: None } = lex_folding(text) else { return None };
    // A command in a group may read input that the previous command left unread.
    let reads = |token: &Token| match token {
        Token::Redirect(_, name) => name.contains('<'),
        token => matches!(token, Token::Document(_)),
    };
    if has_keywords(&tokens) || tokens.iter().any(reads) {
        return None;
    }
    let outer = pipelines(&tokens).ok()?;
    let inner: Option<Vec<_>> = outer.iter().flatten().map(inner_pipelines).collect();
    Some(inner?.into_iter().flatten().chain(outer).collect())
}

/// Returns the pipelines whose output a part includes in its words. They have the same input as the part.
fn inner_pipelines(part: &Part) -> Option<Vec<Vec<Part>>> {
    let values = part.assigns.iter().map(|assign| &assign.value);
    let words = part.words.iter().chain(values).chain(part.redirects.iter().map(|redirect| &redirect.target));
    let mut found = Vec::new();
    for text in words.flat_map(|word| &word.inner) {
        let Line::Plain(pipelines) = read(text) else { return None };
        found.extend(pipelines);
    }
    let inherits = |found: &&mut Part| found.stdin == Stdin::Inherited;
    found.iter_mut().flatten().filter(inherits).for_each(|found| found.stdin = part.stdin);
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::exact, *};

    fn plain(text: &str) -> Option<Vec<Vec<Part>>> {
        match read(text) {
            Line::Plain(pipelines) => Some(pipelines),
            Line::Other(_) => None,
        }
    }

    fn words(text: &str) -> Vec<Vec<String>> {
        let words = |part: &Part| part.words.iter().map(|word| word.text.clone()).collect();
        plain(text).unwrap().iter().flatten().map(words).collect()
    }

    #[test]
    fn quotes_and_escapes_are_removed_from_words() {
        let check = |text: &str, expected: &[&[&str]]| assert_eq!(words(text), expected, "{text}");
        check("ls -la", &[&["ls", "-la"]]);
        check(r#"\rm 'r'm r""m r\m"#, &[&["rm", "rm", "rm", "rm"]]);
        check("r\\\nm \"r\\\nm\"", &[&["rm", "rm"]]);
        check(r#"'a b' "a\"b" "a\nb" '' "$" a$"#, &[&["a b", "a\"b", r"a\nb", "", "$", "a$"]]);
        check("a;b&&c||d|e\nf & g # h", &[&["a"], &["b"], &["c"], &["d"], &["e"], &["f"], &["g"]]);
        check("a |\n b", &[&["a"], &["b"]]);
        check("a 2>&1 >/dev/null b", &[&["a", "b"]]);
        check("a a#b '#' #c", &[&["a", "a#b", "#"]]);
        check("cat <<E; b\nit's $ (x)\nE\nc", &[&["cat"], &["b"], &["c"]]);
        check("", &[]);
    }

    #[test]
    fn shell_expansions_are_recognised() {
        for text in [
            "$x",
            "\"$x\"",
            "~",
            "~root/x",
            "PATH=~/bin",
            "a:~",
            "$@",
            "$0",
            "$-",
            "${x}",
            "${x:-y}",
            "a{b,c}",
            "{1..3}",
            "{a",
        ] {
            assert!(plain(&format!("a {text}")).is_some_and(|found| !found[0][0].is_static()), "{text}");
        }
        for text in ["*", "a?", "[a]", "a[b]c"] {
            assert!(plain(&format!("a {text}")).is_some_and(|found| !found[0][0].is_plain()), "{text}");
        }
        for text in ["HEAD~1", "stash@{0}", "{}", "a~b", "'*'", "\\*", "a=b", "!", "a^b"] {
            assert!(plain(&format!("a {text}")).is_some_and(|found| found[0][0].is_plain()), "{text}");
        }
    }

    #[test]
    fn complex_shell_syntax_is_recognised() {
        let unclear = |text: &str| matches!(read(text), Line::Other(Doubt::Unclear(_)));
        for text in [
            "$(a)",
            "`a`",
            "<(a)",
            "a <<<b",
            "(a)",
            "{ a; }",
            "if a; then b; fi",
            "[[ a ]]",
            "! a",
            "a |& b",
            "$'a'",
            "a $\"b\"",
        ] {
            assert!(plain(text).is_none() && !unclear(text), "{text}");
        }
        for text in [
            "'a",
            "\"a",
            "a\\",
            "((a))",
            "$((1))",
            "$[1]",
            "f() { a; }",
            "${x@P}",
            "${x:=y}",
            "${!x}",
            "${a[1]}",
            "a <<E",
            "a <<\"E\"\nE\n",
            "a <<E <<F\nE\nF\n",
            "a {x}>b",
            "(a",
            "a)",
            "if a",
            "fi",
            ";;",
            "a &&",
            "| a",
            "a ; ; b",
            "a >",
            "a\rb",
            "a\0b",
            "あ\\;b",
            "echo $(<< \\|n ",
            "cat <<$( x",
            "<<-$((  )",
            "$'rm\\0x'",
        ] {
            assert!(unclear(text), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The number of parsed words is bounded by the length of the text, and the normal form parses to the same
        /// command.
        #[test]
        fn normal_form_parses_to_the_same_command(text in "[-a-z0-9 '\"\\\\$`(){}<>&|;#!~*?=\n\\[\\]é]{0,40}") {
            let (found, _) = guesses(&text);
            prop_assert!(found.iter().map(|part| part.words.len()).sum::<usize>() <= 4 * text.len() + 4);
            let Some(pipelines) = plain(&text) else { return Ok(()) };
            for pipeline in pipelines.iter().filter(|parts| parts.iter().all(Part::is_static)) {
                let normal = exact(pipeline);
                if check_text(&normal).is_err() {
                    continue;
                }
                let reparsed = plain(&normal);
                prop_assert!(reparsed.is_some() || normal.is_empty(), "{:?} {:?}", text, normal);
                let reparsed = reparsed.unwrap_or_default();
                let reparsed: Vec<&[Part]> = reparsed.iter().map(Vec::as_slice).collect();
                prop_assert_eq!(reparsed.len(), usize::from(!normal.is_empty()), "{:?} {:?}", &text, &normal);
                for (one, other) in pipeline.iter().zip(reparsed.first().copied().unwrap_or_default()) {
                    let texts = |part: &Part| part.words.iter().map(|word| word.text.clone()).collect::<Vec<_>>();
                    prop_assert_eq!(texts(one), texts(other), "{:?} {:?}", &text, &normal);
                    prop_assert_eq!(one.exact(), other.exact());
                }
            }
        }

        /// Words in single quotes keep any text unchanged.
        #[test]
        fn quoted_words_keep_their_text(words in prop::collection::vec("[ -~]{0,12}", 1..5)) {
            let text: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            let found = self::words(&text.join(" "));
            prop_assert_eq!(found, vec![words]);
        }
    }
}

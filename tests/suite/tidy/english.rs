//! The English of the code: patterns in identifiers, strings and doc comments that can be checked automatically.

use proc_macro2::{TokenStream, TokenTree};

use super::{Source, assert_none, files};

/// Exempt folders, whose code will be rewritten completely.
const EXEMPT: [&str; 3] = ["agentctl/src/keyboard/", "agentctl/src/render/", "agentctl/src/repl/"];

/// Forbidden parts of identifiers. Use show, report, send or notify instead.
const PARTS: [&str; 3] = ["tell", "tells", "told"];

/// Forbidden phrases in strings. Use invalid, missing or unknown instead.
const PHRASES: [&str; 2] = ["is none", "that is no "];

/// Forbidden phrases in doc comments. Use "Returns true if …" or "`None` if …" instead.
const FORMS: [&str; 4] = ["Set if", "None where", "`None` where", "Returns whether"];

/// Minimum number of words in a doc comment. A shorter comment repeats the name.
const MIN_WORDS: usize = 4;

/// Derives whose doc comments are help for users or descriptions for models. Such comments may be short.
const SHOWN: [&str; 5] = ["Args", "JsonSchema", "Parser", "Subcommand", "ValueEnum"];

fn is_exempt(source: &Source) -> bool {
    // This file is exempt because it lists the phrases.
    EXEMPT.iter().any(|folder| source.path.starts_with(folder)) || source.path.ends_with("tidy/english.rs")
}

/// Splits an identifier in snake case or camel case into its parts, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut follows_lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && follows_lower) {
            parts.push(String::new());
        }
        follows_lower = letter.is_lowercase();
        if letter != '_'
            && let Some(part) = parts.last_mut()
        {
            part.extend(letter.to_lowercase());
        }
    }
    parts
}

/// Returns true for the brackets of an attribute that is a doc comment.
fn is_doc(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.stream().to_string().starts_with("doc ="))
}

/// Collects the offences in identifiers and strings, each with its line.
fn check_tokens(stream: TokenStream, offences: &mut Vec<(usize, String)>) {
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let line = token.span().start().line;
        match token {
            // Doc comments are attributes in the token stream. They have a separate check.
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                tokens.next_if(|next| matches!(next, TokenTree::Punct(sign) if sign.as_char() == '!'));
                tokens.next_if(is_doc);
            }
            TokenTree::Group(group) => check_tokens(group.stream(), offences),
            TokenTree::Ident(name) => {
                let name = name.to_string();
                if parts(&name).iter().any(|part| PARTS.contains(&part.as_str())) {
                    offences.push((line, format!("the identifier {name}")));
                }
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if PHRASES.iter().any(|phrase| text.contains(phrase)) {
                    offences.push((line, format!("the string {text}")));
                }
            }
            TokenTree::Punct(_) => {}
        }
    }
}

/// Collects the offences in doc comments, each with the first line of the comment.
fn check_comments(text: &str, offences: &mut Vec<(usize, String)>) {
    let mut is_shown = false;
    let mut comment: Option<(usize, String)> = None;
    for (number, line) in text.lines().chain([""]).enumerate() {
        let content = line.trim_start();
        if let Some(more) = content.strip_prefix("///").or_else(|| content.strip_prefix("//!")) {
            let (_, text) = comment.get_or_insert((number + 1, String::new()));
            text.push_str(more);
            text.push(' ');
            continue;
        }
        if content.starts_with("#[derive(") {
            let is_word = |word: &str| SHOWN.contains(&word);
            is_shown |= content.split(|letter: char| !letter.is_alphanumeric()).any(is_word);
        }
        if let Some((first, text)) = comment.take() {
            let is_short = !is_shown && text.split_whitespace().count() < MIN_WORDS;
            if is_short || FORMS.iter().any(|form| text.contains(form)) {
                offences.push((first, format!("the comment {}", text.trim())));
            }
        }
        // A closing brace without indentation ends a type.
        is_shown &= line != "}";
    }
}

fn offences(source: &Source) -> Vec<String> {
    let mut offences = Vec::new();
    let stream = source.text.parse().unwrap_or_else(|error| panic!("{}: {error}", source.path));
    check_tokens(stream, &mut offences);
    check_comments(&source.text, &mut offences);
    offences.sort();
    offences.into_iter().map(|(line, offence)| format!("{}:{line}: {offence}", source.path)).collect()
}

#[test]
fn names_strings_and_comments_contain_no_forbidden_words() {
    let sources = files(".rs");
    let checked = sources.iter().filter(|source| !is_exempt(source));
    assert_none(
        "identifiers, strings and doc comments avoid forbidden words (CONTRIBUTING.md)",
        checked.flat_map(offences).collect(),
    );
}

#[test]
fn each_forbidden_form_is_found() {
    let check = |text: &str, expected: &[&str]| {
        let source = Source { path: "a.rs".to_owned(), text: text.to_owned() };
        let found = offences(&source);
        assert_eq!(found.len(), expected.len(), "{text}: {found:?}");
        assert!(found.iter().zip(expected).all(|(offence, part)| offence.contains(part)), "{text}: {found:?}");
    };
    check("fn main() { let told = 1; }", &["identifier told"]);
    check(
        "fn main() {\n    is_told_of(ToldOf);\n}",
        &["a.rs:2: the identifier ToldOf", "a.rs:2: the identifier is_told_of"],
    );
    check("enum Tells {}", &["identifier Tells"]);
    check("fn tell_all() { emit!(\"a key that is no path\") }", &["identifier tell_all", "string"]);
    check("const A: &str = r\"its path is none\";", &["string"]);
    check("/// Set if it has ended already.\nstruct A;", &["comment Set if"]);
    check("/// Time of the end, None where\n/// it runs.\nstruct A;", &["comment Time"]);
    check("/// Returns whether it has ended.\nfn f() {}", &["comment Returns"]);
    check("/// The path.\nstruct A;", &["comment The path."]);
    // Longer words that contain a forbidden part, plain comments, and help texts or tool schemas.
    check("fn main() { let stelltold = teller(\"no such path\"); // Set if told.\n}", &[]);
    check(
        "/// Reads a file of the project.\n#[derive(Debug, JsonSchema)]\nstruct Args {\n    /// The path.\n    path: String,\n}",
        &[],
    );
    check("#[derive(Args)]\nstruct A {\n    /// ID\n    id: String,\n}\n/// An ID\nstruct B;", &["comment An ID"]);
}

//! Classification of requests: a few kinds that need no judgement, and all others. Pure.

use super::{
    calculator,
    phrases::{Language, PlainText},
};

/// Mount point of the project.
pub(crate) const PROJECT: &str = "/project/";

/// Extensions of files that start with a description.
const PROSE_EXTENSIONS: [&str; 8] = ["adoc", "htm", "html", "log", "md", "org", "rst", "txt"];
/// Maximum number of words in a search. Longer requests are questions.
const MAX_SEARCH_WORDS: usize = 3;
/// Number of leading characters that decide whether a request is for free text.
const FREE_TEXT_PREFIX: usize = 80;
/// Quotation marks around a search text.
const QUOTES: [(char, char); 6] = [('"', '"'), ('“', '”'), ('`', '`'), ('„', '“'), ('«', '»'), ('「', '」')];

/// Kind of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RequestKind {
    /// Fixed text, by its name.
    Fixed(&'static str),
    /// Fixed text with instructions to connect a model.
    Connect(&'static str),
    /// Arithmetic expression with its result.
    Equation(String),
    Time,
    /// List of all files or of a folder.
    List(Option<String>),
    Count(String),
    /// Content of a file.
    Read(String),
    /// Title and first paragraph of a file.
    Opening(String),
    Headings(String),
    Install(String),
    /// Lines that contain a text, in one file or in all files.
    Search {
        text: String,
        path: Option<String>,
    },
    /// Files with this name.
    Find(String),
    /// Free text written by the model.
    FreeText,
}

/// Request that is matched in one language.
struct Comparison<'a> {
    language: &'a Language,
    request: &'a str,
    plain: &'a PlainText,
    paths: &'a [String],
}

/// Returns the language and the kind of a request.
pub(crate) fn read<'a>(
    request: &str,
    earlier: impl Iterator<Item = &'a str>,
    paths: &[String],
) -> (&'static Language, RequestKind) {
    let plain = PlainText::new(request);
    // File names do not indicate the language.
    let mentioned = known_file(request, paths);
    let own = mentioned.as_ref().map_or(request.to_owned(), |(_, written)| request.replacen(written.as_str(), " ", 1));
    let own: Vec<&str> = own.split_whitespace().filter(|word| !(word.is_ascii() && is_path(word))).collect();
    let languages = Language::candidates(&PlainText::new(&own.join(" ")), earlier);
    let found = languages.iter().find_map(|language| {
        let comparison = Comparison { language, request, plain: &plain, paths };
        Some((*language, comparison.request_kind(mentioned.as_ref())?))
    });
    // A command word decides between equally likely languages.
    let ordered = || languages.iter().find(|language| language.asks("orders", &plain)).or(languages.first());
    found.unwrap_or_else(|| {
        (ordered().copied().unwrap_or_else(Language::default_language), RequestKind::Connect("small"))
    })
}

impl Comparison<'_> {
    fn asks(&self, kind: &str) -> bool {
        self.language.asks(kind, self.plain)
    }

    fn request_kind(&self, mentioned: Option<&(String, String)>) -> Option<RequestKind> {
        if self.plain.is_long() {
            return self.free_text();
        }
        if let Some(sum) = calculator::answer(self.request, self.language) {
            return Some(sum);
        }
        if let Some((path, written)) = mentioned {
            return self.about_file(path, written);
        }
        self.fixed_text_kind().or_else(|| self.by_tool()).or_else(|| self.last())
    }

    /// Recognises questions about agentd itself.
    fn fixed_text_kind(&self) -> Option<RequestKind> {
        let text = ["privacy", "cost", "connect", "about"].into_iter().find(|kind| self.asks(kind))?;
        Some(if text == "connect" { RequestKind::Connect(text) } else { RequestKind::Fixed(text) })
    }

    /// Recognises requests that a single tool call answers.
    fn by_tool(&self) -> Option<RequestKind> {
        let readme = |request_kind: fn(String) -> RequestKind| {
            Some(readme(self.paths).map_or(RequestKind::Fixed("no-readme"), request_kind))
        };
        if self.asks("time") {
            return Some(RequestKind::Time);
        }
        for (kind, request_kind) in [
            ("headings", RequestKind::Headings as fn(String) -> RequestKind),
            ("install", RequestKind::Install),
            ("project", RequestKind::Opening),
        ] {
            if self.asks(kind) {
                return readme(request_kind);
            }
        }
        if self.plain.words().contains("readme") && self.asks("read") && !self.asks("orders") {
            return readme(RequestKind::Read);
        }
        if self.asks("count") {
            let kind = self.request.split_whitespace().find_map(|word| word.trim_start_matches('*').strip_prefix('.'));
            let kind: String = kind.unwrap_or_default().chars().take_while(|letter| letter.is_alphanumeric()).collect();
            return Some(RequestKind::Count(if kind.is_empty() { "*".to_owned() } else { format!("*.{kind}") }));
        }
        // A file may exist even if it is not in the list.
        let written =
            self.request.split_whitespace().map(trim_punctuation).find(|word| is_path(word) || word.contains('*'));
        if let Some(request_kind) = self.search(written.unwrap_or_default(), None) {
            return Some(request_kind);
        }
        if self.asks("orders") {
            return None;
        }
        match written {
            Some(written) if self.asks("find") || written.contains('*') => Some(RequestKind::Find(written.to_owned())),
            Some(written) if self.asks("read") => Some(RequestKind::Read(written.to_owned())),
            Some(_) => None,
            None => self.asks("list").then(|| RequestKind::List(self.folder())),
        }
    }

    fn last(&self) -> Option<RequestKind> {
        if self.asks("abilities") {
            return Some(RequestKind::Connect("abilities"));
        }
        let text = ["hello", "thanks"].into_iter().find(|kind| self.asks(kind));
        text.map(RequestKind::Fixed).or_else(|| self.free_text())
    }

    /// Recognises free text, unless it should be written to a file or requires facts. Only the beginning of a long
    /// request is checked.
    fn free_text(&self) -> Option<RequestKind> {
        let beginning: String = self.request.chars().take(FREE_TEXT_PREFIX).collect();
        let beginning = PlainText::new(&beginning);
        let names_path = || self.request.split_whitespace().any(|word| is_path(trim_punctuation(word)));
        let is_free =
            self.language.asks("free", &beginning) && !self.language.lists("fact", self.plain) && !names_path();
        is_free.then_some(RequestKind::FreeText)
    }

    /// Recognises requests about a known file, by the name that the user wrote.
    fn about_file(&self, path: &str, written: &str) -> Option<RequestKind> {
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        let is_prose = PROSE_EXTENSIONS.contains(&ending) || !path.rsplit('/').next().unwrap_or(path).contains('.');
        if self.asks("headings") {
            return Some(RequestKind::Headings(path.to_owned()));
        }
        if is_prose && self.asks("install") {
            return Some(RequestKind::Install(path.to_owned()));
        }
        if self.asks("summary") {
            return is_prose.then(|| RequestKind::Opening(path.to_owned()));
        }
        if let Some(request_kind) = self.search(written, Some(path)) {
            return Some(request_kind);
        }
        if self.asks("orders") {
            return None;
        }
        if self.asks("read") || PlainText::new(written).words() == self.plain.words() {
            return Some(RequestKind::Read(path.to_owned()));
        }
        self.asks("find").then(|| RequestKind::Find(path.rsplit('/').next().unwrap_or(path).to_owned()))
    }

    /// Recognises a search for an unambiguous text: the remaining words must be consecutive.
    fn search(&self, written: &str, path: Option<&str>) -> Option<RequestKind> {
        if !self.asks("grep") || self.asks("elsewhere") {
            return None;
        }
        let quoted = QUOTES.iter().find_map(|(open, close)| {
            let (_, rest) = self.request.split_once(*open)?;
            Some(rest.split_once(*close)?.0.trim()).filter(|text| !text.is_empty())
        });
        let request =
            if written.is_empty() { self.request.to_owned() } else { self.request.replacen(written, " \n ", 1) };
        let remaining = self.language.remove_terms("filler", &request);
        let mut parts = remaining
            .split('\n')
            .map(|part| part.trim_matches(|letter: char| letter.is_whitespace() || is_mark(letter)));
        let mut parts = parts.by_ref().filter(|part| !part.is_empty());
        let text = match (quoted, parts.next(), parts.next()) {
            (Some(quoted), ..) => quoted,
            (None, Some(only), None) if only.split_whitespace().count() <= MAX_SEARCH_WORDS => only,
            _ => return None,
        };
        Some(RequestKind::Search { text: text.to_owned(), path: path.map(str::to_owned) })
    }

    /// Returns the known folder that the request names.
    fn folder(&self) -> Option<String> {
        let written: Vec<&str> =
            self.request.split_whitespace().map(|word| trim_punctuation(word).trim_end_matches('/')).collect();
        let folders = self.paths.iter().flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at]));
        let mut folders = folders.filter(|folder| !folder.is_empty() && *folder != PROJECT.trim_end_matches('/'));
        let is_named = |folder: &&str| {
            let below = folder.strip_prefix(PROJECT).unwrap_or(folder);
            written.contains(folder) || written.contains(&below) || written.last() == below.rsplit('/').next().as_ref()
        };
        folders.find(is_named).map(str::to_owned)
    }
}

/// Returns the README closest to the root.
fn readme(paths: &[String]) -> Option<String> {
    let is_readme = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        name == "readme" || name.starts_with("readme.") && PROSE_EXTENSIONS.iter().any(|ending| name.ends_with(ending))
    };
    let readmes = paths.iter().filter(is_readme);
    // Prefer the project over uploads, and `README.md` over `README.de.md`.
    readmes.min_by_key(|path| (!path.starts_with(PROJECT), path.matches('/').count(), path.len())).cloned()
}

/// Returns the known file that a request names, with the name as written. Prefers the longest name, and among equal
/// names the file closest to the root.
fn known_file(request: &str, paths: &[String]) -> Option<(String, String)> {
    let lower = request.to_lowercase();
    let named = paths.iter().filter_map(|path| {
        let below = path.strip_prefix(PROJECT).unwrap_or(path);
        let name = path.rsplit('/').next().unwrap_or(path);
        // A name without an extension is often an ordinary word.
        let is_name =
            name.contains('.') || name.starts_with(char::is_uppercase) && !name.eq_ignore_ascii_case("readme");
        let parts = below.match_indices('/').map(|(at, _)| &below[at + 1..]).filter(|part| part.contains('/'));
        let whole = [path.as_str(), below].into_iter().filter(|path| path.contains('/'));
        let written = whole.chain(parts).chain(is_name.then_some(name)).map(str::to_lowercase);
        Some((path, written.filter(|name| contains_word(&lower, name)).max_by_key(String::len)?))
    });
    let best = named.max_by_key(|(path, written)| (written.len(), std::cmp::Reverse(path.matches('/').count())))?;
    let at = lower.find(&best.1)?;
    let written = request.get(at..at + best.1.len()).unwrap_or(&best.1);
    Some((best.0.clone(), written.to_owned()))
}

/// Returns true if the text contains the name without adjacent Latin letters.
fn contains_word(text: &str, name: &str) -> bool {
    let joins = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '_' | '-');
    text.match_indices(name).any(|(at, _)| {
        let mut after = text[at + name.len()..].chars();
        let next = after.next();
        // A dot may end the sentence or start another extension.
        let is_dotted = next == Some('.') && after.next().is_some_and(char::is_alphanumeric);
        !text[..at].chars().next_back().is_some_and(joins) && !next.is_some_and(joins) && !is_dotted
    })
}

/// Removes surrounding punctuation from a word.
fn trim_punctuation(word: &str) -> &str {
    let word = word.trim_matches(is_mark).trim_end_matches('.');
    word.strip_prefix("./").unwrap_or(word)
}

fn is_mark(letter: char) -> bool {
    !letter.is_alphanumeric() && !matches!(letter, '/' | '_' | '*' | '.' | '-') || matches!(letter, '。' | '，')
}

/// Returns true if the word is a path whose name has an alphanumeric extension.
fn is_path(word: &str) -> bool {
    let word = trim_punctuation(word);
    let name = word.rsplit('/').next().unwrap_or(word);
    let ending = name.rsplit_once('.').filter(|(stem, ending)| {
        let is_short = (1..=8).contains(&ending.len()) && ending.bytes().all(|letter| letter.is_ascii_alphanumeric());
        !stem.is_empty() && is_short && ending.bytes().any(|letter| letter.is_ascii_alphabetic())
    });
    ending.is_some() && !word.contains("://") && !word.contains("..")
}

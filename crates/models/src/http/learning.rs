//! Learning from refusals: a request that a server does not take is tried in another form, and what helped is kept.
//!
//! These are the changes that a request can have, which of them may get a refused request taken, by one rule for all servers, and
//! which of them one call tries. No words are read, only names: of fields and tools as the request has them. None of the changes is
//! believed before the server has taken the request with it. All of it is pure.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher as _},
};

use agentd_core::{
    answer_schema::AnswerSchema,
    model::{ChangeTopic, Message, ModelRequest, ShownPicture},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::ModelConfig;

/// One deviation from the usual form of requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// Tools that must not be called are not named.
    WithoutNamedTools,
    /// Earlier thoughts are sent back.
    EchoReasoning,
    /// Earlier thoughts are not sent back, though the configuration says so.
    WithoutEcho,
    /// Signed thoughts are not sent back. Holds for one conversation only, and is not kept.
    WithoutSignedThoughts,
    /// Calls are written into and read from the text.
    TextTools,
    /// The limit of the answer goes by its newer name.
    MaxCompletionTokens,
    /// Words of the person behind a tool's result stand in the message of that result.
    WordsInResults,
    /// Answers may have so many tokens, where nobody has set another limit.
    AnswerLimit(u64),
    /// A field of the body is left out.
    WithoutField(String),
    /// The tool of that name is left out.
    WithoutTool(String),
    /// No pictures are sent.
    WithoutPictures,
    /// The picture of that fingerprint is not sent.
    WithoutPicture(u64),
    /// The schema of that fingerprint stands in the words alone: another one may be taken.
    WithoutSchema(u64),
}

impl Change {
    /// Part of requests that it is about.
    pub(crate) fn topic(&self) -> ChangeTopic {
        match self {
            Self::WithoutNamedTools | Self::TextTools | Self::WithoutTool(_) => ChangeTopic::Tools,
            Self::WithoutPictures | Self::WithoutPicture(_) => ChangeTopic::Pictures,
            Self::EchoReasoning | Self::WithoutEcho | Self::WithoutSignedThoughts => ChangeTopic::Thoughts,
            Self::MaxCompletionTokens
            | Self::WordsInResults
            | Self::AnswerLimit(_)
            | Self::WithoutField(_)
            | Self::WithoutSchema(_) => ChangeTopic::Parameters,
        }
    }

    /// Returns whether it says something of the model, and not of one conversation.
    pub(crate) fn is_lasting(&self) -> bool {
        *self != Self::WithoutSignedThoughts
    }

    /// Number of refusals after which it is remembered. What a model loses by it must have been refused twice, by chance or by
    /// one odd request it may be refused once; a single picture is not sent a second time.
    pub(crate) fn needed(&self) -> u32 {
        if matches!(self, Self::TextTools | Self::WithoutTool(_) | Self::WithoutPictures) { 2 } else { 1 }
    }

    /// Returns whether a record of it can be believed.
    pub(crate) fn is_sound(&self) -> bool {
        match self {
            Self::WithoutField(name) => !name.is_empty() && name.len() <= RequestForm::MAX_FIELD && name.is_ascii(),
            Self::AnswerLimit(tokens) => *tokens > 0,
            Self::WithoutTool(name) => name.len() <= RequestForm::MAX_TOOL && !name.contains(char::is_control),
            _ => self.is_lasting(),
        }
    }
}

/// The change in words, behind "asking again".
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithoutNamedTools => f.write_str("without tools, as those that may not be called may be refused"),
            Self::EchoReasoning => f.write_str("with the model's earlier thoughts, which the server demands"),
            Self::WithoutEcho => f.write_str("without the model's earlier thoughts, which the server refuses"),
            Self::WithoutSignedThoughts => f.write_str(
                "without the model's earlier thoughts, which the server does not take in this conversation any more",
            ),
            Self::TextTools => f.write_str("with tools in the text, as their own field may be refused"),
            Self::WithoutTool(name) => write!(f, "without the tool {name}, which the server may refuse"),
            Self::WithoutPictures => f.write_str("without pictures, which the server refuses"),
            Self::WithoutPicture(_) => f.write_str("without a picture that the server may refuse"),
            Self::WordsInResults => {
                f.write_str("with the person's words in the result before them, as the server wants the roles in turns")
            }
            Self::AnswerLimit(tokens) => {
                write!(f, "with answers of at most {tokens} tokens, which is all that the server takes")
            }
            Self::WithoutSchema(_) => {
                f.write_str("with the schema of the answer in words, as its field may be refused")
            }
            Self::MaxCompletionTokens => f.write_str("with max_completion_tokens instead of max_tokens"),
            Self::WithoutField(name) => write!(f, "without {name}, which the server may refuse"),
        }
    }
}

/// Fingerprint of a part of requests, the same after the next start.
fn hash_of(part: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

/// Fingerprint of a picture.
pub(crate) fn picture_fingerprint(shown: &ShownPicture) -> Option<u64> {
    shown.content.as_ref().map(hash_of)
}

/// Stands in for pictures that are not sent.
const UNSEEN: &str = "(Not all of these pictures are shown: the server of the model refused them.)";

/// Fingerprint of a schema.
pub(crate) fn fingerprint(schema: &AnswerSchema) -> u64 {
    hash_of(&schema.text())
}

/// All deviations that hold for a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestForm(pub(crate) BTreeSet<Change>);

impl RequestForm {
    /// The longest name of a field that is left out, in bytes.
    pub(crate) const MAX_FIELD: usize = 64;
    /// The longest name of a tool that is left out, in bytes.
    pub(crate) const MAX_TOOL: usize = 256;

    /// Returns whether the change is a part of it.
    pub(crate) fn has(&self, change: &Change) -> bool {
        self.0.contains(change)
    }

    /// The tokens that an answer may have, as far as the server has refused more.
    pub(crate) fn answer_limit(&self) -> Option<u64> {
        let limits = self.0.iter().filter_map(|change| match change {
            Change::AnswerLimit(tokens) => Some(*tokens),
            _ => None,
        });
        limits.min()
    }

    /// Returns whether a field of the body may be sent.
    pub(crate) fn sends(&self, field: &str) -> bool {
        !self.0.iter().any(|change| matches!(change, Change::WithoutField(name) if name == field))
    }

    /// The configured fields of the body that may be sent.
    pub(crate) fn configured(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        fields.clone().into_iter().filter(|(field, _)| self.sends(field)).collect()
    }

    /// Returns true if a tool of that name may be sent.
    pub(crate) fn sends_tool(&self, tool: &str) -> bool {
        !self.0.iter().any(|change| matches!(change, Change::WithoutTool(name) if name == tool))
    }

    /// Returns true if a picture may be sent.
    pub(crate) fn shows(&self, picture: &ShownPicture) -> bool {
        let is_refused = |print| self.has(&Change::WithoutPicture(print));
        !self.has(&Change::WithoutPictures) && !picture_fingerprint(picture).is_some_and(is_refused)
    }

    /// The request without the pictures that the server refuses.
    pub(crate) fn shown<'a>(&self, request: &'a ModelRequest) -> Cow<'a, ModelRequest> {
        let mut request = Cow::Borrowed(request);
        if !self.0.iter().any(|change| matches!(change, Change::WithoutPictures | Change::WithoutPicture(_))) {
            return request;
        }
        let has_pictures = |message: &Message| matches!(message, Message::Pictures { .. });
        if request.messages.iter().any(has_pictures) {
            request.to_mut().messages.iter_mut().for_each(|message| self.show(message));
        }
        request
    }

    fn show(&self, message: &mut Message) {
        let Message::Pictures { text, pictures } = message else { return };
        let named = pictures.len();
        pictures.retain(|picture| self.shows(picture));
        if pictures.len() < named {
            text.push_str(&format!("\n\n{UNSEEN}"));
        }
        if pictures.is_empty() {
            *message = Message::User { text: std::mem::take(text) };
        }
    }

    /// Returns whether tool calls travel in the wire's own fields.
    pub(crate) fn native_tools(&self, config: &ModelConfig) -> bool {
        config.uses_native_tools() && !self.has(&Change::TextTools)
    }

    /// Returns whether earlier thoughts are sent back.
    pub(crate) fn echoes(&self, config: &ModelConfig) -> bool {
        (config.echo_reasoning || self.has(&Change::EchoReasoning)) && !self.has(&Change::WithoutEcho)
    }
}

/// Bytes of a refusal that are looked at: some repeat the whole request behind their reason.
const MAX_WORDS: usize = 2_000;

/// Names by which servers call fields that have another name in a request.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("stream_options", "include_usage"),
    ("output_config", "effort"),
    ("include", "reasoning.encrypted_content"),
    ("max_tokens", RENAMED_LIMIT),
];

/// The newer name of the limit of an answer.
const RENAMED_LIMIT: &str = "max_completion_tokens";

/// The smallest number in a refusal that can be the limit of an answer, in tokens.
const MIN_ANSWER: u64 = 256;

/// A refused request: what its server said.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// The status.
    pub(crate) status: u16,
    /// The beginning of all that it wrote.
    words: String,
}

/// Equal if the same was refused: names of requests and times differ from one refusal to the next.
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        let is_name =
            |word: &&str| word.len() > 9 && !word.contains('.') && word.contains(|char: char| char.is_ascii_digit());
        let lasting = |refusal: &'_ Self| -> Vec<String> {
            let words = refusal.words.split(|char: char| char.is_whitespace() || "\"',:{}".contains(char));
            words.filter(|word| !is_name(word)).map(str::to_owned).collect()
        };
        self.status == other.status && lasting(self) == lasting(other)
    }
}

impl Refusal {
    /// The refusal of that status, if another form of the request may be taken.
    pub(crate) fn of(status: u16, body: &[u8]) -> Option<Box<Self>> {
        let body = String::from_utf8_lossy(body);
        let is_page = body.trim_start().starts_with('<');
        let words = body.chars().take(MAX_WORDS).collect();
        (matches!(status, 400 | 404 | 422 | 500) && !is_page).then(|| Box::new(Self { status, words }))
    }

    /// Returns true if a name occurs in it by itself: of each occurrence the letter before it decides, too.
    fn mentions(&self, name: &str, is_meant: impl Fn(Option<char>) -> bool) -> bool {
        let is_of_name = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-');
        self.words.match_indices(name).any(|(at, _)| {
            let before = self.words[..at].chars().next_back();
            let after = self.words[at + name.len()..].chars().next();
            !before.is_some_and(is_of_name) && !after.is_some_and(is_of_name) && is_meant(before)
        })
    }

    /// Returns true if a tool is named. A name that could be a word has to be in quotation marks.
    fn names_tool(&self, name: &str) -> bool {
        let is_word = name.chars().all(char::is_alphabetic);
        self.mentions(name, |before| !is_word || before.is_some_and(|char| "'\"`".contains(char)))
    }

    /// Returns true if a field of the body is named.
    fn names_field(&self, field: &str) -> bool {
        let other = OTHER_NAMES.iter().find(|(name, _)| *name == field).map(|(_, other)| *other);
        self.mentions(field, |_| true) || other.is_some_and(|other| self.mentions(other, |_| true))
    }

    /// Places in the list of tools: `tools.3.custom`, `tools[3]`, `"tools", 3`.
    fn places(&self) -> Vec<usize> {
        let place = |rest: &str| {
            let digits = rest.trim_start_matches(|char| "\\\"'.,[/ ".contains(char));
            let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
            digits[..end].parse().ok().filter(|_| digits.len() < rest.len())
        };
        let of = |list: &str| self.words.split(list).skip(1).filter_map(place).collect::<Vec<usize>>();
        // One provider puts its list into the only entry of another one.
        Some(of("function_declarations")).filter(|places| !places.is_empty()).unwrap_or_else(|| of("tools"))
    }

    /// The tools that it names, unless it seems to repeat the whole list.
    fn tools(&self, sent: &[String]) -> Vec<Change> {
        let places = self.places();
        let is_named = |(at, name): &(usize, &String)| places.contains(at) || self.names_tool(name);
        let named: Vec<Change> =
            sent.iter().enumerate().filter(is_named).map(|(_, name)| Change::WithoutTool(name.clone())).collect();
        if named.len() <= sent.len().div_ceil(2) { named } else { Vec::new() }
    }

    /// The smallest limit that it names.
    fn answer_limit(&self) -> Option<u64> {
        let numbers = self.words.split(|char: char| !char.is_ascii_digit());
        numbers.filter_map(|number| number.parse().ok()).filter(|tokens| *tokens >= MIN_ANSWER).min()
    }
}

/// The parts of a refused request that it could do without.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentParts {
    /// The tools that it named in the wire's own field, in their order.
    pub(crate) tools: Vec<String>,
    /// None of them may be called.
    pub(crate) named_only: bool,
    /// The configuration insists on the wire's own field.
    pub(crate) insists_on_native: bool,
    /// It holds words or calls of the model.
    pub(crate) history: bool,
    /// It holds words of the person right behind a tool's result.
    pub(crate) words_behind_results: bool,
    /// Earlier thoughts are sent back.
    pub(crate) echoes: bool,
    /// Signed thoughts are sent back.
    pub(crate) signed_thoughts: bool,
    /// It limits the answer to a number of tokens that nobody has set.
    pub(crate) chosen_limit: bool,
    /// Fingerprint of the schema of the answer, where it is sent in a field of its own.
    pub(crate) schema: Option<u64>,
    /// Fingerprints of the pictures.
    pub(crate) pictures: Vec<u64>,
    /// The fields of the body that are no part of the conversation.
    pub(crate) fields: Vec<String>,
    /// Those of them that nobody has set.
    pub(crate) extras: Vec<String>,
}

impl SentParts {
    /// The changes that leave out its parts, by part, the likeliest first.
    fn parts(&self) -> [Vec<Change>; 8] {
        let only = |is_there: bool, change: Change| Vec::from_iter(is_there.then_some(change));
        [
            only(self.signed_thoughts, Change::WithoutSignedThoughts),
            Vec::from_iter(self.schema.map(Change::WithoutSchema)),
            only(self.named_only, Change::WithoutNamedTools),
            only(self.words_behind_results, Change::WordsInResults),
            self.tools.iter().cloned().map(Change::WithoutTool).collect(),
            only(!self.tools.is_empty(), Change::TextTools),
            self.pictures.iter().copied().map(Change::WithoutPicture).collect(),
            self.extras.iter().cloned().map(Change::WithoutField).collect(),
        ]
    }

    /// The changes that a request which was taken has shown to be unnecessary.
    pub(crate) fn unneeded(&self) -> impl Iterator<Item = Change> {
        let pictures = (!self.pictures.is_empty()).then_some(Change::WithoutPictures);
        let fields = self.fields.iter().cloned().map(Change::WithoutField);
        self.parts().into_iter().flatten().filter(Change::is_lasting).chain(pictures).chain(fields)
    }
}

/// The changes to try, one set after the other: what the refusal names, then what differs from requests that were taken, and
/// at last all of it. Changes in `unneeded` are of parts that were taken before.
pub(crate) fn candidates(refusal: &Refusal, sent: &SentParts, unneeded: &BTreeSet<Change>) -> Vec<Vec<Change>> {
    // A path that is not there, or a server in trouble, is not about how a request is written.
    let is_of_form = matches!(refusal.status, 400 | 422);
    // Tools are suspected one by one where others were taken.
    let knows_tools = unneeded.contains(&Change::TextTools);
    let without = |field: &String| match field.as_str() {
        "max_tokens" if refusal.names_field(RENAMED_LIMIT) => Change::MaxCompletionTokens,
        _ => Change::WithoutField(field.clone()),
    };
    let mut named: Vec<&String> = sent.fields.iter().filter(|field| refusal.names_field(field)).collect();
    // The part of a field before the field.
    named.sort_by_key(|field| !field.contains('.'));
    let named = named.into_iter().map(|field| vec![without(field)]);
    let (taken, fresh): (Vec<_>, Vec<_>) = named.partition(|set| set.iter().all(|change| unneeded.contains(change)));
    let echo = if sent.echoes { Change::WithoutEcho } else { Change::EchoReasoning };
    let wants_echo = sent.history && refusal.names_field("reasoning_content");
    let limit = refusal.answer_limit().filter(|_| sent.chosen_limit && refusal.names_field("max_tokens"));
    let is_guessed = |change: &Change| {
        let may_help = match change {
            Change::WithoutSignedThoughts | Change::WithoutNamedTools | Change::WithoutField(_) => is_of_form,
            Change::WithoutTool(_) => knows_tools,
            Change::TextTools => !sent.insists_on_native,
            _ => true,
        };
        may_help && !unneeded.contains(change)
    };
    let guesses = sent.parts().map(|part| part.into_iter().filter(is_guessed).collect());
    let mut sets = vec![refusal.tools(&sent.tools)];
    sets.push(Vec::from_iter(wants_echo.then_some(echo)));
    sets.push(Vec::from_iter(limit.map(Change::AnswerLimit)));
    sets.extend(fresh.into_iter().chain(guesses).chain(taken));
    sets.retain(|set| !set.is_empty());
    if sets.len() > 1 {
        let all: BTreeSet<Change> = sets.iter().flatten().cloned().collect();
        sets.push(all.into_iter().collect());
    }
    sets
}

/// Sets that one call tries at the most.
const MAX_TRIES: usize = 8;

/// Changes on trial.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    /// Those of the next attempt.
    current: Vec<Change>,
    /// All sets that were tried; the last one may still hold.
    tried: Vec<Vec<Change>>,
    /// The last refusal.
    last: Option<Refusal>,
}

impl Trials {
    /// The changes that the next attempt is made with.
    pub(crate) fn current(&self) -> &[Change] {
        &self.current
    }

    /// Takes note of a refusal and picks what to try next; none where there is nothing left.
    pub(crate) fn after(&mut self, refusal: Refusal, candidates: Vec<Vec<Change>>) -> Option<Vec<Change>> {
        if self.last.as_ref() == Some(&refusal)
            && let Some(vain) = self.tried.last()
        {
            self.current.retain(|change| !vain.contains(change));
        }
        self.last = Some(refusal);
        let is_left = |set: &Vec<Change>| self.tried.len() < MAX_TRIES && !self.tried.contains(set);
        let next = candidates.into_iter().find(is_left)?;
        self.current.extend(next.iter().cloned());
        self.tried.push(next.clone());
        Some(next)
    }

    /// The changes with which the server took the request: nothing is on trial any more.
    pub(crate) fn taken(&mut self) -> Vec<Change> {
        std::mem::take(self).current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn sent() -> SentParts {
        let fields = texts(&["temperature", "max_tokens", "stream_options", "reasoning", "reasoning.effort"]);
        let extras = texts(&["stream_options"]);
        SentParts { tools: texts(&["now", "read_file", "web"]), history: true, fields, extras, ..SentParts::default() }
    }

    fn refusal(status: u16, words: &str) -> Refusal {
        *Refusal::of(status, words.as_bytes()).unwrap()
    }

    fn without(field: &str) -> Change {
        Change::WithoutField(field.to_owned())
    }

    /// The sets but for the last one, which is all of them.
    #[track_caller]
    fn check(words: &str, sent: &SentParts, taken: &[Change], expected: &[&[Change]]) {
        let mut sets = candidates(&refusal(400, words), sent, &taken.iter().cloned().collect());
        sets.truncate(expected.len());
        assert_eq!(sets, expected, "{words}");
    }

    #[test]
    fn names_of_tools_are_read_in_all_their_forms() {
        let tool = |name: &str| Change::WithoutTool(name.to_owned());
        for words in [
            "Invalid schema for function 'web': In context=(), 'oneOf' is not permitted",
            r#"{"error":{"message":"Invalid schema for function \"web\""}}"#,
            "tools.2.custom.input_schema: input_schema does not support oneOf at the top level",
            "Invalid 'tools[2].function.parameters'",
            r#"{"detail":[{"loc":["body","tools",2,"function"],"msg":"bad"}]}"#,
            "GenerateContentRequest.tools[0].function_declarations[2].name: invalid",
        ] {
            check(words, &sent(), &[], &[&[tool("web")], &[Change::TextTools]]);
        }
        check("read_file and tools[0] are odd", &sent(), &[], &[&[tool("now"), tool("read_file")]]);
        // A word that is also a name, a list that is repeated, and numbers of something else.
        for words in
            ["not now", "'now', 'read_file', 'web'", "128 tools are the limit, 3 too many", "tools.9.x", "tools"]
        {
            check(words, &sent(), &[], &[&[Change::TextTools]]);
        }
    }

    #[test]
    fn fields_are_known_by_their_names() {
        check("'temperature' does not support 0.2", &sent(), &[], &[&[without("temperature")], &[Change::TextTools]]);
        check("reasoning.effort: no", &sent(), &[], &[&[without("reasoning.effort")], &[without("reasoning")]]);
        check("no include_usage", &sent(), &[], &[&[without("stream_options")], &[Change::TextTools]]);
        check("'max_tokens' is not for this model", &sent(), &[], &[&[without("max_tokens")]]);
        for words in
            ["Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "use max_completion_tokens"]
        {
            check(words, &sent(), &[], &[&[Change::MaxCompletionTokens], &[Change::TextTools]]);
        }
        check("reasoning_content must be passed back", &sent(), &[], &[&[Change::EchoReasoning]]);
        let echoes = SentParts { echoes: true, ..sent() };
        check("property 'reasoning_content' is unsupported", &echoes, &[], &[&[Change::WithoutEcho]]);
        let chosen = SentParts { chosen_limit: true, ..sent() };
        check("max_tokens: 32000 > 8192, which is the maximum", &chosen, &[], &[&[Change::AnswerLimit(8192)]]);
    }

    #[test]
    fn what_was_taken_before_is_suspected_last() {
        let (schema, picture) = (Change::WithoutSchema(7), Change::WithoutPicture(8));
        let parts = SentParts { schema: Some(7), pictures: vec![8, 9], signed_thoughts: true, ..sent() };
        let first: [&[Change]; 5] = [
            &[Change::WithoutSignedThoughts],
            std::slice::from_ref(&schema),
            &[Change::TextTools],
            &[picture.clone(), Change::WithoutPicture(9)],
            &[without("stream_options")],
        ];
        check("Bad Request", &parts, &[], &first);
        let mut taken: Vec<Change> =
            SentParts { pictures: vec![9], schema: None, ..parts.clone() }.unneeded().collect();
        check("Bad Request", &parts, &taken, &[&[Change::WithoutSignedThoughts], &[schema], &[picture]]);
        taken.retain(|change| *change != Change::WithoutTool("web".to_owned()));
        let plain = SentParts { schema: None, pictures: Vec::new(), signed_thoughts: false, ..parts };
        check("Bad Request", &plain, &taken, &[&[Change::WithoutTool("web".to_owned())]]);
        check("no temperature", &plain, &taken, &[&[Change::WithoutTool("web".to_owned())], &[without("temperature")]]);
        let all: Vec<Change> = plain.unneeded().collect();
        assert!(candidates(&refusal(400, "Bad Request"), &plain, &all.iter().cloned().collect()).is_empty());
        // A path that is not there, and a fault, are not about fields.
        for status in [404, 500] {
            assert_eq!(candidates(&refusal(status, "oh"), &plain, &BTreeSet::new()), [[Change::TextTools]]);
        }
        assert!(Refusal::of(401, b"no").is_none() && Refusal::of(404, b" <html>").is_none());
    }

    #[test]
    fn names_of_requests_make_no_other_refusal() {
        let same = |one: &str, other: &str| refusal(400, one) == refusal(400, other);
        assert!(same("no, req_1234567a of 2026-11-29", "no, req_1234567b of 2026-11-30"));
        assert!(!same("tools.3.custom", "tools.4.custom") && !same("a", "b"));
    }

    #[test]
    fn what_did_not_help_is_taken_back_and_what_did_stays() {
        let [a, b, c] = ["a", "b", "c"].map(|name| vec![Change::WithoutField(name.to_owned())]);
        let both = [a.clone(), b.clone()];
        let mut trials = Trials::default();
        assert_eq!(trials.after(refusal(400, "a or b"), both.to_vec()), Some(a));
        assert_eq!(trials.after(refusal(400, "a or b"), both.to_vec()), Some(b.clone()));
        assert_eq!(trials.current(), b);
        assert_eq!(trials.after(refusal(400, "now c"), vec![c.clone()]), Some(c.clone()));
        assert_eq!(trials.after(refusal(400, "now c"), vec![c.clone()]), None);
        assert_eq!(trials.taken(), b);
        assert_eq!(trials.after(refusal(400, "no"), Vec::new()), None);
        assert_eq!(trials.current(), []);
    }
}

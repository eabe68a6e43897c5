//! Learning from refusals: a refused request is retried in another form, and forms that helped are remembered.
//!
//! This module defines the possible changes to a request, selects the changes that may help by one rule for all
//! servers, and limits how many a call tries. Refusals are only searched for names of fields and tools in the request.
//! A change is only trusted once the server has accepted a request with it. The whole module is pure.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher as _},
};

use agentd_core::{
    answer_schema::AnswerSchema,
    model::{ChangeTopic, ModelRequest, ShownPicture},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::ModelConfig;

/// Deviation from the usual form of requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// Leaves out tools that must not be called.
    WithoutNamedTools,
    /// Sends earlier reasoning back.
    EchoReasoning,
    /// Does not send earlier reasoning back, against the configuration.
    WithoutEcho,
    /// Does not send signed reasoning back. Applies to one conversation only, and is not recorded.
    WithoutSignedThoughts,
    /// Writes calls into the text, and reads them from it.
    TextTools,
    /// Uses the newer name of the answer limit.
    MaxCompletionTokens,
    /// Appends a user's text after a tool result to the result's message.
    WordsInResults,
    /// Limits answers to this number of tokens, unless a limit is configured.
    AnswerLimit(u64),
    /// Leaves out a field of the body.
    WithoutField(String),
    /// Leaves out the tool with that name.
    WithoutTool(String),
    /// Leaves out all pictures.
    WithoutPictures,
    /// Leaves out the picture with that hash.
    WithoutPicture(u64),
    /// Sends the schema with that hash only as text. Other schemas may be accepted.
    WithoutSchema(u64),
}

impl Change {
    /// Returns the part of requests that the change affects.
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

    /// Returns true if the change is about the model, not just one conversation.
    pub(crate) fn is_lasting(&self) -> bool {
        *self != Self::WithoutSignedThoughts
    }

    /// Returns the number of refusals after which the change is remembered. Changes that cost the model an ability need
    /// two, as a single refusal may be due to chance or an unusual request. A single picture is not sent a second time.
    pub(crate) fn required_refusals(&self) -> u32 {
        if matches!(self, Self::TextTools | Self::WithoutTool(_) | Self::WithoutPictures) { 2 } else { 1 }
    }

    /// Returns true if a recorded change is plausible.
    pub(crate) fn is_sound(&self) -> bool {
        match self {
            Self::WithoutField(name) => !name.is_empty() && name.len() <= RequestForm::MAX_FIELD && name.is_ascii(),
            Self::AnswerLimit(tokens) => *tokens > 0,
            Self::WithoutTool(name) => name.len() <= RequestForm::MAX_TOOL && !name.contains(char::is_control),
            _ => self.is_lasting(),
        }
    }
}

/// Describes the change, as a continuation of "retrying".
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithoutNamedTools => f.write_str("without tools that must not be called"),
            Self::EchoReasoning => f.write_str("with the model's earlier reasoning, which the server requires"),
            Self::WithoutEcho => f.write_str("without the model's earlier reasoning, which the server refuses"),
            Self::WithoutSignedThoughts => f.write_str(
                "without the model's earlier reasoning, which the server no longer accepts in this conversation",
            ),
            Self::TextTools => f.write_str("with tools in the text, as native tools may be refused"),
            Self::WithoutTool(name) => write!(f, "without the tool {name}, which the server may refuse"),
            Self::WithoutPictures => f.write_str("without pictures, which the server refuses"),
            Self::WithoutPicture(_) => f.write_str("without a picture that the server may refuse"),
            Self::WordsInResults => {
                f.write_str("with the user's text in the preceding result, as the server requires alternating roles")
            }
            Self::AnswerLimit(tokens) => {
                write!(f, "with answers of at most {tokens} tokens, which is the server's limit")
            }
            Self::WithoutSchema(_) => f.write_str("with the answer's schema in the text, as its field may be refused"),
            Self::MaxCompletionTokens => f.write_str("with max_completion_tokens instead of max_tokens"),
            Self::WithoutField(name) => write!(f, "without {name}, which the server may refuse"),
        }
    }
}

/// Returns the hash of a part of requests, stable across restarts.
fn hash_of(part: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn picture_fingerprint(shown: &ShownPicture) -> Option<u64> {
    shown.content.as_ref().map(hash_of)
}

/// Note in place of pictures that are not sent.
const PICTURES_OMITTED: &str = "(Some of these pictures are not shown: the model's server refused them.)";

pub(crate) fn fingerprint(schema: &AnswerSchema) -> u64 {
    hash_of(&schema.text())
}

/// All deviations that apply to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestForm(pub(crate) BTreeSet<Change>);

impl RequestForm {
    /// Maximum length of the name of a field that is left out, in bytes.
    pub(crate) const MAX_FIELD: usize = 64;
    /// Maximum length of the name of a tool that is left out, in bytes.
    pub(crate) const MAX_TOOL: usize = 256;

    /// Returns true if the form includes the change.
    pub(crate) fn has(&self, change: &Change) -> bool {
        self.0.contains(change)
    }

    /// Returns the maximum number of tokens in an answer that the server accepts, if known from refusals.
    pub(crate) fn answer_limit(&self) -> Option<u64> {
        let limits = self.0.iter().filter_map(|change| match change {
            Change::AnswerLimit(tokens) => Some(*tokens),
            _ => None,
        });
        limits.min()
    }

    /// Returns true if a field of the body may be sent.
    pub(crate) fn sends(&self, field: &str) -> bool {
        !self.0.iter().any(|change| matches!(change, Change::WithoutField(name) if name == field))
    }

    /// Returns the configured fields of the body that may be sent.
    pub(crate) fn configured(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        fields.clone().into_iter().filter(|(field, _)| self.sends(field)).collect()
    }

    /// Returns true if a tool with that name may be sent.
    pub(crate) fn sends_tool(&self, tool: &str) -> bool {
        !self.0.iter().any(|change| matches!(change, Change::WithoutTool(name) if name == tool))
    }

    /// Returns true if a picture may be sent.
    pub(crate) fn shows(&self, picture: &ShownPicture) -> bool {
        let is_refused = |print| self.has(&Change::WithoutPicture(print));
        !self.has(&Change::WithoutPictures) && !picture_fingerprint(picture).is_some_and(is_refused)
    }

    /// Returns the request without the pictures that the server refuses.
    pub(crate) fn omit_refused_pictures<'a>(&self, request: &'a ModelRequest) -> Cow<'a, ModelRequest> {
        let mut request = Cow::Borrowed(request);
        if !self.0.iter().any(|change| matches!(change, Change::WithoutPictures | Change::WithoutPicture(_))) {
            return request;
        }
        if request.messages.iter().any(|message| !message.pictures().is_empty()) {
            for message in &mut request.to_mut().messages {
                message.retain_pictures(|picture| self.shows(picture), PICTURES_OMITTED);
            }
        }
        request
    }

    /// Returns true if tool calls use the wire's own fields.
    pub(crate) fn native_tools(&self, config: &ModelConfig) -> bool {
        config.uses_native_tools() && !self.has(&Change::TextTools)
    }

    /// Returns true if earlier reasoning is sent back.
    pub(crate) fn echoes_reasoning(&self, config: &ModelConfig) -> bool {
        (config.echo_reasoning || self.has(&Change::EchoReasoning)) && !self.has(&Change::WithoutEcho)
    }
}

/// Maximum length of a refusal that is searched, in characters. Some refusals repeat the whole request after the
/// reason.
const MAX_SEARCHED: usize = 2_000;

/// Other names by which servers refer to fields of a request.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("stream_options", "include_usage"),
    ("output_config", "effort"),
    ("include", "reasoning.encrypted_content"),
    ("max_tokens", RENAMED_LIMIT),
];

/// The newer name of the answer limit.
const RENAMED_LIMIT: &str = "max_completion_tokens";

/// Minimum number in a refusal that can be an answer limit, in tokens.
const MIN_ANSWER: u64 = 256;

#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// Start of the body.
    text: String,
}

/// Refusals of the same part are equal. Request IDs and times, which differ between refusals, are ignored.
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        let is_name =
            |word: &&str| word.len() > 9 && !word.contains('.') && word.contains(|char: char| char.is_ascii_digit());
        let stable_words = |refusal: &'_ Self| -> Vec<String> {
            let words = refusal.text.split(|char: char| char.is_whitespace() || "\"',:{}".contains(char));
            words.filter(|word| !is_name(word)).map(str::to_owned).collect()
        };
        self.status == other.status && stable_words(self) == stable_words(other)
    }
}

impl Refusal {
    /// Returns the refusal, if another form of the request may be accepted.
    pub(crate) fn of(status: u16, body: &[u8]) -> Option<Box<Self>> {
        let body = String::from_utf8_lossy(body);
        let is_page = body.trim_start().starts_with('<');
        let text = body.chars().take(MAX_SEARCHED).collect();
        (matches!(status, 400 | 404 | 422 | 500) && !is_page).then(|| Box::new(Self { status, text }))
    }

    /// Returns true if a name occurs as a separate word and `is_valid_prefix` accepts the character before it.
    fn mentions(&self, name: &str, is_valid_prefix: impl Fn(Option<char>) -> bool) -> bool {
        let is_name_char = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-');
        self.text.match_indices(name).any(|(at, _)| {
            let before = self.text[..at].chars().next_back();
            let after = self.text[at + name.len()..].chars().next();
            !before.is_some_and(is_name_char) && !after.is_some_and(is_name_char) && is_valid_prefix(before)
        })
    }

    /// Returns true if a tool is named. A name that could be an ordinary word must be quoted.
    fn names_tool(&self, name: &str) -> bool {
        let is_word = name.chars().all(char::is_alphabetic);
        self.mentions(name, |before| !is_word || before.is_some_and(|char| "'\"`".contains(char)))
    }

    /// Returns true if a field of the body is named.
    fn names_field(&self, field: &str) -> bool {
        let other = OTHER_NAMES.iter().find(|(name, _)| *name == field).map(|(_, other)| *other);
        self.mentions(field, |_| true) || other.is_some_and(|other| self.mentions(other, |_| true))
    }

    /// Returns the positions in the list of tools: `tools.3.custom`, `tools[3]`, `"tools", 3`.
    fn tool_positions(&self) -> Vec<usize> {
        let position = |rest: &str| {
            let digits = rest.trim_start_matches(|char| "\\\"'.,[/ ".contains(char));
            let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
            digits[..end].parse().ok().filter(|_| digits.len() < rest.len())
        };
        let of = |list: &str| self.text.split(list).skip(1).filter_map(position).collect::<Vec<usize>>();
        // One provider nests its list in the single entry of another one.
        Some(of("function_declarations"))
            .filter(|tool_positions| !tool_positions.is_empty())
            .unwrap_or_else(|| of("tools"))
    }

    /// Returns the tools that the refusal names, unless it seems to repeat the whole list.
    fn tools(&self, sent: &[String]) -> Vec<Change> {
        let tool_positions = self.tool_positions();
        let is_named = |(at, name): &(usize, &String)| tool_positions.contains(at) || self.names_tool(name);
        let named: Vec<Change> =
            sent.iter().enumerate().filter(is_named).map(|(_, name)| Change::WithoutTool(name.clone())).collect();
        if named.len() <= sent.len().div_ceil(2) { named } else { Vec::new() }
    }

    /// Returns the smallest plausible limit that the refusal names.
    fn answer_limit(&self) -> Option<u64> {
        let numbers = self.text.split(|char: char| !char.is_ascii_digit());
        numbers.filter_map(|number| number.parse().ok()).filter(|tokens| *tokens >= MIN_ANSWER).min()
    }
}

/// Parts of a refused request that are optional.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentParts {
    /// Tools sent in the wire's own field, in their order.
    pub(crate) tools: Vec<String>,
    /// True if no tool may be called.
    pub(crate) named_only: bool,
    /// True if the configuration requires the wire's own field for tools.
    pub(crate) insists_on_native: bool,
    /// True if there are earlier texts or calls by the model.
    pub(crate) history: bool,
    /// True if a user's text directly follows a tool result.
    pub(crate) text_after_results: bool,
    /// True if earlier reasoning is sent back.
    pub(crate) echoes_reasoning: bool,
    /// True if signed reasoning is sent back.
    pub(crate) signed_thoughts: bool,
    /// True if the request has an answer limit that is not configured.
    pub(crate) chosen_limit: bool,
    /// Hash of the answer schema, if it is sent in a separate field.
    pub(crate) schema: Option<u64>,
    pub(crate) pictures: Vec<u64>,
    /// Fields of the body that are not part of the conversation.
    pub(crate) fields: Vec<String>,
    /// Subset of `fields` that is not configured.
    pub(crate) extras: Vec<String>,
}

impl SentParts {
    /// Returns the changes that leave out parts of the request, grouped by part, the likeliest first.
    fn parts(&self) -> [Vec<Change>; 8] {
        let change_if = |is_sent: bool, change: Change| Vec::from_iter(is_sent.then_some(change));
        [
            change_if(self.signed_thoughts, Change::WithoutSignedThoughts),
            Vec::from_iter(self.schema.map(Change::WithoutSchema)),
            change_if(self.named_only, Change::WithoutNamedTools),
            change_if(self.text_after_results, Change::WordsInResults),
            self.tools.iter().cloned().map(Change::WithoutTool).collect(),
            change_if(!self.tools.is_empty(), Change::TextTools),
            self.pictures.iter().copied().map(Change::WithoutPicture).collect(),
            self.extras.iter().cloned().map(Change::WithoutField).collect(),
        ]
    }

    /// Returns the changes that an accepted request has shown to be unnecessary.
    pub(crate) fn unneeded(&self) -> impl Iterator<Item = Change> {
        let pictures = (!self.pictures.is_empty()).then_some(Change::WithoutPictures);
        let fields = self.fields.iter().cloned().map(Change::WithoutField);
        self.parts().into_iter().flatten().filter(Change::is_lasting).chain(pictures).chain(fields)
    }
}

/// Sets of changes to try one after the other: for parts that the refusal names, then for parts that differ from
/// accepted requests, and finally all of them. Changes in `unneeded` concern parts that were accepted before.
pub(crate) fn candidates(refusal: &Refusal, sent: &SentParts, unneeded: &BTreeSet<Change>) -> Vec<Vec<Change>> {
    // A missing path or a server failure does not depend on the form of the request.
    let is_about_form = matches!(refusal.status, 400 | 422);
    // Tools are suspected individually if other tools were accepted.
    let knows_tools = unneeded.contains(&Change::TextTools);
    let without = |field: &String| match field.as_str() {
        "max_tokens" if refusal.names_field(RENAMED_LIMIT) => Change::MaxCompletionTokens,
        _ => Change::WithoutField(field.clone()),
    };
    let mut named: Vec<&String> = sent.fields.iter().filter(|field| refusal.names_field(field)).collect();
    // A nested field is tried before its parent.
    named.sort_by_key(|field| !field.contains('.'));
    let named = named.into_iter().map(|field| vec![without(field)]);
    let (accepted, fresh): (Vec<_>, Vec<_>) = named.partition(|set| set.iter().all(|change| unneeded.contains(change)));
    let echo = if sent.echoes_reasoning { Change::WithoutEcho } else { Change::EchoReasoning };
    let wants_echo = sent.history && refusal.names_field("reasoning_content");
    let limit = refusal.answer_limit().filter(|_| sent.chosen_limit && refusal.names_field("max_tokens"));
    let is_guessed = |change: &Change| {
        let may_help = match change {
            Change::WithoutSignedThoughts | Change::WithoutNamedTools | Change::WithoutField(_) => is_about_form,
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
    sets.extend(fresh.into_iter().chain(guesses).chain(accepted));
    sets.retain(|set| !set.is_empty());
    if sets.len() > 1 {
        let all: BTreeSet<Change> = sets.iter().flatten().cloned().collect();
        sets.push(all.into_iter().collect());
    }
    sets
}

/// Maximum number of sets that one call tries.
const MAX_TRIES: usize = 8;

/// Changes tried by one call.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    /// Changes for the next attempt.
    current: Vec<Change>,
    /// All sets that were tried. The last one may still be accepted.
    tried: Vec<Vec<Change>>,
    last: Option<Refusal>,
}

impl Trials {
    pub(crate) fn current(&self) -> &[Change] {
        &self.current
    }

    /// Records a refusal and selects the next set. Returns `None` if no set is left to try.
    pub(crate) fn after(&mut self, refusal: Refusal, candidates: Vec<Vec<Change>>) -> Option<Vec<Change>> {
        if self.last.as_ref() == Some(&refusal)
            && let Some(failed) = self.tried.last()
        {
            self.current.retain(|change| !failed.contains(change));
        }
        self.last = Some(refusal);
        let is_untried = |set: &Vec<Change>| self.tried.len() < MAX_TRIES && !self.tried.contains(set);
        let next = candidates.into_iter().find(is_untried)?;
        self.current.extend(next.iter().cloned());
        self.tried.push(next.clone());
        Some(next)
    }

    /// Returns the changes with which the server accepted the request, and resets the trials.
    pub(crate) fn take_accepted(&mut self) -> Vec<Change> {
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

    fn refusal(status: u16, text: &str) -> Refusal {
        *Refusal::of(status, text.as_bytes()).unwrap()
    }

    fn without(field: &str) -> Change {
        Change::WithoutField(field.to_owned())
    }

    /// Checks the candidate sets, except for the last one, which combines them all.
    #[track_caller]
    fn check(text: &str, sent: &SentParts, accepted: &[Change], expected: &[&[Change]]) {
        let mut sets = candidates(&refusal(400, text), sent, &accepted.iter().cloned().collect());
        sets.truncate(expected.len());
        assert_eq!(sets, expected, "{text}");
    }

    #[test]
    fn tool_names_in_refusals_are_recognised() {
        let tool = |name: &str| Change::WithoutTool(name.to_owned());
        for text in [
            "Invalid schema for function 'web': In context=(), 'oneOf' is not permitted",
            r#"{"error":{"message":"Invalid schema for function \"web\""}}"#,
            "tools.2.custom.input_schema: input_schema does not support oneOf at the top level",
            "Invalid 'tools[2].function.parameters'",
            r#"{"detail":[{"loc":["body","tools",2,"function"],"msg":"bad"}]}"#,
            "GenerateContentRequest.tools[0].function_declarations[2].name: invalid",
        ] {
            check(text, &sent(), &[], &[&[tool("web")], &[Change::TextTools]]);
        }
        check("read_file and tools[0] are odd", &sent(), &[], &[&[tool("now"), tool("read_file")]]);
        // A word that is also a tool's name, a repeated list, and unrelated numbers.
        for text in
            ["not now", "'now', 'read_file', 'web'", "128 tools are the limit, 3 too many", "tools.9.x", "tools"]
        {
            check(text, &sent(), &[], &[&[Change::TextTools]]);
        }
    }

    #[test]
    fn field_names_in_refusals_are_recognised() {
        check("'temperature' does not support 0.2", &sent(), &[], &[&[without("temperature")], &[Change::TextTools]]);
        check("reasoning.effort: no", &sent(), &[], &[&[without("reasoning.effort")], &[without("reasoning")]]);
        check("no include_usage", &sent(), &[], &[&[without("stream_options")], &[Change::TextTools]]);
        check("'max_tokens' is not for this model", &sent(), &[], &[&[without("max_tokens")]]);
        for text in
            ["Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "use max_completion_tokens"]
        {
            check(text, &sent(), &[], &[&[Change::MaxCompletionTokens], &[Change::TextTools]]);
        }
        check("reasoning_content must be passed back", &sent(), &[], &[&[Change::EchoReasoning]]);
        let echoes_reasoning = SentParts { echoes_reasoning: true, ..sent() };
        check("property 'reasoning_content' is unsupported", &echoes_reasoning, &[], &[&[Change::WithoutEcho]]);
        let chosen = SentParts { chosen_limit: true, ..sent() };
        check("max_tokens: 32000 > 8192, which is the maximum", &chosen, &[], &[&[Change::AnswerLimit(8192)]]);
    }

    #[test]
    fn previously_accepted_parts_are_suspected_last() {
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
        let mut accepted: Vec<Change> =
            SentParts { pictures: vec![9], schema: None, ..parts.clone() }.unneeded().collect();
        check("Bad Request", &parts, &accepted, &[&[Change::WithoutSignedThoughts], &[schema], &[picture]]);
        accepted.retain(|change| *change != Change::WithoutTool("web".to_owned()));
        let plain = SentParts { schema: None, pictures: Vec::new(), signed_thoughts: false, ..parts };
        check("Bad Request", &plain, &accepted, &[&[Change::WithoutTool("web".to_owned())]]);
        check(
            "no temperature",
            &plain,
            &accepted,
            &[&[Change::WithoutTool("web".to_owned())], &[without("temperature")]],
        );
        let all: Vec<Change> = plain.unneeded().collect();
        assert!(candidates(&refusal(400, "Bad Request"), &plain, &all.iter().cloned().collect()).is_empty());
        // A missing path or a server failure does not depend on fields.
        for status in [404, 500] {
            assert_eq!(candidates(&refusal(status, "oh"), &plain, &BTreeSet::new()), [[Change::TextTools]]);
        }
        assert!(Refusal::of(401, b"no").is_none() && Refusal::of(404, b" <html>").is_none());
    }

    #[test]
    fn request_ids_do_not_distinguish_refusals() {
        let same = |a: &str, b: &str| refusal(400, a) == refusal(400, b);
        assert!(same("no, req_1234567a of 2026-11-29", "no, req_1234567b of 2026-11-30"));
        assert!(!same("tools.3.custom", "tools.4.custom") && !same("a", "b"));
    }

    #[test]
    fn only_helpful_changes_are_retained() {
        let [a, b, c] = ["a", "b", "c"].map(|name| vec![Change::WithoutField(name.to_owned())]);
        let both = [a.clone(), b.clone()];
        let mut trials = Trials::default();
        assert_eq!(trials.after(refusal(400, "a or b"), both.to_vec()), Some(a));
        assert_eq!(trials.after(refusal(400, "a or b"), both.to_vec()), Some(b.clone()));
        assert_eq!(trials.current(), b);
        assert_eq!(trials.after(refusal(400, "now c"), vec![c.clone()]), Some(c.clone()));
        assert_eq!(trials.after(refusal(400, "now c"), vec![c.clone()]), None);
        assert_eq!(trials.take_accepted(), b);
        assert_eq!(trials.after(refusal(400, "no"), Vec::new()), None);
        assert_eq!(trials.current(), []);
    }
}

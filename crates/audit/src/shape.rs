//! An entry as it is written: without secrets, and of bounded size. Pure.
//!
//! Texts are cleaned whole and cut afterwards, so that no cut can leave half a secret that nobody would know again.
//! The fingerprint of what was cut is one of the cleaned text: that of a short secret could be guessed.

use std::fmt::Write as _;

use agentd_core::{
    audit::{AuditEntry, AuditFact, CallEnd, ChangedFile, DecidedBy, Decision},
    interrupt::{Answer, AnsweredBy},
};
use serde_json::Value;

use crate::{
    chain::sha256,
    redact::{MASK, scrub},
};

/// Bytes of one text that are kept: enough to judge a command or a path again.
pub(crate) const LONGEST_TEXT: usize = 4 * 1024;
/// Bytes of the arguments of one call that are kept in all.
const LARGEST_ARGS: usize = 48 * 1024;
/// Elements of a list or an object that are kept.
const MOST_ELEMENTS: usize = 256;
/// Maximum nesting of stored values; readers of JSON commonly stop at 128.
const MAX_DEPTH: usize = 48;
/// Files of one entry that are kept.
const MOST_FILES: usize = 200;
/// Bytes of a path that are kept. All of this together stays, also where every byte is escaped, below what a line may have.
const LONGEST_PATH: usize = 512;

/// The entry as it may be written, as one JSON object.
pub(crate) fn shape(mut entry: AuditEntry, clean: &dyn Fn(&str) -> String) -> Result<String, serde_json::Error> {
    // The ids are the engine's own.
    Shape { clean }.fact(&mut entry.fact);
    serde_json::to_string(&entry)
}

struct Shape<'a> {
    clean: &'a dyn Fn(&str) -> String,
}

impl Shape<'_> {
    /// Every field is named, so that a new one cannot be forgotten.
    fn fact(&self, fact: &mut AuditFact) {
        match fact {
            AuditFact::CallDecided(decision) => self.decision(decision),
            AuditFact::CallEnded(end) => self.end(end),
            AuditFact::ModelAsked { tool, model, max_tokens: _ } => self.texts([tool, model]),
            AuditFact::GrantAdded { rule, scope, by } | AuditFact::GrantRevoked { rule, scope, by } => {
                self.texts([rule, scope]);
                self.answerer(by);
            }
            AuditFact::ModeSet { mode: _, by } => self.answerer(by),
            AuditFact::ProjectTrusted { project: name, sha256: _, by }
            | AuditFact::ProjectDistrusted { project: name, by }
            | AuditFact::PluginRemoved { plugin: name, by }
            | AuditFact::SessionImported { source: name, former_id: _, events: _, by } => {
                self.text(name);
                self.answerer(by);
            }
            AuditFact::PluginAdded { plugin, sha256: _, source, by } => {
                self.texts([plugin, source]);
                self.answerer(by);
            }
            AuditFact::Undone { of_turn: _, files, by } => {
                self.files(files);
                self.text(by);
            }
            AuditFact::RulesRead { sources, sha256: _, problem } => {
                sources.truncate(MOST_ELEMENTS);
                self.texts(sources.iter_mut().chain(problem));
            }
            AuditFact::LogDamaged { found: text, bytes: _, sha256: _, kept_as: _, problem: _ }
            | AuditFact::Cleaned { parts: _, by: text } => self.text(text),
            AuditFact::DaemonStarted { .. }
            | AuditFact::DaemonStopped { .. }
            | AuditFact::LogContinued { .. }
            | AuditFact::LogTrimmed { .. } => {}
        }
    }

    fn decision(&self, decision: &mut Decision) {
        let Decision {
            tool,
            args,
            leads_to,
            asked_by,
            verdict: _,
            layer,
            rule,
            risk: _,
            reason,
            allowed: _,
            granted_by,
            by,
            answer,
            reply,
        } = decision;
        granted_by.truncate(MOST_ELEMENTS);
        self.texts([tool, &mut asked_by.model, &mut asked_by.agent].into_iter().chain(granted_by));
        self.texts([leads_to, layer, rule, reason].into_iter().flatten());
        self.args(args);
        match by {
            DecidedBy::Client(name) => self.text(name),
            DecidedBy::Rules
            | DecidedBy::Grant
            | DecidedBy::Deadline
            | DecidedBy::OnInterrupt(_)
            | DecidedBy::Tool
            | DecidedBy::Daemon => {}
        }
        for answer in [answer, reply].into_iter().flatten() {
            match answer {
                Answer::Reject { reason } => self.texts(reason),
                Answer::Edit { args } => self.args(args),
                Answer::Text { text } => self.text(text),
                // What it has beside its name is the daemon's own, or was shown before.
                _ => {}
            }
        }
    }

    fn end(&self, end: &mut CallEnd) {
        let CallEnd { tool, files, output, output_bytes, output_sha256, .. } = end;
        self.text(tool);
        self.files(files);
        let said = (self.clean)(&std::mem::take(output));
        (*output_bytes, *output_sha256) = (said.len() as u64, Some(sha256(said.as_bytes())));
    }

    fn answerer(&self, by: &mut AnsweredBy) {
        match by {
            AnsweredBy::Client(name) => self.text(name),
            AnsweredBy::Deadline | AnsweredBy::Daemon => {}
        }
    }

    fn files(&self, files: &mut Vec<ChangedFile>) {
        files.truncate(MOST_FILES);
        files.iter_mut().for_each(|file| file.path = cut((self.clean)(&file.path), LONGEST_PATH));
    }

    fn texts<'t>(&self, texts: impl IntoIterator<Item = &'t mut String>) {
        texts.into_iter().for_each(|text| self.text(text));
    }

    fn text(&self, text: &mut String) {
        *text = cut((self.clean)(text), LONGEST_TEXT);
    }

    /// Looking through a value that nests very deeply could exhaust the stack: it goes whole.
    fn args(&self, args: &mut Value) {
        if depth_is_within(args, MAX_DEPTH) {
            scrub(args, self.clean);
        } else {
            *args = Value::String(format!("[not kept: it nests deeper than {MAX_DEPTH}]"));
        }
        let mut left = LARGEST_ARGS;
        bound(args, &mut left);
    }
}

fn depth_is_within(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left > 0 && items.iter().all(|item| depth_is_within(item, left - 1)),
        Value::Object(fields) => left > 0 && fields.values().all(|field| depth_is_within(field, left - 1)),
        _ => true,
    }
}

/// Cuts what is long, and counts down what is left for all of it.
fn bound(value: &mut Value, left: &mut usize) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => *left = left.saturating_sub(8),
        Value::String(text) => {
            // Once nothing is left, a text still gets room to say what it was.
            *text = cut(std::mem::take(text), LONGEST_TEXT.min((*left).max(64)));
            *left = left.saturating_sub(text.len());
        }
        Value::Array(items) => {
            let all = items.len();
            let mut kept = 0;
            while kept < all.min(MOST_ELEMENTS) && *left > 0 {
                bound(&mut items[kept], left);
                kept += 1;
            }
            if kept < all {
                items.truncate(kept);
                items.push(Value::String(format!("[cut: {} more of {all} elements]", all - kept)));
            }
        }
        Value::Object(fields) => {
            let all = fields.len();
            let mut kept = 0;
            for (name, mut field) in std::mem::take(fields) {
                if kept >= MOST_ELEMENTS || *left == 0 {
                    break;
                }
                let name = cut(name, 256);
                *left = left.saturating_sub(name.len());
                bound(&mut field, left);
                fields.insert(name, field);
                kept += 1;
            }
            if kept < all {
                fields.insert("[cut]".to_owned(), Value::String(format!("{} more of {all} fields", all - kept)));
            }
        }
    }
}

/// The start of a text that is longer than `limit` bytes, with the size and the fingerprint of the whole.
fn cut(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let mut start = text[..text.floor_char_boundary(limit)].to_owned();
    // A mask that was cut in half would look like something that somebody had written.
    if let Some(at) = (1..MASK.len()).rev().find_map(|part| start.ends_with(&MASK[..part]).then(|| start.len() - part))
    {
        start.truncate(at);
    }
    // Writing to a text cannot fail.
    let _ = write!(start, "… [cut: {} bytes in all, sha256 {}]", text.len(), sha256(text.as_bytes()));
    start
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        audit::{Requester, VerdictName},
    };
    use serde_json::json;

    use super::*;

    fn decided(args: Value) -> AuditEntry {
        AuditEntry::general(
            Timestamp::UNIX_EPOCH,
            AuditFact::CallDecided(Box::new(Decision {
                tool: "t".to_owned(),
                args,
                leads_to: None,
                asked_by: Requester { model: "m".to_owned(), agent: "main".to_owned() },
                verdict: VerdictName::Ask,
                layer: None,
                rule: None,
                risk: None,
                reason: None,
                allowed: true,
                granted_by: Vec::new(),
                by: DecidedBy::Client("hunter22".to_owned()),
                answer: Some(Answer::Edit { args: json!({"a": {"b": "x hunter22"}}) }),
                reply: Some(Answer::Text { text: "hunter22, said the person".to_owned() }),
            })),
        )
    }

    fn clean(text: &str) -> String {
        text.replace("hunter22", MASK)
    }

    fn args_of(args: Value) -> Value {
        let line = shape(decided(args), &clean).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["args"].take()
    }

    #[test]
    fn a_long_text_keeps_its_start_and_tells_the_rest() {
        let text = format!("rm -rf {}", "ä".repeat(5000));
        let kept = args_of(json!({"command": text}));
        let kept = kept["command"].as_str().unwrap();
        assert!(kept.starts_with("rm -rf ää") && kept.len() < LONGEST_TEXT + 120, "{kept}");
        assert!(kept.ends_with(&format!("… [cut: 10007 bytes in all, sha256 {}]", sha256(text.as_bytes()))), "{kept}");
    }

    #[test]
    fn no_cut_leaves_half_a_secret() {
        for before in LONGEST_TEXT - 12..LONGEST_TEXT + 4 {
            let text = format!("{}hunter22{}", "x".repeat(before), "y".repeat(100));
            let kept = args_of(json!({"command": text}));
            let kept = kept["command"].as_str().unwrap();
            assert!(!kept.contains("hun"), "{kept}");
            let start = kept.split('…').next().unwrap();
            assert!(start.replace(MASK, "").chars().all(|c| c == 'x' || c == 'y'), "{start}");
        }
    }

    #[test]
    fn what_is_huge_is_bounded() {
        let line = |args| shape(decided(args), &clean).unwrap().len();
        assert!(line(json!(vec!["word"; 100_000])) < 32 * 1024);
        assert!(line(json!(vec!["x".repeat(LONGEST_TEXT); 1000])) < 2 * LARGEST_ARGS);
        let fields: serde_json::Map<_, _> = (0..10_000).map(|n| ("k".repeat(500) + &n.to_string(), json!(n))).collect();
        assert!(line(Value::Object(fields)) < 2 * LARGEST_ARGS);
        let deep = (0..100).fold(json!("hunter22"), |inner, _| json!([inner]));
        assert_eq!(args_of(deep), json!("[not kept: it nests deeper than 48]"));
    }

    #[test]
    fn of_what_was_said_only_size_and_fingerprint_are_kept() {
        let end = CallEnd {
            tool: "t".to_owned(),
            ran: true,
            error: None,
            exit_code: Some(0),
            duration_ms: 1,
            files: Vec::new(),
            output: "it is hunter22".to_owned(),
            output_bytes: 0,
            output_sha256: None,
        };
        let line = shape(AuditEntry::general(Timestamp::UNIX_EPOCH, AuditFact::CallEnded(end)), &clean).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&line["output_bytes"], line.get("output")), (&json!(16), None));
        assert_eq!(line["output_sha256"], sha256(b"it is [redacted]"));
    }
}

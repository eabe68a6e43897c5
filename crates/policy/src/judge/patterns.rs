//! What the patterns of the rule files say of the texts of a call.

use std::path::Path;

use agentd_core::path;
use serde_json::Value;

use super::{Call, NAMES, PROJECT, SHELL_TOOL};
use crate::{checker::files, opinion::LayerVerdict};

/// Arguments that say what a call is about, so that a pattern which allows may look at them. What is written into a
/// file says nothing of that.
const SUBJECTS: [&str; 10] =
    ["path", "file_path", "filepath", "filename", "file", "directory", "dir", "url", "name", "query"];
/// Values up to this length are also looked at together with their keys, such as `password: …`.
const SHORT: usize = 256;
/// The longest text that may be a path, in bytes, as the kernel has it.
const LONGEST_PATH: usize = 4096;

impl Call<'_> {
    /// Verdicts of patterns against any text of the arguments. A call without any is looked at as an empty text, so
    /// that a pattern which finds anything finds it.
    pub(super) fn patterns_against(&self) -> Vec<LayerVerdict> {
        let mut found = Vec::new();
        let sections = [Some(&self.rules.global), self.section.map(|section| &section.patterns)];
        let mut is_silent = true;
        let mut look_at = |text: &str| {
            is_silent = false;
            found.extend(sections.iter().flatten().flat_map(|section| section.against(text)));
            // Commands are taken apart elsewhere; they are no path.
            let Some(plain) = plainly(text).filter(|_| self.facts.tool.name != SHELL_TOOL) else { return };
            // In the session's tree `/outputs/a` is `outputs/a`.
            for form in [plain.as_str(), plain.trim_start_matches('/')] {
                if form != text {
                    found.extend(sections.iter().flatten().flat_map(|section| section.against(form)));
                }
            }
        };
        let mut look = |text: &str| {
            look_at(text);
            // A tool takes the name with the characters that are written out.
            if text.contains('\\')
                && let Some(read) = path::read(text)
            {
                look_at(&read);
            }
        };
        match &self.arguments {
            Some(arguments) => {
                arguments.iter().for_each(|(key, value)| texts(Some(key), value, &mut look));
                files::patched_names(arguments).for_each(&mut look);
                let named = files::named(self.facts.arguments);
                let named = named.iter().map(String::as_str).chain(files::patched_names(arguments));
                named.filter_map(|path| self.in_project(path)).for_each(|path| look(&path));
            }
            None => look(self.facts.arguments),
        }
        if is_silent {
            found.extend(sections.iter().flatten().flat_map(|section| section.against("")));
        }
        found
    }

    /// The full name of a path that means the project, where one is mounted, because it begins with no slash and with none of
    /// the names of the session's tree.
    fn in_project(&self, path: &str) -> Option<String> {
        let is_mounted = self.facts.roots.contains(&Path::new(PROJECT));
        let first = path.split('/').find(|part| !part.is_empty() && *part != ".")?;
        if !is_mounted || path.starts_with('/') || NAMES.iter().any(|name| &name[1..] == first) {
            return None;
        }
        Some(if first == &PROJECT[1..] { format!("/{path}") } else { format!("{PROJECT}/{path}") })
    }

    /// Verdict of patterns in favour of the call's subject.
    pub(super) fn patterns_in_favour(&self) -> Option<LayerVerdict> {
        let arguments = self.arguments.as_ref()?;
        let subjects = || SUBJECTS.iter().filter_map(|key| arguments.get(*key)).filter_map(Value::as_str);
        let sections = [Some(&self.rules.global), self.section.map(|section| &section.patterns)];
        sections.into_iter().flatten().find_map(|section| {
            let in_favour = |text: &str| {
                let opinion = section.in_favour(text)?;
                plainly(text).is_none_or(|plain| section.in_favour(&plain).is_some()).then_some(opinion)
            };
            subjects().find_map(in_favour)
        })
    }
}

/// A path without detours, if the text is one: `outputs//./a` and `outputs/x/../a` are `outputs/a`, which a rule about
/// it means too. Addresses are none: there, two slashes mean something.
fn plainly(text: &str) -> Option<String> {
    if text.len() > LONGEST_PATH || text.contains('\n') || text.contains("://") || !text.contains('/') {
        return None;
    }
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    let root = if text.starts_with('/') { "/" } else { "" };
    Some(format!("{root}{}", parts.join("/")))
}

/// Every text of a value, alone and, where it is short, behind its key.
fn texts(key: Option<&str>, value: &Value, look: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => {
            look(text);
            if let Some(key) = key.filter(|_| text.len() <= SHORT) {
                look(&format!("{key}: {text}"));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(key, item, look)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| texts(Some(key), value, look)),
        _ => {}
    }
}

//! What the patterns of the rule files say of the texts of a call.

use serde_json::Value;

use super::Call;
use crate::policy::opinion::Opinion;

/// Arguments that say what a call is about, so that a pattern which allows may look at them. What is written into a
/// file says nothing of that.
const SUBJECTS: [&str; 10] =
    ["path", "file_path", "filepath", "filename", "file", "directory", "dir", "url", "name", "query"];
/// Values up to this length are also looked at together with their keys, such as `password: …`.
const SHORT: usize = 256;

impl Call<'_> {
    /// What patterns say against any text of the arguments. A call without any is looked at as an empty text, so that a
    /// pattern which finds anything finds it.
    pub(super) fn patterns_against(&self) -> Vec<Opinion> {
        let mut found = Vec::new();
        let sections = [Some(&self.rules.global), self.section.map(|section| &section.patterns)];
        let mut is_silent = true;
        let mut look = |text: &str| {
            is_silent = false;
            found.extend(sections.iter().flatten().flat_map(|section| section.against(text)));
        };
        match &self.arguments {
            Some(arguments) => arguments.iter().for_each(|(key, value)| texts(Some(key), value, &mut look)),
            None => look(self.facts.arguments),
        }
        if is_silent {
            found.extend(sections.iter().flatten().flat_map(|section| section.against("")));
        }
        found
    }

    /// What patterns say in favour of what the call is about.
    pub(super) fn patterns_in_favour(&self) -> Option<Opinion> {
        let arguments = self.arguments.as_ref()?;
        let subjects = || SUBJECTS.iter().filter_map(|key| arguments.get(*key)).filter_map(Value::as_str);
        let sections = [Some(&self.rules.global), self.section.map(|section| &section.patterns)];
        sections.into_iter().flatten().find_map(|section| subjects().find_map(|text| section.in_favour(text)))
    }
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

//! A slot put into the text of `models.yaml`. Everything else in it stays as the person wrote it, comments too. Pure.

use agentd_core::model::Slot;
use serde_json::Value;

/// Settings of a slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SlotEntry {
    pub(super) base_url: String,
    pub(super) wire: Option<String>,
    pub(super) key_file: Option<String>,
    pub(super) id: Option<String>,
    pub(super) echoes: bool,
}

impl SlotEntry {
    fn yaml(&self, slot: Slot) -> String {
        // JSON's strings are YAML's. A variable in what a server says of itself is none.
        let quoted = |text: &str| Value::from(text.replace("${", "$${")).to_string();
        let mut yaml = format!("{slot}:\n  base_url: {}\n", quoted(&self.base_url));
        let settings = [("wire", &self.wire), ("api_key_file", &self.key_file), ("id", &self.id)];
        for (name, value) in settings {
            if let Some(value) = value {
                yaml.push_str(&format!("  {name}: {}\n", quoted(value)));
            }
        }
        if self.echoes {
            yaml.push_str("  echo_reasoning: true\n");
        }
        yaml
    }
}

/// Returns whether the text sets the slot.
pub(super) fn has(text: &str, slot: Slot) -> bool {
    text.lines().any(|line| begins(line, slot))
}

/// The text with that slot in place of what it said of it.
pub(super) fn with(text: &str, slot: Slot, entry: &SlotEntry) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let yaml = entry.yaml(slot);
    let Some(at) = lines.iter().position(|line| begins(line, slot)) else {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return format!("{text}{gap}{yaml}");
    };
    let below = lines[at + 1..].iter().take_while(|line| !is_content(line) || line.starts_with([' ', '\t', '}']));
    let mut end = at + 1 + below.count();
    // What stands before the next slot is about that one.
    while end > at + 1 && !is_content(lines[end - 1]) {
        end -= 1;
    }
    format!("{}{yaml}{}", lines[..at].concat(), lines[end..].concat())
}

fn begins(line: &str, slot: Slot) -> bool {
    line.trim_start_matches(['"', '\''])
        .strip_prefix(slot.as_str())
        .is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
}

/// A line that is neither empty nor a comment.
fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> SlotEntry {
        SlotEntry { base_url: "http://h/v1".to_owned(), id: Some("m: 1".to_owned()), ..SlotEntry::default() }
    }

    const WRITTEN: &str = "base:\n  base_url: \"http://h/v1\"\n  id: \"m: 1\"\n";

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(with(text, Slot::Base, &entry()), expected, "{text}");
    }

    #[test]
    fn what_a_person_wrote_of_other_slots_stays() {
        check("", WRITTEN);
        check("# mine\ncode: {id: x}", &format!("# mine\ncode: {{id: x}}\n{WRITTEN}"));
        check("base: {id: x}\n\n# of code\ncode: {id: x}\n", &format!("{WRITTEN}\n# of code\ncode: {{id: x}}\n"));
        check(
            "base:\n  id: x\n  # why\n  prices:\n    input: 1\ncode:\n  id: y\n",
            &format!("{WRITTEN}code:\n  id: y\n"),
        );
        check("base: {id: x,\n  b: 1\n}\nchat: {}\n", &format!("{WRITTEN}chat: {{}}\n"));
        check("\"base\" : {id: x}\n", WRITTEN);
        assert!(has("base:\n", Slot::Base) && !has("based: 1\n # base:\n  base: 2", Slot::Base));
    }

    #[test]
    fn what_a_server_calls_its_model_names_no_variable() {
        let entry = SlotEntry { id: Some("${OPENAI_API_KEY}".to_owned()), ..entry() };
        assert!(with("", Slot::Base, &entry).contains("id: \"$${OPENAI_API_KEY}\""));
    }

    #[test]
    fn all_settings_are_written() {
        let entry = SlotEntry {
            wire: Some("anthropic".to_owned()),
            key_file: Some("keys/a.key".to_owned()),
            echoes: true,
            ..entry()
        };
        let expected = "code:\n  base_url: \"http://h/v1\"\n  wire: \"anthropic\"\n  api_key_file: \"keys/a.key\"\n  id: \"m: 1\"\n  \
                        echo_reasoning: true\n";
        assert_eq!(with("", Slot::Code, &entry), expected);
    }

    proptest! {
        #[test]
        fn a_slot_is_there_once_and_writing_it_again_changes_nothing(text in "((base|code|chat|# x|  id: 1|): ?(x|\\{\\}|)\n?){0,8}") {
            let once = with(&text, Slot::Base, &entry());
            prop_assert!(once.contains(WRITTEN));
            prop_assert_eq!(with(&once, Slot::Base, &entry()), once.clone());
        }
    }
}

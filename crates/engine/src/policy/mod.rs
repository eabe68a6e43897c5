//! Whether a call may run. Pure.

use agentd_core::{
    policy::{Risk, Verdict},
    session::SessionSettings,
    tool::{Effect, ToolCall, ToolSpec},
};
use serde_json::Value;

/// The verdict on one call.
pub(crate) fn judge(tool: &ToolSpec, call: &ToolCall, settings: &SessionSettings) -> Verdict {
    let (confirm, risk, reason) = match tool.effect {
        Effect::Read | Effect::State => return Verdict::Allow,
        Effect::Write => (settings.confirm_write, Risk::Medium, "it changes files"),
        Effect::Execute => (settings.confirm_exec, Risk::High, "it runs a command"),
    };
    if !confirm || grant(tool, call).is_some_and(|rule| settings.grants.contains(&rule)) {
        return Verdict::Allow;
    }
    Verdict::Ask { risk, reason: reason.to_owned() }
}

/// The exact rule that an `always` would keep: a command is granted to the letter, with all that stands beside it; a
/// tool that changes files by its name. None where no rule could be exact.
pub(crate) fn grant(tool: &ToolSpec, call: &ToolCall) -> Option<String> {
    let name = &tool.name;
    if tool.effect != Effect::Execute {
        return Some(name.clone());
    }
    // Only what the model wrote is compared, never what a tool may understand by it: other spellings ask again.
    match serde_json::from_str(&call.arguments).ok()? {
        Value::Object(args) if args.is_empty() => None,
        Value::Object(args) => match args.get("command") {
            Some(Value::String(command)) if args.len() == 1 => Some(format!("{name}: {command}")),
            _ => Some(format!("{name} {}", Value::Object(args))),
        },
        _ => None,
    }
}

/// How deeply arguments may nest to be stored as JSON inside an event; readers of JSON commonly stop at 128.
const MAX_DEPTH: usize = 64;

/// Whether arguments nest no deeper than can be stored and read back.
pub(crate) fn is_shallow(args: &Value) -> bool {
    fn within(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left > 0 && items.iter().all(|item| within(item, left - 1)),
            Value::Object(fields) => left > 0 && fields.values().all(|field| within(field, left - 1)),
            _ => true,
        }
    }
    within(args, MAX_DEPTH)
}

#[cfg(test)]
mod tests {
    use agentd_core::ids::CallId;
    use serde_json::json;

    use super::*;

    fn check(effect: Effect, arguments: &Value, settings: &SessionSettings, asks: bool) {
        let tool = ToolSpec { name: "t".to_owned(), description: String::new(), parameters: json!({}), effect };
        let call = ToolCall { call_id: CallId::generate(), name: "t".to_owned(), arguments: arguments.to_string() };
        let verdict = judge(&tool, &call, settings);
        assert_eq!(matches!(verdict, Verdict::Ask { .. }), asks, "{effect:?} {arguments} {settings:?}");
    }

    #[test]
    fn arguments_that_nest_too_deep_are_known() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_shallow(&serde_json::from_str(&nested(64)).unwrap()));
        assert!(!is_shallow(&serde_json::from_str(&nested(65)).unwrap()));
    }

    #[test]
    fn writes_and_commands_ask_unless_the_session_allows_them() {
        let cautious = SessionSettings::default();
        let trusting = SessionSettings { confirm_write: false, confirm_exec: false, ..SessionSettings::default() };
        let granted =
            SessionSettings { grants: vec!["t".to_owned(), "t: make".to_owned()], ..SessionSettings::default() };
        check(Effect::Read, &json!({}), &cautious, false);
        check(Effect::State, &json!({}), &cautious, false);
        check(Effect::Write, &json!({"path": "a"}), &cautious, true);
        check(Effect::Execute, &json!({"command": "make"}), &cautious, true);
        check(Effect::Write, &json!({"path": "a"}), &trusting, false);
        check(Effect::Execute, &json!({"command": "make"}), &trusting, false);
        check(Effect::Write, &json!({"path": "a"}), &granted, false);
        check(Effect::Execute, &json!({"command": "make"}), &granted, false);
        check(Effect::Execute, &json!({"command": "make && rm -rf ."}), &granted, true);
        check(Effect::Execute, &json!({"cmd": "make"}), &granted, true);
        check(Effect::Execute, &json!({"command": "make", "directory": "/project"}), &granted, true);
        check(Effect::Execute, &json!({}), &granted, true);
        check(Effect::Execute, &json!("make"), &granted, true);
    }
}

//! Masks what looks like a secret in what leaves, in the forms that the audit log knows.

use agentd_audit::redact::{Patterns, scrub};
use agentd_core::{
    archive::ArchivedSession,
    event::{Event, EventKind},
};
use serde_json::Value;

/// Masks secrets.
#[derive(Debug, Default)]
pub(super) struct Redactor(Patterns);

impl Redactor {
    /// A text without secrets. One that is JSON stays so.
    pub(super) fn text(&self, text: &str) -> String {
        let may_be_json = text.trim_start().starts_with(['{', '[']);
        if let Some(value) = may_be_json.then(|| serde_json::from_str::<Value>(text).ok()).flatten() {
            let mut masked = value.clone();
            scrub(&mut masked, &|text| self.0.clean(text));
            return if masked == value { text.to_owned() } else { masked.to_string() };
        }
        self.0.clean(text)
    }

    /// An event without secrets. What a server gave with a model's words goes, because nobody can look into it.
    pub(super) fn event(&self, mut event: Event) -> Event {
        if let EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } = &mut event.kind {
            item.origin = None;
        }
        let masked = serde_json::to_value(&event.kind).and_then(|mut value| {
            scrub(&mut value, &|text| self.text(text));
            serde_json::from_value(value)
        });
        event.kind = masked.unwrap_or_else(|_| EventKind::Warning {
            code: "redacted".to_owned(),
            message: "this event is left out, because secrets could not be masked in it".to_owned(),
        });
        event
    }

    /// A description without secrets.
    pub(super) fn session(&self, mut session: ArchivedSession) -> ArchivedSession {
        session.settings.pins.iter_mut().for_each(|pin| *pin = self.text(pin));
        if let Some(view) = &mut session.context {
            view.segments.iter_mut().for_each(|segment| segment.source = self.text(&segment.source));
            view.next_cuts.iter_mut().for_each(|cut| *cut = self.text(cut));
        }
        session
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        ids::{CallId, SessionId, TurnId},
        item::{Item, ItemBody, ItemStatus},
        tool::ToolCall,
    };

    use super::*;

    fn completed(body: ItemBody) -> Event {
        let item = Item::new(TurnId::generate(), body);
        let kind = EventKind::ItemCompleted { item, status: ItemStatus::Done };
        Event { session_id: SessionId::generate(), turn_id: None, seq: 1, at: Timestamp::UNIX_EPOCH, kind }
    }

    #[test]
    fn secrets_go_from_words_and_arguments_and_the_rest_stays() {
        let redactor = Redactor::default();
        let said = completed(ItemBody::AgentMessage { text: "export API_KEY=hunter22 and go on".to_owned() });
        let masked = serde_json::to_string(&redactor.event(said)).unwrap();
        assert!(!masked.contains("hunter22") && masked.contains("and go on"), "{masked}");
        let mut call = ToolCall {
            call_id: CallId::generate(),
            name: "http_fetch".to_owned(),
            arguments: r#"{"password": "hunter 22", "url": "https://a.b/c"}"#.to_owned(),
        };
        call = match redactor.event(completed(ItemBody::ToolCall(call))).kind {
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolCall(call), .. }, .. } => call,
            other => panic!("{other:?}"),
        };
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(arguments, serde_json::json!({"password": "[redacted]", "url": "https://a.b/c"}));
        let plain = completed(ItemBody::AgentMessage { text: "{\"max_tokens\":  5}".to_owned() });
        assert_eq!(redactor.event(plain.clone()), plain);
    }
}

//! Questions of the model to a person: as a form where the editor has forms, else in words that the next message answers.

use agent_client_protocol_schema::v1::SessionId;
use agentd_core::{
    interrupt::{Answer, Ask, Interrupt},
    visible,
};
use serde_json::{Value, json};

use super::peer::Outcome;
use crate::{render::asking, report::short_id};

/// The parameters of the form for a question; none where it is none.
pub(super) fn form(session: &SessionId, call: Option<&str>, interrupt: &Interrupt) -> Option<Value> {
    let Ask::Question { question, context, default, required, choices, .. } = &interrupt.ask else { return None };
    // Editors show what is typed into a form, and may keep it.
    if interrupt.ask.is_secret() {
        return None;
    }
    let mut message = visible::lines(question.trim());
    if let Some(context) = context {
        message.push_str(&format!("\n\n{}", visible::lines(context)));
    }
    // A choice is sent back to the letter, so it is shown to the letter.
    let is_plain = !choices.is_empty() && choices.iter().all(|choice| visible::line(choice) == *choice);
    let (properties, needed) = if is_plain {
        let other = json!({"type": "string", "title": "Other answer", "description": "In place of the choice"});
        (json!({"choice": {"type": "string", "title": "Answer", "enum": choices}, "other": other}), Vec::new())
    } else {
        let mut answer = json!({"type": "string", "title": "Answer"});
        // The person sends back what stands in the field.
        if let Some(default) = default.as_ref().filter(|default| visible::is_plain(default)) {
            answer["default"] = json!(default);
        }
        let needed = if *required && default.is_none() { vec!["answer"] } else { Vec::new() };
        (json!({"answer": answer}), needed)
    };
    let mut params = json!({
        "mode": "form",
        "sessionId": session,
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": needed},
    });
    if let Some(call) = call {
        params["toolCallId"] = json!(call);
    }
    Some(params)
}

/// The answer that a form gave; none where the question stays open.
pub(super) fn answer(outcome: &Outcome) -> Option<Answer> {
    let response = outcome.as_ref().ok()?;
    match response["action"].as_str()? {
        "accept" => {
            let content = &response["content"];
            let field = |name: &str| content[name].as_str().map(str::trim).filter(|text| !text.is_empty());
            let text = field("other").or_else(|| field("choice")).or_else(|| field("answer")).unwrap_or_default();
            Some(Answer::Text { text: text.to_owned() })
        }
        "decline" => Some(Answer::Reject { reason: None }),
        _ => None,
    }
}

/// The question in words, with the ways to answer it.
pub(super) fn words(interrupt: &Interrupt) -> Option<String> {
    let Ask::Question { question, context, default, choices, .. } = &interrupt.ask else { return None };
    let mut text = format!("\n\n**{}**\n", visible::lines(question.trim()));
    if let Some(context) = context {
        text.push_str(&format!("\n{}\n", visible::lines(context)));
    }
    for choice in asking::choices(choices) {
        text.push_str(&format!("\n- {choice}"));
    }
    if let Some(default) = default {
        text.push_str(&format!("\n\nWithout an answer: {}", visible::line(default)));
    }
    let number = if choices.is_empty() { "" } else { " (a number chooses)" };
    let id = short_id(interrupt.id);
    Some(format!(
        "{text}\n\nYour next message is the answer{number}; or `agentctl answer {id} 'TEXT'` in a terminal.\n"
    ))
}

/// The way to answer a question for a secret, which is none for an editor: it would show and keep what is typed.
pub(super) fn secret_words(interrupt: &Interrupt) -> Option<String> {
    let Ask::Question { question, context, .. } = &interrupt.ask else { return None };
    let context = context.as_deref().map(|context| format!("\n{}\n", visible::lines(context))).unwrap_or_default();
    let id = short_id(interrupt.id);
    Some(format!(
        "\n\n**{}**\n{context}\nType it in a terminal, which does not show it: `agentctl answer {id}`\n",
        visible::lines(question.trim())
    ))
}

/// The ways to answer what an editor has put off.
pub(super) fn put_off(interrupt: &Interrupt) -> String {
    let id = short_id(interrupt.id);
    let what = match interrupt.ask {
        Ask::Approval { .. } => format!("`agentctl answer {id} approve` or `reject`"),
        Ask::Question { .. } => format!("`agentctl answer {id} 'TEXT'`"),
    };
    format!("\n\nThe question is still open: {what} in a terminal answers it. The turn waits; cancelling ends it.\n\n")
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        ids::{InterruptId, SessionId as Id, TurnId},
    };

    use super::*;

    fn asked(choices: &[&str], default: Option<&str>, required: bool) -> Interrupt {
        Interrupt {
            id: InterruptId::generate(),
            session_id: Id::generate(),
            turn_id: TurnId::generate(),
            call_id: None,
            asked_by: Default::default(),
            ask: Ask::Question {
                secret: false,
                question: "Which colour?".to_owned(),
                context: Some("For the door".to_owned()),
                default: default.map(str::to_owned),
                required,
                choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
            },
            raised_at: Timestamp::now(),
            deadline: None,
            on_deadline: None,
        }
    }

    #[test]
    fn a_form_asks_for_a_choice_or_for_words() {
        let session = SessionId::new("s");
        let of = |interrupt: &Interrupt| form(&session, Some("c"), interrupt).unwrap();
        let choice = of(&asked(&["red", "green"], None, true));
        assert_eq!(choice["requestedSchema"]["properties"]["choice"]["enum"], json!(["red", "green"]));
        assert_eq!((&choice["message"], &choice["toolCallId"]), (&json!("Which colour?\n\nFor the door"), &json!("c")));
        let open = of(&asked(&[], Some("red"), true));
        assert_eq!(open["requestedSchema"]["properties"]["answer"]["default"], "red");
        assert_eq!(open["requestedSchema"]["required"], json!([]));
        assert_eq!(of(&asked(&[], None, true))["requestedSchema"]["required"], json!(["answer"]));
        // One that looks like another is typed.
        assert!(of(&asked(&["a\u{200b}"], None, true))["requestedSchema"]["properties"]["answer"].is_object());
    }

    #[test]
    fn forms_give_answers() {
        let check = |outcome: Value, expected: Option<Answer>| assert_eq!(answer(&Ok(outcome)), expected);
        let text = |text: &str| Some(Answer::Text { text: text.to_owned() });
        check(json!({"action": "accept", "content": {"choice": "red"}}), text("red"));
        check(json!({"action": "accept", "content": {"choice": "red", "other": " blue "}}), text("blue"));
        check(json!({"action": "accept", "content": {"answer": "words"}}), text("words"));
        check(json!({"action": "accept"}), text(""));
        check(json!({"action": "decline"}), Some(Answer::Reject { reason: None }));
        check(json!({"action": "cancel"}), None);
        check(json!({"action": "_other"}), None);
        assert_eq!(answer(&Err(json!({}))), None);
    }

    #[test]
    fn words_tell_all_ways() {
        let interrupt = asked(&["red", "green"], Some("red"), false);
        let words = words(&interrupt).unwrap();
        for part in [
            "**Which colour?**",
            "For the door",
            "1  red",
            "Without an answer: red",
            "Your next message",
            "agentctl answer",
        ] {
            assert!(words.contains(part), "{part} in {words}");
        }
        assert!(put_off(&interrupt).contains("'TEXT'"));
    }
}

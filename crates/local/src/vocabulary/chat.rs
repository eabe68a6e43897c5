//! How models of the family write the turns of a conversation.
//!
//! The file's own template is not run. SmolLM2's would slip in a system message of its own ("You are a helpful AI
//! assistant named SmolLM, …"), and with that one the model answers plain questions with nonsense. The family knows
//! four ways to write a turn, and the template is read only to tell which.

use std::collections::HashMap;

use super::Prompt;
use crate::error::RunError;

/// A way to write turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChatFormat {
    /// `<|im_start|>user … <|im_end|>`: SmolLM2 and many others.
    ChatMl,
    /// `<|start_header_id|>user<|end_header_id|> … <|eot_id|>`: Llama 3.
    Headers,
    /// `<|user|> … </s>`: TinyLlama.
    Tags,
    /// `[INST] … [/INST]`: Llama 2 and Mistral.
    Instructions,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) text: String,
}

impl Turn {
    pub(crate) fn system(text: impl Into<String>) -> Self {
        Self { role: Role::System, text: text.into() }
    }

    pub(crate) fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, text: text.into() }
    }
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl ChatFormat {
    /// Tells the format by the control tokens there are, and by the template where these do not tell.
    pub(crate) fn detect(controls: &HashMap<String, u32>, template: &str) -> Self {
        if controls.contains_key("<|im_start|>") {
            Self::ChatMl
        } else if controls.contains_key("<|start_header_id|>") {
            Self::Headers
        } else if template.contains("<|user|>") {
            Self::Tags
        } else {
            Self::Instructions
        }
    }

    /// Returns whether prompts begin with the start token where the file does not say.
    pub(crate) fn wants_start(self) -> bool {
        self != Self::ChatMl
    }

    /// Writes the turns, and the head of the answer that the model shall give.
    pub(crate) fn write<'a>(self, mut prompt: Prompt<'a>, turns: &[Turn]) -> Result<Prompt<'a>, RunError> {
        for turn in turns {
            prompt = self.write_head(prompt, turn.role)?;
            prompt = match (self, turn.role) {
                (Self::ChatMl, _) => prompt.text(&turn.text).control("<|im_end|>")?.text("\n"),
                (Self::Headers, _) => prompt.text(turn.text.trim()).control("<|eot_id|>")?,
                (Self::Tags, _) => prompt.text(&turn.text).control("</s>")?.text("\n"),
                (Self::Instructions, Role::System) => prompt.text(&turn.text).text("\n\n"),
                (Self::Instructions, Role::User) => prompt.text(&turn.text).text(" [/INST]"),
                (Self::Instructions, Role::Assistant) => prompt.text(&turn.text).control("</s>")?,
            };
        }
        self.write_head(prompt, Role::Assistant)
    }

    fn write_head(self, prompt: Prompt<'_>, role: Role) -> Result<Prompt<'_>, RunError> {
        let name = role.as_str();
        Ok(match (self, role) {
            (Self::ChatMl, _) => prompt.control("<|im_start|>")?.text(name).text("\n"),
            (Self::Headers, _) => {
                prompt.control("<|start_header_id|>")?.text(name).control("<|end_header_id|>")?.text("\n\n")
            }
            (Self::Tags, _) => prompt.text("<|").text(name).text("|>\n"),
            (Self::Instructions, Role::Assistant) => prompt.text(" "),
            (Self::Instructions, Role::System | Role::User) => prompt.text("[INST] "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_told_by_the_tokens_first() {
        let check = |control: &str, template: &str, expected: ChatFormat| {
            let controls = HashMap::from([(control.to_owned(), 1)]);
            assert_eq!(ChatFormat::detect(&controls, template), expected, "{control} {template}");
        };
        check("<|im_start|>", "<|user|>", ChatFormat::ChatMl);
        check("<|start_header_id|>", "", ChatFormat::Headers);
        check("</s>", "{{ '<|user|>' }}", ChatFormat::Tags);
        check("</s>", "[INST]", ChatFormat::Instructions);
    }
}

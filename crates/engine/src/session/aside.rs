//! Requests beside the turns: side questions of users, and the title of a new session.
//!
//! Such a request has the prefix of the session's next request (instructions, tools, history), so that the provider
//! finds it in its cache, and one more message at the end. Its answer is not added to the history. The requests run in
//! tasks of the actor, which records their usage, and end with the actor.

use std::time::Duration;

use agentd_context::{RequestBuilder, ToolSet, history, meter, tokens};
use agentd_core::{
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    event::StateChange,
    exchange::ExchangePurpose,
    model::{Finish, Message, ModelRequest},
    ports::FallbackModel,
    visible,
};
use tokio::task::JoinError;

use crate::{
    catalog::MentionedTools,
    error::{EngineError, refuse_if},
    links,
    session::{
        actor::{Actor, Fault, state::TitleState},
        settings::named_client,
    },
    turn::aside::{Aside, AsideEnd, SideAnswer, SidePart},
};

/// Maximum number of requests beside the turns that run at the same time in a session.
const MAX_ASIDES: usize = 4;
/// Maximum size of a side question, in bytes.
const MAX_QUESTION: usize = 64 << 10;
/// Token limit for the answer to a side question.
const ANSWER_TOKENS: u64 = 4096;
/// Token limit for a title. A reasoning model spends most of this limit on reasoning.
const TITLE_TOKENS: u64 = 512;
/// Maximum length of a generated title, in characters.
const MAX_TITLE: usize = 60;
/// Time limit for an answer.
const TIME_LIMIT: Duration = Duration::from_secs(300);

const QUESTION_PROMPT: &str = "This is a side question of the user. Answer it in text, from what you know and from the \
    conversation so far, which continues afterwards without this question and its answer. Do not call any tools, and \
    do not continue the work. Calls without a result may still be running or wait for approval.";
const TITLE_PROMPT: &str = "Write a title for this conversation, in the language of the user: at most 60 characters, one \
    line, without quotes. Answer with the title only, and do not call any tools.";

impl Actor {
    /// Asks the session's model a side question. Returns the parts of its answer.
    pub(crate) async fn side_question(&mut self, question: String, client: String) -> Result<SideAnswer, Fault> {
        if self.draining.is_some() {
            return Err(EngineError::stopping().into());
        }
        let (is_empty, bytes) = (question.trim().is_empty(), question.len());
        refuse_if(is_empty, || "the question is empty", "ask something: /btw QUESTION")?;
        let size = || format!("the question has {bytes} bytes; at most {MAX_QUESTION} are allowed");
        refuse_if(bytes > MAX_QUESTION, size, "send it as a message, with the text in a file")?;
        if self.asides.len() >= MAX_ASIDES {
            let message = format!("{MAX_ASIDES} side questions of this session wait for their answers");
            return Err(EngineError::busy(message, "wait until one is answered, or cancel one").into());
        }
        let prompt = format!("{QUESTION_PROMPT}\n\n{question}");
        let aside = self.aside(prompt, ExchangePurpose::SideQuestion, ANSWER_TOKENS).await?;
        let (model, by) = (aside.model.info().id.clone(), named_client(&client));
        let (now, audit) = (self.shared.ports.clock.now(), &self.shared.ports.audit);
        audit.note(AuditEntry::of_session(now, self.id, AuditFact::SideQuestion { question, model, by })).await;
        Ok(self.asides.ask(aside))
    }

    /// Asks the model for a title if the session has none of the user. Without one, the first words stay the title.
    pub(crate) async fn request_title(&mut self) {
        let is_due = self.state.title == TitleState::Due && self.shared.config().titles;
        if !is_due || self.draining.is_some() || self.asides.len() >= MAX_ASIDES {
            return;
        }
        self.state.title = TitleState::Requested;
        match self.aside(TITLE_PROMPT.to_owned(), ExchangePurpose::Title, TITLE_TOKENS).await {
            Ok(aside) => self.asides.send(aside),
            Err(error) => tracing::debug!(session = %self.id, "no title was requested: {error}"),
        }
    }

    /// Builds a request with the prefix of the session's next request, and `prompt` at its end.
    async fn aside(&mut self, prompt: String, purpose: ExchangePurpose, max_tokens: u64) -> Result<Aside, EngineError> {
        if self.open.is_none() {
            self.load_project_agents().await?;
        }
        let (workspace, config, agent) = (self.workspace().await?, self.shared.config(), self.active_agent());
        let choice = match &self.open {
            Some(_) => self.active_choice(),
            None => self.choose(None, &[], None).of_agent(agent.own_slot()),
        };
        self.check_model(choice.slot)?;
        let fallback = self.open.as_ref().and_then(|open| open.fallback.clone());
        let fallback = fallback.or_else(|| self.immediate_fallback(choice.slot).map(|(fallback, _)| fallback));
        let (slot, model) = match fallback {
            Some(FallbackModel { slot, model }) => (slot, model),
            None => (choice.slot, self.model(choice.slot)),
        };
        let info = model.info();
        if info.embedded {
            let message = "the built-in model answers no side questions";
            return Err(EngineError::new(ErrorKind::Configuration, message)
                .with_hint("connect a model with `agentctl models add`, or send the question as a message"));
        }
        if !model.is_known() {
            self.look_up(choice).await;
        }
        let items = self.state.visible_history();
        let finder = self.finder(&MentionedTools::new(), choice.slot, self.has_pictures(&[]), &items);
        let system = self.system(&agent.instructions(&config), &finder, &workspace);
        let tools = if model.can_forbid_calls() { finder.tools() } else { ToolSet::none() };
        let sizes = items.iter().map(|item| meter::guess(item, info.echo_reasoning));
        let size = sizes.sum::<u64>() + tools.print.tokens + tokens::estimate(&system) + tokens::estimate(&prompt);
        let budget = config.turn_token_budget.map(|budget| budget.saturating_sub(size));
        let max_tokens = budget.into_iter().chain([max_tokens]).min().unwrap_or_default();
        if max_tokens == 0 {
            let message = format!("the question needs about {size} tokens, more than turns.token_budget allows");
            return Err(EngineError::invalid(message, "shorten the history with /compact, or raise the budget"));
        }
        let system = Message::System { text: system };
        // Pictures are not loaded, so they are not sent.
        let history = history::messages(&items, info.echo_reasoning);
        let messages = [system].into_iter().chain(history).chain([Message::User { text: prompt }]);
        let messages = links::repair(messages.collect());
        let (known_paths, agent) = (Vec::new(), agent.name().to_owned());
        let draft = RequestBuilder { messages, tools, may_call: false, answer_schema: None, known_paths, agent };
        let tap = self.tap(purpose, &draft.agent);
        let (request, _) = draft.seal(self.id);
        let request = ModelRequest { max_tokens: Some(max_tokens), tap, ..request };
        let time = config.turn_time_limit.into_iter().chain([TIME_LIMIT]).min().unwrap_or(TIME_LIMIT);
        Ok(Aside { slot, model, request, time })
    }

    /// Records the usage of a request that has ended, and sends the end of the answer or sets the title.
    pub(crate) async fn aside_ended(&mut self, ended: Result<AsideEnd, JoinError>) -> Result<(), Fault> {
        let AsideEnd { slot, model, cost, answer, last } = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(session = %self.id, "a request beside the turns failed: {error}");
                return Ok(());
            }
        };
        let usage = cost.spent;
        self.commit(None, vec![cost.event(slot, model.clone())]).await?;
        if let Some(last) = last {
            let done =
                |(_, finish): (String, Finish)| SidePart::Done { model, usage, truncated: finish != Finish::Stop };
            last.send(answer.map(done));
            return Ok(());
        }
        if self.state.title != TitleState::Requested {
            // The user has renamed the session in the meantime.
            return Ok(());
        }
        self.state.title = TitleState::Settled;
        match answer.map(|(text, finish)| (finish == Finish::Stop).then(|| title_of(&text)).flatten()) {
            Ok(Some(title)) => self.change(StateChange::Title { title }).await,
            Ok(None) => Ok(()),
            Err(error) => {
                tracing::info!(session = %self.id, "the model made no title: {error}");
                Ok(())
            }
        }
    }
}

/// Returns the title in an answer: its first line, without markup and hidden characters.
fn title_of(answer: &str) -> Option<String> {
    let is_markup = |c: char| c.is_whitespace() || "\"'`*#_“”„«»".contains(c);
    let line = answer.lines().map(|line| line.trim_matches(is_markup)).find(|line| !line.is_empty())?;
    let words: Vec<&str> = line.split(|c: char| c == ' ' || visible::is_hidden(c)).filter(|w| !w.is_empty()).collect();
    let title = words.join(" ");
    if title.chars().count() <= MAX_TITLE {
        return Some(title).filter(|title| !title.is_empty());
    }
    let cut: String = title.chars().take(MAX_TITLE - 1).collect();
    Some(format!("{}…", cut.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_short_clean_line() {
        #[track_caller]
        fn check(answer: &str, title: Option<&str>) {
            assert_eq!(title_of(answer).as_deref(), title, "{answer:?}");
        }
        check("Tidy the barn", Some("Tidy the barn"));
        check("\n\n**\"Tidy  the\tbarn\"**\nIt is about a barn.", Some("Tidy the barn"));
        check("# Die Größe der Scheune", Some("Die Größe der Scheune"));
        check("a\u{1b}[2Jb\u{202e}c", Some("a [2Jb c"));
        check(&"x".repeat(60), Some(&"x".repeat(60)));
        check(&"x ".repeat(40), Some(&format!("{}x…", "x ".repeat(29))));
        check(" \n\t", None);
        check("\"\"", None);
        check("\u{202e}", None);
    }
}

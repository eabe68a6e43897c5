//! A turn that wrote todos and ends with open ones is asked once to finish them, or to say why not.

use agentd_core::{
    ids::TurnId,
    item::{Item, ItemBody},
    session::{SessionMode, Todo, TodoStatus},
};
use futures_util::FutureExt as _;

use crate::turn::{
    Phase, TurnContext, TurnState,
    hooks::{Hook, Link},
    unusable::BegunAnswer,
};

/// Beginning of what the model is told, by which it is known that it was.
const ASKED: &str = "Your answer would end the work, but your todo list is not done";

/// The todos that are named.
const MAX_NAMED: usize = 5;

/// Characters of one that are told.
const MAX_SHOWN: usize = 120;

pub(crate) struct OpenTodos;

impl Link for OpenTodos {
    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        async move {
            let ends = state.phase == Phase::Working && state.pending_calls.is_empty();
            let Some(answer) = state.answer.as_deref().filter(|_| ends) else { return Ok(()) };
            let open = open(&state.todos);
            if open.is_empty() || asks_the_person(answer) || context.rules.grants.mode() == SessionMode::Plan {
                return Ok(());
            }
            let of_turn = || state.history.iter().rev().map(AsRef::as_ref).filter(|item| is_of(item, context.ids.turn));
            // A turn of words alone may be about anything.
            let asked = notice(&open);
            // A list that was asked about, and did not change since, is asked about no more.
            let was_asked_so = || state.history.iter().any(|item| says(item, &asked));
            if !of_turn().any(works) || of_turn().any(was_asked) || was_asked_so() {
                return Ok(());
            }
            let message = format!("the turn would end with {} open; the model is asked about them", count(open.len()));
            let notice = ItemBody::advice(asked);
            context.recorder.warn("open_todos", message).await?;
            context.tell(state, notice).await?;
            // What it says now stands below what it has said, unless it works on.
            match context.answer_form {
                None => state.begin_answer(BegunAnswer::Whole),
                // A document is one by itself: it is given again.
                Some(_) => state.answer = None,
            }
            Ok(())
        }
        .boxed()
    }
}

fn is_of(item: &Item, turn: TurnId) -> bool {
    item.turn_id == turn
}

fn says(item: &Item, words: &str) -> bool {
    matches!(&item.body, ItemBody::Notice { text, .. } if text == words)
}

fn works(item: &Item) -> bool {
    matches!(item.body, ItemBody::ToolResult(_))
}

fn was_asked(item: &Item) -> bool {
    matches!(&item.body, ItemBody::Notice { text, .. } if text.starts_with(ASKED))
}

fn open(todos: &[Todo]) -> Vec<&Todo> {
    todos.iter().filter(|todo| todo.status != TodoStatus::Completed).collect()
}

fn count(open: usize) -> String {
    if open == 1 { "1 todo".to_owned() } else { format!("{open} todos") }
}

fn notice(open: &[&Todo]) -> String {
    let named = open.iter().take(MAX_NAMED).map(|todo| {
        let shown: String = todo.content.chars().take(MAX_SHOWN).collect();
        format!("{}. {shown}", todo.id)
    });
    let named: Vec<String> = named.collect();
    let more = open.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    format!(
        "{ASKED}: {} open: {}{more}. Do what is left now, and keep the list up to date. If something cannot or should \
         not be done, say why in a sentence: your answer above stands, so do not repeat it.",
        count(open.len()),
        named.join("; ")
    )
}

/// Returns whether an answer ends in a question: then it is the person's turn.
fn asks_the_person(answer: &str) -> bool {
    const MARKS: [char; 3] = ['?', '？', '؟'];
    let mut last = answer.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(3);
    last.any(|line| {
        let ends = line.trim_end_matches(|letter: char| !letter.is_alphanumeric() && !MARKS.contains(&letter));
        ends.ends_with(MARKS) || line.contains("? ") || line.contains('？')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_for_the_person() {
        let check = |answer: &str, expected| assert_eq!(asks_the_person(answer), expected, "{answer}");
        check("Done.", false);
        check("Shall I go on?", true);
        check("Shall I go on?\n", true);
        check("**Which one do you want?**", true);
        check("I did a and b. Which one next? Tell me.", true);
        check("Which one?\n\n- left\n- right", true);
        check("要继续吗？", true);
        check("Why was it slow? I looked.\n\nIt was the disk.\n\nI fixed it.\n\nAll is well.", false);
        check("", false);
    }

    #[test]
    fn the_open_ones_are_named() {
        let todo = |id: &str, status| Todo {
            id: id.to_owned(),
            content: format!("do {id}"),
            status,
            priority: Default::default(),
        };
        let mut todos = vec![todo("1", TodoStatus::Completed), todo("2", TodoStatus::InProgress)];
        assert!(notice(&open(&todos)).contains("1 todo open: 2. do 2. Do what"), "{}", notice(&open(&todos)));
        todos.extend((3..10).map(|id| todo(&id.to_string(), TodoStatus::Pending)));
        assert!(
            notice(&open(&todos)).contains("8 todos open: 2. do 2; 3. do 3; 4. do 4; 5. do 5; 6. do 6 (and 3 more)")
        );
        assert!(open(&todos[..1]).is_empty());
    }
}

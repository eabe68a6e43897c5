//! The steps of a plan, as a todo list. Pure.

use agentd_core::session::{Todo, TodoPriority, TodoStatus};

/// Steps of a plan at the most; what comes behind them is in the last one.
const MAX_STEPS: usize = 50;

/// Characters of a step that are kept.
const MAX_STEP: usize = 300;

/// The steps: the items of the plan's first list, those of the outermost level; the first line where it has no list.
pub(super) fn todos(plan: &str) -> Vec<Todo> {
    let mut steps = listed(plan, is_numbered);
    if steps.is_empty() {
        steps = listed(plan, |item| item.starts_with("- ") || item.starts_with("* "));
    }
    if steps.is_empty() {
        let line = plan.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        steps.extend(line.map(str::to_owned));
    }
    let todo = |(at, step): (usize, String)| Todo {
        id: (at + 1).to_string(),
        content: step.chars().take(MAX_STEP).collect(),
        status: TodoStatus::Pending,
        priority: TodoPriority::Medium,
    };
    steps.into_iter().take(MAX_STEPS).enumerate().map(todo).collect()
}

/// The items of lists of that kind, without fences and without what is indented below another item.
fn listed(plan: &str, is_item: impl Fn(&str) -> bool) -> Vec<String> {
    let (mut inside, mut level, mut items) = (false, None, Vec::new());
    for line in plan.lines() {
        let text = line.trim_start();
        if text.starts_with("```") || text.starts_with("~~~") {
            inside = !inside;
            continue;
        }
        let indent = line.len() - text.len();
        if inside || !is_item(text) || level.is_some_and(|level| indent > level) {
            continue;
        }
        level.get_or_insert(indent);
        let content = text.trim_start_matches(|char: char| char.is_ascii_digit());
        let content = content.trim_start_matches(['.', ')', '-', '*', ' ']);
        let content = content.trim_start_matches("[ ]").trim_start_matches("[x]").replace("**", "");
        if !content.trim().is_empty() {
            items.push(content.trim().to_owned());
        }
    }
    items
}

fn is_numbered(item: &str) -> bool {
    let behind = item.trim_start_matches(|char: char| char.is_ascii_digit());
    behind.len() < item.len() && (behind.starts_with(". ") || behind.starts_with(") "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(plan: &str, expected: &[&str]) {
        let steps: Vec<String> = todos(plan).into_iter().map(|todo| todo.content).collect();
        assert_eq!(steps, expected, "{plan}");
    }

    #[test]
    fn the_steps_are_the_items_of_the_outermost_list() {
        check(
            "# Plan\n\n1. Read `a.rs`\n2. **Change** it\n   - the first part\n   1. and more\n3) Test",
            &["Read `a.rs`", "Change it", "Test"],
        );
        check("- [ ] one\n- two\n  - below\n* three", &["one", "two", "three"]);
        check("Notes:\n- not this\n\n1. this", &["this"]);
        check("```\n1. no step\n```\n1. a step", &["a step"]);
        check("# Plan\nI would just do it.", &["I would just do it."]);
        check("  \n", &[]);
        check("1.5 is a number", &["1.5 is a number"]);
    }

    #[test]
    fn a_plan_without_end_is_cut() {
        let plan: String = (1..=200).map(|at| format!("{at}. {}\n", "long ".repeat(200))).collect();
        let todos = todos(&plan);
        assert_eq!(todos.len(), MAX_STEPS);
        assert!(todos.iter().all(|todo| todo.content.chars().count() <= MAX_STEP));
        assert_eq!(todos[49].id, "50");
    }

    proptest! {
        #[test]
        fn any_text_is_a_plan(text in "([0-9]{0,3}[.) -]{0,2}|\n| {0,3}|```|[a-zä]{1,3}){0,60}") {
            for todo in todos(&text) {
                prop_assert!(!todo.content.trim().is_empty());
            }
        }
    }
}

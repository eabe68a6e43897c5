//! From scores to a choice.

use super::candidates::{Choice, Tool};

/// Margin by which a tool must be likelier to make the request than chatting is, as a logarithm. A tool that was not
/// wanted disturbs more than words where a tool was wanted: the person simply asks again.
const MARGIN: f64 = 1.5;

/// Margin by which reading may be less likely than other choices when the request names a file that exists.
const NAMED_FILE: f64 = 6.0;
/// Margin by which it has to be likelier when no such file is known: then looking for it may help more.
const UNKNOWN_FILE: f64 = -2.5;

/// Chooses, given the score of each candidate. `names_file` tells whether the request names a file that exists.
pub(crate) fn decide(scores: &[(Choice, f64)], names_file: bool) -> Choice {
    let chat = scores.iter().filter(|(choice, _)| *choice == Choice::Chat).map(|(_, score)| *score);
    let chat = chat.fold(f64::NEG_INFINITY, f64::max);
    let tool = scores
        .iter()
        .filter_map(|(choice, score)| match choice {
            Choice::Tool(tool) => Some((*tool, score + bonus(*tool, names_file))),
            Choice::Chat => None,
        })
        .max_by(|a, b| a.1.total_cmp(&b.1));
    match tool {
        Some((tool, score)) if score > chat + MARGIN => Choice::Tool(tool),
        _ => Choice::Chat,
    }
}

fn bonus(tool: Tool, names_file: bool) -> f64 {
    match tool {
        Tool::ReadFile if names_file => NAMED_FILE,
        Tool::ReadFile => UNKNOWN_FILE,
        Tool::ListFiles | Tool::Now | Tool::FindFiles | Tool::Grep | Tool::SearchFile => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_score_wins_by_a_margin() {
        use Choice::{Chat, Tool as Call};
        let check = |scores: &[(Choice, f64)], names_file: bool, expected: Choice| {
            assert_eq!(decide(scores, names_file), expected, "{scores:?}");
        };
        let (now, read, list) = (Call(Tool::Now), Call(Tool::ReadFile), Call(Tool::ListFiles));
        check(&[], false, Chat);
        check(&[(now, -5.0)], false, now);
        check(&[(now, -5.0), (Chat, -9.0)], false, now);
        check(&[(now, -5.0), (Chat, -6.0)], false, Chat);
        check(&[(now, -5.0), (Chat, -30.0), (Chat, -4.0)], false, Chat);
        check(&[(read, -10.0), (list, -8.0), (Chat, -20.0)], false, list);
        check(&[(read, -10.0), (list, -8.0), (Chat, -20.0)], true, read);
        check(&[(read, -20.0), (list, -8.0), (Chat, -30.0)], true, list);
        let find = Call(Tool::FindFiles);
        check(&[(read, -8.0), (find, -10.0), (Chat, -30.0)], false, find);
        check(&[(read, -8.0), (find, -12.0), (Chat, -30.0)], false, read);
    }
}
